"""How programs end, and that the record says so."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_programs import Machine, is_alive, read_pid, until

from burnish.errors import ExecutorError
from burnish.executors.base import Phase, Program
from burnish.executors.cgroup import make_cgroup
from burnish.executors.local import LocalExecutor

MEMORY_CGROUPS = Path("/sys/fs/cgroup/memory")

STRAY = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("stray.tmp", "w").write(str(os.getpid()))
        os.rename("stray.tmp", "stray")
        time.sleep(600)
    os._exit(0)
while not os.path.exists("stray"):
    time.sleep(0.001)
"""


def test_exit_codes_are_told_as_they_were(machine: Machine) -> None:
    codes = (0, 1, 75, 255)
    before = time.time()
    for code in codes:
        machine.executor.launch(machine.shell(f"job-{code}", f"exit {code}"))
    for code in codes:
        record = machine.ending(f"job-{code}")
        assert (record.exit_code, record.signal, record.out_of_memory) == (code, None, False)
        assert before <= record.ended_at <= time.time()


def test_deaths_by_signal_are_told_and_not_taken_for_a_lack_of_memory(machine: Machine) -> None:
    numbers = (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)
    for number in numbers:
        machine.executor.launch(machine.shell(f"job-{number}", f"kill -{number} $$"))
    for number in numbers:
        record = machine.ending(f"job-{number}")
        assert (record.exit_code, record.signal, record.out_of_memory) == (None, number, False)


def test_output_and_errors_are_appended_to_the_log(machine: Machine) -> None:
    machine.run(machine.shell("job", "echo first; echo second >&2"))
    machine.run(Program("again", ("echo", "third"), machine.folder, {}, machine.folder / "job.log"))
    assert machine.log("job") == "first\nsecond\nthird\n"


def test_the_log_may_be_in_a_folder_that_is_not_there_yet(machine: Machine) -> None:
    log = machine.folder / "a" / "b" / "program.log"
    machine.run(Program("job", ("echo", "hello"), machine.folder, {}, log))
    assert log.read_text() == "hello\n"


def test_a_program_gets_its_folder_and_both_environments_with_its_own_on_top(tmp_path: Path) -> None:
    inherited = {"PATH": os.environ["PATH"], "COLOUR": "red", "SHAPE": "round"}
    machine = Machine(tmp_path, LocalExecutor(tmp_path / "attempts", inherited))
    machine.run(machine.shell("job", "pwd; echo $COLOUR $SHAPE; echo ${HOME-none}", COLOUR="blue"))
    assert machine.log("job").split() == [str(tmp_path), "blue", "round", "none"]


def test_a_program_gets_default_signals_even_if_its_launcher_ignored_them(machine: Machine) -> None:
    # A server started in the background of a shell ignores Ctrl-C; a trainer that inherited that could not be
    # interrupted by its own launcher.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        record = machine.run(machine.shell("job", "kill -INT $$; exit 3"))
    finally:
        signal.signal(signal.SIGINT, before)
    assert record.signal == signal.SIGINT


def test_a_missing_interpreter_is_an_error_and_a_record_of_127(machine: Machine) -> None:
    program = Program("job", ("/no/such/python", "-m", "x"), machine.folder, {}, machine.folder / "job.log")
    with pytest.raises(ExecutorError, match="could not be started: /no/such/python: No such file"):
        machine.executor.launch(program)
    assert machine.ending("job").exit_code == 127
    assert "/no/such/python" in machine.log("job")
    with pytest.raises(ExecutorError, match="/no/such/python"):
        machine.executor.launch(program)


def test_a_missing_folder_is_blamed_by_name(machine: Machine) -> None:
    program = Program("job", ("true",), machine.folder / "gone", {}, machine.folder / "job.log")
    with pytest.raises(ExecutorError, match="gone"):
        machine.executor.launch(program)


def test_a_file_that_is_no_program_is_a_record_of_126(machine: Machine) -> None:
    (machine.folder / "notes.txt").write_text("hello")
    program = Program("job", (str(machine.folder / "notes.txt"),), machine.folder, {}, machine.folder / "job.log")
    with pytest.raises(ExecutorError, match="Permission denied"):
        machine.executor.launch(program)
    assert machine.ending("job").exit_code == 126


def test_an_argument_that_no_program_can_be_given_is_an_error(machine: Machine) -> None:
    program = Program("job", ("echo", "a\0b"), machine.folder, {}, machine.folder / "job.log")
    with pytest.raises(ExecutorError, match="could not be started: echo: Invalid argument"):
        machine.executor.launch(program)
    assert machine.ending("job").exit_code == 126


def test_nothing_that_a_program_started_outlives_it(each_machine: Machine) -> None:
    # The stray has forked twice and leads a session of its own: no signal to a group reaches it.
    record = each_machine.run(each_machine.python("job", STRAY))
    assert record.exit_code == 0
    assert not is_alive(read_pid(each_machine.folder / "stray"))


JOINER = """
import sys
from pathlib import Path
from burnish.executors.base import Program
from burnish.executors.local import LocalExecutor

folder = Path(sys.argv[1])
Path(sys.argv[2], "cgroup.procs").write_text("0")
LocalExecutor(folder / "attempts").launch(Program("job", ("sh", "-c", "exit 6"), folder, {}, folder / "job.log"))
"""


def test_a_cgroup_that_can_be_made_but_not_joined_is_done_without(machine: Machine) -> None:
    # What is made below a threaded cgroup refuses whole processes until someone makes it threaded too.
    threaded = make_cgroup(f"burnish-test-{os.getpid()}")
    if threaded is None:
        pytest.skip("no cgroup can be made here")
    try:
        (threaded / "cgroup.type").write_text("threaded")
        subprocess.run([sys.executable, "-c", JOINER, machine.folder, threaded], check=True)
        state = machine.state("job")
        assert machine.ending("job").exit_code == 6
        assert state.cgroup is not None
        assert Path(state.cgroup).parent == threaded
        assert not Path(state.cgroup).exists()
    finally:
        until(lambda: not (threaded / "cgroup.threads").read_text())
        threaded.rmdir()


def test_a_program_killed_for_memory_says_so(machine: Machine) -> None:
    limited = MEMORY_CGROUPS / f"burnish-test-{os.getpid()}"
    try:
        limited.mkdir()
        (limited / "memory.limit_in_bytes").write_text(str(64 * 1024**2))
    except OSError:
        pytest.skip("no memory cgroup (version 1) can be made here to run out of")
    try:
        script = f"open('{limited}/cgroup.procs', 'w').write('0'); bytearray(512 * 1024**2)"
        record = machine.run(machine.python("job", script))
    finally:
        limited.rmdir()
    assert (record.signal, record.out_of_memory) == (signal.SIGKILL, True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("no file system can be mounted here to fill up")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_program_that_fills_the_disk_still_gets_its_verdict(small_disk: Path) -> None:
    machine = Machine(small_disk, LocalExecutor(small_disk / "attempts"))
    record = machine.run(machine.shell("job", "cat /dev/zero > filler; echo more >> filler || exit 28"))
    assert record.exit_code == 28
    (small_disk / "filler").unlink()
    machine.clear()


def test_a_program_that_filled_the_disk_can_be_stopped(small_disk: Path) -> None:
    machine = Machine(small_disk, LocalExecutor(small_disk / "attempts"))
    machine.executor.launch(machine.shell("job", "cat /dev/zero > filler; touch full; exec sleep 600"))
    while os.statvfs(small_disk).f_bavail:
        time.sleep(0.005)
    machine.executor.stop("job")
    assert machine.ending("job").signal == signal.SIGTERM
    assert machine.executor.inspect("job").phase is Phase.EXITED
    (small_disk / "filler").unlink()
    machine.clear()


def test_a_launch_onto_a_full_disk_is_refused_in_words_and_can_be_repeated(small_disk: Path) -> None:
    machine = Machine(small_disk, LocalExecutor(small_disk / "attempts"))
    with (small_disk / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
        while True:
            filler.write(bytes(4096))
    with pytest.raises(ExecutorError, match=r"job could not be written down .*: No space left on device"):
        machine.executor.launch(machine.shell("job", "exit 4"))
    (small_disk / "filler").unlink()
    assert machine.run(machine.shell("job", "exit 4")).exit_code == 4
    machine.clear()
