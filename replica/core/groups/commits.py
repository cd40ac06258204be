"""Positions of groups: committed, and asked for. None is shown before it is safe in the offsets topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import evolve

from kraft_controller.core.names import TopicPartition
from replica.core.groups import membership
from replica.core.groups.desk import Desk, E, commit_error
from replica.core.groups.group import Group
from replica.core.groups.messages import (
    Commit,
    CommitInTransaction,
    Committed,
    Fetch,
    Fetched,
    Identity,
    Position,
    Ticket,
)
from replica.core.groups.ready import OffsetRecord
from replica.core.groups.states import GroupState

S = GroupState
TIME_MAX: Final = 2**63 - 1
"""The latest time that a record has room for."""

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
    expires = min(now + ask.retention_ms, TIME_MAX) if ask.retention_ms >= 0 else None
    kept, errors = _sorted_out(desk, ask.positions, now, expires)

    def done(error: E, at: int, _: int) -> None:
        for index, (where, position) in enumerate(kept.items()):
            if error is E.NONE:
                group.offsets.put(where, position, at + index)
        group.offsets.end(kept)
        outcome = errors | dict.fromkeys(kept, commit_error(error))
        desk.answer(ticket, Committed({where: outcome[where] for where in ask.positions}))

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
        outcome = errors | dict.fromkeys(kept, commit_error(error))
        desk.answer(ticket, Committed({where: outcome[where] for where in ask.positions}))

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
