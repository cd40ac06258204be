"""What was measured of the controller, drawn: seconds over partitions, each round a point, and the targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

INK: Final = "#334155"
DIED: Final = {"controller": ("#0f766e", "a controller dies"), "broker": ("#b45309", "a broker dies")}
TARGETS: Final = {"controller": 5.0, "broker": 1.0}
_STYLE: Final[dict[Any, Any]] = {
    "svg.hashsalt": "controller",
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


def draw(measured: Sequence[Mapping[str, Any]], path: Path) -> None:
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(7.2, 3.6), layout="constrained")
        axes = figure.subplots()
        for who, (colour, label) in DIED.items():
            found = [(each["partitions"], one["last_s"]) for each in measured for one in each[who]]
            middles = {each["partitions"]: sorted(one["last_s"] for one in each[who]) for each in measured}
            axes.plot(*zip(*found, strict=True), "o", color=colour, markersize=4, alpha=0.5)
            axes.plot(
                list(middles), [values[len(values) // 2] for values in middles.values()], color=colour, label=label
            )
            axes.axhline(TARGETS[who], color=colour, linestyle=":", linewidth=1)
        axes.set_xlabel("partitions, three replicas each, on ten brokers")
        axes.set_ylabel("seconds until the last\nbroker is told who leads")
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        axes.legend(frameon=False)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
