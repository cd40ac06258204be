"""A history, prepared for the checkers: its calls with their outcomes, and the tree at every zxid.

The reply to a write names its transaction. A write whose reply was lost is compared with those changes of its session
that belong to no answered call. It was carried out if and only if its change is among them, because a history has all
committed changes.
"""

from __future__ import annotations

from typing import Final

from attrs import evolve, frozen

from harness.checkers.broken import Broken
from harness.checkers.store.model import UNKNOWN, of_the_system, resolved
from harness.checkers.store.replay import Group, Replay
from harness.history import Change, Event, History, Info, Invoke, Reply, Request, Response, WatchFired

WRITES: Final = ("create", "set", "delete", "check", "setacl")
READS: Final = ("get", "exists", "children", "getacl")
WITHOUT_TRANSACTION: Final = ("NOT_READ_ONLY", "THROTTLED_OP")
"""The errors of a server alone: no transaction belongs to the call, whatever zxid the reply has."""


def is_write(request: Request) -> bool:
    if request.op == "multi":
        return not request.parts or any(part.op not in READS for part in request.parts)
    return request.op in WRITES


def parts_of(request: Request) -> tuple[Request, ...]:
    return request.parts if request.op == "multi" else (request,)


@frozen
class Call:
    invoke: Invoke
    response: Response | None = None
    response_place: int = -1
    """The index in the events of the history."""
    info: Info | None = None
    group: Group | None = None
    """The transaction of a write."""

    @property
    def request(self) -> Request:
        return self.invoke.request

    @property
    def reply(self) -> Reply | None:
        return None if self.response is None else self.response.reply

    @property
    def answers(self) -> tuple[Reply, ...]:
        """Return the replies to the parts of the request."""
        reply = self.reply
        return () if reply is None else reply.parts if self.request.op == "multi" else (reply,)

    @property
    def write(self) -> bool:
        return is_write(self.request)

    @property
    def done(self) -> bool:
        """Return whether the call was answered without an error."""
        reply = self.reply
        return reply is not None and not reply.error and not any(part.error for part in reply.parts)

    @property
    def zxid(self) -> int:
        """Return the call's zxid; 0 if unknown, or if the call was never carried out."""
        if self.group is not None:
            return self.group.zxid
        return 0 if self.response is None else self.response.reply.zxid

    @property
    def caller(self) -> str:
        return f"client {self.invoke.client}, session {self.invoke.session:#x}"

    def __str__(self) -> str:
        return f"call {self.invoke.call} ({words(self.request)})"


def words(request: Request) -> str:
    if request.op == "multi":
        return "multi: " + ", ".join(map(words, request.parts))
    version = "" if request.version == -1 else f" at version {request.version}"
    acl = f" for {request.acl}" if request.acl else ""
    user = f" as {request.user}" if request.user else ""
    return " ".join(word for word in (request.mode, request.op, request.path) if word) + version + acl + user


class Calls:
    def __init__(self, history: History, replay: Replay) -> None:
        self.strays: list[str] = []
        """Descriptions of replies without an open call."""
        found: dict[int, Call] = {}
        for place, event in enumerate(history.events):
            if isinstance(event, Invoke):
                found[event.call] = Call(event)
            elif isinstance(event, Response | Info):
                call = found.get(event.call)
                if call is None or call.response is not None or call.info is not None:
                    self.strays.append(f"call {event.call} has a reply, but was never invoked or was over already")
                elif isinstance(event, Response):
                    found[event.call] = evolve(call, response=event, response_place=place)
                else:
                    found[event.call] = evolve(call, info=event)
        self.unclaimed: list[Group] = []
        """The transactions of sessions in the history that belong to no call."""
        self.all: list[Call] = []
        """All calls in the order of their requests."""
        self._claim(list(found.values()), replay)
        self.of: dict[int, list[Call]] = {}
        for each in self.all:
            self.of.setdefault(each.invoke.session, []).append(each)

    def _claim(self, calls: list[Call], replay: Replay) -> None:
        claimed: dict[int, int] = {}
        by_session: dict[int, list[Call]] = {}
        for call in calls:
            by_session.setdefault(call.invoke.session, []).append(call)
            reply = call.reply
            if reply is None or reply.error in WITHOUT_TRANSACTION:
                continue
            if call.write and reply.zxid in replay.groups:
                group = replay.groups[reply.zxid]
                by_servers = any(change.kind in ("open", "close", "attach") for change in group.changes)
                if group.session == call.invoke.session and not by_servers:
                    claimed.setdefault(group.zxid, call.invoke.call)
        left: dict[int, list[Group]] = {}
        for group in replay.groups.values():
            if group.zxid not in claimed and group.session in by_session and group.writes:
                left.setdefault(group.session, []).append(group)
        matched = {call: replay.groups[zxid] for zxid, call in claimed.items()}
        for session, groups in left.items():
            self._match(by_session[session], groups, matched, replay)
        self.unclaimed.sort(key=lambda group: group.zxid)
        claims = ((call, matched.get(call.invoke.call)) for call in calls)
        self.all = [call if group is None else evolve(call, group=group) for call, group in claims]

    def _match(self, calls: list[Call], groups: list[Group], matched: dict[int, Group], replay: Replay) -> None:
        """Match each transaction with the earliest fitting call that could be carried out then."""
        for group in groups:
            low = 0
            for place, call in enumerate(calls):
                known = matched.get(call.invoke.call)
                if known is not None and known.zxid < group.zxid:
                    low = place  # earlier requests took effect before this one
            fitting = [
                (place < low, _refused(call, group, replay), place)
                for place, call in enumerate(calls)
                if call.invoke.call not in matched and _open(call) and made_by(call.request, group)
            ]
            if fitting:
                matched[calls[min(fitting)[-1]].invoke.call] = group
            else:
                self.unclaimed.append(group)


def _refused(call: Call, group: Group, replay: Replay) -> bool:
    requests = parts_of(call.request)
    if any(of_the_system(request.path) for request in requests):
        return False
    return any(replay.before(group.zxid).refusals(requests, group.session))


def _open(call: Call) -> bool:
    """Return whether the call may have been carried out at an unknown zxid."""
    return call.response is None or (call.done and not call.response.reply.zxid)


def made_by(request: Request, group: Group) -> bool:
    """Return whether the request can have made these changes, as far as this is visible without the tree."""
    parts = [part for part in parts_of(request) if part.op != "check"]
    changes = [change for change in group.changes if change.kind != "other"]
    return len(parts) == len(changes) and all(map(_made_by, parts, changes))


def _made_by(request: Request, change: Change) -> bool:
    if request.op != change.kind or (request.op in ("create", "set") and request.data != change.data):
        return False
    if (
        UNKNOWN not in (request.acl, change.acl)  # only creations and new lists have one
        and resolved(request.acl, request.user) != change.acl
    ):
        return False
    if request.op == "create":
        if ("ephemeral" in request.mode) != bool(change.owner):
            return False
        if "sequential" in request.mode:
            number = change.path[len(request.path) :]
            return change.path.startswith(request.path) and len(number) == 10 and number.isdecimal()
    if request.op in ("set", "setacl") and request.version not in (-1, change.version - 1):
        return False
    return request.path == change.path


@frozen
class Case:
    history: History
    replay: Replay
    calls: Calls

    @classmethod
    def of(cls, history: History) -> Case:
        replay = Replay(history.changes)
        return cls(history, replay, Calls(history, replay))

    def sessions(self) -> dict[int, list[tuple[int, Event]]]:
        """Return the events of each session, each with its index in the history."""
        found: dict[int, list[tuple[int, Event]]] = {}
        for place, event in enumerate(self.history.events):
            found.setdefault(event.session, []).append((place, event))
        return found

    def changes_at(self, zxid: int) -> tuple[Change, ...]:
        group = self.replay.groups.get(zxid)
        return () if group is None else group.changes


def shown_by(event: Event) -> int:
    """Return the zxid that a reply or a watch event shows to the client; 0 for other events."""
    if isinstance(event, Response):
        return event.reply.zxid
    return event.zxid if isinstance(event, WatchFired) else 0


# -- violations ------------------------------------------------------------------------------------------


def by_call(invariant: str, call: Call, what: str, *also: Event | Change, zxid: int = 0) -> Broken:
    response = call.response
    evidence = (call.invoke, *(() if response is None else (response,)), *also)
    at = call.invoke.at if response is None else response.at
    session, number = call.invoke.session, call.invoke.call
    return Broken(invariant, f"{call.caller}, {call}: {what}", evidence, at, session, number, zxid or call.zxid)


def by_event(invariant: str, event: Event, what: str, *evidence: Event | Change, zxid: int = 0) -> Broken:
    """Return a violation that the event shows. The default evidence is the event itself."""
    what = f"client {event.client}, session {event.session:#x}: {what}"
    call = event.call if isinstance(event, Response) else 0
    return Broken(invariant, what, evidence or (event,), event.at, event.session, call, zxid)


def by_change(invariant: str, change: Change, what: str, *before: Change, session: int = 0) -> Broken:
    return Broken(invariant, what, (*before, change), 0, session or change.session, 0, change.zxid)
