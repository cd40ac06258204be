"""Profiles: their scripts make sense, healthy servers hold under them, and the bugs that they are for are noticed."""

from __future__ import annotations

import pytest

from harness.mutants.edit import planted
from harness.mutants.table import BY_NAME as MUTANTS
from harness.mutants.table import PROFILES as PROFILE_OF
from harness.profiles import BY_NAME, PROFILES, Profile
from harness.scripts import check, dumps, loads
from harness.watchdog import watchdog
from harness.worlds import world
from harness.worlds.cores.world import run


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_healthy_servers_hold(profile: Profile) -> None:
    for seed in range(3):
        script = profile.script(seed, voters=3 + 2 * (seed % 2))
        check(script)
        assert loads(dumps(script)) == script
        outcome = run(script)
        assert (outcome.promise, outcome.what) == (None, "")


@pytest.mark.parametrize("name", PROFILE_OF)
def test_a_bug_is_noticed_where_its_profile_leads(name: str) -> None:
    mutant, profile = MUTANTS[name], BY_NAME[PROFILE_OF[name]]
    with planted(mutant.edits), watchdog(60):
        assert any(
            world(mutant.world)
            .run(profile.script(seed, voters=mutant.voters[seed % len(mutant.voters)], machine=mutant.machine))
            .promise
            for seed in range(60)
        )


def test_every_profile_is_for_a_bug() -> None:
    assert set(PROFILE_OF.values()) == set(BY_NAME)
