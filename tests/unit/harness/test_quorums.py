"""Quorums of groups: in scripts, as the harness counts them, and when members change."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
from attrs import evolve

from harness.faults import Isolate, Pause, Reconfigure, Script, Write
from harness.members import member, with_server, without_server
from harness.oracle import Service, timeline
from harness.profiles.consensus import groups_of_voters
from harness.quorums import in_words, is_quorum, meets_every_quorum
from harness.script.checks import ScriptError
from harness.script.reading import script as read
from harness.script.values import Draw
from harness.scripts import describe, dumps, loads
from harness.worlds import world
from harness.worlds.common import founders_of
from zab.core.ensemble import Role
from zab.core.zxid import ServerId

GROUPED = Script(1, voters=5, groups=((1, 2, 3), (4, 5)), weights=(1, 0, 2, 1, 1), length_ms=1_000)


def test_groups_are_written_and_read_again() -> None:
    assert read(describe(GROUPED)) == loads(dumps(GROUPED)) == GROUPED
    assert "groups" not in dumps(Script(1)), "who knows no groups can read it"


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("voters 3\ngroups 1 2", "server 3 votes but is in no group"),
        ("voters 3\ngroups 1 2 | 2 3", "server 2 is in more than one group"),
        ("voters 3\ngroups 1 2 | 3\nweights 1 2", "expected one for each voter, 3, not 2"),
        ("voters 3\nweights 1 2 1", "there are weights but no groups"),
        ("voters 3\ngroups 1 2 3\nweights 0 0 0", "every group has weight 0"),
    ],
)
def test_groups_that_make_no_sense_are_refused(text: str, trouble: str) -> None:
    with pytest.raises(ScriptError, match=trouble):
        read(text)


def test_members_of_groups_do_not_change_in_processes() -> None:
    changes = evolve(GROUPED, ops=(Write(0), Reconfigure(1, "remove", 1)))
    played = world("processes").playable(changes)
    assert played.skipped == ("Reconfigure",)
    assert played.script.ops == (Write(0),)
    assert world("stack").playable(changes).skipped == ()


def test_the_harness_and_the_servers_count_alike() -> None:
    for seed in range(40):
        voters = 3 + seed % 4
        draw = Draw(Random(seed), voters, 0)
        ensemble = founders_of(Script(1, voters=voters, **(groups_of_voters(draw) if seed % 5 else {})))
        for size in range(voters + 1):
            for some in combinations(ensemble.voters, size):
                assert is_quorum(ensemble, some) == ensemble.is_quorum(some), (in_words(ensemble), some)
                assert meets_every_quorum(ensemble, some) == ensemble.meets_every_quorum(some)


def test_a_voter_that_goes_leaves_its_group_and_one_that_comes_is_in_the_smallest() -> None:
    founders = founders_of(GROUPED)
    without = without_server(founders, ServerId(5))
    assert without is not None
    assert in_words(without) == "the groups 1 2x0 3x2 | 4"
    again = with_server(without, member(ServerId(6)))
    assert again is not None
    assert in_words(again) == "the groups 1 2x0 3x2 | 4 6"
    watching = with_server(again, member(ServerId(7), Role.OBSERVER))
    assert watching is not None
    assert in_words(watching) == in_words(again)


def test_last_voter_with_weight_cannot_be_removed() -> None:
    founders = founders_of(Script(1, voters=2, groups=((1,), (2,)), weights=(1, 0)))
    assert without_server(founders, ServerId(1)) is None


def test_when_groups_must_serve() -> None:
    """Servers 1 and 3 are of more than half of the first group's weight, and of no other; 4 and 5 are the other."""
    alone = [Isolate(0, 1_000, sid) for sid in (4, 5)]
    for faults, service in (
        ([Pause(0, 1_000, 2)], Service.MUST),
        ([Pause(0, 1_000, 4)], Service.UNKNOWN),
        ([Pause(0, 1_000, 0)], Service.UNKNOWN),
        (alone, Service.MUST_NOT),
    ):
        script = Script(
            1, voters=5, groups=GROUPED.groups, weights=GROUPED.weights, length_ms=1_000, faults=tuple(faults)
        )
        assert [segment.service for segment in timeline(script)] == [service]
