"""Acting controllers, and fenced writes."""

from __future__ import annotations

from harness.checkers.controller import controllers
from kraft_controller.wire import znodes
from tests.histories.controller.scenario import ADMIN, Scenario, breaks, held, session_of, state_path

# -- epochs --------------------------------------------------------------------------------------------


@breaks(controllers.ONE)
def epoch_is_left_out(s: Scenario, bad: bool) -> None:
    s.elected()
    s.epoch(3 if bad else 2, 2)


@breaks(controllers.ONE)
def first_epoch_is_not_one(s: Scenario, bad: bool) -> None:
    s.epoch(0, 1)
    s.epoch(2 if bad else 1, 1)


@breaks(controllers.ONE)
def epoch_is_made_twice(s: Scenario, bad: bool) -> None:
    s.elected()
    s.epoch(1 if bad else 2, 2)
    s.acts(2, 1 if bad else 2)


@breaks(controllers.ONE)
def broker_acts_in_an_epoch_of_another_one(s: Scenario, bad: bool) -> None:
    s.elected()
    s.epoch(2, 2)
    s.acts(3 if bad else 2, 2)


@breaks(controllers.ONE)
def broker_acts_in_an_unwritten_epoch(s: Scenario, bad: bool) -> None:
    s.elected()
    s.acts(1, 2 if bad else 1)


@breaks(controllers.ONE)
def command_in_the_name_of_another_controller(s: Scenario, bad: bool) -> None:
    s.elected()
    s.applies_command(2, 3 if bad else 1, 1)


@breaks(controllers.ONE)
def command_in_an_epoch_without_a_controller(s: Scenario, bad: bool) -> None:
    s.elected()
    s.applies_command(2, 1, 2 if bad else 1)


@breaks(controllers.ONE)
def epoch_node_is_created_again(s: Scenario, bad: bool) -> None:
    s.elected()
    s.delete(znodes.CONTROLLER_EPOCH, ADMIN)
    s.epoch(0, 2)
    s.epoch(1 if bad else 2, 2)


# -- fencing -------------------------------------------------------------------------------------------


@breaks(controllers.FENCED)
def deposed_controller_makes_a_state(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.elected(2, 2)
    s.state(1, [1, 2], 0, by=2, session=session_of(1 if bad else 2))


@breaks(controllers.FENCED)
def deposed_controller_decides(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1, 2], 0)
    s.elected(2, 2)
    s.state(2, [1, 2], 1, by=2, session=session_of(1 if bad else 2))


@breaks(controllers.FENCED)
def deposed_controller_deletes_a_state(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1, 2], 0)
    if bad:
        s.elected(2, 2)
        s.registers(1)
    s.delete(state_path(), session_of(1))


@breaks(controllers.FENCED)
def decision_of_an_earlier_epoch(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.state(1, [1, 2], 0)
    s.state(1, [1], 1, by=0 if bad else 1)


@breaks(controllers.FENCED)
def leader_writes_its_isr_under_any_controller(s: Scenario, bad: bool) -> None:
    """An ISR change is no decision about the leader."""
    s.elected()
    s.registers(2)
    s.topic(2, 1)
    s.state(2, [2, 1], 0)
    s.elected(1, 2)
    s.state(2, [2], 1 if bad else 0, session=session_of(2))


@breaks(controllers.FENCED)
def deposed_controller_writes_a_topic(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.elected(2, 2)
    s.topic(2, 1, session=session_of(1 if bad else 2))


@breaks(controllers.FENCED)
def deposed_controller_deletes_a_topic(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic(1, 2)
    s.elected(2, 2)
    s.delete(znodes.topic_path("t1"), session_of(1) if bad else ADMIN)


@breaks(controllers.FENCED)
def deposed_controller_ends_a_deletion(s: Scenario, bad: bool) -> None:
    s.elected()
    s.write(znodes.DELETE_TOPICS + "/t1", b"", session_of(3))
    s.elected(2, 2)
    s.delete(znodes.DELETE_TOPICS + "/t1", session_of(1 if bad else 2))


@breaks(controllers.FENCED)
def deposed_controller_ends_an_election(s: Scenario, bad: bool) -> None:
    s.elected()
    s.write(znodes.PREFERRED, b"", ADMIN)
    s.elected(2, 2)
    s.delete(znodes.PREFERRED, session_of(1 if bad else 2))


@breaks(controllers.FENCED)
def deposed_controller_clears_a_notification(s: Scenario, bad: bool) -> None:
    s.elected()
    s.registers(3)
    s.write(znodes.ISR_CHANGES + "/isr_change_1", b"", session_of(3))
    s.elected(2, 2)
    s.delete(znodes.ISR_CHANGES + "/isr_change_1", session_of(1 if bad else 2))


@breaks(controllers.FENCED)
def deposed_controller_clears_an_event(s: Scenario, bad: bool) -> None:
    s.elected()
    s.registers(3)
    s.write(znodes.LOG_DIR_EVENTS + "/log_dir_event_1", b"", session_of(3))
    s.elected(2, 2)
    s.delete(znodes.LOG_DIR_EVENTS + "/log_dir_event_1", session_of(1 if bad else 2))


@breaks(controllers.FENCED)
def deposed_controller_continues_a_reassignment(s: Scenario, bad: bool) -> None:
    s.elected()
    s.registers(3)
    s.write(znodes.REASSIGN, b"", ADMIN)
    s.elected(2, 2)
    s.write(znodes.REASSIGN, b"", session_of(1 if bad else 2))


@breaks(controllers.FENCED)
def deposed_controller_ends_a_reassignment(s: Scenario, bad: bool) -> None:
    s.elected()
    s.write(znodes.REASSIGN, b"", ADMIN)
    s.elected(2, 2)
    s.delete(znodes.REASSIGN, session_of(1 if bad else 2))


@breaks(controllers.FENCED)
def writes_of_brokers_need_no_controller(s: Scenario, bad: bool) -> None:
    s.elected()
    s.topic_of({0: held(1, 2)})
    s.elected(2, 2)
    s.registers(1)
    s.ends(session_of(1), f"{znodes.BROKERS}/1")
    s.write(znodes.DELETE_TOPICS + "/t1", b"", session_of(1))
    if bad:
        s.ends(session_of(1), znodes.topic_path("t1"))
