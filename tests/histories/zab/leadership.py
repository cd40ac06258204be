"""Leaders, candidates and followers."""

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
from tests.histories.zab.scenario import ENSEMBLE, FOUR, ONE, THREE, TWO, Scenario, batch, breaks, z
from zab.core.batch import pack
from zab.core.ensemble import Ensemble
from zab.core.messages import NewLeader, Notification, State
from zab.core.zxid import Epoch, ServerId


@breaks(OneLeaderPerEpoch)
def two_leaders(s: Scenario, bad: bool) -> None:
    s.leads(THREE, 1)
    s.leads(TWO, 1 if bad else 2)


@breaks(OneLeaderPerEpoch)
def leader_returns_to_its_epoch(s: Scenario, bad: bool) -> None:
    s.leads(THREE, 1)
    s.judge.crashed(THREE)
    s.judge.role(THREE, State.LOOKING, Epoch(0), None, False)  # according to its own record
    s.leads(THREE, 1 if bad else 2)


@breaks(OneLeaderPerEpoch)
def two_say_new_leader(s: Scenario, bad: bool) -> None:
    s.judge.said[NewLeader](THREE, ONE, NewLeader(Epoch(1), ENSEMBLE))
    s.judge.said[NewLeader](TWO if bad else THREE, ONE, NewLeader(Epoch(1), ENSEMBLE))


@breaks(LeaderCompleteness)
def leader_without_a_committed_transaction(s: Scenario, bad: bool) -> None:
    first = s.proposes(THREE, 1, 1)
    s.logs(first, TWO, THREE)
    s.judge.committed(THREE, first.last, True)
    s.leads(ONE if bad else TWO, 2)


@breaks(LeaderCompleteness)
def deposed_leader_commits_more(s: Scenario, bad: bool) -> None:
    s.leads(THREE, 1)
    first = s.proposes(THREE, 1, 1)
    s.logs(first, *((ONE, THREE) if bad else (ONE, TWO, THREE)))
    s.leads(TWO, 2)
    s.judge.committed(THREE, first.last, True)


@breaks(RemovedLeaderEnds)
def leader_that_has_left_proposes(s: Scenario, bad: bool) -> None:
    s.leads(THREE, 1)
    changed = ENSEMBLE.changed(leaving=(THREE if bad else TWO,), version=z(1, 1))
    batch = pack(z(1, 1), [changed.text().encode()], config=True)
    s.logs(batch, ONE, TWO, THREE)
    s.judge.committed(THREE, batch.last, True)
    s.judge.proposed(THREE, z(1, 2), [b"more"])


def says(s: Scenario, source: ServerId, state: State, leader: ServerId) -> None:
    """Send a notification to server 1."""
    s.judge.heard_notification(ONE, source, Notification(state, leader, z(1, 1), Epoch(1), 1, ENSEMBLE))


@breaks(FollowsALeader)
def leader_known_from_other_followers(s: Scenario, bad: bool) -> None:
    s.begins()
    says(s, TWO, State.FOLLOWING, THREE)
    says(s, FOUR, State.OBSERVING, THREE)
    if not bad:
        says(s, THREE, State.LEADING, THREE)
    s.follows(ONE, THREE, 1)


@breaks(FollowsALeader)
def leader_of_an_earlier_election(s: Scenario, bad: bool) -> None:
    s.begins()
    says(s, THREE, State.LEADING, THREE)
    s.follows(ONE, THREE, 1)
    s.judge.role(ONE, State.LOOKING, Epoch(1), None, False)
    says(s, TWO, State.FOLLOWING, THREE)
    if not bad:
        says(s, THREE, State.LEADING, THREE)
    s.follows(ONE, THREE, 1)


@breaks(FollowsALeader)
def vote_that_is_not_a_quorum(s: Scenario, bad: bool) -> None:
    s.begins()
    says(s, FOUR if bad else TWO, State.LOOKING, THREE)
    s.follows(ONE, THREE, 1)


@breaks(StepDown)
def leader_that_receives_nothing(s: Scenario, bad: bool) -> None:
    s.leads(THREE, 1)
    s.judge.observed(THREE, [ONE, TWO] if bad else [ONE])


@breaks(OneLeaderPerEpoch)
def two_serve_as_leaders(s: Scenario, bad: bool) -> None:
    s.judge.role(THREE, State.LEADING, Epoch(1), THREE, True)
    s.judge.role(TWO, State.LEADING, Epoch(1), TWO, bad)
    s.judge.role(ONE, State.FOLLOWING, Epoch(1), THREE, True)


@breaks(LeaderCompleteness)
def leader_without_an_acknowledged_transaction(s: Scenario, bad: bool) -> None:
    first = s.proposes(THREE, 1, 1)
    s.logs(first, TWO, THREE)
    s.commits(THREE, first.last)
    s.judge.acknowledged(THREE, first.last)
    s.leads(ONE if bad else TWO, 2)


@breaks(LeaderCompleteness)
def leader_without_the_last_that_was_committed(s: Scenario, bad: bool) -> None:
    """A client received the acknowledgement of the first transaction of a batch of two."""
    both = s.proposes(THREE, 1, 1, b"a", b"b")
    s.logs(both, TWO, THREE)
    s.commits(THREE, both.last)
    s.judge.acknowledged(THREE, both.first)
    s.logs(batch(1, 1, b"a"), ONE)
    s.leads(ONE if bad else TWO, 2)


@breaks(LeaderCompleteness)
def leader_without_the_newer_commit_of_two_epochs(s: Scenario, bad: bool) -> None:
    s.leads(THREE, 1)
    first = s.proposes(THREE, 1, 1)
    s.logs(first, ONE, TWO, THREE)
    s.commits(THREE, first.last)
    s.leads(TWO, 2)
    second = s.proposes(TWO, 2, 1)
    s.logs(second, TWO, THREE)
    s.commits(TWO, second.last)
    s.leads(ONE if bad else THREE, 3)


@breaks(LeaderCompleteness)
def candidate_that_missed_a_later_epoch(s: Scenario, bad: bool) -> None:
    s.leads(THREE, 1)
    first = s.proposes(THREE, 1, 1)
    s.logs(first, ONE, THREE)
    s.leads(THREE, 3)
    s.commits(THREE, first.last)
    s.leads(TWO, 4 if bad else 2)


@breaks(RemovedLeaderEnds)
def leader_that_commits_its_removal_after_another_transaction(s: Scenario, bad: bool) -> None:
    s.leads(THREE, 1)
    changed = ENSEMBLE.changed(leaving=(THREE if bad else TWO,), version=z(1, 2))
    change = pack(z(1, 2), [changed.text().encode()], config=True)
    for each in (s.proposes(THREE, 1, 1), change):
        s.logs(each, ONE, TWO, THREE)
    s.commits(THREE, change.last)
    s.judge.proposed(THREE, z(1, 3), [b"more"])


@breaks(RemovedLeaderEnds)
def leader_that_comes_back_may_propose(s: Scenario, bad: bool) -> None:
    s.leads(THREE, 1)
    changed = ENSEMBLE.changed(leaving=(THREE,), version=z(1, 1))
    batch = pack(z(1, 1), [changed.text().encode()], config=True)
    s.logs(batch, ONE, TWO, THREE)
    s.commits(THREE, batch.last)
    if not bad:
        s.leads(THREE, 2)
    s.judge.proposed(THREE, z(2, 1), [b"more"])


def _voted_for_by_the_observer(s: Scenario, *, ensemble: Ensemble = ENSEMBLE, pending: Ensemble | None = None) -> None:
    """Server 4 votes for 3, with its present and pending memberships."""
    vote = Notification(State.LOOKING, THREE, z(1, 1), Epoch(1), 1, ensemble, pending)
    s.judge.heard_notification(ONE, FOUR, vote)
    s.follows(ONE, THREE, 1)


GROWN: Final = ENSEMBLE.changed(leaving=(TWO,), joining=(member(FOUR),), version=z(1, 2))
"""Servers 1, 3 and 4 are the voters."""


@breaks(FollowsALeader)
def vote_of_a_present_voter(s: Scenario, bad: bool) -> None:
    s.begins()
    _voted_for_by_the_observer(s, ensemble=ENSEMBLE if bad else GROWN)


@breaks(FollowsALeader)
def vote_of_a_pending_voter(s: Scenario, bad: bool) -> None:
    s.begins()
    _voted_for_by_the_observer(s, pending=None if bad else GROWN)


@breaks(FollowsALeader)
def vote_by_the_membership_in_its_history(s: Scenario, bad: bool) -> None:
    s.begins()
    change = pack(z(1, 2), [GROWN.text().encode()], config=True)
    s.logs(change, *((TWO,) if bad else (ONE,)))
    _voted_for_by_the_observer(s)


@breaks(FollowsALeader)
def vote_by_the_committed_membership(s: Scenario, bad: bool) -> None:
    s.begins()
    change = pack(z(1, 2), [GROWN.text().encode()], config=True)
    s.logs(change, TWO, THREE)
    if not bad:
        s.commits(THREE, change.last)
    _voted_for_by_the_observer(s)


@breaks(FollowsALeader)
def leader_notified_before_a_restart(s: Scenario, bad: bool) -> None:
    first = s.begins()
    says(s, THREE, State.LEADING, THREE)
    s.judge.crashed(ONE)
    s.restarts(ONE, 1, first)
    if not bad:
        says(s, THREE, State.LEADING, THREE)
    s.follows(ONE, THREE, 1)


@breaks(FollowsALeader)
def leader_without_votes_of_looking_servers(s: Scenario, bad: bool) -> None:
    s.begins()
    says(s, TWO, State.FOLLOWING if bad else State.LOOKING, THREE)
    s.follows(ONE, THREE, 1)


@breaks(FollowsALeader)
def observer_follows_by_the_same_rule(s: Scenario, bad: bool) -> None:
    s.begins()
    says(s, TWO if bad else THREE, State.FOLLOWING if bad else State.LEADING, THREE)
    s.judge.role(ONE, State.OBSERVING, Epoch(1), THREE, False)


@breaks(StepDown)
def server_that_does_not_lead_may_be_alone(s: Scenario, bad: bool) -> None:
    s.leads(THREE, 1)
    if not bad:
        s.judge.role(THREE, State.FOLLOWING, Epoch(1), TWO, True)
    s.judge.observed(THREE, [ONE, TWO])


@breaks(StepDown)
def leader_that_does_not_serve_may_be_alone(s: Scenario, bad: bool) -> None:
    s.leads(THREE, 1)
    if not bad:
        s.judge.role(THREE, State.LEADING, Epoch(1), THREE, False)
    s.judge.observed(THREE, [ONE, TWO])


@breaks(StepDown)
def leader_counts_the_present_voters(s: Scenario, bad: bool) -> None:
    s.begins()
    change = pack(z(1, 2), [GROWN.text().encode()], config=True)
    s.logs(change, ONE, THREE, FOUR)
    s.commits(THREE, change.last)
    if not bad:
        s.applies(change, THREE)
    s.judge.observed(THREE, [ONE, TWO])
