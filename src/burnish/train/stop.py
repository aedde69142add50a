"""Whether somebody asked the run to stop. Knows signals, not training."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(KeyboardInterrupt):
    """The run was asked to stop while nothing was in hand that is worth finishing."""


class StopSignal:
    """SIGTERM and Ctrl-C. During steps it is a flag, read between them; during preparation it ends the work at once."""

    def __init__(self) -> None:
        self.asked = False
        self._interrupts = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._heard) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Within, the signal raises `Stopped` where it finds the program."""
        self._interrupts = True
        try:
            if self.asked:
                raise Stopped
            yield
        finally:
            self._interrupts = False

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        if self._interrupts:
            raise Stopped
