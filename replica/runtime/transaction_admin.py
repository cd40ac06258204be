"""What people ask about transactions, put together from what brokers answer: who has which open, and what hangs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from attrs import frozen

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.transactions.transaction_states import TxnState
from replica.runtime.client import Client, raise_for
from replica.runtime.offsets_topic import TRANSACTIONS_TOPIC
from replica.wire.schemas.data import INIT_PRODUCER_ID, InitProducerIdRequest
from replica.wire.schemas.transactions import (
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
    WRITE_TXN_MARKERS,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    TopicRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

OPEN: Final = (TxnState.ONGOING.value, TxnState.PREPARE_COMMIT.value, TxnState.PREPARE_ABORT.value)


@frozen
class Summary:
    id: str
    state: str
    producer: int
    coordinator: int


@frozen
class Described:
    """started_ms   of a transaction that is open; None: none is
    partitions   in the transaction; when it is decided, those that do not know it yet
    """

    id: str
    state: str
    producer: int
    epoch: int
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[TopicPartition, ...]
    coordinator: int


@frozen
class Left:
    """A transaction that is open in a partition. last_ms: when something was written in it last."""

    where: TopicPartition
    producer: int
    epoch: int
    coordinator_epoch: int
    start: int
    last_ms: int


# -- looking -----------------------------------------------------------------------------------------------


async def list_transactions(client: Client, states: Iterable[str] = (), open_for_ms: int = -1) -> list[Summary]:
    """Every broker knows its own only, so all of them are asked."""
    body = ListTransactionsRequest(state_filters=list(states), producer_id_filters=[], duration_filter=open_for_ms)
    there_are = await client.patiently(lambda: _are_coordinated(client))
    found: list[Summary] = []
    for broker in client.brokers:

        async def once(broker: int = broker) -> list[Summary]:
            reply = await client.ask_broker(broker, LIST_TRANSACTIONS, body)
            if reply.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE and not there_are:
                return []
            raise_for(reply.error_code, f"transactions of broker {broker}")
            return [
                Summary(each.transactional_id, each.transaction_state, each.producer_id, broker)
                for each in reply.transaction_states
            ]

        found += await client.patiently(once)
    return sorted(found, key=lambda summary: summary.id)


async def _are_coordinated(client: Client) -> bool:
    """A cluster in which there never was a transaction has nobody to ask for one. A share of them that nobody leads now
    is not to pass for none: what is open in it would be taken for what hangs."""
    [topic] = (await client.metadata([TRANSACTIONS_TOPIC])).topics
    for each in topic.partitions:
        if each.leader_id < 0:
            where = TopicPartition(TRANSACTIONS_TOPIC, each.partition_index)
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"nobody leads {where}, so nobody knows its transactions")
    return bool(topic.partitions)


async def _coordinator(client: Client, name: str) -> int:
    """Found by its list: who asks for the coordinator of a name has the topic made, if there is none."""
    for each in await list_transactions(client):
        if each.id == name:
            return each.coordinator
    raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id {name}")


async def describe(client: Client, name: str) -> Described:
    async def once() -> Described:
        coordinator = await _coordinator(client, name)
        reply = await client.ask_broker(
            coordinator, DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest(transactional_ids=[name])
        )
        [said] = reply.transaction_states
        raise_for(said.error_code, f"transactional id {name}")
        return Described(
            name,
            said.transaction_state,
            said.producer_id,
            said.producer_epoch,
            said.transaction_timeout_ms,
            said.transaction_start_time_ms if said.transaction_state in OPEN else None,
            tuple(TopicPartition(each.topic, number) for each in said.topics for number in each.partitions),
            coordinator,
        )

    return await client.patiently(once)


async def open_in(client: Client, wheres: Iterable[TopicPartition]) -> list[Left]:
    """As the leaders of these partitions know it."""
    found: list[Left] = []
    for where in wheres:

        async def once(where: TopicPartition = where) -> list[Left]:
            leader = (await client.leaders([where.topic])).get(where)
            if leader is None:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"nobody leads {where}, so nobody knows what is open")
            reply = await client.ask_broker(leader, DESCRIBE_PRODUCERS, _named(where))
            [topic] = reply.topics
            [part] = topic.partitions
            raise_for(part.error_code, f"producers of {where}", part.error_message)
            return [
                Left(
                    where,
                    each.producer_id,
                    each.producer_epoch,
                    each.coordinator_epoch,
                    each.current_txn_start_offset,
                    each.last_timestamp,
                )
                for each in part.active_producers
                if each.current_txn_start_offset >= 0
            ]

        found += await client.patiently(once)
    return found


async def hanging(client: Client, wheres: Iterable[TopicPartition], before_ms: int) -> list[Left]:
    """Open in a partition, without anything written since, and no coordinator has the partition in a transaction: so
    nobody will ever end it. A coordinator forgets a transaction when its end is written everywhere. So what was open
    before it was asked, and is still the same afterwards, is none that ended meanwhile."""
    left = [each for each in await open_in(client, wheres) if each.last_ms <= before_ms]
    if not left:
        return []
    bearers = {each.producer: each for each in await list_transactions(client)}
    found = []
    for each in left:
        bearer = bearers.get(each.producer)
        if bearer is not None and bearer.state in OPEN:
            described = await describe(client, bearer.id)
            if each.where in described.partitions and each.producer == described.producer:
                continue
        found.append(each)
    still = {_same(each) for each in await open_in(client, dict.fromkeys(each.where for each in found))}
    return [each for each in found if _same(each) in still]


def _same(left: Left) -> tuple[TopicPartition, int, int, int]:
    return left.where, left.producer, left.epoch, left.start


# -- ending ------------------------------------------------------------------------------------------------


async def end(client: Client, left: Left) -> None:
    """It is written into the partition that the transaction is aborted, as a coordinator would."""
    topics = [WritableTxnMarkerTopic(name=left.where.topic, partition_indexes=[left.where.partition])]
    marker = WritableTxnMarker(
        producer_id=left.producer,
        producer_epoch=left.epoch,
        transaction_result=False,
        topics=topics,
        coordinator_epoch=max(left.coordinator_epoch, 0),
    )

    async def once() -> None:
        leader = (await client.leaders([left.where.topic])).get(left.where)
        if leader is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"nobody leads {left.where}")
        reply = await client.ask_broker(leader, WRITE_TXN_MARKERS, WriteTxnMarkersRequest(markers=[marker]))
        code = reply.markers[0].topics[0].partitions[0].error_code
        raise_for(code, f"the end of a transaction in {left.where}")

    await client.patiently(once)


async def abort(client: Client, name: str) -> None:
    """The name is taken from its producer, and what he has open is aborted everywhere before this returns."""
    timeout_ms = (await describe(client, name)).timeout_ms
    body = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout_ms)

    async def once() -> None:
        coordinator = await _coordinator(client, name)
        reply = await client.ask_broker(coordinator, INIT_PRODUCER_ID, body)
        raise_for(reply.error_code, f"transactional id {name}")  # CONCURRENT_TRANSACTIONS while partitions are told

    await client.patiently(once)


def _named(where: TopicPartition) -> DescribeProducersRequest:
    return DescribeProducersRequest(topics=[TopicRequest(where.topic, [where.partition])])
