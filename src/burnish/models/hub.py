"""Fetches a model from the Hugging Face hub, or says in one sentence why it did not come.

The hub's client is imported when it is needed: half a second that a server's start need not wait for.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from burnish.errors import ModelError
from burnish.models.folder import COMPANIONS

_WANTED = ["*.safetensors", *COMPANIONS]
# fnmatch's * crosses folders: onnx/config.json and original/consolidated.safetensors are not the model.
_UNWANTED = ["*/*", "consolidated*"]


def fetch_from_hub(repository: str, directory: Path, *, environment: Mapping[str, str] = os.environ) -> None:
    """Download `repository` into `directory`, which is new. A token comes from `HF_TOKEN` or the hub's own login.

    Where the hub cannot be reached, a whole copy in the hub client's own cache does as well.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    endpoint = environment.get("HF_ENDPOINT") or None
    bookkeeping = directory / ".cache"
    try:
        snapshot_download(
            repository,
            local_dir=directory,
            cache_dir=bookkeeping / "hub",
            endpoint=endpoint,
            allow_patterns=_WANTED,
            ignore_patterns=_UNWANTED,
        )
    except Exception as error:  # the HTTP library beneath the hub client differs by version, and so do its errors
        if not (_is_unreachable(error) and _copy_from_hub_cache(repository, directory)):
            raise _explain(error, repository, endpoint or "huggingface.co") from error
    shutil.rmtree(bookkeeping, ignore_errors=True)


def _copy_from_hub_cache(repository: str, directory: Path) -> bool:
    from huggingface_hub import snapshot_download

    try:
        snapshot = Path(snapshot_download(repository, local_files_only=True, allow_patterns=_WANTED))
    except (OSError, ValueError):
        return False
    for file in snapshot.iterdir():
        if file.is_file():
            shutil.copyfile(file, directory / file.name)
    return True


def _is_unreachable(error: Exception) -> bool:
    from huggingface_hub.errors import LocalEntryNotFoundError

    return isinstance(error, (LocalEntryNotFoundError, ConnectionError))


def _explain(error: Exception, repository: str, hub: str) -> ModelError:
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

    elsewhere = f"burnish models add /path/to/folder --name {repository}"
    if isinstance(error, GatedRepoError):
        return ModelError(
            f"{repository} is gated: its owner must let you in first.",
            hint="Ask for access on its page, then start the server with HF_TOKEN set (burnish down, burnish up).",
        )
    if isinstance(error, RepositoryNotFoundError):
        return ModelError(
            f"The hub ({hub}) has no model {repository}, or it is private and the server has no key to it.",
            hint="Check the spelling; for a private model start the server with HF_TOKEN set.",
        )
    if isinstance(error, HfHubHTTPError) and error.response is not None:
        return ModelError(
            f"The hub ({hub}) answered {error.response.status_code} for {repository}.",
            hint=f"Try again later, or add it from a folder: {elsewhere}",
        )
    if _is_unreachable(error):
        return ModelError(
            f"The model hub ({hub}) cannot be reached from the server, so {repository} was not fetched.",
            hint=f"Check the network, HF_ENDPOINT and HF_HUB_OFFLINE, or add it from a folder: {elsewhere}",
        )
    return ModelError(
        f"{repository} did not come whole from the hub ({hub}): {type(error).__name__}: {error}",
        hint=f"Try again, or add it from a folder: {elsewhere}",
    )
