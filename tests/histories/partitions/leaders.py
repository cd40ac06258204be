"""Stories of leaders: what they have, what they take for committed, and who is in sync with them."""

from __future__ import annotations

from harness.checkers.partitions import commitment, logs, replicas
from harness.probes import counted_as
from kraft_controller.core.names import NO_LEADER
from kraft_controller.wire import znodes
from tests.histories.controller.scenario import ADMIN
from tests.histories.partitions.story import ALL, ELSEWHERE, HERE, ONE, THREE, TWO, Tale, breaks, reaches

# -- watermarks ----------------------------------------------------------------------------------------


@breaks(logs.WITHIN)
def a_follower_knows_more_to_be_committed_than_it_has(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.knows(TWO, 2 if bad else 1)


@breaks(logs.WITHIN)
def a_leader_knows_more_to_be_committed_than_it_has(t: Tale, bad: bool) -> None:
    t.opens("a1", 0)
    t.knows(ONE, 2 if bad else 1)


@breaks(logs.BACK)
def a_leaders_watermark_goes_back(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2)
    t.knows(TWO, 1)
    t.knows(ONE, 1 if bad else 2)


@breaks(logs.BACK)
def in_another_epoch_it_may_know_less(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2)
    if not bad:
        t.state(ONE, ALL, 2)
        t.partition(ONE).high_watermark = 1
        t.leads(ONE, 2)
    t.knows(ONE, 1)


@breaks(logs.BACK)
def who_comes_to_lead_may_know_less(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2)
    t.state(TWO, ALL, 2)
    t.partition(TWO).high_watermark = 1
    t.leads(TWO, 2)
    t.knows(TWO, 2)
    t.knows(TWO, 1 if bad else 2)


@breaks(logs.BACK)
def who_was_stopped_may_know_less(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2)
    t.blind = True
    if not bad:
        t.stops(ONE)
    t.blind = False
    t.knows(ONE, 1)


@breaks(commitment.EXPOSED)
def a_follower_is_ahead_of_all_leaders(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 1)
    t.knows(TWO, 2 if bad else 1)


@breaks(commitment.EXPOSED)
def a_follower_is_ahead_when_nothing_is_committed(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 0)
    t.knows(TWO, 1 if bad else 0)


@breaks(commitment.EXPOSED)
def a_deposed_leader_takes_its_own_for_committed(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 1)
    t.has(TWO, "a1")
    t.has(THREE, "a1")
    t.state(TWO, [TWO, THREE], 2)
    t.has(THREE, "a1 c2")
    t.leads(TWO, 2)
    t.has(TWO, "a1 c2", hw=2)
    t.knows(ONE, 2 if bad else 1)


@breaks(commitment.EXPOSED)
def a_follower_takes_what_is_cut_off_elsewhere_for_committed(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 d1", 1)
    t.has(TWO, "a1")
    t.state(TWO, [TWO], 2)
    t.leads(TWO, 2)
    t.has(TWO, "a1 c2 e2", hw=3)
    t.knows(THREE, 2 if bad else 1)


@breaks(replicas.IN_SYNC)
def what_a_member_of_the_isr_lacks_is_committed(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.has(TWO, "a1 b1")
    t.has(THREE, "a1" if bad else "a1 b1")
    t.has(ONE, "a1 b1", hw=2)


@breaks(replicas.IN_SYNC)
def who_is_not_in_sync_is_not_waited_for(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.state(ONE, ALL if bad else [ONE, TWO], 1)
    t.has(TWO, "a1 b1")
    t.has(ONE, "a1 b1", hw=2)


@breaks(replicas.IN_SYNC)
def nobody_has_to_hold_what_the_store_does_not_know(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    if not bad:
        t.stateless()
    t.has(ONE, "a1 b1", hw=2)


@breaks(replicas.IN_SYNC)
def who_leads_counts_for_himself_what_is_his(t: Tale, bad: bool) -> None:
    """A leader that knows more than anybody when it begins."""
    t.opens("a1 b1 c1", 1)
    t.has(THREE, "a1 b1 c1" if not bad else "a1")
    t.state(TWO, ALL, 2)
    t.partition(TWO).high_watermark = 3
    t.leads(TWO, 2)


# -- who is in sync ------------------------------------------------------------------------------------


@breaks(replicas.IN_SYNC)
def who_joins_lacks_something(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2, (ONE, TWO))
    t.has(THREE, "a1" if bad else "a1 b1")
    t.state(ONE, ALL, 1)
    t.looks(ONE)


@breaks(replicas.IN_SYNC)
def who_joins_has_nothing(t: Tale, bad: bool) -> None:
    t.topic(1, 2)
    t.state(ONE, [ONE], 1)
    t.leads(ONE, 1)
    t.has(ONE, "a1", hw=1 if bad else 0)
    t.state(ONE, [ONE, TWO], 1)
    t.looks(ONE)


@breaks(replicas.IN_SYNC)
def who_joins_has_another_record(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 3, (ONE, TWO))
    t.has(THREE, "a1 b0 c1" if bad else "a1 b1 c1")
    t.state(ONE, ALL, 1)
    t.looks(ONE)


@breaks(replicas.IN_SYNC)
def who_joins_holds_what_had_the_name_before(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2, (ONE, TWO))
    t.anew(THREE, "2" if bad else "1")
    t.follows(THREE, ONE, 1)
    t.has(THREE, "a1 b1")
    t.state(ONE, ALL, 1)
    t.looks(ONE)


@breaks(replicas.IN_SYNC)
def who_joins_while_somebody_else_comes_to_lead(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2, (ONE, TWO))
    t.has(THREE, "a1" if bad else "a1 b1")
    t.state(TWO, ALL, 2)
    t.looks(ONE)


@breaks(replicas.IN_SYNC)
def who_joins_while_nobody_leads(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2, (ONE, TWO))
    t.has(THREE, "a1" if bad else "a1 b1")
    t.state(NO_LEADER, ALL, 2)
    t.looks(ONE)


@breaks(replicas.IN_SYNC)
def who_was_told_to_delete_it_had_it_when_he_joined(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2, (ONE, TWO))
    t.has(THREE, "a1" if bad else "a1 b1")
    t.state(ONE, ALL, 1)
    t.state(ONE, [ONE, TWO], 1)
    t.keeper.disks.deleted(THREE, HERE)
    t.looks(ONE)


@reaches(counted_as("joins ISR during writes"))
def somebody_joins_while_the_leader_has_more_than_is_committed(t: Tale, so: bool) -> None:
    t.opens("a1 b1", 1 if so else 2, (ONE, TWO))
    t.has(THREE, "a1 b1")
    t.state(ONE, ALL, 1)
    t.looks(ONE)


@reaches(counted_as("joins ISR during writes"))
def somebody_joins_and_not_only_leaves(t: Tale, so: bool) -> None:
    t.opens("a1 b1", 1, (ONE, TWO))
    t.has(THREE, "a1 b1")
    t.state(ONE, [ONE, THREE] if so else [ONE], 1)
    t.looks(ONE)


@reaches(counted_as("joins ISR during writes"))
def somebody_joins_whose_leader_holds_what_had_the_name_before(t: Tale, so: bool) -> None:
    t.opens("a1", 0, (ONE, TWO))
    if not so:
        t.topic(1, 2, 3, ident="2")
        t.state(ONE, [ONE], 1)
        t.looks(THREE)
    t.state(ONE, ALL, 1)
    t.looks(THREE)


@reaches(counted_as("joins ISR during writes"))
def somebody_joins_whose_leader_was_never_seen(t: Tale, so: bool) -> None:
    t.topic(1, 2)
    t.state(ONE, [ONE], 1)
    t.follows(TWO, ONE, 1)
    if so:
        t.leads(ONE, 1, [ONE])
        t.has(ONE, "a1")
    t.state(ONE, [ONE, TWO], 1)
    t.looks(TWO)


@reaches(counted_as("only one in sync"))
def one_of_several_is_in_sync(t: Tale, so: bool) -> None:
    t.opens("a1", 1)
    t.state(ONE, [ONE] if so else [ONE, TWO], 1)
    t.looks(ONE)


@reaches(counted_as("only one in sync"))
def the_only_one_is_always_alone(t: Tale, so: bool) -> None:
    t.topic(*((1, 2) if so else (1,)))
    t.state(ONE, [ONE], 1)
    t.state(ONE, [ONE], 2)
    t.leads(ONE, 2)


@reaches(counted_as("only one in sync"))
def of_those_to_whom_it_moves_there_is_only_one(t: Tale, so: bool) -> None:
    t.opens("a1", 1)
    if not so:
        t.topic(1)
    t.state(ONE, [ONE], 2)
    t.looks(ONE)


@reaches(counted_as("only one in sync"))
def a_topic_that_has_no_id_is_not_looked_at(t: Tale, so: bool) -> None:
    t.store.write(znodes.topic_path("t1"), znodes.topic(None, {0: t.partition(ONE).assignment}), ADMIN)
    if so:
        t.topic(*ALL)
    t.state(ONE, ALL, 1)
    t.state(ONE, [ONE], 1)
    t.leads(ONE, 1)


# -- who leads -----------------------------------------------------------------------------------------


@breaks(commitment.COMMITTED)
def who_leads_was_not_elected_and_lacks_something(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 3, (ONE, TWO))
    t.has(THREE, "a1")
    if not bad:
        t.state(THREE, [THREE], 2)
    t.leads(THREE, 2, [THREE])


@breaks(commitment.COMMITTED)
def who_leads_has_another_record(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 3, (ONE, TWO))
    t.has(THREE, "a1 x0 c1" if bad else "a1 b1 c1")
    t.leads(THREE, 2)


@breaks(commitment.COMMITTED)
def an_election_of_before_excuses_nobody(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2, (ONE, TWO))
    t.has(THREE, "a1")
    t.state(THREE, [THREE], 2)
    t.leads(THREE, 2, [THREE])
    t.has(THREE, "a1 c2", hw=2)
    t.has(TWO, "a1" if bad else "a1 c2")
    t.leads(TWO, 3)


@breaks(commitment.COMMITTED)
def an_election_that_comes_later_excuses_nobody(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2, (ONE,))
    t.has(TWO, "a1")
    t.has(THREE, "a1")
    t.state(THREE, [THREE], 3)
    if bad:
        t.leads(TWO, 2)
    t.leads(THREE, 3, [THREE])


@breaks(commitment.COMMITTED)
def one_of_several_elections_excuses(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2, (ONE,))
    t.has(TWO, "a1")
    t.has(THREE, "a1")
    t.state(THREE, [THREE], 2)
    t.leads(THREE, 2, [THREE])
    t.has(THREE, "a1 c2", hw=2)
    if not bad:
        t.state(TWO, [TWO], 3)
    t.leads(TWO, 3, [TWO])


@breaks(commitment.COMMITTED)
def whom_the_isr_names_is_elected_as_he_should_be(t: Tale, bad: bool) -> None:
    """He has left the ISR when he acts, and cut what he had: nothing excuses that."""
    t.opens("a1", 0)
    t.state(TWO, ALL, 2)
    t.looks(ONE)
    t.has(TWO, "")
    t.state(ONE, [ONE], 3)
    if bad:
        t.knows(ONE, 1)
    t.leads(TWO, 2)


@breaks(commitment.COMMITTED)
def that_nobody_leads_excuses_nobody(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2, (ONE, TWO))
    t.has(THREE, "a1" if bad else "a1 b1")
    t.state(NO_LEADER, [ONE, TWO], 2)
    t.state(NO_LEADER, [ONE, TWO], 3)
    t.leads(THREE, 3)


@breaks(commitment.COMMITTED)
def that_the_leader_is_the_same_excuses_nobody(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2, (ONE, TWO))
    t.has(THREE, "a1" if bad else "a1 b1")
    t.state(ONE, [TWO], 2)
    t.state(ONE, [TWO], 3)
    t.leads(THREE, 3)


@breaks(replicas.IN_SYNC)
def who_is_elected_though_not_in_sync_is_obeyed(t: Tale, bad: bool) -> None:
    """The leaders of before commit for themselves from then on; it is told at once that they do not."""
    t.opens("a1 b1", 2, (ONE, TWO))
    t.has(THREE, "a1 b1" if bad else "a1")
    if bad:
        t.state(ONE, ALL, 1)
    t.state(THREE, ALL if bad else [THREE], 2)
    t.leads(THREE, 2, [THREE])
    t.has(ONE, "a1 b1 d1", hw=3)


@breaks(commitment.EXPOSED)
def in_its_own_epoch_who_was_elected_so_is_judged(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2, (ONE, TWO))
    t.has(THREE, "a1")
    t.state(THREE, [THREE], 2)
    t.leads(THREE, 2, [THREE])
    t.has(THREE, "a1 c2", hw=2)
    t.partition(TWO).high_watermark = 1
    t.follows(TWO, THREE, 2)
    t.knows(TWO, 2 if bad else 1)


@breaks(commitment.COMMITTED)
def who_leads_in_an_epoch_that_is_over_is_nobody_new(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.state(TWO, [TWO], 3)
    t.leads(TWO, 3, [TWO])
    t.has(TWO, "a1 b3", hw=2)
    t.leads(THREE, 4 if bad else 2)


@reaches(counted_as("high watermark behind"))
def who_begins_to_lead_does_not_know_of_all(t: Tale, so: bool) -> None:
    t.opens("a1 b1", 2)
    t.state(TWO, ALL, 2)
    t.partition(TWO).high_watermark = 1 if so else 2
    t.leads(TWO, 2)


@reaches(counted_as("logs diverge"))
def who_begins_to_lead_lacks_what_another_one_has(t: Tale, so: bool) -> None:
    t.opens("a1", 1)
    t.has(ONE, "a1 b1")
    t.has(TWO, "a1" if so else "a1 b1")
    t.state(TWO, ALL, 2)
    t.leads(TWO, 2)


@reaches(counted_as("logs diverge"))
def who_begins_to_lead_has_most_of_all(t: Tale, so: bool) -> None:
    t.opens("a1", 1)
    t.has(TWO, "a1 b1" if so else "a1 c2 d2")
    t.has(ONE, "a1 c2 d2" if so else "a1 c2")
    t.state(TWO, ALL, 2)
    t.leads(TWO, 2)


@reaches(counted_as("logs diverge"))
def what_had_the_name_before_does_not_count(t: Tale, so: bool) -> None:
    t.topic(1, 2)
    t.state(ONE, [ONE, TWO], 1)
    t.anew(TWO, "1" if so else "2")
    t.follows(TWO, ONE, 1)
    t.has(TWO, "a0 b0")
    t.looks(THREE)
    t.leads(ONE, 1)


@reaches(counted_as("two leaders"))
def who_is_deposed_and_does_not_know_it_writes(t: Tale, so: bool) -> None:
    t.opens("a1", 1)
    if so:
        t.state(TWO, ALL, 2)
    t.has(ONE, "a1 b1")


@reaches(counted_as("two leaders"))
def who_is_deposed_and_knows_it_does_not_lead(t: Tale, so: bool) -> None:
    t.opens("a1", 1)
    t.state(TWO, ALL, 2)
    t.blind = True
    if not so:
        t.follows(ONE, TWO, 2)
    t.has(ONE, "a1 b1")
    t.blind = False
    t.looks(ONE)


@reaches(counted_as("two leaders"))
def a_follower_that_hears_late_is_no_leader(t: Tale, so: bool) -> None:
    t.opens("a1", 1)
    t.state(TWO, ALL, 2)
    if not so:
        t.has(THREE, "a1 b1")
    else:
        t.has(ONE, "a1 b1")


@reaches(counted_as("two leaders"))
def who_begins_to_lead_and_writes_at_once_did_not_lead(t: Tale, so: bool) -> None:
    t.opens("a1", 1)
    t.state(ONE, ALL, 3)
    if so:
        t.leads(TWO, 2)
    t.blind = not so
    t.leads(TWO, 2)
    t.has(TWO, "a1 b2")
    t.blind = False
    t.looks(TWO)


@reaches(counted_as("two leaders"))
def where_the_store_knows_nothing_nobody_is_deposed(t: Tale, so: bool) -> None:
    t.opens("a1", 1)
    t.state(TWO, ALL, 2)
    if not so:
        t.stateless()
    t.has(ONE, "a1 b1")


@reaches(counted_as("elected unclean"))
def somebody_not_in_sync_is_elected(t: Tale, so: bool) -> None:
    t.opens("a1", 1, (ONE, TWO))
    t.state(THREE if so else TWO, [THREE if so else TWO], 2)
    t.looks(ONE)


@reaches(counted_as("elected unclean"))
def the_first_one_is_elected_from_nobody(t: Tale, so: bool) -> None:
    t.topic(*ALL)
    if so:
        t.state(ONE, [ONE], 1)
    t.state(TWO, [TWO], 2)
    t.leads(TWO, 2)


# -- topics --------------------------------------------------------------------------------------------


@breaks(commitment.COMMITTED)
def of_what_is_to_be_deleted_nothing_is_promised(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2, (ONE, TWO))
    t.has(THREE, "a1")
    t.dooms("t2" if bad else "t1")
    t.leads(THREE, 2)
    t.knows(ONE, 2)
    t.has(TWO, "")
    t.follows(TWO, THREE, 2)
    t.acks(ONE, 0, "x")


@breaks(logs.UNCUT)
def only_who_asks_for_it_deletes_a_topic(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2)
    if not bad:
        t.dooms()
    t.store.delete(f"{znodes.DELETE_TOPICS}/t1", ADMIN)
    t.has(TWO, "a1")


@breaks(logs.UNCUT)
def that_a_topic_was_deleted_is_nothing_to_the_next(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2)
    t.dooms()
    t.store.delete(f"{znodes.DELETE_TOPICS}/t1", ADMIN)
    t.stateless()
    t.store.delete(znodes.topic_path("t1"), ADMIN)
    t.topic(*ALL, ident="2")
    t.state(ONE, [ONE, TWO], 1)
    for broker in (ONE, TWO):
        t.anew(broker)
    t.follows(TWO, ONE, 1)
    t.has(TWO, "c1")
    t.leads(ONE, 1)
    t.has(ONE, "c1", hw=1)
    t.has(TWO, "" if bad else "c1 d1")


@breaks(logs.UNCUT)
def who_asks_again_means_what_has_the_name_now(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2)
    t.stateless()
    t.topic(*ALL, ident="2")
    t.dooms()
    t.looks(ONE)
    t.has(ONE, "a1" if bad else "a1 b1")


@breaks(commitment.ACKNOWLEDGED)
def a_topic_of_the_same_shape_is_looked_at_anew(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.dooms()
    t.topic(*ALL, ident="2")
    t.state(ONE, [ONE], 1)
    t.anew(ONE)
    t.blind = True
    t.leads(ONE, 1, [ONE])
    t.has(ONE, "x1", hw=1)
    t.blind = False
    t.looks(ONE)
    t.acks(ONE, 0, "a" if bad else "x")


@breaks(logs.UNCUT)
def who_was_told_to_delete_it_may_begin_with_nothing(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.state(ONE, [ONE, TWO], 1)
    if not bad:
        t.keeper.disks.deleted(THREE, HERE)
    t.keeper.disks.deleted(THREE, ELSEWHERE)
    t.keeper.disks.deleted(9, HERE)
    t.anew(THREE, "1")
    t.follows(THREE, ONE, 1)
