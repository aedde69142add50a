"""The front of the command line: finds the command, runs it, and turns errors into sentences and exit codes.

Knows the names of the commands and nothing of what they do; a command's module is imported when it is used,
so that `burnish --help` costs no more than starting Python.
"""

import importlib
import os
import sys
from collections.abc import Sequence

import burnish
from burnish.errors import BurnishError, ConfigError
from burnish.literals import printable

COMMANDS = {
    "train": ("burnish.cli.train", "Train a model: `burnish train CONFIG`; list, watch, stop and delete runs"),
    "check": ("burnish.cli.check", "Say what a config will train on: every token, the steps, what is odd"),
    "verify-resume": ("burnish.cli.verify", "Prove on your own config that a run that is cut off loses nothing"),
    "chat": ("burnish.cli.chat", "Talk to a model"),
    "models": ("burnish.cli.models", "Models to train and to chat with: list, add, show, remove, export"),
    "volumes": ("burnish.cli.volumes", "Storage for data and runs: create, put, get, ls, resize, delete"),
    "up": ("burnish.cli.server", "Start the local server in the background"),
    "down": ("burnish.cli.server", "Stop the local server; runs go on"),
    "status": ("burnish.cli.server", "What the server is, what it can run on, and what runs"),
    "serve": ("burnish.cli.server", "Run the server in the foreground"),
}
"""Name -> (module whose `app` runs it, one line for the help)."""

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(words)
    except BurnishError as error:
        return _fail(error_text(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Who read our output has had enough; keep the interpreter from flushing into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _fail(f"Error: {_os_sentence(error)}")
    except Exception as error:
        if os.environ.get("BURNISH_TRACEBACK"):
            raise
        return _fail(
            f"Error: This is a fault in burnish: {type(error).__name__}: {error}\n"
            "Hint: Run it again with BURNISH_TRACEBACK=1 to see where, and report it."
        )


def error_text(error: BurnishError) -> str:
    """`Error: <sentence>`, every problem of a config on its own line, `Hint: <hint>`."""
    lines = [f"Error: {error.message}"]
    if isinstance(error, ConfigError) and len(error.problems) > 1:
        lines = [f"Error: The config has {len(error.problems)} problems."]
        lines += [f"  {problem.key}: {problem.message}" for problem in error.problems]
    if error.hint:
        lines.append(f"Hint: {error.hint}")
    return "\n".join(lines)


def _run(words: list[str]) -> int:
    first = words[0] if words else "--help"
    if first in ("--help", "-h", "help"):
        print(_help())
        return 0
    if first in ("--version", "-V"):
        print(f"burnish {burnish.__version__}")
        return 0
    if first not in COMMANDS:
        return _refuse(first)
    app = importlib.import_module(COMMANDS[first][0]).app
    # Single commands share a module: there the word that named the command also picks it.
    inside = words if COMMANDS[first][0].endswith(".server") else words[1:]
    program = "burnish" if inside is words else f"burnish {first}"
    app(inside, prog_name=program)
    return 0


def _help() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {line}" for name, (_, line) in COMMANDS.items())
    return f"""\
Usage: burnish COMMAND [ARGS]...

  {burnish.__doc__}

Commands:
{commands}

Options:
  --version  Show the version
  --help     Show this; `burnish COMMAND --help` says more

Start here:
  burnish volumes create research --size 100Gi
  burnish volumes put research ./my-data /datasets/my-data
  burnish check sft.toml --volume research
  burnish train sft.toml --volume research --follow"""


def _refuse(word: str) -> int:
    import difflib  # only a misspelt word needs it

    near = difflib.get_close_matches(word, COMMANDS, n=1)
    print(f"Error: There is no command {word!r}.", file=sys.stderr)
    hint = f"Did you mean `burnish {near[0]}`?" if near else "`burnish --help` lists the commands."
    print(f"Hint: {hint}", file=sys.stderr)
    return 2


def _fail(text: str) -> int:
    print(printable(text, keep="\n"), file=sys.stderr)
    return 1


def _os_sentence(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror or error}."


if __name__ == "__main__":
    sys.exit(main())
