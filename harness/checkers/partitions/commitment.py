"""Committed records: which leader commits them, which replicas hold them, and which clients receive them."""

from __future__ import annotations

from typing import Final

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.copies import Copy, Key, Record, Truth, records_of
from harness.checkers.partitions.observed import Broker
from harness.checkers.partitions.producers import Producers
from harness.checkers.partitions.replicas import NEVER, Replicas
from kraft_controller.core.names import TopicPartition
from replica.core.partitions.leader_role import LeaderRole
from replica.core.replica_messages import Deleted, Fetched, Results

COMMITTED: Final = "no committed record is lost"
"""Checked when a leader acts in its leader epoch for the first time."""
EXPOSED: Final = "no uncommitted record counts as committed"
ALONE: Final = "the only ISR member commits all its records"
ACKNOWLEDGED: Final = "acknowledged records are committed by min.insync.replicas"
GONE_HERE: Final = "deleted records are gone from all live replicas"
READ: Final = "only committed records are read"


class Commitment:
    """Derives the committed records from the high watermarks of leaders, and checks them."""

    def __init__(self, replicas: Replicas, producers: Producers) -> None:
        self._replicas = replicas
        self._producers = producers
        self._alone: dict[tuple[int, Key], tuple[int, int, int]] = {}
        """The time since which a leader is the only ISR member, with the ISR's version and its high watermark then."""

    def check_new_leader(self, broker: int, copy: Copy, truth: Truth, epoch: int) -> None:
        """Check a leader that acts in a leader epoch for the first time."""
        if truth.fork == NEVER:
            return
        replicas = self._replicas
        unclean = any(truth.led < each <= epoch for each in truth.unclean)
        damaged = replicas.damage.pop((broker, copy.key), None)
        has, all_of_it = copy.has_of(truth.committed), len(truth.committed)
        if copy.high_watermark < all_of_it:
            replicas.reached("high watermark behind")
        every = (held[copy.key.where] for held in replicas.copies.values() if copy.key.where in held)
        if any(other.key == copy.key and copy.has_of(other.records) < len(other.records) for other in every):
            replicas.reached("logs diverge")
        if has < all_of_it:
            if not unclean and (damaged is None or has < damaged[0]):
                text = f"leads epoch {epoch} without the committed {truth.committed[has]} at offset {has}"
                raise Violation(COMMITTED, f"{copy.key}: broker {broker} {text}")
            for _ in range(has, all_of_it):
                replicas.world.counted("lost by an unclean election" if unclean else "lost by disks")
            truth.lost.update(enumerate(truth.committed[has:], start=has))
            del truth.committed[has:]
        if unclean or damaged is not None:
            # Set the fork even if no missing record was committed yet: the former leader may commit them later.
            truth.fork = epoch
        truth.led = epoch

    def check_high_watermark(self, broker: int, copy: Copy, truth: Truth, leads: bool, watermark: int) -> None:
        """Check a high watermark. Count the records below a leader's high watermark as committed."""
        records, committed = copy.records, truth.committed
        known = min(watermark, len(committed))
        if (offset := copy.has_of(committed)) < known:
            text = f"has {records[offset]} below its high watermark, at offset {offset}"
            raise Violation(EXPOSED, f"{copy.key}: broker {broker} {text}; {committed[offset]} was committed there")
        if watermark <= len(committed):
            return
        if not leads:
            raise Violation(
                EXPOSED,
                f"{copy.key}: broker {broker} follows with high watermark {watermark}; no leader's was above {known}",
            )
        committed.extend(records[known:watermark])
        self._producers.committed(copy.key, committed, known, copy.start)
        replicas = self._replicas
        replicas.must_be_durable(replicas.world.brokers[broker], copy.key, watermark, "leads and commits")
        state = truth.state
        # An unclean leader that does not act yet will truncate the records that it lacks.
        if state is not None and not any(truth.led < each <= state.leader_epoch for each in truth.unclean):
            replicas.must_hold(truth, state.isr, f"is in the ISR {list(state.isr)}")

    def idle(self, broker: Broker) -> None:
        """Check a broker at a time without requests."""
        settings = self._replicas.world.replication.settings
        for partition in broker.core.partitions.values():
            role, key = partition.role, (broker.id, Key(partition.where, broker.ident(partition)))
            watermark, end = partition.high_watermark, partition.log.end_offset
            if (
                not isinstance(role, LeaderRole)
                or role.isr.members != (broker.id,)
                or role.isr.asked is not None
                or watermark == end
                or not partition.enough_in_sync
                or settings.sync_writes
            ):
                self._alone.pop(key, None)
                continue
            now, seen = broker.clock(), (role.isr.version, watermark)
            since, *before = self._alone.setdefault(key, (now, *seen))
            if tuple(before) != seen:
                self._alone[key] = now, *seen
            elif now - since > 3 * settings.lag_time_max_ms and all(
                follower.end_offset < end for follower in role.followers.values()
            ):
                text = f"is the only ISR member, with log end {end}, but high watermark {watermark} since {since} ms"
                raise Violation(ALONE, f"{key[1]}: broker {broker.id} {text}")

    # -- replies to clients -------------------------------------------------------------------------------

    def check_replies(self, broker: Broker, results: Results) -> None:
        """Check a leader's replies.

        A leader whose disk failed in the same step has no replica any more, but the high watermark in its reply counts.
        """
        for result in results:
            if isinstance(result, Deleted):
                self._check_deleted(broker, result)
            elif isinstance(result, Fetched) and result.where not in broker.core.partitions:
                copy = self._replicas.copy(broker.id, result.where)
                if copy is not None and copy.leads and copy.epoch >= self._replicas.truths[copy.key].fork:
                    watermark = min(result.high_watermark, len(copy.records))
                    self.check_high_watermark(broker.id, copy, self._replicas.truths[copy.key], True, watermark)

    def _check_deleted(self, broker: Broker, result: Deleted) -> None:
        """Check a reply to DeleteRecords.

        Replicas that the leader considers failed are exempt, and records that a disk brings back later.
        """
        partition = broker.core.partitions.get(result.where)
        if result.error or partition is None or not isinstance(partition.role, LeaderRole):
            return
        key, gone = Key(result.where, broker.ident(partition)), result.low_watermark
        for follower in partition.role.followers:
            copy = self._replicas.copy(follower, result.where)
            if follower in broker.core.live and copy is not None and copy.key == key and copy.highest_start < gone:
                text = f"broker {broker.id} reported the records before offset {gone} as deleted"
                has = f"broker {follower} has records from offset {copy.highest_start} on"
                raise Violation(GONE_HERE, f"{key}: {text}, but {has}")

    def acknowledged(self, broker: Broker, where: TopicPartition, base: int, values: list[bytes]) -> None:
        """Check a reply to a producer with acks=all."""
        copy, partition = self._replicas.copy(broker.id, where), broker.core.partitions.get(where)
        if copy is None or partition is None or copy.key.ident != broker.ident(partition):
            return
        truth = self._replicas.truths[copy.key]
        if copy.epoch < truth.fork:
            return
        last = base + len(values) - 1
        found = [record.value for record in truth.committed[base : last + 1]]
        if found != values:
            raise Violation(
                ACKNOWLEDGED, f"{copy.key}: {values} were acknowledged at offset {base}, where {found} are committed"
            )
        record = truth.committed[last]
        holders = [each for each in self._replicas.copies if self._holds(each, copy.key, last, record)]
        least = min(self._replicas.world.replication.settings.min_insync, truth.factors.get(copy.epoch, truth.factor))
        if len(holders) < least:
            raise Violation(
                ACKNOWLEDGED, f"{copy.key}: offset {last} was acknowledged with replicas on {holders}, not {least}"
            )

    def _holds(self, broker: int, key: Key, offset: int, record: Record) -> bool:
        copy = self._replicas.copy(broker, key.where)
        if copy is None or copy.key != key:
            return False
        has = offset < copy.start or copy.records[offset : offset + 1] == [record]
        return has or (broker, key) in self._replicas.damage

    def delivered(self, broker: Broker, where: TopicPartition, offset: int, data: bytes) -> None:
        """Check the records that a consumer receives from this offset on."""
        copy = self._replicas.copy(broker.id, where)
        if copy is None or copy.epoch < self._replicas.truths[copy.key].fork or where not in broker.core.partitions:
            return
        truth = self._replicas.truths[copy.key]
        committed, lost = truth.committed, {} if copy.leads else truth.lost
        for at, record in records_of(data):
            if at >= offset and committed[at : at + 1] != [record] and lost.get(at) != record:
                text = f"a consumer received {record} at offset {at} from broker {broker.id}"
                raise Violation(READ, f"{copy.key}: {text}; {len(committed)} records are committed")
