"""`InitProducerId`: an id under which a producer's batches are told from all others, and from themselves said twice."""

from __future__ import annotations

from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.producers import ProducerIds
from replica.runtime.requests import ApiKey, Body, Handlers, Request

_NONE = {"producer_id": -1, "producer_epoch": -1}


def handlers(ids: ProducerIds) -> Handlers:
    async def init(request: Request) -> Body:
        name = request.body["transactional_id"]
        if name == "":
            return {"error_code": ErrorCode.INVALID_REQUEST, **_NONE}
        if name is not None:  # there are no transactions here, and this error is final to every client
            return {"error_code": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, **_NONE}
        try:
            return {"producer_id": await ids.take(), "producer_epoch": 0}
        except KafkaError as error:
            return {"error_code": error.code, **_NONE}

    return {ApiKey.INIT_PRODUCER_ID: init}
