"""The metrics of a fake server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from zab.core.ensemble import Ensemble
from zab.runtime.admin.metrics_table import Observation
from zab.runtime.admin.report import Report


def test_lag_of_a_removed_server_is_not_reported() -> None:
    """Its last report is recent and stays in memory for a while."""
    look: Any = Observation.__new__(Observation)
    peers = {2: (0, Report(server=2, lag=5)), 3: (0, Report(server=3, lag=7)), 1: (0, Report(server=1, lag=-1))}
    look.server = SimpleNamespace(sampler=SimpleNamespace(peers=peers))
    look.status = SimpleNamespace(ensemble=Ensemble.parse("server.1=a:1:2\nserver.2=b:1:2"))
    assert look.lags == {2: 5}
