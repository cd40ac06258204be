"""Watches: each fires when it must, only then, in the order of zxids, and before any reply that shows the change.

What a client is told over one connection follows from what it watches and from what was committed. Three things are
not seen from outside: how far the server had come when the client was back and named its watches; whether a
snapshot took the place of some changes (`History.jumps`), so that only the difference was told; and the zxid of an
event that bears none. So all states are followed in which the connection may be. When none is left, what the client
saw cannot be explained, and that is what is reported.

Legal, and therefore no complaint: who watched for ever and was away is not told of what happened meanwhile; who
watched once is told once of what is different now; and where a server jumped, changes that cancel each other out are
not told, and those of one node count as one. Whom the list of a node does not let read it hears nothing of it, and a
watch for once is used up all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from attrs import evolve, frozen

from harness.checkers.broken import Broken
from harness.checkers.store.case import Call, Case, by_event
from harness.checkers.store.model import UNKNOWN, of_the_system
from harness.checkers.store.watching import UNSAID, Due, Step, Table, again, jumped, steps_of, told, used_up
from harness.history import Change, Event, Reply, Request, Response, SessionEvent, WatchFired

UNEARNED: Final = "a watch fires only for its node, and a one-shot watch once"
MISSED: Final = "no watch event is missing or late"
STATES_MAX: Final = 200
"""The states of one connection at one time. With more, it is not checked any further."""


@frozen
class State:
    """A possible state of the connection at its server."""

    zxid: int
    table: Table
    due: tuple[Due, ...] = ()
    """Events that the server must send before anything else."""
    loose: bool = False
    """`due` is in no particular order."""


def check(case: Case) -> Iterator[Broken]:
    if any(change.acl == UNKNOWN for change in case.history.changes):
        return  # nobody knows who may be told
    by_told = {call.told_place: call for call in case.calls.all}
    steps: dict[int, tuple[Step, ...]] = {}
    for seen in case.sessions().values():
        yield from _Session(case, by_told, steps).follow(seen)


_After: TypeAlias = Callable[[State], Iterator[State]]


class _Session:
    def __init__(self, case: Case, calls: dict[int, Call], steps: dict[int, tuple[Step, ...]]) -> None:
        self._replay = case.replay
        self._calls = calls
        self._jumps = case.history.jumps
        self._changes = case.changes_at
        self._steps = steps
        """The events of each transaction, found once for all sessions."""
        self._book: Table = frozenset()
        """The watches that the client knows of."""
        self._seen = 0
        self._came: set[Due] = set()
        self._unsaid: list[tuple[str, str]] = []
        """Events without a zxid, since it has seen `_seen`."""
        self._server = 0
        self._user = ""
        self._states: list[State] = []
        self._back: tuple[Table, int] | None = None
        """After a reconnection without a reply yet: the watches that the client sent, and the zxid that it had seen."""
        self._connected = False

    # -- what the client saw -----------------------------------------------------------------------

    def follow(self, events: Iterable[tuple[int, Event]]) -> Iterator[Broken]:
        for place, event in events:
            match event:
                case SessionEvent():
                    self._became(event)
                case WatchFired() if not of_the_system(event.path):
                    broken = self._fired(event)
                    if broken:
                        yield broken
                        return
                case Response():
                    call = self._calls.get(place)
                    if call is None or not event.reply.zxid:
                        continue
                    broken = self._told(event, call.request)
                    if broken:
                        yield broken
                        return
                case _:
                    pass
            if len(self._states) > STATES_MAX:
                return

    def _became(self, event: SessionEvent) -> None:
        self._connected = event.state == "connected"
        self._server, self._user = event.server, event.user
        self._states, self._back = [], None
        if not self._connected:
            return
        if event.watches is not None:
            self._book = frozenset(event.watches)
        if self._book:
            self._back = self._book, self._seen
        else:
            self._states = [State(self._seen, frozenset())]

    def _fired(self, fired: WatchFired) -> Broken | None:
        what = f"the event {fired.event} {fired.path}" + (f" of zxid {fired.zxid:#x}" if fired.zxid > 0 else "")
        if not self._connected:
            return _broken(UNEARNED, fired, f"{what} came while it was not connected", fired.zxid)
        bound = fired.zxid if fired.zxid > 0 else self._replay.last
        before = self._settled(bound)
        after = self._each(before, bound, lambda state: self._by_event(state, fired))
        if not after:
            return self._unearned(fired, before, what)
        self._states = after
        self._book = used_up(self._book, fired.event, fired.path)
        self._came.add((fired.event, fired.path, fired.zxid))
        if fired.zxid <= 0:
            self._unsaid.append((fired.event, fired.path))
        self._saw(fired.zxid)
        return None

    def _told(self, event: Response, request: Request) -> Broken | None:
        zxid = event.reply.zxid
        before = self._settled(zxid)
        after = self._each(before, zxid, lambda state: self._by_reply(state, zxid))
        if before and not after:
            return self._missed(event, before)
        self._states = [each for state in after for each in _registered(state, request, event.reply)]
        for known in _registered(State(zxid, self._book), request, event.reply):
            self._book = known.table
            break
        self._saw(zxid)
        if before and not self._states:
            what = f"call {event.call} was told that there is no such watch on {request.path}, and it stands"
            return _broken(MISSED, event, what, zxid)
        return None

    def _saw(self, zxid: int) -> None:
        if zxid > self._seen:
            self._seen = zxid
            self._unsaid.clear()

    # -- all states --------------------------------------------------------------------------------

    def _settled(self, bound: int) -> list[State]:
        """Return the states of a connection whose watches may have arrived at any zxid up to `bound`."""
        if self._back is None:
            return self._states
        table, seen = self._back
        self._back = None
        found = []
        for zxid in (seen, *self._replay.between(seen, bound)):
            due, left = again(table, seen, self._replay, zxid, self._user)
            found.append(State(zxid, left, due, loose=True))
        return found

    def _each(self, states: Sequence[State], bound: int, after: _After) -> list[State]:
        found = [each for state in states for each in after(state)]
        if self._jumps is None:
            if not found:  # any server may have jumped; but what needs no jump is explained without
                zxids = self._replay.order
                found = [each for state in states for one in self._leaps(state, zxids, bound) for each in after(one)]
        else:
            zxids = [jump.zxid for jump in self._jumps if jump.server == self._server]
            found += [each for state in states for one in self._leaps(state, zxids, bound) for each in after(one)]
        return list(dict.fromkeys(found))

    def _leaps(self, state: State, zxids: Iterable[int], bound: int) -> Iterator[State]:
        """Yield the states after a jump to one of these zxids, from any zxid that it may have reached without an
        event."""
        if state.due:
            return
        targets = [zxid for zxid in zxids if state.zxid < zxid <= bound]
        if not targets:
            return
        made: set[State] = set()
        table = state.table
        for old in (state.zxid, *self._replay.between(state.zxid, bound)):
            if old > state.zxid:
                due, table = self._told_of(table, old)
                if due:
                    return
            for new in targets:
                if new > old:
                    due, left = jumped(table, self._replay, old, new, self._user)
                    one = State(new, left, due, loose=True)
                    if one not in made:
                        made.add(one)
                        yield one

    def _by_event(self, state: State, fired: WatchFired) -> Iterator[State]:
        if state.due:
            for place, (event, path, zxid) in enumerate(state.due):
                if (event, path) == (fired.event, fired.path) and fired.zxid in (zxid, 0, UNSAID):
                    yield _without(state, place)
                    return
                if not state.loose:
                    return
            return
        if not state.table:
            return
        bound = fired.zxid if fired.zxid > 0 else self._replay.last
        table = state.table
        for zxid in self._replay.between(state.zxid, bound):
            due, table = self._told_of(table, zxid)
            if due:
                if fired.zxid in (zxid, 0, UNSAID) and due[0][:2] == (fired.event, fired.path):
                    yield State(zxid, table, due[1:])
                return

    def _by_reply(self, state: State, zxid: int) -> Iterator[State]:
        if state.due:
            return
        table = state.table
        if table:
            for each in self._replay.between(state.zxid, zxid):
                due, table = self._told_of(table, each)
                if due:
                    return
        yield State(max(state.zxid, zxid), table, loose=state.loose)

    def _told_of(self, table: Table, zxid: int) -> tuple[tuple[Due, ...], Table]:
        return told(table, self._steps_at(zxid), zxid, self._user)

    def _steps_at(self, zxid: int) -> tuple[Step, ...]:
        steps = self._steps.get(zxid)
        if steps is None:
            steps = self._steps[zxid] = tuple(steps_of(self._changes(zxid), self._replay.before(zxid)))
        return steps

    # -- what is wrong -----------------------------------------------------------------------------

    def _due(self, states: Iterable[State], bound: int) -> Due | None:
        """Return an event that one of these states has to send first, or None."""
        for state in states:
            if state.due:
                return state.due[0]
            table = state.table
            for zxid in self._replay.between(state.zxid, bound):
                due, table = self._told_of(table, zxid)
                if due:
                    return due[0]
        return None

    def _old(self, fired: WatchFired) -> bool:
        """Return whether the event reports what the client knows already: then this event is wrong, whatever was
        due."""
        if fired.zxid > 0:
            return (fired.event, fired.path, fired.zxid) in self._came
        kind = fired.event, fired.path
        newer = (step for zxid in self._replay.between(self._seen, self._replay.last) for step in self._steps_at(zxid))
        return sum(step[:2] == kind for step in newer) <= self._unsaid.count(kind)

    def _missed(self, event: Response, before: list[State]) -> Broken:
        zxid = event.reply.zxid
        due = self._due(before, zxid)
        assert due is not None
        what = f"{_words(due)} did not come before the reply to call {event.call}, which shows zxid {zxid:#x}"
        return _broken(MISSED, event, what, due[2], *self._changes(due[2]))

    def _unearned(self, fired: WatchFired, before: list[State], what: str) -> Broken:
        if self._old(fired):
            before_that = any(came[:2] == (fired.event, fired.path) for came in self._came)
            why = "came twice" if before_that else "came, and all that it could tell of had been seen"
            return _broken(UNEARNED, fired, f"{what} {why}", fired.zxid)
        bound = fired.zxid if fired.zxid > 0 else self._replay.last
        due = self._due(before, bound)
        if due is not None and due[:2] != (fired.event, fired.path):
            what = f"{_words(due)} did not come, or not before {what}"
            return _broken(MISSED, fired, what, due[2], *self._changes(due[2]))
        if due is not None and fired.zxid > 0 and due[2] != fired.zxid:
            return _broken(MISSED, fired, f"{what} came, and {_words(due)} before it did not", due[2])
        watched = ", ".join(f"{kind} {path}" for kind, path in sorted(self._book)) or "nothing"
        return _broken(UNEARNED, fired, f"{what} came, and it watched {watched}", fired.zxid)


def _without(state: State, place: int) -> State:
    return evolve(state, due=state.due[:place] + state.due[place + 1 :])


def _words(due: Due) -> str:
    event, path, zxid = due
    return f"the event {event} {path}" + (f" of zxid {zxid:#x}" if zxid > 0 else ", for a change while it was away")


def _broken(invariant: str, event: WatchFired | Response, what: str, zxid: int, *changes: Change) -> Broken:
    return by_event(invariant, event, what, event, *changes, zxid=max(zxid, 0))


def _registered(state: State, request: Request, reply: Reply) -> Iterator[State]:
    """Yield the state after this reply, or several if it is uncertain."""
    path, table = request.path, state.table
    match request.op:
        case "watch" if not reply.error:
            yield evolve(state, table=table | {(request.watch, path)})
        case "unwatch":
            yield from _unwatched(state, request, reply)
        case "get" | "exists" | "children" if request.watch:
            kind = _kind(request, reply)
            yield evolve(state, table=table | {(kind, path)}) if kind else state
        case _:
            yield state


def _kind(request: Request, reply: Reply) -> str:
    """Return the kind of the watch that a read leaves, or ""."""
    if request.op == "exists" and reply.error == "NO_NODE":
        return "exist"
    if reply.error:
        return ""
    return "child" if request.op == "children" else "data"


def _unwatched(state: State, request: Request, reply: Reply) -> Iterator[State]:
    path, table = request.path, state.table
    data, child = {("data", path), ("exist", path)}, {("child", path)}
    match request.watch:
        case "once":  # which of the two tables was meant is not said
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
        # What was taken back was there, if that can be.
        fewer = dict.fromkeys(table - option for option in options if not table.isdisjoint(option))
        for left in fewer or [table]:
            yield evolve(state, table=left)
