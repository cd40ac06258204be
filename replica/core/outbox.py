"""Effects of one turn, collected until the runtime takes them with `ReplicaManager.ready`."""

from __future__ import annotations

from attrs import define, field

from kraft_controller.core.names import BrokerId, TopicPartition
from replica.core.replica_messages import LogFlush, Note, ReadIsr, Ready, Reply, RoleTaken, WriteIsr


@define(eq=False)
class Outbox:
    """Collects the effects of partitions and fetchers for the runtime. Only `take` removes anything."""

    replies: list[Reply] = field(factory=list)
    """Answers to delayed operations, in the order in which they were completed."""
    writes: list[WriteIsr] = field(factory=list)
    reads: list[ReadIsr] = field(factory=list)
    flushes: dict[TopicPartition, LogFlush] = field(factory=dict)
    """Logs to flush, at most one flush for each partition."""
    leaders: dict[BrokerId, None] = field(factory=dict)
    """Leaders whose fetcher has something new to send."""
    roles: list[RoleTaken] = field(factory=list)
    notes: list[Note] = field(factory=list)
    """Messages for operators."""

    def note(self, event: str, **fields: object) -> None:
        self.notes.append(Note(event, tuple(fields.items())))

    def take(self) -> Ready:
        """Return all effects and begin anew."""
        taken = Ready(
            tuple(self.replies), tuple(self.writes), tuple(self.reads), tuple(self.flushes.values()),
            tuple(self.leaders), tuple(self.roles), tuple(self.notes),
        )  # fmt: skip
        for each in (self.replies, self.writes, self.reads, self.flushes, self.leaders, self.roles, self.notes):
            each.clear()
        return taken
