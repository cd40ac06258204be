"""The onlooker: after each step of a broker it looks at what is different there, and objects to what must not be.

What may be lost is named exactly. A leader that was elected although it was not in sync takes what it lacks with it,
from the moment on in which it acts; and a member of the ISR whose disk lost what it held, and who is elected all the
same, takes no more with it than that. Nothing else of what was committed may be missing anywhere that counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from harness.checkers.controller.case import STATE, TOPIC
from harness.checkers.ghost import Violation
from harness.checkers.partitions.copies import (
    COMPACTED,
    GONE,
    Copy,
    Ident,
    Key,
    Record,
    Truth,
    common,
    ident_of,
    read_all,
    records_of,
)
from harness.checkers.partitions.epochs import TOLD, wrong_epochs
from harness.checkers.partitions.lives import Lives
from harness.history import Change
from harness.points.partitions import counted_as
from kraft_controller.core.commands import Command
from kraft_controller.core.names import NOBODY, BrokerId, TopicPartition, Version
from kraft_controller.wire import znodes
from replica.core.partitions.leader_role import LeaderRole
from replica.core.partitions.partition import Partition
from replica.core.partitions.partition_log import PartitionLog
from replica.core.replica_messages import Deleted, Fetched, Results

if TYPE_CHECKING:
    from harness.worlds.cores.partitions.broker import PartitionBroker
    from harness.worlds.cores.partitions.world import PartitionsWorld

COMMITTED: Final = "no committed record is lost"
"""Who begins to lead has it."""
IN_SYNC: Final = "ISR members have all committed records"
UNCUT: Final = "no committed record is truncated"
SAME: Final = "one record per offset and leader epoch"
EXPOSED: Final = "no uncommitted record counts as committed"
BACK: Final = "a leader's high watermark does not decrease"
WITHIN: Final = "the high watermark is within the log"
ACKNOWLEDGED: Final = "acknowledged records are committed by min.insync.replicas"
RETIRED: Final = "retention deletes only committed records"
YOUNG: Final = "records are deleted only by retention or on request"
REPLACED: Final = "compaction removes only records that a later one of the key replaces"
START: Final = "the log start offset does not decrease"
GONE_HERE: Final = "deleted records are gone from all live replicas"
READ: Final = "only committed records are read"
ONCE: Final = "a producer's records are stored once and in order"
ALONE: Final = "the only ISR member commits all its records"
KNOWN: Final = "a restored log knows its idempotent producers"
KEPT: Final = "written records survive the death of the process"
FLUSHED: Final = "flushed records survive a loss of power"
DURABLE: Final = "records that count as durable are on the disk"
"""Where writes have to be on the disk before they count."""

NEVER: Final = 1 << 60
"""No leader epoch is so high, and no offset. Whoever leads a partition that is being deleted counts no more."""


class Keeper:
    def __init__(self, world: PartitionsWorld) -> None:
        self._world = world
        self._place = 1
        self._idents: dict[str, Ident] = {}
        self.truths: dict[Key, Truth] = {}
        self.copies: dict[int, dict[TopicPartition, Copy]] = {}
        self.damage: dict[tuple[int, Key], tuple[int, int]] = {}
        """From this offset on, up to that one, a broker has lost to its disk what it had, and not got it back."""
        self._alone: dict[tuple[int, Key], tuple[int, int, int]] = {}
        """Since when a leader has been alone in sync, in which version of the ISR, with which high watermark."""
        self._lossy: dict[int, str] = {}
        """Whose disk may have lost something since its process was there, and how."""
        self._lives = Lives()

    # -- what the store says -----------------------------------------------------------------------------

    def catch_up(self) -> None:
        if self._place == self._world.changes_upto:
            return
        for change in self._world.changes_since(self._place):
            if change.path.startswith(znodes.TOPICS):
                self._changed(change)
            elif change.kind == "create" and change.path.startswith(f"{znodes.DELETE_TOPICS}/"):
                self._doomed(change.path.removeprefix(f"{znodes.DELETE_TOPICS}/"))
            elif change.path == znodes.CONTROLLER_EPOCH and change.kind in ("create", "set"):
                self._lives.reigns = znodes.read_controller_epoch(change.data)
        self._place = self._world.changes_upto

    def _changed(self, change: Change) -> None:
        named = TOPIC.fullmatch(change.path)
        if named is not None and change.kind in ("create", "set"):
            topic = znodes.read_topic(named[1], change.data, Version(0))
            if topic.id is not None:
                self._idents[named[1]] = ident_of(topic.id)
                for number, assignment in topic.partitions.items():
                    truth = self.truth(TopicPartition(named[1], number))
                    truth.factor = len(assignment.target)
                    truth.counted()
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
        truth.counted()
        if before is None:
            return
        if state.leader not in (NOBODY, before.leader) and state.leader not in before.isr:
            truth.unclean.append(state.leader_epoch)
            self._came_to("elected unclean")
        else:
            joined = [member for member in state.isr if member not in before.isr]
            self._must_hold(truth, joined, f"joins the ISR {list(state.isr)}", joining=True)
            led = self.copies.get(state.leader, {}).get(truth.key.where)
            if joined and led is not None and led.key == truth.key and len(led.records) > len(truth.committed):
                self._came_to("joins while it is written")
        if len(state.isr) == 1 < truth.factor:
            self._came_to("alone in sync")

    def _came_to(self, point: str) -> None:
        self._world.counted(counted_as(point))

    def _doomed(self, topic: str) -> None:
        """From now on nobody promises anything of it."""
        for key, truth in self.truths.items():
            if key.ident == self._idents.get(topic):
                truth.fork = NEVER
                truth.committed.clear()

    def truth(self, where: TopicPartition) -> Truth:
        """Of the topic that has this name now."""
        return self._truth(Key(where, self._idents[where.topic]))

    def _truth(self, key: Key) -> Truth:
        found = self.truths.get(key)
        if found is None:
            found = self.truths[key] = Truth(key)
        return found

    def exists(self, where: TopicPartition) -> bool:
        self.catch_up()
        return where.topic in self._idents and self.truth(where).state is not None

    def _must_hold(self, truth: Truth, brokers: Iterable[BrokerId], what: str, *, joining: bool = False) -> None:
        for broker in brokers:
            anew = joining and self._lives.known_anew(broker, truth.key.where)
            if (broker, truth.key) in self.damage and not anew:
                continue
            copy = self.copies.get(broker, {}).get(truth.key.where)
            has = copy.has_of(truth.committed) if copy is not None and copy.key == truth.key else 0
            if has < len(truth.committed):
                raise Violation(
                    IN_SYNC, f"{truth.key}: broker {broker} {what}, and lacks offset {has} of {len(truth.committed)}"
                )

    # -- what brokers hold ---------------------------------------------------------------------------------

    def looked(self, broker: PartitionBroker) -> None:
        """Something may be different at this broker."""
        self.catch_up()
        copies = self.copies.setdefault(broker.id, {})
        for where, partition in broker.core.partitions.items():
            copy = copies.get(where)
            leads = isinstance(partition.role, LeaderRole)
            now = (
                partition.log.end_offset,
                partition.log.start_offset,
                partition.cuts,
                partition.high_watermark,
                int(partition.leader_epoch),
                leads,
            )
            if copy is not None and copy.seen() == now and broker.ident(partition) == copy.key.ident:
                continue
            with broker.disk.files.aside():
                self._look(broker, partition, leads)

    def _look(self, broker: PartitionBroker, partition: Partition, leads: bool) -> None:
        where, log = partition.where, partition.log
        key = Key(where, broker.ident(partition))
        copies = self.copies[broker.id]
        copy = copies.get(where)
        if copy is None or copy.key != key:
            copy = copies[where] = Copy(key, high_watermark=partition.high_watermark)
        begins = copy.start
        truth = self._truth(key)
        cut = partition.cuts != copy.cuts
        if cut or log.end_offset < len(copy.records):
            self._was_cut(broker, copy, truth, log)
        elif log.start_offset < copy.start:
            raise Violation(START, f"{key}: from {copy.start} to {log.start_offset} at broker {broker.id}")
        elif log.end_offset > len(copy.records):
            if copy.leads and leads and truth.state is not None and copy.epoch < truth.state.leader_epoch:
                self._came_to("two leaders")
            copy.records += self._unseen(copy, truth, log.start_offset)
            self._grew(broker.id, copy, truth, read_all(log, len(copy.records)))
        if log.start_offset > copy.start:
            self._came_to("records go")
        copy.start = log.start_offset
        copy.let_go = max(copy.let_go, copy.start)
        epoch = int(partition.leader_epoch)
        same = leads and copy.leads and epoch == copy.epoch
        before, watermark = copy.high_watermark, partition.high_watermark
        copy.cuts, copy.epoch, copy.leads, copy.high_watermark = partition.cuts, epoch, leads, watermark
        self._know_epochs(broker, copy, cut=cut)
        if watermark > len(copy.records):
            raise Violation(WITHIN, f"{key}: {watermark} at broker {broker.id}, whose log ends at {len(copy.records)}")
        if same and watermark < before:
            raise Violation(BACK, f"{key}: from {before} to {watermark} at broker {broker.id} in epoch {epoch}")
        if leads and epoch > truth.led:
            self._acts(broker.id, copy, truth, epoch)
        if epoch >= truth.fork and (watermark > before or (leads and watermark > len(truth.committed))):
            self._committed(broker.id, copy, truth, leads, watermark)
        if epoch >= truth.fork and copy.start > begins and copy.start > len(truth.committed):
            raise Violation(
                RETIRED, f"{key}: broker {broker.id} begins at {copy.start}, and {len(truth.committed)} are committed"
            )
        if epoch >= truth.fork and copy.start > max(begins, truth.begun):
            self._may_begin(broker, copy, truth)

    def _grew(self, broker: int, copy: Copy, truth: Truth, records: list[Record]) -> None:
        for record in records:
            offset = len(copy.records)
            if record == GONE:
                self._may_lack(broker, copy, truth, offset)
                copy.records.append(record)
                continue
            place = offset, record.epoch
            written = place not in truth.known
            known = truth.known.setdefault(place, record)
            if known != record:
                raise Violation(
                    SAME, f"{copy.key}: broker {broker} has {record} at offset {offset}, another has {known}"
                )
            if record.producer >= 0:
                last = copy.sequences.get(record.producer, -1)
                if written and last < 0:
                    truth.unknown.add(place)
                elif record.sequence <= last and place not in truth.unknown:
                    raise Violation(
                        ONCE, f"{copy.key}: {record} at offset {offset} of broker {broker}, behind sequence {last}"
                    )
                copy.sequences[record.producer] = record.sequence
            copy.records.append(record)
        damaged = self.damage.get((broker, copy.key))
        if (
            damaged is not None
            and len(copy.records) >= damaged[1]
            and copy.has_of(truth.committed) == len(truth.committed)
        ):
            del self.damage[broker, copy.key]

    def _anew(
        self, broker: int, copy: Copy, truth: Truth, start: int, records: list[Record]
    ) -> list[tuple[int, Record]]:
        """Its log begins there and holds these now. What it had before and has not any more."""
        before = [*copy.records[:start], *self._unseen(copy, truth, start)]
        shared = common(copy.records, [*before, *records], start)
        gone = list(enumerate(copy.records[shared:], start=shared))
        copy.start, copy.records, copy.sequences = start, before, {}
        copy.let_go = max(copy.let_go, start)
        self._grew(broker, copy, truth, records)
        return [(offset, record) for offset, record in gone if truth.committed[offset : offset + 1] == [record]]

    @staticmethod
    def _unseen(copy: Copy, truth: Truth, start: int) -> list[Record]:
        """What it never had, or not for long enough to be looked at, and does not lack since its log begins there."""
        known = truth.committed[len(copy.records) : start]
        return known + [GONE] * (start - len(copy.records) - len(known))

    def _was_cut(self, broker: PartitionBroker, copy: Copy, truth: Truth, log: PartitionLog) -> None:
        before = len(copy.records)
        gone = self._anew(broker.id, copy, truth, log.start_offset, read_all(log))
        if len(copy.records) < before:
            self._came_to("tail cut")
        if gone and (broker.id, copy.key) not in self.damage:
            offset, record = gone[0]
            raise Violation(UNCUT, f"{copy.key}: broker {broker.id} cuts {record} at offset {offset}")

    def _know_epochs(self, broker: PartitionBroker, copy: Copy, *, cut: bool = False) -> None:
        log = broker.disk.logs.logs.get((copy.key.where.topic, copy.key.where.partition))
        if log is None or log.closed or log.end_offset != len(copy.records):
            return
        wrong = wrong_epochs(log.epochs.entries, copy, cut=cut)
        if wrong is not None:
            raise Violation(TOLD, f"{copy.key}: broker {broker.id} knows {wrong}")

    # -- what goes ---------------------------------------------------------------------------------------------

    def wished(self, broker: PartitionBroker, where: TopicPartition, upto: int) -> None:
        """Somebody asks a leader to let go of what is before."""
        copy, partition = self.copies.get(broker.id, {}).get(where), broker.core.partitions.get(where)
        if copy is not None and copy.leads and partition is not None and upto <= partition.high_watermark:
            truth = self.truths[copy.key]
            truth.begun = max(truth.begun, upto)

    def _may_begin(self, broker: PartitionBroker, copy: Copy, truth: Truth) -> None:
        """Nobody has let go of these before. What is too much and what is too old are told apart where a script sets
        one of both."""
        config, where, now = self._world.replication.log, copy.key.where, broker.clock()
        log = broker.disk.logs.logs.get((where.topic, where.partition))
        much = config.retention_bytes >= 0 and (
            log is None or log.size >= config.retention_bytes or config.retention_ms >= 0
        )
        for offset, record in enumerate(copy.records[truth.begun : copy.start], start=truth.begun):
            if much or record == GONE:
                continue
            if config.retention_ms < 0 or now - record.time <= config.retention_ms:
                raise Violation(
                    YOUNG, f"{copy.key}: {record} at offset {offset} is gone from broker {broker.id} at {now}"
                )
        truth.begun = copy.start

    def cleaned(self, broker: PartitionBroker, where: TopicPartition) -> None:
        """Its log may have less in it than it had."""
        copy = self.copies.get(broker.id, {}).get(where)
        log = broker.disk.logs.logs.get((where.topic, where.partition))
        if copy is None or log is None or log.closed or log.end_offset != len(copy.records):
            return
        truth = self.truths[copy.key]
        with broker.disk.files.aside():
            found = read_all(log)
        for offset, record in enumerate(found, start=log.start_offset):
            if record == GONE != copy.records[offset]:
                self._may_lack(broker.id, copy, truth, offset)
                copy.records[offset] = GONE
                self._world.counted("records replaced")
            elif record != copy.records[offset] != GONE:
                raise Violation(SAME, f"{copy.key}: broker {broker.id} has made {record} of {copy.records[offset]}")

    def _may_lack(self, broker: int, copy: Copy, truth: Truth, offset: int) -> None:
        """After somebody not in sync has led it is not known what a cleaner had before it."""
        if copy.key.where.topic in COMPACTED and (truth.fork != -1 or offset >= len(truth.committed)):
            return
        gone = truth.committed[offset] if offset < len(truth.committed) else GONE
        later = (record.key for record in truth.committed[offset + 1 :])
        if copy.key.where.topic not in COMPACTED or (gone.value and gone.key not in later):
            raise Violation(REPLACED, f"{copy.key}: broker {broker} has nothing at offset {offset}, where {gone} was")

    # -- what is committed ---------------------------------------------------------------------------------

    def _acts(self, broker: int, copy: Copy, truth: Truth, epoch: int) -> None:
        if truth.fork == NEVER:
            return
        unclean = any(truth.led < each <= epoch for each in truth.unclean)
        damaged = self.damage.pop((broker, copy.key), None)
        has, all_of_it = copy.has_of(truth.committed), len(truth.committed)
        if copy.high_watermark < all_of_it:
            self._came_to("leader knows less")
        every = (held[copy.key.where] for held in self.copies.values() if copy.key.where in held)
        if any(other.key == copy.key and copy.has_of(other.records) < len(other.records) for other in every):
            self._came_to("logs part")
        if has < all_of_it:
            if not unclean and (damaged is None or has < damaged[0]):
                raise Violation(
                    COMMITTED,
                    f"{copy.key}: broker {broker} leads epoch {epoch} and lacks {truth.committed[has]} at offset {has}",
                )
            for _ in range(has, all_of_it):
                self._world.counted("lost by an unclean election" if unclean else "lost by disks")
            truth.lost.update(enumerate(truth.committed[has:], start=has))
            del truth.committed[has:]
        if unclean or damaged is not None:
            # Also where nothing of what is missing was committed yet: whoever led before may not know, and do it still.
            truth.fork = epoch
        truth.led = epoch

    def _committed(self, broker: int, copy: Copy, truth: Truth, leads: bool, watermark: int) -> None:
        records, committed = copy.records, truth.committed
        known = min(watermark, len(committed))
        if copy.has_of(committed) < known:
            offset = copy.has_of(committed)
            raise Violation(
                EXPOSED, f"{copy.key}: broker {broker} takes {records[offset]} at {offset} for committed, and not "
                f"{committed[offset]}",
            )  # fmt: skip
        if watermark <= len(committed):
            return
        if not leads:
            raise Violation(
                EXPOSED, f"{copy.key}: broker {broker} follows, with {watermark}, and no leader is behind {known}"
            )
        committed.extend(records[known:watermark])
        self._is_durable(self._world.brokers[broker], copy.key, watermark, "leads and counts")
        state = truth.state
        # Who was elected though it is not in sync, and does not act yet, takes with it what it lacks when it does.
        if state is not None and not any(truth.led < each <= state.leader_epoch for each in truth.unclean):
            self._must_hold(truth, state.isr, f"is in the ISR {list(state.isr)}")

    def idle(self, broker: PartitionBroker) -> None:
        """Nothing has come in here just now: what is left to wait for?"""
        for partition in broker.core.partitions.values():
            role, key = partition.role, (broker.id, Key(partition.where, broker.ident(partition)))
            alone = isinstance(role, LeaderRole) and role.isr.members == (broker.id,) and role.isr.asked is None
            done = partition.high_watermark == partition.log.end_offset
            if not alone or done or not partition.enough_in_sync or self._world.replication.settings.sync_writes:
                self._alone.pop(key, None)
                continue
            assert isinstance(role, LeaderRole)
            now, seen = broker.clock(), (role.isr.version, partition.high_watermark)
            since, *before = self._alone.setdefault(key, (now, *seen))
            if tuple(before) != seen:
                self._alone[key] = now, *seen
            elif now - since > 3 * self._world.replication.settings.lag_time_max_ms and all(
                follower.end_offset < partition.log.end_offset for follower in role.followers.values()
            ):
                end = partition.log.end_offset
                raise Violation(ALONE, f"{key[1]}: {partition.high_watermark} at broker {broker.id}, which has {end}")

    def told(self, broker: PartitionBroker, results: Results) -> None:
        """What a leader answers. Its disk may have failed in the same step, and then there is nothing to look at."""
        for result in results:
            if isinstance(result, Deleted):
                self._deleted(broker, result)
            elif isinstance(result, Fetched) and result.where not in broker.core.partitions:
                copy = self.copies.get(broker.id, {}).get(result.where)
                if copy is not None and copy.leads and copy.epoch >= self.truths[copy.key].fork:
                    watermark = min(result.high_watermark, len(copy.records))
                    self._committed(broker.id, copy, self.truths[copy.key], True, watermark)

    def _deleted(self, broker: PartitionBroker, result: Deleted) -> None:
        """Whoever asked that records go believes now that nobody has them. What a disk brings back later is another
        thing, and who is dead, as far as the leader knows, nobody waits for."""
        partition = broker.core.partitions.get(result.where)
        if result.error or partition is None or not isinstance(partition.role, LeaderRole):
            return
        key = Key(result.where, broker.ident(partition))
        gone = result.low_watermark
        for follower in partition.role.followers:
            copy = self.copies.get(follower, {}).get(result.where)
            if follower not in broker.core.live or copy is None or copy.key != key:
                continue
            if copy.let_go < gone:
                text = f"broker {broker.id} says that nothing before {gone} is left, and broker {follower} has it"
                raise Violation(GONE_HERE, f"{key}: {text} from {copy.let_go} on")

    # -- what is told ----------------------------------------------------------------------------------------

    def acknowledged(self, broker: PartitionBroker, where: TopicPartition, base: int, values: list[bytes]) -> None:
        """To a producer that waits for all."""
        copy = self.copies.get(broker.id, {}).get(where)
        partition = broker.core.partitions.get(where)
        if copy is None or partition is None or copy.key.ident != broker.ident(partition):
            return
        truth = self.truths[copy.key]
        if copy.epoch < truth.fork:
            return
        found = [record.value for record in truth.committed[base : base + len(values)]]
        if found != values:
            raise Violation(ACKNOWLEDGED, f"{copy.key}: {values} at offset {base}, where {found} are committed")
        last = truth.committed[base + len(values) - 1]
        holders = [each for each in self.copies if self._holds(each, copy.key, base + len(values) - 1, last)]
        least = min(self._world.replication.settings.min_insync, truth.factors.get(copy.epoch, truth.factor))
        if len(holders) < least:
            raise Violation(ACKNOWLEDGED, f"{copy.key}: offset {base} is with {holders}, and {least} have to have it")

    def _holds(self, broker: int, key: Key, offset: int, record: Record) -> bool:
        copy = self.copies[broker].get(key.where)
        if copy is None or copy.key != key:
            return False
        has = offset < copy.start or copy.records[offset : offset + 1] == [record]
        return has or (broker, key) in self.damage

    def unknown(self, broker: PartitionBroker, where: TopicPartition, producer: int, sequence: int) -> None:
        """A producer is told that this sequence is not the next one."""
        copy = self.copies.get(broker.id, {}).get(where)
        if copy is None:
            return
        truth = self.truths[copy.key]
        if truth.state is None or copy.epoch != truth.state.leader_epoch:
            return  # it is not the leader, or does not know yet what it holds
        last = next((record for record in reversed(truth.committed) if record.producer == producer), None)
        if last is not None and last.sequence + 1 == sequence and copy.sequences.get(producer) == last.sequence:
            raise Violation(KNOWN, f"{copy.key}: producer {producer} sends {sequence} after {last.sequence}")

    def delivered(self, broker: PartitionBroker, where: TopicPartition, offset: int, data: bytes) -> None:
        """To a consumer, who looks at what begins at this offset."""
        copy = self.copies.get(broker.id, {}).get(where)
        if copy is None or copy.epoch < self.truths[copy.key].fork or where not in broker.core.partitions:
            return
        truth = self.truths[copy.key]
        committed, lost = truth.committed, {} if copy.leads else truth.lost
        for at, record in records_of(data):
            if at >= offset and committed[at : at + 1] != [record] and lost.get(at) != record:
                raise Violation(READ, f"{copy.key}: {record} at offset {at} of broker {broker.id}, of {len(committed)}")

    def commanded(self, broker: PartitionBroker, command: Command) -> None:
        """By a controller, and it is about to obey."""
        self.catch_up()
        self._lives.obeys(broker.id, command)

    # -- disks -----------------------------------------------------------------------------------------------

    def asks(self, broker: PartitionBroker, where: TopicPartition, offset: int) -> None:
        """To fetch from there on is to say that it has what is before."""
        partition = broker.core.partitions.get(where)
        if partition is not None:
            self._is_durable(broker, Key(where, broker.ident(partition)), offset, "fetches")

    def _is_durable(self, broker: PartitionBroker, key: Key, offset: int, what: str) -> None:
        found = broker.disk.logs.logs.get((key.where.topic, key.where.partition))
        if self._world.replication.settings.sync_writes and found is not None and found.recovery_point < offset:
            raise Violation(
                DURABLE, f"{key}: broker {broker.id} {what} {offset} records, and {found.recovery_point} are durable"
            )

    def lost(self, broker: PartitionBroker, how: str) -> None:
        """Its disk may have lost something; what, is seen when it is back."""
        self._lossy[broker.id] = how

    def deleted(self, broker: int, where: TopicPartition) -> None:
        """As it was told to."""
        self.catch_up()
        self.copies.get(broker, {}).pop(where, None)

    def restarted(self, broker: PartitionBroker) -> None:
        self.catch_up()
        self._lives.restarted(broker.id, broker.epoch)
        how = self._lossy.pop(broker.id, "")
        with broker.disk.files.aside():
            held = {
                where: (log.start_offset, read_all(log), ident) for where, (log, ident) in broker.disk.held().items()
            }
        for where, copy in list(self.copies.get(broker.id, {}).items()):
            start, records, ident = held.get(where, (0, [], None))
            truth = self.truths[copy.key]
            if ident is not None and ident != copy.key.ident:
                start, records = 0, []
            old, began = copy.records, copy.start
            gone = self._anew(broker.id, copy, truth, start, records)
            before, shared = len(old), common(old, copy.records, max(start, began))
            if not how and start > began and truth.state is not None:
                raise Violation(
                    KEPT, f"{copy.key}: broker {broker.id} had records from {began} on, and has them from {start} on"
                )
            copy.cuts, copy.leads = 0, False
            if how:
                # A cut may be undone, and a watermark of before it may be what was kept: it is believed once.
                copy.high_watermark = NEVER
            if not how and len(copy.records) < before and truth.state is not None:
                raise Violation(KEPT, f"{copy.key}: broker {broker.id} had {before} records, and has {len(records)}")
            if gone:
                self._world.counted("committed records lost by a disk")
                in_sync = truth.state is not None and broker.id in truth.state.isr
                if in_sync:
                    self._came_to("in sync without them")
                if how == "power" and in_sync and self._world.replication.durable:
                    raise Violation(FLUSHED, f"{copy.key}: broker {broker.id} lost {gone[0][1]} at offset {gone[0][0]}")
            if shared < before:
                if how == "power":
                    self._came_to("power takes records")
                since, until = self.damage.get((broker.id, copy.key), (before, before))
                self.damage[broker.id, copy.key] = min(since, shared), max(until, before)
