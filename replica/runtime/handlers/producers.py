"""`InitProducerId`: an id under which a producer's batches are told from all others, and from themselves said twice."""

from __future__ import annotations

from typing import Final

from replica.core.errors import ErrorCode, KafkaError
from replica.core.transactions.transaction_messages import Init
from replica.runtime.handlers.transactions import for_version
from replica.runtime.requests import ApiKey, Body, Handlers, Request
from replica.runtime.transactions import Ids, Transactions

_NONE: Final = {"producer_id": -1, "producer_epoch": -1}
_FENCED_SINCE: Final = 4


def handlers(ids: Ids, transactions: Transactions) -> Handlers:
    async def init(request: Request) -> Body:
        body = request.body
        if body["transactional_id"] is None:
            try:
                return {"producer_id": await ids.take(), "producer_epoch": 0}
            except KafkaError as error:
                return {"error_code": error.code, **_NONE}
        expected = body["producer_id"], body["producer_epoch"]
        if (expected[0] < 0) != (expected[1] < 0):
            return {"error_code": ErrorCode.INVALID_REQUEST, **_NONE}
        known = expected if expected[0] >= 0 else None
        made = await transactions.init(Init(body["transactional_id"], body["transaction_timeout_ms"], known))
        return {
            "error_code": for_version(made.error, request.version, _FENCED_SINCE),
            "producer_id": made.producer,
            "producer_epoch": made.epoch,
        }

    return {ApiKey.INIT_PRODUCER_ID: init}
