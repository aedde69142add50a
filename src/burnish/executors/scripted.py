"""An executor without a machine, for tests: what becomes of a program is told beforehand.

    executor = Scripted({"job-1": [RUNNING, RUNNING, exited(0)]})

Each `inspect` of a launched key takes the next sight; the last one stays. It starts nothing and reads no clock.
"""

from collections.abc import Mapping, Sequence

from burnish.errors import ExecutorError
from burnish.executors.base import ExitRecord, Phase, Program, Sight, Slot

ABSENT = Sight(Phase.ABSENT)
STARTING = Sight(Phase.STARTING)
RUNNING = Sight(Phase.RUNNING, pid=4711)
LOST = Sight(Phase.LOST)
CPU_SLOT = Slot("cpu", "CPU, 2 cores", 8 * 1024**3, 0)


def exited(
    code: int | None = 0, *, signal: int | None = None, ended_at: float = 0.0, out_of_memory: bool = False
) -> Sight:
    return Sight(Phase.EXITED, ExitRecord(None if signal else code, signal, ended_at, out_of_memory))


class Scripted:
    """`script` by key; `otherwise` for keys it does not name, which may not be known yet when a test begins."""

    name = "scripted"

    def __init__(
        self,
        script: Mapping[str, Sequence[Sight]] | None = None,
        *,
        otherwise: Sequence[Sight] = (RUNNING,),
        after_stop: Sequence[Sight] = (exited(0),),
        slots: Sequence[Slot] = (CPU_SLOT,),
    ) -> None:
        self.launched: list[Program] = []
        """Programs that were started, in order; a launch that found its key taken is not among them."""
        self.stopped: list[tuple[str, float]] = []
        """Every stop of a program that was there, with its grace in seconds."""
        self.refusal: str | None = None
        """While set, `launch` raises `ExecutorError` with this sentence."""
        self._script = {key: list(sights) for key, sights in (script or {}).items()}
        self._otherwise = list(otherwise)
        self._after_stop = list(after_stop)
        self._slots = list(slots)
        self._coming: dict[str, list[Sight]] = {}

    def tell(self, key: str, *sights: Sight) -> None:
        """What `inspect` answers from now on, for a key launched already or later."""
        self._script[key] = list(sights)
        if key in self._coming:
            self._coming[key] = list(sights)

    def capacity(self) -> list[Slot]:
        return list(self._slots)

    def launch(self, program: Program) -> None:
        if program.key in self._coming:
            return
        if self.refusal is not None:
            raise ExecutorError(self.refusal)
        self.launched.append(program)
        self._coming[program.key] = list(self._script.get(program.key, self._otherwise))

    def find(self) -> list[str]:
        return sorted(self._coming)

    def inspect(self, key: str) -> Sight:
        coming = self._coming.get(key)
        if coming is None:
            return ABSENT
        return coming.pop(0) if len(coming) > 1 else coming[0]

    def stop(self, key: str, *, grace_seconds: float = 30) -> None:
        if key not in self._coming or self._is_over(key):
            return
        self.stopped.append((key, grace_seconds))
        self._coming[key] = list(self._after_stop)

    def forget(self, key: str) -> None:
        if key in self._coming and not self._is_over(key):
            raise ExecutorError(f"{key} is still running.", hint="Stop it first.")
        self._coming.pop(key, None)

    def _is_over(self, key: str) -> bool:
        return self._coming[key][0].phase in (Phase.EXITED, Phase.LOST)
