"""In which order what primaries broadcast is delivered."""

from __future__ import annotations

from harness.checkers.primary_order import GlobalPrimaryOrder, LocalPrimaryOrder, PrimaryIntegrity
from tests.histories.zab.story import ONE, THREE, TWO, Story, batch, breaks
from zab.core.batch import Batch
from zab.core.messages import State
from zab.core.ready import Recovered
from zab.core.zxid import Epoch


@breaks(LocalPrimaryOrder)
def out_of_the_primarys_order(story: Story, bad: bool) -> None:
    a, b = story.proposes(THREE, 1, 1), story.proposes(THREE, 1, 2)
    for each in (b, a) if bad else (a, b):
        story.applies(each, ONE)


@breaks(LocalPrimaryOrder)
def the_primarys_first_is_skipped(story: Story, bad: bool) -> None:
    """The pair that a formula of the form "there are a, b" would not miss: a is never delivered at all."""
    a, b = story.proposes(THREE, 1, 1), story.proposes(THREE, 1, 2)
    if not bad:
        story.applies(a, ONE)
    story.applies(b, ONE)


@breaks(LocalPrimaryOrder)
def a_later_pair_is_out_of_order(story: Story, bad: bool) -> None:
    """The first pairs are fine: whoever looks at some pair only is satisfied."""
    batches = [story.proposes(THREE, 1, number) for number in (1, 2, 3, 4)]
    if bad:
        batches[2], batches[3] = batches[3], batches[2]
    for each in batches:
        story.applies(each, ONE)


@breaks(LocalPrimaryOrder)
def skipped_behind_a_snapshot(story: Story, bad: bool) -> None:
    batches = [story.proposes(THREE, 1, number) for number in (1, 2, 3)]
    story.judge.restored(ONE, batches[0].last if bad else batches[1].last)
    story.applies(batches[2], ONE)


@breaks(GlobalPrimaryOrder)
def epochs_out_of_order(story: Story, bad: bool) -> None:
    story.applies(story.proposes(THREE, 2 if bad else 1, 1), ONE)
    story.applies(story.proposes(TWO, 1 if bad else 2, 1), ONE)


@breaks(PrimaryIntegrity)
def broadcasts_before_it_has_delivered(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.applies(first, *((ONE,) if bad else (ONE, TWO)))
    story.proposes(TWO, 2, 1)


@breaks(PrimaryIntegrity)
def a_follower_delivers_more_than_its_primary(story: Story, bad: bool) -> None:
    first, second = story.proposes(THREE, 1, 1), story.proposes(THREE, 1, 2)
    story.applies(first, ONE, TWO)
    story.leads(TWO, 2)
    story.follows(ONE, TWO, 2)
    story.proposes(TWO, 2, 1)
    if not bad:
        story.applies(second, TWO)
    story.applies(second, ONE)


@breaks(LocalPrimaryOrder)
def out_of_order_within_what_was_proposed_at_once(story: Story, bad: bool) -> None:
    story.proposes(THREE, 1, 1, b"a", b"b", b"c")
    story.applies(batch(1, 1, b"a", b"b"), ONE)
    story.applies(batch(1, 3 if not bad else 2, b"c"), ONE)


@breaks(LocalPrimaryOrder)
def what_was_proposed_in_disorder(story: Story, bad: bool) -> None:
    """It is not yet wrong to deliver what was proposed first."""
    story.proposes(THREE, 1, 1)
    story.proposes(THREE, 1, 3)
    story.proposes(THREE, 1, 2)
    story.applies(batch(1, 1), ONE)
    if bad:
        story.applies(batch(1, 2), ONE)


@breaks(LocalPrimaryOrder)
def the_numbers_of_a_primary_begin_anew(story: Story, bad: bool) -> None:
    a, b = story.proposes(THREE, 1, 1), story.proposes(TWO, 2, 1)
    c = story.proposes(TWO, 2, 2)
    story.applies(a, ONE)
    if not bad:
        story.applies(b, ONE)
    story.applies(c, ONE)


@breaks(LocalPrimaryOrder)
def what_nobody_proposed_has_no_number(story: Story, bad: bool) -> None:
    """Whoever delivers it breaks another promise. Behind it one begins anew, as behind a snapshot of it."""
    a = story.proposes(THREE, 1, 5)
    b = story.proposes(THREE, 1, 6)
    story.applies(batch(1, 4), ONE)
    story.applies(b if bad else a, ONE)


@breaks(PrimaryIntegrity)
def a_primary_that_has_begun_is_asked_no_more(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    if not bad:
        story.proposes(TWO, 2, 1)
    story.applies(first, ONE)
    story.proposes(TWO, 2, 2)


@breaks(PrimaryIntegrity)
def who_is_down_has_delivered_nothing(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.applies(first, ONE)
    if not bad:
        story.judge.crashed(ONE)
    story.proposes(TWO, 2, 1)


@breaks(PrimaryIntegrity)
def what_is_of_its_own_epoch_need_not_be_delivered(story: Story, bad: bool) -> None:
    story.applies(batch(1 if bad else 2, 1), ONE)
    story.judge.broadcasts(TWO, Epoch(2))


@breaks(PrimaryIntegrity)
def as_much_as_the_others_is_enough(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.applies(first, ONE, *(() if bad else (TWO,)))
    story.judge.broadcasts(TWO, Epoch(2))
    story.judge.broadcasts(ONE, Epoch(3))


def _two_of_which_the_leader_has_one(story: Story, *, broadcasts: bool = True) -> Batch:
    """Server 1 follows 2, which leads epoch 2 and has delivered the first."""
    first, second = story.proposes(THREE, 1, 1), story.proposes(THREE, 1, 2)
    story.applies(first, ONE, TWO)
    story.leads(TWO, 2)
    story.follows(ONE, TWO, 2)
    if broadcasts:
        story.judge.broadcasts(TWO, Epoch(2))
    return second


@breaks(PrimaryIntegrity)
def a_primary_that_is_gone_is_not_compared(story: Story, bad: bool) -> None:
    second = _two_of_which_the_leader_has_one(story)
    if not bad:
        story.judge.crashed(TWO)
    story.applies(second, ONE)


@breaks(PrimaryIntegrity)
def a_primary_that_was_started_again_is_not_compared(story: Story, bad: bool) -> None:
    """It leads again, and has not come to a new epoch: whoever heard its last words may have delivered more."""
    second = _two_of_which_the_leader_has_one(story)
    story.judge.crashed(THREE if bad else TWO)
    story.judge.started(THREE if bad else TWO, Recovered(Epoch(2), Epoch(2)), second.last)
    story.leads(TWO, 2)
    story.applies(second, ONE)


@breaks(PrimaryIntegrity)
def a_leader_that_does_not_broadcast_yet_is_not_compared(story: Story, bad: bool) -> None:
    second = _two_of_which_the_leader_has_one(story, broadcasts=bad)
    story.applies(second, ONE)


@breaks(PrimaryIntegrity)
def what_is_of_this_epoch_may_be_delivered_first(story: Story, bad: bool) -> None:
    second = _two_of_which_the_leader_has_one(story)
    story.applies(second if bad else story.proposes(TWO, 2, 1), ONE)


@breaks(PrimaryIntegrity)
def a_follower_of_an_earlier_epoch_is_not_compared(story: Story, bad: bool) -> None:
    second = _two_of_which_the_leader_has_one(story)
    if not bad:
        story.judge.role(ONE, State.FOLLOWING, Epoch(1), TWO, True)
    story.applies(second, ONE)
