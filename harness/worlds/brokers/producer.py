"""A producer of one partition: one batch under way at a time, sent again for as long as nobody knows of it.

With acks of all it is idempotent, and a batch bears the same sequence however often it is sent. When it does not know
what became of a batch it begins anew under another id: what it sends then has no order with what may still arrive.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Final

import trio
from attrs import frozen

from harness.checkers.records.history import ALL, Acked, Failed, Sent, Unknown
from harness.worlds.brokers.tape import Tape
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError, WireError
from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import Unreachable, raise_for
from replica.wire.records import Record, build
from replica.wire.schemas.data_schemas import (
    INIT_PRODUCER_ID,
    PRODUCE,
    InitProducerIdRequest,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

BATCH_MAX: Final = 3
PAUSE_S: Final = 0.05
PAUSE_MAX_S: Final = 0.5
DUPLICATE: Final = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
IN_DOUBT: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
"""It may have been written all the same."""


@frozen
class Identity:
    id: int = -1
    epoch: int = -1
    number: int = 0
    """As in the history."""


class Producer:
    """patience_s   for one batch; then its fate is unknown"""

    def __init__(
        self, tape: Tape, client: Client, number: int, where: TopicPartition, acks: int, patience_s: float
    ) -> None:
        self.where = where
        self.open = 0
        """Values that it has yet to hear of."""
        self._tape = tape
        self._client = client
        self._number = number
        self._acks = acks
        self._patience_s = patience_s
        self._waiting: deque[int] = deque()
        self._arrived = trio.Event()
        self._heard = trio.Event()
        self._identity: Identity | None = None
        self._sequence = 0
        self._leader: int | None = None

    def give(self, count: int) -> None:
        self._waiting.append(count)
        self.open += count
        self._arrived.set()

    async def answered(self) -> None:
        """Until it has heard of everything."""
        while self.open:
            await self._heard.wait()

    async def run(self) -> None:
        while True:
            while not self._waiting:
                self._arrived = trio.Event()
                await self._arrived.wait()
            count = self._waiting.popleft()
            while count > 0:
                size = min(count, BATCH_MAX)
                await self._send(size)
                count -= size
                self.open -= size
                self._heard.set()
                self._heard = trio.Event()

    # -- one batch -----------------------------------------------------------------------------------

    async def _send(self, size: int) -> None:
        identity = await self._identified()
        tape, now = self._tape, self._tape.now_us
        calls = [tape.call() for _ in range(size)]
        values = [f"v{call}" for call in calls]
        for call, value in zip(calls, values, strict=True):
            tape.add(Sent(now(), self._number, call, str(self.where), value, self._acks, identity.number))
        batch = self._batch(values, identity)
        error, offset = await self._written(batch)
        for place, call in enumerate(calls):
            if error is None:
                told = offset + place if offset >= 0 else -1
                tape.add(Acked(now(), self._number, call, told))
            elif error.certain:
                tape.add(Failed(now(), self._number, call, error.why))
            else:
                tape.add(Unknown(now(), self._number, call, error.why))
        if error is None:
            self._sequence += size
        else:
            self._identity = None

    def _batch(self, values: list[str], identity: Identity) -> bytes:
        # Of today: who has not been heard of for a day, by the stamps of his records, is forgotten with his sequences.
        stamp = time.time_ns() // 1_000_000
        records = [Record(place, stamp, None, value.encode()) for place, value in enumerate(values)]
        return build(
            records,
            producer_id=identity.id,
            producer_epoch=identity.epoch,
            base_sequence=self._sequence if identity.id >= 0 else -1,
        )

    async def _identified(self) -> Identity:
        if self._acks != ALL:
            return Identity()
        pause = PAUSE_S
        while self._identity is None:
            try:
                reply = await self._client.ask(INIT_PRODUCER_ID, InitProducerIdRequest(transactional_id=None))
                raise_for(reply.error_code, "an id for this producer")
            except (KafkaError, Unreachable, WireError):
                await trio.sleep(pause)
                pause = min(2 * pause, PAUSE_MAX_S)
            else:
                self._identity = Identity(reply.producer_id, reply.producer_epoch, self._tape.producer())
                self._sequence = 0
        return self._identity

    async def _written(self, batch: bytes) -> tuple[Trouble | None, int]:
        """Where it stands, or what went wrong in the end."""
        until = trio.current_time() + self._patience_s
        pause, in_doubt = PAUSE_S, False
        while True:
            try:
                answer = await self._try(batch)
                if answer.error_code == DUPLICATE:
                    return None, -1
                raise_for(answer.error_code, str(self.where))
                return None, answer.base_offset
            except KafkaError as error:
                in_doubt = in_doubt or error.code in IN_DOUBT
                if not error.code.retriable:
                    return Trouble(error.code.name, certain=not in_doubt), -1
                why = error.code.name
            except (Unreachable, WireError) as error:
                in_doubt, why = True, str(error)
            self._leader = None
            if trio.current_time() > until:
                return Trouble(why, certain=not in_doubt), -1
            await trio.sleep(pause)
            pause = min(2 * pause, PAUSE_MAX_S)

    async def _try(self, batch: bytes) -> PartitionProduceResponse:
        if self._leader is None:
            leaders = await self._client.leaders([self.where.topic])
            if self.where not in leaders:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"nobody leads {self.where}")
            self._leader = leaders[self.where]
        part = PartitionProduceData(index=self.where.partition, records=batch)
        body = ProduceRequest(
            acks=self._acks,
            timeout_ms=int(self._client.settings.request_s * 500),
            topic_data=[TopicProduceData(name=self.where.topic, partition_data=[part])],
        )
        reply = await self._client.ask_broker(self._leader, PRODUCE, body)
        return reply.responses[0].partition_responses[0]


@frozen
class Trouble:
    why: str
    certain: bool
    """That nothing was written."""
