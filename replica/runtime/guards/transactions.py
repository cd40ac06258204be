"""Transactions: to have one is to WRITE its transactional id, to see it is to DESCRIBE it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from replica.core.acls import Operation
from replica.core.errors import ErrorCode
from replica.runtime.guards.asking import GROUP_REFUSED, TOPIC_REFUSED, Asked, Guard
from replica.runtime.guards.groups import commit, refused_parts
from replica.runtime.requests import ApiKey, Body, Handler, Reply

_REFUSED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _is_his(asked: Asked) -> bool:
    return asked.transactional_id(Operation.WRITE, asked.body["transactional_id"])


async def _add_partitions(asked: Asked, handler: Handler) -> Reply:
    """All of them, or none."""
    topics = asked.body["topics"]
    if not _is_his(asked):
        return {"results_by_topic": [_refused(each, _REFUSED) for each in topics]}
    mine = asked.topics(Operation.WRITE, [each["name"] for each in topics])
    if all(each["name"] in mine for each in topics):
        return await handler(asked.request)
    errors = {each["name"]: ErrorCode.OPERATION_NOT_ATTEMPTED for each in topics if each["name"] in mine}
    return {"results_by_topic": [_refused(each, errors.get(each["name"], TOPIC_REFUSED)) for each in topics]}


def _refused(topic: Body, error: ErrorCode) -> Body:
    results = [{"partition_index": number, "partition_error_code": error} for number in topic["partitions"]]
    return {"name": topic["name"], "results_by_partition": results}


async def _add_offsets(asked: Asked, handler: Handler) -> Reply:
    if not _is_his(asked):
        return {"error_code": _REFUSED}
    if not asked.group(Operation.READ, asked.body["group_id"]):
        return {"error_code": GROUP_REFUSED}
    return await handler(asked.request)


async def _end(asked: Asked, handler: Handler) -> Reply:
    return await handler(asked.request) if _is_his(asked) else {"error_code": _REFUSED}


async def _commit(asked: Asked, handler: Handler) -> Reply:
    """As any other commit, by who may use the transaction."""
    if not _is_his(asked):
        return {"topics": [refused_parts(each, _REFUSED) for each in asked.body["topics"]]}
    return await commit(asked, handler)


# -- who looks -------------------------------------------------------------------------------------------------


async def _describe(asked: Asked, handler: Handler) -> Reply:
    """Who may see a transaction sees of its partitions those of topics that he may see."""
    names = asked.body["transactional_ids"]
    mine = {name for name in dict.fromkeys(names) if asked.transactional_id(Operation.DESCRIBE, name)}
    reply = await handler(asked.changed(transactional_ids=[name for name in names if name in mine])) if mine else {}
    assert reply is not None
    found = list(reply.get("transaction_states", ()))
    topics = [topic["topic"] for each in found for topic in each.get("topics", ())]
    seen = asked.topics(Operation.DESCRIBE, topics, quiet=True)
    shown = [
        {**each, "topics": [topic for topic in each.get("topics", ()) if topic["topic"] in seen]} for each in found
    ]
    hidden = [{"error_code": _REFUSED, "transactional_id": name} for name in names if name not in mine]
    return {**reply, "transaction_states": [*shown, *hidden]}


async def _list(asked: Asked, handler: Handler) -> Reply:
    reply = await handler(asked.request)
    assert reply is not None
    seen = [
        each
        for each in reply["transaction_states"]
        if asked.transactional_id(Operation.DESCRIBE, each["transactional_id"], quiet=True)
    ]
    return {**reply, "transaction_states": seen}


GUARDS: Final[Mapping[ApiKey, Guard]] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: _add_offsets,
    ApiKey.END_TXN: _end,
    ApiKey.TXN_OFFSET_COMMIT: _commit,
    ApiKey.DESCRIBE_TRANSACTIONS: _describe,
    ApiKey.LIST_TRANSACTIONS: _list,
}
