"""Mistakes of brokers as they are shipped, seen by their clients: in handlers, in what turns the cores, on the disk."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from harness.mutants.edit import Mutant, mutant


def _of_brokers(name: str, bug: str, *edits: tuple[str, str, str]) -> Mutant:
    return evolve(mutant(name, bug, *edits), voters=(3,), world="stack", machine="partitions")


MUTANTS: Final[tuple[Mutant, ...]] = (
    _of_brokers(
        "all-taken-for-one",
        "a produce with acks=all is answered when the leader has written it",
        (
            "replica.runtime.handlers.produce_requests:handlers",
            "await replicas.produce(body.acks, body.timeout_ms, entries, request.placed)",
            "await replicas.produce(body.acks and 1, body.timeout_ms, entries, request.placed)",
        ),
    ),
    _of_brokers(
        "first-offset-told-wrong",
        "a producer receives an offset that is one too high",
        (
            "replica.runtime.handlers.produce_requests:_part",
            "base_offset=answer.base_offset,",
            "base_offset=answer.base_offset + 1,",
        ),
    ),
    _of_brokers(
        "commit-answered-before-it-is-written",
        "KAFKA-20634: an offset commit is answered before its record is committed",
        (
            "replica.runtime.coordination.coordinator_runtime:CoordinatorRuntime._write",
            "self._storage.append(where, data, timeout_ms, done)",
            "self._storage.append(where, data, 0, lambda *_: None); done(ErrorCode.NONE, 0)",
        ),
    ),
    _of_brokers(
        "groups-answered-for-unread",
        "a coordinator serves groups before it has read their records",
        (
            "replica.core.coordinator_loader:CoordinatorLoader.advance",
            "if not self._topic.awaits(self._load):",
            "if True:",
        ),
    ),
    _of_brokers(
        "flush-told-and-not-done",
        "data that must be durable is reported flushed without a flush",
        (
            "replica.runtime.replication.replica_durability:ReplicaDurability._flush",
            "upto = await trio.to_thread.run_sync(flush.log.flush)",
            "upto = flush.log.end_offset",
        ),
    ),
    _of_brokers(
        "uncommitted-shown",
        "a consumer reads records above the high watermark",
        (
            "replica.core.partitions.partition:Partition.read",
            "bound = stable if asked.committed else watermark",
            "bound = log.end_offset",
        ),
    ),
    _of_brokers(
        "read-past-what-is-open",
        "a read_committed consumer reads past open transactions",
        (
            "replica.core.partitions.partition:Partition.read",
            "bound = stable if asked.committed else watermark",
            "bound = watermark",
        ),
    ),
    _of_brokers(
        "aborted-and-told-to-count",
        "partitions receive commit markers of aborted transactions",
        (
            "replica.core.transactions.transaction_completion:TransactionCompletion.send_markers",
            "            commit,",
            "            True,",
        ),
    ),
    _of_brokers(
        "former-bearer-writes",
        "partitions accept batches of an older producer epoch",
        ("replica.storage.producer_state:_check_epoch", "if header.producer_epoch < known.epoch:", "if False:"),
    ),
    _of_brokers(
        "aborted-positions-count",
        "offsets of an aborted transaction become valid",
        ("replica.core.groups.group_offsets:GroupOffsets.end_of", "if committed:", "if True:"),
    ),
    _of_brokers(
        "positions-forgotten-at-the-end",
        "offsets of a transaction are dropped when it ends",
        ("replica.core.groups.group_offsets:GroupOffsets.end_of", "if committed:", "if False:"),
    ),
    _of_brokers(
        "positions-shown-before-the-end",
        "an offset that is committed in a transaction is valid from its write, before the transaction ends",
        (
            "replica.core.groups.group_offsets:GroupOffsets.kept_in",
            "known.safe[where] = evolve(position, written=written)",
            "known.safe[where] = evolve(position, written=written); self.put(where, position, written)",
        ),
    ),
    _of_brokers(
        "unstable-told-as-stable",
        "a request for stable offsets receives the offsets from before the open transaction",
        ("replica.core.groups.group_offsets:GroupOffsets.hangs", "return any(", "return False and any("),
    ),
)
