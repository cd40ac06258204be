"""Faults of nodes: the processes of a user's program, which are clients of the store (`harness.program`).

Nodes have the numbers 1, 2 and so on. `active` is the node that has reported the last act. The durations suit sessions
with timeouts of seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import frozen

from harness.script.faults import Fault
from harness.script.names import ACTIVE, NODE_HARMS, NODE_POINTS
from harness.script.values import Among, Scale, Short, Sid, Upto, drawn, kinds

NODES_MAX: Final = 30
NODE: Final = Upto(ACTIVE, NODES_MAX)
"""A node of the largest program. Generators use the number of nodes of their script."""
LASTS: Final = Among((50, 200, 1_000, 3_000, 8_000, 15_000, 20_000, 40_000))
"""From a hiccup to longer than most sessions live without a connection."""


@frozen
class NodeFault(Fault):
    """A fault of one node. Subclasses have the field `node`."""

    @property
    def at_node(self) -> int:
        node: int = getattr(self, "node", 1)
        return node


@frozen
class KillNode(NodeFault):
    """The process ends at once: nothing that it would still do has an effect. It is started again later."""

    down_ms: int = drawn(1_000, Scale(10, 20_000))
    node: int = drawn(ACTIVE, NODE)


@frozen
class RestartNode(NodeFault):
    """The node is cancelled, so that it can clean up. It is started again after its end."""

    down_ms: int = drawn(1_000, Scale(10, 10_000))
    node: int = drawn(ACTIVE, NODE)


@frozen
class PauseNode(NodeFault):
    """The process is suspended while time passes: none of its tasks runs, and its session may expire."""

    for_ms: int = drawn(15_000, LASTS)
    node: int = drawn(ACTIVE, NODE)


@frozen
class CutNode(NodeFault):
    """Nothing that the node and the servers send to each other arrives."""

    for_ms: int = drawn(15_000, LASTS)
    node: int = drawn(ACTIVE, NODE)


@frozen
class PartNode(NodeFault):
    """The node and one server cannot reach each other."""

    for_ms: int = drawn(15_000, LASTS)
    node: int = drawn(ACTIVE, NODE)
    server: int = drawn(1, Sid())


@frozen
class StrikeNode(NodeFault):
    """The node is killed, cut off or paused at its n-th request, reply, step or act from then on."""

    for_ms: int = drawn(15_000, LASTS)
    """The time for which a killed node is down, or for which the node is cut off or paused."""
    node: int = drawn(ACTIVE, NODE)
    nth: int = drawn(1, Short(1, 20))
    point: str = drawn("before step", Among((*NODE_POINTS, *NODE_POINTS[-2:] * 2)))
    harm: str = drawn("pause", Among((*NODE_HARMS, "kill", "pause", "pause")))


@frozen
class TurnClock(NodeFault):
    """The wall clock of the node jumps."""

    by_ms: int = drawn(60_000, Among((-3_600_000, -60_000, -1_000, 1_000, 60_000, 3_600_000)))
    node: int = drawn(ACTIVE, NODE)


NODE_WEIGHTS: Final[Mapping[type[Fault], float]] = {
    KillNode: 3.0, RestartNode: 0.7, PauseNode: 3.0, CutNode: 2.0, PartNode: 0.7, StrikeNode: 5.0, TurnClock: 0.3,
}  # fmt: skip
NODE_KINDS: Final = kinds(NODE_WEIGHTS)
NODE_FAULTS: Final[tuple[type[Fault], ...]] = tuple(NODE_WEIGHTS)
