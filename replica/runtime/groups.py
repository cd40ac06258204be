"""Drives the coordinator of groups: what stands in the offsets topic, and what is told of it.

groups = Groups(storage, count, log, settings)
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator
from uuid import uuid4

from replica.core.groups.coordinator import Coordinator
from replica.core.groups.desk import Settings
from replica.core.groups.messages import Ask, Reply
from replica.core.groups.ready import (
    Append,
    Dropped,
    Expired,
    Load,
    Loaded,
    Note,
    NotWritten,
    Rebalancing,
    Refused,
    StateChanged,
    Unloaded,
)
from replica.core.groups.states import Cause
from replica.runtime.coordinator import Driver, surely
from replica.runtime.coordinator_log import Storage
from replica.runtime.logs import Log
from replica.runtime.offsets_topic import OFFSETS_TOPIC
from replica.wire import group_records
from replica.wire.batch import Header
from replica.wire.records import ControlType, Record, batch_of, read_control


class Groups(Driver[Coordinator, Ask, Reply]):
    def __init__(
        self,
        storage: Storage,
        count: Callable[[], Awaitable[int | None]],
        log: Log,
        settings: Settings | None = None,
        commit_timeout_ms: int = 5_000,
        still_leads: Callable[[], Awaitable[bool]] = surely,
    ) -> None:
        self.settings = settings or Settings()
        self.rebalances: Counter[Cause] = Counter()
        """By what they began with, since this broker was started."""
        self._commit_timeout_ms = commit_timeout_ms

        def make(now: int) -> Coordinator:
            return Coordinator(self.settings, now, _new_id, group_records.topics_of)

        super().__init__("groups", OFFSETS_TOPIC, make, storage, count, log, still_leads)

    # -- what happens to other topics, and to transactions ---------------------------------------------------

    def complete_transaction(self, partition: int, producer: int, committed: bool, offset: int) -> None:
        """The end of the producer's transaction stands in this partition of the offsets topic, at that offset, and
        every replica in sync has it. Not to be called before; once more does no harm."""
        self._change(
            "the end of a transaction",
            lambda: self.coordinator.transaction_ended(partition, producer, committed, offset),
        )

    def topics_deleted(self, topics: Collection[str]) -> None:
        self._change("deleted topics", lambda: self.coordinator.forget_topics(topics, self.now()))

    # -- what the coordinator wants --------------------------------------------------------------------------

    def _act(self) -> None:
        self._carry_out(self.coordinator.ready(), self._tell, self._append)

    def _append(self, append: Append) -> None:
        def encoded() -> bytes:
            pairs = [(group_records.encode_key(each), group_records.encode_value(each)) for each in append.records]
            return batch_of(pairs, append.now_ms, transaction=append.producer)

        self._write(append.id, append.partition, encoded, self._commit_timeout_ms)

    def _replay(self, load: Load, header: Header, found: Iterator[Record]) -> None:
        producer = header.producer_id if header.transactional else None
        for record in found:
            if header.control:
                kind, _ = read_control(record)
                if kind is not None:
                    committed = kind is ControlType.COMMIT
                    self.coordinator.replay_end(load, record.offset, header.producer_id, committed)
            elif (entry := self._read(load, record, group_records.decode)) is not None:
                self.coordinator.replay(load, record.offset, entry, producer)

    # -- telling -------------------------------------------------------------------------------------------------

    def _tell(self, note: Note) -> None:
        say = self._log.say
        match note:
            case Rebalancing(group, cause, why, generation):
                self.rebalances[cause] += 1
                say("group-rebalances", group=group, cause=cause.value, why=why, generation=generation)
            case StateChanged(group, before, after, generation, members):
                say(
                    "group-state",
                    logging.DEBUG,
                    group=group,
                    before=before.value,
                    after=after.value,
                    generation=generation,
                    members=members,
                )
            case Dropped(group, member, why):
                say("group-member-dropped", group=group, member=member, why=why)
            case Refused(group, member, error, why):
                self._log.warn_rate_limited(
                    "group-member-refused", (group, error), group=group, member=member, error=error.name, why=why
                )
            case NotWritten(group, what, error):
                say("group-not-written", logging.WARNING, group=group, what=what, error=error.name)
            case Expired(group, offsets, group_too):
                say("group-offsets-forgotten", group=group, offsets=offsets, group_too=group_too)
            case Loaded(partition, epoch, groups, offsets):
                # Most of them are empty in a young cluster, and there are fifty of them.
                level = logging.INFO if groups else logging.DEBUG
                say("groups-loaded", level, partition=partition, epoch=epoch, groups=groups, offsets=offsets)
            case Unloaded(partition, groups):
                say("groups-unloaded", logging.INFO if groups else logging.DEBUG, partition=partition, groups=groups)


def _new_id() -> str:
    return str(uuid4())
