"""Whom brokers obey."""

from __future__ import annotations

from harness.checkers.controller import controllers
from tests.histories.controller.story import Tale, breaks


@breaks(controllers.LIVES)
def a_command_for_an_earlier_life(tale: Tale, bad: bool) -> None:
    tale.rules()
    before = tale.joins(2)
    now = tale.joins(2, life=2, session=210)
    tale.obeys(2, life=2, meant=before if bad else now)


@breaks(controllers.LIVES)
def a_command_for_a_later_life_is_for_this_one_too(tale: Tale, bad: bool) -> None:
    """It was said of a registration of which this process has not heard yet; it is its own."""
    tale.rules()
    before = tale.joins(2)
    now = tale.joins(2, life=2, session=210)
    tale.obeys(2, life=2 if bad else 1, meant=before if bad else now)


@breaks(controllers.LIVES)
def a_command_for_another_broker_says_nothing_of_lives(tale: Tale, bad: bool) -> None:
    tale.rules()
    other, before = tale.joins(3), tale.joins(2)
    tale.joins(2, life=2, session=210)
    tale.obeys(2, life=2, meant=before if bad else other)


@breaks(controllers.NEWEST)
def an_older_controller_is_obeyed_behind_a_newer_one(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.rules(2, 2)
    tale.obeys(3, 2, 2)
    tale.obeys(3, *((1, 1) if bad else (2, 2)))


@breaks(controllers.NEWEST)
def the_newest_is_remembered(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.rules(2, 2)
    tale.rules(1, 3)
    tale.obeys(3, 1, 3)
    tale.obeys(3, *((1, 1) if bad else (1, 3)))
    tale.obeys(3, *((2, 2) if bad else (1, 3)))


@breaks(controllers.NEWEST)
def a_new_life_knows_of_no_controller(tale: Tale, bad: bool) -> None:
    tale.rules()
    tale.rules(2, 2)
    tale.obeys(3, 2, 2)
    tale.obeys(4, 1, 1)
    tale.obeys(3, 1, 1, life=1 if bad else 2)
