"""The client of our own commands, against brokers that say what a test wants them to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode as E
from replica.core.errors import KafkaError
from replica.runtime.network.broker_client import Client, connect, parse_bootstrap
from replica.runtime.network.broker_connection import ClientSettings, Unreachable
from replica.wire.api import ApiKey
from replica.wire.framing import Framing
from replica.wire.messages import decode_request
from replica.wire.schemas.group_schemas import DELETE_GROUPS, DeleteGroupsRequest
from tests.kafka_bodies import ask, ask_broker, response_frame, values_of

Body = dict[str, Any]
VERSIONS = {ApiKey.API_VERSIONS: (0, 4), ApiKey.METADATA: (0, 12), ApiKey.FIND_COORDINATOR: (0, 4)}


class Fake:
    """Brokers on loopback. `answer(broker, api, body)` says what is replied, or None: the connection ends."""

    def __init__(self) -> None:
        self.ports: dict[int, int] = {}
        self.asked: list[tuple[int, ApiKey, int]] = []
        self.versions = dict(VERSIONS)
        self.answer: Callable[[int, ApiKey, Body], Body | None] = lambda broker, api, body: {}
        self.coordinator = 1

    async def start(self, broker: int, nursery: trio.Nursery) -> None:
        async def serve(stream: trio.SocketStream) -> None:
            async with stream:
                framing = Framing(1 << 20)
                async for data in stream:
                    for frame in framing.feed(data):
                        reply = self._reply(broker, frame)
                        if reply is None:
                            return
                        await stream.send_all(reply)

        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.ports[broker] = listener.socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, serve, [listener])

    def _reply(self, broker: int, frame: bytes) -> bytes | None:
        request = decode_request(frame)
        self.asked.append((broker, request.api, request.version))
        body: Body | None
        if request.api is ApiKey.API_VERSIONS:
            keys = [
                {"api_key": key, "min_version": first, "max_version": last}
                for key, (first, last) in self.versions.items()
            ]
            body = {"api_keys": keys}
        elif request.api is ApiKey.METADATA:
            brokers = [{"node_id": node, "host": "127.0.0.1", "port": port} for node, port in self.ports.items()]
            partitions = [{"partition_index": index, "leader_id": leader} for index, leader in ((0, 1), (1, -1))]
            body = {"brokers": brokers, "topics": [{"name": "t", "partitions": partitions}]}
        elif request.api is ApiKey.FIND_COORDINATOR:
            body = {"node_id": self.coordinator, "host": "127.0.0.1", "port": self.ports[self.coordinator]}
        else:
            body = self.answer(broker, request.api, values_of(request.body))
        return None if body is None else response_frame(request.api, request.version, request.correlation, body)


async def with_brokers(story: Callable[[Fake, Client], Any], count: int = 2) -> None:
    async with trio.open_nursery() as nursery:
        fake = Fake()
        for broker in range(1, count + 1):
            await fake.start(broker, nursery)
        async with connect([("127.0.0.1", fake.ports[1])], ClientSettings(patience_s=20)) as client:
            await story(fake, client)
        nursery.cancel_scope.cancel()


async def test_the_newest_version_that_both_speak() -> None:
    async def story(fake: Fake, client: Client) -> None:
        fake.versions[ApiKey.METADATA] = (0, 7)
        leaders = await client.leaders(["t"])
        assert leaders == {TopicPartition("t", 0): 1}
        assert client.brokers == [1, 2]
        await client.metadata(None)
        assert fake.asked == [(1, ApiKey.API_VERSIONS, 0), (1, ApiKey.METADATA, 7), (1, ApiKey.METADATA, 7)]
        with pytest.raises(KafkaError, match="does not support DELETE_GROUPS"):
            await ask(client, ApiKey.DELETE_GROUPS, {"groups_names": []})
        fake.versions[ApiKey.DELETE_GROUPS] = (7, 9)
        with pytest.raises(KafkaError, match="versions 7 to 9"):
            await ask_broker(client, 2, ApiKey.DELETE_GROUPS, {"groups_names": []})

    await with_brokers(story)


async def test_a_coordinator_that_moves_is_looked_for_anew() -> None:
    async def story(fake: Fake, client: Client) -> None:
        fake.versions[ApiKey.DELETE_GROUPS] = (0, 2)
        codes = iter([E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR, E.NONE])

        def answer(broker: int, api: ApiKey, body: Body) -> Body:
            code = next(codes)
            if code is E.NOT_COORDINATOR:
                fake.coordinator = 2
            return {"results": [{"group_id": "g", "error_code": code}]}

        fake.answer = answer
        request = DeleteGroupsRequest(["g"])
        reply = await client.ask_coordinator("g", DELETE_GROUPS, request, lambda body: body.results[0].error_code)
        assert reply.results[0].error_code == 0
        assert [broker for broker, api, _ in fake.asked if api is ApiKey.DELETE_GROUPS] == [1, 1, 2]

    await with_brokers(story)


async def test_permanent_error_is_raised_at_once() -> None:
    async def story(fake: Fake, client: Client) -> None:
        fake.versions[ApiKey.DELETE_GROUPS] = (0, 2)
        fake.answer = lambda *_: {"results": [{"group_id": "g", "error_code": E.NON_EMPTY_GROUP}]}
        with pytest.raises(KafkaError, match="NON_EMPTY_GROUP: group g"):
            await client.ask_coordinator(
                "g",
                DELETE_GROUPS,
                DeleteGroupsRequest(["g"]),
                lambda body: body.results[0].error_code,
            )
        assert sum(api is ApiKey.DELETE_GROUPS for _, api, _ in fake.asked) == 1

    await with_brokers(story)


async def test_a_connection_that_ends_is_made_anew() -> None:
    async def story(fake: Fake, client: Client) -> None:
        fake.versions[ApiKey.LIST_GROUPS] = (0, 4)
        fake.answer = lambda *_: None
        with pytest.raises(Unreachable, match="closed the connection"):
            await ask_broker(client, 2, ApiKey.LIST_GROUPS, {})
        fake.answer = lambda *_: {"groups": []}
        assert (await ask_broker(client, 2, ApiKey.LIST_GROUPS, {}))["groups"] == []
        with pytest.raises(Unreachable, match="broker 9 is not registered"):
            await ask_broker(client, 9, ApiKey.LIST_GROUPS, {})

    await with_brokers(story)


def test_a_broker_that_says_nothing_is_given_up() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, _silent, [listener])
            port = listener.socket.getsockname()[1]
            async with connect([("127.0.0.1", port)], ClientSettings(request_s=0.2)) as client:
                with pytest.raises(Unreachable, match="not answered within"):
                    await client.metadata(None)
            nursery.cancel_scope.cancel()

    trio.run(main)


async def _silent(stream: trio.SocketStream) -> None:
    await stream.receive_some(1)
    await trio.sleep_forever()


def test_where_to_begin() -> None:
    assert parse_bootstrap("a:1, [::1]:9092") == [("a", 1), ("::1", 9092)]
    for wrong in ("a", ":1", "a:b", "a:70000", ""):
        with pytest.raises(ValueError, match="not of the form host:port"):
            parse_bootstrap(wrong)


async def test_closed_client_opens_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever still asks, or is connecting at that very moment, would leave a connection behind that nobody closes."""
    dialled = Client._dial
    streams: list[trio.abc.Stream] = []

    async def story(fake: Fake, client: Client) -> None:
        async def dial(self: Client, address: tuple[str, int]) -> trio.abc.Stream:
            stream = await dialled(self, address)
            streams.append(stream)
            await client.aclose()
            return stream

        monkeypatch.setattr(Client, "_dial", dial)
        for _ in range(2):
            with pytest.raises(Unreachable, match="this client is closed"):
                await client.metadata([])
        [stream] = streams
        with pytest.raises(trio.ClosedResourceError):
            await stream.send_all(b"x")

    await with_brokers(story)
