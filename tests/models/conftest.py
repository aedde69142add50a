"""A cache in a temporary folder, and a model folder to bring into it."""

from pathlib import Path

import pytest

from burnish.models.cache import ModelCache
from burnish.models.tiny import build_tiny


@pytest.fixture
def cache(tmp_path: Path) -> ModelCache:
    return ModelCache(tmp_path / "models")


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    """A whole Hugging Face model, as a user may have one."""
    folder = tmp_path / "mine" / "triage"
    build_tiny(folder)
    return folder
