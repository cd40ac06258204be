"""The shading of faults: begin, end and affected servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve

from harness.faults import FOLLOWER, LEADER, CrashIn, Fault, StrikeNode, When
from harness.report.diagram.picture import Shade
from harness.script.writing import describe_item
from harness.trace import Act


class Faults:
    """Resolve each fault when it occurs: the server of a fault of the leader is the leader of that moment."""

    def __init__(
        self,
        leader: Callable[[], int | None],
        follower: Callable[[], int | None],
        servers: int,
        nodes: Mapping[int, int],
    ) -> None:
        self._leader = leader
        self._follower = follower
        self._servers = servers
        self._nodes = nodes
        """The lane of each node."""
        self._shades: list[Shade] = []
        self._aimed: list[CrashIn | When] = []
        self._healed: int | None = None

    def add(self, act: Act) -> None:
        at, _, verb, _, what = act
        if verb == "heals":
            self._healed = at
        elif verb == "fault":
            fault: Any = what
            if isinstance(fault, CrashIn | When):
                self._aimed.append(fault)
            elif not isinstance(fault, StrikeNode):
                self._shades.append(Shade(at, at + _lasts_us(fault), self._lanes(fault), describe_item(fault)))

        elif verb == "struck":
            struck: Any = what
            self._shades.append(Shade(at, at + _lasts_us(struck), self._lanes(struck), describe_item(struck)))

    def reach(self, at: int, server: int, moment: str) -> None:
        """Shade a fault that waits for this moment, now that a server has reached it."""
        for aimed in self._aimed:
            if isinstance(aimed, CrashIn) or aimed.moment == moment:
                self._aimed.remove(aimed)
                self._shades.append(Shade(at, at + _lasts_us(aimed), (server - 1,), describe_item(aimed)))
                return

    def finish(self, end: int) -> list[Shade]:
        """Return all shades. None lasts longer than to the moment at which all faults end."""
        last = end if self._healed is None else self._healed
        return [evolve(shade, end=max(shade.begin, min(shade.end, last))) for shade in self._shades]

    def _lanes(self, fault: Fault) -> tuple[int, ...]:
        found = []
        node: int = getattr(fault, "node", -1)
        if node in self._nodes:
            found.append(self._nodes[node])
        for name in ("server", "source", "target"):
            server = getattr(fault, name, None)
            lane = self._leader() if server == LEADER else self._follower() if server == FOLLOWER else (server or 0) - 1
            if server is not None and lane is not None and 0 <= lane < self._servers and lane not in found:
                found.append(lane)
        return tuple(found)


def _lasts_us(fault: Fault) -> int:
    return 1_000 * max(getattr(fault, "for_ms", 0), getattr(fault, "down_ms", 0))
