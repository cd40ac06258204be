"""Stories of brokers that die outside the ISR, lose what they had, and are let in by what was known of them."""

from __future__ import annotations

from harness.checkers.partitions import replicas
from tests.histories.partitions.story import ALL, ELSEWHERE, HERE, ONE, THREE, TWO, Tale, breaks

FORMER, LATTER = 7, 9
"""The registrations of two lives."""
CONTROLLER = 4
"""Its epoch."""


def dies(t: Tale, *, known_to: int = CONTROLLER, known_as: int = FORMER) -> None:
    """It is not in sync, has all that is committed, and loses some of it with its power; then it registers anew."""
    t.opens("a1 b1", 2, (ONE, TWO))
    t.has(THREE, "a1 b1")
    t.elects(CONTROLLER)
    t.registers(THREE, FORMER)
    t.commands(THREE, known_to, known_as)
    t.returns(THREE, "a1", how="power")
    t.registers(THREE, LATTER)
    t.follows(THREE, ONE, 1)


def comes_in(t: Tale) -> None:
    t.state(ONE, ALL, 1)
    t.looks(ONE)


@breaks(replicas.IN_SYNC)
def who_died_may_come_in_until_the_controller_has_dealt_with_it(t: Tale, bad: bool) -> None:
    dies(t)
    if bad:
        t.commands(THREE, CONTROLLER, LATTER)
    comes_in(t)


@breaks(replicas.IN_SYNC)
def a_controller_that_has_not_known_the_life_before_knows_of_no_death(t: Tale, bad: bool) -> None:
    dies(t, known_to=CONTROLLER if bad else CONTROLLER - 1)
    t.commands(THREE, CONTROLLER, LATTER)
    comes_in(t)


@breaks(replicas.IN_SYNC)
def nor_does_one_that_knows_it_by_an_earlier_registration(t: Tale, bad: bool) -> None:
    dies(t, known_as=FORMER if bad else FORMER - 1)
    t.commands(THREE, CONTROLLER, LATTER)
    comes_in(t)


@breaks(replicas.IN_SYNC)
def a_deposed_controller_may_have_written_nothing(t: Tale, bad: bool) -> None:
    dies(t)
    if not bad:
        t.elects(CONTROLLER + 1)
    t.commands(THREE, CONTROLLER, LATTER)
    comes_in(t)


@breaks(replicas.IN_SYNC)
def who_is_told_of_another_partition_may_come_in(t: Tale, bad: bool) -> None:
    dies(t)
    t.commands(THREE, CONTROLLER, LATTER, HERE if bad else ELSEWHERE)
    comes_in(t)


@breaks(replicas.IN_SYNC)
def who_is_told_only_who_is_there_may_come_in(t: Tale, bad: bool) -> None:
    dies(t)
    if bad:
        t.commands(THREE, CONTROLLER, LATTER)
    else:
        t.hears_who_is_there(THREE, CONTROLLER, LATTER)
    comes_in(t)


@breaks(replicas.IN_SYNC)
def who_is_known_anew_has_died_once_more(t: Tale, bad: bool) -> None:
    dies(t)
    t.commands(THREE, CONTROLLER, LATTER)
    t.returns(THREE, "a1", how="power")
    t.registers(THREE, LATTER + 2)
    if bad:
        t.commands(THREE, CONTROLLER, LATTER + 2)
    comes_in(t)


@breaks(replicas.IN_SYNC)
def whose_life_was_known_to_nobody_may_come_in(t: Tale, bad: bool) -> None:
    dies(t)
    if bad:
        t.commands(THREE, CONTROLLER, LATTER)
    t.returns(THREE, "a1", how="power")
    t.registers(THREE, LATTER + 2)
    t.commands(THREE, CONTROLLER, LATTER + 2)
    comes_in(t)


@breaks(replicas.IN_SYNC)
def that_another_one_is_back_is_nothing_to_this_one(t: Tale, bad: bool) -> None:
    dies(t)
    if bad:
        t.commands(THREE, CONTROLLER, LATTER)
    t.returns(TWO, "a1 b1")
    comes_in(t)


@breaks(replicas.IN_SYNC)
def who_was_in_sync_when_he_died_stays_excused(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.elects(CONTROLLER)
    t.registers(THREE, FORMER)
    t.commands(THREE, CONTROLLER, FORMER)
    t.wiped(THREE)
    t.registers(THREE, LATTER)
    t.commands(THREE, CONTROLLER, LATTER)
    t.follows(THREE, ONE, 1)
    if bad:
        t.has(THREE, "a1")
    t.has(TWO, "a1 b1")
    t.has(ONE, "a1 b1", hw=2)
