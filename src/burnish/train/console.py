"""The log lines that the trainer prints. `20:35:47 [SUCCESS] Step 1 | ...`"""

import time
from collections.abc import Callable
from typing import Literal

Level = Literal["INFO", "SUCCESS", "WARNING", "ERROR"]
Say = Callable[[Level, str], None]


def say(level: Level, text: str) -> None:
    """One line on stdout, at once, with the local time."""
    print(f"{time.strftime('%H:%M:%S')} [{level}] {text}", flush=True)
