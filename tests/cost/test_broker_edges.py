"""No single request may stop service for others: each API of a broker, each field at each edge of its type.

One client sends the requests. After those of each version of each API a second client does what clients do, the broker
is healthy, and its log has no traceback.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from attrs import define, field

from replica.core.coordinator_topic import TopicCoordinator
from replica.core.errors import ErrorCode as E
from replica.core.security.acl_authorization import AclSettings
from replica.runtime.admin.overview import health
from replica.runtime.replication.log_manager_runtime import LogManagerPace
from replica.wire import batch
from replica.wire.api import ApiKey as A
from replica.wire.fields import Api
from replica.wire.messages import decode_response, encode_request
from replica.wire.records import batch_of
from replica.wire.schemas import APIS
from tests.cost.edges import Case, cases, request
from tests.integration.brokers import Cluster, cluster, until
from tests.kafka_bodies import body_of, values_of

TOPIC: Final = "edges"
HERE: Final = [{"partition_index": 0}]
RECORDS: Final = batch_of([(b"key", b"value")], 1_700_000_000_000)
SUBSCRIPTION: Final = b"\0\0\0\0\0\1\0\5edges\xff\xff\xff\xff"
COMPACTED: Final = "compacted"
PACE_S: Final = 0.1
BUSY: Final = LogManagerPace(PACE_S, PACE_S, PACE_S, PACE_S, PACE_S)
"""Let background work on logs run all the time."""
PATIENCE_S: Final = 0.2
"""A request that waits is given up after this."""
CONTROL_S: Final = 20.0
"""Longer than any step of the second client takes on a machine that is busy with other tests."""
OFFSET: Final = [
    {"name": TOPIC, "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]}
]


class Hostile:
    """Sends one request after the other, over a new connection where the broker has closed the last one."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._stream: trio.SocketStream | None = None
        self.sent = self.answered = 0

    async def send(self, frame: bytes) -> None:
        self.sent += 1
        if self._stream is None:
            self._stream = await trio.open_tcp_stream("127.0.0.1", self._port)
        with trio.move_on_after(PATIENCE_S):
            try:
                await self._stream.send_all(frame)
                if await _received(self._stream):
                    self.answered += 1
                    return
            except (trio.BrokenResourceError, OSError):
                pass
        await self.aclose()

    async def aclose(self) -> None:
        if self._stream is not None:
            await trio.aclose_forcefully(self._stream)
            self._stream = None


@define
class Control:
    """A client that does what clients do, over one connection that lasts as long as the test."""

    stream: trio.SocketStream
    rounds: int = field(default=0)

    async def ask(self, api: A, version: int, **body: Any) -> dict[str, Any]:
        with trio.fail_after(CONTROL_S):
            await self.stream.send_all(
                encode_request(APIS[api], version, 1, "control", body_of(APIS[api].request, body))
            )
            reply = await _received(self.stream)
        assert reply, f"{api.name}: the connection is closed"
        return values_of(decode_response(APIS[api], version, reply)[1])

    async def make(self, topic: str, configs: Mapping[str, str] = {}) -> None:
        said = [{"name": name, "value": value} for name, value in configs.items()]
        wanted = {"name": topic, "num_partitions": 1, "replication_factor": 1, "configs": said}
        [made] = (await self.ask(A.CREATE_TOPICS, 2, topics=[wanted], timeout_ms=10_000))["topics"]
        assert made["error_code"] == E.NONE

    async def begins(self, number: int) -> dict[str, Any]:
        """A transaction that stays open. Returns what requests of its producer say of it."""
        ident = f"open-{number}"
        made = await self.ask(A.INIT_PRODUCER_ID, 1, transactional_id=ident, transaction_timeout_ms=60_000)
        who = {"transactional_id": ident, "producer_id": made["producer_id"], "producer_epoch": made["producer_epoch"]}
        await self.ask(A.ADD_OFFSETS_TO_TXN, 1, group_id="of-a-transaction", **who)
        return who

    async def work(self) -> None:
        self.rounds += 1
        assert (await self.ask(A.LIST_GROUPS, 2))["error_code"] == E.NONE
        topic = (await self.ask(A.METADATA, 8, topics=[{"name": TOPIC}]))["topics"][0]
        assert (topic["error_code"], topic["partitions"][0]["leader_id"]) == (E.NONE, 1)
        assert (await self.ask(A.INIT_PRODUCER_ID, 1, transactional_id=None))["error_code"] == E.NONE
        await self.produces_and_consumes()
        await self.has_a_transaction()
        await self.is_in_a_group()

    async def produces_and_consumes(self) -> None:
        body = {"acks": -1, "timeout_ms": 10_000}
        parts = [{"index": 0, "records": RECORDS}]
        made = await self.ask(A.PRODUCE, 7, topic_data=[{"name": TOPIC, "partition_data": parts}], **body)
        [part] = made["responses"][0]["partition_responses"]
        assert part["error_code"] == E.NONE
        wanted = [{"partition": 0, "fetch_offset": part["base_offset"], "partition_max_bytes": 1 << 20}]
        body = {"max_wait_ms": 1_000, "min_bytes": 1}
        read = await self.ask(A.FETCH, 8, topics=[{"topic": TOPIC, "partitions": wanted}], **body)
        assert read["responses"][0]["partitions"][0]["records"]

    async def has_a_transaction(self) -> None:
        ident = f"control-{self.rounds}"
        made = await self.ask(A.INIT_PRODUCER_ID, 1, transactional_id=ident, transaction_timeout_ms=60_000)
        assert made["error_code"] == E.NONE
        who = {"transactional_id": ident, "producer_id": made["producer_id"], "producer_epoch": made["producer_epoch"]}
        added = await self.ask(A.ADD_PARTITIONS_TO_TXN, 1, topics=[{"name": TOPIC, "partitions": [0]}], **who)
        assert added["results_by_topic"][0]["results_by_partition"][0]["partition_error_code"] == E.NONE
        assert (await self.ask(A.END_TXN, 1, committed=True, **who))["error_code"] == E.NONE

    async def is_in_a_group(self) -> None:
        who = await self.joins("control", 3)
        [topic] = (await self.ask(A.OFFSET_COMMIT, 6, topics=OFFSET, **who))["topics"]
        assert topic["partitions"][0]["error_code"] == E.NONE
        assert (await self.ask(A.HEARTBEAT, 2, **who))["error_code"] == E.NONE
        left = await self.ask(A.LEAVE_GROUP, 2, group_id="control", member_id=who["member_id"])
        assert left["error_code"] == E.NONE

    async def joins(self, group: str, version: int) -> dict[str, Any]:
        """Alone. Returns what requests of a member say of it."""
        joined = await self.ask(
            A.JOIN_GROUP, version, group_id=group, session_timeout_ms=60_000, rebalance_timeout_ms=60_000,
            member_id="", protocol_type="consumer", protocols=[{"name": "range", "metadata": SUBSCRIPTION}],
        )  # fmt: skip
        assert joined["error_code"] == E.NONE
        who = {"group_id": group, "member_id": joined["member_id"], "generation_id": joined["generation_id"]}
        given = [{"member_id": joined["member_id"], "assignment": b"\0\0"}]
        assert (await self.ask(A.SYNC_GROUP, 1, assignments=given, **who))["error_code"] == E.NONE
        return who


async def _received(stream: trio.SocketStream) -> bytes:
    """One message without its length; empty if the broker hangs up."""
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
        more = await stream.receive_some(1 << 20)
        if not more:
            return b""
        data += more
    return data[4:]


def baselines(member: dict[str, Any], producer: dict[str, Any], number: int) -> dict[A, dict[str, Any]]:
    """A valid request of each API, with every field of any version that means something.

    `member`: of a group that has one; `producer`: of a transaction that is open; `number`: of things that are made.
    """
    indexes = [{"name": TOPIC, "partition_indexes": [0]}]
    numbers = [{"name": TOPIC, "partitions": [0]}]
    of_group = {"group_instance_id": None, **member}
    topic_config = {"resource_type": 2, "resource_name": TOPIC}
    acl = {
        "resource_type": 2, "resource_name": TOPIC, "resource_pattern_type": 3, "principal": "User:a", "host": "*",
        "operation": 3, "permission_type": 3,
    }  # fmt: skip
    acl_filter = {
        "resource_type_filter": 2, "resource_name_filter": "none", "pattern_type_filter": 3, "principal_filter": None,
        "host_filter": None, "operation": 1, "permission_type": 1,
    }  # fmt: skip
    fetched = {
        "partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "last_fetched_epoch": -1,
        "log_start_offset": -1, "partition_max_bytes": 1 << 20,
    }  # fmt: skip
    return {
        A.PRODUCE: {
            "transactional_id": None, "acks": -1, "timeout_ms": 1_000,
            "topic_data": [{"name": TOPIC, "partition_data": [{"index": 0, "records": RECORDS}]}],
        },
        A.FETCH: {
            "replica_id": -1, "max_wait_ms": 1, "min_bytes": 1, "max_bytes": 1 << 20, "session_id": 0,
            "session_epoch": -1, "cluster_id": None, "replica_state": {"replica_id": -1, "replica_epoch": -1},
            "topics": [{"topic": TOPIC, "partitions": [fetched]}],
            "forgotten_topics_data": [{"topic": TOPIC, "partitions": [0]}], "rack_id": "",
        },
        A.LIST_OFFSETS: {
            "replica_id": -1,
            "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "current_leader_epoch": -1,
                                                       "timestamp": -1}]}],
        },
        A.OFFSET_FOR_LEADER_EPOCH: {
            "replica_id": -1,
            "topics": [{"topic": TOPIC, "partitions": [{"partition": 0, "current_leader_epoch": -1,
                                                        "leader_epoch": 0}]}],
        },
        A.DELETE_RECORDS: {
            "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 0}]}], "timeout_ms": 1_000,
        },
        A.INIT_PRODUCER_ID: {"transactional_id": f"edges-{number}", "transaction_timeout_ms": 60_000},
        A.API_VERSIONS: {"client_software_name": "edges", "client_software_version": "1"},
        A.METADATA: {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": False},
        A.DESCRIBE_CLUSTER: {},
        A.SASL_HANDSHAKE: {"mechanism": "PLAIN"},
        A.SASL_AUTHENTICATE: {"auth_bytes": b"\0a\0b"},
        A.FIND_COORDINATOR: {"key": "g", "key_type": 0, "coordinator_keys": ["g"]},
        A.JOIN_GROUP: {
            "group_id": f"edges-{number}", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000,
            "member_id": "", "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
        },
        A.SYNC_GROUP: {**of_group, "assignments": [{"member_id": member["member_id"], "assignment": b"\0\0"}]},
        A.HEARTBEAT: of_group,
        A.LEAVE_GROUP: {**of_group, "members": [{"member_id": "another"}]},
        # Of nobody who is a member: so it gets as far as the log.
        A.OFFSET_COMMIT: {"group_id": f"commits-{number}", "generation_id": -1, "member_id": "", "topics": OFFSET},
        A.OFFSET_FETCH: {
            "group_id": "control", "topics": indexes, "groups": [{"group_id": "control", "topics": indexes}],
        },
        A.DESCRIBE_GROUPS: {"groups": [member["group_id"]]},
        A.LIST_GROUPS: {"states_filter": ["Stable"], "types_filter": ["classic"]},
        A.DELETE_GROUPS: {"groups_names": ["none"]},
        A.OFFSET_DELETE: {"group_id": "control", "topics": [{"name": "none", "partitions": HERE}]},
        A.CREATE_TOPICS: {
            "topics": [{"name": f"made-{number}", "num_partitions": 1, "replication_factor": 1, "assignments": [],
                        "configs": [{"name": "retention.ms", "value": "1000"}]}],
            "timeout_ms": 1_000, "validate_only": False,
        },
        A.DELETE_TOPICS: {"topics": [{"name": "none"}], "topic_names": ["none"], "timeout_ms": 1_000},
        A.CREATE_PARTITIONS: {
            "topics": [{"name": TOPIC, "count": 1, "assignments": [{"broker_ids": [1]}]}], "timeout_ms": 1_000,
            "validate_only": False,
        },
        A.DESCRIBE_CONFIGS: {"resources": [{**topic_config, "configuration_keys": ["retention.ms"]}]},
        A.ALTER_CONFIGS: {"resources": [{**topic_config, "configs": [{"name": "retention.ms", "value": "-1"}]}]},
        A.INCREMENTAL_ALTER_CONFIGS: {
            "resources": [{**topic_config,
                           "configs": [{"name": "retention.ms", "config_operation": 0, "value": "-1"}]}],
        },
        A.DESCRIBE_LOG_DIRS: {"topics": [{"topic": TOPIC, "partitions": [0]}]},
        A.ELECT_LEADERS: {
            "election_type": 0, "topic_partitions": [{"topic": TOPIC, "partitions": [0]}], "timeout_ms": 1_000,
        },
        A.ALTER_PARTITION_REASSIGNMENTS: {
            "timeout_ms": 1_000,
            "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "replicas": [1]}]}],
        },
        A.LIST_PARTITION_REASSIGNMENTS: {"timeout_ms": 1_000, "topics": indexes},
        A.DESCRIBE_CLIENT_QUOTAS: {
            "components": [{"entity_type": "user", "match_type": 0, "match": "u"}], "strict": False,
        },
        A.ALTER_CLIENT_QUOTAS: {
            "entries": [{"entity": [{"entity_type": "client-id", "entity_name": "another"}],
                         "ops": [{"key": "producer_byte_rate", "value": 1e6, "remove": False}]}],
            "validate_only": False,
        },
        A.ADD_PARTITIONS_TO_TXN: {**producer, "topics": numbers},
        A.ADD_OFFSETS_TO_TXN: {**producer, "group_id": "of-a-transaction"},
        A.END_TXN: {**producer, "committed": True},
        A.TXN_OFFSET_COMMIT: {**producer, "group_id": "of-a-transaction", "topics": OFFSET},
        A.WRITE_TXN_MARKERS: {
            "markers": [{"producer_id": producer["producer_id"], "producer_epoch": producer["producer_epoch"],
                         "transaction_result": True, "topics": indexes, "coordinator_epoch": 0}],
        },
        A.DESCRIBE_PRODUCERS: {"topics": indexes},
        A.DESCRIBE_TRANSACTIONS: {"transactional_ids": [producer["transactional_id"]]},
        A.LIST_TRANSACTIONS: {"state_filters": ["Ongoing"], "producer_id_filters": [producer["producer_id"]]},
        A.DESCRIBE_ACLS: acl_filter,
        A.CREATE_ACLS: {"creations": [acl]},
        A.DELETE_ACLS: {"filters": [acl_filter]},
        A.DESCRIBE_USER_SCRAM_CREDENTIALS: {"users": [{"name": "u"}]},
        A.ALTER_USER_SCRAM_CREDENTIALS: {
            "deletions": [],
            "upsertions": [{"name": "u", "mechanism": 1, "iterations": 4096, "salt": b"salt",
                            "salted_password": b"p" * 32}],
        },
    }  # fmt: skip


def batches() -> Iterator[tuple[str, bytes]]:
    """Batches with one field of the header at an edge, and the right checksum."""
    header = batch.parse_header(RECORDS)
    body = RECORDS[batch.HEADER_BYTES :]
    bits = dict(zip(batch.Header._fields, (64, 32, 32, 8, 32, 16, 32, 64, 64, 64, 16, 32, 32), strict=True))
    for name in batch.Header._fields:
        if name == "crc":
            continue
        top = 1 << (bits[name] - 1)
        for value in (-top, -1, 0, 1, 0x10, 0x20, 0x30, top - 2, top - 1):
            if value < top:
                yield f"a batch with {name} = {value}", batch.seal(header._replace(**{name: value}), body)


def produced(api: Api[Any, Any], version: int) -> Iterator[Case]:
    """To a topic that is compacted, so that these batches are unpacked and packed again as well."""
    if api.key is A.PRODUCE and version == api.last:
        for name, records in batches():
            data = [{"name": COMPACTED, "partition_data": [{"index": 0, "records": records}]}]
            body = {"transactional_id": None, "acks": -1, "timeout_ms": 1_000, "topic_data": data}
            yield Case(api, version, name, request(api, version, body))


async def test_no_request_at_an_edge_of_its_type_stops_service(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    acls = AclSettings(frozenset({"User:ANONYMOUS"}))
    async with cluster(tmp_path, 1, acls=acls, disk=BUSY) as running:
        hostile = Hostile(running.ports[1])
        wrong: list[str] = []
        async with control(running) as client:
            await client.make(TOPIC, {"retention.ms": "-1"})  # the records are old, and retention runs all the time
            await client.make(COMPACTED, {"cleanup.policy": "compact", "segment.bytes": "500"})
            await client.work()
            for number, (api, version) in enumerate(every_version()):
                member = await client.joins(f"member-{number}", 3)
                body = baselines(member, await client.begins(number), number)[api.key]
                for case in (*cases(api, version, body), *produced(api, version)):
                    await hostile.send(case.frame)
                    wrong += [f"{case}: {each}" for each in tracebacks(caplog)]
                try:
                    await client.work()
                except (AssertionError, trio.TooSlowError) as error:
                    pytest.fail(
                        f"no service after the requests of {api.key.name} v{version}, or one of them: {error!r}"
                    )
                found = health(running.brokers[1])
                assert found["healthy"], f"after {api.key.name} v{version}: {found}"
        await hostile.aclose()
        assert hostile.answered > hostile.sent // 2, "most of the requests are to be understood"
        assert running.brokers[1].parts.membership.controller is not None
        assert running.brokers[1].parts.membership.controller.counts.gave_up == 0
        # What was written must not stop the next start either, nor what is done with logs in the background.
        await running.stop(1)
        await running.start(1)
        async with control(running) as client:
            await client.work()
        await trio.sleep(3 * PACE_S)
        wrong += tracebacks(caplog)
        assert not wrong, "\n".join(wrong)


def every_version() -> Iterator[tuple[Api[Any, Any], int]]:
    for api in APIS.values():
        for version in range(api.first, api.last + 1):
            yield api, version


@asynccontextmanager
async def control(running: Cluster) -> AsyncIterator[Control]:
    async with await trio.open_tcp_stream("127.0.0.1", running.ports[1]) as stream:
        client = Control(stream)
        for kind in (0, 1):
            await client.ask(A.FIND_COORDINATOR, 1, key="x", key_type=kind)
        broker = running.brokers[1]
        await until(
            lambda: all(
                _loaded(each)
                for each in (
                    broker.parts.group_coordinator.coordinator,
                    broker.parts.transaction_coordinator.coordinator,
                )
            )
        )
        yield client


def _loaded(coordinator: TopicCoordinator[Any, Any]) -> bool:
    return coordinator.topic.partitions == 4 and all(
        coordinator.topic.epochs.get(number) is not None for number in range(4)
    )


def tracebacks(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [f"{each.getMessage()}: {each.exc_info[1]!r}" for each in caplog.records if each.exc_info]
    caplog.clear()
    return found
