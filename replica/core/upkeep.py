"""What a leader does for its partition: the high watermark, who leaves the ISR and who comes in."""

from __future__ import annotations

from kraft_controller.core.names import LeaderEpoch, TopicPartition, Version
from kraft_controller.core.state import PartitionState
from replica.core.desk import Desk
from replica.core.errors import ErrorCode
from replica.core.followers import Follower
from replica.core.isr import Doubt
from replica.core.leading import Leading
from replica.core.partition import Partition
from replica.core.purgatory import Line
from replica.core.wants import ReadIsr, WriteIsr


def advance(desk: Desk, partition: Partition, now: int) -> None:
    """After anything that may let more be committed; tells those who wait for it."""
    if partition.advance(now, desk.live, desk.settings):
        desk.purgatory.reached(partition.where, Line.COMMITTED, partition.high_watermark)
        desk.committed[partition.where] = None


def follower_has(
    desk: Desk, partition: Partition, leading: Leading, follower: Follower, offset: int, start: int, now: int
) -> None:
    """A follower has fetched, of this epoch and without diverging: it has everything before `offset`."""
    end = partition.log.end_offset
    moved = start > follower.start_offset
    follower.fetched(offset, start, end, now)
    if not leading.isr.changing and leading.may_join(follower, partition.high_watermark) and _lives(desk, follower):
        desk.ask_isr(partition, leading, (*leading.isr.members, follower.id))
    advance(desk, partition, now)
    if moved:
        deleted(desk, partition, leading)


def _lives(desk: Desk, follower: Follower) -> bool:
    """As the controller sees it, and if the follower says which life of his it is, then this one."""
    there = desk.live.get(follower.id)
    return there is not None and follower.broker_epoch in (-1, there.epoch)


def deleted(desk: Desk, partition: Partition, leading: Leading) -> None:
    least = leading.least_start(partition.log.start_offset, desk.live)
    desk.purgatory.reached(partition.where, Line.DELETED, least)


def check_isrs(desk: Desk, now: int) -> None:
    """Who lags for too long leaves: all of them at once, in one change. Only what is behind is looked at."""
    for where in list(desk.behind):
        partition = desk.partitions.get(where)
        if partition is None or not isinstance(partition.role, Leading):
            del desk.behind[where]
            continue
        leading, end = partition.role, partition.log.end_offset
        advance(desk, partition, now)  # nobody waits any more for who was about to join and has given up
        if leading.isr.changing:
            continue
        out = leading.out_of_sync(end, now, desk.settings)
        if out:
            desk.ask_isr(partition, leading, tuple(each for each in leading.isr.members if each not in out))
        elif partition.high_watermark == end and leading.all_have(end):
            del desk.behind[where]


# -- what became of a change -------------------------------------------------------------------------------


def _asked(desk: Desk, where: TopicPartition, epoch: LeaderEpoch) -> tuple[Partition, Leading] | None:
    partition = desk.partitions.get(where)
    if partition is None or not isinstance(partition.role, Leading) or partition.role.epoch != epoch:
        return None
    return partition, partition.role


def isr_written(desk: Desk, write: WriteIsr, version: Version, now: int) -> None:
    found = _asked(desk, write.where, write.state.leader_epoch)
    if found is not None and found[1].isr.asked == write.state.isr and found[1].isr.version == write.state.version:
        found[1].isr.written(version)
        isr_changed(desk, *found, now)


def isr_unwanted(desk: Desk, write: WriteIsr, now: int) -> None:
    """It was not written, since one who was to join is not there any more."""
    found = _asked(desk, write.where, write.state.leader_epoch)
    if found is None or found[1].isr.asked != write.state.isr or found[1].isr.superseded:
        return
    partition, leading = found
    if leading.isr.give_up():
        isr_changed(desk, partition, leading, now)
    else:
        desk.writes.append(WriteIsr(write.where, leading.state(leading.isr.members)))


def isr_doubtful(desk: Desk, write: WriteIsr, *, lost: bool) -> None:
    """It was refused, because of its version, or the answer was lost. In both cases the node knows more."""
    found = _asked(desk, write.where, write.state.leader_epoch)
    if found is not None and found[1].isr.asked == write.state.isr:
        found[1].isr.doubtful |= lost
        desk.reads.append(ReadIsr(write.where, found[1].epoch))


def isr_gone(desk: Desk, where: TopicPartition, epoch: LeaderEpoch) -> None:
    found = _asked(desk, where, epoch)
    if found is not None:
        desk.note("isr_superseded", partition=str(where), why="there is no such partition any more")
        found[1].isr.gone()


def isr_read(desk: Desk, where: TopicPartition, epoch: LeaderEpoch, state: PartitionState, now: int) -> None:
    found = _asked(desk, where, epoch)
    if found is None or found[1].isr.asked is None or found[1].isr.superseded:
        return
    partition, leading = found
    match leading.isr.read(state, epoch):
        case Doubt.SETTLED:
            isr_changed(desk, partition, leading, now)
        case Doubt.ASK_AGAIN:
            desk.write_isr(where, leading)
        case Doubt.READ_AGAIN:
            desk.look_again(where, now)
        case Doubt.SUPERSEDED:
            desk.note("isr_superseded", partition=str(where), why=f"leader epoch {state.leader_epoch} was decided on")


def look_again(desk: Desk, where: TopicPartition) -> None:
    partition = desk.partitions.get(where)
    if partition is not None and isinstance(partition.role, Leading):
        isr = partition.role.isr
        if isr.asked is not None and not isr.superseded:
            desk.reads.append(ReadIsr(where, partition.role.epoch))


def isr_changed(desk: Desk, partition: Partition, leading: Leading, now: int) -> None:
    """It stands. With fewer members more may be committed at once, though nobody fetches; or nothing more at all."""
    desk.note("isr_changed", partition=str(partition.where), isr=leading.isr.members, version=leading.isr.version)
    desk.behind[partition.where] = None
    desk.disturb(partition.where)
    advance(desk, partition, now)
    too_few(desk, partition)


def too_few(desk: Desk, partition: Partition) -> None:
    """Who waits for acknowledgements of more replicas than there are in sync is told so."""
    if isinstance(partition.role, Leading) and not partition.enough_in_sync:
        isr = list(partition.role.isr.members)
        text = f"it is written, but only {isr} are in sync, and {partition.min_insync} have to be"
        desk.purgatory.failed(partition.where, Line.COMMITTED, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, text)
