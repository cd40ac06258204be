"""Replication: where a follower cuts, who counts as in sync, what is committed, and who is told so."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from harness.mutants.edit import Mutant, mutant

CORE: Final = "replica.core"
FOLLOWING: Final = f"{CORE}.following"
REPLICATING: Final = f"{CORE}.replicating"
LEADING: Final = f"{CORE}.leading:Leading"
PARTITION: Final = f"{CORE}.partition:Partition"
ISR: Final = f"{CORE}.isr:Isr"
UPKEEP: Final = f"{CORE}.upkeep"
PRODUCING: Final = f"{CORE}.producing"
SERVING: Final = f"{CORE}.serving"
ROLES: Final = f"{CORE}.roles"
LOG: Final = "replica.storage.partition_log:PartitionLog"
RECOVERY: Final = "replica.storage.recovery"
FAILOVER: Final = "kraft_controller.core.failover"


def _of_partitions(name: str, bug: str, *edits: tuple[str, str, str]) -> Mutant:
    return evolve(mutant(name, bug, *edits), voters=(1,), machine="partitions")


MUTANTS: Final[tuple[Mutant, ...]] = (
    # -- where histories part ----------------------------------------------------------------------------
    _of_partitions(
        "KIP-101",
        "KIP-101, KAFKA-1211: who begins to follow cuts its log at the high watermark that it knows",
        (
            f"{REPLICATING}:begin",
            "desk.leaders[following.leader] = None",
            "desk.leaders[following.leader] = None; partition.cut(partition.high_watermark)",
        ),
    ),
    _of_partitions(
        "KIP-101-divergence",
        "KIP-101: histories are not compared, and whoever has as much as the leader fetches what is next",
        (f"{FOLLOWING}:diverges", "if epoch == NO_EPOCH:", "if True:"),
        (f"{REPLICATING}:begin", "if not desk.settings.fetch_diverges and", "if False and"),
    ),
    _of_partitions(
        "KAFKA-10706",
        "KAFKA-10706: epochs in which nothing was written are not forgotten where a log is cut at its end",
        (
            f"{LOG}.truncate_to",
            "self.epochs.truncate_from_end(offset)",
            "offset < self._end and self.epochs.truncate_from_end(offset)",
        ),
        (
            f"{FOLLOWING}:last_epoch",
            "return log.epoch_at(end - 1) if end > log.start_offset else NO_EPOCH",
            "return log.latest_epoch",
        ),
    ),
    _of_partitions(
        "KAFKA-10432",
        "KAFKA-10432: a start does not find epoch 0 in the batches again",
        (f"{RECOVERY}:_restore_epochs", "if epoch >= 0 and", "if epoch > 0 and"),
        (f"{RECOVERY}:_restore_epochs", "log.epochs = EpochCache(kept or ())", "log.epochs = EpochCache()"),
    ),
    _of_partitions(
        "KAFKA-3410",
        "KAFKA-3410: a follower that has more than its leader takes that for the end of the world",
        (
            f"{REPLICATING}:_truncate",
            """
            if offset < partition.high_watermark:
            """,
            """
            if offset < partition.high_watermark and 1 / 0:
            """,
        ),
    ),
    _of_partitions(
        "old-answers-count",
        "an answer that was asked for under an earlier leader is taken in",
        (f"{REPLICATING}:_still", "or role.leader != leader or role.epoch != epoch", ""),
        (f"{REPLICATING}:answered", "if partition.log.end_offset == ends[where]:", "if True:"),
    ),
    _of_partitions(
        "restarted-unseen",
        "a leader that lost records while no controller was there leads on in the same leader epoch",
        (f"{FAILOVER}:_restarted", "0 < state.written < known.epoch", "False"),
    ),
    # -- who is in sync, and what is committed -------------------------------------------------------------
    _of_partitions(
        "isr-not-looked-at",
        "KAFKA-2729, of replicas with data: a leader whose ISR was refused does not look what is there",
        (f"{UPKEEP}:isr_doubtful", "desk.reads.append(ReadIsr(write.where, found[1].epoch))", "pass"),
        (f"{ROLES}:_take", "partition.role.isr.heard(state.isr, state.version)", "pass"),
    ),
    _of_partitions(
        "left-before-it-is-written",
        "whoever is to leave the ISR is not waited for any more, before the store says that he has left",
        (f"{ISR}.ask", "self.maximal = frozenset(self.members).union(members)", "self.maximal = frozenset(members)"),
    ),
    _of_partitions(
        "nobody-waited-for",
        "what the leader has is committed, whoever else has it",
        (
            f"{LEADING}.committed",
            "if has < least and (follower.id in maximal or self._joins(follower, end, now, live, settings)):",
            "if False:",
        ),
    ),
    # -- what is told ----------------------------------------------------------------------------------------
    _of_partitions(
        "acknowledged-when-written",
        "a producer that waits for all is told when the leader alone has it",
        (f"{PRODUCING}:produce", "if acks == ALL and partition.high_watermark < wanted:", "if False:"),
    ),
    _of_partitions(
        "too-few-are-enough",
        "min.insync.replicas is not heeded",
        (
            f"{PARTITION}.enough_in_sync",
            ">= min(self.min_insync, max(len(self.assignment.replicas), 1))",
            ">= 1",
        ),
    ),
    _of_partitions(
        "KAFKA-9835",
        "KAFKA-9835, 9807, 9838: a consumer is shown what is not committed",
        (f"{SERVING}:_read_one", "bound = stable if asked.committed else watermark", "bound = log.end_offset"),
    ),
    # -- producers -------------------------------------------------------------------------------------------
    _of_partitions(
        "followers-know-no-producers",
        "who has written what is known to the leader alone, and lost with it",
        (
            f"{LOG}._append",
            "if header.producer_id >= 0:",
            "if header.producer_id >= 0 and isinstance(buffer, bytearray):",
        ),
    ),
)
