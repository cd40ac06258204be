"""Partition states and assignments: leaders, ISRs, replicas and versions."""

from __future__ import annotations

from harness.checkers.controller import READABLE, partitions
from harness.history import Request
from kraft_controller.wire import znodes
from tests.histories.controller.scenario import ADMIN, Scenario, breaks, held, session_of, state_path

# -- leaders -------------------------------------------------------------------------------------------


@breaks(partitions.IN_SYNC)
def leader_that_is_not_in_sync(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [2] if bad else [1, 2], 0)


@breaks(partitions.IN_SYNC)
def empty_isr(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(-1, [] if bad else [2], 0)


@breaks(partitions.ASSIGNED)
def in_sync_without_a_replica(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1, 3] if bad else [1, 2], 0)


@breaks(partitions.ASSIGNED)
def state_of_an_unassigned_partition(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1, 2], 0, at=1 if bad else 0)


@breaks(partitions.ASSIGNED)
def state_of_a_deleted_topic_is_not_checked(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.delete(znodes.topic_path("t1"), ADMIN)
    if bad:
        s.topic(2, ident="b")
    s.state(1, [1], 0)


@breaks(partitions.CLEAN)
def leader_elected_outside_the_isr(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1] if bad else [1, 2], 0)
    s.state(2, [2], 1)


@breaks(partitions.CLEAN)
def unclean_election_is_allowed_by_the_topic(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1], 0)
    config = znodes.config({"unclean.leader.election.enable": "true"})
    s.write(znodes.config_path("topics", "t2" if bad else "t1"), config, ADMIN)
    s.state(2, [2], 1)


@breaks(partitions.CLEAN)
def former_leader_may_lead_again(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1], 0)
    s.state(-1, [1], 1)
    s.state(2 if bad else 1, [2 if bad else 1], 2)


@breaks(partitions.UPWARDS)
def leader_epoch_goes_back(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1, 2], 3)
    s.state(1, [1], 2 if bad else 4)


@breaks(partitions.ONE)
def two_leaders_in_one_leader_epoch(s: Scenario, bad: bool) -> None:
    """The node was created again in between; the leader epoch belongs to the topic, not to the node."""
    s.elected()
    s.topic(1, 2)
    s.state(1, [1, 2], 0)
    s.delete(state_path(), session_of(1))
    s.state(2, [1, 2], 0 if bad else 1)


@breaks(partitions.ONE)
def recreated_topic_begins_with_a_new_leader_epoch(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1, 2], 0)
    s.delete(state_path(), session_of(1))
    s.delete(znodes.topic_path("t1"), session_of(1))
    s.topic(1, 2, ident="a" if bad else "b")
    s.state(2, [1, 2], 0)


@breaks(partitions.ONE)
def leaderless_state_may_repeat_its_epoch(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1 if bad else -1, [1, 2], 0)
    s.delete(state_path(), session_of(1))
    s.state(2, [1, 2], 0)


@breaks(partitions.ONE)
def partitions_have_separate_leader_epochs(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic_of({0: held(1, 2), 1: held(2, 1)})
    s.state(1, [1, 2], 0)
    s.state(2, [2, 1], 0, at=1)
    s.delete(state_path(1), session_of(1))
    s.state(1, [2, 1], 0 if bad else 1, at=1)


# -- versions ------------------------------------------------------------------------------------------


@breaks(partitions.VERSIONS)
def leader_epoch_is_left_out(s: Scenario, bad: bool) -> None:
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
def isr_written_by_a_follower(s: Scenario, bad: bool) -> None:
    s.elected()
    s.registers(2)
    s.registers(3)
    s.topic(2, 3)
    s.state(2, [2, 3], 0)
    s.state(2, [2], 0, session=session_of(3 if bad else 2))


@breaks(partitions.VERSIONS)
def isr_written_by_an_unknown_session(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1, 2], 0)
    s.state(1, [1], 0, session=ADMIN if bad else 0)


@breaks(partitions.VERSIONS)
def controller_may_write_an_isr(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(2, 3)
    s.state(2, [2, 3], 0)
    if bad:
        s.elected(2, 2)
    s.state(2, [2], 0, session=session_of(1))


@breaks(partitions.VERSIONS)
def state_written_without_a_version(s: Scenario, bad: bool) -> None:
    s.elected()
    s.invoke(session_of(1), Request("set", state_path(), b"", version=-1 if bad else 0))


@breaks(partitions.VERSIONS)
def topic_written_without_a_version_in_a_multi(s: Scenario, bad: bool) -> None:
    s.elected()
    check = Request("check", znodes.CONTROLLER_EPOCH, version=1)
    parts = check, Request("set", znodes.topic_path("t1"), b"", version=-1 if bad else 1)
    s.invoke(session_of(1), Request("multi", parts=parts))


@breaks(partitions.VERSIONS)
def epoch_written_without_a_version(s: Scenario, bad: bool) -> None:
    s.elected()
    s.invoke(session_of(1), Request("set", znodes.CONTROLLER_EPOCH if bad else "/elsewhere", b""))
    s.invoke(session_of(1), Request("delete", znodes.CONTROLLER_EPOCH))


# -- assignments ---------------------------------------------------------------------------------------


@breaks(partitions.LEGAL)
def topic_changes_its_id(s: Scenario, bad: bool) -> None:
    s.topic(1, 2)
    s.topic(2, 1, ident="b" if bad else "a")


@breaks(partitions.LEGAL)
def two_topics_have_one_id(s: Scenario, bad: bool) -> None:
    s.topic(1, 2)
    s.topic(1, 2, name="t2", ident="a" if bad else "b")


@breaks(partitions.LEGAL)
def topic_comes_again_with_the_id_of_the_one_before(s: Scenario, bad: bool) -> None:
    s.topic(1, 2)
    s.delete(znodes.topic_path("t1"), ADMIN)
    s.topic(1, 2, ident="a" if bad else "b")


@breaks(partitions.LEGAL)
def partition_is_lost(s: Scenario, bad: bool) -> None:
    s.topic_of({0: held(1), 1: held(2)})
    s.topic_of({0: held(1)} if bad else {0: held(1), 1: held(2), 2: held(1)})


@breaks(partitions.LEGAL)
def partitions_added_during_a_deletion_may_be_removed(s: Scenario, bad: bool) -> None:
    s.topic_of({0: held(1), 1: held(2)})
    s.write(znodes.DELETE_TOPICS + ("/t2" if bad else "/t1"), b"", ADMIN)
    s.topic_of({0: held(1)})


@breaks(partitions.LEGAL)
def topic_deletion_is_cancelled(s: Scenario, bad: bool) -> None:
    s.topic_of({0: held(1), 1: held(2)})
    s.write(znodes.DELETE_TOPICS + "/t1", b"", ADMIN)
    if bad:
        s.delete(znodes.DELETE_TOPICS + "/t1", ADMIN)
    s.topic_of({0: held(1)})


@breaks(READABLE)
def replica_on_an_impossible_broker(s: Scenario, bad: bool) -> None:
    s.topic(1, -1 if bad else 0)


@breaks(partitions.LEGAL)
def reassignment_to_no_replicas(s: Scenario, bad: bool) -> None:
    s.topic_of({0: held(1, 2, removing=[1, 2] if bad else [2])})


@breaks(partitions.LEGAL)
def reassignment_from_no_replicas(s: Scenario, bad: bool) -> None:
    s.topic_of({0: held(1, 2, adding=[1, 2] if bad else [2])})


@breaks(partitions.LEGAL)
def reassignment_loses_the_original_order(s: Scenario, bad: bool) -> None:
    s.topic(1, 2, 3)
    s.topic_of({0: held(4, 2, 1, 3, adding=[4], removing=[1, 3], before=[2, 1, 3] if bad else [1, 2, 3])})


@breaks(partitions.LEGAL)
def second_reassignment_keeps_the_original_replicas(s: Scenario, bad: bool) -> None:
    s.topic_of({0: held(1, 2), 1: held(1)})
    s.topic_of({0: held(3, 2, 1, adding=[3], removing=[1], before=[1, 2]), 1: held(1)})
    s.topic_of({0: held(4, 2, 1, adding=[4], removing=[1], before=[2, 1] if bad else [1, 2]), 1: held(1)})


@breaks(partitions.LEGAL)
def new_partitions_have_no_original_replicas(s: Scenario, bad: bool) -> None:
    s.topic_of({0: held(1, 2)})
    s.topic_of({0: held(2, 1), 1: held(3, 2, 1, adding=[3], removing=[1], before=[1, 2])})
    s.topic_of({0: held(1, 2, 3, adding=[3], before=[1, 2] if bad else [2, 1]), 1: held(2, 1)})


# -- reassignments -------------------------------------------------------------------------------------


@breaks(partitions.ARRIVED)
def reassignment_ends_before_all_are_in_sync(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1, 2], 0)
    s.topic_of({0: held(1, 3, 2, adding=[3], removing=[2])})
    s.state(1, [1, 2] if bad else [1, 2, 3], 1)
    s.topic(1, 3)


@breaks(partitions.ARRIVED)
def replica_leaves_the_isr_before_the_decision(s: Scenario, bad: bool) -> None:
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
def cancelled_reassignment_needs_no_sync(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1, 2], 0)
    s.topic_of({0: held(1, 3, 2, adding=[3], removing=[2])})
    s.topic(1, 3 if bad else 2)


@breaks(partitions.ARRIVED)
def isr_before_the_reassignment_does_not_count(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(2, 1)
    s.state(2, [2, 1], 0)
    if bad:
        s.state(2, [2, 1], 1)
    s.topic_of({0: held(2, 1, removing=[2])})
    s.state(2, [2] if bad else [2, 1], 2 if bad else 1)
    s.topic(1)


@breaks(partitions.ARRIVED)
def reassignment_of_a_partition_without_state(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic_of({0: held(1, 2, removing=[2]), 1: held(1)})
    s.state(1, [1, 2], 0)
    if bad:
        s.delete(state_path(), session_of(1))
    s.topic_of({0: held(1), 1: held(1), 2: held(1)})
