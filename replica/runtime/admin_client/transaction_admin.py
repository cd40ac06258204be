"""Administration of transactions: list and describe them, and find and end hanging ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from attrs import frozen

from kraft_controller.core.names import TRANSACTIONS_TOPIC, TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.transactions.transaction_states import TxnState
from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import raise_for
from replica.wire.schemas.data_schemas import INIT_PRODUCER_ID, InitProducerIdRequest
from replica.wire.schemas.transaction_schemas import (
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
class TransactionSummary:
    id: str
    state: str
    producer: int
    coordinator: int


@frozen
class TransactionDescription:
    """started_ms   when the transaction started; None if it is complete, or if there is none
    partitions   the partitions of the transaction; after the decision, those without a marker
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
class PartitionTransaction:
    """A transaction that is open in a partition. `last_ms`: the time of its last batch."""

    where: TopicPartition
    producer: int
    epoch: int
    coordinator_epoch: int
    start: int
    last_ms: int


# -- reading -----------------------------------------------------------------------------------------------


async def list_transactions(
    client: Client, states: Iterable[str] = (), open_for_ms: int = -1
) -> list[TransactionSummary]:
    """Return the transactional ids of all brokers: each broker lists only those that it coordinates."""
    have_topic = await client.patiently(lambda: have_coordinators(client))
    found: list[TransactionSummary] = []
    for broker in client.brokers:
        found += await transactions_of(client, broker, states, open_for_ms, have_topic=have_topic)
    return sorted(found, key=lambda summary: summary.id)


async def transactions_of(
    client: Client, broker: int, states: Iterable[str] = (), open_for_ms: int = -1, *, have_topic: bool = True
) -> list[TransactionSummary]:
    """Return the transactional ids that one broker coordinates: none if the transactions topic does not exist."""
    body = ListTransactionsRequest(state_filters=list(states), producer_id_filters=[], duration_filter=open_for_ms)

    async def once() -> list[TransactionSummary]:
        reply = await client.ask_broker(broker, LIST_TRANSACTIONS, body)
        if reply.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE and not have_topic:
            return []
        raise_for(reply.error_code, f"transactions of broker {broker}")
        return [
            TransactionSummary(each.transactional_id, each.transaction_state, each.producer_id, broker)
            for each in reply.transaction_states
        ]

    return await client.patiently(once)


async def have_coordinators(client: Client) -> bool:
    """Return whether the transactions topic exists. Raises `KafkaError` if one of its partitions has no leader.

    Without this error, the transactions of that partition would be missing from the list and considered hanging.
    """
    [topic] = (await client.metadata([TRANSACTIONS_TOPIC])).topics
    for each in topic.partitions:
        if each.leader_id < 0:
            where = TopicPartition(TRANSACTIONS_TOPIC, each.partition_index)
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{where} has no leader, so its transactions are unknown")
    return bool(topic.partitions)


async def _coordinator(client: Client, name: str) -> int:
    """Return the coordinator of a transactional id, from the lists of all brokers. FindCoordinator would create the
    topic."""
    for each in await list_transactions(client):
        if each.id == name:
            return each.coordinator
    raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id {name}")


async def describe(client: Client, name: str) -> TransactionDescription:
    async def once() -> TransactionDescription:
        coordinator = await _coordinator(client, name)
        reply = await client.ask_broker(
            coordinator, DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest(transactional_ids=[name])
        )
        [found] = reply.transaction_states
        raise_for(found.error_code, f"transactional id {name}")
        return TransactionDescription(
            name,
            found.transaction_state,
            found.producer_id,
            found.producer_epoch,
            found.transaction_timeout_ms,
            found.transaction_start_time_ms if found.transaction_state in OPEN else None,
            tuple(TopicPartition(each.topic, number) for each in found.topics for number in each.partitions),
            coordinator,
        )

    return await client.patiently(once)


async def open_in(client: Client, wheres: Iterable[TopicPartition]) -> list[PartitionTransaction]:
    """Return the open transactions of these partitions, as their leaders report them."""
    found: list[PartitionTransaction] = []
    for where in wheres:

        async def once(where: TopicPartition = where) -> list[PartitionTransaction]:
            leader = (await client.leaders([where.topic])).get(where)
            if leader is None:
                raise KafkaError(
                    ErrorCode.LEADER_NOT_AVAILABLE, f"{where} has no leader, so its open transactions are unknown"
                )
            reply = await client.ask_broker(leader, DESCRIBE_PRODUCERS, _named(where))
            [topic] = reply.topics
            [part] = topic.partitions
            raise_for(part.error_code, f"producers of {where}", part.error_message)
            return [
                PartitionTransaction(
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


async def hanging(client: Client, wheres: Iterable[TopicPartition], before_ms: int) -> list[PartitionTransaction]:
    """Return the transactions that are open in a partition although no coordinator will end them.

    Their last batch is not newer than `before_ms`, and no coordinator has an open transaction of the producer with the
    partition. A coordinator removes a partition from a transaction when the partition has the marker. So the leaders
    are asked both before and after the coordinators: a transaction that is open both times did not end in between.
    """
    candidates = [each for each in await open_in(client, wheres) if each.last_ms <= before_ms]
    if not candidates:
        return []
    owners = {each.producer: each for each in await list_transactions(client)}
    found = []
    for each in candidates:
        owner = owners.get(each.producer)
        if owner is not None and owner.state in OPEN:
            described = await describe(client, owner.id)
            if each.where in described.partitions and each.producer == described.producer:
                continue
        found.append(each)
    still = {_identity(each) for each in await open_in(client, dict.fromkeys(each.where for each in found))}
    return [each for each in found if _identity(each) in still]


def _identity(transaction: PartitionTransaction) -> tuple[TopicPartition, int, int, int]:
    return transaction.where, transaction.producer, transaction.epoch, transaction.start


# -- ending ------------------------------------------------------------------------------------------------


async def end(client: Client, transaction: PartitionTransaction) -> None:
    """Write an abort marker into the partition, as a coordinator would."""
    topics = [WritableTxnMarkerTopic(name=transaction.where.topic, partition_indexes=[transaction.where.partition])]
    marker = WritableTxnMarker(
        producer_id=transaction.producer,
        producer_epoch=transaction.epoch,
        transaction_result=False,
        topics=topics,
        coordinator_epoch=max(transaction.coordinator_epoch, 0),
    )

    async def once() -> None:
        leader = (await client.leaders([transaction.where.topic])).get(transaction.where)
        if leader is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{transaction.where} has no leader")
        reply = await client.ask_broker(leader, WRITE_TXN_MARKERS, WriteTxnMarkersRequest(markers=[marker]))
        code = reply.markers[0].topics[0].partitions[0].error_code
        raise_for(code, f"abort marker for {transaction.where}")

    await client.patiently(once)


async def abort(client: Client, name: str) -> None:
    """Fence the producer of a transactional id, and abort its open transaction. Return when no partition has an open
    transaction of this id."""
    timeout_ms = (await describe(client, name)).timeout_ms
    body = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout_ms)

    async def once() -> None:
        coordinator = await _coordinator(client, name)
        reply = await client.ask_broker(coordinator, INIT_PRODUCER_ID, body)
        # CONCURRENT_TRANSACTIONS is retried until all markers are written
        raise_for(reply.error_code, f"transactional id {name}")

    await client.patiently(once)


def _named(where: TopicPartition) -> DescribeProducersRequest:
    return DescribeProducersRequest(topics=[TopicRequest(where.topic, [where.partition])])
