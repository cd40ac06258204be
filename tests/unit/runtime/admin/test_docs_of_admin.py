"""The reference pages match the code. To update a table, print the result of `table()`."""

from __future__ import annotations

from pathlib import Path

from zab.runtime.admin import commands, store_metrics
from zab.runtime.admin.metrics_table import METRICS

REFERENCE = Path(__file__).resolve().parents[4] / "docs" / "reference"


def test_every_metric_is_in_the_table() -> None:
    assert store_metrics.table() in (REFERENCE / "metrics.md").read_text()


def test_every_command_is_in_the_table() -> None:
    assert commands.table() in (REFERENCE / "admin-commands.md").read_text()


def test_a_name_is_given_once() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
