"""Model folders to render with: `burnish/tiny`, and a small true BPE under any chat template."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from chat_folders import CONTROL, QWEN3
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

from burnish.models.tiny import build_tiny


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    build_tiny(folder)
    return folder


@pytest.fixture(scope="session")
def bpe_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str | None], Path]:
    """A folder whose tokenizer merges bytes as GPT-2's does, with the chat template that is asked for."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(
        vocab_size=700, show_progress=False, initial_alphabet=ByteLevel.alphabet(), special_tokens=list(CONTROL)
    )
    tokenizer.train_from_iterator([QWEN3, *Path(__file__).read_text().split()], trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in CONTROL])
    made: dict[str | None, Path] = {}

    def folder(template: str | None) -> Path:
        if template not in made:
            place = tmp_path_factory.mktemp("models") / "bpe"
            place.mkdir()
            tokenizer.save(str(place / "tokenizer.json"))
            config = {"eos_token": "<|im_end|>", "bos_token": None, "chat_template": template}
            (place / "tokenizer_config.json").write_text(json.dumps(config))
            made[template] = place
        return made[template]

    return folder
