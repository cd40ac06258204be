"""The effects of a node, collected until `Node.ready` drains them."""

from __future__ import annotations

from typing import Final

from zab.core.messages import TO_LEADER, Message, Notification
from zab.core.ready import (
    Activate,
    Apply,
    BarrierDone,
    Dial,
    Envelope,
    FindSnapshot,
    HangUp,
    Note,
    Ready,
    Restore,
    SendLog,
    SendRest,
    SendSnapshot,
    Write,
)
from zab.core.zxid import ServerId, Ticket

EMPTY_READY: Final = Ready()
"""The result of `drain` without effects: always the same object, so a driver can compare by identity."""


class Outbox:
    __slots__ = ("apply", "barriers", "finds", "links", "notes", "save", "send_list", "ticket")

    def __init__(self) -> None:
        self.ticket: Ticket = 0
        self._clear()

    def _clear(self) -> None:
        self.save: list[Write] = []
        self.send_list: list[Envelope] = []
        self.links: list[Dial | HangUp] = []
        self.apply: list[Apply | Restore | Activate] = []
        self.barriers: list[BarrierDone] = []
        self.notes: list[Note] = []
        self.finds: list[FindSnapshot] = []

    def next_ticket(self) -> Ticket:
        self.ticket += 1
        return self.ticket

    def send(self, to: ServerId, message: Message | SendSnapshot | SendRest | SendLog) -> None:
        self.send_list.append(Envelope(to, message))

    def note(self, event: str, level: str = "info", **fields: object) -> None:
        self.notes.append(Note(event, tuple(fields.items()), level))

    def forget_link(self, peer: ServerId, dialled: bool) -> None:
        """Drop the messages and the HangUp for a link that is gone or replaced: they must not reach its successor."""
        self.send_list = [
            envelope
            for envelope in self.send_list
            if envelope.to != peer
            or type(envelope.message) is Notification
            or (type(envelope.message) in TO_LEADER) is not dialled
        ]
        self.links = [link for link in self.links if link != HangUp(peer, dialled)]

    def drain(self) -> Ready:
        """Return all effects since the last call; `EMPTY_READY` if there are none."""
        save, send, apply = self.save, self.send_list, self.apply
        if self.notes or self.links or self.barriers or self.finds:
            rare = (tuple(self.barriers), tuple(self.notes), tuple(self.finds))
            ready = Ready(tuple(save), tuple(send), tuple(self.links), tuple(apply), *rare)
            self._clear()
            return ready
        if not (save or send or apply):
            return EMPTY_READY
        ready = Ready(tuple(save), tuple(send), (), tuple(apply))
        self.save, self.send_list, self.apply = [], [], []
        return ready
