"""Stories of a cleaner: what a log held, how much of it was committed, and what is found there afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, cast

from attrs import frozen

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.copies import Copy, Key, Truth, read_all
from harness.checkers.partitions.logs import REPLACED, SAME
from kraft_controller.core.names import OFFSETS_TOPIC, TopicPartition
from tests.histories.partitions.story import HERE, ONE, Shelf, Tale, records

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

    def said(self) -> tuple[str, str, object]:
        """What was broken, and what is known of the log and counted then."""
        tale = Tale()
        keeper, member, key = tale.keeper, tale.member(ONE), Key(self.where, b"1")
        before = read_all(cast("PartitionLog", Shelf(records=records(self.before))))
        copy = Copy(key, records=before)
        keeper.replicas.copies[ONE] = {self.where: copy}
        keeper.replicas.truths[key] = Truth(key, committed=before[: self.committed], fork=self.fork)
        shelf = Shelf(records=records(self.after), closed=self.closed)
        member.disk.logs.logs[self.where.topic, self.where.partition] = shelf
        invariant = what = ""
        try:
            keeper.logs.cleaned(tale.onlooked(ONE), self.where)
        except Violation as violation:
            invariant, what = violation.invariant, violation.what
        return invariant, what, (copy.records, tale.world.counts)


STORIES: Final[dict[str, Cleaned]] = {
    "replaced by the next": Cleaned("a1@k b1@k", ". b1@k"),
    "replaced by a later one": Cleaned("a1@k b1@l c1@k", ". b1@l c1@k"),
    "not replaced": Cleaned("a1@k b1@l", ". b1@l", REPLACED),
    "replaced by an earlier one": Cleaned("a1@k b1@k c1@l", "a1@k . c1@l", REPLACED),
    "replaced by what is not committed": Cleaned("a1@k b1@k", ". b1@k", REPLACED, committed=1),
    "not committed": Cleaned("a1@k b1@l c1@m", "a1@k . c1@m", committed=1),
    "a deletion": Cleaned("-1@k b1@l", ". b1@l"),
    "not replaced, and somebody not in sync has led": Cleaned("a1@k b1@l", ". b1@l", fork=3),
    "gone before": Cleaned(". b1@l", ". b1@l"),
    "back again": Cleaned(". b1@l", "a1@k b1@l"),
    "another one": Cleaned("a1@k b1@l", "a1@k c1@l", SAME),
    "replaced where nobody cleans": Cleaned("a1@k b1@k", ". b1@k", REPLACED, where=HERE),
    "not committed where nobody cleans": Cleaned("a1@k b1@k", "a1@k .", REPLACED, where=HERE, committed=1),
    "of a log that is closed": Cleaned("a1@k b1@l", ". b1@l", closed=True),
    "of a log that is longer by now": Cleaned("a1@k b1@l", ". b1@l c1@m"),
}
"""By what is not there any more."""


def nowhere() -> tuple[object, ...]:
    """There is no log, or nobody has looked at it yet."""
    tale = Tale()
    tale.keeper.logs.cleaned(tale.onlooked(ONE), OFFSETS)
    shelf = Shelf(records=records("a1@k"))
    tale.member(ONE).disk.logs.logs[OFFSETS.topic, OFFSETS.partition] = shelf
    tale.keeper.logs.cleaned(tale.onlooked(ONE), OFFSETS)
    del tale.member(ONE).disk.logs.logs[OFFSETS.topic, OFFSETS.partition]
    tale.keeper.replicas.copies[ONE] = {OFFSETS: Copy(Key(OFFSETS, b"1"), records=records("a1@k"))}
    tale.keeper.logs.cleaned(tale.onlooked(ONE), OFFSETS)
    return tuple(tale.world.counts)


def actions() -> Iterator[tuple[str, Callable[[], object]]]:
    yield "cleaned nowhere", nowhere
    for name, story in STORIES.items():
        yield f"cleaned: {name}", cast("Callable[[], object]", story.said)
