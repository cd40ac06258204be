"""Who leads, who is in sync, who holds what, and under which versions that is written."""

from __future__ import annotations

from harness.checkers.controller import READABLE, partitions
from harness.history import Request
from kraft_controller.wire import znodes
from tests.histories.controller.scenario import ADMIN, Scenario, breaks, held, session_of, state_path

# -- leaders -------------------------------------------------------------------------------------------


@breaks(partitions.IN_SYNC)
def a_leader_that_is_not_in_sync(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [2] if bad else [1, 2], 0)


@breaks(partitions.IN_SYNC)
def nobody_is_in_sync(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(-1, [] if bad else [2], 0)


@breaks(partitions.ASSIGNED)
def in_sync_without_a_replica(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1, 3] if bad else [1, 2], 0)


@breaks(partitions.ASSIGNED)
def a_state_of_a_partition_that_is_not_there(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1, 2], 0, at=1 if bad else 0)


@breaks(partitions.ASSIGNED)
def a_state_of_a_topic_that_is_gone_is_nobodys(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.delete(znodes.topic_path("t1"), ADMIN)
    if bad:
        s.topic(2, ident="b")
    s.state(1, [1], 0)


@breaks(partitions.CLEAN)
def elected_without_having_been_in_sync(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1] if bad else [1, 2], 0)
    s.state(2, [2], 1)


@breaks(partitions.CLEAN)
def who_led_before_nobody_did_may_lead_again(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1], 0)
    s.state(-1, [1], 1)
    s.state(2 if bad else 1, [2 if bad else 1], 2)


@breaks(partitions.UPWARDS)
def a_leader_epoch_goes_back(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1, 2], 3)
    s.state(1, [1], 2 if bad else 4)


@breaks(partitions.ONE)
def two_lead_in_one_leader_epoch(s: Scenario, bad: bool) -> None:
    """The node was made anew in between; so it is result_of of the topic, and not of the node."""
    s.elected()
    s.topic(1, 2)
    s.state(1, [1, 2], 0)
    s.delete(state_path(), session_of(1))
    s.state(2, [1, 2], 0 if bad else 1)


@breaks(partitions.ONE)
def another_topic_of_that_name_begins_anew(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1, 2], 0)
    s.delete(state_path(), session_of(1))
    s.delete(znodes.topic_path("t1"), session_of(1))
    s.topic(1, 2, ident="a" if bad else "b")
    s.state(2, [1, 2], 0)


@breaks(partitions.ONE)
def nobody_may_lead_as_often_as_it_likes(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1 if bad else -1, [1, 2], 0)
    s.delete(state_path(), session_of(1))
    s.state(2, [1, 2], 0)


@breaks(partitions.ONE)
def each_partition_has_leader_epochs_of_its_own(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic_of({0: held(1, 2), 1: held(2, 1)})
    s.state(1, [1, 2], 0)
    s.state(2, [2, 1], 0, at=1)
    s.delete(state_path(1), session_of(1))
    s.state(1, [2, 1], 0 if bad else 1, at=1)


# -- versions ------------------------------------------------------------------------------------------


@breaks(partitions.VERSIONS)
def a_leader_epoch_is_left_out(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1, 2], 0)
    s.state(1, [1], 2 if bad else 1)


@breaks(partitions.VERSIONS)
def another_leader_in_the_same_leader_epoch(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(-1 if bad else 1, [1, 2], 0)
    s.state(1, [1, 2], 0)


@breaks(partitions.VERSIONS)
def an_isr_by_who_does_not_lead(s: Scenario, bad: bool) -> None:
    s.elected()
    s.registers(2)
    s.registers(3)
    s.topic(2, 3)
    s.state(2, [2, 3], 0)
    s.state(2, [2], 0, session=session_of(3 if bad else 2))


@breaks(partitions.VERSIONS)
def an_isr_by_somebody_unknown(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1, 2], 0)
    s.state(1, [1], 0, session=ADMIN if bad else 0)


@breaks(partitions.VERSIONS)
def the_controller_may_write_an_isr(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(2, 3)
    s.state(2, [2, 3], 0)
    if bad:
        s.elected(2, 2)
    s.state(2, [2], 0, session=session_of(1))


@breaks(partitions.VERSIONS)
def a_state_at_whatever_version(s: Scenario, bad: bool) -> None:
    s.elected()
    s.invoke(session_of(1), Request("set", state_path(), b"", version=-1 if bad else 0))


@breaks(partitions.VERSIONS)
def a_topic_at_whatever_version_within_a_multi(s: Scenario, bad: bool) -> None:
    s.elected()
    check = Request("check", znodes.CONTROLLER_EPOCH, version=1)
    parts = check, Request("set", znodes.topic_path("t1"), b"", version=-1 if bad else 1)
    s.invoke(session_of(1), Request("multi", parts=parts))


@breaks(partitions.VERSIONS)
def an_epoch_at_whatever_version(s: Scenario, bad: bool) -> None:
    s.elected()
    s.invoke(session_of(1), Request("set", znodes.CONTROLLER_EPOCH if bad else "/elsewhere", b""))
    s.invoke(session_of(1), Request("delete", znodes.CONTROLLER_EPOCH))


# -- assignments ---------------------------------------------------------------------------------------


@breaks(partitions.LEGAL)
def a_topic_changes_its_id(s: Scenario, bad: bool) -> None:
    s.topic(1, 2)
    s.topic(2, 1, ident="b" if bad else "a")


@breaks(partitions.LEGAL)
def two_topics_have_one_id(s: Scenario, bad: bool) -> None:
    s.topic(1, 2)
    s.topic(1, 2, name="t2", ident="a" if bad else "b")


@breaks(partitions.LEGAL)
def a_topic_comes_again_with_the_id_of_the_one_before(s: Scenario, bad: bool) -> None:
    s.topic(1, 2)
    s.delete(znodes.topic_path("t1"), ADMIN)
    s.topic(1, 2, ident="a" if bad else "b")


@breaks(partitions.LEGAL)
def a_partition_is_lost(s: Scenario, bad: bool) -> None:
    s.topic_of({0: held(1), 1: held(2)})
    s.topic_of({0: held(1)} if bad else {0: held(1), 1: held(2), 2: held(1)})


@breaks(partitions.LEGAL)
def what_a_doomed_topic_grew_by_may_be_taken_back(s: Scenario, bad: bool) -> None:
    s.topic_of({0: held(1), 1: held(2)})
    s.write(znodes.DELETE_TOPICS + ("/t2" if bad else "/t1"), b"", ADMIN)
    s.topic_of({0: held(1)})


@breaks(partitions.LEGAL)
def a_topic_is_doomed_no_more(s: Scenario, bad: bool) -> None:
    s.topic_of({0: held(1), 1: held(2)})
    s.write(znodes.DELETE_TOPICS + "/t1", b"", ADMIN)
    if bad:
        s.delete(znodes.DELETE_TOPICS + "/t1", ADMIN)
    s.topic_of({0: held(1)})


@breaks(READABLE)
def a_replica_on_a_broker_that_cannot_be(s: Scenario, bad: bool) -> None:
    s.topic(1, -1 if bad else 0)


@breaks(partitions.LEGAL)
def a_move_to_nobody(s: Scenario, bad: bool) -> None:
    s.topic_of({0: held(1, 2, removing=[1, 2] if bad else [2])})


@breaks(partitions.LEGAL)
def a_move_from_nobody(s: Scenario, bad: bool) -> None:
    s.topic_of({0: held(1, 2, adding=[1, 2] if bad else [2])})


@breaks(partitions.LEGAL)
def a_move_forgets_in_which_order_it_was_before(s: Scenario, bad: bool) -> None:
    s.topic(1, 2, 3)
    s.topic_of({0: held(4, 2, 1, 3, adding=[4], removing=[1, 3], before=[2, 1, 3] if bad else [1, 2, 3])})


@breaks(partitions.LEGAL)
def a_move_to_elsewhere_begins_where_the_first_one_did(s: Scenario, bad: bool) -> None:
    s.topic_of({0: held(1, 2), 1: held(1)})
    s.topic_of({0: held(3, 2, 1, adding=[3], removing=[1], before=[1, 2]), 1: held(1)})
    s.topic_of({0: held(4, 2, 1, adding=[4], removing=[1], before=[2, 1] if bad else [1, 2]), 1: held(1)})


@breaks(partitions.LEGAL)
def what_is_new_or_is_not_on_the_move_was_nowhere_before(s: Scenario, bad: bool) -> None:
    s.topic_of({0: held(1, 2)})
    s.topic_of({0: held(2, 1), 1: held(3, 2, 1, adding=[3], removing=[1], before=[1, 2])})
    s.topic_of({0: held(1, 2, 3, adding=[3], before=[1, 2] if bad else [2, 1]), 1: held(2, 1)})


# -- moves ---------------------------------------------------------------------------------------------


@breaks(partitions.ARRIVED)
def a_move_ends_before_all_have_arrived(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1, 2], 0)
    s.topic_of({0: held(1, 3, 2, adding=[3], removing=[2])})
    s.state(1, [1, 2] if bad else [1, 2, 3], 1)
    s.topic(1, 3)


@breaks(partitions.ARRIVED)
def who_has_arrived_is_gone_when_it_is_decided(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1, 2], 0)
    s.topic_of({0: held(3, 4, 1, 2, adding=[3, 4], removing=[1, 2])})
    s.state(1, [1, 2, 3, 4], 0)
    if bad:
        s.state(1, [1, 2, 3], 0)
    s.state(3, [3] if bad else [3, 4], 1)
    s.topic(3, 4)


@breaks(partitions.ARRIVED)
def a_move_that_is_given_up_has_not_arrived(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1, 2], 0)
    s.topic_of({0: held(1, 3, 2, adding=[3], removing=[2])})
    s.topic(1, 3 if bad else 2)


@breaks(partitions.ARRIVED)
def who_was_in_sync_before_a_move_began_may_be_so_no_more(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(2, 1)
    s.state(2, [2, 1], 0)
    if bad:
        s.state(2, [2, 1], 1)
    s.topic_of({0: held(2, 1, removing=[2])})
    s.state(2, [2] if bad else [2, 1], 2 if bad else 1)
    s.topic(1)


@breaks(partitions.ARRIVED)
def a_move_of_what_has_no_state(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic_of({0: held(1, 2, removing=[2]), 1: held(1)})
    s.state(1, [1, 2], 0)
    if bad:
        s.delete(state_path(), session_of(1))
    s.topic_of({0: held(1), 1: held(1), 2: held(1)})
