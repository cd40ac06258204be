"""What machines are fed."""

from __future__ import annotations

from harness.checkers.delivery import Agreement, CommittedAndDurable, Integrity, PrefixConsistency, TotalOrder
from tests.histories.zab.story import ONE, THREE, TWO, Story, batch, breaks, z
from zab.core.batch import pack
from zab.core.zxid import NOTHING


@breaks(PrefixConsistency)
def committed_beside_the_canon(story: Story, bad: bool) -> None:
    story.begins()
    other = pack(z(2, 1), [b"other"])
    if bad:
        story.judge.truncated(ONE, NOTHING)
    story.logs(other, ONE)
    story.judge.committed(ONE, other.last, True)


@breaks(PrefixConsistency)
def delivered_beside_the_canon(story: Story, bad: bool) -> None:
    story.begins()
    second = story.proposes(THREE, 1, 2)
    story.logs(second, ONE, TWO, THREE)
    story.judge.committed(THREE, second.last, True)
    story.applies(pack(z(1, 3), [b"x"]) if bad else second, ONE)


@breaks(PrefixConsistency)
def restored_from_nowhere(story: Story, bad: bool) -> None:
    first = story.begins()
    story.judge.restored(TWO, z(1, 7) if bad else first.last)


@breaks(TotalOrder)
def two_orders(story: Story, bad: bool) -> None:
    a, b = pack(z(1, 1), [b"a"]), pack(z(1, 2), [b"b"])
    story.applies(a, ONE)
    story.applies(b, ONE)
    if not bad:
        story.applies(a, TWO)
    story.applies(b, TWO)


@breaks(Agreement)
def each_delivers_what_the_other_lacks(story: Story, bad: bool) -> None:
    a, b = pack(z(1, 1), [b"a"]), pack(z(1, 2), [b"b"])
    story.applies(a, ONE)
    if not bad:
        story.applies(a, TWO)
    story.applies(b, TWO)


@breaks(Agreement)
def disagreement_through_a_snapshot(story: Story, bad: bool) -> None:
    a, b, c = (pack(z(1, number), [b"%d" % number]) for number in (1, 2, 3))
    story.applies(a, ONE)
    story.applies(b, ONE)
    story.judge.restored(TWO, z(1, 1) if bad else z(1, 2))
    story.applies(c, TWO)
    if not bad:
        story.applies(c, ONE)


@breaks(Integrity)
def delivered_but_never_proposed(story: Story, bad: bool) -> None:
    batch = pack(z(1, 1), [b"a"]) if bad else story.proposes(THREE, 1, 1)
    story.applies(batch, ONE)


@breaks(Integrity)
def delivered_with_another_content(story: Story, bad: bool) -> None:
    story.proposes(THREE, 1, 1, b"a", b"b")
    story.applies(pack(z(1, 1), [b"a", b"x" if bad else b"b"]), ONE)


@breaks(Integrity)
def proposed_twice(story: Story, bad: bool) -> None:
    story.proposes(THREE, 1, 1, b"a")
    story.proposes(TWO, 1, 1 if bad else 2, b"b")


@breaks(CommittedAndDurable)
def applied_before_committed(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, ONE, TWO, THREE)
    if not bad:
        story.judge.committed(THREE, first.last, True)
    story.applies(first, THREE)


@breaks(CommittedAndDurable)
def applied_before_durable(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, TWO, THREE)
    story.logs(first, ONE, durably=not bad)
    story.judge.committed(THREE, first.last, True)
    story.applies(first, ONE)


@breaks(CommittedAndDurable)
def applied_with_a_gap(story: Story, bad: bool) -> None:
    first, second = story.proposes(THREE, 1, 1), story.proposes(THREE, 1, 2)
    for each in (first, second):
        story.logs(each, ONE, TWO, THREE)
    story.judge.committed(THREE, second.last, True)
    if not bad:
        story.applies(first, ONE)
    story.applies(second, ONE)


@breaks(CommittedAndDurable)
def believed_but_never_committed(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, ONE, TWO, THREE)
    if not bad:
        story.judge.committed(THREE, first.last, True)
    story.judge.committed(ONE, first.last, False)


@breaks(PrefixConsistency)
def a_batch_that_is_committed_in_part(story: Story, bad: bool) -> None:
    story.begins()
    both = story.proposes(THREE, 1, 2, b"a", b"b")
    story.logs(both, ONE, TWO, THREE)
    story.commits(THREE, z(1, 2) if bad else both.last)
    story.applies(both, ONE)


@breaks(TotalOrder)
def a_batch_is_delivered_in_its_order(story: Story, bad: bool) -> None:
    story.applies(batch(1, 1, b"a", b"b"), ONE)
    story.applies(batch(1, 1, b"a"), TWO)
    if bad:
        story.judge.restored(TWO, NOTHING)
    story.applies(batch(1, 2, b"b"), TWO)


@breaks(Agreement)
def who_delivers_again_is_not_ahead(story: Story, bad: bool) -> None:
    story.applies(batch(1, 1), ONE)
    story.applies(batch(1, 1), ONE)
    if not bad:
        story.applies(batch(1, 1), TWO)
    story.applies(batch(1, 2), TWO)
    story.applies(batch(1, 2), ONE)


def _one_is_skipped(story: Story) -> None:
    """Server 2 delivers less than server 1, and not a beginning of it; that is no disagreement yet."""
    for number in (1, 2):
        story.applies(batch(1, number), ONE)
    story.applies(batch(1, 2), TWO)


@breaks(Agreement)
def what_was_skipped_is_not_delivered_by_saying_the_next_twice(story: Story, bad: bool) -> None:
    _one_is_skipped(story)
    story.applies(batch(1, 2), TWO)
    if not bad:
        story.applies(batch(1, 1), TWO)
    story.applies(batch(1, 3), TWO)


@breaks(Agreement)
def what_was_skipped_is_brought_by_a_snapshot(story: Story, bad: bool) -> None:
    _one_is_skipped(story)
    story.applies(batch(1, 3), ONE)
    if not bad:
        story.judge.restored(TWO, z(1, 3))
    story.applies(batch(1, 4), TWO)
    story.applies(batch(1, 4), ONE)


@breaks(Agreement)
def what_one_lacks_the_other_may_have_for_a_while(story: Story, bad: bool) -> None:
    _one_is_skipped(story)
    story.applies(batch(1, 1), TWO)
    story.applies(batch(1, 3), TWO)
    if not bad:
        story.applies(batch(1, 3), ONE)
    story.applies(batch(1, 4), ONE)
    story.applies(batch(1, 4), TWO)


@breaks(Integrity)
def a_batch_of_which_the_second_was_never_proposed(story: Story, bad: bool) -> None:
    story.proposes(THREE, 1, 1, *((b"a",) if bad else (b"a", b"b")))
    story.applies(batch(1, 1, b"a", b"b"), ONE)


@breaks(CommittedAndDurable)
def a_batch_applied_before_all_of_it_is_committed(story: Story, bad: bool) -> None:
    both = story.proposes(THREE, 1, 1, b"a", b"b")
    story.logs(both, ONE, TWO, THREE)
    story.commits(THREE, both.first if bad else both.last)
    story.applies(both, ONE)
