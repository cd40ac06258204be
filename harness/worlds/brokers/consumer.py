"""A consumer of one partition, the only member of its group: it polls, commits its position, and looks it up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import trio

from harness.checkers.records import history
from harness.worlds.brokers import requests
from harness.worlds.brokers.recorder import Recorder
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.network.broker_client import Client
from replica.wire.schemas.group_schemas import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

BYTES_MAX: Final = 1_000
"""The maximum size of one poll. It is small, so that a run has many polls."""
COMMIT_EVERY: Final = 3
LOOK_UP_EVERY: Final = 2
"""The number of polls with records between two commits, and of commits between two lookups of the position."""


class Consumer:
    def __init__(self, recorder: Recorder, client: Client, number: int, where: TopicPartition) -> None:
        self.where = where
        self.position = 0
        self.group = f"group-{number}-{where}"
        self._recorder = recorder
        self._client = client
        self._number = number
        self._leader: int | None = None

    async def run(self) -> None:
        recorder = self._recorder
        recorder.add(
            history.Assigned(recorder.now_us(), self._number, (history.Place(str(self.where), self.position),))
        )
        polls = commits = 0
        while True:
            if not await self.poll():
                await trio.sleep(requests.PAUSE_S)
                continue
            polls += 1
            if polls % COMMIT_EVERY == 0:
                if commits % LOOK_UP_EVERY:
                    await self.look_up()  # some time after the last commit: the coordinator may have changed
                await self._commit()
                commits += 1

    async def poll(self, bytes_max: int = BYTES_MAX) -> bool:
        """Poll once; return whether the position advanced. The poll after a failed one asks at the same position."""
        recorder, where = self._recorder, str(self.where)
        asked = recorder.now_us()
        try:
            if self._leader is None:
                self._leader = await requests.leader_of(self._client, self.where)
            answer = await requests.fetch(self._client, self._leader, self.where, self.position, bytes_max)
        except requests.REQUEST_ERRORS as error:
            self._leader = None
            if isinstance(error, KafkaError) and error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._seek_to_beginning()
            return False
        found, following = requests.records_in(answer.records or b"", self.position)
        if following == self.position:
            return False
        records = tuple(history.Record(where, offset, value) for offset, value in found)
        span = history.Span(where, self.position, following)
        recorder.add(history.Polled(recorder.now_us(), self._number, asked, records, (span,)))
        self.position = following
        return True

    async def _seek_to_beginning(self) -> None:
        """Move to the start of the log if that is after the position. A log that ends before the position will grow."""
        try:
            begin = await requests.offset_of(self._client, self.where, requests.EARLIEST)
        except requests.REQUEST_ERRORS:
            return
        if begin > self.position:
            self.position = begin
            self._recorder.add(history.Sought(self._recorder.now_us(), self._number, str(self.where), begin))

    async def _commit(self) -> None:
        recorder, call = self._recorder, self._recorder.call()
        place = history.Place(str(self.where), self.position)
        recorder.add(history.Committing(recorder.now_us(), self._number, call, self.group, (place,)))
        part = OffsetCommitRequestPartition(
            partition_index=self.where.partition, committed_offset=self.position, committed_metadata=None
        )
        topics = [OffsetCommitRequestTopic(name=self.where.topic, partitions=[part])]
        body = OffsetCommitRequest(group_id=self.group, generation_id=-1, member_id="", topics=topics)
        try:
            await self._client.ask_coordinator(self.group, OFFSET_COMMIT, body, _error_of_commit)
        except requests.REQUEST_ERRORS as error:
            recorder.add(history.Unknown(recorder.now_us(), self._number, call, str(error)))
        else:
            recorder.add(history.Committed(recorder.now_us(), self._number, call))

    async def look_up(self) -> bool:
        """Look up the committed position; return whether that succeeded."""
        recorder, call, where = self._recorder, self._recorder.call(), str(self.where)
        recorder.add(history.Looking(recorder.now_us(), self._number, call, self.group, (where,)))
        try:
            offset = await self._client.patiently(lambda: requests.position_of(self._client, self.group, self.where))
        except requests.REQUEST_ERRORS as error:
            recorder.add(history.Unknown(recorder.now_us(), self._number, call, str(error)))
            return False
        recorder.add(history.Found(recorder.now_us(), self._number, call, (history.Place(where, offset),)))
        return True


def _error_of_commit(reply: OffsetCommitResponse) -> int:
    return reply.topics[0].partitions[0].error_code


# -- after healing -------------------------------------------------------------------------------------------


async def read_all(
    recorder: Recorder, client: Client, partitions: Iterable[TopicPartition], first: int, waits_for: list[str]
) -> dict[TopicPartition, int]:
    """Read every partition from beginning to end, and return the ends. The readers are numbered from `first` on.

    The history is complete then: a record that no consumer has seen is lost.
    """
    ends = {}
    for number, where in enumerate(sorted(partitions), start=first):
        waits_for[0] = f"the reader of {where} to reach the end"
        consumer = Consumer(recorder, client, number, where)
        end = await requests.until_success(lambda where=where: requests.offset_of(client, where, requests.LATEST))  # type: ignore[misc]
        while consumer.position < end:
            if not await consumer.poll(1 << 20):
                await trio.sleep(requests.PAUSE_S)
        ends[where] = end
    recorder.complete = True
    return ends


async def look_up_positions(consumers: Iterable[Consumer], waits_for: list[str]) -> None:
    for consumer in consumers:
        waits_for[0] = f"the position of {consumer.group}"
        while not await consumer.look_up():  # noqa: ASYNC110 - the broker that is asked sends no event
            await trio.sleep(requests.PAUSE_S)
