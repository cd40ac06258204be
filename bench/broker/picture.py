"""What was measured of the broker, drawn: how fast it is, and what it costs, beside Apache Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

INK: Final = "#334155"
SIDES: Final = {"ours": ("#0f766e", "zab-broker"), "apache": ("#b45309", "Apache Kafka")}
PANELS: Final = (("MB/s", "megabytes per second"), ("CPU ms/MB", "ms of CPU per megabyte"))
_BAR: Final = 0.38
_STYLE: Final[dict[Any, Any]] = {
    "svg.hashsalt": "broker",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def draw(rows: Sequence[Mapping[str, object]], path: Path) -> None:
    moved = [row for row in rows if isinstance(row["ours MB/s"], float)]
    names = [f"{row['phase']}, {row['brokers']} broker{'s' if row['brokers'] != 1 else ''}" for row in moved]
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(7.2, 3.6), layout="constrained")
        for axes, (column, label) in zip(figure.subplots(1, len(PANELS), sharey=True), PANELS, strict=True):
            for place, (side, (colour, name)) in enumerate(SIDES.items()):
                values = [row.get(f"{side} {column}") for row in moved]
                if all(isinstance(value, float) for value in values):
                    heights = [number + (place - 0.5) * _BAR for number in range(len(moved))]
                    axes.barh(heights, values, _BAR, color=colour, label=name)
            axes.set_yticks(range(len(moved)), names)
            axes.set_xlabel(label)
        axes.invert_yaxis()
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
