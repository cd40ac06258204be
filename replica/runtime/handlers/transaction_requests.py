"""`AddPartitionsToTxn`, `AddOffsetsToTxn` and `EndTxn` of transactional producers, and `DescribeTransactions` and
`ListTransactions` of administrators.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from attrs import frozen

from kraft_controller.core.names import INTERNAL, TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.transactions.transaction_messages import (
    AddPartitions,
    Ask,
    DescribedTransaction,
    DescribeTransaction,
    End,
    ListedTransactions,
    ListTransactions,
    ProducerIdentity,
    TransactionDone,
)
from replica.core.transactions.transaction_states import TxnState
from replica.runtime.coordination.transaction_coordinator_runtime import TransactionCoordinatorRuntime
from replica.runtime.requests import Handlers, Request, Turns, handler_table, handles
from replica.wire.schemas.transaction_schemas import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    LIST_TRANSACTIONS,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TopicData,
    TransactionState,
)

_FENCED_SINCE: Final = 2
"""The first version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn whose clients know PRODUCER_FENCED. Clients with
an earlier version receive INVALID_PRODUCER_EPOCH."""
_STATES: Final = {state.value: state for state in TxnState}

R = TypeVar("R")


def handlers(
    transactions: TransactionCoordinatorRuntime,
    known: Callable[[TopicPartition], bool],
    offsets_partitions: Callable[[], Awaitable[int]],
) -> Handlers:
    """Return the handlers.

    `known` returns whether a partition exists. `offsets_partitions` returns the number of partitions of the offsets
    topic, which it creates if it is missing; it raises `KafkaError` if the topic is still missing then.
    """
    requests = _TransactionRequests(transactions, known, offsets_partitions)
    return handler_table(
        handles(ADD_PARTITIONS_TO_TXN, requests.add_partitions),
        handles(ADD_OFFSETS_TO_TXN, requests.add_offsets),
        handles(END_TXN, requests.end),
        handles(DESCRIBE_TRANSACTIONS, requests.describe),
        handles(LIST_TRANSACTIONS, requests.list_transactions),
    )


@frozen
class _TransactionRequests:
    transactions: TransactionCoordinatorRuntime
    known: Callable[[TopicPartition], bool]
    offsets_partitions: Callable[[], Awaitable[int]]

    async def _ask(self, ask: Ask, expected: type[R]) -> R:
        reply = await self.transactions.ask(ask)
        assert isinstance(reply, expected)
        return reply

    async def _done(self, ask: Ask, version: int) -> ErrorCode:
        return for_version((await self._ask(ask, TransactionDone)).error, version)

    # -- producers -------------------------------------------------------------------------------------------

    async def add_partitions(self, request: Request[AddPartitionsToTxnRequest]) -> AddPartitionsToTxnResponse:
        """Add all partitions; add none if one of them cannot be added."""
        topics = request.body.topics
        wheres = [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]
        errors = {where: error for where in wheres if (error := self._error_of(where)) is not ErrorCode.NONE}
        if errors:
            return _by_topic(topics, dict.fromkeys(wheres, ErrorCode.OPERATION_NOT_ATTEMPTED) | errors)
        error = await self._done(AddPartitions(_identity(request.body), frozenset(wheres)), request.version)
        return _by_topic(topics, dict.fromkeys(wheres, error))

    def _error_of(self, where: TopicPartition) -> ErrorCode:
        if where.topic in INTERNAL:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return ErrorCode.NONE if self.known(where) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async def add_offsets(self, request: Request[AddOffsetsToTxnRequest]) -> AddOffsetsToTxnResponse:
        """Add to the transaction the partition of the offsets topic that stores the offsets of the group."""
        body = request.body
        try:
            count = await self.offsets_partitions()
        except KafkaError as error:
            return AddOffsetsToTxnResponse(error_code=error.code)
        ask = AddPartitions.storing_offsets(_identity(body), body.group_id, count)
        return AddOffsetsToTxnResponse(error_code=await self._done(ask, request.version))

    async def end(self, request: Request[EndTxnRequest]) -> EndTxnResponse:
        body = request.body
        return EndTxnResponse(error_code=await self._done(End(_identity(body), body.committed), request.version))

    # -- administration -------------------------------------------------------------------------------------------

    async def describe(self, request: Request[DescribeTransactionsRequest]) -> DescribeTransactionsResponse:
        described, turns = [], Turns()
        for name in dict.fromkeys(request.body.transactional_ids):
            await turns.step()
            described.append(await self._described(name))
        return DescribeTransactionsResponse(transaction_states=described)

    async def _described(self, name: str) -> TransactionState:
        found = await self._ask(DescribeTransaction(name), DescribedTransaction)
        if found.error is not ErrorCode.NONE:
            return TransactionState(error_code=found.error, transactional_id=name)
        topics: dict[str, list[int]] = {}
        for where in found.partitions:
            topics.setdefault(where.topic, []).append(where.partition)
        return TransactionState(
            error_code=ErrorCode.NONE,
            transactional_id=name,
            transaction_state=found.state.value,
            transaction_timeout_ms=found.timeout_ms,
            transaction_start_time_ms=found.started_ms,
            producer_id=found.producer,
            producer_epoch=found.epoch,
            topics=[TopicData(topic=topic, partitions=numbers) for topic, numbers in topics.items()],
        )

    async def list_transactions(self, request: Request[ListTransactionsRequest]) -> ListTransactionsResponse:
        body = request.body
        named = body.state_filters
        states = frozenset(_STATES[name] for name in named if name in _STATES)
        unknown = [name for name in named if name not in _STATES]
        if unknown and not states:
            return ListTransactionsResponse(
                error_code=ErrorCode.NONE, unknown_state_filters=unknown, transaction_states=[]
            )
        ask = ListTransactions(states, frozenset(body.producer_id_filters), body.duration_filter)
        listed = await self._ask(ask, ListedTransactions)
        return ListTransactionsResponse(
            error_code=listed.error,
            unknown_state_filters=unknown,
            transaction_states=[
                ListedTransaction(
                    transactional_id=each.id,
                    producer_id=each.producer,
                    transaction_state=each.state.value,
                )
                for each in listed.transactions
            ],
        )


def for_version(error: ErrorCode, version: int, since: int = _FENCED_SINCE) -> ErrorCode:
    fenced = error is ErrorCode.PRODUCER_FENCED and version < since
    return ErrorCode.INVALID_PRODUCER_EPOCH if fenced else error


def _identity(body: AddPartitionsToTxnRequest | AddOffsetsToTxnRequest | EndTxnRequest) -> ProducerIdentity:
    return ProducerIdentity(body.transactional_id, body.producer_id, body.producer_epoch)


def _by_topic(
    topics: list[AddPartitionsToTxnTopic], errors: dict[TopicPartition, ErrorCode]
) -> AddPartitionsToTxnResponse:
    """Return the errors in the order of the request."""
    return AddPartitionsToTxnResponse(
        results_by_topic=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=number,
                        partition_error_code=errors[TopicPartition(topic.name, number)],
                    )
                    for number in topic.partitions
                ],
            )
            for topic in topics
        ]
    )
