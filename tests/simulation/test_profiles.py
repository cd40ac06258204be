"""Profiles: their scripts make sense, healthy servers hold under them, and the bugs that they are for are noticed."""

from __future__ import annotations

import shlex
from typing import Final

import pytest

from harness.cli import main
from harness.draw import script_from_seed
from harness.faults import MACHINES
from harness.mutants.edit import planted
from harness.mutants.table import BY_NAME as MUTANTS
from harness.mutants.table import PROFILES as PROFILE_OF
from harness.profiles import ALL, BY_NAME, Profile, drawn, of_machine, profile_of
from harness.scripts import check, dumps, loads
from harness.watchdog import watchdog
from harness.worlds import world
from harness.worlds.cores.world import run

IN_CORES: Final = {name: profile for name, profile in BY_NAME.items() if "zookeeper_servers" not in profile.knobs}
"""All profiles but those with servers of ZooKeeper: see `tests/integration/test_world_of_mixed_ensembles.py`."""


@pytest.mark.parametrize(("number", "profile"), list(enumerate(IN_CORES.values())), ids=list(IN_CORES))
def test_healthy_servers_hold(number: int, profile: Profile) -> None:
    """Every second profile has five servers. Both scripts of each are checked, and one is run."""
    scripts = [profile.script(0, voters=3), profile.script(1, voters=5)]
    for script in scripts:
        check(script)
        assert loads(dumps(script)) == script
    outcome = run(world("cores").playable(scripts[number % 2]).script)
    assert (outcome.invariant, outcome.what) == (None, "")


SEEDS = range(60)
FIRST_SEEDS = {
    "anothers-election-taken": 8,
    "arrival-of-yesterday": 7,
    "asked-again-at-once": 47,
    "barrier-by-old-pong": 2,
    "beginnings-not-compared": 21,
    "cancelled-for-anybody": 1,
    "cancelled-with-the-last": 1,
    "carried-out-of-a-dead-link": 2,
    "check-without-leave": 7,
    "cleaned-beyond-the-watermark": 1,
    "cut-records-remembered": 58,
    "diverging-counts": 2,
    "ended-by-the-last-leader": 9,
    "ends-alone-compared": 2,
    "epoch-begins-again": 17,
    "epoch-saved-before-the-log": 16,
    "events-before-their-snapshot": 67,
    "events-lost-in-a-snapshot": 50,
    "fence-in-front-of-the-promised": 498,
    "flush-told-and-not-done": 1,
    "flushed-though-cut": 20,
    "followers-stop-reaping": 1,
    "for-ever-in-a-snapshot": 128,
    "former-life-let-in": 7,
    "former-members-commit": 1,
    "gone-before-it-was-used": 1,
    "KAFKA-7128": 424,
    "KIP-320": 5,
    "left-and-still-there": 1,
    "link-outlives-a-life": 1,
    "loaded-before-it-is-committed": 21,
    "move-of-order-never-ends": 8,
    "news-narrow-the-isr": 3,
    "old-end-takes-the-new": 6,
    "older-generation-dealt": 7,
    "one-beyond-the-limit": 4,
    "open-before-newleader": 7,
    "order-not-remembered": 3,
    "reign-at-any-version": 3,
    "replaced-by-an-older-state": 150,
    "replaced-change-stays-pending": 103,
    "restarted-unseen": 1,
    "soft-limits-refuse": 2,
    "syncs-end-with-their-leader": 9,
    "told-in-a-later-reign": 1,
    "trunc-before-diff": 5,
    "uncommitted-shown": 2,
    "what-ends-is-counted-on": 1,
}
"""The first seed that shows a bug, if not 0. The test tries it first. If it shows nothing after a change of the
product, the test tries the others, and only takes longer."""


@pytest.mark.parametrize("name", PROFILE_OF)
def test_a_bug_is_noticed_where_its_profile_leads(name: str) -> None:
    mutant, profile = MUTANTS[name], BY_NAME[PROFILE_OF[name]]
    first = FIRST_SEEDS.get(name, 0)
    with planted(mutant.edits), watchdog(60):
        assert any(
            world(mutant.world)
            .run(profile.script(seed, voters=mutant.voters[seed % len(mutant.voters)], machine=mutant.machine))
            .invariant
            for seed in (first, *(seed for seed in SEEDS if seed != first))
        )


def test_every_profile_is_for_a_bug() -> None:
    assert set(PROFILE_OF.values()) == set(IN_CORES)


def test_half_of_the_seeds_go_through_all_profiles_of_a_machine_and_the_others_are_as_usual() -> None:
    for machine in MACHINES:
        there = of_machine(machine)
        drawers = [profile_of(ALL, seed, machine) for seed in range(4 * len(there))]
        assert drawers.count(None) == 2 * len(there)
        for profile in there:
            assert [seed % 2 for seed, each in enumerate(drawers) if each is profile] == [0, 1], (
                "ensembles of either size"
            )
    assert drawn(ALL, 0, voters=3, machine="list", ops=9) == script_from_seed(0, voters=3, ops=9)
    assert drawn(ALL, 2, voters=5, machine="list", ops=9) == of_machine("list")[0].script(2, voters=5)
    assert drawn("", 2, voters=5, machine="list", ops=9) == script_from_seed(2, voters=5, ops=9)


def test_failure_of_profile_can_be_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    fuzz = ["fuzz", "--profile", "power-loss-after-truncation", "--runs", "4", "--jobs", "1", "--no-shrink"]
    assert main([*fuzz, "--mutant", "truncation-not-synced", "--stop-after", "1"]) == 1
    (line,) = (line.strip() for line in capsys.readouterr().out.splitlines() if "zab-harness replay" in line)
    assert "--profile power-loss-after-truncation" in line
    assert main(shlex.split(line)[1:]) == 1
    assert "a restart finds what was durable" in capsys.readouterr().out
    assert main([*fuzz, "--machine", "store"]) == 2
    said = capsys.readouterr().err
    assert "the profile 'power-loss-after-truncation' is for --machine list, not for store" in said
