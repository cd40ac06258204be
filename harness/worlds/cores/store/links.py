"""Learner links as the real bookkeeping of requests knows them: `zab.service.request_path` runs over these."""

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
    """The current ones, by peer."""

    def __init__(self) -> None:
        self.dialled: dict[ServerId, Channel] = {}
        self.accepted: dict[ServerId, Channel] = {}

    def up(self, channel: Channel) -> Channel | None:
        """Returns the one it replaces."""
        table = self.dialled if channel.dialled else self.accepted
        old = table.get(channel.peer)
        table[channel.peer] = channel
        return old

    def down(self, peer: ServerId, dialled: bool) -> Channel | None:
        return (self.dialled if dialled else self.accepted).pop(peer, None)

    def act(self, wish: Dial | HangUp) -> Channel | None:
        """Returns the one that was hung up."""
        if type(wish) is HangUp:
            return self.down(wish.peer, wish.dialled)
        return None
