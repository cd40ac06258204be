"""What a cluster of brokers that nothing happens to any more still lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.checkers.controller.settled import APART, UNFINISHED, apart, unfinished
from harness.worlds.controller.replicas import Replicas
from kraft_controller.core.names import BrokerId


def unsettled(nodes: Mapping[str, Any], replicas: Mapping[BrokerId, Replicas], brokers: int) -> tuple[str, str] | None:
    """The promise that is not kept yet, and why; `nodes` are those of a leader of the store."""
    data = {path: node[0] for path, node in nodes.items()}
    versions = {path: node[6] for path, node in nodes.items()}
    missing = unfinished(data)
    if missing is not None:
        return UNFINISHED, missing
    missing = apart(data, versions, replicas, brokers)
    return None if missing is None else (APART, missing)
