"""A consumer of one partition, and its group of one.

It reads on and on, commits where it is, and looks what is remembered of that.
"""

from __future__ import annotations

from typing import Final

import trio

from harness.checkers.records.history import (
    Assigned,
    Committed,
    Committing,
    Found,
    Looking,
    Place,
    Polled,
    Sought,
    Span,
    Unknown,
)
from harness.checkers.records.history import Record as Seen
from harness.worlds.brokers.tape import Tape
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError, WireError
from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import Unreachable, raise_for
from replica.wire.batch import walk
from replica.wire.records import read_records
from replica.wire.schemas.data_schemas import (
    FETCH,
    LIST_OFFSETS,
    FetchRequest,
    FetchRequestPartition,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    PartitionData,
)
from replica.wire.schemas.group_schemas import (
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)

BYTES_MAX: Final = 1_000
"""Of one poll: little, so that there are many."""
WAIT_MS: Final = 100
PAUSE_S: Final = 0.05
COMMIT_EVERY: Final = 3
EARLIEST: Final = -2
LOOK_EVERY: Final = 2
"""Of polls with something in them, and of commits."""
WRONG: Final = (KafkaError, Unreachable, WireError)


class Consumer:
    def __init__(self, tape: Tape, client: Client, number: int, where: TopicPartition) -> None:
        self.where = where
        self.position = 0
        self.group = f"group-{number}-{where}"
        self._tape = tape
        self._client = client
        self._number = number
        self._leader: int | None = None

    async def run(self) -> None:
        tape = self._tape
        tape.add(Assigned(tape.now_us(), self._number, (Place(str(self.where), self.position),)))
        polls = commits = 0
        while True:
            if not await self.poll():
                await trio.sleep(PAUSE_S)
                continue
            polls += 1
            if polls % COMMIT_EVERY == 0:
                if commits % LOOK_EVERY:
                    await self.look()  # at what was committed a while ago: somebody else may have to know it by now
                await self._commit()
                commits += 1

    # -- records -------------------------------------------------------------------------------------

    async def poll(self, bytes_max: int = BYTES_MAX) -> bool:
        """Whether there was anything. What cannot be asked now is asked again, at the same place."""
        tape, where = self._tape, str(self.where)
        asked = tape.now_us()
        try:
            answer = await self._fetch(bytes_max)
        except WRONG as error:
            self._leader = None
            if isinstance(error, KafkaError) and error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._go_to_begin()
            return False
        found, following = _records(answer.records or b"", self.position)
        if following == self.position:
            return False
        records = tuple(Seen(where, offset, value) for offset, value in found)
        span = Span(where, self.position, following)
        tape.add(Polled(tape.now_us(), self._number, asked, records, (span,)))
        self.position = following
        return True

    async def _go_to_begin(self) -> None:
        """Of the log, if that has come to begin behind its place. If it is shorter than that, it will grow."""
        try:
            begin = await offset_of(self._client, self.where, EARLIEST)
        except WRONG:
            return
        if begin > self.position:
            self.position = begin
            self._tape.add(Sought(self._tape.now_us(), self._number, str(self.where), begin))

    async def _fetch(self, bytes_max: int) -> PartitionData:
        if self._leader is None:
            leaders = await self._client.leaders([self.where.topic])
            if self.where not in leaders:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"nobody leads {self.where}")
            self._leader = leaders[self.where]
        part = FetchRequestPartition(
            partition=self.where.partition,
            fetch_offset=self.position,
            partition_max_bytes=bytes_max,
        )
        topic = FetchTopic(topic=self.where.topic, partitions=[part])
        body = FetchRequest(max_wait_ms=WAIT_MS, min_bytes=1, topics=[topic])
        reply = await self._client.ask_broker(self._leader, FETCH, body)
        raise_for(reply.error_code, str(self.where))
        answer = reply.responses[0].partitions[0]
        raise_for(answer.error_code, str(self.where))
        return answer

    # -- positions -----------------------------------------------------------------------------------

    async def _commit(self) -> None:
        tape, call = self._tape, self._tape.call()
        place = Place(str(self.where), self.position)
        tape.add(Committing(tape.now_us(), self._number, call, self.group, (place,)))
        part = OffsetCommitRequestPartition(
            partition_index=self.where.partition,
            committed_offset=self.position,
            committed_metadata=None,
        )
        body = OffsetCommitRequest(
            group_id=self.group,
            generation_id=-1,
            member_id="",
            topics=[OffsetCommitRequestTopic(name=self.where.topic, partitions=[part])],
        )
        try:
            await self._client.ask_coordinator(self.group, OFFSET_COMMIT, body, _of_commit)
        except WRONG as error:
            tape.add(Unknown(tape.now_us(), self._number, call, str(error)))
        else:
            tape.add(Committed(tape.now_us(), self._number, call))

    async def look(self) -> bool:
        tape, call, where = self._tape, self._tape.call(), str(self.where)
        tape.add(Looking(tape.now_us(), self._number, call, self.group, (where,)))
        topics = [OffsetFetchRequestTopic(name=self.where.topic, partition_indexes=[self.where.partition])]
        body = OffsetFetchRequest(group_id=self.group, topics=topics)
        try:
            reply = await self._client.ask_coordinator(self.group, OFFSET_FETCH, body, _of_look, version_max=7)
        except WRONG as error:
            tape.add(Unknown(tape.now_us(), self._number, call, str(error)))
            return False
        offset = reply.topics[0].partitions[0].committed_offset
        tape.add(Found(tape.now_us(), self._number, call, (Place(where, offset),)))
        return True


async def offset_of(client: Client, where: TopicPartition, which: int) -> int:
    """`EARLIEST`, or the latest."""
    leaders = await client.leaders([where.topic])
    if where not in leaders:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"nobody leads {where}")
    part = ListOffsetsPartition(partition_index=where.partition, timestamp=which)
    body = ListOffsetsRequest(topics=[ListOffsetsTopic(where.topic, [part])])
    reply = await client.ask_broker(leaders[where], LIST_OFFSETS, body)
    answer = reply.topics[0].partitions[0]
    raise_for(answer.error_code, str(where))
    return answer.offset


def _of_commit(reply: OffsetCommitResponse) -> int:
    return reply.topics[0].partitions[0].error_code


def _of_look(reply: OffsetFetchResponse) -> int:
    return reply.error_code or reply.topics[0].partitions[0].error_code


def _records(data: bytes, position: int) -> tuple[list[tuple[int, str]], int]:
    """From there on, and where to go on. A batch comes whole, so it may begin before."""
    found: list[tuple[int, str]] = []
    following = position
    for at, header in walk(data):
        following = max(following, header.next_offset)
        if not header.control:
            found += [
                (record.offset, (record.value or b"").decode(errors="backslashreplace"))
                for record in read_records(data, at)
                if record.offset >= position
            ]
    return found, following
