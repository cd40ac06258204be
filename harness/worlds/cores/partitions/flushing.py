"""Flushes that take time: the files become durable some time after the begin, and the end is reported later.

They stand in for two threads of `replica.runtime`. One flushes the logs for which replicas wait, the other the logs
whose data has waited long enough. Truncations, appends, a loss of power and the other thread may come in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from harness.checkers.partitions.disks import check_durable
from replica.core.errors import KafkaError
from replica.storage.unified_log import UnifiedLog

Done = Callable[[KafkaError | None], None]


def flush(broker: Any, log: UnifiedLog, done: Done) -> None:
    """Flush as `log.flush` does in a thread. Call `done` with its error or None, unless the broker has ended."""
    whole_us = broker.world.fsync_us(broker.random)
    first_us = int(whole_us * broker.random.random())

    def end(error: KafkaError | None, then: Callable[[], None] | None = None) -> None:
        def act() -> None:
            if then is not None:
                then()
                check_durable(broker.id, broker.disk.files, log)
            done(error)

        broker.later(whole_us - first_us, act)

    def finish(begun: Any) -> None:
        if begun.truncations != log.flusher.truncations:
            broker.world.counted("cut while it was flushed")
        log.finish_flush(begun)

    def write_out(begun: Any) -> None:
        try:
            whole = log.write_out(begun)
        except KafkaError as error:
            end(error)
        else:
            end(None, (lambda: finish(begun)) if whole else None)

    try:
        begun = log.begin_flush()
    except KafkaError as error:
        end(error)
    else:
        if begun is None:
            end(None)
        else:
            broker.later(first_us, lambda: write_out(begun))


class AwaitedFlushes:
    """Runs the flushes that replicas wait for, one after the other, as `ReplicaDurability` does."""

    def __init__(self, broker: Any) -> None:
        self._broker = broker
        self._busy = False

    def wake(self) -> None:
        broker = self._broker
        request = None if self._busy else broker.core.next_flush()
        if request is None:
            return
        where, log = request.where, cast(UnifiedLog, request.log)

        def done(error: KafkaError | None) -> None:
            self._busy = False
            if error is not None:
                broker.core.disk_failed(where, error.text, broker.clock())
            else:
                broker.core.flushed(where, request.cuts, log.recovery_point, broker.clock())
            broker.turn()

        self._busy = True
        flush(broker, log, done)


class DueFlushes:
    """Runs the flushes that are due, one log after the other, until one fails."""

    def __init__(self, broker: Any) -> None:
        self._broker = broker
        self._logs: list[UnifiedLog] = []
        self._busy = False

    def look(self, logs: list[UnifiedLog]) -> None:
        if not self._busy:
            self._logs = logs
            self._next(None)

    def _next(self, error: KafkaError | None) -> None:
        """Flush the next log. After an error the rest is dropped, and the next request to the failed log fails."""
        self._busy = error is None and bool(self._logs)
        if self._busy:
            flush(self._broker, self._logs.pop(0), self._next)
