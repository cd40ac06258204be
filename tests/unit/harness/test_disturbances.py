"""A leader needs a cause to drop a follower, and a vote begins with its candidate."""

from __future__ import annotations

from typing import Final

import pytest

from harness.checkers import Judge, OracleState, Violation
from harness.checkers.disturbances import DropsHaveACause, VotesBeginWithTheCandidate
from harness.members import member
from zab.core.ensemble import Ensemble
from zab.core.messages import Notification, State
from zab.core.zxid import Epoch, ServerId, Zxid, make

ONE, TWO, THREE = (ServerId(sid) for sid in (1, 2, 3))
ENSEMBLE: Final = Ensemble((member(ONE), member(TWO), member(THREE)))
SYNC_MS: Final = 200


class Clock:
    now_ms = 1_000


def judge_with(clock: Clock) -> Judge:
    ghost = OracleState(ENSEMBLE, 3)
    return Judge(ghost, [lambda ghost: DropsHaveACause(ghost, lambda: clock.now_ms), VotesBeginWithTheCandidate])


def acknowledges(judge: Judge, counter: int) -> None:
    judge.heard_ack(THREE, ONE, make(1, counter))
    judge.ticked(THREE)


def test_a_follower_that_acknowledges_is_not_dropped() -> None:
    clock = Clock()
    judge = judge_with(clock)
    acknowledges(judge, 4)
    clock.now_ms += SYNC_MS - 1
    with pytest.raises(Violation, match="server 3 drops 1, which acknowledged 1/4 only 199 ms ago"):
        judge.dropped(THREE, ONE, SYNC_MS)


def test_a_follower_without_progress_may_be_dropped() -> None:
    clock = Clock()
    judge = judge_with(clock)
    acknowledges(judge, 4)
    clock.now_ms += SYNC_MS
    acknowledges(judge, 4)  # no progress
    judge.dropped(THREE, ONE, SYNC_MS)


def test_each_new_acknowledgement_is_progress() -> None:
    clock = Clock()
    judge = judge_with(clock)
    acknowledges(judge, 4)
    clock.now_ms += SYNC_MS
    acknowledges(judge, 5)
    with pytest.raises(Violation, match="which acknowledged 1/5 only 0 ms ago"):
        judge.dropped(THREE, ONE, SYNC_MS)


def test_acknowledgements_of_an_earlier_link_do_not_count() -> None:
    judge = judge_with(Clock())
    acknowledges(judge, 4)
    judge.heard_follower_info(THREE, ONE)
    judge.dropped(THREE, ONE, SYNC_MS)


def test_acknowledgements_of_a_lost_link_do_not_count_at_the_next_tick() -> None:
    judge = judge_with(Clock())
    judge.heard_ack(THREE, ONE, make(1, 4))
    judge.heard_follower_info(THREE, ONE)
    judge.ticked(THREE)
    judge.dropped(THREE, ONE, SYNC_MS)


def test_acknowledgements_before_a_drop_do_not_count_for_the_next_drop() -> None:
    judge = judge_with(Clock())
    acknowledges(judge, 4)
    judge.dropped(THREE, ONE, 0)
    judge.ticked(THREE)
    judge.dropped(THREE, ONE, SYNC_MS)


def test_acknowledgements_after_the_last_tick_do_not_count() -> None:
    judge = judge_with(Clock())
    judge.heard_ack(THREE, ONE, make(1, 4))
    judge.ticked(ONE)
    judge.dropped(THREE, ONE, SYNC_MS)


def test_another_follower_or_a_wrong_clock_gives_no_verdict() -> None:
    judge = judge_with(Clock())
    acknowledges(judge, 4)
    judge.dropped(THREE, TWO, SYNC_MS)
    judge.dropped(THREE, ONE, 0)


def votes(
    judge: Judge, source: ServerId, leader: ServerId, turn: int, zxid: Zxid, state: State = State.LOOKING
) -> None:
    judge.heard_notification(ONE, source, Notification(state, leader, zxid, Epoch(1), turn, ENSEMBLE))


def test_a_vote_for_a_candidate_of_the_round_is_valid() -> None:
    judge = judge_with(Clock())
    votes(judge, THREE, THREE, 5, make(1, 7))
    votes(judge, TWO, THREE, 5, make(1, 7))


@pytest.mark.parametrize(("turn", "zxid"), [(6, make(1, 7)), (5, make(1, 8))], ids=["another round", "another history"])
def test_a_vote_that_its_candidate_has_not_cast_is_a_violation(turn: int, zxid: Zxid) -> None:
    judge = judge_with(Clock())
    votes(judge, THREE, THREE, 5, make(1, 7))
    with pytest.raises(Violation, match=f"server 2 votes in round {turn} for 3"):
        votes(judge, TWO, THREE, turn, zxid)


def test_servers_that_have_a_leader_may_name_it_in_any_round() -> None:
    judge = judge_with(Clock())
    votes(judge, TWO, THREE, 6, make(1, 7), State.FOLLOWING)
    votes(judge, TWO, ServerId(-1), 6, make(1, 7))
