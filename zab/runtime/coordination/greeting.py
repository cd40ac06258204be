"""The first frame of a connection, and which session a client gets for its connect request, if any."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

import trio
from attrs import frozen

from zab.core.errors import ZabError
from zab.runtime.driver import now_ms
from zab.wire.client.connect import EXPIRED, ConnectRequest, ConnectResponse, encode_connect_response
from zab.wire.client.frames import Command, Opening

if TYPE_CHECKING:
    from zab.runtime.coordination.server import StoreServer

RECEIVE_BYTES: Final = 64 << 10


@frozen
class Established:
    session: int
    timeout_ms: int
    read_only: bool


async def first_frame(
    server: StoreServer, stream: trio.abc.Stream, connection: trio.CancelScope
) -> tuple[Command | ConnectRequest, bytes | bytearray] | None:
    """With what came behind it. None, if there is none; if it does not come in time, the connection is cancelled."""
    opening = Opening(server.settings.frame_bytes_max)
    connection.deadline = trio.current_time() + server.settings.first_frame_ms / 1000
    try:
        while data := await stream.receive_some(RECEIVE_BYTES):
            first = opening.open(data)
            if first is not None:
                connection.deadline = inf
                return first, opening.rest
    except trio.Cancelled:
        server.counts.sessionless_connections_expired += trio.current_time() >= connection.deadline
        raise
    return None


def is_admitted(server: StoreServer, asked: ConnectRequest) -> bool:
    """Whether there is a token for it in the bucket of connections."""
    bucket, local = server.bucket, server.settings.local_sessions_enabled
    return bucket.take(bucket.weight(renews=asked.session != 0, local=local), now_ms())


async def session_for(server: StoreServer, asked: ConnectRequest, peer: str) -> Established | ConnectResponse | None:
    """Or how it is refused; None: without a word, so that the client asks another server."""
    timeout_ms = server.settings.timeout_ms(asked.timeout_ms)
    with trio.move_on_after(timeout_ms / 1000) as scope, server.tracker.arriving(scope, timeout_ms):
        try:
            return await _session_for(server, asked, peer, timeout_ms)
        except ZabError:
            pass
    return None


async def _session_for(
    server: StoreServer, asked: ConnectRequest, peer: str, timeout_ms: int
) -> Established | ConnectResponse | None:
    read_only = server.settings.read_only_mode_enabled and await server.ready_or_read_only()
    if read_only and not asked.read_only:
        return None  # there may be a server that is better off
    if asked.last_zxid_seen > server.machine.zxid:
        if not read_only:
            await server.member.barrier()
        if asked.last_zxid_seen > server.machine.zxid:
            # It has seen another history than ours. That is not for us to answer.
            server.log.grumble("client_from_the_future", peer.rpartition(":")[0], peer=peer)
            return None
    session, attached = asked.session, None
    if session == 0:
        attached = timeout_ms
        if read_only or server.settings.local_sessions_enabled:
            session = await server.create_local_session(timeout_ms, read_only=read_only)
        else:
            session = await server.create_session(timeout_ms)
    elif read_only:
        attached = server.attach_read_only(session, asked.password)
        if attached is None:
            return None  # whether it is over only a leader can say
    else:
        attached = await server.attach_session(session, asked.password)
        if attached is None:
            return ConnectResponse(
                EXPIRED.timeout_ms, EXPIRED.session, EXPIRED.password, None if asked.read_only is None else False
            )
    if read_only and server.ready:
        return None
    return Established(session, attached, read_only)


def welcome(server: StoreServer, asked: ConnectRequest, given: Established) -> bytes:
    password = server.password(given.session)
    read_only = None if asked.read_only is None else given.read_only
    return encode_connect_response(ConnectResponse(given.timeout_ms, given.session, password, read_only))
