"""The command as its user runs it, in a home of its own with a real server, which is stopped by its pid."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from burnish.cli.main import main
from burnish.home import Home

Finished = subprocess.CompletedProcess[str]


@dataclass
class Terminal:
    """Runs `burnish ...` in `folder`, with its home in `home`."""

    home: Home
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BURNISH_")}
        environment |= self._variables()
        return subprocess.Popen(
            [sys.executable, "-m", "burnish.cli.main", *map(str, words)],
            cwd=self.folder,
            env=environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *words: str | Path, code: int = 0) -> Finished:
        """Run to the end in this process, which is quick; the exit code must be `code`."""
        out, err = io.StringIO(), io.StringIO()
        with self._as_a_process_would(), redirect_stdout(out), redirect_stderr(err):
            try:
                ended = main([*map(str, words)])
            except SystemExit as exit:
                ended = exit.code
        assert ended == code, f"{words}: exit {ended}\n{out.getvalue()}\n{err.getvalue()}"
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    def run_apart(self, *words: str | Path, code: int = 0) -> Finished:
        """Run to the end in a process of its own; no traceback is ever shown."""
        process = self.start(*words)
        out, err = process.communicate(timeout=120)
        assert "Traceback" not in err, err
        assert process.returncode == code, f"{words}: exit {process.returncode}\n{out}\n{err}"
        return subprocess.CompletedProcess(words, code, out, err)

    @contextmanager
    def _as_a_process_would(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch, chdir(self.folder), Path(os.devnull).open() as nothing:
            for name in [name for name in os.environ if name.startswith("BURNISH_")]:
                patch.delenv(name)
            for name, value in self._variables().items():
                patch.setenv(name, value)
            patch.setattr(sys, "stdin", nothing)
            yield

    def _variables(self) -> dict[str, str]:
        return {"BURNISH_HOME": str(self.home.root), "OMP_NUM_THREADS": "1"} | self.environment

    def json(self, *words: str | Path, code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", code=code).stdout)

    def server_pid(self) -> int:
        return json.loads(self.home.server.read_text())["pid"]

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def wait_for(self, seen: Callable[[], Any], *, seconds: float = 60) -> Any:
        """What `seen` answers, once it is true."""
        deadline = time.monotonic() + seconds
        while not (found := seen()):
            assert time.monotonic() < deadline, "it never came"
            time.sleep(0.05)
        return found

    def close(self) -> None:
        """Stop what trains, then the server; if it hears nothing, by force."""
        if not self.home.server.exists():
            return
        pid = self.server_pid()
        try:
            for run in self.json("train", "list")["runs"]:
                if run["status"] in ("PENDING", "CREATING", "RUNNING"):
                    self.run("train", "stop", run["id"])
                    self.wait_for(lambda run=run: self.json("train", "get", run["id"])["finished_at"])
            self.run("down")
        finally:
            if Path(f"/proc/{pid}/cmdline").exists() and "burnish.api" in Path(f"/proc/{pid}/cmdline").read_text():
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A fresh home, where nothing runs yet."""
    opened = open_terminal(tmp_path)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A home whose server the module's tests share."""
    opened = open_terminal(tmp_path_factory.mktemp("shared"))
    yield opened
    opened.close()


def open_terminal(root: Path) -> Terminal:
    (root / "work").mkdir()
    return Terminal(Home(root / "home"), root / "work")
