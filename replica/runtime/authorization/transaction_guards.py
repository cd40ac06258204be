"""Guards for transactions: running one needs WRITE on its transactional id, describing or listing it needs DESCRIBE.

Topics and groups in these requests need permissions of their own.
"""

from __future__ import annotations

from typing import Final, Protocol, TypeVar

from attrs import evolve

from replica.core.errors import ErrorCode
from replica.core.security.acls import Operation
from replica.runtime.authorization.group_guards import refused_parts
from replica.runtime.authorization.guard import (
    GROUP_REFUSED,
    TOPIC_REFUSED,
    GuardedRequest,
    GuardTable,
    entry,
    guard_table,
    split,
)
from replica.runtime.requests import Handler
from replica.wire.schemas.transaction_schemas import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    LIST_TRANSACTIONS,
    TXN_OFFSET_COMMIT,
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
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

_REFUSED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


class _TransactionRequest(Protocol):
    transactional_id: str


Q = TypeVar("Q", bound=_TransactionRequest)


def _owns_transactional_id(guarded: GuardedRequest[Q]) -> bool:
    return guarded.transactional_id(Operation.WRITE, guarded.body.transactional_id)


async def _add_partitions(
    guarded: GuardedRequest[AddPartitionsToTxnRequest],
    handler: Handler[AddPartitionsToTxnRequest, AddPartitionsToTxnResponse],
) -> AddPartitionsToTxnResponse:
    """Refuse all partitions if the client may not write to one of them: AddPartitionsToTxn adds all or none."""
    topics = guarded.body.topics
    if not _owns_transactional_id(guarded):
        return AddPartitionsToTxnResponse(results_by_topic=[_refused(each, _REFUSED) for each in topics])
    permitted = guarded.topics(Operation.WRITE, [each.name for each in topics])
    if all(each.name in permitted for each in topics):
        return await handler(guarded.request)
    errors = {each.name: ErrorCode.OPERATION_NOT_ATTEMPTED for each in topics if each.name in permitted}
    return AddPartitionsToTxnResponse(
        results_by_topic=[_refused(each, errors.get(each.name, TOPIC_REFUSED)) for each in topics]
    )


def _refused(topic: AddPartitionsToTxnTopic, error: ErrorCode) -> AddPartitionsToTxnTopicResult:
    results = [
        AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=error)
        for number in topic.partitions
    ]
    return AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=results)


async def _add_offsets(
    guarded: GuardedRequest[AddOffsetsToTxnRequest], handler: Handler[AddOffsetsToTxnRequest, AddOffsetsToTxnResponse]
) -> AddOffsetsToTxnResponse:
    if not _owns_transactional_id(guarded):
        return AddOffsetsToTxnResponse(error_code=_REFUSED)
    if not guarded.group(Operation.READ, guarded.body.group_id):
        return AddOffsetsToTxnResponse(error_code=GROUP_REFUSED)
    return await handler(guarded.request)


async def _end(
    guarded: GuardedRequest[EndTxnRequest], handler: Handler[EndTxnRequest, EndTxnResponse]
) -> EndTxnResponse:
    return await handler(guarded.request) if _owns_transactional_id(guarded) else EndTxnResponse(error_code=_REFUSED)


async def _commit(
    guarded: GuardedRequest[TxnOffsetCommitRequest], handler: Handler[TxnOffsetCommitRequest, TxnOffsetCommitResponse]
) -> TxnOffsetCommitResponse:
    if not _owns_transactional_id(guarded):
        return TxnOffsetCommitResponse(topics=[refused_parts(each, _REFUSED) for each in guarded.body.topics])
    if not guarded.group(Operation.READ, guarded.body.group_id):
        return TxnOffsetCommitResponse(topics=[refused_parts(each, GROUP_REFUSED) for each in guarded.body.topics])
    permitted = guarded.topics(Operation.READ, [each.name for each in guarded.body.topics])
    passed, refused = split(guarded.body.topics, lambda each: each.name in permitted)
    if not refused:
        return await handler(guarded.request)
    body = evolve(guarded.body, topics=passed)
    response = await handler(guarded.with_body(body)) if passed else TxnOffsetCommitResponse()
    return evolve(response, topics=[*response.topics, *(refused_parts(each, TOPIC_REFUSED) for each in refused)])


# -- listings -------------------------------------------------------------------------------------------------


async def _describe(
    guarded: GuardedRequest[DescribeTransactionsRequest],
    handler: Handler[DescribeTransactionsRequest, DescribeTransactionsResponse],
) -> DescribeTransactionsResponse:
    """Return the transactions that the client may describe, each with only the topics that the client may describe."""
    names = guarded.body.transactional_ids
    permitted = {name for name in dict.fromkeys(names) if guarded.transactional_id(Operation.DESCRIBE, name)}
    passed, refused = split(names, lambda name: name in permitted)
    body = evolve(guarded.body, transactional_ids=passed)
    reply = await handler(guarded.with_body(body)) if passed else DescribeTransactionsResponse()
    found = reply.transaction_states
    topics = [topic.topic for each in found for topic in each.topics]
    seen = guarded.topics(Operation.DESCRIBE, topics, quiet=True)
    shown = [evolve(each, topics=[topic for topic in each.topics if topic.topic in seen]) for each in found]
    hidden = [TransactionState(error_code=_REFUSED, transactional_id=name) for name in refused]
    return evolve(reply, transaction_states=[*shown, *hidden])


async def _list(
    guarded: GuardedRequest[ListTransactionsRequest],
    handler: Handler[ListTransactionsRequest, ListTransactionsResponse],
) -> ListTransactionsResponse:
    reply = await handler(guarded.request)
    seen = [
        each
        for each in reply.transaction_states
        if guarded.transactional_id(Operation.DESCRIBE, each.transactional_id, quiet=True)
    ]
    return evolve(reply, transaction_states=seen)


GUARDS: Final[GuardTable] = guard_table(
    entry(ADD_PARTITIONS_TO_TXN, _add_partitions),
    entry(ADD_OFFSETS_TO_TXN, _add_offsets),
    entry(END_TXN, _end),
    entry(TXN_OFFSET_COMMIT, _commit),
    entry(DESCRIBE_TRANSACTIONS, _describe),
    entry(LIST_TRANSACTIONS, _list),
)
