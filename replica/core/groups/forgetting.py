"""Positions and groups that nobody wants any more: asked to be deleted, or too old, or of topics that are gone.

What is forgotten has a record of that in the topic before anybody is told: a coordinator that comes next knows it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final, TypeAlias

from kraft_controller.core.names import TopicPartition
from replica.core.groups.desk import Desk, E, commit_error
from replica.core.groups.group import CONSUMER, Group
from replica.core.groups.messages import Delete, Deleted, DeleteOffsets, OffsetsDeleted, Position, Ticket
from replica.core.groups.ready import Expired, GroupRecord, NotWritten, OffsetRecord, Record
from replica.core.groups.states import GroupState

S = GroupState

TOMBSTONES_PER_BATCH: Final = 1_000
"""A batch that is too large for its topic would be refused as a whole, each time anew."""

Gone: TypeAlias = Callable[[Group, int], None]
"""Nothing is left of that group in the topic, at that time."""


# -- who asks for it ---------------------------------------------------------------------------------------


def on_delete(desk: Desk, group: Group, ticket: Ticket, _: Delete, now: int, gone: Gone) -> None:
    if group.state is not S.EMPTY:
        desk.answer(ticket, Deleted(E.NON_EMPTY_GROUP))
        return

    def then(error: E, later: int) -> None:
        if error is E.NONE:
            gone(group, later)
        desk.answer(ticket, Deleted(commit_error(error)))

    _bury(desk, group, tuple(group.offsets.positions), True, now, then)


def on_delete_offsets(desk: Desk, group: Group, ticket: Ticket, ask: DeleteOffsets, now: int) -> None:
    subscribed: Collection[str] | None = frozenset()
    if group.state is not S.EMPTY:
        if group.protocol_type != CONSUMER:
            desk.answer(ticket, OffsetsDeleted(E.NON_EMPTY_GROUP))
            return
        subscribed = group.subscribed
    errors = dict.fromkeys(ask.partitions, E.NONE)
    for where in ask.partitions:
        if subscribed is None or where.topic in subscribed:
            errors[where] = E.GROUP_SUBSCRIBED_TO_TOPIC
    free = [where for where in errors if errors[where] is E.NONE]

    def then(error: E, _: int) -> None:
        outcome = errors | dict.fromkeys(free, commit_error(error))
        desk.answer(ticket, OffsetsDeleted(E.NONE, outcome))

    _bury(desk, group, [where for where in free if where in group.offsets.positions], False, now, then)


# -- what nobody asks for ----------------------------------------------------------------------------------


def sweep(desk: Desk, group: Group, now: int, gone: Gone) -> None:
    """Positions that nobody wants any more go, and the group if nothing is left of it."""
    _forget(desk, group, list(_expired(desk, group, now)), now, gone)


def topics_gone(desk: Desk, group: Group, topics: Collection[str], now: int, gone: Gone) -> None:
    """They are deleted: a topic that gets one of their names begins at 0, and so must whoever reads it."""
    if wheres := [where for where in group.offsets.positions if where.topic in topics]:
        _forget(desk, group, wheres, now, gone)


def _forget(desk: Desk, group: Group, wheres: list[TopicPartition], now: int, gone: Gone) -> None:
    nothing_left = len(wheres) == len(group.offsets.positions) and not group.offsets.on_the_way
    group_too = nothing_left and group.state is S.EMPTY and not group.pending
    if not wheres and not group_too:
        return

    def then(error: E, later: int) -> None:
        if error is not E.NONE:
            if group.state is not S.DEAD:
                desk.note(NotWritten(group.id, "what was to be forgotten of it", error))
            return
        desk.note(Expired(group.id, len(wheres), group_too))
        if group_too:
            gone(group, later)

    _bury(desk, group, wheres, group_too, now, then)


def _expired(desk: Desk, group: Group, now: int) -> Iterator[TopicPartition]:
    """Positions count their age from when nobody was left to need them; where nobody ever was, from their commit."""

    def since_empty(position: Position) -> int:
        return group.since_ms if group.since_ms >= 0 else position.committed_ms

    def since_commit(position: Position) -> int:
        return position.committed_ms

    retention = desk.settings.offsets_retention_ms
    if group.protocol_type is None:
        yield from group.offsets.expired(now, retention, since_commit)
    elif group.state is S.EMPTY:
        yield from group.offsets.expired(now, retention, since_empty)
    elif group.state is S.STABLE and group.protocol_type == CONSUMER and group.subscribed is not None:
        yield from group.offsets.expired(now, retention, since_commit, group.subscribed)


# -- how ---------------------------------------------------------------------------------------------------


def _bury(
    desk: Desk,
    group: Group,
    wheres: Collection[TopicPartition],
    group_too: bool,
    now: int,
    then: Callable[[E, int], None],
) -> None:
    """Tombstones for positions, and for the group at last. `then` is called once: all are safe, or one failed.

    What was committed or joined meanwhile stands behind them in the topic, and stays.
    """
    records: list[Record] = [OffsetRecord(group.id, where, None) for where in wheres]
    if group_too and group.saved_at >= 0:
        records.append(GroupRecord(group.id, None))
    chunks = [
        tuple(records[first : first + TOMBSTONES_PER_BATCH]) for first in range(0, len(records), TOMBSTONES_PER_BATCH)
    ]
    if not chunks:
        then(E.NONE, now)
        return
    waiting = len(chunks)
    failed = E.NONE
    group.offsets.begin(wheres)

    def finished(chunk: tuple[Record, ...]) -> Callable[[E, int, int], None]:
        def done(error: E, at: int, later: int) -> None:
            nonlocal waiting, failed
            waiting -= 1
            for index, record in enumerate(chunk):
                if isinstance(record, OffsetRecord):
                    if error is E.NONE:
                        group.offsets.drop(record.where, at + index)
                    group.offsets.end((record.where,))
                elif error is E.NONE and at + index > group.saved_at:
                    group.saved_at = -1
            failed = failed if error is E.NONE else error
            if not waiting:
                then(failed, later)

        return done

    for chunk in chunks:
        desk.write(group.partition, chunk, now, finished(chunk))
