"""A simple model of the store: one operation after the other, on dicts, without optimizations.

It has no outstanding changes and shares no state, and every read scans everything.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field

from zab.store.error_codes import ErrorCode as E
from zab.store.operations import Op
from zab.store.znode import Stat

FORBIDDEN = [(0x00, 0x1F), (0x7F, 0x9F), (0xD800, 0xF8FF), (0xFFF0, 0x10FFFF)]


def well_formed(path: str) -> bool:
    if path == "/":
        return True
    if not path.startswith("/") or path.endswith("/"):
        return False
    for part in path[1:].split("/"):
        if part in ("", ".", ".."):
            return False
        for character in part:
            if any(low <= ord(character) <= high for low, high in FORBIDDEN):
                return False
    return True


def up(path: str) -> str:
    return path[: path.rindex("/")] or "/"


@define
class Znode:
    data: bytes | None
    czxid: int
    ctime: int
    acl: Any
    owner: int = 0
    container: bool = False
    ttl: int | None = None
    mzxid: int = 0
    mtime: int = 0
    pzxid: int = 0
    version: int = 0
    aversion: int = 0
    born: int = 0
    """Children ever created."""
    died: int = 0


class Refuse(Exception):
    def __init__(self, code: int) -> None:
        self.code = code


@define
class Model:
    nodes: dict[str, Znode] = field(factory=dict)
    sessions: set[int] = field(factory=set)
    events: list[tuple[Any, int, str]] = field(factory=list)
    watches: list[tuple[str, str, str, Any]] = field(factory=list)
    """(table, mode, path, watcher)"""
    now: int = 0

    def __attrs_post_init__(self) -> None:
        everybody = ((31, "world", "anyone"),)
        for path in ("/", "/zookeeper", "/zookeeper/quota"):
            self.nodes[path] = Znode(b"", 0, 0, everybody)
        self.nodes["/zookeeper/config"] = Znode(b"", 0, 0, ((1, "world", "anyone"),))
        self.nodes["/zookeeper/config"].aversion = -1

    def below(self, path: str) -> list[str]:
        return [each for each in self.nodes if each != "/" and up(each) == path]

    def stat(self, path: str) -> Stat:
        it = self.nodes[path]
        children = len(self.below(path))
        # The four nodes that are always there were never created by anybody.
        system = {"/": 1, "/zookeeper": 2}.get(path, 0)
        return Stat(
            it.czxid, it.mzxid or it.czxid, it.ctime, it.mtime or it.ctime, it.version,
            it.born + it.died - system, it.aversion, it.owner, len(it.data or b""), children, it.pzxid or it.czxid,
        )  # fmt: skip

    def may(self, who: Any, path: str, bit: int) -> bool:
        for perms, scheme, name in self.nodes[path].acl:
            if perms & bit and ((scheme, name) == ("world", "anyone") or (scheme, name) in who):
                return True
        return False

    # -- writes ------------------------------------------------------------------------------------

    def write(self, zxid: int, session: int, who: Any, op: int, fields: Any) -> tuple[int, Any]:
        """(error, value): a path, a stat, both, nothing, or for a multi the list of its codes."""
        if op == Op.CLOSE_SESSION:
            self.close(zxid, session)
            return 0, None
        if session not in self.sessions:
            return E.SESSION_EXPIRED, None
        try:
            if op == Op.MULTI:
                return 0, self.multi(zxid, session, who, fields)
            return 0, self.one(zxid, session, who, op, fields)
        except Refuse as refused:
            return refused.code, None

    def multi(self, zxid: int, session: int, who: Any, ops: Any) -> list[Any]:
        from copy import deepcopy

        read = []
        for op, fields in ops:
            if op in (1, 15, 19):
                if fields[3] not in range(5) or fields[2] is None:
                    raise Refuse(E.MARSHALLING_ERROR)
                op = 19 if fields[3] == 4 else op
            elif op == 21 and fields[3] not in (5, 6):
                op, fields = 19 if fields[3] == 4 else 1, fields[:4]
            read.append((op, fields))
        ops = read
        nodes = deepcopy(self.nodes)
        watches, events = list(self.watches), len(self.events)
        values: list[Any] = []
        for number, (op, fields) in enumerate(ops):
            try:
                values.append((0, self.one(zxid, session, who, op, fields)))
            except Refuse as refused:
                self.nodes, self.watches = nodes, watches
                del self.events[events:]
                return [(0, None)] * number + [(refused.code, None)] + [(-2, None)] * (len(ops) - number - 1)
        return values

    def one(self, zxid: int, session: int, who: Any, op: int, fields: Any) -> Any:
        match op:
            case Op.CREATE | Op.CREATE2 | Op.CREATE_CONTAINER:
                return self.create(zxid, session, who, op, *fields)
            case Op.CREATE_TTL:
                return self.create(zxid, session, who, op, *fields)
            case Op.DELETE:
                return self.delete(zxid, who, *fields)
            case Op.SET_DATA:
                return self.set_data(zxid, who, *fields)
            case Op.SET_ACL:
                return self.set_acl(zxid, who, *fields)
            case Op.CHECK:
                return self.check(who, *fields)
            case _:
                raise AssertionError(op)

    def create(
        self, zxid: int, session: int, who: Any, op: int, path: str, data: Any, acl: Any, flags: int, ttl: int = -1
    ) -> Any:
        if flags not in {1: range(5), 15: range(5), 19: range(5), 21: (5, 6)}[op]:
            raise Refuse(E.BAD_ARGUMENTS)
        if op == Op.CREATE_TTL and not 0 < ttl < 2**40:
            raise Refuse(E.BAD_ARGUMENTS)
        if "/" not in path or "\0" in path:
            raise Refuse(E.BAD_ARGUMENTS)
        if not acl:
            raise Refuse(E.INVALID_ACL)
        parent = up(path)
        if parent not in self.nodes:
            raise Refuse(E.NO_NODE)
        if not self.may(who, parent, 4):
            raise Refuse(E.NO_AUTH)
        if flags in (2, 3, 6):
            number = self.nodes[parent].born
            path += str(number).rjust(10, "0")
        if not well_formed(path):
            raise Refuse(E.BAD_ARGUMENTS)
        if path in self.nodes:
            raise Refuse(E.NODE_EXISTS)
        if self.nodes[parent].owner:
            raise Refuse(E.NO_CHILDREN_FOR_EPHEMERALS)
        self.nodes[path] = Znode(
            data,
            zxid,
            self.now,
            acl,
            session if flags in (1, 3) and op != 19 else 0,
            op == Op.CREATE_CONTAINER,
            ttl if flags > 4 else None,
        )
        self.nodes[parent].born += 1
        self.nodes[parent].pzxid = zxid
        self.fire("data", path, 1, self.nodes[path].acl)
        self.fire("child", parent, 4, self.nodes[parent].acl)
        return path if op == Op.CREATE else (path, self.stat(path))

    def delete(self, zxid: int, who: Any, path: str, version: int) -> None:
        if "/" not in path or "\0" in path or path in ("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"):
            raise Refuse(E.BAD_ARGUMENTS)
        parent = up(path)
        if parent not in self.nodes:
            raise Refuse(E.NO_NODE)
        if not self.may(who, parent, 8):
            raise Refuse(E.NO_AUTH)
        if path not in self.nodes:
            raise Refuse(E.NO_NODE)
        if version not in (-1, self.nodes[path].version):
            raise Refuse(E.BAD_VERSION)
        if self.below(path):
            raise Refuse(E.NOT_EMPTY)
        self.remove(zxid, path)

    def remove(self, zxid: int, path: str) -> None:
        parent = up(path)
        acl = self.nodes.pop(path).acl
        self.nodes[parent].died += 1
        self.nodes[parent].pzxid = zxid
        told = self.fire("data", path, 2, acl)
        self.fire("child", path, 2, acl, told)
        self.fire("child", parent, 4, self.nodes[parent].acl)

    def known(self, who: Any, path: str, bit: int) -> Znode:
        if not well_formed(path):
            raise Refuse(E.BAD_ARGUMENTS)
        if path not in self.nodes:
            raise Refuse(E.NO_NODE)
        if not self.may(who, path, bit):
            raise Refuse(E.NO_AUTH)
        return self.nodes[path]

    def set_data(self, zxid: int, who: Any, path: str, data: Any, version: int) -> Stat:
        it = self.known(who, path, 2)
        if version not in (-1, it.version):
            raise Refuse(E.BAD_VERSION)
        it.data, it.mzxid, it.mtime = data, zxid, self.now
        it.version += 1
        self.fire("data", path, 3, it.acl)
        return self.stat(path)

    def set_acl(self, zxid: int, who: Any, path: str, acl: Any, version: int) -> Stat:
        if not well_formed(path):
            raise Refuse(E.BAD_ARGUMENTS)
        if not acl:
            raise Refuse(E.INVALID_ACL)
        it = self.known(who, path, 16)
        if version not in (-1, it.aversion):
            raise Refuse(E.BAD_VERSION)
        it.acl = acl
        it.aversion += 1
        return self.stat(path)

    def check(self, who: Any, path: str, version: int) -> None:
        if version not in (-1, self.known(who, path, 1).version):
            raise Refuse(E.BAD_VERSION)

    def close(self, zxid: int, session: int) -> None:
        self.sessions.discard(session)
        # Which of them goes first is nobody's promise; the events say which was.
        for path in [path for path, node in self.nodes.items() if node.owner == session]:
            self.remove(zxid, path)

    # -- watches -----------------------------------------------------------------------------------

    def watch(self, table: str, mode: str, path: str, watcher: Any) -> None:
        if (table, mode, path, watcher) not in self.watches:
            self.watches.append((table, mode, path, watcher))

    def fire(self, table: str, path: str, event: int, acl: Any, told: Any = ()) -> list[Any]:
        found = []
        for entry in list(self.watches):
            of, mode, at, watcher = entry
            hit = of == table and (at == path or (mode == "recursive" and (at == "/" or path.startswith(at + "/"))))
            if not hit:
                continue
            if mode == "standard":
                self.watches.remove(entry)
            if watcher not in found and watcher not in told:
                found.append(watcher)
        for watcher in found:
            if any(
                perms & 1 and ((scheme, name) == ("world", "anyone") or (scheme, name) in watcher.identities)
                for perms, scheme, name in acl
            ):
                self.events.append((watcher, event, path))
        return found
