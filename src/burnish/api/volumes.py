"""Routes of volumes and their files. Bytes stream both ways; no file is held in memory."""

from collections.abc import AsyncIterator, Iterator
from typing import Annotated, BinaryIO

import anyio.from_thread
from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect

from burnish.api.auth import require_key
from burnish.api.given import GivenHouse
from burnish.control import files, volumes
from burnish.errors import BurnishError, VolumeError
from burnish.wire import (
    CheckPutRequest,
    CreateVolumeRequest,
    EntryList,
    EntryView,
    ResizeVolumeRequest,
    VolumeList,
    VolumeView,
)

router = APIRouter(prefix="/volumes", dependencies=[Depends(require_key)])

PIECE_BYTES = 1024**2
DRAINED_BYTES = 64 * 1024**2
CLIENT_GONE = 499


@router.post("")
def create_volume(house: GivenHouse, body: CreateVolumeRequest) -> VolumeView:
    return volumes.create_volume(house, body)


@router.get("")
def list_volumes(house: GivenHouse) -> VolumeList:
    return volumes.list_volumes(house)


@router.get("/{name}")
def get_volume(house: GivenHouse, name: str) -> VolumeView:
    return volumes.get_volume(house, name)


@router.patch("/{name}")
def resize_volume(house: GivenHouse, name: str, body: ResizeVolumeRequest) -> VolumeView:
    return volumes.resize_volume(house, name, body)


@router.delete("/{name}", status_code=204)
def delete_volume(house: GivenHouse, name: str) -> None:
    volumes.delete_volume(house, name)


@router.get("/{name}/entries")
def list_entries(house: GivenHouse, name: str, path: str = "/", recursive: bool = False) -> EntryList:
    return files.list_entries(house, name, path, recursive)


@router.get("/{name}/usage")
def measure(house: GivenHouse, name: str, path: str = "/") -> EntryView:
    return files.measure(house, name, path)


@router.post("/{name}/put-check", status_code=204)
def check_put(house: GivenHouse, name: str, body: CheckPutRequest) -> None:
    files.check_put(house, name, body)


@router.put("/{name}/files/{path:path}", response_model=EntryView)
async def put_file(
    request: Request,
    house: GivenHouse,
    name: str,
    path: str,
    content_length: Annotated[int | None, Header(ge=0, lt=2**63)] = None,
    x_burnish_size: Annotated[int | None, Header(ge=0, lt=2**63)] = None,
) -> EntryView | Response:
    """The body, whole or not at all. Its size comes in Content-Length, or in X-Burnish-Size where it is chunked."""
    size = content_length if x_burnish_size is None else x_burnish_size
    body = request.stream()
    try:
        if size is None:
            raise VolumeError("The upload does not say how long it is.", hint="Send Content-Length or X-Burnish-Size.")
        return await run_in_threadpool(files.put_file, house, name, path, _pieces(body), size)
    except ClientDisconnect:
        return Response(status_code=CLIENT_GONE)
    except BurnishError:
        await _drain(request, body)
        raise


@router.get("/{name}/files/{path:path}")
def get_file(house: GivenHouse, name: str, path: str) -> StreamingResponse:
    file, size = files.open_file(house, name, path)
    headers = {"Content-Length": str(size), "X-Content-Type-Options": "nosniff"}
    return StreamingResponse(_read(file, size), media_type="application/octet-stream", headers=headers)


@router.delete("/{name}/files/{path:path}", status_code=204)
def remove(house: GivenHouse, name: str, path: str, recursive: bool = False) -> None:
    files.remove(house, name, path, recursive)


def _pieces(body: AsyncIterator[bytes]) -> Iterator[bytes]:
    """The body, pulled from a worker thread piece by piece: a slow disk slows the sender, and nothing piles up."""
    while piece := anyio.from_thread.run(_gather, body):
        yield piece


async def _gather(body: AsyncIterator[bytes]) -> bytes:
    # The network brings 64 KiB at a time; a change of threads for each would cost more than the copying.
    gathered = bytearray()
    async for chunk in body:
        gathered += chunk
        if len(gathered) >= PIECE_BYTES:
            break
    return bytes(gathered)


async def _drain(request: Request, body: AsyncIterator[bytes]) -> None:
    """Read on after a refusal, so that a client in the middle of sending comes to hear of it."""
    if request.headers.get("expect", "").lower() == "100-continue":
        return  # it has sent nothing yet
    left = DRAINED_BYTES
    try:
        async for chunk in body:
            left -= len(chunk)
            if left <= 0:
                return
    except ClientDisconnect:
        return


def _read(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Exactly `size` bytes: a log that grows meanwhile is cut there."""
    with file:
        while size and (piece := file.read(min(size, PIECE_BYTES))):
            size -= len(piece)
            yield piece
