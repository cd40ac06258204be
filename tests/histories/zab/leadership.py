"""Who leads, who may, and whom others follow."""

from __future__ import annotations

from typing import Final

from harness.checkers.leadership import (
    FollowsALeader,
    LeaderCompleteness,
    OneLeaderPerEpoch,
    RemovedLeaderEnds,
    StepDown,
)
from harness.members import member
from tests.histories.zab.story import ENSEMBLE, FOUR, ONE, THREE, TWO, Story, batch, breaks, z
from zab.core.batch import pack
from zab.core.ensemble import Ensemble
from zab.core.messages import NewLeader, Notification, State
from zab.core.zxid import Epoch, ServerId


@breaks(OneLeaderPerEpoch)
def two_leaders(story: Story, bad: bool) -> None:
    story.leads(THREE, 1)
    story.leads(TWO, 1 if bad else 2)


@breaks(OneLeaderPerEpoch)
def a_leader_returns_to_its_epoch(story: Story, bad: bool) -> None:
    story.leads(THREE, 1)
    story.judge.crashed(THREE)
    story.judge.role(THREE, State.LOOKING, Epoch(0), None, False)  # as far as it remembers
    story.leads(THREE, 1 if bad else 2)


@breaks(OneLeaderPerEpoch)
def two_say_new_leader(story: Story, bad: bool) -> None:
    story.judge.said[NewLeader](THREE, ONE, NewLeader(Epoch(1), ENSEMBLE))
    story.judge.said[NewLeader](TWO if bad else THREE, ONE, NewLeader(Epoch(1), ENSEMBLE))


@breaks(LeaderCompleteness)
def a_leader_without_what_was_committed(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, TWO, THREE)
    story.judge.committed(THREE, first.last, True)
    story.leads(ONE if bad else TWO, 2)


@breaks(LeaderCompleteness)
def a_deposed_leader_commits_more(story: Story, bad: bool) -> None:
    story.leads(THREE, 1)
    first = story.proposes(THREE, 1, 1)
    story.logs(first, *((ONE, THREE) if bad else (ONE, TWO, THREE)))
    story.leads(TWO, 2)
    story.judge.committed(THREE, first.last, True)


@breaks(RemovedLeaderEnds)
def a_leader_that_has_left_proposes(story: Story, bad: bool) -> None:
    story.leads(THREE, 1)
    changed = ENSEMBLE.changed(leaving=(THREE if bad else TWO,), version=z(1, 1))
    batch = pack(z(1, 1), [changed.text().encode()], config=True)
    story.logs(batch, ONE, TWO, THREE)
    story.judge.committed(THREE, batch.last, True)
    story.judge.proposed(THREE, z(1, 2), [b"more"])


def says(story: Story, source: ServerId, state: State, leader: ServerId) -> None:
    """To server 1."""
    story.judge.heard_notification(ONE, source, Notification(state, leader, z(1, 1), Epoch(1), 1, ENSEMBLE))


@breaks(FollowsALeader)
def a_leader_that_others_speak_of(story: Story, bad: bool) -> None:
    story.begins()
    says(story, TWO, State.FOLLOWING, THREE)
    says(story, FOUR, State.OBSERVING, THREE)
    if not bad:
        says(story, THREE, State.LEADING, THREE)
    story.follows(ONE, THREE, 1)


@breaks(FollowsALeader)
def a_leader_of_an_earlier_search(story: Story, bad: bool) -> None:
    story.begins()
    says(story, THREE, State.LEADING, THREE)
    story.follows(ONE, THREE, 1)
    story.judge.role(ONE, State.LOOKING, Epoch(1), None, False)
    says(story, TWO, State.FOLLOWING, THREE)
    if not bad:
        says(story, THREE, State.LEADING, THREE)
    story.follows(ONE, THREE, 1)


@breaks(FollowsALeader)
def a_vote_that_is_not_a_quorum(story: Story, bad: bool) -> None:
    story.begins()
    says(story, FOUR if bad else TWO, State.LOOKING, THREE)
    story.follows(ONE, THREE, 1)


@breaks(StepDown)
def a_leader_that_hears_nobody(story: Story, bad: bool) -> None:
    story.leads(THREE, 1)
    story.judge.observed(THREE, [ONE, TWO] if bad else [ONE])


@breaks(OneLeaderPerEpoch)
def two_serve_as_leaders(story: Story, bad: bool) -> None:
    story.judge.role(THREE, State.LEADING, Epoch(1), THREE, True)
    story.judge.role(TWO, State.LEADING, Epoch(1), TWO, bad)
    story.judge.role(ONE, State.FOLLOWING, Epoch(1), THREE, True)


@breaks(LeaderCompleteness)
def a_leader_without_what_a_client_was_told(story: Story, bad: bool) -> None:
    first = story.proposes(THREE, 1, 1)
    story.logs(first, TWO, THREE)
    story.commits(THREE, first.last)
    story.judge.acknowledged(THREE, first.last)
    story.leads(ONE if bad else TWO, 2)


@breaks(LeaderCompleteness)
def a_leader_without_the_last_that_was_committed(story: Story, bad: bool) -> None:
    """Of two in one batch a client was told the first, by somebody."""
    both = story.proposes(THREE, 1, 1, b"a", b"b")
    story.logs(both, TWO, THREE)
    story.commits(THREE, both.last)
    story.judge.acknowledged(THREE, both.first)
    story.logs(batch(1, 1, b"a"), ONE)
    story.leads(ONE if bad else TWO, 2)


@breaks(LeaderCompleteness)
def a_leader_without_the_newer_of_what_two_epochs_committed(story: Story, bad: bool) -> None:
    story.leads(THREE, 1)
    first = story.proposes(THREE, 1, 1)
    story.logs(first, ONE, TWO, THREE)
    story.commits(THREE, first.last)
    story.leads(TWO, 2)
    second = story.proposes(TWO, 2, 1)
    story.logs(second, TWO, THREE)
    story.commits(TWO, second.last)
    story.leads(ONE if bad else THREE, 3)


@breaks(LeaderCompleteness)
def a_candidate_that_slept_while_a_later_epoch_committed_what_is_older(story: Story, bad: bool) -> None:
    story.leads(THREE, 1)
    first = story.proposes(THREE, 1, 1)
    story.logs(first, ONE, THREE)
    story.leads(THREE, 3)
    story.commits(THREE, first.last)
    story.leads(TWO, 4 if bad else 2)


@breaks(RemovedLeaderEnds)
def a_leader_that_commits_its_leave_behind_something_else(story: Story, bad: bool) -> None:
    story.leads(THREE, 1)
    changed = ENSEMBLE.changed(leaving=(THREE if bad else TWO,), version=z(1, 2))
    change = pack(z(1, 2), [changed.text().encode()], config=True)
    for each in (story.proposes(THREE, 1, 1), change):
        story.logs(each, ONE, TWO, THREE)
    story.commits(THREE, change.last)
    story.judge.proposed(THREE, z(1, 3), [b"more"])


@breaks(RemovedLeaderEnds)
def a_leader_that_comes_back_may_propose(story: Story, bad: bool) -> None:
    story.leads(THREE, 1)
    changed = ENSEMBLE.changed(leaving=(THREE,), version=z(1, 1))
    batch = pack(z(1, 1), [changed.text().encode()], config=True)
    story.logs(batch, ONE, TWO, THREE)
    story.commits(THREE, batch.last)
    if not bad:
        story.leads(THREE, 2)
    story.judge.proposed(THREE, z(2, 1), [b"more"])


def _voted_for_by_the_observer(story: Story, *, ensemble: Ensemble = ENSEMBLE, pending: Ensemble | None = None) -> None:
    """Server 4 votes for 3, and says of which membership it knows, and which one may be next."""
    vote = Notification(State.LOOKING, THREE, z(1, 1), Epoch(1), 1, ensemble, pending)
    story.judge.heard_notification(ONE, FOUR, vote)
    story.follows(ONE, THREE, 1)


GROWN: Final = ENSEMBLE.changed(leaving=(TWO,), joining=(member(FOUR),), version=z(1, 2))
"""1, 3 and 4 are the voters."""


@breaks(FollowsALeader)
def a_vote_of_who_votes_by_now(story: Story, bad: bool) -> None:
    story.begins()
    _voted_for_by_the_observer(story, ensemble=ENSEMBLE if bad else GROWN)


@breaks(FollowsALeader)
def a_vote_of_who_may_soon_vote(story: Story, bad: bool) -> None:
    story.begins()
    _voted_for_by_the_observer(story, pending=None if bad else GROWN)


@breaks(FollowsALeader)
def a_vote_of_who_votes_by_its_own_history(story: Story, bad: bool) -> None:
    story.begins()
    change = pack(z(1, 2), [GROWN.text().encode()], config=True)
    story.logs(change, *((TWO,) if bad else (ONE,)))
    _voted_for_by_the_observer(story)


@breaks(FollowsALeader)
def a_vote_of_who_votes_by_what_is_committed(story: Story, bad: bool) -> None:
    story.begins()
    change = pack(z(1, 2), [GROWN.text().encode()], config=True)
    story.logs(change, TWO, THREE)
    if not bad:
        story.commits(THREE, change.last)
    _voted_for_by_the_observer(story)


@breaks(FollowsALeader)
def a_leader_heard_of_before_a_restart(story: Story, bad: bool) -> None:
    first = story.begins()
    says(story, THREE, State.LEADING, THREE)
    story.judge.crashed(ONE)
    story.restarts(ONE, 1, first)
    if not bad:
        says(story, THREE, State.LEADING, THREE)
    story.follows(ONE, THREE, 1)


@breaks(FollowsALeader)
def a_leader_that_nobody_votes_for_in_search(story: Story, bad: bool) -> None:
    story.begins()
    says(story, TWO, State.FOLLOWING if bad else State.LOOKING, THREE)
    story.follows(ONE, THREE, 1)


@breaks(FollowsALeader)
def an_observer_follows_as_everybody_does(story: Story, bad: bool) -> None:
    story.begins()
    says(story, TWO if bad else THREE, State.FOLLOWING if bad else State.LEADING, THREE)
    story.judge.role(ONE, State.OBSERVING, Epoch(1), THREE, False)


@breaks(StepDown)
def a_server_that_does_not_lead_may_be_alone(story: Story, bad: bool) -> None:
    story.leads(THREE, 1)
    if not bad:
        story.judge.role(THREE, State.FOLLOWING, Epoch(1), TWO, True)
    story.judge.observed(THREE, [ONE, TWO])


@breaks(StepDown)
def a_leader_that_does_not_serve_may_be_alone(story: Story, bad: bool) -> None:
    story.leads(THREE, 1)
    if not bad:
        story.judge.role(THREE, State.LEADING, Epoch(1), THREE, False)
    story.judge.observed(THREE, [ONE, TWO])


@breaks(StepDown)
def a_leader_counts_those_who_vote_by_now(story: Story, bad: bool) -> None:
    story.begins()
    change = pack(z(1, 2), [GROWN.text().encode()], config=True)
    story.logs(change, ONE, THREE, FOUR)
    story.commits(THREE, change.last)
    if not bad:
        story.applies(change, THREE)
    story.judge.observed(THREE, [ONE, TWO])
