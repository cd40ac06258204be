"""What one client is told: replies in the order of its requests, and events when they happen.

A write waits for its transaction; a read is answered at once, or, behind a write of the same client, at the very moment
when that write has been applied and nothing later. Events are written when they happen: so an event is always in front
of any reply that shows its change. All replies of one turn are sent in one go.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Final

import trio

from zab.runtime.coordination.authentication import Caller
from zab.runtime.coordination.line import Line, Slot
from zab.runtime.coordination.machine import Change
from zab.runtime.coordination.outlet import Outlet
from zab.runtime.errors import LeadersLost
from zab.runtime.origin import Done
from zab.store.acl import Identity
from zab.store.errors import ErrorCode
from zab.store.ops import Op
from zab.store.reads import NO_ROOM, TOO_LARGE
from zab.wire.client.answers import read_reply, write_reply
from zab.wire.client.replies import encode_reply, error_reply
from zab.wire.client.requests import Refused, decode_request

if TYPE_CHECKING:
    from zab.runtime.coordination.server import StoreServer

_CLOSE: Final = int(Op.CLOSE_SESSION)
_SET_WATCHES: Final = (int(Op.SET_WATCHES), int(Op.SET_WATCHES2))
_MOVED: Final = int(ErrorCode.SESSION_MOVED)
_EXPIRED: Final = int(ErrorCode.SESSION_EXPIRED)
_VARYING: Final = re.compile(r"[-\d'\"]")
"""Where, in what is wrong with a client, that begins which differs each time."""


class Replies:
    """Its own watcher: what it watches ends with it."""

    def __init__(self, server: StoreServer, stream: trio.abc.Stream, peer: str, caller: Caller) -> None:
        self.server = server
        self.machine = server.machine
        self.session = 0
        self.peer = peer
        self.caller = caller
        self.identities: tuple[Identity, ...] = caller.identities
        self.line = Line()
        self.over = False
        self._outlet = Outlet(stream)
        self._room = self._outlet.room
        self._unsent_bytes_cut = server.settings.unsent_bytes_cut
        self.last_taken = False
        """What follows is not answered any more."""
        self._taking = self._finishing = False
        self._waits_for_line = False
        """Take the held requests when all that was taken has been answered."""
        self._done: Done = self.written if server.audit is None else self._tell_and_answer
        self._audited: deque[Done | None] = deque()
        self._scope = trio.CancelScope()

    @property
    def sent(self) -> int:
        """Replies and events."""
        return self._outlet.sent

    @sent.setter
    def sent(self, count: int) -> None:
        self._outlet.sent = count

    @property
    def response_bytes(self) -> int:
        return self._outlet.taken_bytes

    @property
    def unsent(self) -> int:
        """Bytes."""
        return self._outlet.bytes

    # -- to what was asked -------------------------------------------------------------------------

    def _read(self, op: int, xid: int, body: bytes) -> None:
        machine = self.machine
        fields = decode_request(op, body)
        if isinstance(fields, Refused):
            self.send(error_reply(xid, machine.zxid, fields.code))
            return
        answer = machine.reads.read(op, fields, self)
        if answer is TOO_LARGE:
            self.server.log.grumble(
                "multi_read_refused", self.caller.host, peer=self.peer, session=f"{self.session:#x}", reads=len(fields),
                multi_read_bytes_max=self.server.settings.multi_read_bytes_max,
            )  # fmt: skip
        self.send(read_reply(op, xid, machine.zxid, answer))
        if answer is NO_ROOM:
            settings = self.server.settings
            self.server.log.grumble(
                "watches_refused", self.caller.host, peer=self.peer, session=f"{self.session:#x}",
                watches_per_client_max=settings.watches_per_client_max, watches_max=settings.watches_max,
            )  # fmt: skip
            if op in _SET_WATCHES:
                self.finish()  # clients do not look at this error: without a watch they must not go on

    def _tell_and_answer(self, result: object, error: Exception | None) -> None:
        """Told even if the client is gone: what it has changed, it has changed."""
        tell = self._audited.popleft()
        try:
            if tell is not None:
                tell(result, error)
        except Exception as mistake:
            self.failed(mistake)
        self.written(result, error)

    def written(self, result: object, error: Exception | None) -> None:
        """By the member, in the order in which the writes were posted: for the oldest one that is under way."""
        if self.over:
            return
        if error is not None and not isinstance(error, LeadersLost):
            self.cut(f"the outcome of a write is unknown: {error}")
            return
        line = self.line
        try:
            op, xid, waits = line.popleft()
            assert waits is None, "what is in front of a write is answered before it is applied"
            if error is not None:
                # Nothing in front of it is open, so this reply is in order; other refusals do not promise that.
                self.server.log.grumble("write_refused", self.caller.host, "error", peer=self.peer, why=str(error))
                code = int(ErrorCode.SYSTEM_ERROR)
                self.send(error_reply(xid, self.machine.zxid, code))
            else:
                code = result[1]  # type: ignore[index]  # it is what `apply` of the machine returned
                if code == _MOVED:
                    self.cut("the session has moved to another server")
                    return
                self.send(write_reply(op, xid, result))  # type: ignore[arg-type]
            if op == _CLOSE or code == _EXPIRED:
                self.finish()
            elif line and line[0][2] is not None:  # most often it is the next write, which is under way
                self.answer()
            if self._waits_for_line and not line:
                self.proceed()
        except Exception as mistake:
            self.failed(mistake)

    def proceed(self) -> None:
        """Take what waits at the door."""
        raise NotImplementedError

    def answer(self) -> None:
        """Whatever has come to the front of the line and can be answered."""
        line = self.line
        while not (self._finishing or self.over) and (place := line.due()) is not None:
            op, xid, waits = place
            if type(waits) is bytes:
                self._read(op, xid, waits)
                continue
            assert isinstance(waits, Slot)
            zxid = self.machine.zxid if waits.zxid is None else waits.zxid
            if waits.error or waits.value is None:
                self.send(error_reply(xid, zxid, waits.error))
            else:
                self.send(encode_reply(op, xid, zxid, waits.value))
            if waits.last:
                self.finish()

    def put(self, op: int, xid: int, slot: Slot) -> None:
        self.line.append((op, xid, slot))
        self.answer()

    # -- sending -----------------------------------------------------------------------------------

    def notify(self, change: Change) -> None:
        if not self.over:  # its watches are removed in slices
            self.send(change.frame)

    def send(self, frame: bytes) -> None:
        outlet = self._outlet
        if not outlet.frames and not self._taking:
            self.server.dirty(self)
        if outlet.put(frame) > self._unsent_bytes_cut:
            self.cut(f"it does not read: {outlet.bytes} bytes wait")

    def flush(self) -> None:
        """Everything that has gathered, as far as the system takes it."""
        if self.over:
            return
        try:
            if self._outlet.flush() and self._finishing:
                self._leave()
        except OSError as error:
            self.cut(f"broken: {error}")

    async def _send(self) -> None:
        while True:
            await self._outlet.drain()
            if self._finishing:
                self._leave()

    def _leave(self) -> None:
        """All is said."""
        self._scope.cancel()

    # -- the end -----------------------------------------------------------------------------------

    def finish(self) -> None:
        """Nothing more is read or answered; what is answered already, is sent."""
        self._finishing = self.last_taken = True
        if not self._taking:
            self.server.dirty(self)

    def failed(self, mistake: Exception) -> None:
        """In the midst of the member's work, which it would stop."""
        self.grumble_failed(mistake)
        self.cut("a mistake of ours")

    def wronged(self, why: str) -> None:
        """It broke the rules, and goes. A line for a host and a kind of mistake, so that none hides another."""
        kind = _VARYING.split(why, maxsplit=1)[0]
        self.server.log.grumble("client_cut", (self.peer.rpartition(":")[0], kind), peer=self.peer, why=why)

    def grumble_failed(self, mistake: Exception) -> None:
        self.server.log.grumble("client_failed", self.caller.host, "error", peer=self.peer, why=repr(mistake))

    def cut(self, why: str) -> None:
        if not self.over:
            self.over = True
            self.server.log.say("client_let_go", "debug", peer=self.peer, session=f"{self.session:#x}", why=why)
            self._scope.cancel()
