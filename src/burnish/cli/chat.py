"""`burnish chat`: talk to a model on this machine. Knows which model and who says what; generation is the trainer's."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from burnish.cli.model_folder import find_speaker
from burnish.cli.session import Json, answer, new_app, say
from burnish.errors import ModelError
from burnish.wire import Wire

if TYPE_CHECKING:
    from burnish.cli.talk import Talk

app = new_app("Talk to a model.")

_ASK, _LEAVE = "> ", ("/exit", "/quit")


class ReplyView(Wire):
    """What `burnish chat --json` prints."""

    model: str
    message: str
    reply: str


@app.command()
def chat(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model's id, a run's id, or a folder.")],
    message: Annotated[str | None, typer.Option("--message", "-m", help="Say this, print the reply, leave.")] = None,
    system: Annotated[str | None, typer.Option(help="What the model is told first.")] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="The longest reply.")] = 512,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 always takes the likeliest word.")] = 0.0,
    json: Json = False,
) -> None:
    """Talk to a model. Without --message, and with nothing piped in, it is a conversation; Ctrl-D ends it."""
    talk = _load(model, system=system, max_tokens=max_tokens, temperature=temperature)
    if message is None and sys.stdin.isatty() and not json:
        return _converse(talk, model)
    asked = sys.stdin.read().strip() if message is None else message
    if json:
        return answer(ReplyView(model=model, message=asked, reply="".join(talk.say(asked))), "", json=True)
    return _print_reply(talk.say(asked))


def _converse(talk: "Talk", model: str) -> None:
    say(f"{model}. Ctrl-D or /exit ends the conversation.")
    while True:
        try:
            text = input(_ASK).strip()
        except EOFError:
            return print()
        if text in _LEAVE:
            return None
        if text:
            try:
                _print_reply(talk.say(text))
            except KeyboardInterrupt:
                print()  # enough of this reply; the conversation goes on


def _print_reply(pieces: Iterator[str]) -> None:
    for piece in pieces:
        print(piece, end="", flush=True)
    print()


def _load(name: str, **limits: Any) -> "Talk":
    speaker = find_speaker(name)
    try:
        # torch takes seconds to import, and may not be there: a misspelt model is refused before that.
        from burnish.cli.talk import Talk
    except ModuleNotFoundError as error:
        raise ModelError(
            f"Chatting needs {error.name}, which is not installed.", hint="pip install 'burnish[train]'"
        ) from error
    return Talk(speaker.folder, base=speaker.base, **limits)
