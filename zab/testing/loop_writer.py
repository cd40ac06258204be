"""A writer that writes to a memory disk in the event loop: each write is quick, and durable at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import trio

from zab.core.ready import Append, Write
from zab.core.zxid import Ticket
from zab.runtime.writer import Writer

T = TypeVar("T")


class LoopWriter(Writer):
    """A writer without a thread. It writes within `put`, so virtual time cannot jump while a write is pending."""

    def put(self, writes: Sequence[Write]) -> bool:
        self._perform(writes, sum(len(write.batch.body) for write in writes if isinstance(write, Append)))
        return True

    async def call(self, job: Callable[[], T]) -> T:
        await trio.lowlevel.checkpoint()
        return job()

    async def run(self, report: Callable[[Ticket], None]) -> None:
        await trio.sleep_forever()
