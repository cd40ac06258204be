"""Hostile state that a broker has come to by legal requests: many topics, ACLs, groups, members and positions."""

from __future__ import annotations

import time
from typing import Final

from attrs import frozen

from replica.wire.api import ApiKey
from tests.cost.broker_process import PATIENCE_S, USER, Body, BrokerProcess, Client
from tests.cost.broker_requests import Known

CROWD: Final = "g-crowd"
TOPIC, GROUP, TRANSACTION = 2, 3, 5
LITERAL, PREFIXED = 3, 4
READ, WRITE, CREATE = 3, 4, 5


@frozen
class Sizes:
    """entries    of the ACL on all topics
    prefixes   ACLs on prefixes of names, each of another length
    members    of one group, each with so many bytes of metadata
    positions  of each of the first groups
    """

    topics: int = 400
    partitions: int = 500
    entries: int = 4_000
    prefixes: int = 50
    groups: int = 100
    positions: int = 500
    members: int = 50
    metadata_bytes: int = 10_000
    transactional_ids: int = 50


def build(broker: BrokerProcess, sizes: Sizes) -> Known:
    with broker.client() as client:
        topics = tuple(f"t-{number}" for number in range(sizes.topics))
        _create(client, [*((name, 1) for name in topics), ("wide", sizes.partitions)])
        found = client.ask(ApiKey.METADATA, {"topics": None})["topics"]
        _allow(client, sizes)
        groups = tuple(f"g-{number}" for number in range(sizes.groups))
        for key_type, name in ((0, "g-0"), (1, "x-0")):
            _until_coordinated(client, key_type, name)
        for place, name in enumerate(groups):
            _commit(client, name, min(sizes.positions, sizes.partitions) if place < 10 else 10)
        ids = tuple(f"x-{number}" for number in range(sizes.transactional_ids))
        for name in ids:
            asked = {"transactional_id": name, "transaction_timeout_ms": 60_000, "producer_id": -1}
            client.ask(ApiKey.INIT_PRODUCER_ID, {**asked, "producer_epoch": -1})
    _crowd(broker, sizes)
    topic_ids = tuple(each["topic_id"] for each in found if not each["is_internal"])
    return Known(topics, "wide", sizes.partitions, (CROWD, *groups), ids, topic_ids)


def _create(client: Client, topics: list[tuple[str, int]]) -> None:
    asked = [
        {"name": name, "num_partitions": count, "replication_factor": 1, "assignments": [], "configs": []}
        for name, count in topics
    ]
    body = {"topics": asked, "timeout_ms": 60_000, "validate_only": False}
    assert {each["error_code"] for each in client.ask(ApiKey.CREATE_TOPICS, body)["topics"]} == {0}


def _allow(client: Client, sizes: Sizes) -> None:
    def acl(resource: int, name: str, user: str, operation: int = READ, kind: int = LITERAL) -> Body:
        return {
            "resource_type": resource, "resource_name": name, "resource_pattern_type": kind,
            "principal": f"User:{user}", "host": "*", "operation": operation, "permission_type": 3,
        }  # fmt: skip

    creations = [acl(TOPIC, "*", f"u{number}") for number in range(sizes.entries)]
    creations += [acl(TOPIC, "_" * length, "ann", kind=PREFIXED) for length in range(1, sizes.prefixes)]
    creations += [acl(TOPIC, f"t-{number}", USER) for number in range(0, sizes.topics, 4)]
    creations += [acl(GROUP, "g-", USER, kind=PREFIXED), acl(TRANSACTION, "x-", USER, WRITE, PREFIXED)]
    creations.append(acl(TOPIC, "wide", USER, 2))
    results = client.ask(ApiKey.CREATE_ACLS, {"creations": creations})["results"]
    assert {each["error_code"] for each in results} == {0}


def _until_coordinated(client: Client, key_type: int, name: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while True:
        body = {"key_type": key_type, "coordinator_keys": [name]}
        if client.ask(ApiKey.FIND_COORDINATOR, body)["coordinators"][0]["error_code"] == 0:
            return
        assert time.monotonic() < until, "there is no coordinator"
        time.sleep(0.02)


def _commit(client: Client, group: str, positions: int) -> None:
    parts = [{"partition_index": each, "committed_offset": 1, "committed_metadata": ""} for each in range(positions)]
    until = time.monotonic() + PATIENCE_S
    while True:
        body = {"group_id": group, "member_id": "", "topics": [{"name": "wide", "partitions": parts}]}
        answer = client.ask(ApiKey.OFFSET_COMMIT, body)
        if {each["error_code"] for each in answer["topics"][0]["partitions"]} == {0}:
            return
        assert time.monotonic() < until, answer
        time.sleep(0.02)


def _crowd(broker: BrokerProcess, sizes: Sizes) -> None:
    """Members that joined and hung up: they stay for a session."""
    body = {
        "group_id": CROWD, "session_timeout_ms": 1_800_000, "rebalance_timeout_ms": 600_000, "member_id": "",
        "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": bytes(sizes.metadata_bytes)}],
    }  # fmt: skip
    for _ in range(sizes.members):
        with broker.client() as client:
            client.start(ApiKey.JOIN_GROUP, body, 3)
            time.sleep(0.002)
