"""Pictures of a data set: found and looked at, never unpacked. Knows files and bytes, not conversations."""

import base64
import binascii
import io
import re
import struct
import warnings
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import PIL.Image

from burnish.data.files import DataFile, DiskFile, shown
from burnish.data.ledger import RowFault

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
MOST_BYTES = 64 << 20
_DATA_URL = re.compile(r"data:(?:image/[\w.+-]+)?(?:;[\w=.+-]+)*?(;base64)?,", re.IGNORECASE)
_TAIL_BYTES = 1 << 16


class Seen(NamedTuple):
    """A picture that is whole, as far as its header and its end tell."""

    width: int
    """Pixels."""
    height: int
    source: Path | bytes


def look_at(reference: Any, origin: DataFile | None) -> Seen:
    """The picture that a row of `origin` names: a path relative to it, a data URL, its bytes, or an object with one of
    these under `url`, `bytes` or `path`. `RowFault` says why there is none, beginning with what it is called.
    """
    if isinstance(reference, dict):
        reference = _inner(reference)
    if isinstance(reference, bytes):
        return _look(io.BytesIO(reference), len(reference), reference, "in its bytes")
    if not isinstance(reference, str):
        raise RowFault(f"is {type(reference).__name__}, not a path, a data URL or bytes")
    if reference[:5].lower() == "data:":
        data = _decoded(reference)
        return _look(io.BytesIO(data), len(data), data, "in a data URL")
    if origin is None:
        raise RowFault(f"{shown(reference)} is a path, and there is no data file that it could lie beside")
    file = origin.beside(reference)
    with file.open() as opened:
        if file.size > MOST_BYTES:
            raise _too_large(shown(reference), file.size)
        source = file.path if isinstance(file, DiskFile) else opened.read()
        stream = io.BytesIO(source) if isinstance(source, bytes) else opened
        return _look(stream, file.size, source, shown(reference))


def _inner(reference: dict[str, Any]) -> Any:
    """Bytes go before the path they once had, which is of another machine."""
    found = next((reference[key] for key in ("bytes", "url", "path") if reference.get(key) is not None), None)
    if isinstance(reference.get("bytes"), str):
        raise RowFault("has its bytes as text; JSON holds them as a data URL")
    if found is None or isinstance(found, dict):
        raise RowFault(f"is an object with {', '.join(map(str, reference)) or 'nothing in it'}, not url, bytes or path")
    return found


def _decoded(reference: str) -> bytes:
    head = _DATA_URL.match(reference)
    if head is None or not head[1]:
        raise RowFault(f"in a data URL is not data:image/...;base64,... but {shown(reference, 40)}")
    try:
        return base64.b64decode(reference[head.end() :], validate=True)
    except (binascii.Error, ValueError) as error:
        raise RowFault(f"in a data URL is broken: not valid base64 ({error})") from error


def _look(stream: BinaryIO, size: int, source: Path | bytes, called: str) -> Seen:
    if size > MOST_BYTES:
        raise _too_large(called, size)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", PIL.Image.DecompressionBombWarning)
            image = PIL.Image.open(stream, formats=FORMATS)
        seen = Seen(image.width, image.height, source)
        moves = getattr(image, "is_animated", False)  # only some formats' classes have it
        whole = _is_whole(image, stream, size)
    except (PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning) as error:
        raise RowFault(f"{called} has more pixels than are read ({PIL.Image.MAX_IMAGE_PIXELS:,})") from error
    except PIL.UnidentifiedImageError as error:
        raise RowFault(f"{called} is broken, or no {', '.join(FORMATS)} picture") from error
    except Exception as error:  # decoders fail as they like over a file that was made to break them
        raise RowFault(f"{called} is broken ({error or type(error).__name__})") from error
    if moves and image.format in ("GIF", "PNG", "WEBP"):
        raise RowFault(f"{called} moves; only still pictures are trained")
    if not whole:
        raise RowFault(f"{called} is broken: its end is missing, as of a file that was cut off")
    return seen


def _is_whole(image: PIL.Image.Image, stream: BinaryIO, size: int) -> bool:
    """Whether the file goes to its own end. Pixels are not unpacked, as that would take longer than all the rest."""
    match image.format:
        case "PNG":
            ended = b"IEND\xaeB`\x82" in _tail(stream, size)
            stream.seek(0)
            image.verify()  # raises where a chunk does not agree with its checksum
            return ended
        case "GIF":
            return _tail(stream, size).rstrip(b"\0").endswith(b";")
        case "WEBP":
            return _unsigned(stream, 4) + 8 <= size
        case "BMP":
            return _unsigned(stream, 2) <= size
        case _:  # JPEG: the end mark stands after the last start of a scan, or the thumbnail's would do
            tail = _tail(stream, size)
            return tail.rfind(b"\xff\xd9") > tail.rfind(b"\xff\xda")


def _tail(stream: BinaryIO, size: int) -> bytes:
    stream.seek(max(0, size - _TAIL_BYTES))
    return stream.read(_TAIL_BYTES)


def _unsigned(stream: BinaryIO, place: int) -> int:
    stream.seek(place)
    return struct.unpack("<I", stream.read(4))[0]


def _too_large(called: str, size: int) -> RowFault:
    return RowFault(f"{called} has {size / 2**20:.0f} MiB; at most {MOST_BYTES >> 20} are read")
