"""Every fault of the network does what it says."""

from __future__ import annotations

import pytest

from harness.worlds.cores.inject_network import shape
from harness.worlds.cores.world import World
from tests.simulation.played import Played, leader, played
from zab.core.messages import FollowerInfo, LinkDown, LinkUp, Notification, Propose
from zab.core.zxid import ServerId

IDS = [ServerId(sid) for sid in (3, 4, 5, 6, 7, 1, 2)]
SILENT = (505, 695)
"""From when what was under way has arrived until the end of a fault from 500 to 700 ms."""


def silence(run: Played, servers: int = 3) -> set[tuple[int, int]]:
    """The directions in which nothing was received for as long, while others talked."""
    sids = range(1, servers + 1)
    quiet = {(one, other) for one in sids for other in sids if one != other and not run.heard(other, one, *SILENT)}
    before = {(one, other) for one, other in quiet if run.heard(other, one, 300, 500)}
    assert not quiet or before, "nobody talked before, either"
    return quiet


def test_a_partition_by_numbers() -> None:
    run = played("at 500 ms partition 1 2 | 3 for 200 ms\n")
    assert {(1, 3), (3, 1), (2, 3), (3, 2)} <= silence(run)
    assert run.heard(1, 2, *SILENT)


@pytest.mark.parametrize("servers", [1, 2, 3, 4, 5, 6, 7])
def test_shapes_fit_any_number_of_servers(servers: int) -> None:
    ids = IDS[:servers]
    majority = servers // 2 + 1

    def hears(name: str) -> list[set[ServerId]]:
        blocked = shape(name, ids)
        return [{one for one in ids if (one, other) not in blocked} for other in ids]

    halves = hears("halves")
    assert all(one == other or not one & other for one in halves for other in halves)
    assert servers == 1 or len(halves[0]) < majority, "the one that is named is with the fewer"
    bridge = hears("bridge")
    assert bridge[0] == set(ids)
    assert servers < 3 or bridge[1] & bridge[-1] == {ids[0]}
    ring = hears("ring")
    assert all(len(heard) == majority for heard in ring)
    assert servers < 3 or len(set(map(frozenset, ring))) == servers, "no two hear the same majority"


@pytest.mark.parametrize("name", ["halves", "bridge", "ring"])
def test_a_split(name: str) -> None:
    run = played(f"voters 5\nat 500 ms split {name} 2 for 200 ms\n")
    ids = [ServerId(sid) for sid in (2, 3, 4, 5, 1)]
    assert run.hit("Split") == 1
    assert not any(run.heard(target, source, *SILENT) for source, target in shape(name, ids))
    heard = [(one, other) for one in ids for other in ids if one != other and run.heard(other, one, *SILENT)]
    assert heard


def test_an_isolated_leader_is_replaced() -> None:
    run = played("at 500 ms isolate for 700 ms\n", {490: leader, 1_190: leader})
    old = run.seen[490]
    assert run.seen[1_190] not in (0, old)
    assert all(not run.heard(old, other, 505, 1_195) for other in (1, 2, 3))


def test_two_servers_apart() -> None:
    run = played("at 500 ms apart from leader to 1 for 200 ms\n", {490: leader})
    old = run.seen[490]
    assert {(old, 1), (1, old)} <= silence(run)
    assert run.heard(2, old, *SILENT)


def test_one_way() -> None:
    run = played("at 500 ms one way from leader to 1 for 200 ms\n", {490: leader})
    assert (run.seen[490], 1) in silence(run)


def test_a_deaf_server_still_speaks() -> None:
    run = played("at 500 ms deaf 1 for 200 ms\nat 510 ms crash leader\n", {490: leader})
    assert run.seen[490] != 1
    assert {(2, 1), (3, 1)} <= silence(run)
    assert run.heard(2, 1, *SILENT)


def test_a_clog_ends_in_a_burst() -> None:
    run = played("at 500 ms clog from leader to 1 for 200 ms\n", {490: leader})
    assert (run.seen[490], 1) in silence(run)
    burst = [word for word in run.heard(1, run.seen[490], 700, 705) if isinstance(word, Propose)]
    assert len(burst) > 5
    assert [word.batch.first for word in burst] == sorted(word.batch.first for word in burst)


def test_a_swizzle_clogs_half_of_them_and_frees_all() -> None:
    def clogged(world: World) -> int:
        lines = world.network.lines
        return sum(all(lines[sid][other].clogged for other in range(1, 6) if other != sid) for sid in range(1, 6))

    run = played("voters 5\nat 500 ms swizzle for 200 ms\n", {502: clogged, 599: clogged, 740: clogged})
    assert run.seen == {502: 1, 599: 2, 740: 0}


def test_a_queue_that_overflows_cuts_its_link_and_no_other() -> None:
    run = played("at 500 ms overflow from leader to 1 most 3 for 300 ms\n", {490: leader})
    old = run.seen[490]
    assert run.hit("Overflow") >= 1
    downs = [act for act in run.did("hears", None, 500, 900) if isinstance(act[4], LinkDown)]
    assert {(act[1], act[3]) for act in downs} <= {(1, old), (old, 1)}
    assert downs


def test_a_queue_that_is_large_enough_does_not_overflow() -> None:
    assert not played("at 500 ms overflow from leader to 1 most 400 for 300 ms\n").hit("Overflow")


def test_a_delay_in_one_direction() -> None:
    run = played("at 500 ms delay from leader to 1 more 100 ms for 200 ms\n", {490: leader})
    old = run.seen[490]
    assert not run.heard(1, old, 505, 600)
    assert run.heard(1, old, 600, 720)
    assert run.heard(2, old, 505, 600)


def test_lost_words_of_an_election_are_gone() -> None:
    run = played("at 500 ms loss from 1 to 2 percent 100 for 700 ms\nat 510 ms crash 3 down 600 ms\n")
    told = [act for act in run.did("tells", 1, 510, 1_100) if act[3] == 2]
    assert told
    assert not [word for word in run.heard(2, 1, 510, 1_100) if isinstance(word, Notification)]


def test_lost_words_on_a_stream_come_late_and_in_order() -> None:
    run = played("at 500 ms loss from leader to 1 percent 40 for 400 ms\n", {490: leader})
    words = [word for word in run.heard(1, run.seen[490], 500, 1_000) if isinstance(word, Propose)]
    assert len(words) > 10
    assert [word.batch.first for word in words] == sorted(word.batch.first for word in words)
    calm = played("", {490: leader})
    assert not [word for word in calm.heard(1, calm.seen[490], 500, 1_000) if isinstance(word, LinkDown)]
    assert [act[0] for act in run.did("hears", 1, 500, 1_000)] != [act[0] for act in calm.did("hears", 1, 500, 1_000)]


def test_a_flaky_network_loses_and_doubles_words_of_elections() -> None:
    crash = "at 510 ms crash leader down 600 ms\n"
    silent = played(f"at 500 ms flaky loss_percent 100 double_percent 0 slower 1 for 500 ms\n{crash}")
    assert silent.did("tells", None, 520, 990)
    assert not [act for act in silent.did("hears", None, 520, 990) if isinstance(act[4], Notification)]
    noisy = played(f"at 500 ms flaky loss_percent 0 double_percent 100 slower 1 for 500 ms\n{crash}")
    heard = [act for act in noisy.did("hears", None, 510, 990) if isinstance(act[4], Notification)]
    assert len(heard) > len({id(act[4]) for act in heard}), "the same word is heard again"


def test_words_of_an_election_overtake_each_other() -> None:
    text = "voters 5\nat 500 ms reorder percent 50 hold 60 ms for 800 ms\nat 510 ms crash leader down 700 ms\n"
    run = played(text + "at 515 ms isolate 1 for 500 ms\n")
    overtaken = 0
    for source in range(1, 6):
        for target in range(1, 6):
            told = [id(act[4]) for act in run.did("tells", source, 500, 1_300) if act[3] == target]
            heard = [id(word) for word in run.heard(target, source, 500, 1_400) if id(word) in told]
            overtaken += [told.index(word) for word in heard] != sorted(told.index(word) for word in heard)
    assert overtaken


def test_links_that_are_cut_are_dialled_again() -> None:
    run = played("at 500 ms cut links 1\n", {490: leader})
    assert any(isinstance(act[4], LinkDown) for act in run.did("hears", 1, 500, 600))
    assert any(isinstance(act[4], LinkUp) for act in run.did("hears", 1, 500, 900))


def test_a_doubled_link_begins_once_more() -> None:
    run = played("at 500 ms double links\n", {490: leader})
    old = run.seen[490]
    again = run.did("hears", old, 500, 500.001)
    assert {act[3] for act in again if isinstance(act[4], LinkUp)} == {1, 2, 3} - {old}
    assert any(isinstance(act[4], FollowerInfo) for act in again)
    assert run.hit("DoubleLinks") == 1
