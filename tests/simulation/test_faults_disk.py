"""Every fault of a disk does what it says, and takes no more than the ensemble can spare."""

from __future__ import annotations

import pytest

from harness.worlds.cores.inject_disk import can_forget, can_spare
from harness.worlds.cores.world import World
from tests.simulation.played import last, leader, played
from zab.core.zxid import Zxid

LONG_LOG = "knobs snapshot_every 1000\n"


def durable(world: World) -> list[Zxid]:
    return [known.durable for known in world.ghost.servers]


def test_a_lost_disk() -> None:
    run = played("at 900 ms lose disk 2 down 100 ms\n")
    _, found = run.started(2)[1]
    assert not found.voting
    assert last(found) == 0


def test_a_disk_that_is_put_back_votes_with_what_it_had() -> None:
    run = played("at 600 ms old disk 2 for 300 ms down 50 ms\n", {601: durable, 899: durable})
    _, found = run.started(2)[1]
    assert found.voting
    assert run.seen[601][2] <= last(found) < run.seen[899][2]
    assert run.did("has its disk put back", 2)


def test_a_disk_is_not_put_back_where_others_need_it() -> None:
    """While 3 is away, only the leader and 2 know what is committed: it waits until 3 has caught up."""
    text = "at 600 ms old disk {} for 200 ms down 50 ms\nat 650 ms crash {} down 300 ms\n"
    who = played("", {600: leader}).seen[600]
    mine, away = [sid for sid in (1, 2, 3) if sid != who]
    run = played(text.format(mine, away))
    (swapped,) = run.did("has its disk put back", mine)
    back = run.started(away)[1][0]
    assert swapped[0] / 1_000 > back > 900


def test_two_do_not_forget_the_same() -> None:
    """While one is away that has gone back, the other is needed: nobody knows yet what the first one will find."""
    text = "at 600 ms old disk {} for 300 ms down 100 ms\nat 600 ms old disk {} for 320 ms down 10 ms\n"
    who = played("", {600: leader}).seen[600]
    first, other = [sid for sid in (1, 2, 3) if sid != who]
    run = played(text.format(first, other))
    assert run.did("has its disk put back", first, 900, 905)
    (swapped,) = run.did("has its disk put back", other)
    assert swapped[0] / 1_000 > run.started(first)[1][0] >= 1_000


def test_a_flipped_bit_is_noticed_or_harmless() -> None:
    found = [played(f"at 900 ms flip bit 2 where {where}\n").started(2)[1][1] for where in range(0, 1_000, 90)]
    assert any(not each.voting and each.damage for each in found)


def test_a_record_beside_its_place_is_noticed() -> None:
    run = played(f"at 900 ms misdirect record 2 where 500 down 50 ms\n{LONG_LOG}")
    _, found = run.started(2)[1]
    assert run.did("has a record beside its place", 2)
    assert not found.voting
    assert found.damage


def test_the_last_record_beside_its_place_may_look_torn() -> None:
    run = played("at 900 ms misdirect record 2 where 999 down 50 ms\n", {899: durable})
    _, found = run.started(2)[1]
    assert not found.voting or last(found) < run.seen[899][2]


def test_syncs_that_lie_lose_what_they_promised() -> None:
    run = played("at 700 ms lose fsync 2 for 100 ms down 50 ms lose\n", {699: durable, 799: durable})
    at, found = run.started(2)[1]
    assert run.hit("LoseFsync") == 1
    assert run.seen[699][2] <= last(found) < run.seen[799][2]
    assert at >= 850


def test_syncs_that_lie_do_no_harm_while_nothing_crashes() -> None:
    text = "length 1 s\nat 900 ms lose fsync 2 for 500 ms\nat 920 ms write\n"
    run = played(text, {990: lambda world: world.servers[2].disk.lying}, writes=False)
    assert run.seen[990]
    assert not run.hit("LoseFsync")
    assert not run.world.servers[2].disk.lying


@pytest.mark.parametrize("error", ["write", "fsync", "full"])
def test_a_disk_that_fails_stops_its_server(error: str) -> None:
    run = played(f"at 500 ms fail disk 2 {error} down 100 ms\n")
    assert run.did("stops", 2, 500, 600)
    assert run.hit("FailDisk") == 1


def test_a_disk_that_cannot_be_read_stops_its_server() -> None:
    """2 was away for long, so that its leader has to read its log."""
    text = "knobs window_entries 2 log_sync_entries_max 1000 snapshot_every 1000\nat 500 ms crash 2 down 600 ms\n"
    run = played(f"{text}at 600 ms fail disk leader read nth 1 down 100 ms\n", {490: leader})
    assert run.seen[490] != 2
    assert [act[1] for act in run.did("stops", None, 600, 1_800)] == [run.seen[490]]


def test_a_disk_that_cannot_be_read_at_the_start_is_damaged() -> None:
    run = played(f"{LONG_LOG}at 900 ms crash 2 down 50 ms\nat 920 ms fail disk 2 read nth 3\n")
    _, found = run.started(2)[1]
    assert not found.voting
    assert found.damage


def test_disks_that_cannot_be_read_are_no_more_than_can_be_spared() -> None:
    crashes = "".join(f"at 900 ms crash {sid} down 50 ms\nat 920 ms fail disk {sid} read nth 3\n" for sid in (1, 2, 3))
    run = played(LONG_LOG + crashes)
    assert [run.started(sid)[1][1].voting for sid in (1, 2, 3)].count(False) == 1


def test_a_full_disk_stops_its_server_until_there_is_room() -> None:
    run = played("at 500 ms full disk 2 room 60 for 400 ms\n")
    assert run.did("stops", 2, 500, 700)
    at = run.started(2)[-1][0]
    assert 900 <= at < 1_000
    assert run.hit("FullDisk") >= 1


def test_a_slow_disk() -> None:
    def longest(text: str) -> float:
        run = played(text, writes=False)
        saves, saved = run.did("saves", 2, 500, 1_400), run.did("saved", 2, 500, 2_000)
        assert len(saves) == len(saved) == 1
        return (saved[0][0] - saves[0][0]) / 1_000

    write = "at 600 ms write\n"
    assert longest(write) < 2 < longest(f"at 500 ms slow disk 2 slower 50 for 800 ms\n{write}")


# -- how much can be spared ----------------------------------------------------------------------------


def test_no_more_disks_are_lost_than_can_be_spared() -> None:
    run = played("at 900 ms lose disk 2 down 300 ms\nat 910 ms lose disk 1\nat 911 ms lose disk 3\n")
    assert run.hit("LoseDisk") == 1


def test_servers_that_may_lose_durable_data() -> None:
    def answers(world: World) -> tuple[list[bool], list[bool]]:
        servers = world.servers[1:]
        return [can_spare(world, server) for server in servers], [can_forget(world, server) for server in servers]

    quiet = played("length 2.5 s\n", {2_400: answers})
    assert quiet.seen[2_400] == ([True] * 3, [True] * 3)
    away = played("length 2.5 s\nat 1 s crash 3 down 2 s\n", {2_400: answers})
    spare, forget = away.seen[2_400]
    assert spare == [True] * 3, "a disk of a server that is away is whole"
    assert forget == [False, False, True], "3 knows nothing that the others do not know; of them, each is needed"


def test_syncs_that_lie_do_no_harm_where_a_damaged_disk_could_not_be_spared() -> None:
    """What is left of a log may look damaged instead of short: of two servers, neither can be done without."""
    run = played("voters 2\nat 700 ms lose fsync 2 for 100 ms down 50 ms tear\n", {1_400: durable})
    _, found = run.started(2)[-1]
    assert found.voting
    assert not run.hit("LoseFsync")


def test_a_disk_that_lied_and_looks_damaged_counts_as_damaged() -> None:
    """Until it is healed, no other disk may go: here the second one is lost while the first has not come back."""
    run = played("at 700 ms lose fsync 2 lose for 100 ms down 300 ms\nat 850 ms lose disk 3\n")
    assert run.hit("LoseFsync") == 1
    assert not run.hit("LoseDisk")


def test_a_record_may_be_misdirected_on_a_disk_with_a_damaged_file() -> None:
    """One server has its first log damaged, and is hit again before anybody has looked at that."""
    flips = "".join(f"at 900 ms flip bit 2 down 300 ms where {where}\n" for where in (0, 1, 2, 3))
    run = played(f"{flips}at 1000 ms misdirect record 2 where 500 down 50 ms\n{LONG_LOG}")
    assert run.hit("FlipBit") == 4
