"""What a cluster of brokers that nothing happens to any more still lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from harness.checkers.controller.settled import APART, UNFINISHED, Data, apart, unfinished
from harness.worlds.controller.replicas import Replicas
from kraft_controller.core.names import BrokerId

ROUNDS_MS: Final = 3_000
"""For what takes its time when all are there: sessions that expire, reassignments, followers that catch up."""
Apart: TypeAlias = Callable[[Data, Mapping[str, int]], str | None]
"""Of the data and the versions of all nodes: who does not know what they say."""


def unsettled(nodes: Mapping[str, Any], replicas: Mapping[BrokerId, Replicas], brokers: int) -> tuple[str, str] | None:
    """The promise that is not kept yet, and why; `nodes` are those of a leader of the store."""
    return lacking(nodes, lambda data, versions: apart(data, versions, replicas, brokers))


def lacking(nodes: Mapping[str, Any], apart: Apart) -> tuple[str, str] | None:
    """The same, where somebody else knows what brokers have to agree on."""
    data = {path: node[0] for path, node in nodes.items()}
    versions = {path: node[6] for path, node in nodes.items()}
    missing = unfinished(data)
    if missing is not None:
        return UNFINISHED, missing
    missing = apart(data, versions)
    return None if missing is None else (APART, missing)
