"""Positions of groups: committing, asking, forgetting. None is shown before it is safe in the offsets topic."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from attrs import evolve

from kraft_controller.core.names import TopicPartition
from replica.core.groups import membership
from replica.core.groups.desk import Desk, E, commit_error
from replica.core.groups.group import CONSUMER, Group
from replica.core.groups.messages import (
    Commit,
    CommitInTransaction,
    Committed,
    Delete,
    Deleted,
    DeleteOffsets,
    Fetch,
    Fetched,
    Identity,
    OffsetsDeleted,
    Position,
    Ticket,
)
from replica.core.groups.ready import GroupRecord, NotWritten, OffsetRecord, Record
from replica.core.groups.states import GroupState

S = GroupState

TOMBSTONES_PER_BATCH: Final = 1_000
"""A batch that is too large for its topic would be refused as a whole, each time anew."""

# -- commit ----------------------------------------------------------------------------------------------


def refusal(group: Group, who: Identity) -> E | None:
    """Why nothing may be committed so. Who is no member may, as long as nobody is one."""
    if who.generation < 0 and group.state is S.EMPTY:
        return None
    if (error := membership.wrong(group, who)) is not None:
        return error
    if who.generation != group.generation:
        return E.ILLEGAL_GENERATION
    if group.state is S.COMPLETING_REBALANCE:
        return E.REBALANCE_IN_PROGRESS  # what it had may be somebody else's in this generation
    return None


def on_commit(desk: Desk, group: Group, ticket: Ticket, ask: Commit, now: int) -> None:
    if (error := refusal(group, ask.who)) is not None:
        desk.answer(ticket, Committed(dict.fromkeys(ask.positions, error)))
        return
    if ask.who.member in group.members:
        membership.alive(desk, group, group.members[ask.who.member], now)
    expires = now + ask.retention_ms if ask.retention_ms >= 0 else None
    kept, errors = _sorted_out(desk, ask.positions, now, expires)

    def done(error: E, at: int, _: int) -> None:
        for index, (where, position) in enumerate(kept.items()):
            if error is E.NONE:
                group.offsets.put(where, position, at + index)
        group.offsets.end(kept)
        outcome = dict.fromkeys(kept, commit_error(error))
        desk.answer(ticket, Committed({where: (errors | outcome)[where] for where in ask.positions}))

    if not kept:
        desk.answer(ticket, Committed(errors))
        return
    group.offsets.begin(kept)
    records = tuple(OffsetRecord(group.id, where, position) for where, position in kept.items())
    desk.write(group.partition, records, now, done)


def _sorted_out(
    desk: Desk, positions: Mapping[TopicPartition, Position], now: int, expires: int | None
) -> tuple[dict[TopicPartition, Position], dict[TopicPartition, E]]:
    """What may be kept, and what is wrong with the rest."""
    most = desk.settings.offset_metadata_max_bytes
    errors: dict[TopicPartition, E] = {}
    kept: dict[TopicPartition, Position] = {}
    for where, position in positions.items():
        if len(position.metadata) > most:
            errors[where] = E.OFFSET_METADATA_TOO_LARGE
        else:
            kept[where] = evolve(position, committed_ms=now, expires_ms=expires)
    return kept, errors


# -- commit in a transaction -----------------------------------------------------------------------------


def refusal_in_transaction(group: Group, who: Identity) -> E | None:
    """A producer that says nothing of a member, as old ones do, may: its transaction keeps it from doing harm."""
    if who.generation < 0 and group.state is S.EMPTY:
        return None
    if not says_who(who):
        return None
    if (error := membership.wrong(group, who)) is not None:
        return error
    return E.ILLEGAL_GENERATION if who.generation != group.generation else None


def says_who(who: Identity) -> bool:
    return who.generation >= 0 or who.member != "" or who.instance is not None


def on_commit_in_transaction(desk: Desk, group: Group, ticket: Ticket, ask: CommitInTransaction, now: int) -> None:
    """Answered when it is safe; shown when the transaction has ended well."""
    if (error := refusal_in_transaction(group, ask.who)) is not None:
        desk.answer(ticket, Committed(dict.fromkeys(ask.positions, error)))
        return
    kept, errors = _sorted_out(desk, ask.positions, now, None)
    if not kept:
        desk.answer(ticket, Committed(errors))
        return

    def done(error: E, at: int, _: int) -> None:
        for index, (where, position) in enumerate(kept.items()):
            if error is E.NONE:
                group.offsets.kept_in(ask.producer, where, position, at + index)
            else:
                group.offsets.lost_in(ask.producer, where)
        outcome = dict.fromkeys(kept, commit_error(error))
        desk.answer(ticket, Committed({where: (errors | outcome)[where] for where in ask.positions}))

    group.offsets.begin_in(ask.producer, kept)
    desk.open.setdefault((group.partition, ask.producer), {})[group.id] = None
    records = tuple(OffsetRecord(group.id, where, position) for where, position in kept.items())
    desk.write(group.partition, records, now, done, (ask.producer, ask.epoch))


# -- ask -------------------------------------------------------------------------------------------------


def on_fetch(desk: Desk, group: Group | None, ticket: Ticket, ask: Fetch) -> None:
    known = group.offsets.positions if group is not None else {}
    asked = ask.partitions if ask.partitions is not None else tuple(sorted(known))
    found: dict[TopicPartition, Position | E | None] = {where: known.get(where) for where in asked}
    if ask.stable and group is not None:
        found |= {where: E.UNSTABLE_OFFSET_COMMIT for where in asked if group.offsets.hangs(where)}
    desk.answer(ticket, Fetched(E.NONE, found))


# -- forget ----------------------------------------------------------------------------------------------


def bury(
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


def on_delete(
    desk: Desk, group: Group, ticket: Ticket, _: Delete, now: int, forget: Callable[[Group, int], None]
) -> None:
    if group.state is not S.EMPTY:
        desk.answer(ticket, Deleted(E.NON_EMPTY_GROUP))
        return

    def then(error: E, later: int) -> None:
        if error is E.NONE:
            forget(group, later)
        desk.answer(ticket, Deleted(commit_error(error)))

    bury(desk, group, tuple(group.offsets.positions), True, now, then)


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

    bury(desk, group, [where for where in free if where in group.offsets.positions], False, now, then)


# -- expire ----------------------------------------------------------------------------------------------


def expired(desk: Desk, group: Group, now: int) -> Iterator[TopicPartition]:
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


def not_buried(desk: Desk, group: Group, error: E) -> None:
    if group.state is not S.DEAD:
        desk.note(NotWritten(group.id, "what was to be forgotten of it", error))
