"""Charts with axes: values over time as SVG. Each point has a title, which a browser shows under the pointer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from math import ceil, floor, log10
from typing import Final

from zab.admin.markup import clock

WIDTH: Final = 480
HEIGHT: Final = 180
LEFT: Final = 64
BOTTOM: Final = 26
TOP: Final = 10
RIGHT: Final = 10
X_TICKS: Final = 3
Y_TICKS: Final = 4

Points = Sequence[tuple[int, float]]
"""Times, in milliseconds since 1970, with their values."""


def chart(title: str, unit: str, points: Points, formatted: Callable[[float], str]) -> str:
    """Return a figure: the values over time, with both axes in units, and the newest value as text."""
    caption = f"<figcaption>{escape(title)} <small>{escape(unit)}</small></figcaption>"
    if not points:
        return f"<figure>{caption}<p>no values yet</p></figure>"
    newest, most = points[-1][1], max(value for _, value in points)
    summary = f"{title}, {unit}: newest {formatted(newest)}, maximum {formatted(most)}"
    return (
        f"<figure>{caption}<output>{formatted(newest)}</output>"
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(summary)}">'
        f"{_drawn(points, unit, formatted)}</svg>"
        f'<small class="reading">maximum {formatted(most)}</small></figure>'
    )


def _drawn(points: Points, unit: str, formatted: Callable[[float], str]) -> str:
    step = tick_step(max(value for _, value in points))
    top = step * max(ceil(max(value for _, value in points) / step), 1)
    begin, end = points[0][0], max(points[-1][0], points[0][0] + 1)
    right, low = WIDTH - RIGHT, HEIGHT - BOTTOM

    def x(at: float) -> float:
        return LEFT + (at - begin) / (end - begin) * (right - LEFT)

    def y(value: float) -> float:
        return low - value / top * (low - TOP)

    parts = []
    for index in range(round(top / step) + 1):
        at, words = y(index * step), formatted(index * step) if index else "0"
        parts.append(f'<line x1="{LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{words}</text>')
    for index in range(X_TICKS):
        time = begin + (end - begin) * index / (X_TICKS - 1)
        anchor = ("start", "middle", "end")[index]
        words = clock(round(time))[11:] + " UTC" * (index == 1)
        parts.append(f'<text x="{x(time):.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{words}</text>')
    line = " ".join(f"{x(time):.1f},{y(value):.1f}" for time, value in points)
    parts.append(f'<polygon points="{x(begin):.1f},{low} {line} {x(points[-1][0]):.1f},{low}"/>')
    parts.append(f'<polyline points="{line}"/>')
    half = (right - LEFT) / len(points) / 2
    for time, value in points:
        said = f"{clock(time)[11:]} UTC: {formatted(value)} {unit}"
        parts.append(
            f'<rect class="hit" x="{x(time) - half:.1f}" y="{TOP}" width="{2 * half:.1f}" height="{low - TOP}">'
            f"<title>{escape(said)}</title></rect>"
        )
    return "".join(parts)


def tick_step(most: float) -> float:
    """Return the distance between two ticks of an axis from 0 to `most`: 1, 2 or 5 times a power of ten."""
    rough = max(most, 1) / Y_TICKS
    power = 10.0 ** floor(log10(rough))
    return float(max(next(power * each for each in (1, 2, 5, 10) if power * each >= rough), 1))
