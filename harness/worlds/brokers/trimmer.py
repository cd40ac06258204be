"""Somebody who wants records gone: of what is committed when he asks first, so much, asked until he is answered."""

from __future__ import annotations

from typing import Final

import trio

from harness.checkers.records.history import Trimmed
from harness.worlds.brokers.consumer import WRONG, offset_of
from harness.worlds.brokers.reader import LATEST, insist
from harness.worlds.brokers.tape import Tape
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import Unreachable
from replica.wire.schemas.data_schemas import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

PAUSE_S: Final = 0.1
TIMEOUT_MS: Final = 1_000
OVER: Final = (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE)
"""Out of range: the log has lost its end meanwhile, and will perhaps never be so long again."""


async def delete_records(tape: Tape, client: Client, number: int, where: TopicPartition, percent: int) -> None:
    end = await insist(lambda: offset_of(client, where, LATEST))
    upto = end * percent // 100
    tape.add(Trimmed(tape.now_us(), number, str(where), upto))
    while True:
        try:
            if await _ask(client, where, upto) in OVER:
                return
        except WRONG:
            pass
        await trio.sleep(PAUSE_S)


async def _ask(client: Client, where: TopicPartition, upto: int) -> int:
    leaders = await client.leaders([where.topic])
    if where not in leaders:
        raise Unreachable(f"nobody leads {where}")
    parts = [DeleteRecordsPartition(partition_index=where.partition, offset=upto)]
    body = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=where.topic, partitions=parts)], timeout_ms=TIMEOUT_MS)
    reply = await client.ask_broker(leaders[where], DELETE_RECORDS, body)
    return int(reply.topics[0].partitions[0].error_code)
