"""A run's log, by byte offset, as text. Knows no stream: whoever follows asks again from `next_offset`."""

import codecs
from pathlib import Path

from burnish.control.house import House
from burnish.control.lookup import find_run
from burnish.control.places import is_plain_file, run_directory
from burnish.control.private import hide, read_environment
from burnish.run.status import RunStatus
from burnish.wire import LogView

_LARGEST = 4 << 20


def read_log(house: House, run_id: str, offset: int = 0, limit: int = 65_536) -> LogView:
    """About `limit` bytes from `offset`; a negative one counts from the end.

    Cuts between lines where it can, else between characters, and hides the secrets that the config handed over.
    """
    # First the status, then the file: what a run wrote before it was over is then all there.
    run = find_run(house, run_id)
    directory = run_directory(house.home, run_id, run.volume)
    is_over = RunStatus(run.status).is_over
    if not is_plain_file(directory.log, directory.root):
        return LogView(text="", next_offset=0, over=is_over)
    data, start, at_end = _read(directory.log, offset, max(4, min(limit, _LARGEST)))
    data = data if at_end else data[: data.rfind(b"\n") + 1] or data
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data, final=at_end and is_over)
    held_back = len(decoder.getstate()[0])
    return LogView(
        text=hide(text, read_environment(house, run_id)),
        next_offset=start + len(data) - held_back,
        over=is_over and at_end,
    )


def _read(path: Path, offset: int, limit: int) -> tuple[bytes, int, bool]:
    """The bytes, where they start, and whether they reach the file's end."""
    size = path.stat().st_size
    start = max(0, size + offset) if offset < 0 else min(offset, size)
    with path.open("rb") as file:
        file.seek(start)
        data = file.read(limit)
    if offset < 0:
        skipped = _continuation_bytes(data)
        data, start = data[skipped:], start + skipped
    return data, start, start + len(data) >= size


def _continuation_bytes(data: bytes) -> int:
    """How many bytes at the front belong to a character that began before."""
    for count, byte in enumerate(data[:4]):
        if byte & 0xC0 != 0x80:
            return count
    return len(data) if len(data) < 4 else 0
