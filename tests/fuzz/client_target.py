"""A whole client at a server of arbitrary bytes: every call ends exactly once."""

from __future__ import annotations

from typing import Any, Final

from zab.client.calls import Call
from zab.client.client_protocol import ClientProtocol
from zab.client.client_settings import ClientSettings
from zab.core.errors import RemoteProtocolError
from zab.session.watch import Watch
from zab.session.watch_manager import WatchManager
from zab.store.error_codes import ErrorCode
from zab.store.operations import Fields, Op
from zab.wire.client.connect import ConnectResponse
from zab.wire.client.replies import encode_event, encode_reply, error_reply
from zab.wire.client.requests import AUTH_XID, PING_XID, SET_WATCHES_XID

_STAT: Final = tuple(range(11))
_CALLS: Final[list[tuple[Op, Fields, bool]]] = [
    (Op.GET_DATA, ("/a", True), True),
    (Op.ADD_WATCH, ("/", 1), True),
    (Op.GET_CHILDREN2, ("/a", True), True),
    (Op.MULTI, ((Op.DELETE, ("/a", -1)),), False),
    (Op.WHO_AM_I, (), False),
    (Op.REMOVE_WATCHES, ("/a", 3), False),
]
SEEDS: Final = [
    error_reply(SET_WATCHES_XID, 1, 0)
    + error_reply(AUTH_XID, 0, 0)
    + encode_reply(Op.GET_DATA, 1, 2, (b"x", _STAT))
    + encode_event(3, "/a", 3)
    + encode_reply(Op.ADD_WATCH, 2, 3, 0)
    + encode_event(1, "/a/b", 4)
    + error_reply(PING_XID, 4, 0)
    + encode_reply(Op.GET_CHILDREN2, 3, 4, (["b"], _STAT))
    + encode_reply(Op.MULTI, 4, 5, [(Op.DELETE, None)])
    + encode_reply(Op.WHO_AM_I, 5, 5, [("ip", "::1")])
    + error_reply(6, 5, -121)
]


class _Owner:
    def __init__(self) -> None:
        self.machine: ClientProtocol | None = None

    def wake(self) -> None: ...
    def opened(self) -> None: ...

    def auth_failed(self, code: int, why: str) -> None:
        assert self.machine is not None
        self.machine.end(code, why)


def run(data: bytes) -> bool:
    owner, book = _Owner(), WatchManager()
    owner.machine = machine = ClientProtocol(owner, book, ClientSettings(reply_bytes_max=4096), 10_000)
    watch, told = Watch(None, 100), [0] * len(_CALLS)
    book.answered(Op.GET_DATA, ("/before", True), 0, watch)
    machine.add_auth("digest", b"a:b", lambda value, error: None)

    def call(index: int, op: Op, fields: Fields, watched: bool) -> Call:
        def done(value: Any, error: Exception | None) -> None:
            told[index] += 1

        return Call(op, fields, "it", done, watch if watched else None)

    for index, each in enumerate(_CALLS):
        machine.submit(call(index, *each))
    machine.connected(ConnectResponse(9, 8, bytes(16)))
    try:
        for at in range(0, len(data), 7):
            machine.receive(data[at : at + 7])
    except RemoteProtocolError as error:
        machine.lost(str(error))
    accepted = any(told)
    machine.end(ErrorCode.SESSION_EXPIRED, "the end")
    assert told == [1] * len(_CALLS)
    return accepted
