"""Who leads, who is in sync, who holds what, and under which versions that is written."""

from __future__ import annotations

from harness.checkers.controller import READABLE, partitions
from harness.history import Request
from kraft_controller.wire import znodes
from tests.histories.controller.story import ADMIN, Tale, breaks, held, session_of, state_path

# -- leaders -------------------------------------------------------------------------------------------


@breaks(partitions.IN_SYNC)
def a_leader_that_is_not_in_sync(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(1, 2)
    tale.state(1, [2] if bad else [1, 2], 0)


@breaks(partitions.IN_SYNC)
def nobody_is_in_sync(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(1, 2)
    tale.state(-1, [] if bad else [2], 0)


@breaks(partitions.ASSIGNED)
def in_sync_without_a_replica(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(1, 2)
    tale.state(1, [1, 3] if bad else [1, 2], 0)


@breaks(partitions.ASSIGNED)
def a_state_of_a_partition_that_is_not_there(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(1, 2)
    tale.state(1, [1, 2], 0, at=1 if bad else 0)


@breaks(partitions.ASSIGNED)
def a_state_of_a_topic_that_is_gone_is_nobodys(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(1, 2)
    tale.delete(znodes.topic_path("t1"), ADMIN)
    if bad:
        tale.topic(2, ident="b")
    tale.state(1, [1], 0)


@breaks(partitions.CLEAN)
def elected_without_having_been_in_sync(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(1, 2)
    tale.state(1, [1] if bad else [1, 2], 0)
    tale.state(2, [2], 1)


@breaks(partitions.CLEAN)
def who_led_before_nobody_did_may_lead_again(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(1, 2)
    tale.state(1, [1], 0)
    tale.state(-1, [1], 1)
    tale.state(2 if bad else 1, [2 if bad else 1], 2)


@breaks(partitions.UPWARDS)
def a_leader_epoch_goes_back(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(1, 2)
    tale.state(1, [1, 2], 3)
    tale.state(1, [1], 2 if bad else 4)


@breaks(partitions.ONE)
def two_lead_in_one_leader_epoch(tale: Tale, bad: bool) -> None:
    """The node was made anew in between; so it is said of the topic, and not of the node."""
    tale.rules()
    tale.topic(1, 2)
    tale.state(1, [1, 2], 0)
    tale.delete(state_path(), session_of(1))
    tale.state(2, [1, 2], 0 if bad else 1)


@breaks(partitions.ONE)
def another_topic_of_that_name_begins_anew(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(1, 2)
    tale.state(1, [1, 2], 0)
    tale.delete(state_path(), session_of(1))
    tale.delete(znodes.topic_path("t1"), session_of(1))
    tale.topic(1, 2, ident="a" if bad else "b")
    tale.state(2, [1, 2], 0)


@breaks(partitions.ONE)
def nobody_may_lead_as_often_as_it_likes(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(1, 2)
    tale.state(1 if bad else -1, [1, 2], 0)
    tale.delete(state_path(), session_of(1))
    tale.state(2, [1, 2], 0)


@breaks(partitions.ONE)
def each_partition_has_leader_epochs_of_its_own(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic_of({0: held(1, 2), 1: held(2, 1)})
    tale.state(1, [1, 2], 0)
    tale.state(2, [2, 1], 0, at=1)
    tale.delete(state_path(1), session_of(1))
    tale.state(1, [2, 1], 0 if bad else 1, at=1)


# -- versions ------------------------------------------------------------------------------------------


@breaks(partitions.VERSIONS)
def a_leader_epoch_is_left_out(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(1, 2)
    tale.state(1, [1, 2], 0)
    tale.state(1, [1], 2 if bad else 1)


@breaks(partitions.VERSIONS)
def another_leader_in_the_same_leader_epoch(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(1, 2)
    tale.state(-1 if bad else 1, [1, 2], 0)
    tale.state(1, [1, 2], 0)


@breaks(partitions.VERSIONS)
def an_isr_by_who_does_not_lead(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.joins(2)
    tale.joins(3)
    tale.topic(2, 3)
    tale.state(2, [2, 3], 0)
    tale.state(2, [2], 0, session=session_of(3 if bad else 2))


@breaks(partitions.VERSIONS)
def an_isr_by_somebody_unknown(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(1, 2)
    tale.state(1, [1, 2], 0)
    tale.state(1, [1], 0, session=ADMIN if bad else 0)


@breaks(partitions.VERSIONS)
def the_controller_may_write_an_isr(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(2, 3)
    tale.state(2, [2, 3], 0)
    if bad:
        tale.rules(2, 2)
    tale.state(2, [2], 0, session=session_of(1))


@breaks(partitions.VERSIONS)
def a_state_at_whatever_version(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.ask(session_of(1), Request("set", state_path(), b"", version=-1 if bad else 0))


@breaks(partitions.VERSIONS)
def a_topic_at_whatever_version_within_a_multi(tale: Tale, bad: bool) -> None:
    tale.rules()
    check = Request("check", znodes.CONTROLLER_EPOCH, version=1)
    parts = check, Request("set", znodes.topic_path("t1"), b"", version=-1 if bad else 1)
    tale.ask(session_of(1), Request("multi", parts=parts))


@breaks(partitions.VERSIONS)
def an_epoch_at_whatever_version(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.ask(session_of(1), Request("set", znodes.CONTROLLER_EPOCH if bad else "/elsewhere", b""))
    tale.ask(session_of(1), Request("delete", znodes.CONTROLLER_EPOCH))


# -- assignments ---------------------------------------------------------------------------------------


@breaks(partitions.LEGAL)
def a_topic_changes_its_id(tale: Tale, bad: bool) -> None:
    tale.topic(1, 2)
    tale.topic(2, 1, ident="b" if bad else "a")


@breaks(partitions.LEGAL)
def two_topics_have_one_id(tale: Tale, bad: bool) -> None:
    tale.topic(1, 2)
    tale.topic(1, 2, name="t2", ident="a" if bad else "b")


@breaks(partitions.LEGAL)
def a_topic_comes_again_with_the_id_of_the_one_before(tale: Tale, bad: bool) -> None:
    tale.topic(1, 2)
    tale.delete(znodes.topic_path("t1"), ADMIN)
    tale.topic(1, 2, ident="a" if bad else "b")


@breaks(partitions.LEGAL)
def a_partition_is_lost(tale: Tale, bad: bool) -> None:
    tale.topic_of({0: held(1), 1: held(2)})
    tale.topic_of({0: held(1)} if bad else {0: held(1), 1: held(2), 2: held(1)})


@breaks(partitions.LEGAL)
def what_a_doomed_topic_grew_by_may_be_taken_back(tale: Tale, bad: bool) -> None:
    tale.topic_of({0: held(1), 1: held(2)})
    tale.write(znodes.DELETE_TOPICS + ("/t2" if bad else "/t1"), b"", ADMIN)
    tale.topic_of({0: held(1)})


@breaks(partitions.LEGAL)
def a_topic_is_doomed_no_more(tale: Tale, bad: bool) -> None:
    tale.topic_of({0: held(1), 1: held(2)})
    tale.write(znodes.DELETE_TOPICS + "/t1", b"", ADMIN)
    if bad:
        tale.delete(znodes.DELETE_TOPICS + "/t1", ADMIN)
    tale.topic_of({0: held(1)})


@breaks(READABLE)
def a_replica_on_a_broker_that_cannot_be(tale: Tale, bad: bool) -> None:
    tale.topic(1, -1 if bad else 0)


@breaks(partitions.LEGAL)
def a_move_to_nobody(tale: Tale, bad: bool) -> None:
    tale.topic_of({0: held(1, 2, removing=[1, 2] if bad else [2])})


@breaks(partitions.LEGAL)
def a_move_from_nobody(tale: Tale, bad: bool) -> None:
    tale.topic_of({0: held(1, 2, adding=[1, 2] if bad else [2])})


@breaks(partitions.LEGAL)
def a_move_forgets_in_which_order_it_was_before(tale: Tale, bad: bool) -> None:
    tale.topic(1, 2, 3)
    tale.topic_of({0: held(4, 2, 1, 3, adding=[4], removing=[1, 3], before=[2, 1, 3] if bad else [1, 2, 3])})


@breaks(partitions.LEGAL)
def a_move_to_elsewhere_begins_where_the_first_one_did(tale: Tale, bad: bool) -> None:
    tale.topic_of({0: held(1, 2), 1: held(1)})
    tale.topic_of({0: held(3, 2, 1, adding=[3], removing=[1], before=[1, 2]), 1: held(1)})
    tale.topic_of({0: held(4, 2, 1, adding=[4], removing=[1], before=[2, 1] if bad else [1, 2]), 1: held(1)})


@breaks(partitions.LEGAL)
def what_is_new_or_is_not_on_the_move_was_nowhere_before(tale: Tale, bad: bool) -> None:
    tale.topic_of({0: held(1, 2)})
    tale.topic_of({0: held(2, 1), 1: held(3, 2, 1, adding=[3], removing=[1], before=[1, 2])})
    tale.topic_of({0: held(1, 2, 3, adding=[3], before=[1, 2] if bad else [2, 1]), 1: held(2, 1)})


# -- moves ---------------------------------------------------------------------------------------------


@breaks(partitions.ARRIVED)
def a_move_ends_before_all_have_arrived(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(1, 2)
    tale.state(1, [1, 2], 0)
    tale.topic_of({0: held(1, 3, 2, adding=[3], removing=[2])})
    tale.state(1, [1, 2] if bad else [1, 2, 3], 1)
    tale.topic(1, 3)


@breaks(partitions.ARRIVED)
def who_has_arrived_is_gone_when_it_is_decided(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(1, 2)
    tale.state(1, [1, 2], 0)
    tale.topic_of({0: held(3, 4, 1, 2, adding=[3, 4], removing=[1, 2])})
    tale.state(1, [1, 2, 3, 4], 0)
    if bad:
        tale.state(1, [1, 2, 3], 0)
    tale.state(3, [3] if bad else [3, 4], 1)
    tale.topic(3, 4)


@breaks(partitions.ARRIVED)
def a_move_that_is_given_up_has_not_arrived(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(1, 2)
    tale.state(1, [1, 2], 0)
    tale.topic_of({0: held(1, 3, 2, adding=[3], removing=[2])})
    tale.topic(1, 3 if bad else 2)


@breaks(partitions.ARRIVED)
def who_was_in_sync_before_a_move_began_may_be_so_no_more(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(2, 1)
    tale.state(2, [2, 1], 0)
    if bad:
        tale.state(2, [2, 1], 1)
    tale.topic_of({0: held(2, 1, removing=[2])})
    tale.state(2, [2] if bad else [2, 1], 2 if bad else 1)
    tale.topic(1)


@breaks(partitions.ARRIVED)
def a_move_of_what_has_no_state(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic_of({0: held(1, 2, removing=[2]), 1: held(1)})
    tale.state(1, [1, 2], 0)
    if bad:
        tale.delete(state_path(), session_of(1))
    tale.topic_of({0: held(1), 1: held(1), 2: held(1)})
