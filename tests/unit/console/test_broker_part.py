"""The console's part about brokers: silent brokers, refusals, oversized batches, and links from nodes."""

from __future__ import annotations

from http import HTTPStatus

import pytest
import trio
import trio.testing

from replica.console.broker_part import CLIENT, BrokerPart, related
from replica.console.cluster_view import BROKER_S, ClusterView
from replica.core.errors import ErrorCode, KafkaError, WireError
from replica.runtime.admin_client.fetched_records import wanted_records
from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import Unreachable
from replica.wire.compression import Codec
from replica.wire.records import Record, build
from zab.console.page import Visit


def test_silent_broker_costs_its_part_after_its_time_limit() -> None:
    async def main() -> None:
        view = ClusterView(Client([], CLIENT))

        async def act(broker: int) -> int:
            if broker == 2:
                await trio.sleep_forever()
            if broker == 3:
                raise Unreachable("<refused>")
            return 10 * broker

        began = trio.current_time()
        results, problems = await view.at_each([1, 2, 3, 4], act)
        assert trio.current_time() - began == pytest.approx(BROKER_S)
        assert results == {1: 10, 4: 40}
        assert problems == ("broker 2 has not answered in 4 s", "broker 3: <refused>")

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_cluster_without_a_broker_is_a_line_on_the_page() -> None:
    part = BrokerPart(Client([], CLIENT), "b1:9092")
    assert "the brokers at b1:9092: no broker address is known" in await part.overview()
    with pytest.raises(Unreachable) as raised:
        await part.pages["/topics"](Visit("/topics"))
    refusal = part.explain(raised.value)
    assert refusal is not None
    assert refusal.status is HTTPStatus.SERVICE_UNAVAILABLE


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED), HTTPStatus.FORBIDDEN),
        (KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED), HTTPStatus.FORBIDDEN),
        (KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), HTTPStatus.NOT_FOUND),
        (KafkaError(ErrorCode.CORRUPT_MESSAGE), HTTPStatus.BAD_GATEWAY),
        (WireError("a reply of 99 MiB"), HTTPStatus.BAD_GATEWAY),
        (trio.TooSlowError(), HTTPStatus.GATEWAY_TIMEOUT),
        (ZeroDivisionError(), None),
    ],
)
async def test_expected_errors_have_pages(error: Exception, status: HTTPStatus | None) -> None:
    refusal = BrokerPart(Client([], CLIENT), "").explain(error)
    assert (None if refusal is None else refusal.status) is status


def test_batch_that_grows_too_much_is_refused() -> None:
    batch = build([Record(0, 0, None, b"\0" * 1_000_000)], codec=Codec.GZIP)
    assert len(batch) < 5_000
    assert len(wanted_records(batch, 0).records) == 1
    with pytest.raises(KafkaError) as raised:
        wanted_records(batch, 0, bytes_max=100_000)
    assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_fetched_batches_are_bounded_together() -> None:
    batches = [
        build([Record(10 * index + each, 0, None, b"x" * 1_000) for each in range(10)], codec=Codec.GZIP)
        for index in range(4)
    ]
    data = b"".join(batches)
    assert wanted_records(data, 0).next_offset == 40
    by_count = wanted_records(data, 0, records_max=25)
    assert (len(by_count.records), by_count.next_offset, by_count.damage) == (20, 20, None)
    by_size = wanted_records(data, 0, bytes_max=25_000)
    assert (len(by_size.records), by_size.next_offset) == (20, 20)
    with pytest.raises(KafkaError, match="the batch at offset 0 has 10 records; at most 9 are read"):
        wanted_records(data, 0, records_max=9)


def test_nodes_of_the_brokers_link_to_their_pages() -> None:
    for path in ("/brokers/topics/orders", "/brokers/topics/orders/partitions/0/state"):
        assert list(related(path)) == ['<a href="/topic?name=orders">topic orders</a>']
    assert list(related("/config/topics/a<b")) == ['<a href="/topic?name=a%3Cb">topic a&lt;b</a>']
    assert list(related("/brokers/ids/7")) == ['<a href="/broker?id=7">broker 7</a>']
    assert list(related("/config/brokers/<default>")) == []
    assert list(related("/controller")) == ['<a href="/brokers">the brokers</a>']
    assert list(related("/app")) == []
