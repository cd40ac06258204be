"""Hostile state, built by legal requests, which makes later small requests expensive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from attrs import frozen

from zab.store.acl import OPEN, AclEntry
from zab.store.operations import CreateFlag, Fields, Op
from zab.store.znode import TTL_MAX

Operation: TypeAlias = tuple[int, Fields]


@frozen
class Scale:
    """How much of each."""

    wide: int
    """Children of one node."""
    inner: int
    """Nodes with one child each."""
    deep: int
    """Levels."""
    owned: int
    """Ephemeral nodes of the session that builds this."""
    junk_bytes: int
    """The data of a quota's limits and statistics."""
    large_bytes: int


SMALL: Final = Scale(wide=1_000, inner=300, deep=90, owned=300, junk_bytes=20_000, large_bytes=20_000)
LARGE: Final = Scale(wide=30_000, inner=20_000, deep=90, owned=20_000, junk_bytes=1_000_000, large_bytes=1_000_000)


def junk(size: int) -> bytes:
    """Junk that a quota's parser has to read to the end."""
    return b",".join(b"%d=1" % number for number in range(size // 6))[:size]


def nodes(scale: Scale) -> Iterator[Operation]:
    def create(path: str, data: bytes = b"", flags: int = CreateFlag.PERSISTENT) -> Operation:
        return Op.CREATE, (path, data, OPEN, flags)

    for path in ("/wide", "/inner", "/deep", "/owned", "/limited", "/limited/below", "/watched"):
        yield create(path)
    yield create("/large", bytes(scale.large_bytes))
    for number in range(scale.wide):
        yield create(f"/wide/n{number:08d}")
    for number in range(scale.inner):
        yield create(f"/inner/n{number:08d}")
        yield create(f"/inner/n{number:08d}/child")
    for level in range(1, scale.deep):
        yield create("/deep" + "/a" * level)
    for number in range(scale.owned):
        yield create(f"/owned/e{number:08d}", flags=CreateFlag.EPHEMERAL)
    yield Op.CREATE_CONTAINER, ("/container", b"", OPEN, CreateFlag.CONTAINER)
    yield Op.CREATE_TTL, ("/ttl", b"", OPEN, CreateFlag.PERSISTENT_TTL, TTL_MAX)


def quotas(scale: Scale) -> Iterator[Operation]:
    quota = "/zookeeper/quota"
    for path in ("/limited", "/limited/below", "/deep", "/wide"):  # the next walk has to wait after a large one
        yield Op.CREATE, (quota + path, b"", OPEN, 0)
        yield Op.CREATE, (f"{quota}{path}/zookeeper_limits", junk(scale.junk_bytes), OPEN, 0)
        yield Op.CREATE, (f"{quota}{path}/zookeeper_stats", b"", OPEN, 0)
        yield Op.SET_DATA, (f"{quota}{path}/zookeeper_stats", junk(scale.junk_bytes), -1)


def guard(accepts: Callable[[Operation], bool]) -> int:
    """Create a node with as many entries in its ACL as the server accepts; the last one grants access to the world."""
    for entries in (30_000, 10_000, 3_000, 1_000, 300, 100, 30):
        acl: list[AclEntry] = [(1, "ip", f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}/31") for n in range(entries - 1)]
        if accepts((Op.CREATE, ("/guarded", b"", (*acl, (31, "world", "anyone")), 0))):
            return entries
    raise AssertionError("no ACL of these sizes is accepted")


def watches(count: int) -> Operation:
    return Op.SET_WATCHES2, (0, (), (), (), (), tuple(f"/watched/{number}" for number in range(count)))
