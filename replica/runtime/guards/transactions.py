"""Guards of transactions: running one needs WRITE on its transactional id, listings need DESCRIBE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve

from replica.core.acls import Operation
from replica.core.errors import ErrorCode
from replica.runtime.guards.asking import GROUP_REFUSED, TOPIC_REFUSED, Asked, Guard, handled
from replica.runtime.guards.groups import commit, refused_parts
from replica.runtime.requests import ApiKey, Handler
from replica.wire.schemas.transactions import (
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


def _is_his(asked: Asked[Any]) -> bool:
    return asked.transactional_id(Operation.WRITE, asked.body.transactional_id)


async def _add_partitions(asked: Asked[AddPartitionsToTxnRequest], handler: Handler) -> Any:
    """Add all partitions, or none."""
    topics = asked.body.topics
    if not _is_his(asked):
        return AddPartitionsToTxnResponse(results_by_topic=[_refused(each, _REFUSED) for each in topics])
    mine = asked.topics(Operation.WRITE, [each.name for each in topics])
    if all(each.name in mine for each in topics):
        return await handler(asked.request)
    errors = {each.name: ErrorCode.OPERATION_NOT_ATTEMPTED for each in topics if each.name in mine}
    return AddPartitionsToTxnResponse(
        results_by_topic=[_refused(each, errors.get(each.name, TOPIC_REFUSED)) for each in topics]
    )


def _refused(topic: AddPartitionsToTxnTopic, error: ErrorCode) -> AddPartitionsToTxnTopicResult:
    results = [
        AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=error)
        for number in topic.partitions
    ]
    return AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=results)


async def _add_offsets(asked: Asked[AddOffsetsToTxnRequest], handler: Handler) -> Any:
    if not _is_his(asked):
        return AddOffsetsToTxnResponse(error_code=_REFUSED)
    if not asked.group(Operation.READ, asked.body.group_id):
        return AddOffsetsToTxnResponse(error_code=GROUP_REFUSED)
    return await handler(asked.request)


async def _end(asked: Asked[EndTxnRequest], handler: Handler) -> Any:
    return await handler(asked.request) if _is_his(asked) else EndTxnResponse(error_code=_REFUSED)


async def _commit(asked: Asked[TxnOffsetCommitRequest], handler: Handler) -> Any:
    if not _is_his(asked):
        return TxnOffsetCommitResponse(topics=[refused_parts(each, _REFUSED) for each in asked.body.topics])
    return await commit(asked, handler)


# -- listings -------------------------------------------------------------------------------------------------


async def _describe(asked: Asked[DescribeTransactionsRequest], handler: Handler) -> DescribeTransactionsResponse:
    """Show the visible transactions, and of their partitions those of visible topics."""
    names = asked.body.transactional_ids
    mine = {name for name in dict.fromkeys(names) if asked.transactional_id(Operation.DESCRIBE, name)}
    reply: DescribeTransactionsResponse = await handled(
        asked, handler, "transactional_ids", [name for name in names if name in mine]
    )
    found = reply.transaction_states
    topics = [topic.topic for each in found for topic in each.topics]
    seen = asked.topics(Operation.DESCRIBE, topics, quiet=True)
    shown = [evolve(each, topics=[topic for topic in each.topics if topic.topic in seen]) for each in found]
    hidden = [TransactionState(error_code=_REFUSED, transactional_id=name) for name in names if name not in mine]
    return evolve(reply, transaction_states=[*shown, *hidden])


async def _list(asked: Asked[ListTransactionsRequest], handler: Handler) -> ListTransactionsResponse:
    reply: ListTransactionsResponse = await handler(asked.request)
    seen = [
        each
        for each in reply.transaction_states
        if asked.transactional_id(Operation.DESCRIBE, each.transactional_id, quiet=True)
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
