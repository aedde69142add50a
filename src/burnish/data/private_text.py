"""Finds what looks like secrets and personal data in a text, and covers it before anybody is told. Knows no row.

Likely, not certain: a number counts where its checksum holds, a random word where it is set to a name such as
`api_key`. Nothing leaves this module in full.
"""

import ipaddress
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Find(NamedTuple):
    kind: str
    is_secret: bool
    start: int
    end: int
    shown: str
    """The first and last two letters; the rest is covered."""


class _Pattern(NamedTuple):
    kind: str
    is_secret: bool
    sign: tuple[str, ...]
    """One of these is in every text that has one, so that most texts cost no search. Small letters; none: a number."""
    search: re.Pattern[str]
    holds: Callable[[str], bool]


def find_private(text: str) -> Iterator[Find]:
    """Secrets first. What lies in something found already is not told again."""
    taken = _Spans()
    small = text.lower()
    numbers = _NUMBER.search(text) is not None
    for pattern in _PATTERNS:
        if not (any(sign in small for sign in pattern.sign) if pattern.sign else numbers):
            continue
        for found in pattern.search.finditer(text):
            start, end = found.span(found.lastindex or 0)
            if pattern.holds(text[start:end]) and taken.take(start, end):
                yield Find(pattern.kind, pattern.is_secret, start, end, _shortened(text[start:end]))


class _Spans:
    """Places in a text, none of which overlap, in order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def take(self, start: int, end: int) -> bool:
        """False if a part of it is taken."""
        place = bisect_right(self._ends, start)
        if place < len(self._starts) and self._starts[place] < end:
            return False
        self._starts.insert(place, start)
        self._ends.insert(place, end)
        return True


def cover_private(text: str) -> str:
    """The text, as long as it was, with a dot for each letter of what is private but the first and last two."""
    letters = list(text)
    for found in find_private(text):
        kept = _kept(found.end - found.start)
        letters[found.start + kept : found.end - kept] = _DOT * (found.end - found.start - 2 * kept)
    return "".join(letters)


_DOT = "•"


def _kept(length: int) -> int:
    """How many letters of each end may be told; of a short word fewer."""
    return min(2, length // 6)


def _shortened(words: str) -> str:
    """`hf_AbCdEf` -> `h…f`"""
    kept = _kept(len(words))
    return f"{words[:kept]}…{words[-kept:]}" if kept else "…"


def _always(found: str) -> bool:
    return True


def _is_random(word: str) -> bool:
    """As many different letters as chance gives, and not of one kind: `hunter2example` is none, a key is."""
    counts = Counter(word)
    bits = -sum(count / len(word) * math.log2(count / len(word)) for count in counts.values())
    kinds = sum(bool(re.search(kind, word)) for kind in ("[a-z]", "[A-Z]", "[0-9]"))
    return bits >= 3.5 and kinds >= 2


def _is_card(text: str) -> bool:
    """13 to 19 digits whose Luhn sum holds."""
    digits = [int(letter) for letter in text if letter.isdigit()]
    if not 13 <= len(digits) <= 19 or len(set(digits)) < 2:
        return False
    doubled = [2 * digit - 9 * (digit > 4) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_iban(text: str) -> bool:
    """ISO 13616: the number with its first four letters moved to the end is 1 modulo 97."""
    packed = re.sub(r"\s", "", text)
    if not 15 <= len(packed) <= 34:
        return False
    return int("".join(str(int(letter, 36)) for letter in packed[4:] + packed[:4])) % 97 == 1


def _is_ssn(text: str) -> bool:
    area, group, serial = text.split("-")
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"


def _is_public_address(text: str) -> bool:
    """Of the internet; addresses of a home network or of the machine itself are everybody's."""
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return not any(address in network for network in _NOBODYS)


_NOBODYS = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "224.0.0.0/3",
    )
)


def _is_phone(text: str) -> bool:
    return 8 <= sum(letter.isdigit() for letter in text) <= 15


def _secret(kind: str, sign: str | tuple[str, ...], search: str, holds: Callable[[str], bool] = _always) -> _Pattern:
    return _Pattern(kind, True, (sign,) if isinstance(sign, str) else sign, re.compile(search), holds)


def _personal(kind: str, sign: str | tuple[str, ...], search: str, holds: Callable[[str], bool] = _always) -> _Pattern:
    return _Pattern(kind, False, (sign,) if isinstance(sign, str) else sign, re.compile(search), holds)


_NUMBER = re.compile(r"[0-9](?:[ .()-]{0,2}[0-9]){3}")
_NAMES = ("key", "token", "secret", "passw", "pwd", "credential")

_PATTERNS = (
    _secret(
        "private key",
        "private key",
        r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[\s\S]{0,20000}?(?:-----END [A-Z ]+-----|(?=-----BEGIN )|\Z)|[\s\S]{20000})",
    ),
    _secret("AWS key", ("akia", "asia"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    _secret("GitHub token", ("gh", "github_pat_"), r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})"),
    _secret("Hugging Face token", "hf_", r"\bhf_[A-Za-z0-9]{20,}\b"),
    _secret("OpenAI or Anthropic key", "sk-", r"\bsk-(?:[A-Za-z0-9]+-)*[A-Za-z0-9_-]{20,}", _is_random),
    _secret("Slack token", "xox", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    _secret("Google key", "aiza", r"\bAIza[A-Za-z0-9_-]{35}"),
    _secret("Stripe key", "_live_", r"\b[rs]k_live_[A-Za-z0-9]{16,}"),
    _secret("JSON web token", "eyj", r"\beyJ[A-Za-z0-9_-]{8,1000}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    _secret("password in a URL", "://", r"\b[a-z][a-z0-9+.-]{0,30}://[^\s/:@'\"<>]*:([^\s/@'\"<>]{3,})@[^\s/@]"),
    _secret(
        "secret in an assignment",
        _NAMES,
        r"(?i:(?:key|token|secret|passw(?:or)?d|pwd|credentials?)[\"']?\s{0,4}[:=]\s{0,4}[\"']?)"
        r"([A-Za-z0-9+/_.~=-]{16,})",
        _is_random,
    ),
    _personal(
        "e-mail address",
        "@",
        r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]++@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}\b",
    ),
    _personal("IBAN", (), r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b", _is_iban),
    _personal("card number", (), r"(?<![\w.])(?:[0-9]{4}[ -]){3}[0-9]{1,7}\b|(?<![\w.])[0-9]{13,19}\b", _is_card),
    _personal("US social security number", (), r"(?<![\w-])[0-9]{3}-[0-9]{2}-[0-9]{4}(?![\w-])", _is_ssn),
    _personal("IP address", (), r"(?<![\w.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![\w.]*[0-9])", _is_public_address),
    _personal(
        "phone number",
        (),
        r"(?<![\w.+-])(?:\+[0-9]{1,3}(?:[ .-]?\(?[0-9]{1,4}\)?){2,5}|\(?[0-9]{3}\)?[ .-][0-9]{3}[.-][0-9]{4})(?![\w-])",
        _is_phone,
    ),
)
"""No search may go back over the same letters again and again: rows are as long as they like.

In the order of their weight: what is inside one of them is not looked at by the next."""
