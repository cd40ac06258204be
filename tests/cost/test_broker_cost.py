"""The cost to a broker of hostile requests of every API, beside an honest request, and to its other clients.

The broker and its store run in processes of their own. The state is hostile, too: see `tests.cost.broker_state`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from random import Random
from typing import Final

import pytest
from attrs import frozen

from replica.wire.api import ApiKey
from replica.wire.schemas import APIS
from tests.cost.broker_process import USER, BrokerProcess, broker_process
from tests.cost.broker_requests import (
    Hostile,
    Known,
    Shape,
    batches,
    edges,
    lying,
    offered,
    produce,
    request,
    shapes,
)
from tests.cost.broker_state import Sizes, build
from tests.cost.meter import Meter

SEED: Final = int(os.environ.get("COST_SEED", "1"))
ELEMENTS: Final = int(os.environ.get("COST_ELEMENTS", "1000"))
LONG: Final = "COST_SEED" in os.environ
"""`make fuzz-cost`: every version of every API, and more elements."""
BYTES: Final = 1 << 18
STALL_MAX: Final = 40
"""In controls: an honest request that names as many topics as a hostile one has elements."""
WORK_MAX: Final = 6
"""The same of all work that one request causes, on average over those of one API."""
WORK_OF_OPERATORS: Final = {ApiKey.DESCRIBE_ACLS: 30, ApiKey.DELETE_ACLS: 30}
"""Requests that need rights over the cluster, and read all ACLs of the store."""
GROWTH_MAX: Final = 256 << 20
ANSWER_S: Final = 0.1
"""Requests at the edges of numbers may ask the broker to wait for weeks."""
DESTROYERS: Final = frozenset(
    {ApiKey.DELETE_TOPICS, ApiKey.DELETE_GROUPS, ApiKey.DELETE_RECORDS, ApiKey.OFFSET_DELETE, ApiKey.WRITE_TXN_MARKERS}
)
"""With names that exist they would take the state apart."""
WRITERS: Final = frozenset({ApiKey.CREATE_ACLS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS})
"""Each element is a change in the store, which `validate_only` does not spare."""


@frozen
class Running:
    broker: BrokerProcess
    known: Known


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("broker")
    with broker_process(path) as broker:
        yield Running(broker, build(broker, Sizes()))


@pytest.fixture
def meter(running: Running) -> Iterator[Meter]:
    """Its unit is a METADATA request for as many topics as a hostile request has elements.

    It is calibrated for each test, because the same work costs more while others use the processor's caches.
    """
    broker, count = running.broker, ELEMENTS // 2
    wanted = [*running.known.topics, *(f"missing-{number}" for number in range(count))][:count]
    body = {"topics": [{"name": each, "topic_id": None} for each in wanted], "allow_auto_topic_creation": False}
    versions = {"client_software_name": "bystander", "client_software_version": "1"}
    with broker.client() as honest, broker.client() as other:

        def control() -> None:
            assert len(honest.ask(ApiKey.METADATA, body)["topics"]) == count

        with Meter(broker.pid, broker.log, control, lambda: other.ask(ApiKey.API_VERSIONS, versions)) as made:
            yield made


def _requests(known: Known, key: ApiKey, versions: list[int], elements: int, random: Random) -> Iterator[Hostile]:
    for version in versions:
        for shape in shapes(BYTES, elements // 20 if key in WRITERS else elements):
            if key in DESTROYERS and shape.names not in ("unknown", "empty"):
                continue
            if (made := request(known, key, version, shape, random)) is not None:
                yield made


APIS_OFFERED: Final = sorted({key for key, _ in offered()})


@pytest.mark.slow
@pytest.mark.parametrize("key", APIS_OFFERED, ids=lambda key: key.name)
def test_hostile_sizes_cost_no_more_than_honest_ones(key: ApiKey, running: Running, meter: Meter) -> None:
    api, random, broker = APIS[key], Random(SEED + key), running.broker
    every = range(api.first, api.last + 1)
    versions = list(every) if LONG else sorted({api.last, random.choice(every)})
    wanted = list(_requests(running.known, key, versions, ELEMENTS, random))
    before = broker.rss_bytes

    users = (None, USER)
    thrown = list(product(users, wanted)) if LONG else [(users[at % 2], each) for at, each in enumerate(wanted)]

    def throw() -> None:
        for user, each in thrown:
            with broker.client(user) as client:
                client.exchange(each.frame)

    work_max = WORK_OF_OPERATORS.get(key, WORK_MAX) * len(thrown)
    meter.measure(throw).check(key.name, work_max=work_max, stall_max=STALL_MAX)
    assert broker.rss_bytes - before < GROWTH_MAX


@pytest.mark.slow
def test_lies_about_lengths_cost_nothing(running: Running, meter: Meter) -> None:
    random, broker = Random(SEED), running.broker
    small = [
        made
        for key in APIS_OFFERED
        if key not in DESTROYERS
        and (made := request(running.known, key, APIS[key].last, Shape("lies", 3, 3), random)) is not None
    ]
    frames = [frame for each in small for frame in lying(each.frame, random, 8)]

    def throw() -> None:
        for frame in frames:
            with broker.client() as client:
                client.exchange(frame, ANSWER_S)

    meter.measure(throw).check("lies", work_max=len(frames), stall_max=STALL_MAX)


@pytest.mark.slow
def test_numbers_at_the_edges_of_their_types_stop_no_service(running: Running, meter: Meter) -> None:
    random, broker = Random(SEED), running.broker
    wanted = [
        each
        for key, version in offered()
        if key not in DESTROYERS
        for each in edges(running.known, key, version, random)
    ]

    def throw() -> None:
        for first in range(0, len(wanted), 50):
            with ExitStack() as stack:
                clients = [stack.enter_context(broker.client()) for _ in wanted[first : first + 50]]
                for client, each in zip(clients, wanted[first:], strict=False):
                    client.send(each.frame)
                for client in clients:
                    client.exchange(b"", 0.01)

    before = broker.rss_bytes
    meter.measure(throw).check("edges", work_max=len(wanted), stall_max=STALL_MAX)
    assert broker.rss_bytes - before < GROWTH_MAX
    _serves_all(broker)


@pytest.mark.slow
def test_batches_cost_no_more_than_they_may(running: Running, meter: Meter) -> None:
    broker = running.broker
    before = broker.rss_bytes
    for name, batch in batches(Random(SEED)):

        def throw(batch: bytes = batch) -> None:
            with broker.client() as client:
                client.exchange(produce("t-1", batch, 9))

        meter.measure(throw).check(name, work_max=100 * WORK_MAX, stall_max=2 * STALL_MAX)
    assert broker.rss_bytes - before < 2 * GROWTH_MAX


def _serves_all(broker: BrokerProcess) -> None:
    """Groups, transactions, records and topics are served to a newcomer."""
    with broker.client() as client:
        assert client.ask(ApiKey.LIST_GROUPS, {"states_filter": []})["error_code"] == 0
        assert client.ask(ApiKey.LIST_TRANSACTIONS, {"duration_filter": -1})["error_code"] == 0
        positions = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
        body = {"group_id": "g-new", "member_id": "", "topics": [{"name": "t-2", "partitions": positions}]}
        committed = client.ask(ApiKey.OFFSET_COMMIT, body)
        assert committed["topics"][0]["partitions"][0]["error_code"] == 0
        ident = {"transactional_id": "x-new", "transaction_timeout_ms": 60_000, "producer_id": -1}
        assert client.ask(ApiKey.INIT_PRODUCER_ID, {**ident, "producer_epoch": -1})["error_code"] == 0
