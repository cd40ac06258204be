"""Ids for producers: this broker takes a thousand of them at a time from the store, and hands them out one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

import zab
from kraft_controller.core.names import BrokerId
from kraft_controller.wire import znodes
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.at_store import at_the_store

BLOCK: Final = 1_000
GREATEST: Final = 2**63 - 1


class ProducerIds:
    """What is left of a block when the broker ends is lost, which nobody minds: no id is ever given out twice."""

    def __init__(self, me: BrokerId, session: Callable[[], zab.Session | None]) -> None:
        self._me = me
        self._session = session
        self._next, self._end = 0, 0
        self._one_at_a_time = trio.Lock()

    async def take(self) -> int:
        while self._next >= self._end:
            async with self._one_at_a_time:
                if self._next >= self._end:
                    try:
                        self._next, self._end = await at_the_store(self._session(), self._block)
                    except KafkaError as error:
                        # Whoever asked knows that number, and asks again.
                        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error.text) from error
        taken = self._next
        self._next += 1
        return taken

    async def _block(self, session: zab.Session) -> tuple[int, int]:
        while True:
            try:
                data, stat = await session.get(znodes.PRODUCER_IDS)
            except zab.NoNode:
                await session.ensure_path(znodes.PRODUCER_IDS)
                continue
            start = znodes.read_producer_ids(data)[2] + 1 if data else 0
            if start > GREATEST - BLOCK:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "all ids for producers have been given out")
            block = znodes.producer_ids(self._me, start, start + BLOCK - 1)
            try:
                await session.set(znodes.PRODUCER_IDS, block, version=stat.version)
            except (zab.BadVersion, zab.NoNode, zab.OutcomeUnknown):
                continue  # a block whose fate is not known is left alone: the next one is as good
            return start, start + BLOCK
