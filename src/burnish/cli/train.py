"""`burnish train`: dispatch a config, and list, watch, stop and delete runs."""

import difflib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from burnish.cli.check_text import summary_lines
from burnish.cli.follow import ending_text, follow_run
from burnish.cli.model_folder import newest_model
from burnish.cli.session import Json, Yes, answer, ask_first, new_app, open_client, say
from burnish.cli.show import WorkBar
from burnish.cli.text import NO_MODELS, capacity_text, checkpoints_text, metrics_text, models_text, run_text, runs_text
from burnish.errors import ConfigError
from burnish.run.status import RunStatus
from burnish.sdk.client import Client
from burnish.sdk.local import find_place
from burnish.wire import CheckpointList, ModelList, RunDetail, RunList

_DISPATCH = "dispatch"


class _TrainGroup(TyperGroup):
    """`train CONFIG` and `train list` are both ways in: a first word that is no subcommand is a config."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [_DISPATCH, *args]
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        formatter.write_usage(ctx.command_path, "CONFIG [OPTIONS]")
        formatter.write_usage(ctx.command_path, "COMMAND [ARGS]...", prefix="       ")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.commands[_DISPATCH].format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


class _DispatchContext(typer.Context):
    @property
    def command_path(self) -> str:
        """The hidden command goes by its group's name: `burnish train`."""
        return self.parent.command_path if self.parent else super().command_path


class _Dispatch(TyperCommand):
    context_class = _DispatchContext


app = new_app("Train a model by a config, on a volume's data; then list, watch, stop and delete runs.", cls=_TrainGroup)

RunId = Annotated[str, typer.Argument(metavar="RUN_ID", help="The run: job_...", show_default=False)]


@app.command(_DISPATCH, hidden=True, cls=_Dispatch)
def dispatch(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The config file: sft.toml.", show_default=False)],
    volume: Annotated[str | None, typer.Option(help="The volume that holds the data and takes the run.")] = None,
    name: Annotated[str | None, typer.Option(help="What to call the run.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Watch until it is over; Ctrl-C leaves it be.")
    ] = False,
    here: Annotated[bool, typer.Option("--here", help="Train in this terminal, without a server.")] = False,
    json: Json = False,
) -> None:
    """Train a model by a config."""
    text = read_config_text(config)
    if here:
        # What only this needs (numpy, pyarrow) is not there where only the client is installed.
        from burnish.cli.here import train_here

        raise typer.Exit(train_here(text, volume=volume, name=name, json=json))
    _start(lambda client: client.runs.submit(text, volume=volume, name=name), follow=follow, json=json)


@app.command()
def resume(
    run_id: RunId,
    step: Annotated[int | None, typer.Option(min=1, help="Go on from this step's checkpoint, not the newest.")] = None,
    name: Annotated[str | None, typer.Option(help="What to call the new run.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Watch until it is over; Ctrl-C leaves it be.")
    ] = False,
    json: Json = False,
) -> None:
    """Start a new run that goes on from a checkpoint of one that has ended."""
    _start(lambda client: client.runs.resume(run_id, step=step, name=name), follow=follow, json=json)


def _start(ask: Callable[[Client], RunDetail], *, follow: bool, json: bool) -> None:
    with open_client() as client:
        with WorkBar(silent=json) as bar:
            bar.wait("The server checks the config and its rows")
            run = ask(client)
        if not json:
            _tell_dispatched(client, run, what_next=not follow)
        if follow:
            run = follow_run(client, run.id, to_stderr=json)
            print(ending_text(run, newest_model(client, run.id)), file=sys.stderr if json else sys.stdout)
    if json:
        print(run.model_dump_json(indent=2))
    raise typer.Exit(1 if run.status is RunStatus.FAILED else 0)


@app.command("list")
def list_runs(json: Json = False) -> None:
    """List the runs, newest first."""
    with open_client() as client:
        runs = client.runs.list()
    text = runs_text(runs) or "No runs yet. Start one: burnish train sft.toml --volume research"
    answer(RunList(runs=runs), text, json=json)


@app.command()
def get(run_id: RunId, json: Json = False) -> None:
    """Show one run: its status, times, usage and output."""
    with open_client() as client:
        run = client.runs.get(run_id)
        check = None if json else client.runs.check(run_id)
    said = "".join(f"\n  {line}" for line in summary_lines(check, notes=run.notes)) if check else ""
    answer(run, run_text(run) + said, json=json)


@app.command()
def metrics(
    run_id: RunId,
    every: Annotated[bool, typer.Option("--all", help="Every series, not the loss alone.")] = False,
    json: Json = False,
) -> None:
    """Print the loss of every step."""
    with open_client() as client:
        found = client.runs.metrics(run_id)
        if not found.steps:
            say(f"No steps yet: run {run_id} is {client.runs.get(run_id).status}.")
    answer(found, metrics_text(found, every=every), json=json)


@app.command()
def logs(
    run_id: RunId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Until the run is over.")] = False,
    json: Json = False,
) -> None:
    """Print the trainer's log."""
    with open_client() as client:
        views = []
        for view in client.runs.log_views(run_id, follow=follow):
            views.append(view) if json else _write(view.text)
    if json:
        whole = views[-1].model_copy(update={"text": "".join(view.text for view in views)})
        print(whole.model_dump_json(indent=2))


@app.command()
def stop(run_id: RunId, json: Json = False) -> None:
    """Stop a run; it saves a checkpoint first, if it saves any."""
    with open_client() as client:
        run = client.runs.stop(run_id)
    text = f"Run {run.id} is {run.status}."
    answer(run, text if run.status.is_over else f"{text} Watch it end: burnish train get {run.id}", json=json)


@app.command()
def delete(run_id: RunId, yes: Yes = False, json: Json = False) -> None:
    """Delete the record of a run that is over; what it saved stays on the volume."""
    with open_client() as client:
        run = client.runs.get(run_id)
        ask_first(f"Delete run {run.id} ({run.status}) with its log and metrics? What it saved stays.", yes=yes)
        client.runs.delete(run_id)
    answer(run, f"Deleted run {run.id}. What it saved stays at {run.output_path}", json=json)


@app.command()
def checkpoints(run_id: RunId, json: Json = False) -> None:
    """List a run's checkpoints on its volume."""
    with open_client() as client:
        found = client.runs.checkpoints(run_id)
    text = checkpoints_text(found) or "No checkpoints. A [ckpt] table in the config asks for one at the end."
    answer(CheckpointList(checkpoints=found), text, json=json)


@app.command("models")
def list_models(json: Json = False) -> None:
    """List the models that can be trained."""
    with open_client() as client:
        models = client.models.list()
    answer(ModelList(models=models), models_text(models) or NO_MODELS, json=json)


def read_config_text(config: Path) -> str:
    """The file's text as written; `ConfigError` with a sentence where there is none to read."""
    try:
        return config.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError(f"{config} is not there.", hint=_near_hint(str(config))) from error
    except IsADirectoryError as error:
        raise ConfigError(
            f"{config} is a folder, not a config.", hint=f"Name the file in it: {config}/sft.toml."
        ) from error
    except PermissionError as error:
        raise ConfigError(f"{config} may not be read.", hint=f"Look at who may: ls -l {config}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{config} is not UTF-8 text: byte {error.start} cannot be read.",
            hint="Save it as UTF-8, or name another file.",
        ) from error


def _near_hint(word: str) -> str:
    group = typer.main.get_group(app)
    near = difflib.get_close_matches(word, [name for name in group.commands if name != _DISPATCH], n=1)
    if near:
        return f"Did you mean `burnish train {near[0]}`?"
    return "Name a config file, or a command: `burnish train --help` lists them."


def _tell_dispatched(client: Client, run: RunDetail, *, what_next: bool) -> None:
    if find_place().home is not None:
        print(f"Using the local server ({capacity_text(client.capacity())})")
    print(f"Dispatched run {run.id}")
    for note in run.notes:
        print(f"Note: {note}")
    print(f"\nMonitor run at:\n  {run.page_url}\n")
    if what_next:
        print(
            f"Then:\n  burnish train logs {run.id} -f\n  burnish train get {run.id}\n  burnish train metrics {run.id}\n"
        )


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
