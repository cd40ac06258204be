"""`Produce`: append batches to partitions that this broker leads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraft_controller.core.names import INTERNAL, TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.replica_messages import Produced
from replica.runtime.replication.replica_manager_runtime import ReplicaManagerRuntime
from replica.runtime.requests import Handlers, Request, handler_table, handles
from replica.wire.batch import TRANSACTIONAL
from replica.wire.schemas.data_schemas import (
    PRODUCE,
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from replica.wire.validation import refuse_zstd_before

_FLAGS_AT: Final = 22
"""The position of the low byte of a batch's attributes."""


def handlers(replicas: ReplicaManagerRuntime) -> Handlers:
    async def produce(request: Request[ProduceRequest]) -> ProduceResponse | None:
        body = request.body
        places: list[TopicPartition] = []
        named: set[TopicPartition] = set()
        refused: dict[int, Produced] = {}
        entries: list[tuple[TopicPartition, bytes]] = []
        for topic in body.topic_data:
            name = topic.name
            for part in topic.partition_data:
                where, records = TopicPartition(name, part.index), part.records
                wrong = _wrong_with(request, where, records, where in named)
                if wrong is None:
                    assert records is not None
                    entries.append((where, records))
                else:
                    refused[len(places)] = Produced(where, wrong.code, wrong.text)
                places.append(where)
                named.add(where)
        results = []
        if entries:
            results = await replicas.produce(body.acks, body.timeout_ms, entries, request.placed)
        written = iter(results)
        answers = [refused[place] if place in refused else next(written) for place in range(len(places))]
        if body.acks == 0:
            failed = next((answer for answer in answers if answer.error), None)
            if failed is None:
                return None
            # acks=0 has no response. The exception closes the connection, so that the client refreshes its metadata.
            raise KafkaError(failed.error, f"{failed.where}: a produce with acks=0 failed: {failed.text}")
        return _reply(body, iter(answers))

    return handler_table(handles(PRODUCE, produce))


def _wrong_with(
    request: Request[ProduceRequest], where: TopicPartition, records: bytes | None, twice: bool
) -> KafkaError | None:
    name = request.body.transactional_id
    if name is None and records and len(records) > _FLAGS_AT and records[_FLAGS_AT] & TRANSACTIONAL:
        text = f"{where}: the batch is transactional, but the request has no transactional id"
        return KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, text)
    if where.topic in INTERNAL:
        return KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"only brokers may write to the internal topic {where.topic}"
        )
    if twice:
        return KafkaError(ErrorCode.INVALID_REQUEST, f"{where} is in the request more than once")
    if not records:
        return KafkaError(ErrorCode.INVALID_RECORD, f"{where}: the request contains no batch")
    try:
        refuse_zstd_before(records, request.version)
    except KafkaError as error:
        return error
    return None


def _reply(body: ProduceRequest, answers: Iterator[Produced]) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name, partition_responses=[_part(next(answers)) for _ in topic.partition_data]
            )
            for topic in body.topic_data
        ],
    )


def _part(answer: Produced) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=answer.where.partition,
        error_code=answer.error,
        base_offset=answer.base_offset,
        log_append_time_ms=answer.append_time,
        log_start_offset=answer.start_offset,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=why)
            for index, why in answer.record_errors
        ],
        error_message=answer.text or None,
    )
