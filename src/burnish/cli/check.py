"""`burnish check`: what a config will train on, said before a device is held."""

from pathlib import Path
from typing import Annotated

import typer

from burnish.cli.session import Json, new_app, open_client
from burnish.cli.show import CheckScreen
from burnish.cli.train import read_config_text
from burnish.errors import BurnishError, ServerError
from burnish.run.report import CheckReport, refusals_of
from burnish.wire import MOST_PROOF_ROWS, CheckRequest

_SCREEN_ROWS, _JSON_ROWS = 5, 100

app = new_app("Say what a config will train on: every token, the steps, and what is odd about it.")


@app.command()
def check(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The config file: sft.toml.", show_default=False)],
    volume: Annotated[str | None, typer.Option(help="The volume that holds the data.")] = None,
    rows: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_PROOF_ROWS, help="Show so many rows token by token: 5, in JSON 100."),
    ] = None,
    first: Annotated[int | None, typer.Option(min=1, help="Read only the first so many rows.")] = None,
    run: Annotated[str | None, typer.Option(help="Say whether this run was given the same.")] = None,
    json: Json = False,
) -> None:
    """Render, count and plan as a submission does; exit code 1 where it would be refused.

    Data on a volume is read by the server; without a volume it is read here, from the current folder.
    """
    screen = CheckScreen(str(config), silent=json)
    try:
        with screen.bar:
            asked = CheckRequest(
                config=read_config_text(config),
                volume=volume,
                rows=first,
                proof_rows=rows or (_JSON_ROWS if json else _SCREEN_ROWS),
                run_id=run,
            )
            report = _check(asked, screen)
    except ServerError:
        raise
    except BurnishError as error:
        report = CheckReport(refusals=refusals_of(error))
    if json:
        print(report.model_dump_json())
    screen.end(report)
    raise typer.Exit(1 if report.refusals else 0)


def _check(asked: CheckRequest, screen: CheckScreen) -> CheckReport:
    # What only this needs (numpy, pyarrow) is not there where only the client is installed.
    from burnish.dialects import read_config

    reading = read_config(asked.config)
    if asked.volume is None and reading.volume is None and asked.run_id is None:
        from burnish.cli.here import check_here

        return check_here(
            reading,
            rows=asked.rows,
            proof_rows=asked.proof_rows,
            on_proof=screen.first,
            on_progress=screen.bar.move,
        )
    with open_client() as client:
        if not screen.silent:
            # Two questions, as the second may take a while: the first rows are told of at once.
            screen.first(client.check(asked.model_copy(update={"first_look": True})))
        screen.bar.wait("The server reads the rows")
        return client.check(asked)
