"""The errors burnish raises on purpose. Each carries a code, one sentence and a hint.

    BurnishError
    ├── ConfigError      the config file cannot be obeyed; names every key it blames
    ├── DataError        a row or a file of the data set cannot be used; says `file:line`
    ├── PlanError        the wish does not divide, fit or end
    ├── ModelError       the model is not there, or is not what it says
    ├── VolumeError      a path, a size or a name on a volume
    │   └── VolumeFull   the volume has no room; names the command that grows it
    ├── NotFound         no run, volume, model or file of that name
    ├── Conflict         the thing is there already, or is in use
    ├── AccessDenied     the key is missing or wrong
    ├── RunError         the run cannot do what was asked in its status
    ├── ExecutorError    the machine would not start, find or stop a program
    └── ServerError      the server cannot be reached, or failed

Knows nothing of HTTP, terminals or exit codes; the front door, the CLI and the trainer's `__main__` turn these
into something else.
"""

from dataclasses import dataclass
from typing import ClassVar


class BurnishError(Exception):
    """Base of the family. `str(error)` is the sentence alone; the hint says what to do about it."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True)
class Problem:
    """One fault of a config, blamed on a key as the user wrote it (`optim.lr`)."""

    key: str
    message: str


class ConfigError(BurnishError):
    """The config cannot be read or obeyed. `problems` lists every fault, not only the first."""

    code = "config"

    def __init__(self, message: str, *, hint: str = "", problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.problems = problems


class DataError(BurnishError):
    code = "data"


class PlanError(BurnishError):
    code = "plan"


class ModelError(BurnishError):
    code = "model"


class VolumeError(BurnishError):
    code = "volume"


class VolumeFull(VolumeError):
    code = "volume_full"


class NotFound(BurnishError):
    code = "not_found"


class Conflict(BurnishError):
    code = "conflict"


class AccessDenied(BurnishError):
    code = "access_denied"


class RunError(BurnishError):
    code = "run"


class ExecutorError(BurnishError):
    code = "executor"


class ServerError(BurnishError):
    code = "server"


def error_from_code(code: str, message: str, hint: str = "") -> BurnishError:
    """The error that a peer named by `code`; an unknown code becomes the base class."""
    return _BY_CODE.get(code, BurnishError)(message, hint=hint)


def _family(root: type[BurnishError]) -> list[type[BurnishError]]:
    return [root, *(member for child in root.__subclasses__() for member in _family(child))]


_BY_CODE = {error.code: error for error in _family(BurnishError)}
