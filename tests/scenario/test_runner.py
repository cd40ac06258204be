"""The runner: a story with another outcome fails, and rewriting changes only outcomes."""

from __future__ import annotations

import pytest

from tests.scenario.runner import BROKEN, play, read, write
from tests.scenario.story import Story, members, pairs
from zab.core.batch import pack
from zab.core.ready import Append
from zab.core.zxid import ServerId, make

TALE = """\
# Two start.
ensemble 1 2
start 1
----
1 looks, round 1; 1->2 votes 1@0/0 e0 r1

# Only words.

start 2
----
something else
"""


def test_dumped_state_can_be_written_again() -> None:
    assert write(read(TALE)) == TALE


def test_playing_replaces_only_the_result() -> None:
    played = write(play(read(TALE)))
    assert played != TALE
    assert played.splitlines()[:-1] == TALE.splitlines()[:-1]
    assert played.splitlines()[-1].startswith("2 looks, round 1; ")
    assert write(play(read(played))) == played


def test_failing_story_names_its_line() -> None:
    broken = read("ensemble 1 2\ndeliver 1->2\n----\n")
    with pytest.raises(AssertionError, match="nothing is under way") as caught:
        play(broken)
    assert caught.value.__notes__ == ["in the command: deliver 1->2"]
    assert BROKEN in write(play(broken, author=True))


def test_the_judge_sees_two_truths() -> None:
    story = Story()
    story.tell("ensemble 1 2 3 leader=3 epoch=2")
    story.tell('propose 3 "a"')
    story.tell("run")
    liar = story.world.servers[ServerId(1)]
    liar.state.pop()
    with pytest.raises(AssertionError, match="two transactions are 2/1"):
        story.world._deliver_batch(liar, pack(make(2, 1), [b"b"]))
    with pytest.raises(AssertionError, match="applies 2/2 behind 0/0"):
        story.world._deliver_batch(liar, pack(make(2, 2), [b"b"]))


def test_the_judge_sees_two_leaders() -> None:
    story = Story()
    story.tell("ensemble 1 2 3 leader=3 epoch=2")
    with pytest.raises(AssertionError, match="both lead epoch 2"):
        story.world._judge_leader(ServerId(1), story.world.servers[ServerId(3)].alive.epoch)


def test_crash_loses_unreported_writes() -> None:
    story = Story()
    story.tell("ensemble 1 2 3 leader=3 epoch=2")
    story.tell("disk 3 slow")
    story.tell('propose 3 "a"')
    disk = story.world.servers[ServerId(3)].disk
    assert [type(write) for write in disk.pending] == [Append]
    story.tell("crash 3")
    assert (disk.recovered().batches, len(disk.pending)) == ((), 0)


def test_members_and_pairs_are_read_as_they_are_written() -> None:
    ensemble = members(["1", "2", "3", "observer", "4", "groups", "1:2", "3", "weights", "3=2"])
    assert (ensemble.voters, ensemble.observers) == ((1, 2, 3), (4,))
    assert ([group.members for group in ensemble.groups], ensemble.weight(ServerId(3))) == ([(1, 2), (3,)], 2)
    everybody = [ServerId(sid) for sid in (1, 2, 3)]
    assert pairs("1->2", everybody) == [(1, 2)]
    assert pairs("1-2", everybody) == [(1, 2), (2, 1)]
    assert pairs("3-*", everybody) == [(3, 1), (3, 2), (1, 3), (2, 3)]
