"""The simulator of brokers with replicated partitions, with their network and their settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from random import Random
from typing import Final

from attrs import evolve

from harness.changes import changes_of_batch
from harness.checkers import ALL, Checker
from harness.checkers.partitions.checkers import ReplicationCheckers
from harness.checkers.partitions.observed import Replicated
from harness.checkers.records import members
from harness.checkers.records.case import prepared
from harness.checkers.transactions import NOWHERE, Journal, PositionReply
from harness.faults import CreateTopic, Replication, Script, Transact
from harness.history import Change
from harness.outcome import Outcome
from harness.recoveries import of_brokers
from harness.worlds.brokers.recorder import Recorder
from harness.worlds.brokers.verdict import with_transactions
from harness.worlds.common import Common
from harness.worlds.controller.administration import name_of
from harness.worlds.cores.controller.simulator import ControllerSimulator
from harness.worlds.cores.store.checks import committed
from harness.worlds.disks import Crashed
from kraft_controller.core.names import OFFSETS_TOPIC, TopicPartition
from replica.core.partitions.log_config import UNBOUNDED, LogConfig
from replica.core.replica_settings import ReplicaSettings
from replica.wire.validation import LONG_MAX

FLUSH_MS: Final = 250
"""The longest time for which written data stays in the cache only, unless a request waits for the disk."""
FETCH_BYTES: Final = 400
"""The size of a few batches, so that a lagging follower needs several fetches."""


REPLICAS: Final = ReplicaSettings(
    fetch_wait_ms=100,
    fetch_backoff_ms=30,
    isr_backoff_ms=40,
    isr_quiet_ms=40,
    isr_late_ms=400,
    partition_bytes_max=FETCH_BYTES,
)
LOGS: Final = LogConfig(index_interval_bytes=200, flush_ms=FLUSH_MS, file_delete_delay_ms=0)
"""The settings that `Replication` does not have."""


def replicated(script: Script) -> Replicated:
    """Return the replication settings of a script: those of its last `Replication`, or the default."""
    given = [op for op in script.ops if isinstance(op, Replication)]
    chosen = given[-1] if given else Replication(0)
    return Replicated(
        evolve(
            REPLICAS,
            lag_time_max_ms=chosen.lag_ms,
            min_insync=chosen.in_sync,
            sync_writes=chosen.durability == "before",
            follower_reads=chosen.reads == "anybody",
            fetch_diverges=chosen.truncation == "fetched",
        ),
        evolve(
            LOGS,
            segment_bytes=script.knobs.segment_bytes,
            flush_messages=1 if chosen.durability == "each" else LONG_MAX,
            retention_bytes=chosen.retention_bytes or UNBOUNDED,
            retention_ms=chosen.retention_ms or UNBOUNDED,
        ),
        durable=chosen.durability != "cache",
        anywhere=chosen.reads == "anybody",
        timeout_ms=chosen.timeout_ms,
    )


def transacted(script: Script) -> frozenset[str]:
    """Return the topics that transactions write to. They include the topic of offsets if the script creates it."""
    written = {name_of(op.topic) for op in script.ops if isinstance(op, Transact)}
    created = {name_of(op.topic) for op in script.ops if isinstance(op, CreateTopic)} if written else set()
    return frozenset(written | (created & {OFFSETS_TOPIC}))


class Wires:
    """The network of brokers and clients, which delivers in order between any two of them.

    Clients have negative numbers. Messages are lost while a party is cut off or two brokers are parted, also those in
    transit. Their sender is not notified.
    """

    def __init__(self, world: Common) -> None:
        timing = world.script.timing
        self._world = world
        self._random = Random(f"{world.script.seed}/wires")
        self._delay_min = timing.delay_us_min
        self._delay_span = max(1, timing.delay_us_max - timing.delay_us_min)
        self.cut: dict[int, int] = {}
        """The number of faults that cut a broker off, by broker."""
        self.parted: dict[tuple[int, int], int] = {}
        """The number of faults that part two brokers, by pair with the lower number first."""
        self.slow: dict[int, int] = {}
        """The additional delay of messages in microseconds, by sender."""
        self._last: dict[tuple[int, int], int] = {}

    def heal(self) -> None:
        for each in (self.cut, self.parted, self.slow):
            each.clear()

    def reach(self, source: int, target: int) -> bool:
        if self.cut and (source in self.cut or target in self.cut):
            return False
        return not self.parted or (min(source, target), max(source, target)) not in self.parted

    def send(self, source: int, target: int, act: Callable[[], None]) -> None:
        if not self.reach(source, target):
            return
        link, delay = (source, target), self._delay_min + int(self._random.random() * self._delay_span)
        at, last = self._world.now + delay + self.slow.get(source, 0), self._last.get(link, 0)
        self._last[link] = at = at if at > last else last + 1
        self._world.push(at, self._arrive, link, act)

    def _arrive(self, link: tuple[int, int], act: Callable[[], None]) -> None:
        if self.reach(*link):
            act()


class PartitionsSimulator(ControllerSimulator):
    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        self.replication = replicated(script)
        self.reads_anywhere = self.replication.anywhere
        self.checkers = ReplicationCheckers(self)
        self.recorders: dict[str, Recorder] = {}
        """The recorded history of the members of a group, by group."""
        self.transacted = transacted(script)
        """The topics that transactions write to."""
        self.journal = Journal()
        self.incarnations = 0
        """The number of initializations of transactional ids."""
        self.positions: dict[str, tuple[str, TopicPartition]] = {}
        """The groups and partitions whose offset only transactions commit, by the name in the history."""
        self.offsets = 0
        """The newest offset that a transactional producer has committed in a group. Each is greater than the last."""
        self.granted: dict[tuple[int, int], bool] = {}
        """The granted producer ids with their epochs. True: granted again after coordinators legally lost records, so
        that a leader may take a batch of one producer for a repeated batch of the other."""
        self._producers = 0
        self.acknowledged_at: list[int] = []
        """The times in microseconds at which producers with acks=all received an acknowledgement."""
        super().__init__(script, trace=trace, checkers=checkers)
        self.wires = Wires(self)

    def crashed(self, crash: Crashed, _: None = None) -> None:
        if crash.server in self.brokers.values():
            crash.server.crash(crash.loss)
            self.start_later(crash.server, crash.down_ms)
        else:
            super().crashed(crash)

    def later(self, wait_us: int, act: Callable[[], None]) -> None:
        self.push(self.now + wait_us, _call, act, None)

    def new_producer(self) -> int:
        self._producers += 1
        return self._producers

    def outcome(self) -> Outcome:
        made = super().outcome()
        brokers = of_brokers(self.availability.broker_hits, self.acknowledged_at, self.liveness.began or self.now)
        made = evolve(made, recoveries=(*made.recoveries, *brokers))
        made = with_members(made, self.recorders, self.checkers.positions.doubtful)
        if self.checkers.stability.doubtful():
            return made
        self.journal.final = self.checkers.stability.final()
        self._add_final_positions()
        self.journal.complete = made.valid
        return with_transactions(made, self.journal)

    def _add_final_positions(self) -> None:
        """Add the positions at the end to the history, as the committed records have them.

        Positions that were deleted because they were old are removed from the history.
        """
        journal, positions = self.journal, self.checkers.positions
        moment = journal.moment()
        for name, (group, where) in self.positions.items():
            if positions.deleted(group, where):
                journal.forget(name)
            else:
                offset = positions.final(group, where)
                shown = NOWHERE if offset is None else offset
                journal.positions.append(PositionReply(name, shown, True, moment, moment))

    # -- for the checkers of replication -----------------------------------------------------------------

    @property
    def changes_upto(self) -> int:
        return len(self.ghost.canon)

    def changes_since(self, place: int) -> Iterator[Change]:
        """Yield the changes from this place of the committed history on."""
        for batch in committed(self.ghost, place):
            yield from changes_of_batch(batch)


def _call(act: Callable[[], None], _: None) -> None:
    act()


def with_members(outcome: Outcome, recorders: Mapping[str, Recorder], doubtful: Callable[[str], bool]) -> Outcome:
    """Judge the histories of group members, except of `doubtful` groups, whose positions may go back by lost records.

    A violation during the run is reported first.
    """
    if outcome.invariant is not None:
        return outcome
    for group, recorder in recorders.items():
        if doubtful(group):
            continue
        case = prepared(recorder.history())
        for broken in chain(members.owned(case), members.onwards(case)):
            return evolve(outcome, invariant=broken.invariant, what=broken.what, unknown=False)
    return outcome
