"""`make demo`: teaches a small model to triage support tickets, by the commands that a user would type.

Everything it makes lies in `.demo/` and may be deleted. Knows the public commands and the SDK, nothing behind them.
"""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from burnish.errors import BurnishError
from burnish.run.status import RunStatus
from burnish.sdk.client import Client
from burnish.sdk.local import connect, find_place
from burnish.wire import RunView
from generate_tickets import HERE, SYSTEM
from judge import FIELDS, Row, Scores, read_rows
from model import fetch_gguf

ROOT = HERE.parent
HOME = ROOT / ".demo"
BASE = "HuggingFaceTB/SmolLM2-135M-Instruct"
VOLUME = "triage"
ROWS_BEFORE = 24
"""An untrained model talks on until it is cut off, so fewer tickets must do; all of them are asked after."""
TICKET = (
    "Hi, since this morning none of our 30 waiters can log in to Tablewise, we are turning guests away. "
    "I already wrote twice and nobody answers. Please ring me! Greta"
)
BINARIES = Path(sys.executable).parent

console = Console(highlight=False)


def main() -> int:
    os.chdir(ROOT)
    os.environ["BURNISH_HOME"] = str(HOME)
    os.environ["PATH"] = f"{BINARIES}{os.pathsep}{os.environ['PATH']}"
    started_at = time.monotonic()
    try:
        with connect(find_place(), say=console.print) as client:
            demonstrate(client)
    except BurnishError as error:
        console.print(f"\nError: {error.message}\nHint: {error.hint}", style="red", markup=False)
        return 1
    except subprocess.CalledProcessError as error:
        console.print(f"\nThat command ended with exit code {error.returncode}; the demo stops here.", style="red")
        return 1
    except KeyboardInterrupt:
        console.print("\nStopped. `make demo` starts it again and keeps what is ready.")
        return 130
    console.print(f"\nThe demo took {(time.monotonic() - started_at) / 60:.1f} minutes.", style="dim")
    return 0


def demonstrate(client: Client) -> None:
    title("1. A base model and the data")
    base = ready_model(client)
    ready_volume(client)
    title(f"2. How it triages before: {ROWS_BEFORE} held-out tickets")
    before = score(base, "before", rows=ROWS_BEFORE)
    title("3. Training")
    shell("burnish", "train", "demo/sft.toml", "--volume", VOLUME, "--follow")
    run = newest_run(client)
    title("4. The trained model, as a folder for anything that loads Hugging Face models")
    folder = HOME / "exports" / run.id
    shell("burnish", "models", "export", run.id, shown(folder))
    title("5. How it triages after: all held-out tickets, worded unlike the training data")
    after = score(folder, "after")
    show_scores(before, after)
    show_examples(before, after, read_rows())
    title("6. One more ticket")
    shell("burnish", "chat", run.id, "--system", SYSTEM, "--message", TICKET)
    suggest(run)


# -- steps ----------------------------------------------------------------------------------------------------------


def ready_model(client: Client) -> Path:
    """The base model's folder; in the cache after the first time."""
    if not any(model.id == BASE for model in client.models.list()):
        console.print("Fetching the base model's file (88 MB, once)...")
        gguf = fetch_gguf(HOME / "download")
        shell("burnish", "models", "add", shown(gguf), "--name", BASE)
        gguf.unlink()
    return Path(client.models.get(BASE).directory)


def ready_volume(client: Client) -> None:
    if not any(volume.name == VOLUME for volume in client.volumes.list()):
        shell("burnish", "volumes", "create", VOLUME, "--size", "8Gi")
    shell("burnish", "volumes", "put", VOLUME, "demo/data", "/datasets/tickets")


def score(model: Path, name: str, *, rows: int | None = None) -> Scores:
    """The model's own answers, judged. A process of its own: its memory is free again before training."""
    record = HOME / f"{name}.json"
    limit = ["--rows", str(rows)] if rows else []
    shell("python", "demo/score.py", shown(model), *limit, "--json", shown(record))
    return Scores(**json.loads(record.read_text()))


def newest_run(client: Client) -> RunView:
    run = client.runs.list()[0]
    if run.status is not RunStatus.COMPLETED:
        raise BurnishError(f"Run {run.id} is {run.status}.", hint=f"Its log: burnish train logs {run.id}")
    return run


def show_scores(before: Scores, after: Scores) -> None:
    table = Table(title="Held-out tickets", title_justify="left")
    for column in ("", f"before ({before.rows} tickets)", f"after ({after.rows} tickets)"):
        table.add_column(column, justify="left" if not column else "right")
    table.add_row("valid JSON, four fields", *(f"{scores.valid_share:.0%}" for scores in (before, after)))
    for field in FIELDS:
        table.add_row(f"{field} right", *(f"{scores.right_share(field):.0%}" for scores in (before, after)))
    table.add_row("summary, words as wanted (F1)", *(f"{scores.summary_likeness:.2f}" for scores in (before, after)))
    console.print()
    console.print(table)


def show_examples(before: Scores, after: Scores, rows: list[Row], *, examples: int = 2) -> None:
    table = Table(title="The same tickets, answered", title_justify="left", show_lines=True)
    for column in ("ticket", "before", "after"):
        table.add_column(column, ratio=1, overflow="fold")
    for row, reply, better in list(zip(rows, before.replies, after.replies, strict=False))[:examples]:
        table.add_row(*(escape(text) for text in (row[1]["content"], reply.strip(), better)))
    console.print()
    console.print(table)


def suggest(run: RunView) -> None:
    title("What to try next")
    console.print(
        f"""\
export BURNISH_HOME=$PWD/.demo PATH=$PWD/.venv/bin:$PATH
burnish train get {run.id}
burnish train metrics {run.id}
burnish chat {run.id} --system "{SYSTEM}"
burnish train demo/sft.toml --volume {VOLUME} --follow   # after changing max_steps or lr in it
burnish volumes ls {VOLUME} /runs
burnish down   # stops the local server

Watch the run's page: {run.page_url}
Everything of the demo lies in .demo/; remove that folder to start anew.""",
        markup=False,
        soft_wrap=True,
    )


# -- the rim --------------------------------------------------------------------------------------------------------


def shell(*words: str) -> None:
    """Run a command as a user would, shown before its output."""
    console.print(f"\n[bold green]$[/] [bold]{escape(shlex.join(words))}[/]", soft_wrap=True)
    subprocess.run(words, check=True)


def title(text: str) -> None:
    console.print()
    console.rule(f"[bold]{text}[/]", align="left")


def shown(path: Path) -> str:
    """Short, where it is under this folder."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


if __name__ == "__main__":
    sys.exit(main())
