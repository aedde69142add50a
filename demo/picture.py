"""Draws a run's loss curve as an SVG, from what `burnish train metrics` says.

    burnish train metrics RUN_ID --json | python demo/picture.py docs/loss.svg --title "..."

Plain text, no drawing library. Knows steps and losses, nothing of where they come from.
"""

import argparse
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from burnish.wire import MetricsView

WIDTH, HEIGHT = 760, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 64, 52
INNER_WIDTH, INNER_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
PAPER, INK, FAINT, GRID, ACCENT = "#ffffff", "#1f2430", "#6b7280", "#e5e7eb", "#d9480f"
SMOOTH_OVER = 0.08
"""The thick line is a mean over this part of the run, half before and half after."""


@dataclass(frozen=True)
class Axes:
    """From steps and losses to places in the picture."""

    last_step: int
    loss_ticks: list[float]

    def place(self, step: float, loss: float) -> tuple[float, float]:
        across, down = (step - 1) / max(1, self.last_step - 1), 1 - loss / self.loss_ticks[-1]
        return round(LEFT + INNER_WIDTH * across, 1), round(TOP + INNER_HEIGHT * down, 1)


def draw_loss(metrics: MetricsView, *, title: str, note: str) -> str:
    """A thin line through every step's loss and a thick one through its running mean."""
    losses = zip(metrics.steps, metrics.series["loss/mean"], strict=True)
    points = [(step, loss) for step, loss in losses if loss is not None]
    smooth = _smooth(points)
    axes = Axes(points[-1][0], _loss_ticks(max(loss for _, loss in points)))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="{PAPER}"/>',
        _text(LEFT, 28, title, size=16, weight=600),
        _text(LEFT, 47, note, colour=FAINT),
        *_draw_axes(axes),
        _line([axes.place(*point) for point in points], width=1, opacity=0.35),
        _line([axes.place(*point) for point in smooth], width=2.5, opacity=1),
        _ending(*axes.place(*smooth[-1]), smooth[-1][1]),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _smooth(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """A mean over up to `SMOOTH_OVER` of the points around each; the first ones have fewer before, so fewer after."""
    reach = max(1, round(len(points) * SMOOTH_OVER / 2))
    smooth = []
    for place, (step, _) in enumerate(points):
        side = min(reach, place)
        window = [loss for _, loss in points[place - side : place + side + 1]]
        smooth.append((step, sum(window) / len(window)))
    return smooth


def _draw_axes(axes: Axes) -> Iterator[str]:
    middle = TOP + INNER_HEIGHT / 2
    for loss in axes.loss_ticks:
        x, y = axes.place(1, loss)
        yield f'<line x1="{x}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="{GRID}"/>'
        yield _text(x - 10, y + 4, f"{loss:g}", colour=FAINT, anchor="end")
    for step in _step_ticks(axes.last_step):
        x, y = axes.place(step, 0)
        yield _text(x, y + 18, str(step), colour=FAINT, anchor="middle")
    yield _text(LEFT + INNER_WIDTH / 2, HEIGHT - 12, "optimizer step", anchor="middle")
    turned = _text(20, middle + 4, "loss, nats per trained token", anchor="middle")
    yield f'<g transform="rotate(-90 20 {middle})">{turned}</g>'


def _loss_ticks(highest: float) -> list[float]:
    """About five round numbers from zero to above the highest loss."""
    rough = highest / 5
    unit = 10 ** math.floor(math.log10(rough))
    every = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough)
    count = math.ceil(highest / every)
    return [every * place for place in range(count + 1)]


def _step_ticks(last: int) -> list[int]:
    every = next(each for each in (1, 2, 5, 10, 20, 25, 50, 100, 250, 500, 1000, 10**4, 10**5) if last / each <= 10)
    return [1, *(step for step in range(every, last + 1, every) if step > 1)]


def _line(places: list[tuple[float, float]], *, width: float, opacity: float) -> str:
    drawn = " ".join(f"{x},{y}" for x, y in places)
    return (
        f'<polyline points="{drawn}" fill="none" stroke="{ACCENT}" stroke-width="{width}" '
        f'stroke-opacity="{opacity}" stroke-linejoin="round" stroke-linecap="round"/>'
    )


def _ending(x: float, y: float, loss: float) -> str:
    dot = f'<circle cx="{x}" cy="{y}" r="4" fill="{ACCENT}"/>'
    return dot + _text(x - 2, y - 12, f"{loss:.2f}", size=13, weight=600, anchor="end")


def _text(
    x: float, y: float, text: str, *, size: int = 12, colour: str = INK, weight: int = 400, anchor: str = "start"
) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-weight="{weight}" fill="{colour}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the loss curve of the metrics on standard input.")
    parser.add_argument("svg", type=Path, help="the file to write")
    parser.add_argument("--title", default="Loss")
    parser.add_argument("--note", default="thin: each step; thick: running mean")
    wish = parser.parse_args()
    metrics = MetricsView.model_validate_json(sys.stdin.read())
    wish.svg.write_text(draw_loss(metrics, title=wish.title, note=wish.note), encoding="utf-8")


if __name__ == "__main__":
    main()
