"""The ratios, drawn: a bar for each phase, to the right where ours is better, and a stroke where the goal is.

The axis is logarithmic, so that twice as good is as long as half as good. Written as text, so that a newer
measurement changes a few lines of the file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape

from bench.zookeeper.told import SIDES, Compared

WIDTH: Final = 860
LEFT: Final = 250
RIGHT: Final = 70
ROW: Final = 22
BAR: Final = 13
HEAD: Final = 64
GROUP: Final = 34
FOOT: Final = 44
INK: Final = "#334155"
FAINT: Final = "#cbd5e1"
GOOD: Final = "#0f766e"
BAD: Final = "#b45309"
_STEPS: Final = (1.0, 2.0, 5.0)


class Axis:
    """From a ratio to a place; it holds all values, and 1/2 to 2 at least."""

    def __init__(self, values: Sequence[float]) -> None:
        self.low = min([0.5, *values]) / 1.1
        self.high = max([2.0, *values]) * 1.1

    def x(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def ticks(self) -> list[float]:
        exponents = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        marks = {step * 10.0**exponent for exponent in exponents for step in _STEPS} | {0.5}
        return sorted(mark for mark in marks if self.low <= mark <= self.high)


def drawn(compared: Sequence[Compared], title: str, subtitle: str) -> str:
    """As SVG."""
    axis = Axis([each.better for each in compared] + [each.goal for each in compared if each.goal is not None])
    body: list[str] = []
    y = float(HEAD)
    for side, name in SIDES.items():
        group = [each for each in compared if each.side == side]
        if not group:
            continue
        body.append(_text(12, y + GROUP - 12, name, weight="bold"))
        y += GROUP
        for each in group:
            body += _row(each, axis, y)
            y += ROW
    height = y + FOOT
    size = f'viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{WIDTH}" height="{height:g}" fill="white"/>',
            _text(12, 24, title, weight="bold", size=15),
            _text(12, 44, subtitle, size=10),
            *_grid(axis, HEAD + 8, y),
            *body,
            _text(12, height - 12, "how many times ours is better, whether more is better or less; a stroke: the goal"),
            "</svg>",
            "",
        ]
    )


def _grid(axis: Axis, top: float, bottom: float) -> list[str]:
    lines = []
    for tick in axis.ticks():
        x, strong = axis.x(tick), tick == 1.0
        lines.append(
            f'<line x1="{x:.1f}" y1="{top:g}" x2="{x:.1f}" y2="{bottom:g}" stroke="{INK if strong else FAINT}"/>'
        )
        lines.append(_text(x, bottom + 16, f"{tick:g}", anchor="middle"))
    return lines


def _row(each: Compared, axis: Axis, y: float) -> list[str]:
    one, end = axis.x(1.0), axis.x(each.better)
    colour = GOOD if each.better >= 1 else BAD
    lines = [
        _text(LEFT - 10, y + BAR, each.phase.title, anchor="end"),
        f'<rect x="{min(one, end):.1f}" y="{y + 2:g}" width="{abs(end - one):.1f}" height="{BAR}" fill="{colour}"/>',
        _text(max(one, end) + 5, y + BAR, f"{each.better:.2f}"),
    ]
    if each.goal is not None:
        goal = axis.x(each.goal)
        place = f'x1="{goal:.1f}" y1="{y - 1:g}" x2="{goal:.1f}" y2="{y + BAR + 5:g}"'
        lines.append(f'<line {place} stroke="{INK}" stroke-width="2"/>')
    return lines


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal", size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:g}" text-anchor="{anchor}" font-weight="{weight}" font-size="{size}"'
        f' fill="{INK}">{escape(text)}</text>'
    )
