"""Compaction: the log before it, the number of committed records, and the log after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, cast

from attrs import frozen

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.copies import CONTROL, GONE, TRANSACTIONAL, Copy, Key, Record, Truth, read_all
from harness.checkers.partitions.logs import REPLACED, SAME
from kraft_controller.core.names import OFFSETS_TOPIC, TopicPartition
from tests.histories.partitions.scenario import HERE, ONE, Log, Scenario, records

if TYPE_CHECKING:
    from replica.core.partitions.partition_log import PartitionLog

OFFSETS: Final = TopicPartition(OFFSETS_TOPIC, 0)


@frozen
class Cleaned:
    before: str
    after: str
    breaks: str = ""
    committed: int = 9
    fork: int = -1
    where: TopicPartition = OFFSETS
    closed: bool = False
    transactions: str = ""
    """A letter for each record of producer 7: t is in its transaction, c its commit marker, a its abort marker."""

    def result(self) -> tuple[str, str, object]:
        """Return the violated invariant, the message, and the records and counts of the checkers."""
        scenario = Scenario()
        if self.transactions:
            scenario.world.transacted = frozenset({OFFSETS_TOPIC})
        checkers, member, key = scenario.checkers, scenario.broker(ONE), Key(self.where, b"1")
        before = read_all(cast("PartitionLog", Log(records=self._records(self.before))))
        copy = Copy(key, records=before)
        checkers.replicas.copies[ONE] = {self.where: copy}
        checkers.replicas.truths[key] = Truth(key, committed=before[: self.committed], fork=self.fork)
        log = Log(records=self._records(self.after), closed=self.closed)
        member.disk.logs.logs[self.where.topic, self.where.partition] = log
        invariant = what = ""
        try:
            checkers.logs.cleaned(scenario.observed(ONE), self.where)
        except Violation as violation:
            invariant, what = violation.invariant, violation.what
        return invariant, what, (copy.records, scenario.world.counts)

    def _records(self, text: str) -> list[Record]:
        found = records(text)
        for place, letter in enumerate(self.transactions):
            if found[place] != GONE and letter in "tca":
                key = {"t": found[place].key, "c": b"\0\0\0\1", "a": b"\0\0\0\0"}[letter]
                attributes = TRANSACTIONAL if letter == "t" else TRANSACTIONAL | CONTROL
                found[place] = found[place]._replace(producer=7, key=key, attributes=attributes)
        return found


EXAMPLES: Final[dict[str, Cleaned]] = {
    "replaced by the next": Cleaned("a1@k b1@k", ". b1@k"),
    "replaced by a later one": Cleaned("a1@k b1@l c1@k", ". b1@l c1@k"),
    "not replaced": Cleaned("a1@k b1@l", ". b1@l", REPLACED),
    "replaced by an earlier one": Cleaned("a1@k b1@k c1@l", "a1@k . c1@l", REPLACED),
    "replaced by an uncommitted record": Cleaned("a1@k b1@k", ". b1@k", REPLACED, committed=1),
    "not committed": Cleaned("a1@k b1@l c1@m", "a1@k . c1@m", committed=1),
    "a tombstone": Cleaned("-1@k b1@l", ". b1@l"),
    "not replaced, after an unclean election": Cleaned("a1@k b1@l", ". b1@l", fork=3),
    "missing before": Cleaned(". b1@l", ". b1@l"),
    "back again": Cleaned(". b1@l", "a1@k b1@l"),
    "changed": Cleaned("a1@k b1@l", "a1@k c1@l", SAME),
    "replaced in a topic without compaction": Cleaned("a1@k b1@k", ". b1@k", REPLACED, where=HERE),
    "not committed in a topic without compaction": Cleaned("a1@k b1@k", "a1@k .", REPLACED, where=HERE, committed=1),
    "not replaced in a closed log": Cleaned("a1@k b1@l", ". b1@l", closed=True),
    "replaced by a committed transaction": Cleaned("a1@k b1@k m1", ". b1@k m1", transactions="-tc"),
    "replaced by an aborted transaction": Cleaned("a1@k b1@k m1", ". b1@k m1", REPLACED, transactions="-ta"),
    "replaced by an open transaction": Cleaned("a1@k b1@k", ". b1@k", REPLACED, transactions="-t"),
    "of an aborted transaction": Cleaned("a1@k m1", ". m1", transactions="ta"),
    "of a committed transaction": Cleaned("a1@k m1", ". m1", REPLACED, transactions="tc"),
    "of an open transaction": Cleaned("a1@k b1@l", ". b1@l", REPLACED, transactions="t-"),
    "a marker of removed records": Cleaned("a1@k m1 b1@l", ". . b1@l", transactions="ta-"),
    "a marker of a record that stays": Cleaned("a1@k m1 b1@l", "a1@k . b1@l", REPLACED, transactions="ta-"),
    "a marker of no transaction": Cleaned("a1@k m1 n1 b1@l", "a1@k m1 . b1@l", transactions="tcc-"),
    "a marker, and a record of the next transaction stays": Cleaned("a1@k m1 b1@l", ". . b1@l", transactions="tat"),
    "not replaced in a log that has grown": Cleaned("a1@k b1@l", ". b1@l c1@m"),
}
"""The examples, by the kind of the removed record."""


def without_a_log() -> tuple[object, ...]:
    """Check brokers without a log, without a copy of it at the checkers, and again without a log."""
    scenario = Scenario()
    scenario.checkers.logs.cleaned(scenario.observed(ONE), OFFSETS)
    log = Log(records=records("a1@k"))
    scenario.broker(ONE).disk.logs.logs[OFFSETS.topic, OFFSETS.partition] = log
    scenario.checkers.logs.cleaned(scenario.observed(ONE), OFFSETS)
    del scenario.broker(ONE).disk.logs.logs[OFFSETS.topic, OFFSETS.partition]
    scenario.checkers.replicas.copies[ONE] = {OFFSETS: Copy(Key(OFFSETS, b"1"), records=records("a1@k"))}
    scenario.checkers.logs.cleaned(scenario.observed(ONE), OFFSETS)
    return tuple(scenario.world.counts)


def actions() -> Iterator[tuple[str, Callable[[], object]]]:
    yield "cleaned without_a_log", without_a_log
    for name, example in EXAMPLES.items():
        yield f"compaction: {name}", cast("Callable[[], object]", example.result)
