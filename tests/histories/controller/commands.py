"""Commands that brokers apply."""

from __future__ import annotations

from harness.checkers.controller import controllers
from tests.histories.controller.scenario import Scenario, breaks


@breaks(controllers.LIVES)
def command_for_a_former_process(s: Scenario, bad: bool) -> None:
    s.elected()
    before = s.registers(2)
    now = s.registers(2, life=2, session=210)
    s.applies_command(2, life=2, meant=before if bad else now)


@breaks(controllers.LIVES)
def command_for_a_later_registration_is_applied(s: Scenario, bad: bool) -> None:
    """The command names a registration that this process has not received yet; it is its own."""
    s.elected()
    before = s.registers(2)
    now = s.registers(2, life=2, session=210)
    s.applies_command(2, life=2 if bad else 1, meant=before if bad else now)


@breaks(controllers.LIVES)
def command_for_another_broker_is_not_compared(s: Scenario, bad: bool) -> None:
    s.elected()
    other, before = s.registers(3), s.registers(2)
    s.registers(2, life=2, session=210)
    s.applies_command(2, life=2, meant=before if bad else other)


@breaks(controllers.NEWEST)
def command_of_an_older_controller_after_a_newer_one(s: Scenario, bad: bool) -> None:
    s.elected()
    s.elected(2, 2)
    s.applies_command(3, 2, 2)
    s.applies_command(3, *((1, 1) if bad else (2, 2)))


@breaks(controllers.NEWEST)
def newest_controller_epoch_is_remembered(s: Scenario, bad: bool) -> None:
    s.elected()
    s.elected(2, 2)
    s.elected(1, 3)
    s.applies_command(3, 1, 3)
    s.applies_command(3, *((1, 1) if bad else (1, 3)))
    s.applies_command(3, *((2, 2) if bad else (1, 3)))


@breaks(controllers.NEWEST)
def new_process_has_no_controller(s: Scenario, bad: bool) -> None:
    s.elected()
    s.elected(2, 2)
    s.applies_command(3, 2, 2)
    s.applies_command(4, 1, 1)
    s.applies_command(3, 1, 1, life=1 if bad else 2)
