"""Stories of what brokers tell their clients, and each other."""

from __future__ import annotations

from harness.checkers.partitions import commitment, replicas
from kraft_controller.core.names import Version
from replica.core.partitions.isr import Isr
from replica.core.partitions.leader_role import LeaderRole
from replica.core.replica_messages import Produced
from tests.histories.partitions.story import ALL, ELSEWHERE, HERE, ONE, THREE, TWO, Tale, breaks

# -- acknowledged --------------------------------------------------------------------------------------


@breaks(commitment.ACKNOWLEDGED)
def what_is_acknowledged_is_not_committed(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 1 if bad else 2)
    t.acks(ONE, 1, "b")


@breaks(commitment.ACKNOWLEDGED)
def of_what_is_acknowledged_the_last_is_not_committed(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 2 if bad else 3)
    t.acks(ONE, 1, "b", "c")


@breaks(commitment.ACKNOWLEDGED)
def something_else_stands_where_it_was_acknowledged(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 3)
    t.acks(ONE, 1, "c" if bad else "b")


@breaks(commitment.ACKNOWLEDGED)
def nothing_is_acknowledged_as_nothing(t: Tale, bad: bool) -> None:
    t.opens("a1 -1 c1", 3)
    t.keeper.commitment.acknowledged(t.onlooked(ONE), HERE, 1, [b"c" if bad else b""])


@breaks(commitment.ACKNOWLEDGED)
def too_few_hold_what_is_acknowledged(t: Tale, bad: bool) -> None:
    t.set_up(least=2)
    t.opens("a1 b1", 2, (ONE,))
    t.has(TWO, "a1" if bad else "a1 b1")
    t.acks(ONE, 1, "b")


@breaks(commitment.ACKNOWLEDGED)
def too_few_hold_the_last_of_what_is_acknowledged(t: Tale, bad: bool) -> None:
    t.set_up(least=2)
    t.opens("a1 b1 c1", 3, (ONE,))
    t.has(TWO, "a1 b1" if bad else "a1 b1 c1")
    t.acks(ONE, 1, "b", "c")


@breaks(commitment.ACKNOWLEDGED)
def another_one_holds_something_else_there(t: Tale, bad: bool) -> None:
    t.set_up(least=2)
    t.opens("a1 b1", 2, (ONE,))
    t.has(TWO, "a1 b0" if bad else "a1 b1")
    t.acks(ONE, 1, "b")


@breaks(commitment.ACKNOWLEDGED)
def who_holds_what_had_the_name_before_does_not_count(t: Tale, bad: bool) -> None:
    t.set_up(least=2)
    t.opens("a1 b1", 2, (ONE,))
    t.anew(TWO, "2" if bad else "1")
    t.follows(TWO, ONE, 1)
    t.has(TWO, "a1 b1")
    t.acks(ONE, 1, "b")


def _alone_until_it_grows(t: Tale) -> None:
    t.set_up(least=2)
    t.topic(ONE)
    t.state(ONE, [ONE], 1)
    t.has(ONE, "a1 b1")
    t.leads(ONE, 1, [ONE])
    t.knows(ONE, 2)


@breaks(commitment.ACKNOWLEDGED)
def who_has_not_heard_that_others_are_to_hold_it_needs_none_of_them(t: Tale, bad: bool) -> None:
    _alone_until_it_grows(t)
    t.state(ONE, [ONE], 2)
    t.topic(*ALL)
    if bad:
        t.leads(ONE, 2, [ONE])
    t.looks(ONE)
    t.acks(ONE, 1, "b")


@breaks(commitment.ACKNOWLEDGED)
def who_is_to_hold_it_counts_in_an_epoch_of_its_own(t: Tale, bad: bool) -> None:
    _alone_until_it_grows(t)
    if not bad:
        t.state(ONE, [ONE], 2)
    t.topic(*ALL)
    t.looks(ONE)
    t.acks(ONE, 1, "b")


@breaks(commitment.ACKNOWLEDGED)
def who_has_let_go_of_it_has_had_it(t: Tale, bad: bool) -> None:
    t.set_up(least=2)
    t.opens("a1 b1 c1", 3, (ONE,))
    t.has(TWO, "a1" if bad else "a1 b1")
    t.has(TWO, "", start=1 if bad else 2)
    t.acks(ONE, 1, "b")


@breaks(commitment.ACKNOWLEDGED)
def who_has_let_go_of_it_unseen_has_had_it(t: Tale, bad: bool) -> None:
    t.set_up(least=2)
    t.opens("a1", 1)
    t.state(ONE, [ONE], 1)
    t.state(THREE, [THREE], 2)
    t.leads(THREE, 2, [THREE])
    if not bad:
        t.has(TWO, "d1", start=3)
    t.has(THREE, "a1 b2 c2", hw=3)
    t.acks(THREE, 1, "b")


@breaks(commitment.ACKNOWLEDGED)
def who_has_lost_it_has_had_it(t: Tale, bad: bool) -> None:
    t.set_up(least=2)
    t.opens("a1 b1", 2, (ONE,))
    t.has(TWO, "a1" if bad else "a1 b1")
    if not bad:
        t.wiped(TWO)
    t.acks(ONE, 1, "b")


@breaks(commitment.ACKNOWLEDGED)
def where_there_is_one_replica_one_is_enough(t: Tale, bad: bool) -> None:
    t.set_up(least=2)
    t.topic(*((1, 2) if bad else (1,)))
    t.state(ONE, [ONE], 1)
    t.leads(ONE, 1, [ONE])
    t.has(ONE, "a1", hw=1)
    t.looks(THREE)
    t.acks(ONE, 0, "a")


@breaks(commitment.ACKNOWLEDGED)
def three_have_to_hold_it(t: Tale, bad: bool) -> None:
    t.set_up(least=3)
    t.opens("a1", 1, (ONE, TWO))
    if not bad:
        t.has(THREE, "a1")
    t.acks(ONE, 0, "a")


@breaks(commitment.ACKNOWLEDGED)
def who_has_no_part_in_it_is_not_asked(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.keeper.commitment.acknowledged(t.onlooked(ONE), ELSEWHERE, 0, [b"x"])
    if not bad:
        t.fails(ONE)
    t.acks(ONE, 0, "x")


@breaks(commitment.ACKNOWLEDGED)
def what_nobody_has_looked_at_is_not_judged(t: Tale, bad: bool) -> None:
    t.topic(*ALL)
    t.blind = not bad
    t.leads(ONE, 1)
    t.acks(ONE, 0, "x")


@breaks(commitment.ACKNOWLEDGED)
def who_has_what_has_the_name_now_is_not_asked_for_that_of_before(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    if not bad:
        t.anew(ONE)
        t.blind = True
        t.leads(ONE, 1)
    t.acks(ONE, 0, "x")


@breaks(commitment.ACKNOWLEDGED)
def a_leader_of_before_acknowledges_for_himself(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2, (ONE, TWO))
    t.has(THREE, "a1")
    t.state(THREE, [THREE], 2)
    t.leads(THREE, 2, [THREE])
    t.acks(THREE if bad else ONE, 1, "b")


# -- numbered ------------------------------------------------------------------------------------------


# -- read ----------------------------------------------------------------------------------------------


@breaks(commitment.READ)
def what_is_read_is_not_committed(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 1)
    t.reads(ONE, 0, "a1 b1" if bad else "a1")


@breaks(commitment.READ)
def what_is_read_is_something_else(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 3)
    t.reads(TWO, 1, "b1 x1" if bad else "b1 c1", first=1)


@breaks(commitment.READ)
def what_stands_in_front_is_not_looked_at(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2)
    t.reads(ONE, 0 if bad else 1, "x1 b1")


@breaks(commitment.READ)
def what_was_lost_with_an_election_is_read_from_a_follower(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2, (ONE, TWO))
    t.has(THREE, "a1")
    t.state(THREE, [THREE], 2)
    t.leads(THREE, 2, [THREE])
    t.follows(TWO, THREE, 2)
    t.reads(THREE if bad else TWO, 0, "a1 b1")


@breaks(commitment.READ)
def what_was_never_there_is_read_from_a_follower(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 3, (ONE, TWO))
    t.has(THREE, "a1")
    t.state(THREE, [THREE], 2)
    t.leads(THREE, 2, [THREE])
    t.follows(TWO, THREE, 2)
    t.reads(TWO, 1, "b1 x1" if bad else "b1 c1", first=1)


@breaks(commitment.READ)
def a_leader_of_before_shows_what_it_has(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2, (ONE, TWO))
    t.has(THREE, "a1")
    t.has(ONE, "a1 b1 c1")
    if not bad:
        t.state(THREE, [THREE], 2)
        t.leads(THREE, 2, [THREE])
    t.reads(ONE, 0, "a1 b1 c1")


@breaks(commitment.READ)
def whose_disk_has_failed_shows_nothing(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.keeper.commitment.delivered(t.onlooked(ONE), ELSEWHERE, 0, b"")
    if not bad:
        t.fails(ONE)
    t.reads(ONE, 0, "x1")


# -- told ----------------------------------------------------------------------------------------------


@breaks(replicas.IN_SYNC)
def whose_disk_fails_has_told_what_is_committed(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 1)
    if bad:
        t.has(TWO, "a1")
    t.fails(ONE)
    t.tells(ONE, 2)


@breaks(commitment.EXPOSED)
def what_was_told_at_last_is_committed(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 1)
    if not bad:
        t.fails(ONE)
        t.tells(ONE, 2)
    t.knows(TWO, 2)


@breaks(commitment.EXPOSED)
def it_has_told_no_more_than_it_had(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 1)
    t.fails(ONE)
    t.tells(ONE, 3)
    t.has(TWO, "a1 b1 c1")
    t.knows(TWO, 3 if bad else 2)


@breaks(commitment.EXPOSED)
def a_follower_whose_disk_fails_tells_nothing(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 1)
    t.fails(TWO)
    t.tells(TWO, 2)
    t.knows(THREE, 2 if bad else 1)


@breaks(commitment.EXPOSED)
def who_still_has_it_is_looked_at_and_not_listened_to(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 1)
    t.tells(ONE, 2)
    t.knows(TWO, 2 if bad else 1)


@breaks(commitment.EXPOSED)
def whose_disk_fails_tells_nothing_new(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 1)
    t.fails(ONE)
    t.tells(ONE, 1)
    t.tells(ONE, 1, ELSEWHERE)
    t.keeper.commitment.answers(t.onlooked(ONE), [Produced(HERE)])
    t.knows(TWO, 2 if bad else 1)


@breaks(commitment.EXPOSED)
def a_leader_of_before_whose_disk_fails_tells_what_it_likes(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 1, (ONE, TWO))
    t.has(THREE, "a1")
    t.state(THREE, [THREE], 2)
    t.leads(THREE, 2, [THREE])
    t.fails(ONE)
    t.tells(ONE, 2)
    t.partition(TWO).high_watermark = 1
    t.follows(TWO, THREE, 2)
    t.knows(TWO, 2 if bad else 1)


@breaks(commitment.EXPOSED)
def who_was_elected_not_in_sync_and_whose_disk_fails_tells_what_is_committed(t: Tale, bad: bool) -> None:
    t.opens("a1", 1, (ONE, TWO))
    t.state(THREE, [THREE], 2)
    t.leads(THREE, 2, [THREE])
    t.has(THREE, "b2")
    t.follows(TWO, THREE, 2)
    t.has(TWO, "b2", hw=0)
    t.fails(THREE)
    if not bad:
        t.tells(THREE, 1)
    t.knows(TWO, 1)


# -- alone ---------------------------------------------------------------------------------------------


def _alone(t: Tale, *, least: int = 1, sync: bool = False, isr: tuple[int, ...] = (1,)) -> None:
    t.set_up(lag_ms=100, least=least, sync=sync)
    t.topic(*ALL)
    t.state(ONE, [ONE], 1)
    t.leads(ONE, 1, [each for each in ALL if each in isr])
    t.partition(ONE).min_insync = least
    t.synced(ONE, 2)
    t.has(ONE, "a1 b1", hw=1)
    t.waits(ONE, 0)


@breaks(commitment.ALONE)
def who_is_alone_in_sync_does_not_commit(t: Tale, bad: bool) -> None:
    _alone(t)
    t.waits(ONE, 301 if bad else 300)


@breaks(commitment.ALONE)
def who_is_alone_in_sync_does_not_commit_for_long(t: Tale, bad: bool) -> None:
    _alone(t)
    t.waits(ONE, 200)
    if not bad:
        t.knows(ONE, 2)
        t.waits(ONE, 50)
        t.has(ONE, "a1 b1 c1")
        t.waits(ONE, 50)
    t.waits(ONE, 200)


@breaks(commitment.ALONE)
def who_commits_something_has_more_time(t: Tale, bad: bool) -> None:
    _alone(t)
    t.has(ONE, "a1 b1 c1")
    t.waits(ONE, 200)
    t.knows(ONE, 2)
    t.waits(ONE, 200)
    t.waits(ONE, 301 if bad else 300)


@breaks(commitment.ALONE)
def whose_isr_was_written_has_more_time(t: Tale, bad: bool) -> None:
    _alone(t)
    t.waits(ONE, 200)
    if not bad:
        _role(t).isr = Isr((ONE,), Version(1))
    t.waits(ONE, 200)


@breaks(commitment.ALONE)
def who_is_not_alone_waits_for_the_others(t: Tale, bad: bool) -> None:
    _alone(t, isr=(1,) if bad else (1, 2))
    t.waits(ONE, 400)


@breaks(commitment.ALONE)
def who_asks_for_another_isr_waits_for_that(t: Tale, bad: bool) -> None:
    _alone(t)
    if not bad:
        _role(t).isr.ask((ONE, TWO), {})
    t.waits(ONE, 400)


@breaks(commitment.ALONE)
def who_needs_others_waits_for_them(t: Tale, bad: bool) -> None:
    _alone(t, least=1 if bad else 2)
    t.waits(ONE, 400)


@breaks(commitment.ALONE)
def who_waits_for_the_disk_has_time(t: Tale, bad: bool) -> None:
    _alone(t, sync=not bad)
    t.waits(ONE, 400)


@breaks(commitment.ALONE)
def who_is_about_to_be_joined_waits_for_it(t: Tale, bad: bool) -> None:
    _alone(t)
    role = _role(t)
    role.assign(ALL, 0)
    role.followers[TWO].end_offset = 2 if not bad else 1
    t.waits(ONE, 400)


@breaks(commitment.ALONE)
def who_has_committed_all_waits_for_nothing(t: Tale, bad: bool) -> None:
    _alone(t)
    t.knows(ONE, 1 if bad else 2)
    t.waits(ONE, 400)
    t.waits(ONE, 400)


@breaks(commitment.ALONE)
def who_follows_waits_for_his_leader(t: Tale, bad: bool) -> None:
    _alone(t)
    t.follows(TWO, ONE, 1)
    t.has(TWO, "a1 b1")
    t.waits(TWO, 400)
    t.waits(TWO, 400)
    if bad:
        t.waits(ONE, 400)


@breaks(commitment.ALONE)
def what_was_before_does_not_count(t: Tale, bad: bool) -> None:
    """It was not alone for a while."""
    _alone(t)
    t.waits(ONE, 200)
    if not bad:
        kept = _role(t).isr
        _role(t).isr = Isr((ONE, TWO), Version(0))
        t.waits(ONE, 10)
        _role(t).isr = kept
        t.waits(ONE, 10)
    t.waits(ONE, 200)


def _role(t: Tale) -> LeaderRole:
    role = t.partition(ONE).role
    assert isinstance(role, LeaderRole)
    return role
