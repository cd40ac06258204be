"""Campaigns that mix machines, worlds and profiles, and give their time to what has yielded something."""

from __future__ import annotations

import shlex

import pytest

from harness.cli import main
from harness.faults import MACHINES
from harness.probes import PREFIX
from harness.profiles import of_machine
from harness.run.mix import BASE, MIXED_WORLDS, ROUND, Mix, machines_and_worlds, mix_of, table
from harness.run.plan import Plan
from harness.run.runner import campaign
from harness.run.tally import Tally

SMALL = Plan(30, 500, ops=10, faults=2, length_ms=400)


def result(events: int, *probes: str) -> Tally:
    return Tally(runs=1, events=events, counts={PREFIX + name: 1 for name in probes})


def everything(runs: int) -> Mix:
    return mix_of(Plan(runs), MACHINES, MIXED_WORLDS, None)


def test_every_machine_world_and_profile_is_there() -> None:
    kinds = everything(1).kinds
    assert len(kinds) == len({(kind.plan.machine, kind.plan.world, kind.plan.profile) for kind in kinds})
    assert len(kinds) == sum(len(MIXED_WORLDS) * (1 + len(of_machine(machine))) for machine in MACHINES)
    assert sum(kind.base for kind in kinds) == pytest.approx(1)
    usual = [kind for kind in kinds if not kind.plan.profile]
    assert sum(kind.base for kind in usual) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("given", "machines", "worlds"),
    [
        ((None, None, None), MACHINES, MIXED_WORLDS),
        (("store", None, None), ("store",), MIXED_WORLDS),
        (("store", "processes", None), ("store",), ("processes",)),
        ((None, "stack", None), MACHINES, ("stack",)),
        ((None, "processes", None), ("list", "store", "partitions"), ("processes",)),
        ((None, None, "power-loss-after-truncation"), ("list",), MIXED_WORLDS),
        (("examples.bank:Bank", None, None), ("examples.bank:Bank",), ("stack",)),
    ],
)
def test_given_options_are_not_mixed(
    given: tuple[str | None, str | None, str | None], machines: tuple[str, ...], worlds: tuple[str, ...]
) -> None:
    assert machines_and_worlds(*given) == (machines, worlds)


def test_time_follows_yield_and_each_kind_keeps_its_minimum() -> None:
    runs = 6_000
    mix = mix_of(Plan(runs), ("list", "store"), MIXED_WORLDS, None)
    for number, choice in enumerate(mix.choices(runs)):
        fruitful = choice.plan.machine == "store" and choice.plan.world == "cores" and not choice.plan.profile
        mix.add(choice, result(3_000, *([f"probe {number}"] if fruitful else [])))
    mix.finish()
    spent = sum(kind.cost for kind in mix.kinds)
    for kind in mix.kinds:
        fruitful = kind.plan.machine == "store" and kind.plan.world == "cores" and not kind.plan.profile
        share = kind.cost / spent
        if fruitful:
            assert share > 2.5 * kind.base
            assert kind.probes == kind.total.runs
        elif kind.base * spent > 50 * kind.expected_cost:
            assert share > 0.7 * BASE * kind.base
    assert all(kind.total.runs for kind in mix.kinds if not kind.plan.profile), "slow worlds are not starved"


def test_slow_runs_get_fewer_runs_for_the_same_time() -> None:
    mix = mix_of(Plan(2_000), ("list",), MIXED_WORLDS, "")
    for choice in mix.choices(2_000):
        mix.add(choice, result(3_000))
    mix.finish()
    cores, stack = mix.kinds
    assert cores.total.runs > 3 * stack.total.runs
    assert cores.cost == pytest.approx(stack.cost, rel=0.05)


def test_choices_of_a_round_need_only_rounds_before_the_last() -> None:
    waiting, following = everything(2 * ROUND), everything(2 * ROUND)
    early = list(waiting.choices(2 * ROUND))
    late = []
    for number, choice in enumerate(following.choices(2 * ROUND)):
        late.append(choice)
        following.add(choice, result(9_000, f"probe {number}"))
    assert early == late


def test_only_the_first_run_that_reaches_a_probe_yields_it() -> None:
    mix = mix_of(Plan(4), ("list",), ("cores",), "")
    for choice in mix.choices(4):
        mix.add(choice, result(10, "one", "two"))
    mix.finish()
    assert mix.kinds[0].probes == 2


@pytest.mark.slow
def test_a_mixed_campaign_is_the_same_for_any_number_of_processes() -> None:
    def ran(jobs: int) -> tuple[object, ...]:
        mix = mix_of(SMALL, ("list", "partitions"), ("cores",), None)
        total = campaign(mix, jobs=jobs)
        return (
            total.runs,
            total.events,
            total.counts,
            [(kind.total.runs, kind.probes, kind.pairs) for kind in mix.kinds],
        )

    assert ran(1) == ran(3)


@pytest.mark.slow
def test_command_mixes_everything_that_is_not_given(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--ops", "10", "--faults", "2", "--length-ms", "400"]
    assert main(["fuzz", "--runs", "12", "--jobs", "1", "--no-shrink", *small]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = lines[lines.index(next(line for line in lines if line.startswith("machine "))) + 1 :]
    assert [tuple(row.split()[:2]) for row in rows[:8]] == [
        (each, world) for each in MACHINES for world in MIXED_WORLDS
    ]
    assert sum(int(row.split()[2]) for row in rows[:8]) == 12


def test_the_line_of_a_failure_repeats_it(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["fuzz", "--mutant", "barrier-without-proof", "--jobs", "1", "--stop-after", "1", "--no-shrink"]
    assert main(command) == 1
    (line,) = (line.strip() for line in capsys.readouterr().out.splitlines() if "zab-harness replay" in line)
    assert "--profile deposed-leader-serves" in line, (
        "the second kind of script; the first one does not show this bug at once"
    )
    assert main(shlex.split(line)[1:]) == 1


def test_table_names_what_found_most() -> None:
    mix = mix_of(Plan(3), ("list",), ("cores",), "")
    for number, choice in enumerate(mix.choices(3)):
        mix.add(choice, result(10, f"probe {number}"))
    mix.finish()
    _, row = table(mix)
    assert row.split()[:3] == ["list", "cores", "3"]
    assert row.endswith("usual (3 in 3)")


def test_a_favoured_profile_may_be_of_another_machine() -> None:
    mix = mix_of(Plan(64), ("store",), ("cores",), None, "healed in a change")
    first = [choice.plan.profile for choice in mix.choices(64)]
    assert first[:2] == ["", "healed in a change"]
    assert first.count("healed in a change") >= 20
