"""Barriers. A member that passes a barrier has applied all writes that were acknowledged before the barrier's request.

Each turn requests at most one barrier from the node, for all callers that wait for one. If the leader is lost before it
confirms the barrier, the callers wait for a barrier of the next leader. The leader also requests barriers for itself,
to confirm that it still leads before it reports refused requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from zab.core.node import Node
from zab.core.zxid import Millis, Zxid
from zab.service.forwarding.side_channel import SideChannel

BarrierDone: TypeAlias = Callable[[object, Exception | None], None]
"""Called once, with `(None, None)` or with the error that ended the wait; never after `forget`."""
Confirmed: TypeAlias = Callable[[Zxid | None], None]
"""Called with the zxid of the confirmed barrier, or with None if the leadership was lost."""
_Waiting: TypeAlias = tuple[BarrierDone, bytes]
"""A caller, and a message that must reach the leader before the barrier; empty if there is none."""


class SyncBarriers:
    def __init__(self, node: Node) -> None:
        self.completed = 0
        """The number of barriers that were passed since the start, without those of `confirm`."""
        self.waiting: list[_Waiting] = []
        """Callers for which no barrier is under way."""
        self._node = node
        self._number = 0
        """The number of the last barrier that was requested. The node's reply contains the number."""
        self._asked: dict[int, list[_Waiting]] = {}
        """number of a barrier under way -> the callers that wait for it"""
        self._confirming: dict[int, Confirmed] = {}
        """number of a barrier under way -> the callback, if this leader requested the barrier for itself"""

    def add(self, done: BarrierDone, ahead: bytes = b"") -> None:
        self.waiting.append((done, ahead))

    def forget(self, done: BarrierDone) -> None:
        for waiting in (self.waiting, *self._asked.values()):
            waiting[:] = [each for each in waiting if each[0] != done]

    def ask(self, side_channel: SideChannel, now: Millis) -> None:
        """Request one barrier for all callers that wait. Called only while there is a leader.

        The callers' messages go to the leader before the barrier, on the same link. So the reply to the barrier proves
        that the leader has received them. If the leader is lost before the reply, the messages are sent again ahead of
        the next barrier.
        """
        waiting, self.waiting = self.waiting, []
        for ahead in dict.fromkeys(ahead for _, ahead in waiting if ahead):
            side_channel.tell_leader(ahead)
        self._number += 1
        self._asked[self._number] = waiting
        self._node.barrier(self._number, now)

    def confirm(self, confirmed: Confirmed, now: Millis) -> None:
        """Request a barrier that proves that this server still leads.

        Call `confirmed` with the zxid of the barrier, or with None if the leadership was lost.
        """
        self._number += 1
        self._confirming[self._number] = confirmed
        self._node.barrier(self._number, now)

    def on_barrier(self, number: int, zxid: Zxid | None) -> None:
        """Handle the node's reply. `zxid` is None if the barrier failed: this server lost its leader or its role."""
        confirmed = self._confirming.pop(number, None)
        if confirmed is not None:
            confirmed(zxid)
            return
        waiting = self._asked.pop(number, None)
        if waiting is None:
            return
        if zxid is None:
            self.waiting += waiting  # a later turn asks the next leader
            return
        self.completed += 1
        for done, _ in waiting:
            done(None, None)

    def stop(self, error: Exception) -> None:
        for waiting in (self.waiting, *self._asked.values()):
            for done, _ in waiting:
                done(None, error)
