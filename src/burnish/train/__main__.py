"""`python -m burnish.train RUN_DIR [--attempt N]`: reads `run.json`, keeps `events.jsonl`, prints the log.

The light half of the trainer. It prepares the data while torch, which takes seconds, is imported beside it, and it
turns errors into the diary's last line. Exit code 0 for completed and stopped, 1 for failed, 2 for usage.
"""

import argparse
import importlib
import os
import sys
import traceback
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from threading import Thread
from types import ModuleType

from burnish.data import stream
from burnish.data.prepare import PreparedData, prepare_data, row_loader, validation_spec
from burnish.errors import BurnishError, PlanError, VolumeFull
from burnish.run.directory import CheckpointDirectory, RunDirectory
from burnish.run.events import EventWriter, Finished, Prepared, Started, Step, read_events
from burnish.run.order import RunOrder, read_order
from burnish.run.plan import Horizon, plan_horizon
from burnish.spec.train import TrainSpec
from burnish.train.console import say
from burnish.train.job import Job, compute_dtype
from burnish.train.machine import device_name, settle_process
from burnish.train.shelf import find_start, is_no_space, sweep
from burnish.train.stop import Stopped, StopSignal


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m burnish.train", description="Train as RUN_DIR/run.json orders.")
    parser.add_argument("run_directory", type=Path, metavar="RUN_DIR")
    parser.add_argument("--attempt", type=int, metavar="N", help="default: one more than the diary holds")
    parser.add_argument("--cut-after", type=int, metavar="STEP", help="end by SIGKILL after that step")
    given = parser.parse_args(arguments)
    run = RunDirectory(given.run_directory.resolve())
    if not run.order.is_file():
        parser.error(f"there is no {run.order}")
    diary = EventWriter(run.diary, attempt=given.attempt or _next_attempt(run))
    stop = StopSignal()
    with stop.listening(), closing(diary):
        try:
            _run(run, diary, stop, cut_after=given.cut_after)
        except Stopped:
            message = "Stopped before this attempt's first step."
            say("INFO", message)
            diary.append(Finished(outcome="stopped", step=_last_step(run), message=message))
        except BurnishError as error:
            return _fail(run, diary, error)
        except Exception as error:  # the last place to say why a run died
            code = _fail(run, diary, _explain(error))
            traceback.print_exc()
            return code
    return 0


def _run(run: RunDirectory, diary: EventWriter, stop: StopSignal, *, cut_after: int | None) -> None:
    with stop.interrupting():
        order = _read_order(run)
        os.environ.update(order.spec.environment)
        settle_process()
        start = _open_run(run, order, diary)
        engine = _import_beside("burnish.train.loop", *(["burnish.train.adapter"] if order.spec.lora else []))
        data, validation = _prepare(order)
        horizon = plan_horizon(order.spec, rows_per_epoch=data.rows_per_epoch)
        _tell_data(order, data, horizon, diary)
        loop = engine.result()
    loop.train(Job(order, run, data, validation, horizon, start, diary, stop, say, cut_after))


def _prepare(order: RunOrder) -> tuple[PreparedData, PreparedData | None]:
    """The rows to train on, and those to validate on."""

    def prepare(spec: TrainSpec, path: Path | None, what: str) -> PreparedData:
        return prepare_data(
            spec,
            model_directory=order.model_directory,
            data_path=path,
            store_directory=order.store_directory,
            say=lambda text: say("INFO", what + text),
        )

    data = prepare(order.spec, order.data_path, "")
    held_out = validation_spec(order.spec)
    return data, prepare(held_out, order.validation_path, "Validation: ") if held_out else None


def _read_order(run: RunDirectory) -> RunOrder:
    try:
        return read_order(run)
    except (OSError, ValueError) as error:
        raise PlanError(f"{run.order} cannot be read: {error}") from error


def _open_run(run: RunDirectory, order: RunOrder, diary: EventWriter) -> CheckpointDirectory | None:
    """Where to start from; clears what a dead attempt left and tells the diary that the trainer is up."""
    sweep(run)
    start = find_start(run, resume_from=order.resume_from, say=say)
    device = device_name(order.layout.device)
    dtype = compute_dtype(order)
    resumed_from = start.step if start else 0
    diary.append(Started(pid=os.getpid(), device=device, dtype=dtype, resumed_from_step=resumed_from))
    say("INFO", f"{order.run_id}: {order.spec.model} on {device}, {dtype} over float32 master weights")
    if start:
        say("INFO", f"Resuming from step {start.step}: {start.root}")
    return start


def _import_beside(module: str, *others: str) -> Future[ModuleType]:
    """The module, once it and the others are imported in a thread of their own.

    By name, because that is the point: nothing here may import torch before `settle_process`, and tokenising a data
    set spends its time in Rust, so the two share the machine well.
    """
    future: Future[ModuleType] = Future()

    def work() -> None:
        try:
            loaded = importlib.import_module(module)
            for other in others:
                importlib.import_module(other)
            future.set_result(loaded)
        except BaseException as error:
            future.set_exception(error)

    Thread(target=work, name="import-torch").start()
    return future


def _tell_data(order: RunOrder, data: PreparedData, horizon: Horizon, diary: EventWriter) -> None:
    at_end = row_loader(order.spec, data).stream_after(horizon.steps)
    diary.append(
        Prepared(
            **data.facts.model_dump(),
            steps=horizon.steps,
            steps_per_epoch=horizon.steps_per_epoch,
            stream_at_end="" if at_end is None else stream.to_text(at_end),
        )
    )
    say(
        "INFO",
        f"{horizon.steps} steps of {_rows_of_a_step(order, horizon)} ({horizon.epochs:.2f} epochs), "
        f"{order.spec.schedule.kind} learning rate, peak {order.spec.optimizer.learning_rate:.2e}",
    )


def _rows_of_a_step(order: RunOrder, horizon: Horizon) -> str:
    asked, there = order.spec.rows_per_step, horizon.rows_per_epoch
    if there >= asked:
        return f"{asked} row{'s' if asked > 1 else ''}"
    return f"{there} row{'s' if there > 1 else ''}, for the data has no more (batch_size {asked})"


def _next_attempt(run: RunDirectory) -> int:
    return 1 + max((event.attempt for event in read_events(run.diary)[0]), default=0)


def _last_step(run: RunDirectory) -> int:
    return max((event.step for event in read_events(run.diary)[0] if isinstance(event, Step)), default=0)


def _explain(error: Exception) -> BurnishError:
    if is_no_space(error):
        return VolumeFull(
            "There is no space left on the volume.", hint="Grow it (burnish volumes resize), or free some."
        )
    return BurnishError(f"The trainer broke: {type(error).__name__}: {error}", hint="Its log tells where.")


def _fail(run: RunDirectory, diary: EventWriter, error: BurnishError) -> int:
    last = _last_step(run)
    # The diary first: it has kept room for this, the log may be on a full disk.
    diary.append(Finished(outcome="failed", step=last, message=error.message, hint=error.hint, code=error.code))
    say("ERROR", f"{error.message} {error.hint}".rstrip())
    return 1


if __name__ == "__main__":
    sys.exit(main())
