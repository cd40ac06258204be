"""Fast leader election, one server's side of it: words in, words out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from zab.core.ensemble import Ensemble, Group, Role, Server
from zab.core.leader_election import NO_VOTE, LeaderElection, Vote, beats
from zab.core.messages import Notification, State
from zab.core.ready import Settings
from zab.core.zxid import UNKNOWN, Epoch, Millis, ServerId, Zxid, make

SETTINGS = Settings()
WAIT = SETTINGS.finalize_wait_ms


def ensemble(*voters: int, observers: Sequence[int] = ()) -> Ensemble:
    servers = [Server(ServerId(sid), f"host{sid}", 2888, 3888) for sid in voters]
    servers += [Server(ServerId(sid), f"host{sid}", 2888, 3888, Role.OBSERVER) for sid in observers]
    return Ensemble(tuple(servers))


THREE = ensemble(1, 2, 3)
FIVE = ensemble(1, 2, 3, 4, 5)


def a_vote(leader: int, zxid: Zxid = make(1, 1), epoch: int = 1) -> Vote:
    return Vote(Epoch(epoch), zxid, ServerId(leader))


def an_election(
    me: int,
    own: Vote | None = None,
    views: tuple[Ensemble, ...] = (THREE,),
    *,
    last_round: int = 0,
    settings: Settings = SETTINGS,
    votes: bool = True,
) -> LeaderElection:
    return LeaderElection(ServerId(me), own or a_vote(me), last_round, views, settings, 0, votes=votes)


def hear(
    election: LeaderElection, source: int, vote: Vote, *, turn: int = 1, state: State = State.LOOKING, now: Millis = 0
) -> list[ServerId]:
    """Handle a notification, and return the servers that get one."""
    election.outgoing.clear()
    election.handle(ServerId(source), Notification(state, vote.leader, vote.zxid, vote.epoch, turn, THREE), now)
    return list(election.outgoing)


# -- the order of votes ---------------------------------------------------------------------------------

zxids = st.builds(make, st.integers(0, 2), st.integers(0, 2))
votes = st.builds(Vote, st.integers(0, 2).map(Epoch), zxids, st.integers(1, 3).map(ServerId))


@given(votes, votes)
@pytest.mark.mechanism(100)
def test_of_two_votes_exactly_one_beats_the_other(one: Vote, other: Vote) -> None:
    assert beats(one, other, THREE) + beats(other, one, THREE) == (one != other)


@given(votes, votes, votes)
def test_the_order_of_votes_is_transitive(one: Vote, two: Vote, three: Vote) -> None:
    if beats(one, two, THREE) and beats(two, three, THREE):
        assert beats(one, three, THREE)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (a_vote(1, make(1, 1), epoch=2), a_vote(3, make(1, 9), epoch=1)),
        (a_vote(1, make(1, 9)), a_vote(3, make(1, 8))),
        (a_vote(3), a_vote(2)),
    ],
    ids=["the newest epoch first", "then the longest log", "then the highest id"],
)
@pytest.mark.mechanism(100)
def test_order_of_votes(better: Vote, worse: Vote) -> None:
    assert beats(better, worse, THREE)


@pytest.mark.mechanism(110)
def test_server_of_weight_zero_gets_no_votes() -> None:
    weightless = evolve(THREE, groups=(Group(1, (ServerId(1), ServerId(2), ServerId(3))),), weights={ServerId(3): 0})
    assert not beats(a_vote(3, make(9, 9), epoch=9), a_vote(1), weightless)
    assert not beats(a_vote(4, make(9, 9), epoch=9), a_vote(1), THREE), "no voter at all"
    assert beats(a_vote(1), NO_VOTE, THREE)


# -- rounds ---------------------------------------------------------------------------------------------


@pytest.mark.mechanism(106)
def test_notifications_go_to_all_voters_at_the_start() -> None:
    election = an_election(2)
    assert election.outgoing == [1, 3]
    assert (election.round, election.proposal, election.decision) == (1, a_vote(2), None)


@pytest.mark.mechanism(106)
def test_a_better_vote_is_adopted_and_spread() -> None:
    election = an_election(2)
    assert hear(election, 3, a_vote(3)) == [1, 3]
    assert election.proposal == a_vote(3)


def test_a_worse_vote_is_counted_and_answered_once() -> None:
    """The sender was not LOOKING yet when the better vote was sent.

    Two servers that disagree do not exchange votes for ever.
    """
    election = an_election(2)
    assert hear(election, 1, a_vote(1)) == [1]
    assert hear(election, 1, a_vote(1)) == []
    assert election.proposal == a_vote(2)


@pytest.mark.mechanism(107)
def test_a_later_round_is_joined_with_the_initial_vote() -> None:
    """The adopted vote may name a server that is unknown in the later round."""
    election = an_election(2)
    hear(election, 3, a_vote(3))
    assert election.proposal == a_vote(3)
    assert hear(election, 1, a_vote(1), turn=5) == [1, 3]
    assert (election.round, election.proposal) == (5, a_vote(2))


@pytest.mark.mechanism(107)
def test_later_round_drops_earlier_votes() -> None:
    election = an_election(3, views=(FIVE,))
    hear(election, 1, a_vote(3))
    hear(election, 2, a_vote(3), turn=2)
    election.tick(10 * WAIT)
    assert election.decision is None, "3 and 2 are two of five; 1 said so in another round"


@pytest.mark.mechanism(107)
def test_lagging_server_is_reported_and_not_counted() -> None:
    election = an_election(3, last_round=4)
    assert hear(election, 1, a_vote(3), turn=1) == [1]
    assert hear(election, 2, a_vote(3), turn=2) == [2]
    election.tick(election.deadline)
    assert election.decision is None


def test_worse_vote_is_answered_once_for_each_round() -> None:
    election = an_election(3, last_round=4)
    assert hear(election, 1, a_vote(1), turn=1) == [1]
    assert hear(election, 1, a_vote(1), turn=1) == []
    assert hear(election, 1, a_vote(1), turn=2) == [1]


# -- the decision ---------------------------------------------------------------------------------------


@pytest.mark.mechanism(98, 108)
def test_a_quorum_waits_for_a_better_vote() -> None:
    election = an_election(2)
    hear(election, 1, a_vote(2), now=50)
    assert election.deadline == 50 + WAIT
    election.tick(50 + WAIT - 1)
    assert election.decision is None
    election.tick(50 + WAIT)
    assert election.decision == a_vote(2)


@pytest.mark.mechanism(108)
def test_a_better_vote_within_the_wait_puts_the_decision_off() -> None:
    election = an_election(2)
    hear(election, 1, a_vote(2))
    hear(election, 3, a_vote(3), now=WAIT - 1)
    election.tick(WAIT)
    assert election.decision is None
    hear(election, 1, a_vote(3), now=WAIT)
    assert election.decision == a_vote(3), "all three have said so: no wait"


def test_a_worse_vote_within_the_wait_does_not_put_it_off() -> None:
    election = an_election(2, views=(FIVE,))
    hear(election, 1, a_vote(2))
    hear(election, 3, a_vote(2), now=10)
    hear(election, 4, a_vote(1), now=100)
    assert election.deadline == 10 + WAIT


def test_a_quorum_that_falls_apart_within_the_wait_decides_nothing() -> None:
    election = an_election(2, views=(FIVE,))
    hear(election, 1, a_vote(2))
    hear(election, 3, a_vote(2))
    hear(election, 3, a_vote(5, make(0, 1)))
    election.tick(WAIT)
    assert election.decision is None


@pytest.mark.parametrize(
    "other", [a_vote(2, make(1, 2)), a_vote(2, epoch=0), a_vote(3, make(0, 1))], ids=["zxid", "epoch", "leader"]
)
def test_votes_that_look_for_a_leader_agree_in_everything_or_not_at_all(other: Vote) -> None:
    election = an_election(2, a_vote(2, make(1, 9)))
    hear(election, 1, other)
    election.tick(10 * WAIT)
    assert election.decision is None


def test_a_server_alone_decides_at_once() -> None:
    assert an_election(1, views=(ensemble(1),)).decision == a_vote(1)


@pytest.mark.mechanism(111)
def test_a_change_that_is_not_decided_needs_quorums_of_both() -> None:
    election = an_election(2, views=(THREE, ensemble(2, 4, 5)))
    hear(election, 1, a_vote(2))
    election.tick(10 * WAIT)
    assert election.decision is None
    hear(election, 4, a_vote(2), now=10 * WAIT)
    election.tick(11 * WAIT)
    assert election.decision == a_vote(2)


def test_a_server_that_an_undecided_change_adds_is_not_voted_for() -> None:
    election = an_election(2, views=(THREE, ensemble(2, 4, 5)))
    assert hear(election, 4, a_vote(4, make(9, 9), epoch=9)) == [4], "told who can be voted for"
    assert election.proposal == a_vote(2)


# -- established servers -----------------------------------------------------------------------------------


def established(election: LeaderElection, *votes: tuple[int, State, int, Vote]) -> Vote | None:
    for source, state, turn, vote in votes:
        hear(election, source, vote, turn=turn, state=state)
    return election.decision


FOLLOWING, LEADING, OBSERVING = State.FOLLOWING, State.LEADING, State.OBSERVING


@pytest.mark.mechanism(109)
def test_in_the_same_round_followers_and_leader_are_believed() -> None:
    election = an_election(1)
    assert established(election, (2, FOLLOWING, 1, a_vote(3)), (3, LEADING, 1, a_vote(3))) == a_vote(3)
    assert election.round == 1


@pytest.mark.mechanism(102, 109)
def test_in_another_round_too_and_the_round_is_taken_over() -> None:
    election = an_election(1, last_round=7)
    assert established(election, (2, FOLLOWING, 3, a_vote(3)), (3, LEADING, 3, a_vote(3))) == a_vote(3)
    assert election.round == 3


def test_established_servers_may_differ_in_zxid_and_round() -> None:
    """Servers decide at different times, and a late follower voted when the log was longer."""
    election = an_election(1)
    votes = (2, FOLLOWING, 4, a_vote(3, make(1, 5))), (3, LEADING, 2, a_vote(3, make(1, 1)))
    assert established(election, *votes) is not None


@pytest.mark.parametrize("other", [a_vote(3, epoch=2), a_vote(2)], ids=["epoch", "leader"])
def test_established_servers_agree_in_epoch_and_leader(other: Vote) -> None:
    assert established(an_election(1), (2, FOLLOWING, 1, other), (3, LEADING, 1, a_vote(3))) is None


@pytest.mark.parametrize("turn", [1, 5])
@pytest.mark.mechanism(109)
def test_server_follows_a_leader_only_if_that_reports_leading(turn: int) -> None:
    election = an_election(1, views=(FIVE,))
    followers = [(sid, FOLLOWING, turn, a_vote(5)) for sid in (2, 3, 4)]
    assert established(election, *followers) is None
    assert established(election, (5, LEADING, turn, a_vote(5))) == a_vote(5)


def test_a_leader_that_looks_again_is_not_followed() -> None:
    election = an_election(1, views=(FIVE,))
    hear(election, 5, a_vote(5), turn=1)
    assert established(election, *((sid, FOLLOWING, 1, a_vote(5)) for sid in (2, 3, 4))) is None


def test_one_that_others_still_follow_in_an_older_round_does_not_lead_on() -> None:
    election = an_election(3, last_round=1)
    assert established(election, (1, FOLLOWING, 1, a_vote(3)), (2, FOLLOWING, 1, a_vote(3))) is None


def test_one_that_others_follow_in_this_very_round_leads() -> None:
    election = an_election(3)
    assert established(election, (1, FOLLOWING, 1, a_vote(3)), (2, FOLLOWING, 1, a_vote(3))) == a_vote(3)


def test_acknowledgements_of_observers_do_not_count() -> None:
    election = an_election(1, views=(ensemble(1, 2, 3, observers=[4, 5]),))
    assert established(election, (3, LEADING, 1, a_vote(3)), (2, OBSERVING, 1, a_vote(3))) is None
    assert established(election, (4, OBSERVING, 1, a_vote(3)), (5, OBSERVING, 1, a_vote(3))) is None


def test_a_change_that_only_i_know_of_keeps_me_from_no_leader() -> None:
    election = an_election(1, views=(THREE, ensemble(1, 4, 5)))
    assert established(election, (2, FOLLOWING, 1, a_vote(3)), (3, LEADING, 1, a_vote(3))) == a_vote(3)


# -- strangers, the damaged, and those without a vote --------------------------------------------------------


def test_words_of_strangers_and_about_strangers_are_not_for_the_algorithm() -> None:
    election = an_election(1)
    assert hear(election, 9, a_vote(3, epoch=9), turn=7) == []
    assert hear(election, 2, a_vote(9, epoch=9), turn=7) == []
    assert (election.round, election.proposal) == (1, a_vote(1))


def test_a_history_that_may_be_incomplete_is_not_voted_for() -> None:
    election = an_election(1)
    assert hear(election, 3, a_vote(3, UNKNOWN, epoch=9)) == []
    assert election.proposal == a_vote(1)
    hear(election, 2, a_vote(2))
    election.tick(WAIT)
    assert election.decision == a_vote(2)


@pytest.mark.parametrize("me", [1, 4], ids=["damaged", "observer"])
def test_server_without_a_vote_follows_the_majority(me: int) -> None:
    election = an_election(me, NO_VOTE, (ensemble(1, 2, 3, observers=[4]),), votes=False)
    hear(election, 2, a_vote(3), turn=6)
    election.tick(10 * WAIT)
    assert election.decision is None
    hear(election, 3, a_vote(3), turn=6, now=10 * WAIT)
    election.tick(11 * WAIT)
    assert election.decision == a_vote(3)


def test_without_a_vote_of_my_own_i_am_not_counted() -> None:
    election = an_election(1, NO_VOTE, votes=False)
    hear(election, 3, a_vote(3))
    election.tick(10 * WAIT)
    assert election.decision is None


def test_looking_server_gets_a_notification_unless_there_is_none() -> None:
    assert hear(an_election(1), 2, NO_VOTE) == [2]
    assert hear(an_election(1, NO_VOTE), 2, NO_VOTE) == []


def test_voter_that_cannot_stand_votes_for_the_first_candidate() -> None:
    election = an_election(4, NO_VOTE, (THREE, ensemble(1, 4)))
    assert hear(election, 1, a_vote(1)) == [1, 2, 3]
    assert election.proposal == a_vote(1)


# -- repetition --------------------------------------------------------------------------------------------


def repetitions(settings: Settings, count: int) -> list[Millis]:
    election = an_election(1, settings=settings)
    times = []
    for _ in range(count):
        election.outgoing.clear()
        now = election.deadline
        election.tick(now - 1)
        assert election.outgoing == []
        election.tick(now)
        assert election.outgoing == [2, 3]
        times.append(now)
    return times


@pytest.mark.mechanism(98, 106)
def test_silence_doubles_the_wait_up_to_the_maximum() -> None:
    settings = evolve(SETTINGS, notification_ms_min=100, notification_ms_max=500)
    assert repetitions(settings, 6) == [100, 300, 700, 1200, 1700, 2200]


def test_a_word_or_an_open_channel_ends_the_patience() -> None:
    election = an_election(1)
    for _ in range(5):
        election.tick(election.deadline)
    now, patient = election.deadline - 5_000, election.deadline
    hear(election, 2, a_vote(1), now=now)
    election.reachable(ServerId(3), now)
    assert election.outgoing == [3]
    assert election.deadline <= now + SETTINGS.notification_ms_min < patient


def test_unless_it_is_set_to_stay_patient() -> None:
    election = an_election(1, settings=evolve(SETTINGS, notification_backoff_reset=False))
    for _ in range(5):
        election.tick(election.deadline)
    patient = election.deadline
    election.reachable(ServerId(3), patient - 5_000)
    assert election.deadline == patient
    assert ServerId(3) in election.outgoing


def test_an_observer_waits_for_its_turn_to_ask() -> None:
    election = LeaderElection(ServerId(4), NO_VOTE, 0, (THREE,), SETTINGS, 0, delay=150, votes=False)
    assert election.outgoing == []
    election.tick(150)
    assert election.outgoing == [1, 2, 3]


# -- is a quorum there at all ----------------------------------------------------------------------------


def test_quorum_is_seen_once_enough_voters_have_sent_a_notification() -> None:
    election = an_election(me=1, views=(ensemble(1, 2, 3, 4, 5, observers=(6,)),))
    assert not election.sees_quorum
    hear(election, 6, a_vote(6))
    hear(election, 2, a_vote(2))
    hear(election, 2, a_vote(2))
    assert not election.sees_quorum
    hear(election, 4, a_vote(4))
    assert election.sees_quorum


def test_peer_is_silent_until_it_sends_a_notification() -> None:
    election = an_election(me=1, views=(ensemble(1, 2, 3, observers=(6,)),))
    assert election.silent_peers(SETTINGS.init_ms - 1) == set(), "too early to tell"
    assert election.silent_peers(SETTINGS.init_ms) == {2, 3}
    hear(election, 6, a_vote(6))
    hear(election, 3, a_vote(3))
    assert election.silent_peers(SETTINGS.init_ms) == {2}


# -- vetoes ---------------------------------------------------------------------------------------------


def vetoing(until: Millis, votes: bool = True) -> LeaderElection:
    """Server 1 has the newest of two histories, and has vetoed leader 3."""
    own = a_vote(1, make(5, 500), epoch=5)
    return LeaderElection(ServerId(1), own, 0, (THREE,), SETTINGS, 0, votes=votes, vetoed={ServerId(3): until})


def test_leader_that_was_vetoed_gets_no_vote_however_new_its_history_is() -> None:
    election = vetoing(until=1_000)
    mine = election.proposal
    hear(election, 3, a_vote(3, make(7, 1), epoch=7))
    hear(election, 3, a_vote(3, make(7, 1), epoch=7), turn=2)
    assert (election.proposal, election.round, election.decision) == (mine, 2, None)
    assert hear(election, 2, a_vote(2, make(6, 1), epoch=6), turn=2) == [2, 3]
    assert election.proposal == a_vote(2, make(6, 1), epoch=6), "another server is worth a vote"
    hear(election, 3, a_vote(3, make(7, 1), epoch=7), turn=2, now=1_000)
    assert election.proposal.leader == 3, "and so is this one after a while"


def test_server_without_a_vote_does_not_follow_a_leader_that_it_has_vetoed() -> None:
    election = vetoing(until=1_000, votes=False)
    for sid in (2, 3):
        hear(election, sid, a_vote(3, make(7, 1), epoch=7))
    election.tick(SETTINGS.finalize_wait_ms + 1)
    assert election.decision is None
    for sid in (2, 3):
        hear(election, sid, a_vote(3, make(7, 1), epoch=7), now=1_000)
    election.tick(1_000 + SETTINGS.finalize_wait_ms)
    assert election.decision is not None


def test_established_leader_that_was_vetoed_is_asked_rarely_and_followed_when_its_time_is_over() -> None:
    election = vetoing(until=60_000)
    asked, now = 0, 0
    while now < 60_000:
        now = election.deadline
        election.outgoing.clear()
        election.tick(now)
        asked += bool(election.outgoing)
        for sid, state in ((2, State.FOLLOWING), (3, State.LEADING)):
            if now < 60_000:
                hear(election, sid, a_vote(3, make(7, 1), epoch=7), turn=9, state=state, now=now)
    assert (election.decision, now) == (None, 60_000), "it asks again just then"
    assert asked < 12
    for sid, state in ((2, State.FOLLOWING), (3, State.LEADING)):
        hear(election, sid, a_vote(3, make(7, 1), epoch=7), turn=9, state=state, now=now)
    assert election.decision == a_vote(3, make(7, 1), epoch=7)
