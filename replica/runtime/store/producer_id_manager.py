"""Producer ids: a broker reserves blocks of a thousand in the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

import zab
from kraft_controller.core.names import BrokerId
from kraft_controller.wire import znodes
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.logs import Log
from replica.runtime.store.store_call import call_store

BLOCK: Final = 1_000
GREATEST: Final = 2**63 - 1


class ProducerIdManager:
    """Returns each id once. When the broker stops, the rest of its block stays unused."""

    def __init__(self, me: BrokerId, session: Callable[[], zab.Session | None], log: Log) -> None:
        self._me = me
        self._session = session
        self._log = log
        self._next, self._end = 0, 0
        self._reservation = trio.Lock()

    async def take(self) -> int:
        """Return an unused id. Raises `KafkaError` if no new block can be reserved. The error's code is retriable only
        if the cause may be temporary; a damaged node is not."""
        while self._next >= self._end:
            async with self._reservation:
                if self._next >= self._end:
                    try:
                        self._next, self._end = await call_store(self._session(), self._block)
                    except KafkaError as error:
                        node = znodes.PRODUCER_IDS
                        self._log.warn_rate_limited("producer_ids_unavailable", node, node=node, why=error.text)
                        # Every producer retries after COORDINATOR_LOAD_IN_PROGRESS, but not after every retriable code.
                        retriable = error.code.retriable
                        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if retriable else ErrorCode.UNKNOWN_SERVER_ERROR
                        raise KafkaError(code, error.text) from error
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
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids are used up")
            block = znodes.producer_ids(self._me, start, start + BLOCK - 1)
            try:
                await session.set(znodes.PRODUCER_IDS, block, version=stat.version)
            except (zab.BadVersion, zab.NoNode, zab.OutcomeUnknown):
                continue  # the block is not reserved, or the outcome is unknown: read again, and reserve the next one
            return start, start + BLOCK
