"""Stopping: asked politely, then killed, whoever is still there to see it."""

import math
import os
import signal
import subprocess
import sys
import time

from real_programs import Machine, is_alive, read_pid, until

from burnish.executors.base import Phase

STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.05; done"

STOPPER = """
import os, signal, sys
from pathlib import Path
from burnish.executors.local import LocalExecutor

LocalExecutor(Path(sys.argv[1])).stop("job", grace_seconds=0.3)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_program_that_listens_may_finish_and_its_own_exit_code_counts(each_machine: Machine) -> None:
    script = "trap 'sleep 0.2; echo saved; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    each_machine.executor.launch(each_machine.shell("job", script))
    until(lambda: each_machine.log("job"))
    each_machine.executor.stop("job", grace_seconds=30)
    assert each_machine.ending("job").exit_code == 7
    assert each_machine.log("job").endswith("saved\n")


def test_a_program_that_does_not_listen_is_killed_after_the_grace_and_not_before(each_machine: Machine) -> None:
    each_machine.executor.launch(each_machine.shell("job", STUBBORN))
    until(lambda: each_machine.log("job"))
    asked = time.time()
    each_machine.executor.stop("job", grace_seconds=0.4)
    record = each_machine.ending("job")
    assert (record.signal, record.out_of_memory) == (signal.SIGKILL, False)
    assert record.ended_at - asked >= 0.4


def test_a_program_that_was_paused_hears_the_stop(machine: Machine) -> None:
    script = "trap 'echo saved; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    machine.executor.launch(machine.shell("job", script))
    until(lambda: machine.log("job"))
    pid = machine.executor.inspect("job").pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    machine.executor.stop("job", grace_seconds=30)
    assert machine.ending("job").exit_code == 7
    assert machine.log("job").endswith("saved\n")


def test_a_supervisor_that_was_paused_carries_out_the_stop(machine: Machine) -> None:
    machine.executor.launch(machine.shell("job", STUBBORN))
    until(lambda: machine.log("job"))
    os.kill(machine.state("job").supervisor_pid, signal.SIGSTOP)
    machine.executor.stop("job", grace_seconds=0)
    assert machine.ending("job").signal == signal.SIGKILL


def test_a_stop_is_carried_out_after_whoever_asked_for_it_has_died(machine: Machine) -> None:
    machine.executor.launch(machine.shell("job", STUBBORN))
    until(lambda: machine.log("job"))
    stopper = subprocess.run([sys.executable, "-c", STOPPER, machine.attempts], check=False)
    assert stopper.returncode == -signal.SIGKILL
    assert machine.ending("job").signal == signal.SIGKILL


def test_a_later_stop_shortens_the_grace_and_never_lengthens_it(machine: Machine) -> None:
    machine.executor.launch(machine.shell("job", STUBBORN))
    until(lambda: machine.log("job"))
    machine.executor.stop("job", grace_seconds=math.inf)
    machine.executor.stop("job", grace_seconds=0.1)
    machine.executor.stop("job", grace_seconds=600)
    assert machine.ending("job").signal == signal.SIGKILL


def test_a_program_asks_only_once_to_be_saved_however_often_it_is_stopped(machine: Machine) -> None:
    script = "trap 'echo asked' TERM; echo ready; while [ ! -e go ]; do sleep 0.02; done"
    machine.executor.launch(machine.shell("job", script))
    until(lambda: machine.log("job"))
    for _ in range(5):
        machine.executor.stop("job", grace_seconds=60)
        until(lambda: "asked" in machine.log("job"))
    (machine.folder / "go").touch()
    machine.ending("job")
    assert machine.log("job").count("asked") == 1


def test_a_stop_without_grace_takes_the_grandchildren_along(each_machine: Machine) -> None:
    script = "(setsid sh -c 'echo $$ > pid.tmp; mv pid.tmp pid; exec sleep 600' &) ; exec sleep 600"
    each_machine.executor.launch(each_machine.shell("job", script))
    grandchild = read_pid(each_machine.folder / "pid")
    each_machine.executor.stop("job", grace_seconds=0)
    each_machine.ending("job")
    assert not is_alive(grandchild)


def test_a_program_stopped_before_it_began_never_runs(machine: Machine) -> None:
    program = machine.shell("job", "echo started")
    machine.attempt("job").freeze(program, environment={}, cgroups=True)
    machine.executor.stop("job")
    machine.executor.launch(program)
    assert machine.ending("job").signal == signal.SIGTERM
    assert not (machine.folder / "job.log").exists()


def test_stopping_what_has_ended_changes_nothing(machine: Machine) -> None:
    record = machine.run(machine.shell("job", "exit 5"))
    machine.executor.stop("job", grace_seconds=0)
    sight = machine.executor.inspect("job")
    assert (sight.phase, sight.exit) == (Phase.EXITED, record)
