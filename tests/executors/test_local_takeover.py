"""Launchers and supervisors that die, and what is known afterwards."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from real_programs import Machine, is_alive, read_pid, until

from burnish.executors.attempt import State
from burnish.executors.base import Phase
from burnish.executors.local import LocalExecutor
from burnish.executors.processes import all_processes, boot_id, started

SERVER = """
import signal, sys
from pathlib import Path
from burnish.executors.base import Program
from burnish.executors.local import LocalExecutor

folder = Path(sys.argv[1])
executor = LocalExecutor(folder / "attempts")
for code in (3, 4, 5):
    script = f"while [ ! -e go ]; do sleep 0.02; done; exit {code}"
    executor.launch(Program(f"job-{code}", ("sh", "-c", script), folder, {}, folder / f"job-{code}.log"))
print("ready", flush=True)
signal.pause()
"""

NEXT_SERVER = """
import sys, time
from pathlib import Path
from burnish.executors.base import Phase
from burnish.executors.local import LocalExecutor

folder = Path(sys.argv[1])
executor = LocalExecutor(folder / "attempts")
keys = executor.find()
print([executor.inspect(key).phase.value for key in keys], flush=True)
(folder / "go").touch()
deadline = time.monotonic() + 15
while any(executor.inspect(key).phase is Phase.RUNNING for key in keys) and time.monotonic() < deadline:
    time.sleep(0.01)
print({key: executor.inspect(key).exit.exit_code for key in keys}, flush=True)
"""

RACER = """
import sys
from pathlib import Path
from burnish.executors.base import Program
from burnish.executors.local import LocalExecutor

folder = Path(sys.argv[1])
executor = LocalExecutor(folder / "attempts")
print("ready", flush=True)
sys.stdin.readline()
executor.launch(Program("job", ("sh", "-c", "echo started"), folder, {}, folder / "job.log"))
print(executor.inspect("job").phase.value, flush=True)
"""

FAMILY = """
import os, time
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        open("grandchild.tmp", "w").write(str(os.getpid()))
        os.rename("grandchild.tmp", "grandchild")
    time.sleep(600)
time.sleep(600)
"""


def _start(script: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGHUP])
def test_programs_survive_their_servers_process_group_and_the_next_server_learns_how_they_end(
    machine: Machine, number: int
) -> None:
    server = _start(SERVER, machine.folder)
    assert _line(server) == "ready"
    os.killpg(server.pid, number)
    server.wait()
    told = subprocess.check_output([sys.executable, "-c", NEXT_SERVER, machine.folder], text=True)
    assert told.splitlines() == [
        "['RUNNING', 'RUNNING', 'RUNNING']",
        "{'job-3': 3, 'job-4': 4, 'job-5': 5}",
    ]


def test_a_killed_supervisor_means_lost_and_nothing_left_alive(each_machine: Machine) -> None:
    each_machine.executor.launch(each_machine.python("job", FAMILY))
    grandchild = read_pid(each_machine.folder / "grandchild")
    state = each_machine.state("job")
    assert state.child_pid is not None
    assert (state.cgroup is None) or Path(state.cgroup).is_dir()
    os.kill(state.supervisor_pid, signal.SIGKILL)
    # The program itself goes with its supervisor, whether or not anyone looks.
    until(lambda: not is_alive(state.supervisor_pid) and not is_alive(state.child_pid or 0))
    assert is_alive(grandchild)
    assert each_machine.executor.inspect("job").phase is Phase.LOST
    assert not is_alive(grandchild)
    assert state.cgroup is None or not Path(state.cgroup).exists()


def test_a_lost_program_is_not_started_again_under_its_key(machine: Machine) -> None:
    program = machine.shell("job", "echo started; exec sleep 600")
    machine.executor.launch(program)
    until(lambda: machine.log("job"))
    os.kill(machine.state("job").supervisor_pid, signal.SIGKILL)
    until(lambda: machine.executor.inspect("job").phase is Phase.LOST)
    machine.executor.launch(program)
    assert machine.executor.inspect("job").phase is Phase.LOST
    assert machine.log("job") == "started\n"


def test_launchers_that_race_start_one_program(machine: Machine) -> None:
    racers = [_start(RACER, machine.folder) for _ in range(4)]
    for racer in racers:
        assert _line(racer) == "ready"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    assert {_line(racer) for racer in racers} <= {"RUNNING", "EXITED"}
    assert [racer.wait() for racer in racers] == [0, 0, 0, 0]
    assert machine.ending("job").exit_code == 0
    assert machine.log("job") == "started\n"


def test_launching_again_leaves_a_running_and_an_ended_program_alone(machine: Machine) -> None:
    program = machine.shell("job", "echo started; while [ ! -e go ]; do sleep 0.02; done")
    machine.executor.launch(program)
    machine.executor.launch(program)
    (machine.folder / "go").touch()
    machine.ending("job")
    machine.executor.launch(program)
    assert machine.log("job") == "started\n"


def test_a_second_supervisor_of_an_attempt_leaves_at_once_and_starts_nothing(machine: Machine) -> None:
    machine.executor.launch(machine.shell("job", "echo started; exec sleep 600"))
    until(lambda: machine.log("job"))
    second = [sys.executable, "-m", "burnish.executors.supervisor", machine.attempts / "job"]
    assert subprocess.run(second, timeout=10, check=False).returncode == 0
    assert machine.executor.inspect("job").phase is Phase.RUNNING
    assert machine.log("job") == "started\n"


@pytest.mark.parametrize("end", [Phase.EXITED, Phase.LOST])
def test_a_supervisor_that_comes_late_starts_nothing(machine: Machine, end: Phase) -> None:
    machine.executor.launch(machine.shell("job", "echo started; while [ ! -e go ]; do sleep 0.02; done"))
    until(lambda: machine.log("job"))
    if end is Phase.EXITED:
        (machine.folder / "go").touch()
    else:
        os.kill(machine.state("job").supervisor_pid, signal.SIGKILL)
    until(lambda: machine.executor.inspect("job").phase is end)
    until(lambda: not machine.attempt("job").is_locked())
    late = [sys.executable, "-m", "burnish.executors.supervisor", machine.attempts / "job"]
    assert subprocess.run(late, timeout=10, check=False).returncode == 0
    assert machine.executor.inspect("job").phase is end
    assert machine.log("job") == "started\n"


def test_a_launch_cut_off_before_its_supervisor_started_is_repaired_by_the_next(machine: Machine) -> None:
    program = machine.shell("job", "echo $COLOUR")
    machine.attempt("job").freeze(program, environment={"COLOUR": "as frozen"}, cgroups=True)
    assert machine.executor.inspect("job").phase is Phase.ABSENT
    assert machine.executor.find() == ["job"]
    machine.executor.launch(machine.shell("job", "echo something else"))
    machine.ending("job")
    assert machine.log("job") == "as frozen\n"


def test_a_launcher_that_lives_on_keeps_no_zombies(machine: Machine) -> None:
    supervisors = []
    for number in range(3):
        machine.executor.launch(machine.shell(f"job-{number}", "exit 0"))
        supervisors.append(machine.state(f"job-{number}").supervisor_pid)
    me = os.getpid()
    until(lambda: not [each for each in all_processes() if each.parent == me and each.pid in supervisors])


def test_looking_on_does_not_disturb_a_start(machine: Machine) -> None:
    # Those who look hold the lock for a moment; a supervisor that took them for another one would not start.
    looker = _start(
        "import sys\nfrom pathlib import Path\nfrom burnish.executors.attempt import Attempt\n"
        "while True: [Attempt(each).is_locked() for each in Path(sys.argv[1]).glob('attempts/*')]",
        machine.folder,
    )
    try:
        for number in range(4):
            assert machine.run(machine.shell(f"job-{number}", "exit 9")).exit_code == 9
    finally:
        looker.kill()
        looker.wait()


def test_a_reused_pid_is_neither_taken_for_the_supervisor_nor_harmed(machine: Machine) -> None:
    innocent = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        born = started(innocent.pid)
        assert born is not None
        attempt = machine.attempt("job")
        attempt.freeze(machine.shell("job", "exit 0"), environment={}, cgroups=True)
        lock = attempt.take_lock()
        assert lock is not None
        attempt.write_state(State(boot_id(), innocent.pid, born - 1, "none", None, innocent.pid, born - 1))
        machine.executor.stop("job", grace_seconds=0)
        assert machine.executor.inspect("job").phase is Phase.RUNNING
        os.close(lock)
        assert machine.executor.inspect("job").phase is Phase.LOST
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()


def test_a_program_from_before_the_last_boot_is_lost_and_nothing_of_this_boot_is_harmed(machine: Machine) -> None:
    innocent = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        born = started(innocent.pid)
        assert born is not None
        attempt = machine.attempt("job")
        attempt.freeze(machine.shell("job", "exit 0"), environment={}, cgroups=True)
        attempt.write_state(State("another boot", innocent.pid, born, "none", None, innocent.pid, born))
        assert machine.executor.inspect("job").phase is Phase.LOST
        machine.executor.stop("job", grace_seconds=0)
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()


def test_a_program_is_known_to_any_executor_on_the_same_root(machine: Machine) -> None:
    machine.executor.launch(machine.shell("job", "exec sleep 600"))
    other = LocalExecutor(machine.attempts)
    assert other.find() == ["job"]
    assert other.inspect("job") == machine.executor.inspect("job")
    other.stop("job")
    assert machine.ending("job").signal == signal.SIGTERM
