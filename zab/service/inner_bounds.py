"""Bounds that no setting changes. Simulations make them small."""

from __future__ import annotations

from typing import Final

from attrs import frozen


@frozen
class InnerBounds:
    read_work_max: int = 20_000
    """The number of nodes and names that a connection's reads may visit before other tasks run: some ms of work."""
    scans_behind_max: int = 4
    """The total weight of the scans that one connection may have queued behind its writes."""
    report_sessions_max: int = 10_000
    """The largest number of sessions in one report to the leader."""


DEFAULT_BOUNDS: Final = InnerBounds()
