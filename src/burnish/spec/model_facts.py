"""What a model's `config.json` tells, without touching its weights."""

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from burnish.errors import ModelError

Count = Annotated[int, Field(ge=1)]


class ModelFacts(BaseModel):
    """Shapes of a decoder. Counts are of scalars unless said otherwise."""

    model_config = ConfigDict(frozen=True)

    architecture: str
    layers: Count
    hidden: Count
    intermediate: Count
    heads: Count
    key_value_heads: Count
    head_size: Count
    vocabulary: Count
    tied_embeddings: bool
    longest_context: int | None = None

    @property
    def parameters(self) -> int:
        """All of a dense gated-MLP decoder's weights; norms included, biases not."""
        embeddings = self.vocabulary * self.hidden * (1 if self.tied_embeddings else 2)
        norms = self.hidden * (2 * self.layers + 1)
        return embeddings + norms + self.layers * self.layer_matrix_parameters

    @property
    def layer_matrix_parameters(self) -> int:
        """Weights of one block that take part in a matrix product."""
        attention = self.hidden * self.head_size * (2 * self.heads + 2 * self.key_value_heads)
        return attention + 3 * self.hidden * self.intermediate


def read_model_facts(folder: Path) -> ModelFacts:
    """Facts from `folder/config.json`; `ModelError` if it is missing or is no decoder's."""
    try:
        config = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{folder} holds no readable config.json ({error}).") from error
    try:
        return _facts(config)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ModelError(f"{folder}/config.json does not describe a text decoder ({error!r}).") from error


def _facts(config: dict[str, Any]) -> ModelFacts:
    heads = config["num_attention_heads"]
    return ModelFacts(
        architecture=(config.get("architectures") or ["unknown"])[0],
        layers=config["num_hidden_layers"],
        hidden=config["hidden_size"],
        intermediate=config["intermediate_size"],
        heads=heads,
        key_value_heads=config.get("num_key_value_heads") or heads,
        head_size=config.get("head_dim") or config["hidden_size"] // heads,
        vocabulary=config["vocab_size"],
        tied_embeddings=bool(config.get("tie_word_embeddings", False)),
        longest_context=config.get("max_position_embeddings"),
    )
