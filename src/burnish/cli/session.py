"""What every command begins with: a client of the right server, and the options they share."""

import sys
from typing import Annotated

import typer

from burnish.errors import Conflict
from burnish.literals import printable
from burnish.sdk.client import Client
from burnish.sdk.local import connect, find_place
from burnish.wire import Wire

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document to stdout and nothing else there.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def new_app(summary: str, **options) -> typer.Typer:
    """A command group whose help is plain text, and whose errors are the front door's to print."""
    return typer.Typer(
        help=summary,
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
        **options,
    )


def open_client() -> Client:
    return connect(find_place(), say=say)


def say(line: str) -> None:
    """To the user, beside the output: stdout stays clean for pipes."""
    print(printable(line, keep="\n"), file=sys.stderr, flush=True)


def answer(view: Wire, text: str, *, json: bool) -> None:
    """What the command was for, to stdout: one JSON document, or words."""
    print(view.model_dump_json(indent=2) if json else printable(text, keep="\n\t"))


def ask_first(question: str, *, yes: bool) -> None:
    """Go on only on a yes: by `-y`, or typed."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Conflict(f"Nobody is there to ask: {question}", hint="Add -y to go on without asking.")
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)
