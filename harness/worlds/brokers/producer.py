"""A producer of one partition: one batch in flight at a time, sent again while its outcome is unknown.

With acks=all it is idempotent: a batch keeps its sequence however often it is sent. If the outcome of a batch stays
unknown, the producer continues with a new producer id. Batches with different ids have no order.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Final

import trio
from attrs import frozen

from harness.checkers.records.history import ALL, Acked, Failed, Sent, Unknown
from harness.worlds.brokers.recorder import Recorder
from harness.worlds.brokers.requests import PAUSE_MAX_S, PAUSE_S, leader_of, produce
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError, WireError
from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import Unreachable, raise_for
from replica.wire.records import Record, build
from replica.wire.schemas.data_schemas import INIT_PRODUCER_ID, InitProducerIdRequest, PartitionProduceResponse

BATCH_MAX: Final = 3
IN_DOUBT: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
"""The errors after which the batch may have been written nevertheless."""


@frozen
class Identity:
    id: int = -1
    epoch: int = -1
    number: int = 0
    """The number of the producer in the history; 0 without idempotence."""


@frozen
class Failure:
    why: str
    certain: bool
    """True if the batch was certainly not written."""


class Producer:
    """A producer of one partition. The outcome of a batch is unknown if it takes longer than `patience_s`."""

    def __init__(
        self, recorder: Recorder, client: Client, number: int, where: TopicPartition, acks: int, patience_s: float
    ) -> None:
        self.where = where
        self.open = 0
        """The number of values without an outcome so far."""
        self._recorder = recorder
        self._client = client
        self._number = number
        self._acks = acks
        self._patience_s = patience_s
        self._waiting: deque[int] = deque()
        self._arrived = trio.Event()
        self._progress = trio.Event()
        self._identity: Identity | None = None
        self._sequence = 0
        self._leader: int | None = None

    def enqueue(self, count: int) -> None:
        """Queue `count` more values to send."""
        self._waiting.append(count)
        self.open += count
        self._arrived.set()

    async def wait_answered(self) -> None:
        """Wait until all queued values have an outcome."""
        while self.open:
            await self._progress.wait()

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
                self._progress.set()
                self._progress = trio.Event()

    async def _send(self, size: int) -> None:
        identity = await self._identify()
        recorder, now = self._recorder, self._recorder.now_us
        calls = [recorder.call() for _ in range(size)]
        values = [f"v{call}" for call in calls]
        for call, value in zip(calls, values, strict=True):
            recorder.add(Sent(now(), self._number, call, str(self.where), value, self._acks, identity.number))
        failure, offset = await self._send_batch(self._batch(values, identity))
        for place, call in enumerate(calls):
            if failure is None:
                recorder.add(Acked(now(), self._number, call, offset + place if offset >= 0 else -1))
            else:
                outcome = Failed if failure.certain else Unknown
                recorder.add(outcome(now(), self._number, call, failure.why))
        if failure is None:
            self._sequence += size
        else:
            self._identity = None

    def _batch(self, values: list[str], identity: Identity) -> bytes:
        # Stamp with the current time: brokers forget the sequences of a producer whose newest record is a day old.
        stamp = time.time_ns() // 1_000_000
        records = [Record(place, stamp, None, value.encode()) for place, value in enumerate(values)]
        sequence = self._sequence if identity.id >= 0 else -1
        return build(records, producer_id=identity.id, producer_epoch=identity.epoch, base_sequence=sequence)

    async def _identify(self) -> Identity:
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
                self._identity = Identity(reply.producer_id, reply.producer_epoch, self._recorder.producer())
                self._sequence = 0
        return self._identity

    async def _send_batch(self, batch: bytes) -> tuple[Failure | None, int]:
        """Send a batch until it succeeds or fails for good; return the failure, if any, and the offset of the batch."""
        until = trio.current_time() + self._patience_s
        pause, in_doubt = PAUSE_S, False
        while True:
            try:
                answer = await self._try(batch)
                if answer.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                    return None, -1
                raise_for(answer.error_code, str(self.where))
                return None, answer.base_offset
            except KafkaError as error:
                in_doubt = in_doubt or error.code in IN_DOUBT
                if not error.code.retriable:
                    return Failure(error.code.name, certain=not in_doubt), -1
                why = error.code.name
            except (Unreachable, WireError) as error:
                in_doubt, why = True, str(error)
            self._leader = None
            if trio.current_time() > until:
                return Failure(why, certain=not in_doubt), -1
            await trio.sleep(pause)
            pause = min(2 * pause, PAUSE_MAX_S)

    async def _try(self, batch: bytes) -> PartitionProduceResponse:
        if self._leader is None:
            self._leader = await leader_of(self._client, self.where)
        return await produce(self._client, self._leader, self.where, batch, self._acks)
