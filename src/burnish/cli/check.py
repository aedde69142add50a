"""`burnish check`: what a config will train on, said before a device is held."""

from pathlib import Path
from typing import Annotated

import typer

from burnish.cli.session import Json, new_app, open_client
from burnish.cli.show import CheckScreen
from burnish.cli.train import read_config_text
from burnish.errors import BurnishError, ServerError
from burnish.run.report import CheckReport, refusals_of
from burnish.wire import CheckRequest

app = new_app("Say what a config will train on: every token, the steps, and what is odd about it.")


@app.command()
def check(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The config file: sft.toml.", show_default=False)],
    volume: Annotated[str | None, typer.Option(help="The volume that holds the data.")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Read only the first rows.")] = None,
    run: Annotated[str | None, typer.Option(help="Say whether this run was given the same.")] = None,
    json: Json = False,
) -> None:
    """Render, count and plan as a submission does; exit code 1 where it would be refused.

    Data on a volume is read by the server; without a volume it is read here, from the current folder.
    """
    screen = CheckScreen(str(config), silent=json)
    try:
        with screen.bar:
            report = _check(read_config_text(config), volume, rows, run, screen)
    except ServerError:
        raise
    except BurnishError as error:
        report = CheckReport(refusals=refusals_of(error))
    if json:
        print(report.model_dump_json())
    screen.end(report)
    raise typer.Exit(1 if report.refusals else 0)


def _check(text: str, volume: str | None, rows: int | None, run: str | None, screen: CheckScreen) -> CheckReport:
    # What only this needs (numpy, pyarrow) is not there where only the client is installed.
    from burnish.dialects import read_config

    reading = read_config(text)
    if volume is None and reading.volume is None and run is None:
        from burnish.cli.here import check_here

        return check_here(reading, rows=rows, on_proof=screen.first, on_progress=screen.bar.move)
    request = CheckRequest(config=text, volume=volume, rows=rows, run_id=run)
    with open_client() as client:
        if not screen.silent:
            # Two questions, as the second may take a while: the first rows are told of at once.
            screen.first(client.check(request.model_copy(update={"first_look": True})))
        screen.bar.wait("The server reads the rows")
        return client.check(request)
