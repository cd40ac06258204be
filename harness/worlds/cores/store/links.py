"""Simulated learner links, in the form that the real `zab.service.forwarding.request_path` uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zab.core.ready import Dial, HangUp
from zab.core.zxid import ServerId

if TYPE_CHECKING:
    from harness.worlds.cores.network import End, Network


class Channel:
    """One end of a link."""

    __slots__ = ("_end", "_network", "dialled", "peer")

    def __init__(self, network: Network, end: End) -> None:
        self._network = network
        self._end = end
        self.peer: ServerId = end.peer
        self.dialled: bool = end.dialled

    @property
    def over(self) -> bool:
        return not self._end.open

    def send(self, frame: bytes) -> None:
        self._network.send(self._end, frame)

    def cut(self, why: str) -> None:
        self._network.break_link(self._end.link)


class Channels:
    """The current links of a server, by peer."""

    def __init__(self) -> None:
        self.dialled: dict[ServerId, Channel] = {}
        self.accepted: dict[ServerId, Channel] = {}

    def up(self, channel: Channel) -> Channel | None:
        """Add a link. Return the link that it replaces, or None."""
        table = self.dialled if channel.dialled else self.accepted
        old = table.get(channel.peer)
        table[channel.peer] = channel
        return old

    def down(self, peer: ServerId, dialled: bool) -> Channel | None:
        return (self.dialled if dialled else self.accepted).pop(peer, None)

    def act(self, wish: Dial | HangUp) -> Channel | None:
        """Follow a wish of the node. Return the link that was hung up, or None."""
        if type(wish) is HangUp:
            return self.down(wish.peer, wish.dialled)
        return None
