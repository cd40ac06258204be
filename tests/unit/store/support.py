"""A leader's store without a leader, and clients that record their events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field, frozen

from zab.store.acl import OPEN, Identity, encode_identities
from zab.store.apply import Result
from zab.store.operations import Op
from zab.store.request_format import INTERNAL, pack_body, pack_request
from zab.store.server_watches import Watcher
from zab.store.store import Store
from zab.store.store_settings import DEFAULT_SETTINGS, StoreSettings
from zab.store.znode import Stat, stat_of

EPOCH = 1
FIRST = EPOCH << 32
ALICE, BOB, CAROL = 0x100_0000_0000_0001, 0x200_0000_0000_0002, 0x100_0000_0000_0003
SECRET = bytes(range(32))
NOW = 1_700_000_000_000


@frozen
class View:
    zxid: int
    epoch: int
    now_ms: int
    outstanding: Sequence[tuple[int, bytes]] = ()


@define(eq=False)
class Client:
    """A connection."""

    session: int = ALICE
    identities: tuple[Identity, ...] = ()
    events: list[tuple[int, str, int]] = field(factory=list)

    @property
    def heard(self) -> list[tuple[int, str]]:
        """Return and clear the events since the last call."""
        heard = [(event, path) for event, path, _ in self.events]
        self.events.clear()
        return heard


def deliver(watchers: Sequence[Watcher], event: int, path: str, zxid: int) -> None:
    for watcher in watchers:
        assert isinstance(watcher, Client)
        watcher.events.append((event, path, zxid))


class Leader:
    """Prepares at once and applies on command, so that transactions can be outstanding in between."""

    def __init__(self, settings: StoreSettings = DEFAULT_SETTINGS, store: Store | None = None) -> None:
        self.store = Store(settings, deliver) if store is None else store
        self.zxid = max(FIRST, self.store.zxid)
        self.epoch = EPOCH
        self.now_ms = NOW
        self.log: list[tuple[int, bytes]] = []
        """All that was ever prepared."""
        self._applied = 0
        self.servers = {ALICE: 1, BOB: 2, CAROL: 1}

    # -- requests ----------------------------------------------------------------------------------

    def prepare(
        self,
        op: Op,
        *fields: Any,
        session: int = ALICE,
        server: int | None = None,
        identities: tuple[Identity, ...] = (),
        flags: int = 0,
    ) -> int:
        """Prepare a request, and return its zxid."""
        server = self.servers.get(session, 1) if server is None else server
        encoded = encode_identities(identities)
        request = pack_request(op, pack_body(fields), session, 7, server, encoded, flags)
        return self.prepare_raw(request)

    def prepare_raw(self, request: bytes) -> int:
        self.zxid += 1
        txn = self.store.prepare(request, View(self.zxid, self.epoch, self.now_ms, self.log[self._applied :]))
        self.log.append((self.zxid, txn))
        return self.zxid

    def apply_one(self) -> Result:
        result = self.store.apply(*self.log[self._applied])
        self._applied += 1
        return result

    def settle(self) -> list[Result]:
        return [self.apply_one() for _ in range(len(self.log) - self._applied)]

    def ask(self, op: Op, *fields: Any, **options: Any) -> Result:
        self.prepare(op, *fields, **options)
        return self.settle()[-1]

    def error(self, op: Op, *fields: Any, **options: Any) -> int:
        return self.ask(op, *fields, **options)[1]

    # -- in short ----------------------------------------------------------------------------------

    def internal(self, op: Op, *fields: Any, **options: Any) -> int:
        return self.error(op, *fields, flags=INTERNAL, **options)

    def open_sessions(self, *sessions: int) -> None:
        if not self.store.sessions.secret:
            assert self.internal(Op.SET_SECRET, SECRET) == 0
        for session in sessions or (ALICE,):
            assert self.internal(Op.CREATE_SESSION, 30_000, session=session) == 0

    def create(self, path: str, data: bytes | None = b"", flags: int = 0, acl: Any = OPEN, **options: Any) -> str:
        _, error, created, _, _ = self.ask(Op.CREATE, path, data, acl, flags, **options)
        assert error == 0, f"create {path}: {error}"
        assert created is not None
        return created

    def delete(self, path: str, **options: Any) -> None:
        assert self.error(Op.DELETE, path, -1, **options) == 0

    def set(self, path: str, data: bytes | None, **options: Any) -> None:
        assert self.error(Op.SET_DATA, path, data, -1, **options) == 0

    def stat(self, path: str) -> Stat:
        return stat_of(self.store.tree.nodes[path])

    def codes(self, *ops: tuple[Op, tuple[Any, ...]], **options: Any) -> list[int]:
        """Return the error codes of a multi."""
        return [code for _, code, _, _ in self.ask(Op.MULTI, *ops, **options)[4]]


def leader(settings: StoreSettings = DEFAULT_SETTINGS, *sessions: int) -> Leader:
    it = Leader(settings)
    it.open_sessions(*(sessions or (ALICE, BOB)))
    return it


def follower_of(it: Leader, settings: StoreSettings = DEFAULT_SETTINGS) -> Store:
    store = Store(settings)
    for zxid, txn in it.log:
        store.apply(zxid, txn)
    return store


def dump(store: Store) -> dict[str, Any]:
    """Return all state that two servers at one zxid must share."""
    store.tree.check()
    return {
        "zxid": store.zxid,
        "nodes": store.tree.nodes,
        "order": list(store.tree.nodes),
        "sessions": store.sessions.table,
        "secret": store.sessions.secret,
        "ephemerals": store.tree.ephemerals,
        "digest": store.digest.value,
        "bytes": store.digest.data_bytes,
    }
