"""The plots of a report, as SVG inside the page. The same numbers give the same bytes."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, Final

import matplotlib as mpl

mpl.use("svg")

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from harness.spark.chance import HARDLY
from zab.core.plurals import noun

Rows = Sequence[dict[str, Any]]
PHASES: Final = ("election", "discovery", "synchronization", "acknowledged", "broadcast")
INK, FAINT, BLUE, RED = "#1d2733", "#8a96a3", "#2f6fb3", "#c0392b"
_BLUES: Final = LinearSegmentedColormap.from_list("blues", ["#f4f8fc", "#9cc3e6", "#1f5a99"])
_STYLE: Final[Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "zab",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


class Plot:
    svg = ""


@contextmanager
def _plot(width: float, height: float) -> Iterator[tuple[Plot, Axes]]:
    made = Plot()
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield made, figure.subplots()
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    made.svg = re.sub(r'(<svg [^>]*?)width="[^"]*"', r'\1width="100%"', text[text.index("<svg") :], count=1)
    made.svg = re.sub(r'(<svg [^>]*?) height="[^"]*"', r"\1", made.svg, count=1)


def strikes(rows: Rows) -> str:
    """Draw the number of faults of each kind in each phase and, in red, the number of failed runs with them."""
    kinds = sorted({row["kind"] for row in rows})
    phases = [phase for phase in PHASES if any(row["phase"] == phase for row in rows)]
    phases += sorted({row["phase"] for row in rows} - set(PHASES))
    if not kinds:
        return ""
    times = [[0] * len(phases) for _ in kinds]
    failed = [[0] * len(phases) for _ in kinds]
    for row in rows:
        y, x = kinds.index(row["kind"]), phases.index(row["phase"])
        times[y][x] += row["strikes"]
        failed[y][x] += row["runs"] if row["outcome"] in ("invalid", "error") else 0
    with _plot(7, 0.9 + 0.27 * len(kinds)) as (made, axes):
        most = max(max(line) for line in times)
        # Squares, because the content security policy of the page forbids a raster image.
        shades = [[(value / most) ** 0.5 for value in line] for line in times]
        axes.pcolormesh(
            [x - 0.5 for x in range(len(phases) + 1)],
            [y - 0.5 for y in range(len(kinds) + 1)],
            shades,
            cmap=_BLUES,
            vmin=0,
            vmax=1,
            edgecolors="white",
            linewidth=1.5,
        )
        axes.invert_yaxis()
        axes.set_xticks(range(len(phases)), phases)
        axes.set_yticks(range(len(kinds)), kinds)
        axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
        for side in axes.spines.values():
            side.set_visible(False)
        for y, line in enumerate(times):
            for x, value in enumerate(line):
                colour = "white" if value > 0.45 * most else INK
                if value:
                    axes.text(x, y, f"{value:,}", ha="center", va="center", color=colour)
                if failed[y][x]:
                    axes.text(
                        x + 0.46,
                        y,
                        f"{failed[y][x]:,} failed",
                        ha="right",
                        va="center",
                        color="#ffd7d2" if value > 0.45 * most else RED,
                        fontsize=7,
                    )
    return made.svg


def outages(rows: Rows) -> str:
    """Draw the median to the 99th percentile for each kind of fault."""
    rows = sorted(rows, key=lambda row: (row["p50"], row["kind"]))
    if not rows:
        return ""
    with _plot(7, 0.9 + 0.27 * len(rows)) as (made, axes):
        for y, row in enumerate(rows):
            axes.plot([row["p50"], row["p99"]], [y, y], color=BLUE, alpha=0.35, linewidth=6, solid_capstyle="round")
            axes.plot([row["p50"]], [y], "o", color=BLUE, markersize=6)
            axes.plot([row["p90"]], [y], "|", color=INK, markersize=9)
        axes.set_yticks(range(len(rows)), [f"{row['kind']} ({row['outages']:,})" for row in rows])
        axes.set_xlabel("ms without service: median (dot), 90 % (bar), 99 % (end)")
        axes.set_xscale("symlog", linthresh=10)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.grid(axis="x", color="#e3e8ee", linewidth=0.8)
        axes.set_axisbelow(True)
    return made.svg


def discovery(curve: Rows, runs: int, points: int) -> str:
    """Draw the number of kinds of runs by the number of runs."""
    new = [0] * points
    for row in curve:
        new[min(row["place"], points - 1)] = row["new"]
    if not runs:
        return ""
    along = [runs * (place + 1) / points for place in range(points)]
    with _plot(7, 2.6) as (made, axes):
        axes.plot([0, *along], [0, *accumulate(new)], color=BLUE, linewidth=2)
        axes.fill_between([0, *along], [0, *accumulate(new)], color=BLUE, alpha=0.12)
        axes.set_xlabel("runs")
        axes.set_ylabel("kinds of runs seen")
        axes.set_xlim(0, runs)
        axes.set_ylim(bottom=0)
        axes.grid(color="#e3e8ee", linewidth=0.8)
    return made.svg


def _of(row: Mapping[str, Any]) -> str:
    """Return the number of failures behind a ratio."""
    with_it, without = row["failed_with"], row["failed_without"]
    return f"{with_it} of {with_it + without}"


def odds(rows: Rows, most: int = 24) -> str:
    """Draw the odds ratio of each fault with its interval, on a logarithmic scale.

    Red ratios are significant among all pairs, including those that are not drawn.
    """
    pairs = len(rows)
    rows = sorted(rows, key=lambda row: row["odds_ratio"])[-most:]
    if not rows:
        return ""
    with _plot(7, 0.9 + 0.27 * len(rows)) as (made, axes):
        for y, row in enumerate(rows):
            likelier = row["odds_ratio"] > 1 and row["chance"] < HARDLY
            colour = RED if likelier else FAINT
            axes.plot([row["low"], row["high"]], [y, y], color=colour, alpha=0.5, linewidth=2)
            axes.plot([row["odds_ratio"]], [y], "o", color=colour, markersize=5)
        axes.axvline(1, color=INK, linewidth=0.8, linestyle=":")
        axes.set_xscale("log")
        axes.set_yticks(range(len(rows)), [f"{row['kind']}: {row['invariant']} ({_of(row)})" for row in rows])
        words = f"red: significant among {pairs} {noun(pairs, 'pair')} (Holm)"
        axes.set_xlabel(f"odds of this failure with the fault, over those without it; {words}", loc="right")
    return made.svg
