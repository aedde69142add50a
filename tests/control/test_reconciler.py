"""The reconciler over a scripted executor and hand-written diaries, on both databases."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from control_bench import Bench, finished, started, step

from burnish.control.launch import attempt_key
from burnish.control.private import keep_environment
from burnish.control.queue import HOLDING
from burnish.control.reconciler import LeaseLost, Reconciler
from burnish.control.runs import get_run, stop_run
from burnish.control.settings import Patience
from burnish.control.tables import RunRow
from burnish.errors import RunError
from burnish.executors.base import Slot
from burnish.executors.scripted import LOST, RUNNING, Scripted, exited
from burnish.run.order import read_order
from burnish.run.status import RunStatus

S = RunStatus


@pytest.fixture
def reconciler(bench: Bench) -> Reconciler:
    return Reconciler(bench.house)


def _start(bench: Bench, reconciler: Reconciler, **values) -> str:
    """A run that trains: launched, up and seen."""
    run_id = bench.add_run(**values)
    reconciler.tick()
    bench.write(run_id, started(), step(1))
    reconciler.tick()
    assert bench.run(run_id).status == S.RUNNING
    return run_id


def test_a_run_goes_from_waiting_to_completed(bench: Bench, reconciler: Reconciler) -> None:
    run_id = bench.add_run()
    key = attempt_key(run_id, 1)
    reconciler.tick()
    assert bench.run(run_id).status == S.CREATING
    bench.write(run_id, started())
    reconciler.tick()
    assert bench.run(run_id).status == S.RUNNING
    bench.clock.seconds += 60
    bench.write(run_id, *(step(n) for n in range(1, 11)), finished())
    bench.executor.tell(key, exited(0, ended_at=bench.clock()))
    reconciler.tick()
    run = get_run(bench.house, run_id)
    assert (run.status, run.reason, run.step, run.usage.tokens) == (S.COMPLETED, "", 10, 1000)
    assert run.started_at is not None and run.finished_at is not None
    assert (run.finished_at - run.started_at).total_seconds() == 60
    assert reconciler.tick() == 0
    assert [program.key for program in bench.executor.launched] == [key]


def test_the_trainer_is_given_its_order_and_none_of_the_servers_secrets(
    bench: Bench, reconciler: Reconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNISH_DATABASE", "postgresql://u:word@host/db")
    run_id = bench.add_run()
    keep_environment(bench.house, run_id, {"WANDB_API_KEY": "fakewandb123", "OMP_WAIT_POLICY": "active"})
    reconciler.tick()
    [program] = bench.executor.launched
    directory = bench.directory(run_id)
    assert program.argv[1:] == ("-m", "burnish.train", str(directory.root), "--attempt", "1")
    assert (program.directory, program.log, program.slots) == (directory.root, directory.log, (0,))
    assert program.environment["WANDB_API_KEY"] == "fakewandb123"
    assert program.environment["OMP_WAIT_POLICY"] == "active"
    assert program.environment["PYTHONUNBUFFERED"] == "1"
    assert "BURNISH_DATABASE" not in program.environment
    order = read_order(directory)
    assert (order.run_id, order.spec.steps, order.spec.environment) == (run_id, 10, {})
    assert order.model_directory == bench.house.models.find("burnish/tiny").directory
    assert directory.config.read_text() == "max_steps = 10\n"
    assert not any(b"fakewandb123" in path.read_bytes() for path in directory.root.rglob("*") if path.is_file())


def test_runs_take_turns_on_one_slot_in_the_order_they_came(bench: Bench, reconciler: Reconciler) -> None:
    first, second, third = (bench.add_run() for _ in range(3))
    reconciler.tick()
    assert [bench.run(each).status for each in (first, second, third)] == [S.CREATING, S.PENDING, S.PENDING]
    assert bench.run(second).reason == f"Waits for the one CPU slot, held by {first}."
    assert bench.run(third).reason == f"Waits for the one CPU slot, held by {first}; 1 run ahead."
    bench.executor.tell(attempt_key(first, 1), exited(1))
    reconciler.tick()
    assert [bench.run(each).status for each in (first, second, third)] == [S.FAILED, S.CREATING, S.PENDING]
    assert bench.run(second).reason == ""


def test_a_long_queue_that_has_been_told_why_is_left_alone(bench: Bench, reconciler: Reconciler) -> None:
    runs = [bench.add_run() for _ in range(4)]
    reconciler.tick()
    bench.clock.seconds += 31
    expired = bench.run(runs[3]).lease_expires_at
    reconciler.tick()
    assert bench.run(runs[3]).lease_expires_at == expired  # not even its lease was renewed
    stop_run(bench.house, runs[1])
    reconciler.tick()
    assert bench.run(runs[3]).reason == f"Waits for the one CPU slot, held by {runs[0]}; 1 run ahead."


def test_runs_share_a_machine_with_many_slots(bench: Bench) -> None:
    slots = [Slot("cuda", "NVIDIA H200", 1 << 37, index) for index in range(4)]
    bench = replace(bench, house=replace(bench.house, executor=Scripted(slots=slots)))
    first, second, third = bench.add_run(ranks=2), bench.add_run(ranks=1), bench.add_run(ranks=2)
    Reconciler(bench.house).tick()
    assert bench.attempt(first).slots == [0, 1]
    assert bench.attempt(second).slots == [2]
    assert bench.run(third).reason.startswith("Waits for 2 GPU slots, held by ")


def test_a_lost_supervisor_means_a_new_attempt_on_the_same_run(bench: Bench, reconciler: Reconciler) -> None:
    run_id = _start(bench, reconciler)
    bench.executor.tell(attempt_key(run_id, 1), LOST)
    reconciler.tick()
    assert "lost" in bench.attempt(run_id).reason
    assert (bench.run(run_id).status, bench.run(run_id).attempt) == (S.CREATING, 2)
    assert bench.executor.launched[1].argv[-2:] == ("--attempt", "2")
    assert bench.attempt(run_id, 2).best_before == 1
    assert bench.run(run_id).started_at == bench.attempt(run_id, 1).launched_at


def test_two_attempts_without_a_new_step_are_a_crash_loop(bench: Bench, reconciler: Reconciler) -> None:
    run_id = bench.add_run()
    for number in (1, 2):
        reconciler.tick()
        bench.write(run_id, started(), attempt=number)
        bench.executor.tell(attempt_key(run_id, number), LOST)
        reconciler.tick()
    run = bench.run(run_id)
    assert (run.status, len(bench.executor.launched)) == (S.FAILED, 2)
    assert "without a new step" in run.reason


def test_three_attempts_are_enough(bench: Bench, reconciler: Reconciler) -> None:
    run_id = bench.add_run()
    for number in (1, 2, 3):
        reconciler.tick()
        bench.write(run_id, started(resumed_from_step=number - 1), step(number), attempt=number)
        bench.executor.tell(attempt_key(run_id, number), LOST)
        reconciler.tick()
    assert (bench.run(run_id).status, len(bench.executor.launched)) == (S.FAILED, 3)
    assert "last of 3 attempts" in bench.run(run_id).reason


def test_a_trainer_that_failed_by_itself_is_not_tried_again(bench: Bench, reconciler: Reconciler) -> None:
    run_id = _start(bench, reconciler)
    bench.write(run_id, finished("failed", message="train.jsonl:17 is no JSON.", hint="Mend it."))
    bench.executor.tell(attempt_key(run_id, 1), exited(1))
    reconciler.tick()
    reconciler.tick()
    run = bench.run(run_id)
    assert (run.status, run.reason, run.hint) == (S.FAILED, "train.jsonl:17 is no JSON.", "Mend it.")
    assert (bench.attempt(run_id).exit_code, bench.attempt(run_id).reason) == (1, "It ended with exit code 1.")
    assert len(bench.executor.launched) == 1


# -- stopping, at every stage -----------------------------------------------


def test_stopping_a_run_that_waits_ends_it_at_once_and_starts_nothing(bench: Bench, reconciler: Reconciler) -> None:
    run_id = bench.add_run()
    assert stop_run(bench.house, run_id).status == S.STOPPED
    reconciler.tick()
    assert bench.executor.launched == []
    assert bench.run(run_id).finished_at is not None


def test_stopping_a_run_that_is_being_started(bench: Bench, reconciler: Reconciler) -> None:
    run_id = bench.add_run()
    reconciler.tick()
    assert stop_run(bench.house, run_id).status == S.STOPPING
    reconciler.tick()
    reconciler.tick()
    assert bench.run(run_id).status == S.STOPPED
    assert [key for key, _ in bench.executor.stopped] == [attempt_key(run_id, 1)]


def test_stopping_twice_asks_the_trainer_once(bench: Bench, reconciler: Reconciler) -> None:
    run_id = _start(bench, reconciler)
    for _ in range(3):
        assert stop_run(bench.house, run_id).status == S.STOPPING
        reconciler.tick()
        bench.executor.tell(attempt_key(run_id, 1), RUNNING)  # it saves a checkpoint first
    bench.write(run_id, finished("stopped", at_step=1))
    bench.executor.tell(attempt_key(run_id, 1), exited(0))
    reconciler.tick()
    assert bench.run(run_id).status == S.STOPPED
    assert len(bench.executor.stopped) == 1
    assert stop_run(bench.house, run_id).status == S.STOPPED


def test_stopping_what_has_completed_is_answered_clearly_and_changes_nothing(
    bench: Bench, reconciler: Reconciler
) -> None:
    run_id = _start(bench, reconciler)
    bench.write(run_id, finished())
    bench.executor.tell(attempt_key(run_id, 1), exited(0))
    reconciler.tick()
    before = get_run(bench.house, run_id)
    with pytest.raises(RunError, match="has completed already"):
        stop_run(bench.house, run_id)
    assert get_run(bench.house, run_id) == before


def test_a_stop_between_claim_and_launch_starts_nothing(bench: Bench, reconciler: Reconciler) -> None:
    run_id = bench.add_run()
    bench.executor.refusal = "The machine is busy."
    reconciler.tick()
    assert bench.run(run_id).status == S.CREATING
    stop_run(bench.house, run_id)
    bench.executor.refusal = None
    reconciler.tick()
    assert bench.run(run_id).status == S.STOPPED
    assert bench.executor.launched == []


def test_the_slot_of_a_stopped_run_is_free_for_the_next(bench: Bench, reconciler: Reconciler) -> None:
    run_id, following = _start(bench, reconciler), bench.add_run()
    stop_run(bench.house, run_id)
    for _ in range(3):
        reconciler.tick()
    assert bench.run(following).status == S.CREATING


# -- two reconcilers, leases ------------------------------------------------


def test_two_reconcilers_at_once_launch_every_run_once_and_no_slot_twice(bench: Bench) -> None:
    slots = [Slot("cpu", "CPU", 1 << 30, index) for index in range(3)]
    executor = Scripted(slots=slots)
    bench = replace(bench, house=replace(bench.house, executor=executor), executor=executor)
    runs = [bench.add_run() for _ in range(5)]
    reconcilers = [Reconciler(bench.house) for _ in range(4)]
    for _ in range(3):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(Reconciler.tick, reconcilers))
        bench.clock.seconds += 31  # every lease runs out, so that others take over
    keys = [program.key for program in executor.launched]
    assert sorted(keys) == sorted(attempt_key(run_id, 1) for run_id in runs[:3])
    assert sorted(slot for program in executor.launched for slot in program.slots) == [0, 1, 2]
    assert [bench.run(each).attempt for each in runs] == [1, 1, 1, 0, 0]


def test_a_held_run_is_left_alone_until_its_lease_runs_out(bench: Bench, reconciler: Reconciler) -> None:
    run_id = bench.add_run()
    assert reconciler._take_lease(run_id)
    other = Reconciler(bench.house)
    other.tick()
    assert bench.run(run_id).status == S.PENDING
    bench.clock.seconds += 31
    other.tick()
    assert bench.run(run_id).status == S.CREATING


def test_a_reconciler_that_ends_lets_go_at_once(bench: Bench, reconciler: Reconciler) -> None:
    run_id = bench.add_run()
    assert reconciler._take_lease(run_id)
    stop = threading.Event()
    stop.set()
    reconciler.run_forever(stop)
    Reconciler(bench.house).tick()
    assert bench.run(run_id).status == S.CREATING


def test_a_lost_lease_writes_nothing(bench: Bench, reconciler: Reconciler) -> None:
    run_id = _start(bench, reconciler)
    run, _ = reconciler._read(run_id)
    bench.clock.seconds += 31
    assert Reconciler(bench.house)._take_lease(run_id)
    before, attempt_before = _all_of(bench.run(run_id)), _all_of(bench.attempt(run_id))
    for deed in (
        lambda: reconciler._write(run, reason="mine"),
        lambda: reconciler._send_stop(run, "was asked to stop"),
        lambda: reconciler._requeue(run, LOST, "lost"),
    ):
        with pytest.raises(LeaseLost):
            deed()
    assert (_all_of(bench.run(run_id)), _all_of(bench.attempt(run_id))) == (before, attempt_before)


def test_a_status_that_changed_since_it_was_read_writes_nothing(bench: Bench, reconciler: Reconciler) -> None:
    run_id = _start(bench, reconciler)
    run, _ = reconciler._read(run_id)
    stop_run(bench.house, run_id)
    with pytest.raises(LeaseLost):
        reconciler._requeue(run, LOST, "lost")
    assert bench.run(run_id).status == S.STOPPING


def test_a_reconciler_that_died_after_the_claim_is_followed_by_one_launch(bench: Bench, reconciler: Reconciler) -> None:
    run_id = bench.add_run()
    reconciler._take_lease(run_id)
    reconciler._claim(reconciler._read(run_id)[0])
    bench.clock.seconds += 31
    following = Reconciler(bench.house)
    following.tick()
    following.tick()
    assert [program.key for program in bench.executor.launched] == [attempt_key(run_id, 1)]
    assert bench.attempt(run_id).launched_at is not None


def test_a_new_reconciler_adopts_what_runs(bench: Bench, reconciler: Reconciler) -> None:
    run_id = _start(bench, reconciler)
    bench.write(run_id, *(step(n) for n in range(2, 11)), finished())
    bench.executor.tell(attempt_key(run_id, 1), exited(0))
    bench.clock.seconds += 31
    Reconciler(bench.house).tick()
    assert (bench.run(run_id).status, bench.run(run_id).step) == (S.COMPLETED, 10)
    assert len(bench.executor.launched) == 1


# -- trouble ----------------------------------------------------------------


def test_one_runs_trouble_is_not_the_others(bench: Bench, reconciler: Reconciler) -> None:
    troubled, fine = bench.add_run(), bench.add_run()
    with bench.house.database.session() as session:
        row = session.get_one(RunRow, troubled)
        row.layout, row.spec = {}, {"model": 7}
    reconciler.patience = Patience(troubles=3)
    for _ in range(4):
        reconciler.tick()
    assert bench.run(troubled).status == S.FAILED
    assert "ValidationError" in bench.run(troubled).reason
    assert bench.run(fine).status == S.CREATING


def test_a_machine_that_refuses_for_a_while_is_tried_again(bench: Bench, reconciler: Reconciler) -> None:
    run_id = bench.add_run()
    bench.executor.refusal = "No process can be started."
    for _ in range(10):
        reconciler.tick()
    assert bench.run(run_id).status == S.CREATING
    assert bench.run(run_id).reason == "The server has trouble with this run: No process can be started."
    bench.executor.refusal = None
    reconciler.tick()
    bench.write(run_id, started())
    reconciler.tick()
    run = bench.run(run_id)
    assert (run.status, run.attempt, run.troubles, run.reason) == (S.RUNNING, 1, 0, "")


def test_a_machine_that_refuses_for_good_fails_the_run(bench: Bench) -> None:
    run_id = bench.add_run()
    bench.executor.refusal = "No process can be started."
    reconciler = Reconciler(bench.house, patience=Patience(troubles=5))
    for _ in range(6):
        reconciler.tick()
    assert bench.run(run_id).status == S.FAILED
    assert "No process can be started." in bench.run(run_id).reason
    assert bench.run(run_id).finished_at is not None


def test_what_became_impossible_while_it_waited_fails_with_its_own_sentence(
    bench: Bench, reconciler: Reconciler
) -> None:
    run_id = bench.add_run(volume="research")
    reconciler.tick()
    run = bench.run(run_id)
    assert (run.status, run.reason) == (S.FAILED, "There is no volume research.")


def test_a_program_that_no_run_wants_is_stopped(bench: Bench) -> None:
    reconciler = Reconciler(bench.house, patience=Patience(sweep=0))
    run_id = _start(bench, reconciler)
    with bench.house.database.session() as session:
        session.get_one(RunRow, run_id).status = S.FAILED
    reconciler.tick()
    assert [key for key, _ in bench.executor.stopped] == [attempt_key(run_id, 1)]


def test_it_wakes_when_the_bell_rings_and_ends_when_told(bench: Bench) -> None:
    reconciler = Reconciler(bench.house, patience=Patience(idle=600))
    stop = threading.Event()
    thread = threading.Thread(target=reconciler.run_forever, args=(stop,))
    thread.start()
    try:
        run_id = bench.add_run()
        bench.house.bell.set()
        deadline = time.monotonic() + 10
        while bench.run(run_id).status not in HOLDING and time.monotonic() < deadline:
            time.sleep(0.01)
        assert bench.run(run_id).status == S.CREATING
    finally:
        stop.set()
        bench.house.bell.set()
        thread.join(10)
    assert not thread.is_alive()


def _all_of(row) -> dict:
    return {column.key: getattr(row, column.key) for column in row.__table__.columns}


def test_a_clock_that_was_set_back_does_not_keep_a_dead_reconcilers_lease_alive(
    bench: Bench, reconciler: Reconciler
) -> None:
    run_id = bench.add_run()
    reconciler.tick()
    bench.clock.seconds -= 3600
    successor = Reconciler(bench.house)
    successor.tick()
    assert bench.run(run_id).lease_token == successor.token


def test_trouble_that_lasts_is_logged_once_and_not_at_every_tick(
    bench: Bench, reconciler: Reconciler, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = bench.add_run()
    bench.executor.refusal = "The machine is away."
    for _ in range(5):
        reconciler.tick()
    assert [line for line in caplog.messages if "away" in line] == [
        f"{run_id} could not be looked after: The machine is away."
    ]
    bench.executor.refusal = None
    reconciler.tick()
    assert bench.run(run_id).status == S.CREATING


def test_a_run_whose_files_find_no_room_fails_and_says_so(bench: Bench, reconciler: Reconciler) -> None:
    run_id = bench.add_run()
    # Where its folder should be made there is a file, which the system refuses as it would a full disk.
    bench.directory(run_id).root.parent.mkdir(parents=True, exist_ok=True)
    bench.directory(run_id).root.write_text("in the way")
    for _ in range(Patience().troubles):
        reconciler.tick()
    run = bench.run(run_id)
    assert run.status == S.FAILED
    assert "File exists" in run.reason and str(bench.directory(run_id).root) in run.reason
