"""Watches a run until it is over. Ctrl-C ends the watching, never the run."""

import time

from burnish.cli.session import say
from burnish.cli.show import RunScreen
from burnish.cli.text import usage_text
from burnish.sdk.client import Client
from burnish.sdk.transport import Unreachable
from burnish.wire import ModelView, RunDetail

_LOOK_SECONDS = 0.5


def follow_run(client: Client, run_id: str, *, to_stderr: bool = False) -> RunDetail:
    """Show log and progress until the run is over; answers with the run as it ended."""
    try:
        with RunScreen(to_stderr=to_stderr) as screen:
            _watch(client, run_id, screen)
        return client.runs.get(run_id)
    except KeyboardInterrupt:
        say(f"\nYou left; run {run_id} goes on. Come back to it: burnish train logs {run_id} -f")
        raise


def _watch(client: Client, run_id: str, screen: RunScreen) -> None:
    offset = 0
    while True:
        try:
            screen.show(client.runs.get(run_id))
            log = client.runs.logs(run_id, offset=offset)
        except Unreachable:
            if not client.await_server():
                raise
            continue
        screen.write(log.text)
        offset = log.next_offset
        if log.over:
            screen.show(client.runs.get(run_id))
            return
        if not log.text:
            time.sleep(_LOOK_SECONDS)


def ending_text(run: RunDetail, model: ModelView | None) -> str:
    """How it ended, and what to do with what came of it."""
    loss = "" if run.loss is None else f"loss {run.loss:.4f}"
    facts = [f"{run.step} steps", loss, usage_text(run.usage)] if run.step else []
    lines = [f"Run {run.id} {run.status}" + (f": {', '.join(filter(None, facts))}" if facts else "")]
    if run.reason:
        lines.append(f"  Reason: {run.reason}")
    if run.hint:
        lines.append(f"  Hint: {run.hint}")
    if model:
        lines.append(f"  Output: {run.output_path}")
        lines.append(f"  Model: {model.id}")
        lines.append(f"  Chat with it: burnish chat {run.id}")
        lines.append(f"  Copy it: burnish models export {run.id} ./my-model")
    return "\n".join(lines)
