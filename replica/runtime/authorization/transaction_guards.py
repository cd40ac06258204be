"""Guards for transactions: running one needs WRITE on its transactional id, listings need DESCRIBE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve

from replica.core.errors import ErrorCode
from replica.core.security.acls import Operation
from replica.runtime.authorization.group_guards import commit, refused_parts
from replica.runtime.authorization.guard import GROUP_REFUSED, TOPIC_REFUSED, Guard, GuardedRequest, handle_permitted
from replica.runtime.requests import ApiKey, Handler
from replica.wire.schemas.transaction_schemas import (
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


def _owns_transactional_id(guarded: GuardedRequest[Any]) -> bool:
    return guarded.transactional_id(Operation.WRITE, guarded.body.transactional_id)


async def _add_partitions(guarded: GuardedRequest[AddPartitionsToTxnRequest], handler: Handler) -> Any:
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


async def _add_offsets(guarded: GuardedRequest[AddOffsetsToTxnRequest], handler: Handler) -> Any:
    if not _owns_transactional_id(guarded):
        return AddOffsetsToTxnResponse(error_code=_REFUSED)
    if not guarded.group(Operation.READ, guarded.body.group_id):
        return AddOffsetsToTxnResponse(error_code=GROUP_REFUSED)
    return await handler(guarded.request)


async def _end(guarded: GuardedRequest[EndTxnRequest], handler: Handler) -> Any:
    return await handler(guarded.request) if _owns_transactional_id(guarded) else EndTxnResponse(error_code=_REFUSED)


async def _commit(guarded: GuardedRequest[TxnOffsetCommitRequest], handler: Handler) -> Any:
    if not _owns_transactional_id(guarded):
        return TxnOffsetCommitResponse(topics=[refused_parts(each, _REFUSED) for each in guarded.body.topics])
    return await commit(guarded, handler)


# -- listings -------------------------------------------------------------------------------------------------


async def _describe(
    guarded: GuardedRequest[DescribeTransactionsRequest], handler: Handler
) -> DescribeTransactionsResponse:
    """Return the transactions that the client may describe, with only the topics that it may describe."""
    names = guarded.body.transactional_ids
    permitted = {name for name in dict.fromkeys(names) if guarded.transactional_id(Operation.DESCRIBE, name)}
    reply: DescribeTransactionsResponse = await handle_permitted(
        guarded, handler, "transactional_ids", [name for name in names if name in permitted]
    )
    found = reply.transaction_states
    topics = [topic.topic for each in found for topic in each.topics]
    seen = guarded.topics(Operation.DESCRIBE, topics, quiet=True)
    shown = [evolve(each, topics=[topic for topic in each.topics if topic.topic in seen]) for each in found]
    hidden = [TransactionState(error_code=_REFUSED, transactional_id=name) for name in names if name not in permitted]
    return evolve(reply, transaction_states=[*shown, *hidden])


async def _list(guarded: GuardedRequest[ListTransactionsRequest], handler: Handler) -> ListTransactionsResponse:
    reply: ListTransactionsResponse = await handler(guarded.request)
    seen = [
        each
        for each in reply.transaction_states
        if guarded.transactional_id(Operation.DESCRIBE, each.transactional_id, quiet=True)
    ]
    return evolve(reply, transaction_states=seen)


GUARDS: Final[Mapping[ApiKey, Guard]] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: _add_offsets,
    ApiKey.END_TXN: _end,
    ApiKey.TXN_OFFSET_COMMIT: _commit,
    ApiKey.DESCRIBE_TRANSACTIONS: _describe,
    ApiKey.LIST_TRANSACTIONS: _list,
}
