"""The diary of a run, `events.jsonl`: one JSON object a line, appended by the trainer, read by offset.

The trainer keeps it and knows nothing of servers; whoever reads it knows nothing of tensors.
"""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

_ROOM_BYTES = 16_384


class Event(BaseModel):
    # A loss that is no longer a number is news too; as a string it is JSON, and reads back as a float.
    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="strings")

    at: float = 0.0
    """Seconds since 1970; the writer fills it in."""
    attempt: int = 1


class Started(Event):
    """The trainer's process is up and has read its order."""

    kind: Literal["started"] = "started"
    pid: int
    device: str
    """`NVIDIA H200 x 1`, `CPU, 2 threads`."""
    dtype: str
    resumed_from_step: int = 0


class Share(BaseModel):
    """What one subset or split gives to an epoch."""

    conversations: int
    samples: int
    tokens: int
    trained_tokens: int


class DataFacts(BaseModel):
    """What the data came to. Every row read and every token made is in exactly one count."""

    model_config = ConfigDict(frozen=True)

    conversations_read: int
    conversations_used: int
    conversations_cut: int = 0
    """Samples that lost their end because they are longer than a row."""
    conversations_dropped: dict[str, int] = {}
    """By reason: `too long`, `no trained token`, `bad row`."""
    samples: int = 0
    """What one epoch learns from: a conversation, or one turn of it with what came before."""
    samples_dropped: dict[str, int] = {}
    tokens: int
    """Real tokens in one epoch, padding not counted."""
    trained_tokens: int
    tokens_cut: int = 0
    trained_tokens_cut: int = 0
    tokens_dropped: dict[str, int] = {}
    """Tokens of dropped samples, by reason."""
    trained_tokens_dropped: dict[str, int] = {}
    samples_repeated: int = 0
    """Of `samples`, how many an epoch learns from again, as one source is drawn while another begins anew."""
    tokens_repeated: int = 0
    trained_tokens_repeated: int = 0
    thoughts_lost: int = 0
    """Trained turns that stand there without their thoughts (`history_thinking = "drop"`)."""
    sources: dict[str, Share] = {}
    """By subset or split, where there are several."""
    rows: int
    """Packed rows in one epoch."""
    pad_share: float
    stream: str = ""
    """Hash of the token ids and masks of one epoch, whatever their order; empty for made-up data."""


class Prepared(Event, DataFacts):
    """The data is ready, and so it is known how long the run is."""

    kind: Literal["prepared"] = "prepared"
    steps: int
    steps_per_epoch: int
    stream_at_end: str = ""
    """The same for all steps of the run: what `Step.stream` is to come to."""


class Adapted(Event):
    """Adapters are in place; all but them is frozen. Told once an attempt."""

    kind: Literal["adapted"] = "adapted"
    rank: int
    modules: dict[str, int]
    """Adapted weights by the last part of their name, and how many: `{"q_proj": 28, "experts.down_proj": 48}`."""
    saved_whole: tuple[str, ...] = ()
    """Modules that are trained whole."""
    passed_over: tuple[str, ...] = ()
    """Usual targets that this model lacks."""
    trainable_parameters: int
    parameters: int
    """Of the model without its adapters."""


class Step(Event):
    """One optimizer step. `values` are metrics as `group/name` in base units."""

    kind: Literal["step"] = "step"
    step: int
    values: dict[str, float]
    tokens: int
    """Real tokens of this step, padding not counted."""
    trained_tokens: int
    seconds: float
    stream: str = ""
    """Hash of all token ids and masks that were given to the model up to here, over all ranks."""


class Validated(Event):
    """Loss on the validation data, after `step`; 0 is before the first."""

    kind: Literal["validated"] = "validated"
    step: int
    values: dict[str, float]
    """`val/loss`, `val/perplexity`."""
    trained_tokens: int
    """Tokens the loss is a mean over."""
    seconds: float


class Checkpointed(Event):
    kind: Literal["checkpointed"] = "checkpointed"
    step: int
    path: str
    """On the volume: `/runs/<run id>/outputs/...`."""
    size_bytes: int
    seconds: float
    blocked_seconds: float = 0.0
    """Of these, how long training stood still."""


class CheckpointRemoved(Event):
    """Retention took it away."""

    kind: Literal["checkpoint_removed"] = "checkpoint_removed"
    step: int


class Exported(Event):
    """A Hugging Face folder that stock transformers loads; an adapter's, stock peft with its base. Or a GGUF file."""

    kind: Literal["exported"] = "exported"
    form: Literal["full", "adapter", "merged", "gguf"] = "full"
    step: int
    path: str
    size_bytes: int


class Verified(Event):
    """Stock libraries loaded an artefact of the last save, and these are its logits beside the trainer's."""

    kind: Literal["verified"] = "verified"
    step: int
    artefact: Literal["full", "adapter", "merged", "gguf"]
    largest_difference: float | None
    """Of a logit, as a share of the largest; of a GGUF file, of a weight as a share of its tensor's largest. None where
    it was not looked at, for which `note` gives the reason."""
    tolerance: float
    note: str = ""


class Finished(Event):
    """The last line of an attempt that ended by itself."""

    kind: Literal["finished"] = "finished"
    outcome: Literal["completed", "stopped", "failed"]
    step: int
    message: str = ""
    hint: str = ""
    code: str = ""


AnyEvent = Annotated[
    Started | Prepared | Adapted | Step | Validated | Checkpointed | CheckpointRemoved | Exported | Verified | Finished,
    Field(discriminator="kind"),
]
_ADAPTER: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)


class EventWriter:
    """Appends to a diary. Each event is one `write` of one whole line, so a reader never sees half of one.

    Room for the last word is kept beside it from the start, so that a disk that fills can still be told of.
    """

    def __init__(self, path: Path, *, attempt: int = 1, clock: Callable[[], float] = time.time) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._attempt = attempt
        self._clock = clock
        self._room = room_beside(path)
        _take_room(self._room)
        _end_torn_line(path, self._file)

    def append(self, event: Event) -> None:
        stamped = event.model_copy(update={"at": self._clock(), "attempt": self._attempt})
        if isinstance(event, Finished):
            self._room.unlink(missing_ok=True)
        _write_whole(self._file, stamped.model_dump_json().encode() + b"\n")

    def close(self) -> None:
        self._room.unlink(missing_ok=True)
        os.close(self._file)


def room_beside(diary: Path) -> Path:
    """The file that keeps room for the last word while an attempt writes; gone when it closes the diary."""
    return diary.with_name(f".{diary.name}.room")


def read_events(path: Path, offset: int = 0, *, limit_bytes: int = -1) -> tuple[list[AnyEvent], int]:
    """The whole lines after byte `offset`, and the offset after them; about `limit_bytes` of them if that is set.

    A line of an unknown kind, or one torn by a crash, is skipped; an unfinished last line waits for its end.
    """
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(limit_bytes)
            if not data.endswith(b"\n"):
                data += file.readline()
    except FileNotFoundError:
        return [], offset
    end = data.rfind(b"\n") + 1
    events = []
    for line in data[:end].split(b"\n")[:-1]:
        try:
            events.append(_ADAPTER.validate_json(line))
        except ValidationError:
            continue
    return events, offset + end


def _take_room(room: Path) -> None:
    # Where there is none even for this, the first event will say so.
    with contextlib.suppress(OSError), room.open("wb") as file:
        file.write(bytes(_ROOM_BYTES))
        file.flush()
        os.fsync(file.fileno())  # until then the blocks may be a mere promise


def _write_whole(file: int, line: bytes) -> None:
    begun = os.fstat(file).st_size
    try:
        while line:
            line = line[os.write(file, line) :]
    except OSError:
        os.ftruncate(file, begun)  # the half that still fitted must not be glued to what comes next
        raise


def _end_torn_line(path: Path, file: int) -> None:
    # A machine that lost power may leave half a line; what follows must not be glued to it.
    with path.open("rb") as whole:
        if whole.seek(0, os.SEEK_END) and whole.seek(-1, os.SEEK_END) is not None and whole.read(1) != b"\n":
            os.write(file, b"\n")
