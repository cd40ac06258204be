"""The partitions that a test makes between the numbered hosts of a memory network."""

from __future__ import annotations

from collections.abc import Collection

from zab.core.errors import LocalProtocolError
from zab.net.memory_network import MemoryNetwork


class Partitions:
    """Cuts hosts off from others until `heal`. Data between them waits; if that lasts, their connections break."""

    def __init__(self, network: MemoryNetwork, hosts: Collection[int], kind: str, larger: str) -> None:
        """`kind` is the word for a host in messages, such as "server". `larger` is the call that opens three hosts."""
        self._network = network
        self._hosts = hosts
        self._kind = kind
        self._larger = larger
        self._blocked: set[tuple[int, int]] = set()
        """The blocked directions."""

    def cut_off(self, side: Collection[int]) -> None:
        """Cut these hosts off from all others. Earlier partitions stay."""
        others = set(self._hosts) - set(side)
        if not side or not others:
            raise LocalProtocolError(
                f"partition: name some of the {self._kind}s {', '.join(map(str, self._hosts))}, and not all, to cut "
                f"them off from the others; {self._larger} has three"
            )
        for one in sorted(side):
            for other in sorted(others):
                for direction in ((one, other), (other, one)):
                    if direction not in self._blocked:
                        self._blocked.add(direction)
                        self._network.block(*direction)

    def heal(self) -> None:
        """End all partitions."""
        self._blocked.clear()
        self._network.heal()

    def separates(self, one: int, other: int) -> bool:
        return (one, other) in self._blocked
