"""How long from `submit` to the first step on burnish/tiny, through a real server, and where the time goes.

python bench/dispatch.py [--runs 5]
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from burnish.home import Home
from burnish.run.directory import RunDirectory
from burnish.run.events import Prepared, Started, Step, read_events
from burnish.sdk.client import Client
from burnish.sdk.local import Place, connect, stop_server

CONFIG = """
max_steps = 3
[model]
name = "burnish/tiny"
[data]
type = "fake"
seq_len = 256
batch_size = 8
[optim]
lr = 2e-5
"""
LOOK_SECONDS = 0.02
PATIENCE_SECONDS = 120.0


@dataclass(frozen=True)
class Times:
    """Seconds since the submission was sent."""

    accepted: float
    """The reply was here."""
    started: float
    """The trainer's process had read its order."""
    prepared: float
    """The data were rows."""
    first_step: float
    """torch was imported, the model loaded and one step taken."""
    seen: float
    """The first step was in the API's metrics."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home")
        os.environ["BURNISH_HOME"] = str(home.root)
        begun = time.perf_counter()
        with connect(Place(home)) as client:
            server_seconds = time.perf_counter() - begun
            try:
                measured = [measure(client, home) for _ in range(wanted.runs)]
            finally:
                stop_server(home)
    print(table(measured, server_seconds))
    return 0


def measure(client: Client, home: Home) -> Times:
    sent_at, begun = time.time(), time.perf_counter()
    run = client.runs.submit(CONFIG)
    accepted = time.perf_counter() - begun
    while not client.runs.metrics(run.id).steps:
        assert time.perf_counter() - begun < PATIENCE_SECONDS, client.runs.get(run.id)
        time.sleep(LOOK_SECONDS)
    seen = time.perf_counter() - begun
    while not client.runs.get(run.id).status.is_over:
        time.sleep(LOOK_SECONDS)
    events, _ = read_events(RunDirectory.on_volume(home.scratch, run.id).diary)
    at = {kind: next(event.at for event in events if isinstance(event, kind)) for kind in (Started, Prepared, Step)}
    return Times(accepted, at[Started] - sent_at, at[Prepared] - sent_at, at[Step] - sent_at, seen)


def table(measured: list[Times], server_seconds: float) -> str:
    """Medians, in seconds."""
    medians = [statistics.median(column) for column in zip(*map(astuple, measured), strict=True)]
    lines = [
        f"{len(measured)} runs of burnish/tiny on {machine()}",
        f"{'server started':<16}{server_seconds:6.2f} s, once",
        *(
            f"{field.name.replace('_', ' '):<16}{value:6.2f} s"
            for field, value in zip(fields(Times), medians, strict=True)
        ),
        f"torch alone     {import_seconds():6.2f} s to import",
    ]
    return "\n".join(lines)


def import_seconds() -> float:
    """Of torch in a process of its own; the best of three."""
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import torch"], check=True)
        times.append(time.perf_counter() - begun)
    return min(times)


def machine() -> str:
    cpu = next(
        (line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), ": unknown CPU"
    )
    load = os.getloadavg()[0]
    return (
        f"{cpu.partition(':')[2].strip()}, {os.cpu_count()} cores, Python {platform.python_version()}, load {load:.1f}"
    )


if __name__ == "__main__":
    sys.exit(main())
