"""A listener and its connections over sockets, with the handlers of each test: order, limits, and disconnections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from socket import SO_LINGER, SOL_SOCKET
from struct import Struct, pack
from tracemalloc import get_traced_memory
from tracemalloc import start as start_tracing
from tracemalloc import stop as stop_tracing
from typing import Any

import pytest
import trio
import trio.testing

from kraft_controller.core.configuration.scram import Mechanism, of_password
from replica.core.errors import ErrorCode, KafkaError
from replica.core.network.connection_limits import ConnectionLimits
from replica.core.security.sasl_scram import ScramProof
from replica.runtime.authentication.listener_security import NO_SASL, ListenerSecurity
from replica.runtime.authentication.sasl_authenticator import SaslSettings, sasl_security
from replica.runtime.authentication.sasl_client import Exchanging, Identity, log_in
from replica.runtime.logs import Log
from replica.runtime.network.broker_connection import BrokerConnection, ClientSettings
from replica.runtime.network.client_listener import ClientListener
from replica.runtime.network.descriptor_share import DescriptorShare, share_descriptors
from replica.runtime.requests import ApiKey, Handlers, Request
from replica.wire.fields import Api
from tests.kafka_bodies import ask, body_of, request_frame, response_values, typed, values_of
from zab.core.failed_logins import FailedLogins, FailedLoginSettings
from zab.host.process_tuning import open_files_limit

LENGTH = Struct(">i")
HEARTBEAT = ApiKey.HEARTBEAT


class Client:
    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._data = b""

    async def ask(self, key: ApiKey, version: int, correlation: int, body: dict[str, Any]) -> None:
        await self.stream.send_all(request_frame(key, version, correlation, "test", body))

    async def receive(self, key: ApiKey, version: int) -> tuple[int, dict[str, Any]]:
        return response_values(key, version, await self.frame())

    async def frame(self) -> bytes:
        (length,) = LENGTH.unpack(await self._exactly(4))
        return await self._exactly(length)

    async def _exactly(self, count: int) -> bytes:
        while len(self._data) < count:
            data = await self.stream.receive_some(65536)
            assert data, "the broker closed the connection"
            self._data += data
        taken, self._data = self._data[:count], self._data[count:]
        return taken

    async def is_closed(self) -> bool:
        with trio.fail_after(120):
            try:
                while await self.stream.receive_some(65536):
                    pass
            except trio.BrokenResourceError:
                pass
            return True


def group(name: str) -> dict[str, Any]:
    return {"group_id": name, "generation_id": 1, "member_id": "m"}


def syncs(name: str) -> dict[str, Any]:
    return group(name) | {"protocol_type": "consumer", "protocol_name": "range", "assignments": []}


async def answer(request: Request[Any]) -> Any:
    return {"error_code": len(request.body["group_id"])}


@asynccontextmanager
async def listening(
    handlers: Handlers | None = None,
    settings: ConnectionLimits | None = None,
    security: ListenerSecurity = NO_SASL,
    on_closed: Callable[[str], object] = lambda connection: None,
) -> AsyncIterator[Callable[[], Awaitable[Client]]]:
    handlers = typed(handlers or {HEARTBEAT: answer})
    port = ClientListener("PLAINTEXT", "127.0.0.1", 0, handlers, Log(1), settings, security, on_closed=on_closed)
    number = await port.bind()
    clients: list[trio.SocketStream] = []

    async def connect() -> Client:
        clients.append(await trio.open_tcp_stream("127.0.0.1", number))
        return Client(clients[-1])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(port.run)
        with trio.fail_after(600):
            yield connect
        nursery.cancel_scope.cancel()
    for each in clients:
        await trio.aclose_forcefully(each)


def test_responses_keep_the_order_of_the_requests() -> None:
    async def main() -> None:
        async def slow_first(request: Request[Any]) -> Any:
            if request.correlation == 1:
                await trio.sleep(0.05)
            return await answer(request)

        async with listening({HEARTBEAT: slow_first}) as connect:
            client = await connect()
            for number in range(1, 200):
                await client.ask(HEARTBEAT, number % 5, number, group("g" * (number % 7)))
            for number in range(1, 200):
                correlation, reply = await client.receive(HEARTBEAT, number % 5)
                assert (correlation, reply["error_code"]) == (number, number % 7)

    trio.run(main)


def test_listener_reports_the_id_of_each_closed_connection_once() -> None:
    async def main() -> None:
        seen: list[str] = []
        closed: list[str] = []

        async def remember(request: Request[Any]) -> Any:
            seen.append(request.connection)
            return await answer(request)

        async with listening({HEARTBEAT: remember}, on_closed=closed.append) as connect:
            clients = [await connect(), await connect()]
            for client in (*clients, clients[0]):
                await client.ask(HEARTBEAT, 0, 1, group("g"))
                await client.receive(HEARTBEAT, 0)
            first, second, again = seen
            assert first == again != second
            assert not closed
            await clients[0].stream.aclose()
            while not closed:
                await trio.sleep(0.01)
            assert closed == [first]
            await clients[1].stream.aclose()
            while len(closed) < 2:
                await trio.sleep(0.01)
            assert closed == [first, second]

    trio.run(main)


def produce_of(number: int, acks: int = -1) -> dict[str, Any]:
    part = {"index": number, "records": b"r" * 100}
    topics = [{"name": "t", "partition_data": [part]}]
    return {"transactional_id": None, "acks": acks, "timeout_ms": 1000, "topic_data": topics}


class Writer:
    """Handlers that write at once, and respond when `replicated` is called."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.gone = 0
        self._replicated: dict[int, trio.Event] = {}

    def handlers(self) -> Handlers:
        return {ApiKey.PRODUCE: self._produce, HEARTBEAT: answer}

    async def has_written(self, *numbers: int) -> None:
        while self.written != list(numbers):
            await trio.sleep(0.01)

    async def has_written_at_least(self, count: int) -> None:
        while len(self.written) < count:
            await trio.sleep(0.01)

    def replicated(self, number: int) -> None:
        self._replicated[number].set()

    def replicate_soon(self, number: int) -> None:
        self._replicated.setdefault(number, trio.Event()).set()

    async def _produce(self, request: Request[Any]) -> Any:
        number = request.correlation
        replicated = self._replicated.setdefault(number, trio.Event())
        await trio.sleep(0.02 / number)  # The first one takes longest, and still keeps its place.
        self.written.append(number)
        request.placed()
        try:
            await replicated.wait()
        except trio.Cancelled:
            self.gone += 1
            raise
        return {"responses": [], "throttle_time_ms": 0}


def test_write_starts_while_earlier_writes_wait_for_replicas() -> None:
    async def main() -> None:
        writer = Writer()
        async with listening(writer.handlers()) as connect:
            client = await connect()
            for number in (1, 2, 3):
                await client.ask(ApiKey.PRODUCE, 9, number, produce_of(0))
            await client.ask(HEARTBEAT, 4, 4, group("gg"))
            await writer.has_written(1, 2, 3)
            writer.replicated(3)
            writer.replicated(2)
            with trio.move_on_after(0.1) as patience:
                await client.receive(ApiKey.PRODUCE, 9)
            assert patience.cancelled_caught, "2 and 3 are not answered before 1"
            writer.replicated(1)
            for number in (1, 2, 3):
                assert (await client.receive(ApiKey.PRODUCE, 9))[0] == number
            assert await client.receive(HEARTBEAT, 4) == (4, {"throttle_time_ms": 0, "error_code": 2})

    trio.run(main)


def test_produce_of_the_newest_version_of_kafka_3_9_is_answered() -> None:
    """sarama sends version 10 at its level 3.9, without asking which versions a broker has."""

    async def main() -> None:
        writer = Writer()
        async with listening(writer.handlers()) as connect:
            client = await connect()
            await client.ask(ApiKey.PRODUCE, 11, 1, produce_of(0))
            await writer.has_written(1)
            writer.replicated(1)
            assert (await client.receive(ApiKey.PRODUCE, 11))[0] == 1

    trio.run(main)


def test_ordinary_request_waits_for_earlier_writes() -> None:
    async def main() -> None:
        writer = Writer()
        async with listening(writer.handlers()) as connect:
            client = await connect()
            await client.ask(ApiKey.PRODUCE, 9, 1, produce_of(0))
            await client.ask(HEARTBEAT, 4, 2, group("g"))
            await client.ask(ApiKey.PRODUCE, 9, 3, produce_of(0))
            await writer.has_written(1)
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert writer.written == [1]
            writer.replicated(1)
            assert (await client.receive(ApiKey.PRODUCE, 9))[0] == 1
            assert (await client.receive(HEARTBEAT, 4))[0] == 2
            await writer.has_written(1, 3)

    trio.run(main)


def test_write_with_acks_1_is_answered_before_the_next_starts() -> None:
    async def main() -> None:
        writer = Writer()
        async with listening(writer.handlers()) as connect:
            client = await connect()
            for number in (1, 2):
                await client.ask(ApiKey.PRODUCE, 9, number, produce_of(0, acks=1))
            await writer.has_written(1)
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert writer.written == [1]
            writer.replicated(1)
            await writer.has_written(1, 2)

    trio.run(main)


def test_pending_writes_are_bounded_and_cancelled_when_the_client_leaves() -> None:
    async def main() -> None:
        writer = Writer()
        async with listening(writer.handlers(), ConnectionLimits(ahead_max=3)) as connect:
            client = await connect()
            for number in range(1, 6):
                await client.ask(ApiKey.PRODUCE, 9, number, produce_of(0))
            await writer.has_written(1, 2, 3)
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert writer.written == [1, 2, 3]
            writer.replicated(1)
            await writer.has_written(1, 2, 3, 4)
            await trio.aclose_forcefully(client.stream)
            while writer.gone < 3:
                await trio.sleep(0.01)

    trio.run(main)


@pytest.mark.parametrize("resets", [False, True])
def test_requests_before_the_end_of_the_connection_are_executed(resets: bool) -> None:
    """A client with acks=0 closes its connection after its last request."""

    async def main() -> None:
        writer = Writer()
        asked = trio.Event()

        async def slow(request: Request[Any]) -> Any:
            asked.set()
            await trio.sleep(0.1)
            return await answer(request)

        async with listening({**writer.handlers(), HEARTBEAT: slow}) as connect:
            client = await connect()
            await client.ask(HEARTBEAT, 4, 1, group("g"))
            await asked.wait()
            for number in range(2, 10):
                await client.ask(ApiKey.PRODUCE, 9, number, produce_of(0, acks=-1 if number % 2 else 1))
                writer.replicate_soon(number)
            if resets:
                client.stream.setsockopt(SOL_SOCKET, SO_LINGER, pack("ii", 1, 0))
                await trio.testing.wait_all_tasks_blocked(0.05)
            await trio.aclose_forcefully(client.stream)
            await writer.has_written(*range(2, 10))

    trio.run(main)


def test_client_that_only_reads_on_receives_all_responses() -> None:
    async def main() -> None:
        writer = Writer()
        async with listening(writer.handlers()) as connect:
            client = await connect()
            for number in range(1, 10):
                writer.replicate_soon(number)
                await client.ask(ApiKey.PRODUCE, 9, number, produce_of(0, acks=1))
            await client.stream.send_eof()
            for number in range(1, 10):
                assert (await client.receive(ApiKey.PRODUCE, 9))[0] == number
            assert await client.is_closed()

    trio.run(main)


def test_long_poll_of_a_client_that_left_is_dropped() -> None:
    async def main() -> None:
        writer = Writer()
        fetched: list[int] = []
        asked = trio.Event()

        async def slow(request: Request[Any]) -> Any:
            asked.set()
            await trio.sleep(0.1)
            return await answer(request)

        async def sync(request: Request[Any]) -> Any:
            fetched.append(request.correlation)
            return await answer(request)

        async with listening({**writer.handlers(), HEARTBEAT: slow, ApiKey.SYNC_GROUP: sync}) as connect:
            client = await connect()
            await client.ask(HEARTBEAT, 4, 1, group("g"))
            await asked.wait()
            await client.ask(ApiKey.SYNC_GROUP, 4, 2, syncs("g"))
            writer.replicate_soon(3)
            await client.ask(ApiKey.PRODUCE, 9, 3, produce_of(0, acks=1))
            await trio.aclose_forcefully(client.stream)
            await writer.has_written(3)
            assert fetched == []

    trio.run(main)


@pytest.mark.parametrize("nonsense", [bytes.fromhex("7fffffff"), bytes.fromhex("00000008 7fff 0001 00000007")])
def test_valid_requests_are_answered_before_an_invalid_one_ends_the_connection(nonsense: bytes) -> None:
    async def main() -> None:
        async def slow(request: Request[Any]) -> Any:
            await trio.sleep(0.05)
            return await answer(request)

        async with listening({HEARTBEAT: slow}) as connect:
            client = await connect()
            asked = [request_frame(HEARTBEAT, 4, number, "test", group("g")) for number in (1, 2)]
            await client.stream.send_all(b"".join(asked) + nonsense)
            for number in (1, 2):
                assert (await client.receive(HEARTBEAT, 4))[0] == number
            assert await client.is_closed()

    trio.run(main)


def test_pending_writes_count_as_held_bytes_until_they_are_answered() -> None:
    async def main() -> None:
        writer = Writer()
        async with listening(writer.handlers(), ConnectionLimits(waiting_bytes_max=250, receive_bytes=64)) as connect:
            client = await connect()
            for number in range(1, 9):
                await client.ask(ApiKey.PRODUCE, 9, number, produce_of(0))
            await writer.has_written_at_least(1)
            await trio.sleep(0.1)
            assert len(writer.written) <= 4, "no more is read while so many bytes are held"
            for number in range(1, 9):
                await writer.has_written_at_least(number)
                writer.replicated(number)
                assert (await client.receive(ApiKey.PRODUCE, 9))[0] == number

    trio.run(main)


def test_request_in_many_pieces_is_answered() -> None:
    async def main() -> None:
        async with listening() as connect:
            client = await connect()
            for byte in request_frame(HEARTBEAT, 4, 7, "me", group("gg")):
                await client.stream.send_all(bytes([byte]))
            assert await client.receive(HEARTBEAT, 4) == (7, {"throttle_time_ms": 0, "error_code": 2})

    trio.run(main)


def test_waiting_request_holds_up_no_other_connection() -> None:
    async def main() -> None:
        dropped, waiting = trio.Event(), trio.Event()

        async def wait(request: Request[Any]) -> Any:
            waiting.set()
            try:
                await trio.sleep_forever()
            finally:
                dropped.set()
            raise AssertionError

        async with listening({HEARTBEAT: answer, ApiKey.SYNC_GROUP: wait}) as connect:
            one, other = await connect(), await connect()
            await one.ask(ApiKey.SYNC_GROUP, 4, 1, syncs("wait"))
            await waiting.wait()
            await other.ask(HEARTBEAT, 4, 2, group("g"))
            assert (await other.receive(HEARTBEAT, 4))[0] == 2
            await one.stream.aclose()
            await dropped.wait()

    trio.run(main)


def test_request_without_a_response_does_not_shift_later_ones() -> None:
    async def main() -> None:
        async def silent(request: Request[Any]) -> Any:
            return None if request.correlation == 1 else await answer(request)

        async with listening({HEARTBEAT: silent}) as connect:
            client = await connect()
            await client.ask(HEARTBEAT, 4, 1, group("a"))
            await client.ask(HEARTBEAT, 4, 2, group("bb"))
            assert (await client.receive(HEARTBEAT, 4))[0] == 2

    trio.run(main)


@pytest.mark.parametrize(
    "sent",
    [
        bytes.fromhex("7fffffff"),
        bytes.fromhex("00000000"),
        bytes.fromhex("ffffffff"),
        bytes.fromhex("00000003 000000"),
        bytes.fromhex("00000008 7fff 0001 00000007"),
        bytes.fromhex("0000000a 000c 0063 00000007 ffff"),
        bytes.fromhex("0000000c 000c 0001 00000007 ffff 00ff"),
        request_frame(ApiKey.METADATA, 12, 7, "me", {"topics": []}),
        request_frame(ApiKey.SASL_HANDSHAKE, 1, 7, "me", {"mechanism": "PLAIN"}),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_invalid_bytes_end_only_their_own_connection(sent: bytes) -> None:
    async def main() -> None:
        async with listening() as connect:
            odd, good = await connect(), await connect()
            await odd.stream.send_all(sent)
            assert await odd.is_closed()
            await good.ask(HEARTBEAT, 4, 1, group("g"))
            assert (await good.receive(HEARTBEAT, 4))[0] == 1

    trio.run(main)


def test_bug_in_a_handler_ends_only_one_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async def broken(request: Request[Any]) -> Any:
            match request.correlation:
                case 1:
                    raise RuntimeError("a mistake of ours")
                case 2:
                    raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "and nobody waits for an answer")
                case 3:
                    return {"no_such_field": 1}
                case _:
                    pass
            return await answer(request)

        async with listening({HEARTBEAT: broken}) as connect:
            for number in (1, 2, 3):
                client = await connect()
                await client.ask(HEARTBEAT, 4, number, group("g"))
                assert await client.is_closed()
            client = await connect()
            await client.ask(HEARTBEAT, 4, 4, group("g"))
            assert (await client.receive(HEARTBEAT, 4))[0] == 4

    trio.run(main)
    assert "a mistake of ours" in caplog.text
    assert "no_such_field" in caplog.text
    assert "nobody waits for an answer" in caplog.text


UNKNOWN_VERSIONS = bytes.fromhex("0000000d 0012 0009 00000063 0001 63 0001")
"""The frame of an ApiVersions request of version 9."""


def test_api_versions_answers_every_version() -> None:
    async def main() -> None:
        async with listening() as connect:
            client = await connect()
            for version in range(5):
                await client.ask(
                    ApiKey.API_VERSIONS,
                    version,
                    version,
                    {"client_software_name": "librdkafka", "client_software_version": "2.15.0"},
                )
                correlation, reply = await client.receive(ApiKey.API_VERSIONS, version)
                assert correlation == version
                told = {each["api_key"]: (each["min_version"], each["max_version"]) for each in reply["api_keys"]}
                assert told == {int(HEARTBEAT): (0, 4), int(ApiKey.API_VERSIONS): (0, 4)}
            await client.stream.send_all(UNKNOWN_VERSIONS)
            correlation, reply = response_values(ApiKey.API_VERSIONS, 0, await client.frame())
            assert (correlation, reply["error_code"]) == (0x63, ErrorCode.UNSUPPORTED_VERSION)
            assert {each["api_key"] for each in reply["api_keys"]} == {12, 18}
            await client.ask(ApiKey.API_VERSIONS, 3, 5, {"client_software_name": "?", "client_software_version": ""})
            _, reply = await client.receive(ApiKey.API_VERSIONS, 3)
            assert reply["error_code"] == ErrorCode.INVALID_REQUEST

    trio.run(main)


def test_requests_of_a_client_that_never_reads_stop_being_executed() -> None:
    async def main() -> None:
        answered = 0

        async def big(request: Request[Any]) -> Any:
            nonlocal answered
            answered += 1
            return {"groups": [{"group_id": "x" * 30_000} for _ in range(10)]}

        settings = ConnectionLimits(unsent_bytes_max=100_000, waiting_max=10, stalled_s=0.5)
        async with listening({ApiKey.DESCRIBE_GROUPS: big}, settings) as connect:
            client = await connect()
            asked = request_frame(ApiKey.DESCRIBE_GROUPS, 5, 1, "me", {"groups": ["g"]})
            with pytest.raises((trio.BrokenResourceError, trio.TooSlowError)), trio.fail_after(20):
                while True:
                    await client.stream.send_all(asked * 100)
            assert answered < 1_000

    trio.run(main)


def test_oldest_incomplete_requests_are_disconnected_above_the_limit() -> None:
    async def main() -> None:
        whole = request_frame(HEARTBEAT, 4, 1, "me", group("g" * 30_000))

        async def short(request: Request[Any]) -> Any:
            return {"error_code": 0}

        async with listening({HEARTBEAT: short}, ConnectionLimits(waiting_bytes_total_max=75_000)) as connect:
            clients = [await connect() for _ in range(3)]
            first, *others = clients
            for client in clients:  # each waits for the next: so the order of their ages is certain
                await client.stream.send_all(whole[:27_000])
                await trio.testing.wait_all_tasks_blocked(0.05)
            assert await first.is_closed()
            for client in others:
                await client.stream.send_all(whole[27_000:])
                assert await client.receive(HEARTBEAT, 4) == (1, {"throttle_time_ms": 0, "error_code": 0})
            for _ in range(5):  # complete requests no longer count
                await others[0].stream.send_all(whole)
                assert (await others[0].receive(HEARTBEAT, 4))[0] == 1

    trio.run(main)


def test_fetch_responses_shrink_while_clients_leave_others_unread() -> None:
    async def main() -> None:
        rooms: list[int] = []

        async def fetch(request: Request[Any]) -> Any:
            rooms.append(request.body["max_bytes"])
            size = 24 << 20 if request.correlation == 1 else 10
            part = {"partition_index": 0, "high_watermark": 0, "records": bytes(size)}
            return {"responses": [{"topic": "t", "partitions": [part]}]}

        def asking(number: int, most: int) -> bytes:
            return request_frame(ApiKey.FETCH, 11, number, "me", {"max_bytes": most})

        async def until(client: Client, room: int) -> None:
            while not rooms or not room - 100 < rooms[-1] <= room:
                await client.stream.send_all(asking(2, 2**31 - 1))
                await client.frame()

        async with listening({ApiKey.FETCH: fetch}, ConnectionLimits(unsent_bytes_total_max=32 << 20)) as connect:
            greedy, other = await connect(), await connect()
            await greedy.stream.send_all(asking(1, 2**31 - 1))
            await until(other, 2 << 20)
            assert rooms[0] == 8 << 20
            await other.stream.send_all(asking(3, 1_000))
            await other.frame()
            assert rooms[-1] == 1_000
            for nothing in (0, -1):
                await other.stream.send_all(asking(4, nothing))
                await other.frame()
                assert rooms[-1] == 1, "at least one batch is always returned"
            await greedy.stream.aclose()
            await until(other, 8 << 20)

    trio.run(main)


def test_waiting_connection_holds_no_memory_of_past_requests() -> None:
    """Thousands of connections may wait, and no counter limits their memory."""
    much = 8 << 20

    async def main() -> None:
        async def fetch(request: Request[Any]) -> Any:
            part = {"partition_index": 0, "high_watermark": 0, "records": bytes(much)}
            return {"responses": [{"topic": "t", "partitions": [part]}]}

        async def refuse(request: Request[Any]) -> Any:
            return {"error_code": 16}

        async with listening({ApiKey.FETCH: fetch, ApiKey.JOIN_GROUP: refuse}) as connect:
            client = await connect()
            before, _ = get_traced_memory()
            await client.ask(ApiKey.FETCH, 11, 1, {"max_bytes": much})
            assert len(await client.frame()) > much
            await trio.testing.wait_all_tasks_blocked(0.05)
            answered, _ = get_traced_memory()
            joins = {
                "group_id": "g",
                "member_id": "",
                "session_timeout_ms": 1,
                "rebalance_timeout_ms": 1,
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": bytes(much)}],
            }
            await client.ask(ApiKey.JOIN_GROUP, 2, 2, joins)
            del joins
            assert (await client.receive(ApiKey.JOIN_GROUP, 2))[1]["error_code"] == 16
            await trio.testing.wait_all_tasks_blocked(0.05)
            asked, _ = get_traced_memory()
            assert (answered - before) // 2**20 == (asked - before) // 2**20 == 0

    start_tracing()
    try:
        trio.run(main)
    finally:
        stop_tracing()


def test_idle_connections_are_closed_unless_they_wait_for_a_response() -> None:
    async def main() -> None:
        release = trio.Event()

        async def wait(request: Request[Any]) -> Any:
            await release.wait()
            return await answer(request)

        async with listening({HEARTBEAT: wait}, ConnectionLimits(idle_s=0.6)) as connect:
            idle, waits = await connect(), await connect()
            await waits.ask(HEARTBEAT, 4, 1, group("g"))
            assert await idle.is_closed()
            await trio.sleep(1)
            release.set()
            assert (await waits.receive(HEARTBEAT, 4))[0] == 1

    trio.run(main)


def test_connections_above_the_limit_are_refused() -> None:
    async def main() -> None:
        async with listening(settings=ConnectionLimits(connections_max=2)) as connect:
            first, second = await connect(), await connect()
            for client in (first, second):
                await client.ask(HEARTBEAT, 4, 1, group("g"))
                await client.receive(HEARTBEAT, 4)
            assert await (await connect()).is_closed()
            await first.stream.aclose()
            with trio.fail_after(120):
                while True:
                    client = await connect()
                    try:
                        await client.ask(HEARTBEAT, 4, 1, group("g"))
                        await client.receive(HEARTBEAT, 4)
                        break
                    except (AssertionError, trio.BrokenResourceError):
                        await trio.sleep(0.01)

    trio.run(main)


def test_last_descriptors_are_reserved_for_logs() -> None:
    """The system assigns the least free number, so all numbers below it are taken."""

    async def main() -> None:
        async with listening(settings=ConnectionLimits(descriptors_max=0)) as connect:
            assert await (await connect()).is_closed()
        async with listening(settings=ConnectionLimits(descriptors_max=open_files_limit())) as connect:
            client = await connect()
            await client.ask(HEARTBEAT, 4, 1, group("g"))
            await client.receive(HEARTBEAT, 4)

    trio.run(main)


@pytest.mark.parametrize(
    ("limit", "directories", "connections", "logs"),
    [(1_048_576, 1, 1_046_272, 2_048), (1_024, 1, 512, 256), (1_024, 3, 512, 85), (150, 1, 75, 38), (16, 2, 8, 16)],
)
def test_logs_get_the_descriptors_they_need_up_to_half(
    limit: int, directories: int, connections: int, logs: int
) -> None:
    assert share_descriptors(limit, directories, 2_048) == DescriptorShare(connections, logs)


# -- authentication -----------------------------------------------------------------------------------------


def users() -> ListenerSecurity:
    return sasl_security(SaslSettings(users={"alice": "secret"}), lambda mechanism, name: None, b"")


async def whoever(request: Request[Any]) -> Any:
    return {"error_code": 7 if request.principal == "User:alice" else 8}


async def logged_in(client: Client, token: bytes, version: int = 1) -> dict[str, Any]:
    await client.ask(ApiKey.SASL_HANDSHAKE, version, 1, {"mechanism": "PLAIN"})
    assert (await client.receive(ApiKey.SASL_HANDSHAKE, version))[1] == {"error_code": 0, "mechanisms": ["PLAIN"]}
    await client.ask(ApiKey.SASL_AUTHENTICATE, 2, 2, {"auth_bytes": token})
    return (await client.receive(ApiKey.SASL_AUTHENTICATE, 2))[1]


def test_authenticated_client_is_served_under_its_principal() -> None:
    async def main() -> None:
        async with listening({HEARTBEAT: whoever}, security=users()) as connect:
            client = await connect()
            assert (await logged_in(client, b"\0alice\0secret"))["error_code"] == ErrorCode.NONE
            await client.ask(HEARTBEAT, 4, 3, group("g"))
            assert (await client.receive(HEARTBEAT, 4))[1]["error_code"] == 7

    trio.run(main)


def test_raw_token_of_sasl_handshake_version_0_is_accepted() -> None:
    async def main() -> None:
        async with listening({HEARTBEAT: whoever}, security=users()) as connect:
            client = await connect()
            await client.ask(ApiKey.SASL_HANDSHAKE, 0, 1, {"mechanism": "PLAIN"})
            await client.receive(ApiKey.SASL_HANDSHAKE, 0)
            await client.stream.send_all(LENGTH.pack(13) + b"\0alice\0secret")
            assert await client.frame() == b""
            await client.ask(HEARTBEAT, 4, 3, group("g"))
            assert (await client.receive(HEARTBEAT, 4))[1]["error_code"] == 7

    trio.run(main)


@pytest.mark.parametrize("token", [b"\0alice\0wrong", b"\0bob\0secret", b"bob\0alice\0secret", b"alice", b"\xff\0\0"])
def test_failed_login_is_answered_and_disconnected(token: bytes) -> None:
    async def main() -> None:
        async with listening({HEARTBEAT: whoever}, security=users()) as connect:
            client = await connect()
            assert (await logged_in(client, token))["error_code"] == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert await client.is_closed()

    trio.run(main)


@pytest.mark.parametrize(
    "asked",
    [
        request_frame(HEARTBEAT, 4, 1, "me", group("g")),
        request_frame(ApiKey.SASL_AUTHENTICATE, 2, 1, "me", {"auth_bytes": b"\0alice\0secret"}),
        request_frame(ApiKey.SASL_HANDSHAKE, 1, 1, "me", {"mechanism": "GSSAPI"}),
        LENGTH.pack(1 << 20),
    ],
)
def test_request_before_authentication_ends_the_connection(asked: bytes) -> None:
    async def main() -> None:
        async with listening({HEARTBEAT: whoever}, security=users()) as connect:
            client = await connect()
            await client.stream.send_all(asked)
            assert await client.is_closed()

    trio.run(main)


async def guess_bare(client: Client, password: bytes) -> bool:
    """One guess as the oldest clients make it. Whether it was right."""
    await client.ask(ApiKey.SASL_HANDSHAKE, 0, 1, {"mechanism": "PLAIN"})
    await client.receive(ApiKey.SASL_HANDSHAKE, 0)
    token = b"\0alice\0" + password
    await client.stream.send_all(LENGTH.pack(len(token)) + token)
    try:
        return await client.frame() == b""
    except (AssertionError, trio.BrokenResourceError):
        return False


async def guess(client: Client, password: bytes) -> bool:
    try:
        code: int = (await logged_in(client, b"\0alice\0" + password))["error_code"]
        return code == ErrorCode.NONE
    except (AssertionError, trio.BrokenResourceError):
        return False


@pytest.mark.parametrize("guess_once", [guess_bare, guess])
def test_failed_logins_of_one_address_pause_with_every_handshake_version(
    guess_once: Callable[[Client, bytes], Awaitable[bool]],
) -> None:
    """20 guesses one after the other take what their pauses add up to, and a client that is logged in is served."""

    async def main() -> None:
        async with listening({HEARTBEAT: whoever}, security=users()) as connect:
            honest = await connect()
            assert (await logged_in(honest, b"\0alice\0secret"))["error_code"] == ErrorCode.NONE
            begun = trio.current_time()
            for _ in range(20):
                assert not await guess_once(await connect(), b"wrong")
            assert trio.current_time() - begun > 60
            await honest.ask(HEARTBEAT, 4, 3, group("g"))
            assert (await honest.receive(HEARTBEAT, 4))[1]["error_code"] == 7
            assert await guess_once(await connect(), b"secret")

    trio.run(main, clock=trio.testing.MockClock(rate=50))


def test_logins_above_the_concurrent_limit_of_an_address_are_not_checked() -> None:
    """Even a right password is not, and the clients in their pauses are as few as there are places."""

    async def main() -> None:
        failures = FailedLogins(FailedLoginSettings(pause_ms=60_000, waiting_max=3))
        checked: list[str] = []

        def find(mechanism: Mechanism, name: str) -> None:
            checked.append(name)

        settings = SaslSettings(("SCRAM-SHA-256", "PLAIN"), {"alice": "secret"})
        security = sasl_security(settings, find, b"s", failures)
        async with listening(security=security) as connect, trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(guess_bare, await connect(), b"wrong")
            while failures.may_try("127.0.0.1", trio.current_time() * 1000):
                await trio.testing.wait_all_tasks_blocked(0.01)
            assert not await guess(await connect(), b"secret")
            client = await connect()
            with pytest.raises((AssertionError, trio.BrokenResourceError)):
                await log_in(Identity("SCRAM-SHA-256", "alice", "x"), exchanging(client))
            assert not checked
            nursery.cancel_scope.cancel()

    trio.run(main)


# -- SCRAM and expiry ----------------------------------------------------------------------------------------

SCRAM = Mechanism.SHA_256
KEPT = of_password(SCRAM, "secret", b"salt")


def scram_security(lifetime_ms: int = 0) -> ListenerSecurity:
    settings = SaslSettings(("SCRAM-SHA-256", "PLAIN"), {"alice": "secret"}, lifetime_ms)
    return sasl_security(
        settings, lambda mechanism, name: KEPT if (mechanism, name) == (SCRAM, "alice") else None, b"s"
    )


async def exchanged(client: Client, key: ApiKey, version: int, body: dict[str, Any]) -> dict[str, Any]:
    await client.ask(key, version, 1, body)
    return (await client.receive(key, version))[1]


def exchanging(client: Client) -> Exchanging:
    async def exchange(api: Api[Any, Any], version: int, body: object) -> Any:
        return body_of(api.response, await exchanged(client, api.key, version, values_of(body)))

    return exchange


async def test_scram_failure_does_not_reveal_whether_name_or_password_is_wrong() -> None:
    async with listening({HEARTBEAT: whoever}, security=scram_security()) as connect:
        client = await connect()
        await log_in(Identity("SCRAM-SHA-256", "alice", "secret"), exchanging(client))
        assert (await exchanged(client, HEARTBEAT, 4, group("g")))["error_code"] == 7
        heard = set()
        for name, password in (("alice", "wrong"), ("bob", "secret")):
            client = await connect()
            with pytest.raises(KafkaError) as refused:
                await log_in(Identity("SCRAM-SHA-256", name, password), exchanging(client))
            heard.add(refused.value.text.partition(": ")[2])
            assert await client.is_closed()
        assert len(heard) == 1


async def test_raw_scram_tokens_are_accepted() -> None:
    async with listening({HEARTBEAT: whoever}, security=scram_security()) as connect:
        client = await connect()
        await exchanged(client, ApiKey.SASL_HANDSHAKE, 0, {"mechanism": "SCRAM-SHA-256"})
        proof = ScramProof(SCRAM, "alice", "secret", "abc")
        token: bytes | None = proof.first()
        while token is not None:
            await client.stream.send_all(LENGTH.pack(len(token)) + token)
            token = proof.step(await client.frame())
        assert (await exchanged(client, HEARTBEAT, 4, group("g")))["error_code"] == 7


async def test_expired_session_ends_unless_the_client_reauthenticates() -> None:
    async with listening({HEARTBEAT: whoever}, security=scram_security(60_000)) as connect:
        client = await connect()
        for _ in range(2):
            assert (await logged_in_by(client, "SCRAM-SHA-256"))["session_lifetime_ms"] == 60_000
            await client.stream.send_all(UNKNOWN_VERSIONS)
            _, reply = response_values(ApiKey.API_VERSIONS, 0, await client.frame())
            assert reply["error_code"] == ErrorCode.UNSUPPORTED_VERSION
            assert (await exchanged(client, HEARTBEAT, 4, group("g")))["error_code"] == 7
        await client.ask(ApiKey.SASL_HANDSHAKE, 1, 1, {"mechanism": "PLAIN"})
        refused = (await client.receive(ApiKey.SASL_HANDSHAKE, 1))[1]
        assert refused["error_code"] == ErrorCode.UNSUPPORTED_SASL_MECHANISM  # it began with another one
        assert await client.is_closed()
    async with listening({HEARTBEAT: whoever}, security=scram_security(1)) as connect:
        client = await connect()
        await logged_in_by(client, "SCRAM-SHA-256")
        await trio.sleep(0.05)
        await client.ask(HEARTBEAT, 4, 1, group("g"))
        assert await client.is_closed()


def test_broker_connection_reauthenticates_before_expiry() -> None:
    """Brokers among themselves are such clients, and a fetch that is cut off is lost. Who is not believed any more is
    told so, and begins anew with another connection."""

    async def main() -> None:
        known = {"alice": KEPT}
        settings = SaslSettings(("SCRAM-SHA-256",), lifetime_ms=40_000)
        security = sasl_security(settings, lambda mechanism, name: known.get(name), b"s")
        async with listening({HEARTBEAT: whoever}, security=security) as connect:
            connection = BrokerConnection((await connect()).stream, ClientSettings())
            await connection.log_in(Identity("SCRAM-SHA-256", "alice", "secret"))
            for passed_s in (0, 33, 2, 20, 39, 300):
                clock.jump(passed_s)
                assert (await ask(connection, HEARTBEAT, group("g")))["error_code"] == 7
            known.clear()
            clock.jump(35)
            clock.rate = 1.0  # who is not believed waits for a moment
            with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED: SCRAM-SHA-256, alice"):
                await ask(connection, HEARTBEAT, group("g"))
            assert connection.broken

    clock = trio.testing.MockClock()
    trio.run(main, clock=clock)


async def logged_in_by(client: Client, mechanism: str) -> dict[str, Any]:
    said: list[dict[str, Any]] = []

    async def exchange(api: Api[Any, Any], version: int, body: object) -> Any:
        said.append(await exchanged(client, api.key, version, values_of(body)))
        return body_of(api.response, said[-1])

    await log_in(Identity(mechanism, "alice", "secret"), exchange)
    return said[-1]
