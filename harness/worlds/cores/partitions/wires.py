"""How brokers and clients of partitions reach each other: in order between any two, unless somebody is cut off.

A client is a number below 0. What is on its way when a link is cut is lost; who asked hears nothing, and gives up.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from harness.worlds.cores.partitions.world import PartitionsWorld

Act = Callable[[], None]


class Wires:
    def __init__(self, world: PartitionsWorld) -> None:
        self._world = world
        self._random = Random(f"{world.script.seed}/wires")
        self.cut: dict[int, int] = {}
        """Who is reached by nobody, and by how many faults."""
        self.parted: dict[tuple[int, int], int] = {}
        self.slow: dict[int, int] = {}
        """By sender: so much longer, in microseconds."""
        self._last: dict[tuple[int, int], int] = {}
        self.sent = 0

    def heal(self) -> None:
        for each in (self.cut, self.parted, self.slow):
            each.clear()

    def reach(self, source: int, target: int) -> bool:
        if self.cut and (source in self.cut or target in self.cut):
            return False
        return not self.parted or (min(source, target), max(source, target)) not in self.parted

    def send(self, source: int, target: int, act: Act) -> None:
        self.sent += 1
        if not self.reach(source, target):
            return
        timing, world = self._world.script.timing, self._world
        delay = timing.delay_us_min + int(self._random.random() * max(1, timing.delay_us_max - timing.delay_us_min))
        link = (source, target)
        at = max(world.now + delay + self.slow.get(source, 0), self._last.get(link, 0) + 1)
        self._last[link] = at
        world.push(at, self._arrive, link, act)

    def _arrive(self, link: tuple[int, int], act: Act) -> None:
        if self.reach(*link):
            act()


K = TypeVar("K")


def add(table: dict[K, int], key: K, by: int) -> None:
    """Faults overlap: what two of them do is over when both are."""
    table[key] = table.get(key, 0) + by
    if not table[key]:
        del table[key]
