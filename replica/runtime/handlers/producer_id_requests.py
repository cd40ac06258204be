"""`InitProducerId`: return the id and epoch of a producer.

A request with a transactional id goes to the transaction coordinator, which fences earlier producers with this id.
Without one, the producer gets a new id.
"""

from __future__ import annotations

from typing import Final

from replica.core.errors import ErrorCode, KafkaError
from replica.core.transactions.transaction_messages import Init
from replica.runtime.coordination.transaction_coordinator_runtime import ProducerIdSource, TransactionCoordinatorRuntime
from replica.runtime.handlers.transaction_requests import for_version
from replica.runtime.requests import Handlers, Request, handler_table, handles
from replica.wire.schemas.data_schemas import INIT_PRODUCER_ID, InitProducerIdRequest, InitProducerIdResponse

_FENCED_SINCE: Final = 4


def handlers(ids: ProducerIdSource, transactions: TransactionCoordinatorRuntime) -> Handlers:
    async def init(request: Request[InitProducerIdRequest]) -> InitProducerIdResponse:
        body = request.body
        if body.transactional_id is None:
            try:
                return InitProducerIdResponse(producer_id=await ids.take(), producer_epoch=0)
            except KafkaError as error:
                return InitProducerIdResponse(error_code=error.code, producer_epoch=-1)
        current = body.producer_id, body.producer_epoch
        if (current[0] < 0) != (current[1] < 0):
            return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1)
        expected = current if current[0] >= 0 else None
        initialized = await transactions.init(Init(body.transactional_id, body.transaction_timeout_ms, expected))
        return InitProducerIdResponse(
            error_code=for_version(initialized.error, request.version, _FENCED_SINCE),
            producer_id=initialized.producer,
            producer_epoch=initialized.epoch,
        )

    return handler_table(handles(INIT_PRODUCER_ID, init))
