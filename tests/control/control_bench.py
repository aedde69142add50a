"""A house with what a test needs to set it up and to look into it; and short names for a diary's lines."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from burnish.control.house import House
from burnish.control.places import run_directory
from burnish.control.tables import AttemptRow, RunRow, StepRow, VolumeRow
from burnish.executors.scripted import Scripted
from burnish.literals import new_run_id
from burnish.run.directory import RunDirectory
from burnish.run.events import Event, EventWriter, Finished, Started, Step
from burnish.run.plan import plan_layout
from burnish.run.status import RunStatus
from burnish.spec.train import Checkpoints, FakeData, TrainSpec


@dataclass
class HandClock:
    """Seconds since 1970, moved by hand."""

    seconds: float = 1_700_000_000.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Bench:
    house: House
    executor: Scripted
    clock: HandClock
    order: list[str] = field(default_factory=list)

    def add_run(
        self,
        *,
        status: RunStatus = RunStatus.PENDING,
        attempt: int = 0,
        ranks: int = 1,
        volume: str | None = None,
        checkpoints: bool = False,
        **values: Any,
    ) -> str:
        """A run as a submission leaves it, each created a second after the one before."""
        spec = TrainSpec(
            model="burnish/tiny",
            data=FakeData(),
            steps=10,
            rows_per_step=ranks,
            devices={"per_machine": ranks},  # type: ignore[arg-type]  # pydantic takes the dict
            checkpoints=Checkpoints() if checkpoints else None,
        )
        run = RunRow(
            id=new_run_id(),
            name="test",
            status=status,
            model=spec.model,
            volume=volume,
            dialect="own",
            config="max_steps = 10\n",
            spec=spec.model_dump(mode="json"),
            layout=plan_layout(spec, device="cpu").model_dump(mode="json"),
            notes=[],
            request_digest="",
            attempt=attempt,
            max_steps=10,
            created_at=datetime.fromtimestamp(self.clock() + len(self.order), UTC),
            **values,
        )
        self.order.append(run.id)
        with self.house.database.session() as session:
            session.add(run)
            session.flush()
            for number in range(1, attempt + 1):
                session.add(AttemptRow(run_id=run.id, number=number, slots=[0], created_at=self.house.now()))
        return run.id

    def run(self, run_id: str) -> RunRow:
        with self.house.database.session(writes=False) as session:
            return session.get_one(RunRow, run_id)

    def attempt(self, run_id: str, number: int = 1) -> AttemptRow:
        with self.house.database.session(writes=False) as session:
            return session.get_one(AttemptRow, (run_id, number))

    def steps(self, run_id: str) -> list[StepRow]:
        with self.house.database.session(writes=False) as session:
            return session.query(StepRow).filter_by(run_id=run_id).order_by(StepRow.step).all()

    def add_volume(self, name: str = "research", size_bytes: int = 10 << 30) -> Path:
        with self.house.database.session() as session:
            session.add(VolumeRow(name=name, size_bytes=size_bytes, created_at=self.house.now()))
        root = self.house.home.volume(name)
        (root / "datasets").mkdir(parents=True)
        return root

    def directory(self, run_id: str) -> RunDirectory:
        return run_directory(self.house.home, run_id, self.run(run_id).volume)

    def write(self, run_id: str, *events: Event, attempt: int = 1) -> None:
        """Append to the run's diary, as a trainer does."""
        writer = EventWriter(self.directory(run_id).diary, attempt=attempt, clock=self.clock)
        for event in events:
            writer.append(event)
        writer.close()


def started(resumed_from_step: int = 0) -> Started:
    return Started(pid=1, device="CPU, 2 threads", dtype="float32", resumed_from_step=resumed_from_step)


def step(number: int, *, loss: float = 1.5, tokens: int = 100) -> Step:
    return Step(step=number, values={"loss/mean": loss}, tokens=tokens, trained_tokens=tokens // 2, seconds=0.25)


def finished(outcome: Any = "completed", *, at_step: int = 10, message: str = "", hint: str = "") -> Finished:
    return Finished(outcome=outcome, step=at_step, message=message, hint=hint)
