"""Flushes that take their time: one begins, its files are durable somewhere in between, and it is told of later.

It stands for the threads of `replica.runtime`, of which one flushes what replicas wait for, and another one what has
waited for long enough. Whatever comes meanwhile comes: cuts, more records, a loss of power, the other thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from harness.checkers.partitions.disks import check_durable
from replica.core.errors import KafkaError
from replica.storage.unified_log import UnifiedLog

if TYPE_CHECKING:
    from harness.worlds.cores.partitions.broker import PartitionBroker

Done = Callable[[KafkaError | None], None]


def flush(broker: PartitionBroker, log: UnifiedLog, done: Done) -> None:
    """As `log.flush` in a thread. `done`: what it would raise; nothing, when the broker is gone by then."""
    whole_us = broker.world.fsync_us(broker.random)
    first_us = int(whole_us * broker.random.random())

    def ends(error: KafkaError | None, then: Callable[[], None] | None = None) -> None:
        def act() -> None:
            if then is not None:
                then()
                check_durable(broker.id, broker.disk.files, log)
            done(error)

        broker.later(whole_us - first_us, act)

    def told(begun: Any) -> None:
        if begun.truncations != log.flusher.truncations:
            broker.world.counted("cut while it was flushed")
        log.finish_flush(begun)

    def writes_out(begun: Any) -> None:
        try:
            whole = log.write_out(begun)
        except KafkaError as error:
            ends(error)
        else:
            ends(None, (lambda: told(begun)) if whole else None)

    try:
        begun = log.begin_flush()
    except KafkaError as error:
        ends(error)
    else:
        if begun is None:
            ends(None)
        else:
            broker.later(first_us, lambda: writes_out(begun))


class Awaited:
    """Runs the flushes that replicas wait for, one after the other, as `ReplicaDurability` does."""

    def __init__(self, broker: PartitionBroker) -> None:
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


class Due:
    """What has waited for long enough: one log after the other, until one cannot be flushed."""

    def __init__(self, broker: PartitionBroker) -> None:
        self._broker = broker
        self._logs: list[UnifiedLog] = []
        self._busy = False

    def look(self, logs: list[UnifiedLog]) -> None:
        if not self._busy:
            self._logs = logs
            self._next(None)

    def _next(self, error: KafkaError | None) -> None:
        """Whoever wants something of a log that failed is told."""
        self._busy = error is None and bool(self._logs)
        if self._busy:
            flush(self._broker, self._logs.pop(0), self._next)
