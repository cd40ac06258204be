"""Commits and fetches of offsets. An offset is visible when its record is committed; if it was committed in a
transaction, when the transaction has committed, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import evolve

from kraft_controller.core.names import TopicPartition
from replica.core.coordinator_topic import CoordinatorOutbox
from replica.core.groups.group_effects import GroupAppend, Note, OffsetRecord
from replica.core.groups.group_membership import GroupMembership
from replica.core.groups.group_messages import (
    Commit,
    CommitInTransaction,
    Committed,
    GroupIdentity,
    OffsetAndMetadata,
    OffsetFetch,
    OffsetsFetched,
    Reply,
    Ticket,
)
from replica.core.groups.group_metadata import GroupMetadata
from replica.core.groups.group_metadata_manager import E, GroupMetadataManager, commit_error
from replica.core.groups.group_settings import GroupSettings
from replica.core.groups.group_states import GroupState

S = GroupState
TIME_MAX: Final = 2**63 - 1
"""The latest time that a record can hold."""


class OffsetCommits:
    """Commits and returns the offsets of groups."""

    def __init__(
        self,
        settings: GroupSettings,
        membership: GroupMembership,
        groups: GroupMetadataManager,
        outbox: CoordinatorOutbox[Reply, GroupAppend, Note],
    ) -> None:
        self._settings = settings
        self._membership = membership
        self._groups = groups
        self._outbox = outbox

    def on_commit(self, group: GroupMetadata, ticket: Ticket, ask: Commit, now: int) -> None:
        if (error := refusal(group, ask.identity)) is not None:
            self._outbox.answer(ticket, Committed(dict.fromkeys(ask.positions, error)))
            return
        if ask.identity.member in group.members:
            self._membership.alive(group, group.members[ask.identity.member], now)
        expires = min(now + ask.retention_ms, TIME_MAX) if ask.retention_ms >= 0 else None
        kept, errors = self._sorted_out(ask.positions, now, expires)

        def done(error: E, at: int, _: int) -> None:
            for index, (where, position) in enumerate(kept.items()):
                if error is E.NONE:
                    group.offsets.put(where, position, at + index)
            group.offsets.end(kept)
            outcome = errors | dict.fromkeys(kept, commit_error(error))
            self._outbox.answer(ticket, Committed({where: outcome[where] for where in ask.positions}))

        if not kept:
            self._outbox.answer(ticket, Committed(errors))
            return
        group.offsets.begin(kept)
        records = tuple(OffsetRecord(group.id, where, position) for where, position in kept.items())
        self._groups.store(group, records, now, done)

    def _sorted_out(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata], now: int, expires: int | None
    ) -> tuple[dict[TopicPartition, OffsetAndMetadata], dict[TopicPartition, E]]:
        """Return the offsets to write, and the errors of the refused ones."""
        most = self._settings.offset_metadata_max_bytes
        errors: dict[TopicPartition, E] = {}
        kept: dict[TopicPartition, OffsetAndMetadata] = {}
        for where, position in positions.items():
            if len(position.metadata) > most:
                errors[where] = E.OFFSET_METADATA_TOO_LARGE
            else:
                kept[where] = evolve(position, committed_ms=now, expires_ms=expires)
        return kept, errors

    def on_commit_in_transaction(
        self, group: GroupMetadata, ticket: Ticket, ask: CommitInTransaction, now: int
    ) -> None:
        """Handle TxnOffsetCommit: answer when the records are committed. The offsets apply when the transaction
        commits."""
        if (error := refusal_in_transaction(group, ask.identity)) is not None:
            self._outbox.answer(ticket, Committed(dict.fromkeys(ask.positions, error)))
            return
        kept, errors = self._sorted_out(ask.positions, now, None)
        if not kept:
            self._outbox.answer(ticket, Committed(errors))
            return

        def done(error: E, at: int, _: int) -> None:
            for index, (where, position) in enumerate(kept.items()):
                if error is E.NONE:
                    group.offsets.kept_in(ask.producer, where, position, at + index)
                else:
                    group.offsets.lost_in(ask.producer, where)
            outcome = errors | dict.fromkeys(kept, commit_error(error))
            self._outbox.answer(ticket, Committed({where: outcome[where] for where in ask.positions}))

        group.offsets.begin_in(ask.producer, kept)
        self._groups.open_transaction(group, ask.producer)
        records = tuple(OffsetRecord(group.id, where, position) for where, position in kept.items())
        self._groups.store(group, records, now, done, (ask.producer, ask.epoch))

    def on_fetch(self, group: GroupMetadata | None, ticket: Ticket, ask: OffsetFetch) -> None:
        known = group.offsets.positions if group is not None else {}
        asked = ask.partitions if ask.partitions is not None else tuple(sorted(known))
        found: dict[TopicPartition, OffsetAndMetadata | E | None] = {where: known.get(where) for where in asked}
        if ask.stable and group is not None:
            found |= {where: E.UNSTABLE_OFFSET_COMMIT for where in asked if group.offsets.hangs(where)}
        self._outbox.answer(ticket, OffsetsFetched(E.NONE, found))


def refusal(group: GroupMetadata, identity: GroupIdentity) -> E | None:
    """Return the error for a commit, or None. Clients that are not members may commit while the group is empty."""
    if identity.generation < 0 and group.state is S.EMPTY:
        return None
    if (error := group.member_error(identity)) is not None:
        return error
    if identity.generation != group.generation:
        return E.ILLEGAL_GENERATION
    if group.state is S.COMPLETING_REBALANCE:
        return E.REBALANCE_IN_PROGRESS  # the generation may assign the sender's partitions to another member
    return None


def refusal_in_transaction(group: GroupMetadata, identity: GroupIdentity) -> E | None:
    """Return the error for a commit in a transaction, or None. A client that names no member is fenced only by its
    producer epoch."""
    if identity.generation < 0 and group.state is S.EMPTY:
        return None
    if not names_member(identity):
        return None
    if (error := group.member_error(identity)) is not None:
        return error
    return E.ILLEGAL_GENERATION if identity.generation != group.generation else None


def names_member(identity: GroupIdentity) -> bool:
    return identity.generation >= 0 or identity.member != "" or identity.instance is not None
