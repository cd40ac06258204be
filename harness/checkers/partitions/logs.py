"""The logs of brokers, compared after each step of a broker with their former content."""

from __future__ import annotations

from typing import Final

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.commitment import Commitment
from harness.checkers.partitions.copies import COMPACTED, GONE, SEQUENCES, Copy, Key, Record, Truth, common, read_all
from harness.checkers.partitions.observed import Broker
from harness.checkers.partitions.replicas import Replicas, log_of
from harness.checkers.partitions.stability import Stability
from kraft_controller.core.names import TopicPartition
from replica.core.partitions.leader_role import LeaderRole
from replica.core.partitions.partition import Partition
from replica.core.partitions.partition_log import PartitionLog

UNCUT: Final = "no committed record is truncated"
SAME: Final = "one record per offset and leader epoch"
BACK: Final = "a leader's high watermark does not decrease"
WITHIN: Final = "the high watermark is within the log"
RETIRED: Final = "retention deletes only committed records"
YOUNG: Final = "records are deleted only by retention or on request"
REPLACED: Final = "compaction removes only records that a later one of the key replaces"
START: Final = "the log start offset does not decrease"
ONCE: Final = "a producer's records are stored once and in order"
EPOCHS: Final = "a log knows the start of each leader epoch"
"""Replicas use the starts to find where their logs diverge. A wrong start can leave an uncommitted record in a replica
that counts it as committed; without this check that shows late, or never."""


class Logs:
    def __init__(self, replicas: Replicas, commitment: Commitment, stability: Stability) -> None:
        self._replicas = replicas
        self._commitment = commitment
        self._stability = stability

    def changed(self, broker: Broker) -> None:
        """Check the logs of a broker that may have changed."""
        replicas = self._replicas
        replicas.catch_up()
        copies = replicas.copies.setdefault(broker.id, {})
        for where, partition in broker.core.partitions.items():
            copy = copies.get(where)
            leads, log = isinstance(partition.role, LeaderRole), partition.log
            if (
                copy is not None
                and copy.partition is partition
                and copy.high_watermark == partition.high_watermark
                and len(copy.records) == log.end_offset
                and copy.start == log.start_offset
                and copy.cuts == partition.cuts
                and copy.epoch == partition.leader_epoch
                and copy.leads is leads
            ):
                continue
            with broker.disk.files.aside():
                self._compare(broker, partition, leads)

    def _compare(self, broker: Broker, partition: Partition, leads: bool) -> None:
        replicas, where, log = self._replicas, partition.where, partition.log
        key = Key(where, broker.ident(partition))
        copies = replicas.copies[broker.id]
        copy = copies.get(where)
        if copy is None or copy.key != key:
            copy = copies[where] = Copy(key, high_watermark=partition.high_watermark)
        copy.partition, begins = partition, copy.start
        truth = replicas.truth_of(key)
        cut = partition.cuts != copy.cuts
        if cut or log.end_offset < len(copy.records):
            self._truncated(broker, copy, truth, log)
        elif log.start_offset < copy.start:
            text = f"decreased its log start offset from {copy.start} to {log.start_offset}"
            raise Violation(START, f"{key}: broker {broker.id} {text}")
        elif log.end_offset > len(copy.records):
            if copy.leads and leads and truth.state is not None and copy.epoch < truth.state.leader_epoch:
                replicas.reached("two leaders")
            copy.records += _unseen(copy, truth, log.start_offset)
            self._append(broker.id, copy, truth, read_all(log, len(copy.records)))
        if log.start_offset > copy.start:
            replicas.reached("log start advances")
        copy.start = log.start_offset
        copy.highest_start = max(copy.highest_start, copy.start)
        epoch = int(partition.leader_epoch)
        same = leads and copy.leads and epoch == copy.epoch
        before, watermark = copy.high_watermark, partition.high_watermark
        copy.cuts, copy.epoch, copy.leads, copy.high_watermark = partition.cuts, epoch, leads, watermark
        _check_epochs(broker, copy, cut=cut)
        if watermark > len(copy.records):
            text = f"has high watermark {watermark} beyond log end {len(copy.records)}"
            raise Violation(WITHIN, f"{key}: broker {broker.id} {text}")
        if same and watermark < before:
            text = f"decreased its high watermark from {before} to {watermark} in leader epoch {epoch}"
            raise Violation(BACK, f"{key}: broker {broker.id} {text}")
        if leads and epoch > truth.led:
            self._commitment.check_new_leader(broker.id, copy, truth, epoch)
        if epoch < truth.fork:
            return
        if watermark > before or (leads and watermark > len(truth.committed)):
            self._commitment.check_high_watermark(broker.id, copy, truth, leads, watermark)
        self._stability.check(broker, partition, copy, truth)
        if copy.start > begins and copy.start > len(truth.committed):
            text = f"has log start offset {copy.start}, but only {len(truth.committed)} records are committed"
            raise Violation(RETIRED, f"{key}: broker {broker.id} {text}")
        if copy.start > max(begins, truth.deleted_upto):
            self._check_deletions(broker, copy, truth)

    def _append(self, broker: int, copy: Copy, truth: Truth, records: list[Record]) -> None:
        for record in records:
            offset = len(copy.records)
            if record == GONE:
                self._check_missing(broker, copy, truth, offset)
                copy.records.append(record)
                continue
            place = offset, record.epoch
            written = place not in truth.known
            known = truth.known.setdefault(place, record)
            if known != record:
                raise Violation(
                    SAME, f"{copy.key}: broker {broker} has {record} at offset {offset}, another log has {known}"
                )
            if record.sequence >= 0:
                producer = record.producer, record.producer_epoch
                last = copy.sequences.get(producer, -1)
                if last < 0:
                    if written:
                        truth.unknown.add(place)
                elif (last - record.sequence) % SEQUENCES < SEQUENCES // 2 and place not in truth.unknown:
                    raise Violation(
                        ONCE, f"{copy.key}: broker {broker} has {record} at offset {offset}, after sequence {last}"
                    )
                copy.sequences[producer] = record.sequence
            copy.records.append(record)
        damaged = self._replicas.damage.get((broker, copy.key))
        all_of_it = len(truth.committed)
        if damaged is not None and len(copy.records) >= damaged[1] and copy.has_of(truth.committed) == all_of_it:
            del self._replicas.damage[broker, copy.key]

    def replace(
        self, broker: int, copy: Copy, truth: Truth, start: int, records: list[Record]
    ) -> list[tuple[int, Record]]:
        """Replace the log by one with this start and these records. Return the committed records that it lost."""
        before = [*copy.records[:start], *_unseen(copy, truth, start)]
        shared = common(copy.records, [*before, *records], start)
        gone = list(enumerate(copy.records[shared:], start=shared))
        copy.start, copy.records, copy.sequences = start, before, {}
        copy.highest_start = max(copy.highest_start, start)
        self._append(broker, copy, truth, records)
        return [(offset, record) for offset, record in gone if truth.committed[offset : offset + 1] == [record]]

    def _truncated(self, broker: Broker, copy: Copy, truth: Truth, log: PartitionLog) -> None:
        before = len(copy.records)
        gone = self.replace(broker.id, copy, truth, log.start_offset, read_all(log))
        if len(copy.records) < before:
            self._replicas.reached("follower truncates")
        if gone and (broker.id, copy.key) not in self._replicas.damage:
            offset, record = gone[0]
            raise Violation(
                UNCUT, f"{copy.key}: broker {broker.id} truncated the committed {record} at offset {offset}"
            )

    # -- deleted records ---------------------------------------------------------------------------------------

    def requested(self, broker: Broker, where: TopicPartition, upto: int) -> None:
        """Record a client's request to a leader to delete the records before this offset."""
        copy, partition = self._replicas.copy(broker.id, where), broker.core.partitions.get(where)
        if copy is not None and copy.leads and partition is not None and upto <= partition.high_watermark:
            truth = self._replicas.truths[copy.key]
            truth.deleted_upto = max(truth.deleted_upto, upto)

    def _check_deletions(self, broker: Broker, copy: Copy, truth: Truth) -> None:
        """Check the deletion of records that no replica had deleted before.

        If the script limits both size and age, every deletion is excused, because either limit may be the reason.
        """
        config, now = self._replicas.world.replication.log, broker.clock()
        log = log_of(broker, copy.key.where)
        oversized = config.retention_bytes >= 0 and (
            log is None or log.size >= config.retention_bytes or config.retention_ms >= 0
        )
        for offset, record in enumerate(copy.records[truth.deleted_upto : copy.start], start=truth.deleted_upto):
            if oversized or record == GONE:
                continue
            if config.retention_ms < 0 or now - record.time <= config.retention_ms:
                raise Violation(
                    YOUNG, f"{copy.key}: broker {broker.id} deleted {record} at offset {offset}, at {now} ms"
                )
        truth.deleted_upto = copy.start

    def cleaned(self, broker: Broker, where: TopicPartition) -> None:
        """Check a log after its compaction, unless its disk has failed in the same step."""
        copy, log = self._replicas.copy(broker.id, where), log_of(broker, where)
        if copy is None or log is None or log.closed or log.end_offset != len(copy.records):
            return
        if broker.disk.files.errors.failed is not None:
            return
        truth = self._replicas.truths[copy.key]
        with broker.disk.files.aside():
            found = read_all(log)
        for offset, record in enumerate(found, start=log.start_offset):
            if record == GONE != copy.records[offset]:
                self._check_missing(broker.id, copy, truth, offset)
                copy.records[offset] = GONE
                self._replicas.world.counted("records replaced")
            elif record != copy.records[offset] != GONE:
                text = f"replaced {copy.records[offset]} by {record} at offset {offset}"
                raise Violation(SAME, f"{copy.key}: broker {broker.id} {text}")

    def _check_missing(self, broker: int, copy: Copy, truth: Truth, offset: int) -> None:
        """Check an offset without a record. After an unclean election the records that the cleaner read are unknown."""
        compacted = copy.key.where.topic in COMPACTED
        if compacted and truth.fork != -1:
            return
        gone = truth.committed[offset] if offset < len(truth.committed) else GONE
        if not compacted or (gone.value and not self._may_be_removed(copy, truth, offset)):
            raise Violation(REPLACED, f"{copy.key}: broker {broker} has no record at offset {offset}, where {gone} was")

    def _may_be_removed(self, copy: Copy, truth: Truth, offset: int) -> bool:
        """Return whether compaction may remove a committed record: one that a later one of its key replaces, one of an
        aborted transaction, or a marker whose transaction has no record left."""
        gone, transacted = truth.committed[offset], truth.key.where.topic in self._replicas.world.transacted
        if not transacted:
            return any(record.key == gone.key for record in truth.committed[offset + 1 :])
        ledger = self._replicas.ledger(truth)
        made = ledger.transactions[offset]
        if gone.control:
            ended = ledger.ended.get(offset)
            before = enumerate(copy.records[copy.start : offset], start=copy.start)
            return ended is None or all(ledger.transactions[at] is not ended for at, record in before if record != GONE)
        later = enumerate(truth.committed[offset + 1 :], start=offset + 1)
        replaced = any(record.key == gone.key and ledger.shows(at, record) for at, record in later)
        return replaced or ledger.incomplete or (made is not None and made.committed is False)


def _unseen(copy: Copy, truth: Truth, start: int) -> list[Record]:
    """Return the records between the copy's end and `start`. They were never read from the replica, but do not count as
    missing, because they are before its log start."""
    known = truth.committed[len(copy.records) : start]
    return known + [GONE] * (start - len(copy.records) - len(known))


# -- leader epochs -----------------------------------------------------------------------------------------


def _check_epochs(broker: Broker, copy: Copy, *, cut: bool) -> None:
    log = log_of(broker, copy.key.where)
    if log is None or log.closed or log.end_offset != len(copy.records):
        return
    wrong = wrong_epochs(log.epochs.entries, copy, cut=cut)
    if wrong is not None:
        raise Violation(EPOCHS, f"{copy.key}: the leader epochs of broker {broker.id} have {wrong}")


def wrong_epochs(entries: list[tuple[int, int]], copy: Copy, *, cut: bool) -> str | None:
    """Return the mistake in a log's leader epochs and their start offsets, or None.

    `cut`: the log was just truncated, so that no epoch may begin at its end.
    """
    records, begin, end = copy.records, copy.start, len(copy.records)
    last = max((start for _, start in entries), default=-1)
    if last > end or (cut and last == end and not copy.leads):
        return f"an epoch that begins at {last}, but the log ends at {end}"
    if len(entries) > 1 and entries[1][1] < begin:
        return f"two epochs that begin before the log start offset {begin}"
    epochs = [epoch for epoch, _ in entries]
    for place, (epoch, start) in enumerate(entries):
        before = records[start - 1] if begin < start <= end else GONE
        if before != GONE and before.epoch != (epochs[place - 1] if place else None):
            return f"epoch {epoch} from {start} on, but {before} is before that"
        here = records[start] if begin <= start < end else GONE
        if here != GONE and here.epoch != epoch:
            return f"epoch {epoch} from {start} on, but {here} is there"
    newest = records[-1] if begin < end else GONE
    known = [epoch for epoch, start in entries if start < end]
    if newest != GONE and newest.epoch != (known[-1] if known else None):
        return f"no entry for epoch {newest.epoch} of the last record {newest}"
    return None
