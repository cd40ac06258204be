"""Requests that are harmless one by one, by the thousand: a later one costs no more than the first ones did.

Each flood is sent in rounds of the same size; the state that it leaves behind must not make a round dearer, and the
memory that a round adds is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from statistics import median
from typing import Any, Final

import pytest

from replica.wire.api import ApiKey
from replica.wire.messages import encode_request
from replica.wire.records import Record, build
from replica.wire.schemas import APIS
from tests.cost.broker_process import BrokerProcess, Client, broker_process
from tests.cost.broker_state import Sizes
from tests.cost.broker_state import build as build_state
from tests.cost.meter import cpu_ns
from tests.kafka_bodies import body_of

ROUNDS: Final = 6
SIZE: Final = 400
SIZES: Final = {"fetch sessions": 200, "quotas": 200, "acls": 200}
"""Requests in a round of those that cost ten times as much as the others. All rounds of fetch sessions together open
more than the broker keeps."""
DEARER_MAX: Final = 2
"""The CPU time of the last rounds, in those of the first."""
GROWTH_MAX: Final = 96 << 20
"""Bytes that all rounds add."""
Round = Callable[[Client, int], bytes]
INT_MAX: Final = (1 << 31) - 1


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_process(tmp_path_factory.mktemp("broker")) as made:
        build_state(made, Sizes(topics=20, partitions=300, entries=10, prefixes=3, groups=2, members=2))
        yield made


def frame(api: ApiKey, body: dict[str, Any], version: int | None = None, client_id: str = "flood") -> bytes:
    spoken = APIS[api]
    return encode_request(
        spoken, spoken.last if version is None else version, 1, client_id, body_of(spoken.request, body)
    )


def join(number: int) -> bytes:
    """The id that it is given is never used."""
    return frame(
        ApiKey.JOIN_GROUP,
        {
            "group_id": "flood", "session_timeout_ms": 1_800_000, "rebalance_timeout_ms": 1_800_000, "member_id": "",
            "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}],
        },
        7,
        f"client-{number}",
    )  # fmt: skip


def commit(number: int) -> bytes:
    parts = [{"partition_index": 0, "committed_offset": number, "committed_metadata": ""}]
    return frame(
        ApiKey.OFFSET_COMMIT,
        {"group_id": f"flood-{number}", "member_id": "", "topics": [{"name": "wide", "partitions": parts}]},
    )


def transactional_id(number: int) -> bytes:
    ident = {"transactional_id": f"flood-{number}", "transaction_timeout_ms": 60_000}
    return frame(ApiKey.INIT_PRODUCER_ID, {**ident, "producer_id": -1, "producer_epoch": -1})


def producer(number: int) -> bytes:
    """Another producer each time, with its first batch."""
    batch = build([Record(0, 1, None, b"v")], producer_id=1_000_000 + number, producer_epoch=0, base_sequence=0)
    parts = [{"index": 0, "records": batch}]
    body = {
        "transactional_id": None,
        "acks": 1,
        "timeout_ms": 0,
        "topic_data": [{"name": "t-1", "partition_data": parts}],
    }
    return frame(ApiKey.PRODUCE, body)


@cache
def _session() -> bytes:
    partition = {
        "current_leader_epoch": -1, "fetch_offset": 1 << 40, "last_fetched_epoch": -1, "log_start_offset": -1,
        "partition_max_bytes": 1,
    }  # fmt: skip
    parts = [{"partition": each, **partition} for each in range(300)]
    return frame(
        ApiKey.FETCH,
        {
            "replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1, "isolation_level": 0, "session_id": 0,
            "session_epoch": 0, "topics": [{"topic": "wide", "partitions": parts}], "forgotten_topics_data": [],
            "rack_id": "",
        },
    )  # fmt: skip


def session(number: int) -> bytes:
    """A fetch session of 300 partitions, that is left. The broker opens one for each such request."""
    return _session()


def quota(number: int) -> bytes:
    entity = [{"entity_type": "client-id", "entity_name": f"flood-{number}"}]
    ops = [{"key": "producer_byte_rate", "value": 1e9, "remove": False}]
    return frame(ApiKey.ALTER_CLIENT_QUOTAS, {"entries": [{"entity": entity, "ops": ops}], "validate_only": False})


def client_id(number: int) -> bytes:
    body = {"topics": [{"name": f"unknown-{number}", "topic_id": None}], "allow_auto_topic_creation": False}
    return frame(ApiKey.METADATA, body, client_id=f"client-{number}")


def acl(number: int) -> bytes:
    return frame(
        ApiKey.CREATE_ACLS,
        {
            "creations": [
                {
                    "resource_type": 2, "resource_name": f"flood-{number}", "resource_pattern_type": 3,
                    "principal": "User:a", "host": "*", "operation": 3, "permission_type": 3,
                }
            ]
        },
    )  # fmt: skip


FLOODS: Final[dict[str, Callable[[int], bytes]]] = {
    "members": join,
    "groups": commit,
    "transactional ids": transactional_id,
    "producers": producer,
    "fetch sessions": session,
    "client ids": client_id,
    "quotas": quota,
    "acls": acl,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_makes_its_requests_no_dearer(name: str, broker: BrokerProcess) -> None:
    numbers, spent, size = count(), [], SIZES.get(name, SIZE)
    before = broker.rss_bytes
    with broker.client() as client:
        for _ in range(ROUNDS):
            began = cpu_ns(broker.pid)
            for _turn in range(size // 50):
                client.send(b"".join(FLOODS[name](next(numbers)) for _ in range(50)))
                for _ in range(50):
                    client.receive()
            spent.append(cpu_ns(broker.pid) - began)
    print(name, [f"{each / 1e6 / size:.2f}" for each in spent], (broker.rss_bytes - before) >> 20)
    assert median(spent[-2:]) < DEARER_MAX * median(spent[:2]), spent
    assert broker.rss_bytes - before < GROWTH_MAX
