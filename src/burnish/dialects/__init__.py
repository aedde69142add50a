"""Ways of asking: a config's text becomes a `TrainSpec`, or a refusal in the user's own keys.

Each dialect lives in a module of its own; this one only tells them apart.
"""

from collections.abc import Callable

from burnish.dialects.document import Document, read_toml
from burnish.dialects.masking import mask_secrets
from burnish.dialects.prime import read_prime
from burnish.dialects.reading import Reading
from burnish.dialects.synth_clashes import find_clashes
from burnish.errors import ConfigError

__all__ = ["Reading", "mask_secrets", "read_config"]

_DIALECTS: dict[str, Callable[[Document], Reading]] = {"prime": read_prime}

_STRANGERS = (
    (("algorithm", "job", "hyperparameters", "policy"), "Synth's", "an sft.toml as Prime's hosted SFT takes it"),
    (("orchestrator", "trainer"), "one for reinforcement learning", "a config for supervised fine-tuning: [data]"),
)
"""Sections that only another dialect has, whose it is, and what to send instead."""


def read_config(text: str, dialect: str | None = None) -> Reading:
    """Read the config in the named dialect, or in the one that it is evidently written in.

    Raises `ConfigError`: with line and column where the text is not TOML, else with every key at fault.
    """
    if dialect is not None and dialect not in _DIALECTS:
        raise ConfigError(f"{dialect!r} is not a dialect that burnish reads.", hint=f"Use {' or '.join(_DIALECTS)}.")
    document = read_toml(text)
    return _DIALECTS[dialect or _recognise(document)](document)


def _recognise(document: Document) -> str:
    for sections, whose, instead in _STRANGERS:
        found = [f"[{section}]" for section in sections if isinstance(document.get(section), dict)]
        if found:
            clashes = find_clashes(document)
            torn = f" And {len(clashes)} of its options contradict each other: {'; '.join(clashes)}." if clashes else ""
            raise ConfigError(
                f"This config is {whose}, by its {' and '.join(found)}: burnish does not read that dialect yet.{torn}",
                hint=f"Send {instead}.",
            )
    return "prime"
