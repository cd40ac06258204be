"""Requests that are neither a read nor a write: ping, sync and reconfig, and what nobody has heard of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from zab.core.errors import ZabError
from zab.runtime.coordination.line import Slot
from zab.runtime.coordination.proofs import authenticate, sasl
from zab.store.apply import Result
from zab.store.errors import ErrorCode
from zab.store.node import stat_fields
from zab.store.ops import Op
from zab.store.request import HEAD
from zab.wire.client.replies import error_reply
from zab.wire.client.requests import PING_XID, Refused, decode_request

if TYPE_CHECKING:
    from zab.runtime.coordination.intake import Intake


def ping(client: Intake, op: int, xid: int, body: bytes) -> None:
    """Not in line with the others."""
    client.send(error_reply(PING_XID, client.machine.zxid, 0))


def sync(client: Intake, op: int, xid: int, body: bytes) -> None:
    """What is behind it waits at the door: else a write could overtake it, and a read in between would see it."""
    fields = decode_request(op, body)
    if isinstance(fields, Refused):
        client.put(op, xid, Slot(fields.code, done=True))
        return
    slot = Slot(value=fields[0])

    def synced(result: object, error: Exception | None) -> None:
        if client.over:
            return
        if error is not None:
            client.cut(f"a sync failed: {error}")
            return
        slot.done = True
        try:
            client.proceed()
        except Exception as mistake:
            client.failed(mistake)

    client.line.append((op, xid, slot))
    client.pause()
    try:
        client.server.member.post_barrier(synced, client.server.tracker.word_of(client.session))
    except ZabError as error:
        client.cut(str(error))


def reconfigure(client: Intake, op: int, xid: int, body: bytes) -> None:
    """May I? is a write like any other. Then it is the consensus' turn; what is behind it waits at the door."""
    server = client.server

    def allowed(result: object, error: Exception | None) -> None:
        if client.over:
            return
        refused = error is not None or bool(cast(Result, result)[1])
        if server.audit is not None:
            server.audit.reconfigured(client.session, client.identities, client.caller.host, not refused)
        if not refused:
            slot = Slot()
            client.line[0] = (op, xid, slot)
            client.start(partial(_change_membership, client, op, body, slot))
            return
        client.written(result, error)
        client.proceed()

    client.line.append((op, xid, None))
    client.pause()
    identified = client.identified
    head = HEAD.pack(client.flags, client.session, xid, op, server.me, len(identified))
    server.post(head + identified + body, allowed)


async def _change_membership(client: Intake, op: int, body: bytes, slot: Slot) -> None:
    fields = decode_request(op, body)
    assert not isinstance(fields, Refused), "the leader has read it"
    try:
        slot.error, node = await client.server.membership.change(fields)
    except ZabError as error:
        client.cut(f"what became of a change of membership is unknown: {error}")
        return
    if node is not None:
        slot.value = (node[0], stat_fields(node))
    slot.done = True
    client.proceed()
    client.flush()


def unknown(client: Intake, op: int, xid: int, body: bytes) -> None:
    client.wronged(f"no client may ask for operation {op}" if op else "a second connect request, or no request at all")
    client.last_taken = True
    client.put(op, xid, Slot(ErrorCode.UNIMPLEMENTED, done=True, last=True, zxid=-1))


SPECIAL: Final[Mapping[int, Callable[[Intake, int, int, bytes], None]]] = {
    int(Op.PING): ping,
    int(Op.SYNC): sync,
    int(Op.RECONFIG): reconfigure,
    int(Op.AUTH): authenticate,
    int(Op.SASL): sasl,
}
