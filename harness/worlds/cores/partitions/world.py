"""A world of cores that replicate the store, brokers around it, and the partitions that these replicate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Final

from attrs import evolve, frozen

from harness.changes import changes_of_batch
from harness.checkers import ALL, Checker
from harness.checkers.partitions.keeper import Keeper
from harness.checkers.partitions.positions import Positions
from harness.checkers.partitions.shares import Shares
from harness.faults import Replication, Script
from harness.history import Change
from harness.outcome import Outcome
from harness.recoveries import of_brokers
from harness.worlds.brokers.recorder import Recorder
from harness.worlds.cores.controller.broker import Broker
from harness.worlds.cores.controller.world import ControllerWorld
from harness.worlds.cores.crashed import Crashed
from harness.worlds.cores.partitions.broker import PartitionBroker
from harness.worlds.cores.partitions.liveness import PartitionsLiveness
from harness.worlds.cores.partitions.telling import with_members
from harness.worlds.cores.partitions.wires import Wires
from harness.worlds.cores.partitions.workload import PartitionsWorkload
from harness.worlds.cores.store.checks import committed
from replica.core.partitions.log_config import UNBOUNDED, LogConfig
from replica.core.replica_settings import ReplicaSettings
from replica.wire.validation import LONG_MAX

FLUSH_MS: Final = 250
"""So long what is written waits for the disk where nobody waits for the disk."""
FETCH_BYTES: Final = 400
"""A few batches: whoever is behind asks several times before he has everything."""


@frozen
class Replicated:
    """How all brokers are set up."""

    settings: ReplicaSettings
    log: LogConfig
    durable: bool
    """What a member of the ISR has is on its disk when it counts."""
    anywhere: bool
    """Consumers read from followers, too."""
    timeout_ms: int = 300
    """Of whoever asks a leader to tell him when the others have it."""


def replicated(script: Script) -> Replicated:
    said = [op for op in script.ops if isinstance(op, Replication)]
    chosen = said[-1] if said else Replication(0)
    return Replicated(
        ReplicaSettings(
            lag_time_max_ms=chosen.lag_ms,
            min_insync=chosen.in_sync,
            sync_writes=chosen.durability == "before",
            follower_reads=chosen.reads == "anybody",
            fetch_wait_ms=100,
            fetch_backoff_ms=30,
            isr_backoff_ms=40,
            isr_quiet_ms=40,
            isr_late_ms=400,
            partition_bytes_max=FETCH_BYTES,
            fetch_diverges=chosen.truncation == "fetched",
        ),
        LogConfig(
            segment_bytes=script.knobs.segment_bytes,
            index_interval_bytes=200,
            flush_ms=FLUSH_MS,
            flush_messages=1 if chosen.durability == "each" else LONG_MAX,
            retention_bytes=chosen.retention_bytes or UNBOUNDED,
            retention_ms=chosen.retention_ms or UNBOUNDED,
            file_delete_delay_ms=0,
        ),
        durable=chosen.durability != "cache",
        anywhere=chosen.reads == "anybody",
        timeout_ms=chosen.timeout_ms,
    )


class PartitionsWorld(ControllerWorld):
    brokers: dict[int, PartitionBroker]  # type: ignore[assignment]  # it makes no others
    workload: PartitionsWorkload

    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        self.replication = replicated(script)
        self.reads_anywhere = self.replication.anywhere
        self.keeper = Keeper(self)
        self.positions = Positions(self)
        self.shares = Shares()
        self.tapes: dict[str, Recorder] = {}
        """Of each group what its members were told."""
        self._producers = 0
        self.acknowledged_at: list[int] = []
        """When a producer that waits for all was told that it has been heard, in microseconds."""
        super().__init__(script, trace=trace, checkers=checkers)
        self.wires = Wires(self)

    def make_broker(self, number: int) -> Broker:
        return PartitionBroker(self, number)

    def make_workload(self) -> PartitionsWorkload:
        return PartitionsWorkload(self)

    def make_liveness(self) -> PartitionsLiveness:
        return PartitionsLiveness(self)

    # -- processes ---------------------------------------------------------------------------------------

    def crashed(self, crash: Crashed) -> None:
        broker = crash.server
        if isinstance(broker, PartitionBroker):
            broker.crash(crash.loss)
            self.start_later(broker, crash.down_ms)
        else:
            super().crashed(crash)

    # -- for brokers and their clients -------------------------------------------------------------------

    def send(self, source: int, target: int, act: Callable[[PartitionBroker], None]) -> None:
        self.wires.send(source, target, lambda: act(self.brokers[target]))

    def fsync_us(self, random: Random) -> int:
        return self.fsync_min + int(random.random() * self.fsync_span)

    def outcome(self) -> Outcome:
        made = super().outcome()
        brokers = of_brokers(self.availability.beside, self.acknowledged_at, self.liveness.began or self.now)
        made = evolve(made, recoveries=(*made.recoveries, *brokers))
        return with_members(made, self.tapes, self.positions.doubtful)

    def new_producer(self) -> int:
        self._producers += 1
        return self._producers

    # -- for the onlooker --------------------------------------------------------------------------------

    @property
    def changes_upto(self) -> int:
        return len(self.ghost.canon)

    def changes_since(self, place: int) -> Iterator[Change]:
        """What has been committed since then."""
        for batch in committed(self.ghost, place):
            yield from changes_of_batch(batch)
