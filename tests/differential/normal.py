"""Replies of two servers without the parts that must differ: the rest must be equal.

zxids become their rank among the changes of this script, session ids the order of their creation. Times are
removed, after a check against their zxids. Sets, whose order no server guarantees, are
sorted.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from attrs import frozen

from tests.differential.drive import Connected, Ended, Found, Heard, Replied, Silent, Told, Transcript
from zab.store.error_codes import ErrorCode
from zab.store.operations import WRITES, Op
from zab.store.znode import Stat

Line: TypeAlias = tuple[int, int, str]
"""(step, client, what was heard, as text)"""

CONFIG_VERSION: Final = -1
"""Of the data of the configuration, and of nothing else."""
TREE: Final = -2
TIMES: Final = -3
"""In place of a step: what was found when all was over."""

_NAMES: Final = frozenset({Op.GET_CHILDREN, Op.GET_EPHEMERALS, Op.WHO_AM_I})
_WRITES: Final = frozenset(map(int, WRITES))


def normal(transcript: Transcript) -> list[Line]:
    names = _Names(transcript)
    lines: list[Line] = []
    for step, client, heard in _ordered(transcript):
        lines.append((step, client, names.text(heard)))
    lines += [(TREE, 0, names.found(found)) for found in transcript.tree]
    lines += [(TIMES, 0, wrong) for wrong in wrong_times(transcript)]
    return lines


def without_addresses(data: bytes) -> bytes:
    """Remove ports, which differ on one machine, and the number of the first configuration."""
    if not data.startswith(b"server."):
        return data
    return re.sub(rb"version=.*", b"version", re.sub(rb":\d+", b":port", data))


def stats_in(value: Any) -> Iterator[Stat]:
    if isinstance(value, Stat):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from stats_in(each)


def _stats(transcript: Transcript) -> Iterator[Stat]:
    for _, _, heard in transcript.heard:
        if isinstance(heard, Replied):
            yield from stats_in(heard.value)
    for found in transcript.tree:
        yield found.stat


def wrong_times(transcript: Transcript) -> list[str]:
    """Return violations of: one change has one time, and a later one no earlier time."""
    times: dict[int, int] = {}
    wrong = []
    for stat in _stats(transcript):
        for zxid, time in ((stat.czxid, stat.ctime), (stat.mzxid, stat.mtime)):
            if zxid > transcript.started and times.setdefault(zxid, time) != time:
                wrong.append("one change has two times")
    ordered = [times[zxid] for zxid in sorted(times)]
    if ordered != sorted(ordered):
        wrong.append("times do not follow the order of the changes")
    return wrong


def _ordered(transcript: Transcript) -> list[tuple[int, int, Heard]]:
    """The ephemerals of a session go in one transaction, in no order that was ever promised."""
    known = {
        heard.zxid
        for _, _, heard in transcript.heard
        if isinstance(heard, Replied) and heard.op in _WRITES and heard.op != Op.CLOSE_SESSION
    }
    lines = list(transcript.heard)
    start = 0
    while start < len(lines):
        stop = start + 1
        step, client, heard = lines[start]
        if isinstance(heard, Told) and heard.zxid not in known and heard.zxid > 0:
            while stop < len(lines) and _goes_with(lines[stop], step, client, heard):
                stop += 1
            lines[start:stop] = sorted(lines[start:stop], key=repr)
        start = stop
    return lines


def _goes_with(line: tuple[int, int, Heard], step: int, client: int, first: Told) -> bool:
    return line[:2] == (step, client) and isinstance(line[2], Told) and line[2].zxid == first.zxid


@frozen(init=False)
class _Names:
    sessions: dict[int, int]
    zxids: list[int]

    def __init__(self, transcript: Transcript) -> None:
        sessions: dict[int, int] = {0: 0}
        zxids: set[int] = set()
        for _, _, heard in transcript.heard:
            match heard:
                case Connected(session=session):
                    sessions.setdefault(session, len(sessions))
                case Replied(op=op, zxid=zxid, error=error):
                    # One that could not be read gets a zxid of its own from us and none from the original.
                    if op in _WRITES and error != ErrorCode.MARSHALLING_ERROR:
                        zxids.add(zxid)
                case Told(zxid=zxid):
                    zxids.add(zxid)
                case _:
                    pass
        for stat in _stats(transcript):
            zxids |= {stat.czxid, stat.mzxid, stat.pzxid}
        ranked = sorted(zxid for zxid in zxids if zxid > transcript.started)
        self.__attrs_init__(sessions, ranked)

    def rank(self, zxid: int) -> int:
        return zxid if zxid <= 0 else bisect_right(self.zxids, zxid)

    def text(self, heard: Heard) -> str:
        match heard:
            case Connected(timeout_ms, session, password_bytes, read_only):
                return f"connected session={self.sessions[session]} {timeout_ms=} {password_bytes=} {read_only=}"
            case Told(zxid, event, state, path):
                return f"event {event} {state=} {path!r} zxid={self.rank(zxid)}"
            case Ended():
                return "connection closed"
            case Silent():
                return "nothing comes"
            case Replied(op, xid, zxid, error, value, extra):
                said = [f"reply to {Op(op).name if op in Op.__members__.values() else op}", f"zxid={self.rank(zxid)}"]
                if xid:
                    said.append(f"{xid=} too far")
                said.append(f"{error=}" if error else self.value(op, value))
                if extra:
                    said.append(f"{extra=}")
                return " ".join(said)

    def found(self, found: Found) -> str:
        acl = self.value(Op.GET_ACL, (found.acl, found.stat))
        data = found.data if found.data is None else without_addresses(found.data)
        return f"left {found.path!r} {data!r} {acl} {found.children}"

    def value(self, op: int, value: Any) -> str:
        if op in _NAMES:
            return repr(sorted(value))
        if op == Op.GET_CHILDREN2:
            return repr((sorted(value[0]), self.plain(value[1])))
        if op == Op.GET_ACL:
            return repr((in_order(value[0]), self.plain(value[1])))
        if op in (Op.MULTI, Op.MULTI_READ):
            return "[" + ", ".join(f"{kind}: {self.value(kind, part)}" for kind, part in value) + "]"
        return repr(self.plain(value))

    def plain(self, value: Any) -> Any:
        if isinstance(value, Stat):
            owner = value.ephemeral_owner
            length = "any" if value.version == CONFIG_VERSION else value.data_length
            return (
                f"c={self.rank(value.czxid)} m={self.rank(value.mzxid)} p={self.rank(value.pzxid)} "
                f"v={value.version} cv={value.cversion} av={value.aversion} "
                f"owner={self.sessions.get(owner, hex(owner))} "
                f"{length=!s} children={value.num_children}"
            )
        if isinstance(value, bytes):
            return without_addresses(value)
        if isinstance(value, (tuple, list)):
            return tuple(map(self.plain, value))
        return value


def in_order(acl: tuple[tuple[int, str, str], ...]) -> list[tuple[int, str, str]]:
    """Sort the entries that `auth` expanded to: the identities of a connection, a set."""
    listed = list(acl or ())
    start = 0
    while start < len(listed):
        stop = start + 1
        while stop < len(listed) and listed[stop][:2] == listed[start][:2]:
            stop += 1
        listed[start:stop] = sorted(listed[start:stop])
        start = stop
    return listed
