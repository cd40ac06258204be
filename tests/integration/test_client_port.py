"""The client port, byte by byte: what well-behaved clients never send, and what they must never see."""

from __future__ import annotations

import logging
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve

import zab
from tests.integration.stores import PORTS, Stores, stores
from zab.core.errors import LeadersLost
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.runtime.store_server.open_store import open_store
from zab.service.connection.request_pipeline import RequestPipeline
from zab.service.forwarding.pending_submissions import Done
from zab.service.inner_bounds import InnerBounds
from zab.store import acl_schemes
from zab.store.acl import OPEN
from zab.store.error_codes import ErrorCode
from zab.store.operations import CreateFlag, Op
from zab.store.store_settings import StoreSettings
from zab.wire.client.client_frames import FirstFrame, Reply, ReplyReader, Request
from zab.wire.client.connect import (
    ConnectRequest,
    ConnectResponse,
    decode_connect_response,
    encode_connect_request,
)
from zab.wire.client.replies import EVENT_XID, decode_body, decode_event
from zab.wire.client.requests import AUTH_XID, PING, PING_XID, SET_WATCHES_XID, encode_request
from zab.wire.jute import INT, buffer


class Client:
    """A client that sends given frames and keeps the replies and events that it receives."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.session = 0
        self.password: bytes | None = b""
        self._reader = ReplyReader()
        self._replies: list[Reply] = []

    async def connect(self, asked: ConnectRequest | None = None, behind: bytes = b"") -> ConnectResponse | None:
        await self.stream.send_all(encode_connect_request(asked or ConnectRequest(0, 20_000)) + behind)
        first = FirstFrame()
        while data := await self.stream.receive_some():
            payload = first.feed(data)
            if payload is not None:
                self._replies += self._reader.feed(first.rest)
                response = decode_connect_response(payload)
                self.session, self.password = response.session, response.password
                return response
        return None

    async def ask(self, *requests: bytes) -> list[Reply]:
        """Receive as many replies or events as requests were sent."""
        await self.stream.send_all(b"".join(requests))
        return await self.hear(len(requests))

    async def hear(self, count: int) -> list[Reply]:
        while len(self._replies) < count:
            data = await self.stream.receive_some()
            assert data, f"the server hung up; before that it said {self._replies}"
            self._replies += self._reader.feed(data)
        heard, self._replies = self._replies[:count], self._replies[count:]
        return heard

    async def hear_of(self, xid: int) -> Reply:
        while True:
            (reply,) = await self.hear(1)
            if reply[0] == xid:
                return reply

    async def rest(self) -> list[Reply]:
        """Until the server hangs up."""
        try:
            while data := await self.stream.receive_some():
                self._replies += self._reader.feed(data)
        except trio.BrokenResourceError:
            pass
        return self._replies


@asynccontextmanager
async def raw(running: Stores, sid: int = 1) -> AsyncIterator[Client]:
    async with await trio.open_tcp_stream("127.0.0.1", running.ports[sid]) as stream:
        yield Client(stream)


def create(xid: int, path: str, flags: int = CreateFlag.PERSISTENT) -> bytes:
    return encode_request(Op.CREATE, xid, (path, b"", OPEN, flags))


def get(xid: int, path: str, watch: bool = False) -> bytes:
    return encode_request(Op.GET_DATA, xid, (path, watch))


async def still_serves(running: Stores) -> None:
    async with raw(running) as client:
        assert await client.connect() is not None
        ((xid, _, error, _),) = await client.ask(encode_request(Op.EXISTS, 1, ("/", False)))
        assert (xid, error) == (1, 0)


# -- order --------------------------------------------------------------------------------------------------


async def test_requests_may_follow_at_once_and_are_answered_in_order(tmp_path: Path) -> None:
    async with stores(tmp_path) as running, raw(running) as client:
        requests = [
            create(1, "/a"),
            get(2, "/a"),
            encode_request(Op.SYNC, 3, ("/a",)),
            encode_request(Op.SET_DATA, 4, ("/a", b"x", 0)),
            encode_request(Op.SET_DATA, 5, ("/a", b"y", 0)),
            get(6, "/a"),
            encode_request(Op.DELETE, 7, ("/a", -1)),
            get(8, "/a"),
        ]
        assert await client.connect(behind=b"".join(requests)) is not None
        replies = await client.hear(8)
        assert [xid for xid, *_ in replies] == list(range(1, 9))
        assert [error for _, _, error, _ in replies] == [0, 0, 0, 0, ErrorCode.BAD_VERSION, 0, 0, ErrorCode.NO_NODE]
        assert decode_body(Op.GET_DATA, replies[5][3])[0] == b"x"
        zxids = [zxid for _, zxid, _, _ in replies]
        assert zxids == sorted(zxids)


@pytest.mark.mechanism(121)
async def test_nothing_overtakes_a_sync(tmp_path: Path) -> None:
    """On a learner the two go to the leader on different ways."""
    async with stores(tmp_path, 3) as running:
        leader = await running.leader()
        async with raw(running, next(sid for sid in running.servers if sid != leader)) as client:
            await client.connect()
            requests = [create(1, "/a")]
            for xid in range(2, 200, 3):
                requests.append(encode_request(Op.SYNC, xid, ("/a",)))
                requests.append(encode_request(Op.SET_DATA, xid + 1, ("/a", b"%d" % xid, -1)))
                requests.append(get(xid + 2, "/a"))
            replies = await client.ask(*requests)
            assert [xid for xid, *_ in replies] == list(range(1, len(requests) + 1))
            zxids = [zxid for _, zxid, _, _ in replies]
            assert zxids == sorted(zxids)
            shown = [decode_body(Op.GET_DATA, body)[0] for _, _, _, body in replies[3::3]]
            assert shown == [b"%d" % xid for xid in range(2, 200, 3)]


async def test_an_event_comes_before_the_reply_that_shows_its_change(tmp_path: Path) -> None:
    async with stores(tmp_path) as running, raw(running) as client:
        await client.connect()
        await client.ask(create(1, "/a"), get(2, "/a", watch=True))
        event, wrote, read = await client.ask(
            encode_request(Op.SET_DATA, 3, ("/a", b"x", -1)),
            get(4, "/a"),
            encode_request(Op.SET_DATA, 5, ("/a", b"y", -1)),
        )
        assert (event[0], wrote[0], read[0]) == (EVENT_XID, 3, 4)
        assert decode_event(event[3]) == (3, 3, "/a")
        assert event[1] == wrote[1], "with the zxid of the change"


async def test_set_watches_sends_missed_events(tmp_path: Path) -> None:
    async with stores(tmp_path) as running, raw(running) as client:
        await client.connect()
        await client.ask(create(1, "/changed"), create(2, "/same"))
        ((_, seen, _, _),) = await client.ask(create(3, "/other"))
        await client.ask(encode_request(Op.SET_DATA, 4, ("/changed", b"", -1)))
        lists: Any = (seen, ("/changed", "/same", "/gone"), (), ())
        told = await client.ask(encode_request(Op.SET_WATCHES, SET_WATCHES_XID, lists), PING, PING)
        assert [xid for xid, *_ in told] == [EVENT_XID, EVENT_XID, SET_WATCHES_XID]
        assert [decode_event(body)[::2] for _, _, _, body in told[:2]] == [(3, "/changed"), (2, "/gone")]
        await client.hear(2)
        event, _ = await client.ask(encode_request(Op.SET_DATA, 5, ("/same", b"", -1)), get(6, "/same"))
        assert decode_event(event[3]) == (3, 3, "/same")


async def test_a_ping_does_not_wait_for_an_election(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as running:
        leader = await running.leader()
        others = [sid for sid in running.servers if sid != leader]
        async with raw(running, others[0]) as client:
            await client.connect()
            await client.ask(create(1, "/a"))
            await running.stop(leader)
            await running.stop(others[1])  # and so there will be none for a while
            while running.servers[others[0]].clients.ready:
                await trio.sleep(0.01)
            ((xid, _, error, _),) = await client.ask(create(2, "/b") + get(3, "/b") + PING)
            assert (xid, error) == (PING_XID, 0)
            await running.start(leader)
            replies = await client.hear(2)
            assert [(xid, error) for xid, _, error, _ in replies] == [(2, 0), (3, 0)]


# -- sessions -----------------------------------------------------------------------------------------------


async def test_a_session_is_taken_up_with_its_password_only(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as running, raw(running, 1) as first:
        await first.connect(ConnectRequest(0, 10_000))
        await first.ask(create(1, "/e", CreateFlag.EPHEMERAL))
        async with raw(running, 2) as thief:
            refused = await thief.connect(ConnectRequest(0, 10_000, first.session, bytes(16)))
            assert refused is not None
            assert (refused.session, refused.timeout_ms) == (0, 0)
            assert await thief.rest() == []
        await first.ask(get(2, "/e"))  # it was not disturbed
        async with raw(running, 2) as again:
            taken = await again.connect(ConnectRequest(0, 10_000, first.session, first.password))
            assert taken is not None
            assert (taken.session, taken.timeout_ms) == (first.session, 10_000)
            assert await first.rest() == [], "the old server lets go"
            closed, *_ = await again.ask(encode_request(Op.CLOSE_SESSION, 1))
            assert closed[0] == 1
            assert await again.rest() == []
        assert "/e" not in running.servers[2].machine.tree.nodes


async def test_a_newer_connection_of_a_session_ends_the_older(tmp_path: Path) -> None:
    async with stores(tmp_path) as running, raw(running) as first, raw(running) as second:
        await first.connect()
        taken = await second.connect(ConnectRequest(0, 10_000, first.session, first.password))
        assert taken is not None
        assert await first.rest() == []
        await second.ask(create(1, "/a"))


async def test_requests_of_an_older_connection_never_follow_those_of_a_newer_one(tmp_path: Path) -> None:
    """Otherwise it could take effect after a later request that the client sends to another server."""
    async with stores(tmp_path, 3) as running:
        leader = await running.leader()
        alone, other = [sid for sid in running.servers if sid != leader]
        async with raw(running, alone) as first, raw(running, alone) as second:
            await first.connect()
            await running.stop(other)
            await running.stop(leader)
            while running.servers[alone].clients.ready:
                await trio.sleep(0.01)
            await first.stream.send_all(
                get(1, "/") + create(2, "/late")
            )  # and that waits behind what cannot be read yet
            while not next(iter(running.servers[alone].clients.connections)).queued:
                await trio.sleep(0.01)
            resumed = ConnectRequest(0, 20_000, first.session, first.password)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(second.connect, resumed)
                assert await first.rest() == [], "also when there is nobody who could take the session up"
                await running.start(other)
        # A server that is long without a leader closes its connections, the second one, too, before it can be answered.
        while True:
            async with raw(running, alone) as third:
                taken = await third.connect(resumed)
                if taken is not None:
                    assert taken.session == first.session
                    ((_, _, error, _),) = await third.ask(get(1, "/late"))
                    assert error == ErrorCode.NO_NODE
                    break


async def test_client_with_a_newer_zxid_is_not_answered(tmp_path: Path) -> None:
    async with stores(tmp_path) as running:
        async with raw(running) as client:
            assert await client.connect(ConnectRequest(1 << 60, 10_000)) is None
        assert not running.servers[1].machine.sessions.table


async def test_expired_client_is_disconnected(tmp_path: Path) -> None:
    async with stores(tmp_path) as running, raw(running) as silent, raw(running) as lively:
        await silent.connect(ConnectRequest(0, 2_500))
        await lively.connect(ConnectRequest(0, 2_500))
        await silent.ask(create(1, "/e", CreateFlag.EPHEMERAL))
        await lively.ask(create(1, "/stays", CreateFlag.EPHEMERAL), get(2, "/e", watch=True))
        async with trio.open_nursery() as nursery:

            async def ping() -> None:
                while True:
                    await lively.stream.send_all(PING)
                    await trio.sleep(0.05)

            nursery.start_soon(ping)
            assert await silent.rest() == []
            nursery.cancel_scope.cancel()
        heard = await lively.hear_of(EVENT_XID)
        assert decode_event(heard[3]) == (2, 3, "/e")
        assert list(running.servers[1].machine.sessions.table) == [lively.session]


async def test_a_server_without_a_leader_lets_its_clients_go_in_time(tmp_path: Path) -> None:
    """While there is still time to find a better one: and there the session is as it was."""
    async with stores(tmp_path, 3) as running:
        leader = await running.leader()
        alone, other = [sid for sid in running.servers if sid != leader]
        async with raw(running, alone) as client:
            await client.connect(ConnectRequest(0, 5_000))
            await client.ask(create(1, "/e", CreateFlag.EPHEMERAL))
            await running.stop(other)
            await running.stop(leader)
            assert await client.rest() == []
            assert client.session in running.servers[alone].machine.sessions.table
        await running.start(other)
        async with raw(running, other) as again:
            taken = await again.connect(ConnectRequest(0, 5_000, client.session, client.password))
            assert taken is not None
            assert taken.session == client.session
            ((_, _, error, _),) = await again.ask(get(1, "/e"))
            assert error == 0


async def test_new_client_is_dropped_in_time_without_a_leader(tmp_path: Path) -> None:
    """The time of its session runs meanwhile, and clients wait for an answer for as long as it takes. No quorum can be
    reached here, so both go after two ticks, in any order."""
    gone = []

    async def wait(client: Client, asked_ms: int) -> None:
        assert await client.rest() == []
        gone.append(asked_ms)

    async with stores(tmp_path, 3) as running:
        leader = await running.leader()
        alone, other = [sid for sid in running.servers if sid != leader]
        async with raw(running, alone) as attached, raw(running, alone) as newcomer:
            await attached.connect(ConnectRequest(0, 9_000))
            await running.stop(other)
            await running.stop(leader)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait, attached, 9_000)
                assert await newcomer.connect(ConnectRequest(0, 4_000)) is None
                gone.append(4_000)
    assert sorted(gone) == [4_000, 9_000]


async def test_an_old_client_is_answered_in_kind(tmp_path: Path) -> None:
    async with stores(tmp_path) as running, raw(running) as old, raw(running) as new:
        response = await old.connect(ConnectRequest(0, 10_000, read_only=None))
        assert response is not None
        assert response.read_only is None
        response = await new.connect(ConnectRequest(0, 10_000, read_only=True))
        assert response is not None
        assert response.read_only is False


# -- what must not be ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [13, 20, -1, -10, -12, -13, 0, 99, 2**31 - 1])
async def test_server_operations_are_refused_and_end_the_connection(op: int, tmp_path: Path) -> None:
    async with stores(tmp_path) as running, raw(running) as client:
        await client.connect()
        await client.stream.send_all(create(1, "/a") + struct.pack(">iii", 8, 2, op) + create(3, "/b"))
        replies = await client.rest()
        assert [(xid, error) for xid, _, error, _ in replies] == [(1, 0), (2, ErrorCode.UNIMPLEMENTED)]
        await still_serves(running)
        assert "/b" not in running.servers[1].machine.tree.nodes


async def test_each_kind_of_mistake_has_its_line_and_none_hides_another(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A second connect request is read as a request: protocol version and half a zxid as xid and operation."""
    second = encode_connect_request(ConnectRequest(0, 10_000))
    async with stores(tmp_path) as running:
        for noise in (
            struct.pack(">iii", 8, 2, 99),
            second,
            struct.pack(">iii", 8, 2, 98),
            b"\x7f\xff\xff\xff",
            second,
        ):
            async with raw(running) as client:
                await client.connect()
                await client.stream.send_all(noise)
                await client.rest()
    said = [
        record.message.partition("why=")[2]
        for record in caplog.records
        if record.msg.startswith("%s") and "client_protocol_error " in record.message
    ]
    assert said == [
        "'a client may not request operation 99'",
        "'a second connect request, or bytes that are not a request'",
        "'a frame of length 2147483647: 8 to 1048575 are allowed'",
    ]


@pytest.mark.parametrize("op", [Op.GET_DATA, Op.CREATE, Op.MULTI, Op.SYNC, Op.SET_WATCHES, Op.MULTI_READ])
async def test_a_body_that_is_none_is_answered(op: Op, tmp_path: Path) -> None:
    async with stores(tmp_path) as running, raw(running) as client:
        await client.connect()
        body = struct.pack(">i", 1 << 30)
        replies = await client.ask(struct.pack(">iii", 8 + len(body), 1, op) + body, create(2, "/a"))
        assert [(xid, error) for xid, _, error, _ in replies] == [(1, ErrorCode.MARSHALLING_ERROR), (2, 0)]


@pytest.mark.parametrize(
    "noise",
    [b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff\xff\xff", b"\x00\x00\x00\x01x", b"\x7f\xff\xff\xff", bytes(64)],
)
async def test_noise_ends_only_its_own_connection(noise: bytes, tmp_path: Path) -> None:
    async with stores(tmp_path) as running:
        async with raw(running) as client:
            await client.stream.send_all(noise)
            assert await client.rest() == []
        async with raw(running) as client:
            await client.connect()
            await client.stream.send_all(b"\xff\xff\xff\xff" + noise)
            assert await client.rest() == []
        await still_serves(running)


async def test_silent_connection_is_closed_in_time(tmp_path: Path) -> None:
    async with (
        stores(tmp_path, client_ports=evolve(PORTS, first_frame_ms=50)) as running,
        raw(running) as client,
    ):
        await client.stream.send_all(b"\x00\x00\x00")
        assert await client.rest() == []


async def test_one_address_may_not_have_them_all(tmp_path: Path) -> None:
    async with stores(tmp_path, client_ports=evolve(PORTS, connections_per_host_max=1)) as running:
        async with raw(running) as first, raw(running) as second:
            assert await first.connect() is not None
            assert await second.rest() == []
        while True:  # until the server has noticed that the first one left
            async with raw(running) as third:
                if await third.connect() is not None:
                    break


async def test_server_reads_nothing_from_a_client_with_unread_replies(tmp_path: Path) -> None:
    """Hundreds of megabytes are asked for in a few kilobytes, and at first not one reply is taken."""
    client_ports = ClientPortSettings(unsent_bytes_max=1 << 20)
    async with stores(tmp_path, client_ports=client_ports) as running, raw(running) as client:
        await client.connect(ConnectRequest(0, 40_000))  # it is not heard of meanwhile
        await client.ask(encode_request(Op.CREATE, 1, ("/big", bytes(100_000), OPEN, 0)))
        await client.stream.send_all(b"".join(get(xid, "/big") for xid in range(2, 3002)))
        (connection,) = running.servers[1].clients.connections
        while not connection.queued:
            await trio.sleep(0.01)
        await still_serves(running)
        assert connection.unsent < 2 << 20
        assert [xid for xid, *_ in await client.hear(3000)] == list(range(2, 3002))


async def test_a_small_request_is_not_answered_with_a_gigabyte(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A multiRead names one large node again and again: it is refused, before the reply is built, and said once."""
    client_ports = evolve(PORTS, multi_read_bytes_max=1 << 20)
    many = tuple((Op.GET_DATA, ("/big", False)) for _ in range(4_000))
    async with stores(tmp_path, client_ports=client_ports) as running, raw(running) as client:
        await client.connect()
        await client.ask(encode_request(Op.CREATE, 1, ("/big", bytes(100_000), OPEN, 0)))
        for xid in (2, 3):
            ((*_, error, body),) = await client.ask(encode_request(Op.MULTI_READ, xid, many))
            assert (error, body) == (ErrorCode.MARSHALLING_ERROR, b"")
        ((*_, error, body),) = await client.ask(encode_request(Op.MULTI_READ, 4, many[:10]))
        assert error == 0
        assert len(body) > 1_000_000
        async with running.servers[1].session() as here, zab.connect(running.hosts()) as there:
            reads = zab.MultiRead()
            for _ in range(4_000):
                reads.get("/big")
            for session in (here, there):
                with pytest.raises(zab.StoreError, match="the reply would be too large"):
                    await session.read_many(reads)
        said = [record for record in caplog.records if record.message.startswith("multi_read_refused")]
        assert len(said) == 1
        assert "reads=4000" in said[0].message


async def test_a_multi_of_checks_of_a_node_with_a_very_long_list_leaves_the_leader_its_role(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven kilobytes asked for nine million comparisons of networks, and the next leader was asked for them again."""
    parsed = 0
    network = acl_schemes._network

    def counted(name: str) -> tuple[bytes, int] | None:
        nonlocal parsed
        parsed += 1
        assert parsed <= 2 * 30_000, "each once to be looked at, and once to be compiled"
        return network(name)

    monkeypatch.setattr(acl_schemes, "_network", counted)
    entries = tuple((31, "ip", f"10.{number >> 8}.{number & 255}.0/24") for number in range(29_999))
    longest = encode_request(Op.CREATE, 1, ("/a", b"", (*entries, (31, "ip", "127.0.0.1")), 0))
    checks = encode_request(Op.MULTI, 2, ((Op.CHECK, ("/a", 0)),) * 300)
    async with stores(tmp_path, 3, store=StoreSettings(acl_entries_max=30_000)) as running:
        leader = await running.leader()
        epoch = running.servers[leader].member.status().role.epoch
        follower = next(sid for sid in running.servers if sid != leader)
        async with raw(running, follower) as client:
            await client.connect()
            replies = await client.ask(longest, checks, get(3, "/a"))
            assert [(xid, error) for xid, _, error, _ in replies] == [(1, 0), (2, 0), (3, 0)]
        assert parsed >= 30_000
        assert running.servers[leader].member.status().role.epoch == epoch
    async with stores(tmp_path / "bounded", 1) as running, raw(running) as client:
        await client.connect()
        ((_, _, error, _),) = await client.ask(longest)
        assert error == ErrorCode.INVALID_ACL


async def test_reads_that_search_all_nodes_let_others_have_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty bytes ask for a look at every node: a thousand of them in one packet, also behind a write."""

    def count(xid: int) -> bytes:
        return encode_request(Op.GET_ALL_CHILDREN_NUMBER, xid, ("/zookeeper",))

    async with stores(tmp_path) as running, raw(running) as client:
        server = running.servers[1]
        async with server.session() as here:
            for number in range(60):
                await here.create(f"/n{number}")
                await here.create(f"/n{number}/below")
        worked: list[int] = []
        taken = RequestPipeline._take_all

        def watched(pipeline: RequestPipeline, requests: list[Request]) -> None:
            taken(pipeline, requests)
            worked.append(server.machine.reads.work)

        monkeypatch.setattr(RequestPipeline, "_take_all", watched)
        server.clients.bounds = InnerBounds(read_work_max=100)
        await client.connect()
        asked = [create(1, "/w"), *map(count, range(2, 102)), create(102, "/zookeeper/w"), count(103), get(104, "/w")]
        replies = await client.ask(*asked)
        assert [xid for xid, *_ in replies] == list(range(1, 105))
        assert [error for _, _, error, _ in replies] == [0] * 104
        before, after = (decode_body(Op.GET_ALL_CHILDREN_NUMBER, replies[xid - 1][3]) for xid in (2, 103))
        assert after == before + 1, "it is counted in its place"
        units = len(server.machine.tree.children)
        assert max(worked) <= 100 + units
        assert sum(worked) >= 101 * units - 2 * units


async def test_a_write_during_which_leaders_were_lost_is_an_error_and_the_connection_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stores(tmp_path) as running, raw(running) as client:
        server = running.servers[1]
        post_many = server.poster.post_many

        def without_poison(posts: Sequence[bytes], done: Done) -> None:
            for request in posts:
                if b"/poison" in request:
                    done(None, LeadersLost("3 leaders"))
                else:
                    post_many([request], done)

        monkeypatch.setattr(server.poster, "post_many", without_poison)
        await client.connect()
        for xid, path, expected in ((1, "/a", 0), (2, "/poison", ErrorCode.SYSTEM_ERROR), (3, "/b", 0)):
            ((answered, _, error, _),) = await client.ask(create(xid, path))
            assert (answered, error) == (xid, expected)


async def test_watches_have_a_bound_and_go_in_slices(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    client_ports = evolve(PORTS, watches_per_client_max=1_000)
    monkeypatch.setattr("zab.runtime.store_server.server_runtime.WATCHES_DROPPED_AT_ONCE", 100)
    async with stores(tmp_path, client_ports=client_ports) as running:
        watches = running.servers[1].machine.watches
        async with raw(running) as client:
            await client.connect()
            asked = [encode_request(Op.EXISTS, xid, (f"/{xid}", True)) for xid in range(1, 1_002)]
            *_, (_, _, error, _) = await client.ask(*asked)
            assert error == ErrorCode.QUOTA_EXCEEDED
            assert watches.count == 1_000
            ((xid, _, error, _),) = await client.ask(get(2_000, "/"))
            assert (xid, error) == (2_000, 0)
            again = encode_request(Op.SET_WATCHES, SET_WATCHES_XID, (0, ["/"], [], []))
            await client.stream.send_all(again + get(2_001, "/"))
            replies = await client.rest()
            assert [(xid, error) for xid, _, error, _ in replies] == [(SET_WATCHES_XID, ErrorCode.QUOTA_EXCEEDED)]
            seen = [watches.count]
            while watches.count:
                await trio.lowlevel.checkpoint()
                seen.append(watches.count)
            assert max(before - after for before, after in pairwise([1_000, *seen])) <= 200, "one or two slices a pass"
        async with running.servers[1].session() as here, here.watcher() as watch:
            for number in range(1_000):
                await here.exists(f"/{number}", watch=watch)
            with pytest.raises(zab.QuotaExceeded, match="too many watches"):
                await here.exists("/x", watch=watch)
        assert watches.count == 0
        said = [record for record in caplog.records if record.message.startswith("watches_refused")]
        assert len(said) == 1
        assert "watches_per_client_max=1000" in said[0].message


async def test_repeatable_client_errors_are_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A client that has seen a later state than the server, and a client that triggers a bug of the server."""
    async with stores(tmp_path) as running:
        reads = running.servers[1].machine.reads

        def mistaken(*arguments: object) -> None:
            raise RuntimeError("an oversight")

        reads._handlers[Op.WHO_AM_I] = mistaken  # type: ignore[assignment]
        for _ in range(3):
            async with raw(running) as client:
                assert await client.connect(ConnectRequest(1 << 60, 10_000)) is None
            async with raw(running) as client:
                await client.connect()
                await client.stream.send_all(encode_request(Op.WHO_AM_I, 1, ()))
                assert await client.rest() == []
        said = [record.message.split()[0] for record in caplog.records if record.levelno >= logging.WARNING]
        assert sorted(said) == ["client_failed", "client_is_ahead"]


async def test_requests_that_are_not_finished_have_a_bound_for_all_together(tmp_path: Path) -> None:
    client_ports = evolve(PORTS, unsent_total_bytes_max=1 << 20)
    async with stores(tmp_path, client_ports=client_ports) as running, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(raw(running)) for _ in range(4)]
        for client in clients:
            await client.connect()
            await client.stream.send_all(encode_request(Op.CREATE, 1, ("/a", bytes(500_000), OPEN, 0))[:-1])
        connections = running.servers[1].clients.connections
        while len(connections) > 2 or not all(connection.unfinished > 500_000 for connection in connections):
            await trio.sleep(0.01)
        assert len(connections) == 2


async def test_bad_credentials_end_a_connection(tmp_path: Path) -> None:
    async with stores(tmp_path) as running, raw(running) as client:
        await client.connect()
        ((xid, zxid, error, _),) = await client.ask(encode_request(Op.AUTH, AUTH_XID, (0, "digest", b"u:p")))
        assert (xid, zxid, error) == (AUTH_XID, 0, 0)
        await client.stream.send_all(encode_request(Op.AUTH, AUTH_XID, (0, "kerberos", b"")))
        ((xid, _, error, _),) = await client.rest()
        assert (xid, error) == (AUTH_XID, ErrorCode.AUTH_FAILED)


async def test_an_empty_id_may_be_null(tmp_path: Path) -> None:
    """kazoo writes null for every empty text, and what its `CREATOR_ALL_ACL` says of its id is empty."""
    one, null = INT.pack(1), INT.pack(-1)

    def listed(scheme: bytes) -> bytes:
        return one + INT.pack(31) + scheme + null

    async with stores(tmp_path) as running, raw(running) as client:
        await client.connect()
        await client.ask(encode_request(Op.AUTH, AUTH_XID, (0, "digest", b"u:p")))
        for xid, (scheme, expected) in enumerate(
            [
                (buffer(b"auth"), ErrorCode.OK),
                (buffer(b"world"), ErrorCode.MARSHALLING_ERROR),
                (buffer(b"digest"), ErrorCode.MARSHALLING_ERROR),
                (buffer(b"ip"), ErrorCode.MARSHALLING_ERROR),
                (buffer(b"nope"), ErrorCode.INVALID_ACL),
                (null, ErrorCode.INVALID_ACL),
            ]
        ):
            path = buffer(b"/n%d" % xid)
            frame = INT.pack(xid) + INT.pack(Op.CREATE) + path + buffer(b"") + listed(scheme) + INT.pack(0)
            ((_, _, error, _),) = await client.ask(buffer(frame))
            assert (xid, error) == (xid, expected)
        ((_, _, _, body),) = await client.ask(encode_request(Op.GET_ACL, 9, ("/n0",)))
        assert decode_body(Op.GET_ACL, body)[0] == ((31, "digest", "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ="),)


async def test_on_all_interfaces_there_is_a_listener_for_each_family(tmp_path: Path) -> None:
    async with open_store(tmp_path, client_host=None, client_port=0) as store:
        assert store.client_port is not None
        stream = await trio.open_tcp_stream("localhost", store.client_port)
        async with stream:
            await stream.send_all(b"ruok")
            assert await stream.receive_some() == b"imok"
