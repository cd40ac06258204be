"""Watches: each fires when it must, only then, in the order of zxids, and before any reply that shows the change.

The client's watches and the committed changes determine the events on a connection. A history does not show three
things: the server's zxid when a reconnected client sent its watches; the changes that a snapshot replaced (some systems
report these in `History.jumps`), for which the server sends only the difference; and the zxid of some events. So the
checker follows all states that the connection may have. If no state is left, the events of the client are wrong.

Some omissions are legal. A persistent watch misses the changes while the client is disconnected. A one-shot watch then
fires once for all changes. After a jump, changes that cancel each other send no event, and several changes of a node
send one. A client without read permission on a node receives no event of it, but its one-shot watch is used up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from attrs import evolve, frozen

from harness.checkers.broken import Broken
from harness.checkers.store import watch_tables
from harness.checkers.store.case import Call, Case, by_event
from harness.checkers.store.model import UNKNOWN, of_the_system
from harness.history import Change, Event, Reply, Request, Response, SessionEvent, WatchFired

UNEXPECTED: Final = "a watch fires only for its node, and a one-shot watch once"
MISSED: Final = "no watch event is missing or late"
STATES_MAX: Final = 200
"""The limit of possible states of one connection. With more, the checker stops following the session."""


@frozen
class State:
    """A possible state of the connection at its server."""

    zxid: int
    table: watch_tables.Table
    due: tuple[watch_tables.Due, ...] = ()
    """Events that the server must send before anything else."""
    unordered: bool = False
    """True if the events in `due` may come in any order."""


def check(case: Case) -> Iterator[Broken]:
    if any(change.acl == UNKNOWN for change in case.history.changes):
        return  # the permissions for events are unknown
    by_response = {call.response_place: call for call in case.calls.all}
    steps: dict[int, tuple[watch_tables.Step, ...]] = {}
    for seen in case.sessions().values():
        yield from _Session(case, by_response, steps).follow(seen)


_After: TypeAlias = Callable[[State], Iterator[State]]


class _Session:
    def __init__(self, case: Case, calls: dict[int, Call], steps: dict[int, tuple[watch_tables.Step, ...]]) -> None:
        self._replay = case.replay
        self._calls = calls
        self._jumps = case.history.jumps
        self._changes = case.changes_at
        self._steps = steps
        """The events of each transaction, computed once for all sessions."""
        self._watches: watch_tables.Table = frozenset()
        """The client's own list of its watches."""
        self._seen = 0
        """The largest zxid that the client has seen."""
        self._received: set[watch_tables.Due] = set()
        """All events that the client has received."""
        self._without_zxid: list[tuple[str, str]] = []
        """The received events without a zxid, since the client has seen `_seen`."""
        self._server = 0
        self._user = ""
        self._states: list[State] = []
        self._reconnected: tuple[watch_tables.Table, int] | None = None
        """The watches and the last seen zxid that a reconnected client sent, until the next event or reply."""
        self._connected = False

    # -- events of the client ----------------------------------------------------------------------

    def follow(self, events: Iterable[tuple[int, Event]]) -> Iterator[Broken]:
        for place, event in events:
            match event:
                case SessionEvent():
                    self._session_event(event)
                case WatchFired() if not of_the_system(event.path):
                    broken = self._watch_event(event)
                    if broken:
                        yield broken
                        return
                case Response():
                    call = self._calls.get(place)
                    if call is None or not event.reply.zxid:
                        continue
                    broken = self._response(event, call.request)
                    if broken:
                        yield broken
                        return
                case _:
                    pass
            if len(self._states) > STATES_MAX:
                return

    def _session_event(self, event: SessionEvent) -> None:
        self._connected = event.state == "connected"
        self._server, self._user = event.server, event.user
        self._states, self._reconnected = [], None
        if not self._connected:
            return
        if event.watches is not None:
            self._watches = frozenset(event.watches)
        if self._watches:
            self._reconnected = self._watches, self._seen
        else:
            self._states = [State(self._seen, frozenset())]

    def _watch_event(self, fired: WatchFired) -> Broken | None:
        what = f"the event {fired.event} {fired.path}" + (f" of zxid {fired.zxid:#x}" if fired.zxid > 0 else "")
        if not self._connected:
            return _broken(UNEXPECTED, fired, f"{what} came while the session was not connected", fired.zxid)
        bound = self._bound(fired)
        before = self._states_before(bound)
        after = self._each(before, bound, lambda state: self._by_event(state, fired))
        if not after:
            return self._unexpected(fired, before, what)
        self._states = after
        self._watches = watch_tables.without_fired(self._watches, fired.event, fired.path)
        self._received.add((fired.event, fired.path, fired.zxid))
        if fired.zxid <= 0:
            self._without_zxid.append((fired.event, fired.path))
        self._sees(fired.zxid)
        return None

    def _response(self, event: Response, request: Request) -> Broken | None:
        zxid = event.reply.zxid
        before = self._states_before(zxid)
        after = self._each(before, zxid, lambda state: self._by_reply(state, zxid))
        if before and not after:
            return self._missed(event, before)
        self._states = [each for state in after for each in _with_watch(state, request, event.reply)]
        for known in _with_watch(State(zxid, self._watches), request, event.reply):
            self._watches = known.table
            break
        self._sees(zxid)
        if before and not self._states:
            what = f"the reply to call {event.call} reports that {request.path} has no such watch, but it has one"
            return _broken(MISSED, event, what, zxid)
        return None

    def _sees(self, zxid: int) -> None:
        if zxid > self._seen:
            self._seen = zxid
            self._without_zxid.clear()

    # -- possible states ---------------------------------------------------------------------------

    def _states_before(self, bound: int) -> list[State]:
        """Return the states of a connection whose watches may have arrived at any zxid up to `bound`."""
        if self._reconnected is None:
            return self._states
        table, seen = self._reconnected
        self._reconnected = None
        found = []
        for zxid in (seen, *self._replay.between(seen, bound)):
            due, left = watch_tables.reconnected(table, seen, self._replay, zxid, self._user)
            found.append(State(zxid, left, due, unordered=True))
        return found

    def _each(self, states: Sequence[State], bound: int, after: _After) -> list[State]:
        found = [each for state in states for each in after(state)]
        if self._jumps is not None:
            zxids = [jump.zxid for jump in self._jumps if jump.server == self._server]
        else:  # any server may have jumped; assume a jump only if nothing else explains the event
            zxids = [] if found else self._replay.order
        found += [each for state in states for one in self._after_jumps(state, zxids, bound) for each in after(one)]
        return list(dict.fromkeys(found))

    def _after_jumps(self, state: State, zxids: Iterable[int], bound: int) -> Iterator[State]:
        """Yield the states after a jump to one of these zxids, from any zxid that the server can have reached without
        sending an event."""
        if state.due:
            return
        targets = [zxid for zxid in zxids if state.zxid < zxid <= bound]
        if not targets:
            return
        made: set[State] = set()
        table = state.table
        for old in (state.zxid, *self._replay.between(state.zxid, bound)):
            if old > state.zxid:
                due, table = self._events_at(table, old)
                if due:
                    return
            for new in targets:
                if new > old:
                    due, left = watch_tables.after_jump(table, self._replay, old, new, self._user)
                    one = State(new, left, due, unordered=True)
                    if one not in made:
                        made.add(one)
                        yield one

    def _by_event(self, state: State, fired: WatchFired) -> Iterator[State]:
        if state.due:
            for place, (event, path, zxid) in enumerate(state.due):
                if (event, path) == (fired.event, fired.path) and fired.zxid in (zxid, 0, watch_tables.NO_ZXID):
                    yield evolve(state, due=state.due[:place] + state.due[place + 1 :])
                    return
                if not state.unordered:
                    return
            return
        zxid, due, table = self._next(state, self._bound(fired))
        if due and fired.zxid in (zxid, 0, watch_tables.NO_ZXID) and due[0][:2] == (fired.event, fired.path):
            yield State(zxid, table, due[1:])

    def _by_reply(self, state: State, zxid: int) -> Iterator[State]:
        if state.due:
            return
        _, due, table = self._next(state, zxid)
        if not due:
            yield State(max(state.zxid, zxid), table, unordered=state.unordered)

    def _bound(self, fired: WatchFired) -> int:
        """Return the zxid of the change, or the last one if it is unknown."""
        return fired.zxid if fired.zxid > 0 else self._replay.last

    def _next(self, state: State, bound: int) -> tuple[int, tuple[watch_tables.Due, ...], watch_tables.Table]:
        """Return the next transaction up to `bound` that sends events, with them, and the watches that remain.

        If there is none, there are no events.
        """
        table = state.table
        for zxid in self._replay.between(state.zxid, bound) if table else ():
            due, table = self._events_at(table, zxid)
            if due:
                return zxid, due, table
        return bound, (), table

    def _events_at(
        self, table: watch_tables.Table, zxid: int
    ) -> tuple[tuple[watch_tables.Due, ...], watch_tables.Table]:
        return watch_tables.events_for(table, self._steps_at(zxid), zxid, self._user)

    def _steps_at(self, zxid: int) -> tuple[watch_tables.Step, ...]:
        steps = self._steps.get(zxid)
        if steps is None:
            steps = self._steps[zxid] = tuple(watch_tables.steps_of(self._changes(zxid), self._replay.before(zxid)))
        return steps

    # -- explanations of violations ----------------------------------------------------------------

    def _due(self, states: Iterable[State], bound: int) -> watch_tables.Due | None:
        """Return an event that one of these states must send first, or None."""
        for state in states:
            due = state.due or self._next(state, bound)[1]
            if due:
                return due[0]
        return None

    def _repeated(self, fired: WatchFired) -> bool:
        """Return whether the event repeats one that the client has received. It is wrong then, whatever was due."""
        if fired.zxid > 0:
            return (fired.event, fired.path, fired.zxid) in self._received
        kind = fired.event, fired.path
        newer = (step for zxid in self._replay.between(self._seen, self._replay.last) for step in self._steps_at(zxid))
        return sum(step[:2] == kind for step in newer) <= self._without_zxid.count(kind)

    def _missed(self, event: Response, before: list[State]) -> Broken:
        zxid = event.reply.zxid
        due = self._due(before, zxid)
        assert due is not None
        what = f"{_words(due)} did not come before the reply to call {event.call}, which shows zxid {zxid:#x}"
        return _broken(MISSED, event, what, due[2], *self._changes(due[2]))

    def _unexpected(self, fired: WatchFired, before: list[State], what: str) -> Broken:
        if self._repeated(fired):
            received_before = any(came[:2] == (fired.event, fired.path) for came in self._received)
            why = "came twice" if received_before else "came, but the client had seen all changes that it can report"
            return _broken(UNEXPECTED, fired, f"{what} {why}", fired.zxid)
        due = self._due(before, self._bound(fired))
        if due is not None and due[:2] != (fired.event, fired.path):
            what = f"{_words(due)} did not come before {what}"
            return _broken(MISSED, fired, what, due[2], *self._changes(due[2]))
        if due is not None and fired.zxid > 0 and due[2] != fired.zxid:
            return _broken(MISSED, fired, f"{what} came, but {_words(due)}, which is due before it, did not", due[2])
        watched = ", ".join(f"{kind} {path}" for kind, path in sorted(self._watches)) or "nothing"
        return _broken(UNEXPECTED, fired, f"{what} came, but the client watches {watched}", fired.zxid)


def _words(due: watch_tables.Due) -> str:
    event, path, zxid = due
    since = f" of zxid {zxid:#x}" if zxid > 0 else " for a change while the client was disconnected"
    return f"the event {event} {path}{since}"


def _broken(invariant: str, event: WatchFired | Response, what: str, zxid: int, *changes: Change) -> Broken:
    return by_event(invariant, event, what, event, *changes, zxid=max(zxid, 0))


def _with_watch(state: State, request: Request, reply: Reply) -> Iterator[State]:
    """Yield the state after this reply, or each possible one."""
    path, table = request.path, state.table
    match request.op:
        case "watch" if not reply.error:
            yield evolve(state, table=table | {(request.watch, path)})
        case "unwatch":
            yield from _without_watch(state, request, reply)
        case "get" | "exists" | "children" if request.watch:
            kind = _kind(request, reply)
            yield evolve(state, table=table | {(kind, path)}) if kind else state
        case _:
            yield state


def _kind(request: Request, reply: Reply) -> str:
    """Return the kind of the watch that a read sets, or ""."""
    if request.op == "exists" and reply.error == "NO_NODE":
        return "exist"
    if reply.error:
        return ""
    return "child" if request.op == "children" else "data"


def _without_watch(state: State, request: Request, reply: Reply) -> Iterator[State]:
    path, table = request.path, state.table
    data, child = {("data", path), ("exist", path)}, {("child", path)}
    match request.watch:
        case "once":  # the request does not say which of the two tables it means
            options = [data | child, data, child]
        case "data":
            options = [data]
        case "children":
            options = [child]
        case meant:
            options = [{(kind, at) for kind, at in table if at == path and meant in ("", kind)}]
    if reply.error == "NO_WATCHER":
        if any(table.isdisjoint(option) for option in options):
            yield state
    elif reply.error:
        yield state
    else:
        # Assume that the removed watch existed, if that is possible.
        fewer = dict.fromkeys(table - option for option in options if not table.isdisjoint(option))
        for left in fewer or [table]:
            yield evolve(state, table=left)
