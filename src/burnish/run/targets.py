"""What a name under `target_modules` or `modules_to_save` means. From paths alone; knows no tensor and no file.

prime-rl's rule: a plain word is any part of a path; one with a metacharacter is a regular expression to be found in it.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches

_METACHARACTERS = frozenset(".*+?^$[]{}|()\\")


def is_pattern(wished: str) -> bool:
    return not _METACHARACTERS.isdisjoint(wished)


def pattern_fault(wished: str) -> str:
    """Why `wished` is no regular expression; empty where it is one, or a plain word."""
    if not is_pattern(wished):
        return ""
    try:
        re.compile(wished)
    except re.error as error:
        return str(error)
    return ""


def means(wished: str, path: str) -> bool:
    """`q_proj` and `self_attn` both mean `model.layers.0.self_attn.q_proj`; so does `layers\\.0\\..*q_proj$`."""
    if is_pattern(wished):
        return re.search(wished, path) is not None
    return wished in path.split(".")


def nearest_names(wished: str, paths: Iterable[str]) -> list[str]:
    """Up to three parts of `paths` that look like `wished`, the likest first."""
    parts = {part for path in paths for part in path.split(".") if not part.isdigit()}
    return get_close_matches(wished, sorted(parts), n=3, cutoff=0.6)
