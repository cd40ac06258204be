"""The dashboard for Grafana is current, can be imported, and applies each function to a metric of the right kind."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.promql import parse

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = json.loads((ROOT / "docs" / "grafana" / "zab.json").read_text())
VARIABLES = {each["name"]: each for each in DASHBOARD["templating"]["list"]}


def charts() -> Iterator[dict[str, Any]]:
    return (panel for panel in DASHBOARD["panels"] if panel["type"] != "row")


def queries() -> list[str]:
    return [target["expr"] for panel in charts() for target in panel["targets"]]


def test_dashboard_is_that_of_its_script() -> None:
    check = subprocess.run([sys.executable, "scripts/dashboard", "--check"], cwd=ROOT, check=False)
    assert check.returncode == 0, "run scripts/dashboard"


def test_dashboard_has_the_fields_that_an_import_needs() -> None:
    assert {"title", "uid", "schemaVersion", "version", "panels", "templating", "time", "refresh"} <= DASHBOARD.keys()
    assert len(DASHBOARD["uid"]) <= 40
    assert VARIABLES["datasource"]["type"] == "datasource"
    assert VARIABLES["datasource"]["query"] == "prometheus"
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    for panel in charts():
        assert {"id", "type", "title", "gridPos", "datasource", "fieldConfig", "options", "targets"} <= panel.keys()
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert sources == [{"type": "prometheus", "uid": "${datasource}"}] * len(sources)
        references = [target["refId"] for target in panel["targets"]]
        assert references
        assert len(references) == len(set(references))


def test_panels_do_not_overlap() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]


def test_queries_use_the_variables_that_are_declared() -> None:
    used = {name for query in queries() for name in ("store", "brokers", "datasource") if f"${name}" in query}
    assert used | {"datasource"} == VARIABLES.keys()
    assert all('job=~"$store"' in query or 'job=~"$brokers"' in query for query in queries())


@pytest.mark.parametrize(
    ("text", "metrics", "labels"),
    [
        ("up", {"up": set()}, set()),
        ('sum by (a, b) (rate(x_total{c="d", e=~"f"}[5m]))', {"x_total": {"rate"}}, {"a", "b", "c", "e"}),
        ("max(x) - y > bool 0 or vector(0)", {"x": set(), "y": set()}, set()),
        ("rate(x_sum[1m]) / rate(x_count[1m]) + z", {"x_sum": {"rate"}, "x_count": {"rate"}, "z": set()}, set()),
    ],
)
def test_metrics_and_labels_of_a_query(text: str, metrics: dict[str, set[str]], labels: set[str]) -> None:
    found = parse(text)
    assert found.metrics == metrics
    assert found.labels == labels
