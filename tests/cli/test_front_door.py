"""Help, usage errors and the shape of an error, none of which needs a server."""

import subprocess
import sys

import pytest

from burnish.cli.main import COMMANDS, error_text
from burnish.errors import ConfigError, ModelError, Problem

HEAVY = ["typer", "click", "rich", "pydantic", "httpx", "numpy", "torch", "burnish.wire", "burnish.cli.train"]


def test_help_imports_no_command_and_no_library():
    code = (
        "import sys; from burnish.cli.main import main; main(['--help']); "
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("command", [*COMMANDS, "train list", "volumes put", "models export"])
def test_every_command_explains_itself(terminal, command):
    assert "Usage: burnish " + command in terminal.run(*command.split(), "--help").stdout


def test_commands_that_start_no_training_import_no_torch_and_no_numpy():
    modules = sorted({module for module, _ in COMMANDS.values()})
    code = (
        f"import sys, importlib; [importlib.import_module(name) for name in {modules!r}]; "
        "print([name for name in ('torch', 'numpy', 'pyarrow', 'fastapi', 'sqlalchemy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_version_is_the_packages_own(terminal):
    assert terminal.run("--version").stdout == "burnish 0.1.0\n"


def test_a_misspelt_command_is_met_with_the_nearest(terminal):
    done = terminal.run("voluems", "list", code=2)
    assert done.stderr == "Error: There is no command 'voluems'.\nHint: Did you mean `burnish volumes`?\n"


@pytest.mark.parametrize(
    "words",
    ["train --volumee x sft.toml", "volumes create", "train get", "volumes resize x", "chat", "train get x --jsn"],
)
def test_a_usage_error_exits_with_2_and_says_nothing_on_stdout(terminal, words):
    done = terminal.run(*words.split(), code=2)
    assert "Usage: burnish" in done.stderr and "Error: " in done.stderr
    assert done.stdout == ""


def test_no_words_at_all_are_met_with_help(terminal):
    assert "Usage: burnish COMMAND" in terminal.run().stdout


def test_brackets_in_an_error_are_printed_as_they_are():
    error = ModelError("[eval] and [bold]x[/bold] stay.", hint="[red]Remove[/red] it.")
    assert error_text(error) == "Error: [eval] and [bold]x[/bold] stay.\nHint: [red]Remove[/red] it."


def test_every_problem_of_a_config_has_its_line():
    problems = (Problem("max_stps", "no such key"), Problem("optim.lr", "not a number"))
    error = ConfigError("max_stps: no such key. optim.lr: not a number.", hint="Mend them.", problems=problems)
    assert error_text(error).splitlines() == [
        "Error: The config has 2 problems.",
        "  max_stps: no such key",
        "  optim.lr: not a number",
        "Hint: Mend them.",
    ]


def test_a_reader_that_leaves_early_is_no_error_of_ours(terminal):
    process = terminal.start("--help")
    process.stdout.close()
    assert "Traceback" not in process.stderr.read()
    process.wait(timeout=20)
    process.stderr.close()
