"""The hash of what is learnt: token ids with their mask, conversation by conversation, in any order.

Each conversation has a digest; a stream's hash is the sum of the digests, lane by lane. So it can be told in advance
for any number of steps, be added up by the ranks of a run, and go on after a resume.
"""

import hashlib
from collections.abc import Iterable

import numpy as np

LANES = 4
EMPTY = np.zeros(LANES, np.uint32)
"""The sum of no conversation."""


def digest(token_ids: np.ndarray, loss_mask: np.ndarray) -> np.ndarray:
    """uint32 [LANES] of one conversation: BLAKE2b over uint32 ids, then uint8 mask, both little-endian."""
    hashed = hashlib.blake2b(token_ids.astype("<u4", copy=False).tobytes(), digest_size=4 * LANES)
    hashed.update(loss_mask.astype("u1", copy=False).tobytes())
    return np.frombuffer(hashed.digest(), "<u4")


def digests(token_ids: np.ndarray, loss_mask: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """uint32 [conversations, LANES] of conversations that lie one after the other."""
    found = np.empty((len(lengths), LANES), np.uint32)
    start = 0
    for place, length in enumerate(lengths.tolist()):
        found[place] = digest(token_ids[start : start + length], loss_mask[start : start + length])
        start += length
    return found


def added(parts: Iterable[np.ndarray]) -> np.ndarray:
    """The sum of digests or of sums of them; each lane is modulo 2**32."""
    total = EMPTY
    for part in parts:
        total = total + part
    return total


def to_text(total: np.ndarray) -> str:
    """`9f86d081884c7d659a2feaa0c55ad015`: 32 hexadecimal digits."""
    return "".join(f"{lane:08x}" for lane in total.tolist())


def to_sum(text: str) -> np.ndarray:
    """The sum that `to_text` wrote."""
    return np.array([int(text[place : place + 8], 16) for place in range(0, 8 * LANES, 8)], np.uint32)
