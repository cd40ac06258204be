"""Brokers that lose records outside the ISR, and join it by fetches of the former process."""

from __future__ import annotations

from harness.checkers.partitions import replicas
from tests.histories.partitions.scenario import ALL, ELSEWHERE, HERE, ONE, THREE, TWO, Scenario, breaks

FORMER, LATTER = 7, 9
"""The broker epochs of the former process and of the next one."""
CONTROLLER = 4
"""The controller epoch."""


def loses_power_outside_the_isr(s: Scenario, *, known_to: int = CONTROLLER, known_as: int = FORMER) -> None:
    """Let broker 3, which has all records and is outside the ISR, lose one in a power failure and register again."""
    s.begin("a1 b1", 2, (ONE, TWO))
    s.has(THREE, "a1 b1")
    s.controller_elected(CONTROLLER)
    s.registers(THREE, FORMER)
    s.commands(THREE, known_to, known_as)
    s.restarts(THREE, "a1", how="power")
    s.registers(THREE, LATTER)
    s.follows(THREE, ONE, 1)


def joins_isr(s: Scenario) -> None:
    s.state(ONE, ALL, 1)
    s.check(ONE)


@breaks(replicas.IN_SYNC)
def loss_is_excused_until_the_controller_handled_the_failure(s: Scenario, bad: bool) -> None:
    loses_power_outside_the_isr(s)
    if bad:
        s.commands(THREE, CONTROLLER, LATTER)
    joins_isr(s)


@breaks(replicas.IN_SYNC)
def new_controller_may_not_have_handled_the_failure(s: Scenario, bad: bool) -> None:
    loses_power_outside_the_isr(s, known_to=CONTROLLER if bad else CONTROLLER - 1)
    s.commands(THREE, CONTROLLER, LATTER)
    joins_isr(s)


@breaks(replicas.IN_SYNC)
def controller_may_know_an_earlier_registration_only(s: Scenario, bad: bool) -> None:
    loses_power_outside_the_isr(s, known_as=FORMER if bad else FORMER - 1)
    s.commands(THREE, CONTROLLER, LATTER)
    joins_isr(s)


@breaks(replicas.IN_SYNC)
def deposed_controller_may_not_have_handled_the_failure(s: Scenario, bad: bool) -> None:
    loses_power_outside_the_isr(s)
    if not bad:
        s.controller_elected(CONTROLLER + 1)
    s.commands(THREE, CONTROLLER, LATTER)
    joins_isr(s)


@breaks(replicas.IN_SYNC)
def command_for_another_partition_proves_nothing(s: Scenario, bad: bool) -> None:
    loses_power_outside_the_isr(s)
    s.commands(THREE, CONTROLLER, LATTER, HERE if bad else ELSEWHERE)
    joins_isr(s)


@breaks(replicas.IN_SYNC)
def metadata_update_proves_nothing(s: Scenario, bad: bool) -> None:
    loses_power_outside_the_isr(s)
    if bad:
        s.commands(THREE, CONTROLLER, LATTER)
    else:
        s.receives_metadata(THREE, CONTROLLER, LATTER)
    joins_isr(s)


@breaks(replicas.IN_SYNC)
def second_failure_is_excused_again(s: Scenario, bad: bool) -> None:
    loses_power_outside_the_isr(s)
    s.commands(THREE, CONTROLLER, LATTER)
    s.restarts(THREE, "a1", how="power")
    s.registers(THREE, LATTER + 2)
    if bad:
        s.commands(THREE, CONTROLLER, LATTER + 2)
    joins_isr(s)


@breaks(replicas.IN_SYNC)
def failure_of_an_uncommanded_process_is_excused(s: Scenario, bad: bool) -> None:
    loses_power_outside_the_isr(s)
    if bad:
        s.commands(THREE, CONTROLLER, LATTER)
    s.restarts(THREE, "a1", how="power")
    s.registers(THREE, LATTER + 2)
    s.commands(THREE, CONTROLLER, LATTER + 2)
    joins_isr(s)


@breaks(replicas.IN_SYNC)
def restart_of_another_broker_changes_nothing(s: Scenario, bad: bool) -> None:
    loses_power_outside_the_isr(s)
    if bad:
        s.commands(THREE, CONTROLLER, LATTER)
    s.restarts(TWO, "a1 b1")
    joins_isr(s)


@breaks(replicas.IN_SYNC)
def loss_of_an_isr_member_stays_excused(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.controller_elected(CONTROLLER)
    s.registers(THREE, FORMER)
    s.commands(THREE, CONTROLLER, FORMER)
    s.wiped(THREE)
    s.registers(THREE, LATTER)
    s.commands(THREE, CONTROLLER, LATTER)
    s.follows(THREE, ONE, 1)
    if bad:
        s.has(THREE, "a1")
    s.has(TWO, "a1 b1")
    s.has(ONE, "a1 b1", hw=2)
