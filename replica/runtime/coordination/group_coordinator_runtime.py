"""The runtime side of the `GroupCoordinator`: the records of the offsets topic, and the log.

groups = GroupCoordinatorRuntime(storage, count, log, settings)
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from uuid import uuid4

from replica.core.groups.group_coordinator import GroupCoordinator
from replica.core.groups.group_effects import (
    GroupAppend,
    GroupNotWritten,
    GroupsLoaded,
    GroupsUnloaded,
    MemberDropped,
    MemberRefused,
    Note,
    OffsetsExpired,
    Rebalancing,
    StateChanged,
)
from replica.core.groups.group_messages import Ask, Reply
from replica.core.groups.group_settings import GroupSettings
from replica.core.groups.group_states import Cause
from replica.runtime.coordination.coordinator_runtime import CoordinatorRuntime, CoordinatorStorage, always
from replica.runtime.logs import Log
from replica.wire import group_records
from replica.wire.records import batch_of
from zab.host.watchdog import Watchdogs


class GroupCoordinatorRuntime(CoordinatorRuntime[GroupCoordinator, Ask, Reply]):
    """Runs the group coordinator of one broker."""

    def __init__(
        self,
        storage: CoordinatorStorage,
        count: Callable[[], Awaitable[int | None]],
        log: Log,
        settings: GroupSettings | None = None,
        commit_timeout_ms: int = 5_000,
        still_leads: Callable[[], Awaitable[bool]] = always,
        watchdogs: Watchdogs | None = None,
    ) -> None:
        self.settings = settings or GroupSettings()
        self.rebalances: Counter[Cause] = Counter()
        """The number of rebalances by cause, since the start."""
        self._commit_timeout_ms = commit_timeout_ms

        def make(now: int) -> GroupCoordinator:
            return GroupCoordinator(self.settings, now, _new_id, group_records.topics_of)

        super().__init__("groups", make, group_records.decode, storage, count, log, still_leads, watchdogs)

    # -- connections, other topics, and transactions ---------------------------------------------------

    def connection_closed(self, connection: str) -> None:
        if self.coordinator.has_issued_on(connection):  # seldom: most connections close with no pending member id
            self._change("a closed connection", lambda: self.coordinator.connection_closed(connection, self.now()))

    def complete_transaction(self, partition: int, producer: int, committed: bool, offset: int) -> None:
        """Apply the producer's pending offsets in an offsets partition if its transaction was `committed`, or else drop
        them. `offset` is the offset of the transaction marker.

        Call it when the marker is below the high watermark. Repeated calls are harmless.
        """
        self._change(
            "the end of a transaction",
            lambda: self.coordinator.groups.complete_transaction(partition, producer, committed, offset),
        )

    def topics_deleted(self, topics: Collection[str]) -> None:
        self._change("deleted topics", lambda: self.coordinator.forget_topics(topics, self.now()))

    # -- effects --------------------------------------------------------------------------

    def _act(self) -> None:
        self._carry_out(self.coordinator.ready(), self._tell, self._append)

    def _append(self, append: GroupAppend) -> None:
        def encoded() -> bytes:
            pairs = [(group_records.encode_key(each), group_records.encode_value(each)) for each in append.records]
            return batch_of(pairs, append.now_ms, transaction=append.producer)

        self._write(append.id, append.partition, encoded, self._commit_timeout_ms)

    # -- log messages -------------------------------------------------------------------------------------------------

    def _tell(self, note: Note) -> None:
        say = self._log.say
        match note:
            case Rebalancing(group, cause, why, generation):
                self.rebalances[cause] += 1
                say("group_rebalance", group=group, cause=cause.value, why=why, generation=generation)
            case StateChanged(group, before, after, generation, members):
                say(
                    "group_state",
                    logging.DEBUG,
                    group=group,
                    before=before.value,
                    after=after.value,
                    generation=generation,
                    members=members,
                )
            case MemberDropped(group, member, why):
                say("group_member_removed", group=group, member=member, why=why)
            case MemberRefused(group, member, error, why):
                self._log.warn_rate_limited(
                    "group_member_refused", (group, error), group=group, member=member, error=error.name, why=why
                )
            case GroupNotWritten(group, what, error):
                say("group_write_failed", logging.WARNING, group=group, what=what, error=error.name)
            case OffsetsExpired(group, offsets, group_too):
                say("group_offsets_expired", group=group, offsets=offsets, group_too=group_too)
            case GroupsLoaded(partition, epoch, groups, offsets):
                # The offsets topic of a new cluster has fifty partitions by default, most of them empty.
                level = logging.INFO if groups else logging.DEBUG
                say("groups_loaded", level, partition=partition, epoch=epoch, groups=groups, offsets=offsets)
            case GroupsUnloaded(partition, groups):
                say("groups_unloaded", logging.INFO if groups else logging.DEBUG, partition=partition, groups=groups)


def _new_id() -> str:
    return str(uuid4())
