"""ACLs: each request by somebody who may do nothing, by somebody who may do it; and clients that we did not write."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest
import trio
from attrs import evolve
from kafka import KafkaAdminClient
from kafka import admin as kafka_admin

from bench.ports import free_port
from replica.core.errors import ErrorCode as E
from replica.core.security.acl_authorization import AclSettings
from replica.core.security.acls import Operation as O
from replica.runtime.authentication.sasl_authenticator import SaslSettings
from replica.runtime.authentication.sasl_client import Identity
from replica.runtime.authorization.guard_table import GUARDS
from replica.runtime.broker import Broker
from replica.runtime.configuration.broker_config import Listener
from replica.runtime.network.broker_client import Client, connect
from replica.runtime.request_table import request_handlers
from replica.runtime.requests import ApiKey
from tests.integration.brokers import Cluster, cluster, in_thread, until
from tests.kafka_bodies import Body, ask

confluent_admin: Any = confluent_kafka.admin
USERS = {"root": "r", "ann": "a", "bob": "b"}
SETTINGS = AclSettings(frozenset({"User:root", "User:ANONYMOUS"}))
TOPIC, GROUP, CLUSTER, TRANSACTION = 2, 3, 4, 5
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3


@asynccontextmanager
async def guarded(path: Path) -> AsyncIterator[tuple[Cluster, int]]:
    """Brokers come in by the plain listener, where they are super users; people by the other."""
    port = free_port()
    listener = Listener("OUT", "127.0.0.1", port, "SASL_PLAINTEXT", sasl=SaslSettings(users=USERS))
    async with cluster(path, 1, (listener,), acls=SETTINGS) as running:
        yield running, port


@asynccontextmanager
async def as_user(port: int, name: str) -> AsyncIterator[Client]:
    async with connect([("127.0.0.1", port)], identity=Identity("PLAIN", name, USERS[name])) as client:
        yield client


def acl(user: str, operation: O, kind: int, name: str, pattern: int = LITERAL, permission: int = ALLOW) -> Body:
    return {
        "resource_type": kind, "resource_name": name, "resource_pattern_type": pattern, "principal": f"User:{user}",
        "host": "*", "operation": operation, "permission_type": permission,
    }  # fmt: skip


async def let(root: Client, *acls: Body) -> None:
    reply = await ask(root, ApiKey.CREATE_ACLS, {"creations": list(acls)})
    assert [each["error_code"] for each in reply["results"]] == [E.NONE] * len(acls), reply


async def forget(root: Client) -> None:
    everything = {
        "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
        "host_filter": None, "operation": 1, "permission_type": 1,
    }  # fmt: skip
    await ask(root, ApiKey.DELETE_ACLS, {"filters": [everything]})


def codes(value: object) -> set[int]:
    """All errors in a reply, wherever they stand."""
    found: set[int] = set()
    if isinstance(value, dict):
        for key, each in value.items():
            found |= {int(each)} if key in ("error_code", "partition_error_code") else codes(each)
    elif isinstance(value, list):
        for each in value:
            found |= codes(each)
    return found - {E.NONE}


def part(**fields: Any) -> list[Body]:
    return [{"name": "t", "partitions": [{"partition_index": 0, **fields}]}]


NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TRANSACTION = (
    E.TOPIC_AUTHORIZATION_FAILED,
    E.GROUP_AUTHORIZATION_FAILED,
    E.CLUSTER_AUTHORIZATION_FAILED,
    E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
ON_TOPIC, ON_GROUP, ON_CLUSTER, ON_TRANSACTION = (
    (TOPIC, "t"),
    (GROUP, "g"),
    (CLUSTER, "kafka-cluster"),
    (TRANSACTION, "x"),
)
BEARER = {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0}
MEMBER = {"group_id": "g", "generation_id": 1, "member_id": "m"}
OF_TOPIC, OF_BROKER = {"resource_type": 2, "resource_name": "t"}, {"resource_type": 4, "resource_name": "1"}
ALL_KEYS: Body = {"configuration_keys": None}
NO_KEYS: Body = {"configs": []}
END = {"producer_id": 1, "producer_epoch": 0, "topics": [{"name": "t", "partition_indexes": [0]}]}
ENDS = {"markers": [{**END, "transaction_result": True, "coordinator_epoch": 0}]}
ANY_ACL = {
    "resource_type_filter": 2, "resource_name_filter": "none", "pattern_type_filter": 3, "principal_filter": None,
    "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip
REPLICA = {"replica_id": 2, "max_wait_ms": 0, "min_bytes": 0}
WANTED = [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}]}]
EPOCHS = [{"topic": "t", "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}]
OF_USER = [{"entity_type": "user", "entity_name": "x"}]
POSITION = [{"name": "t", "partition_indexes": [0]}]
TOKEN = {"resource_type": 2, "resource_name": "x", "resource_pattern_type": 3, "principal": "User:x", "host": "*"}

T = {"name": "t", "num_partitions": 1, "replication_factor": 1}

Rights = Sequence[tuple[O, tuple[int, str]]]
CASES: list[tuple[ApiKey, Body, E, Rights]] = [
    (ApiKey.FETCH, {"replica_id": -1, "max_wait_ms": 0, "topics": WANTED}, NO_TOPIC, [(O.READ, ON_TOPIC)]),
    (ApiKey.FETCH, {**REPLICA, "topics": WANTED}, NO_TOPIC, [(O.CLUSTER_ACTION, ON_CLUSTER)]),
    (ApiKey.LIST_OFFSETS, {"replica_id": -1, "topics": part(timestamp=-1)}, NO_TOPIC, [(O.DESCRIBE, ON_TOPIC)]),
    (ApiKey.METADATA, {"topics": [{"name": "t"}]}, NO_TOPIC, [(O.DESCRIBE, ON_TOPIC)]),
    (ApiKey.OFFSET_COMMIT, {**MEMBER, "topics": part(committed_offset=0)}, NO_GROUP, [(O.READ, ON_GROUP)]),
    (ApiKey.OFFSET_COMMIT, {**MEMBER, "topics": part(committed_offset=0)}, NO_TOPIC,
     [(O.READ, ON_GROUP), (O.READ, ON_TOPIC)]),
    (ApiKey.OFFSET_FETCH, {"groups": [{"group_id": "g", "topics": None}]}, NO_GROUP, [(O.DESCRIBE, ON_GROUP)]),
    (ApiKey.OFFSET_FETCH, {"groups": [{"group_id": "g", "topics": POSITION}]}, NO_TOPIC,
     [(O.DESCRIBE, ON_GROUP), (O.DESCRIBE, ON_TOPIC)]),
    (ApiKey.FIND_COORDINATOR, {"key_type": 0, "coordinator_keys": ["g"]}, NO_GROUP, [(O.DESCRIBE, ON_GROUP)]),
    (ApiKey.JOIN_GROUP, {"group_id": "g", "session_timeout_ms": 1, "protocol_type": "consumer"}, NO_GROUP,
     [(O.READ, ON_GROUP)]),
    (ApiKey.SYNC_GROUP, MEMBER, NO_GROUP, [(O.READ, ON_GROUP)]),
    (ApiKey.HEARTBEAT, MEMBER, NO_GROUP, [(O.READ, ON_GROUP)]),
    (ApiKey.LEAVE_GROUP, {"group_id": "g", "members": [{"member_id": "m"}]}, NO_GROUP, [(O.READ, ON_GROUP)]),
    (ApiKey.DESCRIBE_GROUPS, {"groups": ["g"]}, NO_GROUP, [(O.DESCRIBE, ON_GROUP)]),
    (ApiKey.DELETE_GROUPS, {"groups_names": ["g"]}, NO_GROUP, [(O.DELETE, ON_GROUP)]),
    (ApiKey.OFFSET_DELETE, {"group_id": "g", "topics": part()}, NO_GROUP, [(O.DELETE, ON_GROUP)]),
    (ApiKey.OFFSET_DELETE, {"group_id": "g", "topics": part()}, NO_TOPIC, [(O.DELETE, ON_GROUP), (O.READ, ON_TOPIC)]),
    (ApiKey.CREATE_TOPICS, {"topics": [{"name": "t"}]}, NO_TOPIC, [(O.CREATE, ON_TOPIC)]),
    (ApiKey.CREATE_TOPICS, {"topics": [{"name": "t"}]}, NO_TOPIC, [(O.CREATE, ON_CLUSTER)]),
    (ApiKey.CREATE_PARTITIONS, {"topics": [{"name": "t", "count": 0, "assignments": None}]}, NO_TOPIC,
     [(O.ALTER, ON_TOPIC)]),
    (ApiKey.DELETE_TOPICS, {"topics": [{"name": "none"}]}, NO_TOPIC, [(O.DELETE, (TOPIC, "none"))]),
    (ApiKey.DELETE_RECORDS, {"topics": part(offset=0), "timeout_ms": 1}, NO_TOPIC, [(O.DELETE, ON_TOPIC)]),
    (ApiKey.INIT_PRODUCER_ID, {"transactional_id": None}, NO_CLUSTER, [(O.IDEMPOTENT_WRITE, ON_CLUSTER)]),
    (ApiKey.INIT_PRODUCER_ID, {"transactional_id": None}, NO_CLUSTER, [(O.WRITE, (TOPIC, "another"))]),
    (ApiKey.INIT_PRODUCER_ID, {"transactional_id": "x", "transaction_timeout_ms": 1}, NO_TRANSACTION,
     [(O.WRITE, ON_TRANSACTION)]),
    (ApiKey.FIND_COORDINATOR, {"key_type": 1, "coordinator_keys": ["x"]}, NO_TRANSACTION,
     [(O.DESCRIBE, ON_TRANSACTION)]),
    (ApiKey.ADD_PARTITIONS_TO_TXN, {**BEARER, "topics": [{"name": "t", "partitions": [0]}]}, NO_TRANSACTION,
     [(O.WRITE, ON_TRANSACTION)]),
    (ApiKey.ADD_PARTITIONS_TO_TXN, {**BEARER, "topics": [{"name": "t", "partitions": [0]}]}, NO_TOPIC,
     [(O.WRITE, ON_TRANSACTION), (O.WRITE, ON_TOPIC)]),
    (ApiKey.ADD_OFFSETS_TO_TXN, {**BEARER, "group_id": "g"}, NO_TRANSACTION, [(O.WRITE, ON_TRANSACTION)]),
    (ApiKey.ADD_OFFSETS_TO_TXN, {**BEARER, "group_id": "g"}, NO_GROUP,
     [(O.WRITE, ON_TRANSACTION), (O.READ, ON_GROUP)]),
    (ApiKey.END_TXN, {**BEARER, "committed": True}, NO_TRANSACTION, [(O.WRITE, ON_TRANSACTION)]),
    (ApiKey.TXN_OFFSET_COMMIT, {**BEARER, "group_id": "g", "topics": part(committed_offset=0)}, NO_TRANSACTION,
     [(O.WRITE, ON_TRANSACTION)]),
    (ApiKey.TXN_OFFSET_COMMIT, {**BEARER, "group_id": "g", "topics": part(committed_offset=0)}, NO_GROUP,
     [(O.WRITE, ON_TRANSACTION), (O.READ, ON_GROUP)]),
    (ApiKey.TXN_OFFSET_COMMIT, {**BEARER, "group_id": "g", "topics": part(committed_offset=0)}, NO_TOPIC,
     [(O.WRITE, ON_TRANSACTION), (O.READ, ON_GROUP), (O.READ, ON_TOPIC)]),
    (ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": ["x"]}, NO_TRANSACTION, [(O.DESCRIBE, ON_TRANSACTION)]),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, {"replica_id": -1, "topics": EPOCHS}, NO_TOPIC, [(O.DESCRIBE, ON_TOPIC)]),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, {"replica_id": -1, "topics": EPOCHS}, NO_TOPIC, [(O.CLUSTER_ACTION, ON_CLUSTER)]),
    (ApiKey.WRITE_TXN_MARKERS, ENDS, NO_CLUSTER, [(O.CLUSTER_ACTION, ON_CLUSTER)]),
    (ApiKey.WRITE_TXN_MARKERS, ENDS, NO_CLUSTER, [(O.ALTER, ON_CLUSTER)]),
    (ApiKey.DESCRIBE_PRODUCERS, {"topics": [{"name": "t", "partition_indexes": [0]}]}, NO_TOPIC, [(O.READ, ON_TOPIC)]),
    (ApiKey.DESCRIBE_ACLS, ANY_ACL, NO_CLUSTER, [(O.DESCRIBE, ON_CLUSTER)]),
    (ApiKey.CREATE_ACLS, {"creations": [{**TOKEN, "operation": 3, "permission_type": 3}]}, NO_CLUSTER,
     [(O.ALTER, ON_CLUSTER)]),
    (ApiKey.DELETE_ACLS, {"filters": [ANY_ACL]}, NO_CLUSTER, [(O.ALTER, ON_CLUSTER)]),
    (ApiKey.DESCRIBE_CONFIGS, {"resources": [{**OF_TOPIC, **ALL_KEYS}]}, NO_TOPIC, [(O.DESCRIBE_CONFIGS, ON_TOPIC)]),
    (ApiKey.DESCRIBE_CONFIGS, {"resources": [{**OF_BROKER, **ALL_KEYS}]}, NO_CLUSTER,
     [(O.DESCRIBE_CONFIGS, ON_CLUSTER)]),
    (ApiKey.ALTER_CONFIGS, {"resources": [{**OF_TOPIC, **NO_KEYS}]}, NO_TOPIC, [(O.ALTER_CONFIGS, ON_TOPIC)]),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, {"resources": [{**OF_BROKER, **NO_KEYS}]}, NO_CLUSTER,
     [(O.ALTER_CONFIGS, ON_CLUSTER)]),
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, {"components": []}, NO_CLUSTER, [(O.DESCRIBE_CONFIGS, ON_CLUSTER)]),
    (ApiKey.ALTER_CLIENT_QUOTAS, {"entries": [{"entity": OF_USER, "ops": []}], "validate_only": True}, NO_CLUSTER,
     [(O.ALTER_CONFIGS, ON_CLUSTER)]),
    (ApiKey.ELECT_LEADERS, {"topic_partitions": [{"topic": "t", "partitions": [0]}]}, NO_CLUSTER,
     [(O.ALTER, ON_CLUSTER)]),
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, {"topics": []}, NO_CLUSTER, [(O.ALTER, ON_CLUSTER)]),
    (ApiKey.LIST_PARTITION_REASSIGNMENTS, {"topics": None}, NO_CLUSTER, [(O.DESCRIBE, ON_CLUSTER)]),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None}, NO_CLUSTER, [(O.DESCRIBE, ON_CLUSTER)]),
    (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, {"deletions": [{"name": "x", "mechanism": 1}]}, NO_CLUSTER,
     [(O.ALTER, ON_CLUSTER)]),
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, {"components": []}, NO_CLUSTER, [(O.DESCRIBE_CONFIGS, ON_CLUSTER)]),
    (ApiKey.ALTER_CLIENT_QUOTAS, {"entries": [{"entity": [], "ops": []}]}, NO_CLUSTER,
     [(O.ALTER_CONFIGS, ON_CLUSTER)]),
]  # fmt: skip


async def test_each_request_needs_its_permission(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (running, port):
        open_to_all = evolve(running.brokers[1].config, acls=None, log_dirs=(tmp_path / "another",))
        unguarded = Broker(open_to_all, running.store.session)
        assert request_handlers(open_to_all, unguarded.parts, "", unguarded.log).keys() <= GUARDS.keys()
        async with as_user(port, "root") as root, as_user(port, "ann") as ann:
            await root.patiently(lambda: root.coordinator("g"))
            await ask(root, ApiKey.CREATE_TOPICS, {"topics": [T]})
            for key, body, refused, rights in CASES:
                *before, (operation, (kind, name)) = rights
                await let(root, *(acl("ann", each, *where) for each, where in before))
                assert refused in codes(await ask(ann, key, body)), (key.name, rights)
                await let(root, acl("ann", operation, kind, name))
                assert refused not in codes(await ask(ann, key, body)), (key.name, rights)
                await let(root, acl("ann", operation, kind, name, permission=DENY))
                assert refused in codes(await ask(ann, key, body)), (key.name, rights)
                await forget(root)


async def test_permitted_part_of_a_request_is_done_and_the_rest_refused(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (_, port), as_user(port, "root") as root, as_user(port, "ann") as ann:
        names = ("mine", "mine-too", "others")
        new = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
        await ask(root, ApiKey.CREATE_TOPICS, {"topics": new})
        await let(
            root,
            acl("ann", O.READ, TOPIC, "mine", PREFIXED),
            acl("ann", O.DESCRIBE, GROUP, "g"),
            acl("ann", O.CREATE, TOPIC, "new"),
        )

        seen = await ask(ann, ApiKey.METADATA, {"topics": None, "include_topic_authorized_operations": True})
        told = {each["name"]: each["topic_authorized_operations"] for each in seen["topics"]}
        assert told == dict.fromkeys(("mine", "mine-too"), 1 << O.READ | 1 << O.DESCRIBE)
        seen = await ask(ann, ApiKey.DESCRIBE_CLUSTER, {"include_cluster_authorized_operations": True})
        assert seen["cluster_authorized_operations"] == 0
        by_name = await ask(ann, ApiKey.METADATA, {"topics": [{"name": name} for name in ("others", "mine", "secret")]})
        assert {each["name"]: each["error_code"] for each in by_name["topics"]} == {
            "mine": E.NONE, "others": NO_TOPIC, "secret": NO_TOPIC,
        }  # fmt: skip
        by_id = await ask(root, ApiKey.METADATA, {"topics": [{"name": "others"}]})
        ident = by_id["topics"][0]["topic_id"]
        hidden = await ask(ann, ApiKey.METADATA, {"topics": [{"name": None, "topic_id": ident}]})
        assert (hidden["topics"][0]["error_code"], hidden["topics"][0]["name"]) == (E.UNKNOWN_TOPIC_ID, None)
        gone = await ask(ann, ApiKey.DELETE_TOPICS, {"topics": [{"name": None, "topic_id": ident}]})
        assert (gone["responses"][0]["error_code"], gone["responses"][0]["name"]) == (NO_TOPIC, None)

        # What she may see and not make is not made because she asks for it.
        asked = {"topics": [{"name": "mine-new"}], "allow_auto_topic_creation": True}
        assert (await ask(ann, ApiKey.METADATA, asked))["topics"][0]["error_code"] == NO_TOPIC
        made = await ask(ann, ApiKey.CREATE_TOPICS, {"topics": [{**new[0], "name": "new"}, {**new[0], "name": "bad"}]})
        assert {each["name"]: each["error_code"] for each in made["topics"]} == {"new": E.NONE, "bad": NO_TOPIC}
        assert [each["configs"] for each in made["topics"] if each["name"] == "new"] == [None]
        everything = await ask(root, ApiKey.METADATA, {"topics": None})
        assert {each["name"] for each in everything["topics"]} == {*names, "new"}

        # A follower that is none, at a listener that is not for brokers, is refused although it may do it.
        await let(root, acl("ann", O.CLUSTER_ACTION, *ON_CLUSTER))
        wanted = [{"topic": "mine", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}]}]
        fetched = await ask(ann, ApiKey.FETCH, {**REPLICA, "topics": wanted})
        assert codes(fetched) == {NO_CLUSTER}


def test_clients_that_we_did_not_write(tmp_path: Path) -> None:
    async def main() -> None:
        async with guarded(tmp_path) as (running, port):
            settings = {
                "bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
            }  # fmt: skip

            def of(name: str) -> dict[str, Any]:
                return {**settings, "sasl.username": name, "sasl.password": USERS[name]}

            def produce(name: str, **more: Any) -> str | None:
                told: list[Any] = []
                producer = confluent_kafka.Producer({**of(name), "message.timeout.ms": 60_000, **more})
                producer.produce("t", b"v", callback=lambda error, _: told.append(error))
                producer.flush(60)
                return None if told[0] is None else str(told[0].name())

            def consume() -> bytes | str | None:
                consumer = confluent_kafka.Consumer({**of("bob"), "group.id": "g-1", "auto.offset.reset": "earliest"})
                try:
                    consumer.subscribe(["t"])
                    while (message := consumer.poll(1)) is None:
                        pass
                    error = message.error()
                    return message.value() if error is None else str(error.name())
                finally:
                    consumer.close()

            def grant() -> list[str]:
                kind, restype = confluent_admin.ResourcePatternType, confluent_admin.ResourceType
                read, write = confluent_admin.AclOperation.READ, confluent_admin.AclOperation.WRITE
                allow = confluent_admin.AclPermissionType.ALLOW
                wanted = [
                    confluent_admin.AclBinding(restype.TOPIC, "t", kind.LITERAL, "User:ann", "*", write, allow),
                    confluent_admin.AclBinding(restype.TOPIC, "t", kind.LITERAL, "User:bob", "127.0.0.1", read, allow),
                    confluent_admin.AclBinding(restype.GROUP, "g-", kind.PREFIXED, "User:bob", "*", read, allow),
                ]
                client = confluent_admin.AdminClient(of("root"))
                for future in client.create_acls(wanted).values():
                    future.result(60)
                everything = confluent_admin.AclBindingFilter(
                    restype.ANY, None, kind.ANY, None, None, confluent_admin.AclOperation.ANY,
                    confluent_admin.AclPermissionType.ANY,
                )  # fmt: skip
                return sorted(each.principal for each in client.describe_acls(everything).result(60))

            def kafka_python() -> tuple[int, int]:
                client = KafkaAdminClient(
                    bootstrap_servers=f"127.0.0.1:{port}", security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN",
                    sasl_plain_username="root", sasl_plain_password="r",
                )  # fmt: skip
                try:
                    pattern = kafka_admin.ResourcePattern(kafka_admin.ResourceType.TOPIC, "u")
                    read, allow = kafka_admin.ACLOperation.READ, kafka_admin.ACLPermissionType.ALLOW
                    one = kafka_admin.ACL("User:eve", "*", read, allow, pattern)
                    made: Any = client.create_acls([one])
                    gone: Any = client.delete_acls([one])
                    return len(made["succeeded"]), len(gone[0][1])
                finally:
                    client.close()

            async with as_user(port, "root") as root:
                await ask(root, ApiKey.CREATE_TOPICS, {"topics": [T]})
            assert await in_thread(produce, "ann") == "TOPIC_AUTHORIZATION_FAILED"
            assert await in_thread(grant) == ["User:ann", "User:bob", "User:bob"]
            await until(lambda: len(list(running.brokers[1].parts.access.authorizer.acls)) == 3)  # type: ignore[union-attr]
            assert await in_thread(produce, "ann") is None
            assert await in_thread(lambda: produce("ann", **{"enable.idempotence": True})) is None
            assert await in_thread(produce, "bob") == "TOPIC_AUTHORIZATION_FAILED"
            assert await in_thread(consume) == b"v"
            assert await in_thread(kafka_python) == (1, 1)

    trio.run(main)


async def test_acl_requests_are_refused_without_an_authorizer(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as running, connect([("127.0.0.1", running.ports[1])]) as client:
        assert codes(await ask(client, ApiKey.DESCRIBE_ACLS, ANY_ACL)) == {E.SECURITY_DISABLED}
        new = acl("ann", O.READ, *ON_TOPIC)
        assert codes(await ask(client, ApiKey.CREATE_ACLS, {"creations": [new]})) == {E.SECURITY_DISABLED}
        assert codes(await ask(client, ApiKey.DELETE_ACLS, {"filters": [ANY_ACL]})) == {E.SECURITY_DISABLED}


async def test_a_denial_is_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "replica")
    async with guarded(tmp_path) as (_, port), as_user(port, "ann") as ann:
        await ask(ann, ApiKey.METADATA, {"topics": [{"name": "t"}]})
    said = [each.getMessage() for each in caplog.records if each.getMessage().startswith("denied")]
    assert len(said) == 1
    assert "principal=User:ann host=127.0.0.1 operation=Describe resource=Topic:t api=METADATA" in said[0]
