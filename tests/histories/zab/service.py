"""Barriers, who serves, and who falls over."""

from __future__ import annotations

from harness.checkers.service import BarrierIsLinearizable, HistoriesAgree, NoCrash, ServingIsCurrent
from tests.histories.zab.story import ONE, THREE, TWO, Story, breaks, z
from zab.core.messages import UpToDate
from zab.core.zxid import NOTHING


@breaks(BarrierIsLinearizable)
def a_barrier_from_the_past(story: Story, bad: bool) -> None:
    first = story.begins()
    story.judge.acknowledged(THREE, first.last)
    story.judge.barrier_asked(ONE, 7)
    story.judge.barrier_answered(ONE, 7, NOTHING if bad else first.last)


@breaks(BarrierIsLinearizable)
def a_barrier_that_is_not_reached(story: Story, bad: bool) -> None:
    first = story.begins()
    if bad:
        story.judge.restored(ONE, NOTHING)
    story.judge.barrier_asked(ONE, 7)
    story.judge.barrier_answered(ONE, 7, first.last)


@breaks(BarrierIsLinearizable)
def a_barrier_from_before_what_could_be_read(story: Story, bad: bool) -> None:
    """Who reads at server 1 has seen it, though nobody who led has told anybody of it."""
    first = story.begins()
    story.judge.acknowledged(THREE, first.last)
    second = story.proposes(THREE, 1, 2)
    story.logs(second, ONE, TWO, THREE)
    story.commits(THREE, second.last)
    story.applies(second, ONE, TWO)
    story.judge.barrier_asked(TWO, 7)
    story.judge.barrier_answered(TWO, 7, first.last if bad else second.last)


@breaks(ServingIsCurrent)
def leading_with_an_old_state(story: Story, bad: bool) -> None:
    story.begins()
    second = story.proposes(THREE, 1, 2)
    story.logs(second, ONE, TWO, THREE)
    story.judge.committed(THREE, second.last, True)
    story.epochs(2, ONE, TWO)
    story.leads(TWO, 2)
    if not bad:
        story.applies(second, TWO)
    story.judge.serves(TWO)


@breaks(ServingIsCurrent)
def serving_an_old_state(story: Story, bad: bool) -> None:
    first = story.begins()
    story.judge.said[UpToDate](THREE, ONE, UpToDate(first.last))
    story.follows(ONE, THREE, 1)
    if bad:
        story.judge.restored(ONE, NOTHING)
    story.judge.serves(ONE)


@breaks(ServingIsCurrent)
def up_to_date_with_what_is_not_committed(story: Story, bad: bool) -> None:
    first = story.begins()
    story.logs(story.proposes(THREE, 1, 2), THREE)
    story.judge.said[UpToDate](THREE, ONE, UpToDate(z(1, 2) if bad else first.last))


@breaks(NoCrash)
def it_falls_over(story: Story, bad: bool) -> None:
    if bad:
        story.judge.failed(ONE, "ticks", ZeroDivisionError("oops"))


@breaks(NoCrash)
def what_was_not_durable_is_gone_with_the_process(story: Story, bad: bool) -> None:
    first = story.begins()
    story.logs(story.proposes(THREE, 1, 2), ONE, durably=False)
    if bad:
        story.judge.failed(ONE, "steps", RuntimeError(str(first.last)))
    story.judge.crashed(ONE)


@breaks(HistoriesAgree)
def two_histories(story: Story, bad: bool) -> None:
    story.begins()
    if bad:
        story.judge.contradicted(ONE, "finds another one")
