"""Reports of benchmarks: a table, JSON for comparisons, and the machine."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, TypeAlias

RESULTS: Final = Path(__file__).parent / "results"
Result: TypeAlias = dict[str, Any]


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values does not exceed."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def median(values: Sequence[float]) -> float:
    return quantile(values, 0.5)


def spread(values: Sequence[float]) -> dict[str, float]:
    return {
        "min": min(values),
        "p50": median(values),
        "p90": quantile(values, 0.9),
        "p99": quantile(values, 0.99),
        "max": max(values),
    }


def machine() -> Result:
    return {
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
        "versions": {name: _version(name) for name in ("zab", "trio", "msgpack", "attrs", "pysyncobj")},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """Columns in the order of the first row; numbers to the right."""
    if not rows:
        return "(nothing)"
    names = list(rows[0])
    lines = [names, *([_cell(row.get(name, "")) for name in names] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(names))]
    numeric = [all(isinstance(row.get(name), int | float) for row in rows) for name in names]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    )


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def publish(name: str, result: Result, rows: Sequence[Mapping[str, object]]) -> Path:
    """Print the table, and write everything as JSON. Returns where."""
    print(f"\n== {name}")
    print(table(rows))
    document = {
        "benchmark": name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        **result,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(f"-> {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}", file=sys.stderr)
    return path
