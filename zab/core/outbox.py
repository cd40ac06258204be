"""Where the roles put what they want done, until the driver drains it."""

from __future__ import annotations

from typing import Final

from zab.core.messages import TO_LEADER, Message, Notification
from zab.core.ready import (
    Activate,
    Apply,
    BarrierDone,
    Dial,
    Envelope,
    HangUp,
    Note,
    Ready,
    Restore,
    SendLog,
    SendSnapshot,
    Write,
)
from zab.core.zxid import ServerId, Ticket

_NOTHING: Final = Ready()


class Outbox:
    __slots__ = ("apply", "barriers", "links", "notes", "save", "send_list", "ticket")

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

    def next_ticket(self) -> Ticket:
        self.ticket += 1
        return self.ticket

    def send(self, to: ServerId, message: Message | SendSnapshot | SendLog) -> None:
        self.send_list.append(Envelope(to, message))

    def note(self, event: str, level: str = "info", **fields: object) -> None:
        self.notes.append(Note(event, tuple(fields.items()), level))

    def forget_link(self, peer: ServerId, dialled: bool) -> None:
        """The link is gone or replaced: what was meant for it must not reach its successor."""
        self.send_list = [
            envelope
            for envelope in self.send_list
            if envelope.to != peer
            or type(envelope.message) is Notification
            or (type(envelope.message) in TO_LEADER) is not dialled
        ]
        self.links = [link for link in self.links if link != HangUp(peer, dialled)]

    def drain(self) -> Ready:
        """Everything since the last time. Most often nothing: a driver asks until there is no more."""
        if not (self.save or self.send_list or self.apply or self.notes or self.links or self.barriers):
            return _NOTHING
        ready = Ready(
            tuple(self.save),
            tuple(self.send_list),
            tuple(self.links),
            tuple(self.apply),
            tuple(self.barriers),
            tuple(self.notes),
        )
        self._clear()
        return ready
