"""Who may act as controller, and whose writes count."""

from __future__ import annotations

from harness.checkers.controller import controllers
from kraft_controller.wire import znodes
from tests.histories.controller.story import ADMIN, Tale, breaks, held, session_of, state_path

# -- epochs --------------------------------------------------------------------------------------------


@breaks(controllers.ONE)
def an_epoch_is_left_out(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.epoch(3 if bad else 2, 2)


@breaks(controllers.ONE)
def the_first_epoch_is_not_one(tale: Tale, bad: bool) -> None:
    tale.epoch(0, 1)
    tale.epoch(2 if bad else 1, 1)


@breaks(controllers.ONE)
def an_epoch_is_made_twice(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.epoch(1 if bad else 2, 2)
    tale.reigns(2, 1 if bad else 2)


@breaks(controllers.ONE)
def somebody_acts_in_an_epoch_that_another_one_made(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.epoch(2, 2)
    tale.reigns(3 if bad else 2, 2)


@breaks(controllers.ONE)
def somebody_acts_in_an_epoch_that_nobody_made(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.reigns(1, 2 if bad else 1)


@breaks(controllers.ONE)
def a_command_in_the_name_of_another_one(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.obeys(2, 3 if bad else 1, 1)


@breaks(controllers.ONE)
def a_command_in_an_epoch_of_nobody(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.obeys(2, 1, 2 if bad else 1)


@breaks(controllers.ONE)
def the_node_of_the_epoch_is_made_again(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.delete(znodes.CONTROLLER_EPOCH, ADMIN)
    tale.epoch(0, 2)
    tale.epoch(1 if bad else 2, 2)


# -- fencing -------------------------------------------------------------------------------------------


@breaks(controllers.FENCED)
def a_deposed_controller_makes_a_state(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(1, 2)
    tale.rules(2, 2)
    tale.state(1, [1, 2], 0, by=2, session=session_of(1 if bad else 2))


@breaks(controllers.FENCED)
def a_deposed_controller_decides(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(1, 2)
    tale.state(1, [1, 2], 0)
    tale.rules(2, 2)
    tale.state(2, [1, 2], 1, by=2, session=session_of(1 if bad else 2))


@breaks(controllers.FENCED)
def a_deposed_controller_takes_a_state_away(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(1, 2)
    tale.state(1, [1, 2], 0)
    if bad:
        tale.rules(2, 2)
        tale.joins(1)
    tale.delete(state_path(), session_of(1))


@breaks(controllers.FENCED)
def a_decision_of_an_earlier_epoch(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(1, 2)
    tale.state(1, [1, 2], 0)
    tale.state(1, [1], 1, by=0 if bad else 1)


@breaks(controllers.FENCED)
def a_leader_writes_its_isr_under_any_controller(tale: Tale, bad: bool) -> None:
    """And decides nothing thereby; who leads is not for it to say."""
    tale.rules()
    tale.joins(2)
    tale.topic(2, 1)
    tale.state(2, [2, 1], 0)
    tale.rules(1, 2)
    tale.state(2, [2], 1 if bad else 0, session=session_of(2))


@breaks(controllers.FENCED)
def a_deposed_controller_writes_a_topic(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(1, 2)
    tale.rules(2, 2)
    tale.topic(2, 1, session=session_of(1 if bad else 2))


@breaks(controllers.FENCED)
def a_deposed_controller_takes_a_topic_away(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic(1, 2)
    tale.rules(2, 2)
    tale.delete(znodes.topic_path("t1"), session_of(1) if bad else ADMIN)


@breaks(controllers.FENCED)
def a_deposed_controller_ends_a_deletion(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.write(znodes.DELETE_TOPICS + "/t1", b"", session_of(3))
    tale.rules(2, 2)
    tale.delete(znodes.DELETE_TOPICS + "/t1", session_of(1 if bad else 2))


@breaks(controllers.FENCED)
def a_deposed_controller_ends_an_election(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.write(znodes.PREFERRED, b"", ADMIN)
    tale.rules(2, 2)
    tale.delete(znodes.PREFERRED, session_of(1 if bad else 2))


@breaks(controllers.FENCED)
def a_deposed_controller_clears_a_notification(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.joins(3)
    tale.write(znodes.ISR_CHANGES + "/isr_change_1", b"", session_of(3))
    tale.rules(2, 2)
    tale.delete(znodes.ISR_CHANGES + "/isr_change_1", session_of(1 if bad else 2))


@breaks(controllers.FENCED)
def a_deposed_controller_clears_an_event(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.joins(3)
    tale.write(znodes.LOG_DIR_EVENTS + "/log_dir_event_1", b"", session_of(3))
    tale.rules(2, 2)
    tale.delete(znodes.LOG_DIR_EVENTS + "/log_dir_event_1", session_of(1 if bad else 2))


@breaks(controllers.FENCED)
def a_deposed_controller_goes_on_with_a_move(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.joins(3)
    tale.write(znodes.REASSIGN, b"", ADMIN)
    tale.rules(2, 2)
    tale.write(znodes.REASSIGN, b"", session_of(1 if bad else 2))


@breaks(controllers.FENCED)
def a_deposed_controller_ends_a_move(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.write(znodes.REASSIGN, b"", ADMIN)
    tale.rules(2, 2)
    tale.delete(znodes.REASSIGN, session_of(1 if bad else 2))


@breaks(controllers.FENCED)
def what_brokers_do_for_themselves_needs_no_controller(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.topic_of({0: held(1, 2)})
    tale.rules(2, 2)
    tale.joins(1)
    tale.ends(session_of(1), f"{znodes.BROKERS}/1")
    tale.write(znodes.DELETE_TOPICS + "/t1", b"", session_of(1))
    if bad:
        tale.ends(session_of(1), znodes.topic_path("t1"))
