"""What the invariants of a program read: the acts of its nodes, the nodes that run, and the data in the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

if TYPE_CHECKING:
    from harness.program.node import Node

WORDS_MAX: Final = 200


@frozen
class NodeAct:
    """An act that a node has reported with `Node.acts`."""

    at: float
    """The virtual time in seconds."""
    node: int
    start: int
    """Which start of the node this was: 1, 2, ..."""
    what: str
    values: tuple[Any, ...] = ()

    def __str__(self) -> str:
        """Describe the act in one line."""
        words = " ".join([self.what, *(value if isinstance(value, str) else repr(value) for value in self.values)])
        return words if len(words) <= WORDS_MAX else words[: WORDS_MAX - 3] + "..."


class Fleet:
    """All nodes of a run, as its invariants see them."""

    def __init__(self, now: Callable[[], float], nodes: Callable[[], Sequence[Node]], tree: Callable[[], Any]) -> None:
        self._now = now
        self._nodes = nodes
        self._tree = tree
        self.acts: list[NodeAct] = []
        """What the nodes have reported with `Node.acts`, in the order of time."""
        self.shared: dict[str, Any] = {}
        """What is outside of all nodes; the same as `Node.shared`."""
        self.healed = False
        """True once all faults have ended."""

    @property
    def now(self) -> float:
        """The virtual time in seconds since the run began."""
        return self._now()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that run, also those that are paused. `node.state` is their memory."""
        return tuple(self._nodes())

    def of(self, what: str) -> list[NodeAct]:
        """Return the acts with this name."""
        return [act for act in self.acts if act.what == what]

    def data(self, path: str) -> bytes | None:
        """Return the data of a node of the store, as its newest server has it; None if there is no such node."""
        found = self._tree().get(path)
        return None if found is None else bytes(found[0])

    def children(self, path: str) -> list[str]:
        """Return the names of the children of a node of the store, sorted; none if there is no such node."""
        below = path.rstrip("/") + "/"
        return sorted(
            each[len(below) :] for each in self._tree() if each.startswith(below) and "/" not in each[len(below) :]
        )
