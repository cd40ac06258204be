"""Makes replicas durable: runs the flushes that acknowledgements wait for, and writes high watermark checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

import trio

from kraft_controller.core.names import TopicPartition
from replica.core.errors import KafkaError
from replica.core.replica_manager import Logs, ReplicaManager
from replica.runtime.logs import Log
from zab.host.threads import InThread, in_thread
from zab.net.wakeup import Wakeup


class CheckpointedLogs(Logs, Protocol):
    def keep_high_watermarks(self, watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the high watermarks durably. Slow: call it in a thread."""


class ReplicaDurability:
    """Flushes logs in a thread, one after the other, and reports the outcome of each flush to the core. Checkpoints the
    high watermarks regularly."""

    def __init__(
        self,
        core: ReplicaManager,
        logs: CheckpointedLogs,
        now: Callable[[], int],
        turn: Callable[[], None],
        log: Log,
        checkpoint_s: float,
        in_thread: InThread = in_thread,
    ) -> None:
        self._core = core
        self._logs = logs
        self._now = now
        self._turn = turn
        """Runs a turn of the core after a flush."""
        self._log = log
        self._checkpoint_s = checkpoint_s
        self._in_thread = in_thread
        self._wakeup = Wakeup()

    def wake(self) -> None:
        """Start the flushes in the core's queue. If a flush is in progress, they follow it."""
        self._wakeup.ring()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._checkpoint_regularly)
            await self._flush()

    async def _flush(self) -> None:
        while True:
            await self._wakeup.wait()
            while (flush := self._core.next_flush()) is not None:
                try:
                    upto = await self._in_thread(flush.log.flush)
                except KafkaError as error:
                    self._core.disk_failed(flush.where, error.text, self._now())
                except Exception as error:
                    self._log.failed("flush_failed", error, partition=flush.where)
                    self._core.disk_failed(flush.where, repr(error), self._now())
                else:
                    self._core.flushed(flush.where, flush.cuts, upto, self._now())
                self._turn()

    async def _checkpoint_regularly(self) -> None:
        while True:
            await trio.sleep(self._checkpoint_s)
            await self.checkpoint()

    async def checkpoint(self) -> None:
        values = self._core.high_watermarks()
        try:
            await self._in_thread(partial(self._logs.keep_high_watermarks, values))
        except (KafkaError, OSError) as error:
            self._log.warn_rate_limited("high_watermark_checkpoint_failed", "", logging.ERROR, why=error)
        except Exception as error:
            self._log.failed("high_watermark_checkpoint_failed", error)
