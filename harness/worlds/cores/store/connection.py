"""What a server does for one client: it takes what is asked, and answers in that order.

It stands for `Intake` and `Replies` of `zab.runtime.coordination`, without their bounds and without bytes: writes
are posted, reads are answered at once or behind the write in front of them, events are put into the output while a
transaction is applied, and behind a sync nothing is taken before it is done.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from harness.lists import identities_of
from harness.worlds.cores.store.calls import (
    Call,
    Happened,
    Hello,
    Left,
    Pinged,
    Watched,
    Welcome,
    answer_of_read,
    answer_of_sync,
    answer_of_write,
)
from zab.store.acl import Identity, encode_identities
from zab.store.apply import Result
from zab.store.errors import ErrorCode
from zab.store.ops import Op

if TYPE_CHECKING:
    from harness.worlds.cores.store.door import Door
    from harness.worlds.cores.store.wire import Wire

_PONG: Final = Pinged()
NOBODY_KNOWN: Final = identities_of("")
ANYBODY: Final = encode_identities(NOBODY_KNOWN)


class _Sync:
    """Its place in the line."""

    __slots__ = ("call", "done")

    def __init__(self, call: Call) -> None:
        self.call = call
        self.done = False


class Connection:
    """Its own watcher: what it watches ends with it."""

    def __init__(self, door: Door, wire: Wire) -> None:
        self.door = door
        self.wire = wire
        self.identities: tuple[Identity, ...] = NOBODY_KNOWN
        self.encoded = ANYBODY
        """Them, as each of its requests bears them."""
        self.session = 0
        self.timeout_ms = 0
        self.since_ms = door.server.now_ms
        """When it was opened; counts while it has no session."""
        self.over = False
        self.let_go = False
        """It was over because this server wanted it so."""
        self.leaving = False
        """What follows is not answered any more."""
        self.heard = True
        """Since it was looked at last."""
        self.read_only = False
        self._line: deque[Call | Left | Watched | _Sync] = deque()
        """What is not answered yet, oldest first. A write's place is filled when it is applied."""
        self._held: list[object] = []
        """At the door."""
        self._paused = False
        self._out: list[object] = []
        self._dirty = False
        self._cxid = 0

    def is_of(self, user: str) -> None:
        """Its client has proved to be this user."""
        self.identities = identities_of(user)
        self.encoded = encode_identities(self.identities)

    # -- what it says ----------------------------------------------------------------------------------

    def receive(self, messages: list[object]) -> None:
        if self.over:
            return
        self.heard = True
        if self._held or self._paused or not self.session or not self.door.ready:
            self._hold(messages)
        else:
            self._take(messages)
        self.flush()
        self.door.wake()

    def heard_of(self) -> bool:
        heard, self.heard = self.heard, False
        return heard

    def _hold(self, messages: list[object]) -> None:
        for message in messages:
            kind = type(message)
            if kind is Pinged:
                self.send(_PONG)
            elif kind is Hello:
                self.door.greeted(self, message)  # type: ignore[arg-type]
            else:
                self._held.append(message)

    def resume(self) -> None:
        if self._held and self.session and self.door.ready and not self._paused and not self.over:
            held, self._held = self._held, []
            self._take(held)

    def _take(self, messages: list[object]) -> None:
        line = self._line
        for index, message in enumerate(messages):
            if self.over or self._paused:
                self._hold(messages[index:])
                return
            kind = type(message)
            if kind is Call:
                self._take_call(message)  # type: ignore[arg-type]
            elif kind is Pinged:
                self.send(_PONG)
            elif kind is Left:
                self.leaving = True
                line.append(message)  # type: ignore[arg-type]
                self._post(message)  # type: ignore[arg-type]
            else:
                assert type(message) is Watched, f"a client says {kind.__name__}"
                if line:
                    line.append(message)
                else:
                    self._read(message)

    def _take_call(self, call: Call) -> None:
        if call.writes:
            self._line.append(call)
            self._post(call)
        elif call.op == Op.SYNC:
            self._sync(_Sync(call))
        elif self._line:
            self._line.append(call)
        else:
            self._read(call)

    def _sync(self, sync: _Sync) -> None:
        """What is behind it waits at the door: else a write could overtake it, and a read in between would see it."""

        def synced(_: object, error: Exception | None) -> None:
            if self.over:
                return
            sync.done = True
            self._paused = False
            self._answer()
            self.resume()

        self._line.append(sync)
        self._paused = True
        self.door.barrier(synced, self.session)

    def _post(self, asked: Call | Left) -> None:
        self._cxid += 1
        self.door.post_for(self, asked, self._cxid, self.written)

    # -- what it is told -------------------------------------------------------------------------------

    def _read(self, asked: Call | Watched) -> None:
        store = self.door.store
        if type(asked) is Watched:
            store.reads.read(Op.SET_WATCHES2, (asked.seen, *asked.lists), self)
            return
        assert type(asked) is Call
        self.send(answer_of_read(asked, store.zxid, store.reads.read(asked.op, asked.fields, self)))

    def written(self, result: object, error: Exception | None) -> None:
        """By the member, in the order in which the writes were posted: for the oldest one that is under way."""
        if self.over:
            return
        if error is not None:
            self.cut()  # what became of it is unknown, and so it is to the client
            return
        done: Result = result  # type: ignore[assignment]  # it is what `apply` of the machine returned
        if done[1] == ErrorCode.SESSION_MOVED:
            self.door.world.told_moved.append((self.session, self.door.server.id, done[0]))
            self.cut()
            return
        call = self._line.popleft()
        if type(call) is Left:
            self.send(call)
            self.finish()
            return
        assert type(call) is Call, "what is in front of a write is answered before it is applied"
        self.door.told(done[0])
        self.send(answer_of_write(call, done))
        if done[1] == ErrorCode.SESSION_EXPIRED:
            self.finish()
        else:
            self._answer()

    def _answer(self) -> None:
        """Whatever has come to the front of the line and waits for no transaction."""
        line = self._line
        while line:
            asked = line[0]
            kind = type(asked)
            if kind is _Sync:
                if not asked.done:  # type: ignore[union-attr]
                    return
                call = line.popleft().call  # type: ignore[union-attr]
                self.send(answer_of_sync(call, self.door.store.zxid))
            elif kind is Left or (kind is Call and asked.writes):  # type: ignore[union-attr]
                return
            else:
                line.popleft()
                self._read(asked)  # type: ignore[arg-type]

    def happened(self, event: int, path: str, zxid: int) -> None:
        self.send(Happened(event, path, zxid))

    def welcome(self, session: int, password: bytes, timeout_ms: int) -> None:
        """Without a session: there is no such session any more."""
        self.send(Welcome(session, password, timeout_ms))

    def send(self, message: object) -> None:
        self._out.append(message)
        if not self._dirty:
            self._dirty = True
            self.door.dirty(self)

    def flush(self) -> None:
        self._dirty = False
        if self._out and not self.over:
            out, self._out = self._out, []
            self.wire.down(out)

    # -- the end ---------------------------------------------------------------------------------------

    def finish(self) -> None:
        """What is answered already is sent; nothing more is."""
        if not self.over:
            self.flush()
            self.cut()

    def cut(self) -> None:
        """What has not left yet never will."""
        if not self.over:
            self.let_go = True
            self.end()
            self.wire.hung_up()

    def ended(self, why: str) -> None:
        self.cut()

    def end(self) -> None:
        """Nobody is there any more."""
        if not self.over:
            self.over = True
            self._line.clear()
            self._held.clear()
            self._out.clear()
            self.door.closed(self)
