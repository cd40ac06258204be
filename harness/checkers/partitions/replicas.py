"""The oracle state of replication: each partition's state in the store, its committed records, and the replicas' logs.

Committed records may be lost in two cases only. A leader that was elected outside the ISR loses the records that it
lacks when it begins to act. An ISR member whose disk lost records, and that is elected nevertheless, loses exactly
those. No other committed record may be missing from a leader or an ISR member.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from harness.checkers.controller.case import STATE, TOPIC
from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.copies import Copy, Ident, Key, Truth, ident_of
from harness.checkers.partitions.ledger import Ledger
from harness.checkers.partitions.observed import Broker, World
from harness.checkers.partitions.processes import Processes
from harness.history import Change
from harness.probes import counted_as
from kraft_controller.core.names import NO_LEADER, BrokerId, TopicPartition, Version
from kraft_controller.wire import znodes
from replica.storage.unified_log import UnifiedLog

IN_SYNC: Final = "ISR members have all committed records"
DURABLE: Final = "records that count as durable are on the disk"

NEVER: Final = 1 << 60
"""A number above every leader epoch and offset. As the fork of a deleted partition it exempts all its leaders."""


class Replicas:
    def __init__(self, world: World) -> None:
        self.world = world
        self._place = 1
        self._idents: dict[str, Ident] = {}
        self.truths: dict[Key, Truth] = {}
        self.copies: dict[int, dict[TopicPartition, Copy]] = {}
        self.ledgers: dict[Key, Ledger] = {}
        """The transactions of each partition whose ledger was read."""
        self.damage: dict[tuple[int, Key], tuple[int, int]] = {}
        """The range of offsets that a broker's disk has lost, until the broker has fetched them again."""
        self.processes = Processes()

    # -- the store ---------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        upto = self.world.changes_upto
        if self._place == upto:
            return
        for change in self.world.changes_since(self._place):
            if change.path.startswith(znodes.TOPICS):
                self._changed(change)
            elif change.kind == "create" and change.path.startswith(f"{znodes.DELETE_TOPICS}/"):
                self._deletion_requested(change.path.removeprefix(f"{znodes.DELETE_TOPICS}/"))
            elif change.path == znodes.CONTROLLER_EPOCH and change.kind in ("create", "set"):
                self.processes.controller_epoch = znodes.read_controller_epoch(change.data)
        self._place = upto

    def _changed(self, change: Change) -> None:
        named = TOPIC.fullmatch(change.path)
        if named is not None and change.kind in ("create", "set"):
            topic = znodes.read_topic(named[1], change.data, Version(0))
            if topic.id is not None:
                self._idents[named[1]] = ident_of(topic.id)
                for number, assignment in topic.partitions.items():
                    truth = self.truth(TopicPartition(named[1], number))
                    truth.factor = len(assignment.target)
                    truth.keep_factor()
            return
        found = STATE.fullmatch(change.path)
        if found is None or found[1] not in self._idents:
            return
        truth = self.truth(TopicPartition(found[1], int(found[2])))
        before = truth.state
        if change.kind == "delete":
            truth.state = None
            return
        state = truth.state = znodes.read_partition_state(truth.key.where, change.data, Version(change.version))
        truth.keep_factor()
        if before is None:
            return
        if state.leader not in (NO_LEADER, before.leader) and state.leader not in before.isr:
            truth.unclean.append(state.leader_epoch)
            self.reached("elected unclean")
        else:
            joined = [member for member in state.isr if member not in before.isr]
            self.must_hold(truth, joined, f"joins the ISR {list(state.isr)}", joining=True)
            led = self.copy(state.leader, truth.key.where)
            if joined and led is not None and led.key == truth.key and len(led.records) > len(truth.committed):
                self.reached("joins ISR during writes")
        if len(state.isr) == 1 < truth.factor:
            self.reached("only one in sync")

    def _deletion_requested(self, topic: str) -> None:
        """Exempt a topic whose deletion was requested from the checks of committed records."""
        for key, truth in self.truths.items():
            if key.ident == self._idents.get(topic):
                truth.fork = NEVER
                truth.committed.clear()

    # -- queries -----------------------------------------------------------------------------------------

    def reached(self, point: str) -> None:
        self.world.counted(counted_as(point))

    def truth(self, where: TopicPartition) -> Truth:
        """Return the truth of a partition of the topic that has this name now."""
        return self.truth_of(Key(where, self._idents[where.topic]))

    def truth_of(self, key: Key) -> Truth:
        found = self.truths.get(key)
        if found is None:
            found = self.truths[key] = Truth(key)
        return found

    def ledger(self, truth: Truth) -> Ledger:
        """Return the transactions among the records of a partition that are committed now."""
        ledger = self.ledgers.get(truth.key)
        if ledger is None or ledger.fork != truth.fork:
            ledger = self.ledgers[truth.key] = Ledger(truth.fork)
        ledger.read(truth.committed)
        return ledger

    def copy(self, broker: int, where: TopicPartition) -> Copy | None:
        return self.copies.get(broker, {}).get(where)

    def exists(self, where: TopicPartition) -> bool:
        self.catch_up()
        return where.topic in self._idents and self.truth(where).state is not None

    def in_sync(self, broker: int, where: TopicPartition) -> bool:
        """Return whether the broker is in the ISR in the store."""
        self.catch_up()
        state = self.truth(where).state if where.topic in self._idents else None
        return state is not None and broker in state.isr

    # -- checks ------------------------------------------------------------------------------------------

    def must_hold(self, truth: Truth, brokers: Iterable[BrokerId], what: str, *, joining: bool = False) -> None:
        for broker in brokers:
            handled = joining and self.processes.failure_handled(broker, truth.key.where)
            if (broker, truth.key) in self.damage and not handled:
                continue
            copy = self.copy(broker, truth.key.where)
            has = copy.has_of(truth.committed) if copy is not None and copy.key == truth.key else 0
            if has < len(truth.committed):
                text = f"{what} without the record at offset {has}; {len(truth.committed)} records are committed"
                raise Violation(IN_SYNC, f"{truth.key}: broker {broker} {text}")

    def must_be_durable(self, broker: Broker, key: Key, offset: int, what: str) -> None:
        found = log_of(broker, key.where)
        if self.world.replication.settings.sync_writes and found is not None and found.recovery_point < offset:
            raise Violation(
                DURABLE, f"{key}: broker {broker.id} {what} {offset} records, but {found.recovery_point} are durable"
            )


def log_of(broker: Broker, where: TopicPartition) -> UnifiedLog | None:
    return broker.disk.logs.logs.get((where.topic, where.partition))
