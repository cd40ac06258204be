"""The effects of partitions and fetchers. The runtime takes the flushes with `ReplicaManager.next_flush`, and all other
effects with `ReplicaManager.ready`."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from attrs import define, field

from kraft_controller.core.names import BrokerId, TopicPartition
from replica.core.replica_messages import Note, ReadIsr, Ready, Reply, RoleTaken, WriteIsr

EMPTY_READY: Final = Ready()
"""What `Outbox.take` returns if there are no effects."""


@define(eq=False)
class Outbox:
    """Collects the effects of partitions and fetchers for the runtime."""

    replies: list[Reply] = field(factory=list)
    """Answers to delayed operations, in the order of completion."""
    writes: list[WriteIsr] = field(factory=list)
    reads: list[ReadIsr] = field(factory=list)
    flushes: dict[TopicPartition, int] = field(factory=dict)
    """The flush queue: logs to flush, with `Partition.cuts` at the newest request.

    One flush answers all requests that were made before it began. Only `ReplicaManager.next_flush` removes an entry.
    """
    leaders: dict[BrokerId, None] = field(factory=dict)
    """Leaders whose fetcher may have a new request."""
    roles: list[RoleTaken] = field(factory=list)
    notes: list[Note] = field(factory=list)
    """Messages for the broker's log."""

    def note(self, event: str, *, raised: Exception | None = None, key: Hashable = None, **fields: object) -> None:
        self.notes.append(Note(event, tuple(fields.items()), raised, key))

    def take(self) -> Ready:
        """Return all effects except flushes, and clear them."""
        if not (self.replies or self.writes or self.reads or self.flushes or self.leaders or self.roles or self.notes):
            return EMPTY_READY  # most turns end here
        taken = Ready(
            tuple(self.replies), tuple(self.writes), tuple(self.reads), bool(self.flushes),
            tuple(self.leaders), tuple(self.roles), tuple(self.notes),
        )  # fmt: skip
        for each in (self.replies, self.writes, self.reads, self.leaders, self.roles, self.notes):
            each.clear()
        return taken
