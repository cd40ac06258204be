"""Whom brokers obey."""

from __future__ import annotations

from harness.checkers.controller import controllers
from tests.histories.controller.scenario import Scenario, breaks


@breaks(controllers.LIVES)
def a_command_for_an_earlier_life(s: Scenario, bad: bool) -> None:
    s.elected()
    before = s.registers(2)
    now = s.registers(2, life=2, session=210)
    s.applies_command(2, life=2, meant=before if bad else now)


@breaks(controllers.LIVES)
def a_command_for_a_later_life_is_for_this_one_too(s: Scenario, bad: bool) -> None:
    """It was result_of of a registration of which this process has not heard yet; it is its own."""
    s.elected()
    before = s.registers(2)
    now = s.registers(2, life=2, session=210)
    s.applies_command(2, life=2 if bad else 1, meant=before if bad else now)


@breaks(controllers.LIVES)
def a_command_for_another_broker_says_nothing_of_lives(s: Scenario, bad: bool) -> None:
    s.elected()
    other, before = s.registers(3), s.registers(2)
    s.registers(2, life=2, session=210)
    s.applies_command(2, life=2, meant=before if bad else other)


@breaks(controllers.NEWEST)
def an_older_controller_is_obeyed_behind_a_newer_one(s: Scenario, bad: bool) -> None:
    s.elected()
    s.elected(2, 2)
    s.applies_command(3, 2, 2)
    s.applies_command(3, *((1, 1) if bad else (2, 2)))


@breaks(controllers.NEWEST)
def the_newest_is_remembered(s: Scenario, bad: bool) -> None:
    s.elected()
    s.elected(2, 2)
    s.elected(1, 3)
    s.applies_command(3, 1, 3)
    s.applies_command(3, *((1, 1) if bad else (1, 3)))
    s.applies_command(3, *((2, 2) if bad else (1, 3)))


@breaks(controllers.NEWEST)
def a_new_life_knows_of_no_controller(s: Scenario, bad: bool) -> None:
    s.elected()
    s.elected(2, 2)
    s.applies_command(3, 2, 2)
    s.applies_command(4, 1, 1)
    s.applies_command(3, 1, 1, life=1 if bad else 2)
