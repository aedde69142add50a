"""How long `burnish --help` takes beside `prime --help`, the client our users come from.

    python -m venv /tmp/prime && /tmp/prime/bin/pip install prime
    python bench/startup.py /tmp/prime/bin/prime

The two take turns, so that a busy moment of the machine meets both.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

TARGET = 0.3
"""`burnish --help` may take this share of `prime --help`."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prime", type=Path, help="the `prime` program, in a venv of its own")
    parser.add_argument("--burnish", type=Path, default=Path(sys.executable).with_name("burnish"))
    parser.add_argument("--rounds", type=int, default=15)
    wanted = parser.parse_args()
    programs = {"burnish": wanted.burnish, "prime": wanted.prime}
    for program in programs.values():
        wall_seconds(program)  # the first start reads from disk and writes byte code
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(wanted.rounds):
        for name, program in programs.items():
            times[name].append(wall_seconds(program))
    return report(times)


def wall_seconds(program: Path) -> float:
    begun = time.perf_counter()
    subprocess.run([program, "--help"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def report(times: dict[str, list[float]]) -> int:
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {platform.platform()}\n")
    print(f"{'wall seconds of --help':<24}{'median':>8}{'fastest':>9}{'slowest':>9}{'rounds':>8}")
    for name, seconds in times.items():
        print(f"{name:<24}{statistics.median(seconds):>8.3f}{min(seconds):>9.3f}{max(seconds):>9.3f}{len(seconds):>8}")
    ratio = statistics.median(times["burnish"]) / statistics.median(times["prime"])
    print(f"\nburnish / prime: {ratio:.3f} (target: at most {TARGET})")
    return 0 if ratio <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
