"""Each metric and label of the dashboard for Grafana is in what running servers and brokers export."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from attrs import field, frozen

from bench.ports import free_base
from tests.integration.http_client import ask
from tests.integration.processes import ROOT
from tests.integration.replica.test_dev_command import PATIENCE_S, running
from tests.promql import legend_labels, parse
from zab.runtime.admin.metrics_table import METRICS

DASHBOARD: Final = json.loads((ROOT / "docs" / "grafana" / "zab.json").read_text())
TYPE: Final = re.compile(r"^# TYPE (\w+) (\w+)$", re.MULTILINE)
SERIES: Final = re.compile(r"^(\w+)(?:\{(.*)\})? \S+$", re.MULTILINE)
OF_PROMETHEUS: Final = frozenset({"job", "instance"})
NEEDS_TIME: Final = frozenset({"zab_snapshot_age_seconds"})
"""Metrics without a value in this test: no server has taken a snapshot yet."""


@frozen
class Exported:
    """The type of each metric, and the labels of each series."""

    kinds: dict[str, str] = field(factory=dict)
    labels: dict[str, set[str]] = field(factory=dict)

    def add(self, text: str) -> None:
        self.kinds.update(TYPE.findall(text))
        for name, labels in SERIES.findall(text):
            self.labels.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))

    def kind(self, series: str) -> str:
        """Return the kind of a series. The sum and the count of a summary are counters."""
        base = re.sub(r"_(sum|count)$", "", series)
        if series not in self.kinds and self.kinds.get(base) == "summary":
            return "counter"
        return self.kinds[series]


def command(*arguments: str, text: str = "") -> None:
    line = [sys.executable, "-m", "replica.cli", *arguments]
    done = subprocess.run(line, cwd=ROOT, input=text, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_dashboard_names_only_exported_metrics_and_labels(tmp_path: Path) -> None:
    store = free_base(0, 1, 2, 707, 708, 709, 1707, 1708, 1709, 5899, 5900, 5901)
    broker = free_base(0)
    exported = Exported()
    options = ("--servers", "3", "--store-port-base", str(store), "--port-base", str(broker))
    with running(tmp_path, *options) as (_, introduction):
        server = ("--bootstrap", f"127.0.0.1:{broker}")
        command("produce", "greetings", *server, text="hello\n")
        command("consume", "greetings", "--group", "g", "--from-beginning", "--count", "1", *server)
        pages = [(store + 5899 + each, "/metrics") for each in range(3)]
        pages += [(int(port), "/metrics") for port in re.findall(r"http://127\.0\.0\.1:(\d+)/metrics", introduction)]
        assert len(pages) == 4
        for port, path in pages:
            exported.add(ask(port, path).text)

    assert {metric.name for metric in METRICS} >= NEEDS_TIME
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            query = parse(target["expr"])
            known = set(OF_PROMETHEUS)
            for name, functions in query.metrics.items():
                if name in NEEDS_TIME:
                    continue
                assert name in exported.labels, f"{panel['title']}: no server exports {name}"
                known |= exported.labels[name]
                kind = exported.kind(name)
                if functions & {"rate", "irate", "increase"}:
                    assert kind == "counter", f"{panel['title']}: a rate of {name}, a {kind}"
                if functions & {"deriv", "delta"}:
                    assert kind == "gauge", f"{panel['title']}: a slope of {name}, a {kind}"
                if "histogram_quantile" in functions:
                    assert kind == "histogram", f"{panel['title']}: a quantile of {name}, a {kind}"
            unknown = (query.labels | legend_labels(target["legendFormat"])) - known
            assert not unknown, f"{panel['title']}: {target['expr']} has no label {unknown}"
