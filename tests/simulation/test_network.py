"""The simulated network keeps the contract of links, whatever is done to it: talkers stand in for servers."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, cast

import pytest

from harness.faults import Timing
from harness.worlds.cores.network import Network
from harness.worlds.cores.server import Server
from harness.worlds.cores.world import World
from zab.core.messages import Commit, LinkDown, LinkUp, Notification, Reachable
from zab.core.zxid import ServerId, Zxid


class Clock:
    """What the network needs of a world: a heap of events."""

    def __init__(self) -> None:
        self.now = 0
        self.heap: list[Any] = []
        self.serial = count().__next__

    def push(self, at: int, act: Any, one: Any, other: Any) -> None:
        assert at >= self.now, "nothing happens in the past"
        heappush(self.heap, (at, self.serial(), act, one, other))

    def run(self, until: int | None = None) -> None:
        while self.heap and (until is None or self.heap[0][0] <= until):
            self.now, _, act, one, other = heappop(self.heap)
            act(one, other)


class Talker:
    """What the network needs of a server, and a notebook of what it heard."""

    def __init__(self, sid: int) -> None:
        self.id = ServerId(sid)
        self.life = 0
        self.up = True
        self.paused = False
        self.backlog: list[Any] = []
        self.dialled: dict[ServerId, Any] = {}
        self.accepted: dict[ServerId, Any] = {}
        self.dialling: dict[ServerId, int] = {}
        self.last_received_at: dict[ServerId, int] = {}
        self.heard: list[tuple[int, object]] = []

    def receive(self, source: ServerId, message: object) -> None:
        assert self.up
        assert not self.paused
        self.heard.append((source, message))

    def words(self, source: int) -> list[object]:
        return [message for peer, message in self.heard if peer == source]

    def numbers(self, source: int) -> list[int]:
        return [message.zxid for peer, message in self.heard if peer == source and isinstance(message, Commit)]

    def defer(self, act: Any, one: object, other: object) -> None:
        self.backlog.append((act, one, other))

    def resume(self) -> None:
        self.paused = False
        backlog, self.backlog = self.backlog, []
        for act, one, other in backlog:
            act(one, other)


class Net:
    def __init__(self, talkers: int = 2, seed: str = "1", **timing: int) -> None:
        self.clock = Clock()
        self.talkers = [Talker(sid) for sid in range(talkers + 1)]
        self.network = Network(cast("World", self.clock), Timing(**timing), cast("list[Server]", self.talkers), seed)

    def server(self, sid: int) -> Server:
        return cast("Server", self.talkers[sid])

    def dial(self, one: int, other: int) -> None:
        self.network.dial(self.server(one), ServerId(other))

    def say(self, one: int, other: int, number: int) -> bool:
        """Over the link between them, whoever dialled it."""
        talker = self.talkers[one]
        end = talker.dialled.get(ServerId(other)) or talker.accepted.get(ServerId(other))
        return self.network.send(end, Commit(Zxid(number)))

    def linked(self) -> Net:
        self.dial(1, 2)
        self.clock.run()
        return self


def test_a_dial_is_answered_on_both_ends() -> None:
    net = Net().linked()
    assert net.talkers[1].words(2) == [LinkUp(dialled=True)]
    assert net.talkers[2].words(1) == [LinkUp(dialled=False)]


def test_a_dial_to_nobody_is_refused() -> None:
    net = Net()
    net.talkers[2].up = False
    net.dial(1, 2)
    net.dial(1, 9)
    net.clock.run()
    assert net.talkers[1].words(2) == [LinkDown(dialled=True)]
    assert net.talkers[1].words(9) == [LinkDown(dialled=True)]


def test_words_arrive_in_order_however_long_each_takes() -> None:
    net = Net(delay_us_max=50_000).linked()
    for number in range(200):
        assert net.say(1, 2, number)
        assert net.say(2, 1, number)
    net.clock.run()
    assert net.talkers[2].numbers(1) == list(range(200))
    assert net.talkers[1].numbers(2) == list(range(200))


def test_hanging_up_comes_behind_what_was_said() -> None:
    net = Net().linked()
    net.say(1, 2, 7)
    net.network.hang_up(net.server(1), ServerId(2), dialled=True)
    assert not net.say(1, 2, 8)
    net.say(2, 1, 9)
    net.clock.run()
    assert net.talkers[2].words(1)[1:] == [Commit(Zxid(7)), LinkDown(dialled=False)]
    assert net.talkers[1].words(2)[1:] == [], "whoever hung up hears nothing any more"


def test_hanging_up_before_the_answer() -> None:
    net = Net()
    net.dial(1, 2)
    net.network.hang_up(net.server(1), ServerId(2), dialled=True)
    net.clock.run()
    assert net.talkers[1].heard == []
    assert net.talkers[2].words(1) in ([], [LinkUp(dialled=False), LinkDown(dialled=False)])


def test_a_new_link_replaces_the_old_without_a_word() -> None:
    net = Net().linked()
    net.network.hang_up(net.server(1), ServerId(2), dialled=True)
    net.dial(1, 2)
    net.clock.run()
    ups = [word for word in net.talkers[2].words(1) if word == LinkUp(dialled=False)]
    assert len(ups) == 2
    assert net.talkers[2].words(1)[-1] == LinkUp(dialled=False), "the end of the old one is not told behind the new one"
    assert net.say(2, 1, 3)
    net.clock.run()
    assert net.talkers[1].numbers(2) == [3]


def test_a_break_loses_what_is_under_way_and_is_told_to_both() -> None:
    net = Net().linked()
    net.say(1, 2, 7)
    net.network.cut(net.server(1))
    net.clock.run()
    assert net.talkers[2].words(1)[1:] == [LinkDown(dialled=False)]
    assert net.talkers[1].words(2)[1:] == [LinkDown(dialled=True)]
    assert not net.say(1, 2, 8)


def test_a_blocked_direction_holds_and_then_breaks_the_link() -> None:
    net = Net(break_ms_max=50).linked()
    net.network.block(ServerId(1), ServerId(2))
    net.say(1, 2, 7)
    net.say(2, 1, 8)
    net.clock.run()
    assert net.talkers[2].numbers(1) == []
    assert net.talkers[2].words(1)[-1] == LinkDown(dialled=False)
    assert net.talkers[1].words(2)[-1] == LinkDown(dialled=True)


def test_a_direction_that_is_freed_in_time_loses_nothing() -> None:
    net = Net(break_ms_max=10_000_000).linked()
    net.network.block(ServerId(1), ServerId(2))
    for number in range(5):
        net.say(1, 2, number)
    net.clock.run(until=net.clock.now + 1_000)
    assert net.talkers[2].numbers(1) == []
    net.network.unblock(ServerId(1), ServerId(2))
    net.say(1, 2, 5)
    net.clock.run(until=net.clock.now + 100_000)
    assert net.talkers[2].numbers(1) == list(range(6))


def test_an_idle_link_survives_a_partition() -> None:
    net = Net(break_ms_max=1).linked()
    for one, other in ((1, 2), (2, 1)):
        net.network.block(ServerId(one), ServerId(other))
    net.clock.run()
    for one, other in ((1, 2), (2, 1)):
        net.network.unblock(ServerId(one), ServerId(other))
    net.say(1, 2, 1)
    net.clock.run()
    assert net.talkers[2].numbers(1) == [1]


def test_a_clog_ends_in_a_burst() -> None:
    net = Net().linked()
    net.network.clog(ServerId(1), ServerId(2))
    for number in range(5):
        net.say(1, 2, number)
    net.network.tell(ServerId(1), ServerId(2), cast("Notification", "vote"))
    net.clock.run()
    assert len(net.talkers[2].heard) == 1, "only that the link is up"
    net.network.unclog(ServerId(1), ServerId(2))
    net.clock.run()
    assert net.talkers[2].numbers(1) == list(range(5))
    assert "vote" in net.talkers[2].words(1)


def test_blocks_are_counted_so_that_faults_may_overlap() -> None:
    net = Net()
    one, two = ServerId(1), ServerId(2)
    net.network.block(one, two)
    net.network.block(one, two)
    net.network.unblock(one, two)
    net.network.tell(one, two, cast("Notification", "lost"))
    net.clock.run()
    assert net.talkers[2].heard == []
    net.network.unblock(one, two)
    net.clock.run()
    assert net.talkers[2].words(1) == [Reachable()], "a channel that opens says so"


def test_the_election_channel_loses_and_doubles_as_told() -> None:
    net = Net()
    net.network.loss, net.network.double = 0.3, 0.3
    for number in range(1_000):
        net.network.tell(ServerId(1), ServerId(2), cast("Notification", number))
    net.clock.run()
    heard = net.talkers[2].words(1)
    assert 600 < len(set(heard)) < 800
    assert 800 < len(heard) < 1_050
    assert heard != sorted(heard, key=lambda word: cast("int", word)), "and it does not keep the order"


def test_a_paused_server_hears_it_all_when_it_wakes() -> None:
    net = Net()
    net.talkers[2].paused = True
    net.dial(1, 2)
    net.clock.run()
    net.say(1, 2, 1)
    net.say(1, 2, 2)
    net.clock.run()
    assert net.talkers[2].heard == []
    net.talkers[2].resume()
    assert net.talkers[2].words(1) == [LinkUp(dialled=False), Commit(Zxid(1)), Commit(Zxid(2))]


def test_a_crash_ends_links_on_the_other_side_only() -> None:
    for seed in range(20):
        net = Net(seed=str(seed)).linked()
        net.say(1, 2, 1)
        crashed = net.talkers[1]
        crashed.up, crashed.life = False, 1
        net.network.crashed(net.server(1))
        net.clock.run()
        assert net.talkers[2].words(1)[1:] in ([LinkDown(dialled=False)], [Commit(Zxid(1)), LinkDown(dialled=False)])
        assert crashed.words(2) == [LinkUp(dialled=True)]


@pytest.mark.parametrize("seed", range(30))
def test_there_is_never_a_gap(seed: int) -> None:
    """Each link carries 0, 1, 2, ...; what is heard between LinkUp and LinkDown is always a beginning of that."""
    random = Random(seed)
    net = Net(3, str(seed), break_ms_max=20, delay_us_max=3_000)
    said: dict[Any, int] = {}
    for _ in range(600):
        one, other = random.sample((1, 2, 3), 2)
        a, b = ServerId(one), ServerId(other)
        match random.randrange(30):
            case 0 | 1 | 2:
                if b not in net.talkers[one].dialled or not net.talkers[one].dialled[b].open:
                    net.dial(one, other)
            case 3:
                net.network.hang_up(net.server(one), b, dialled=random.random() < 0.5)
            case 4:
                net.network.block(a, b)
                net.clock.push(net.clock.now + random.randrange(30_000), net.network.unblock, a, b)
            case 5:
                net.network.clog(a, b)
                net.clock.push(net.clock.now + random.randrange(30_000), net.network.unclog, a, b)
            case 6 if random.random() < 0.3:
                net.network.cut(net.server(one))
            case _:
                for ends in (net.talkers[one].dialled, net.talkers[one].accepted):
                    end = ends.get(b)
                    if end is not None and end.open:
                        said[end] = said.get(end, -1) + 1
                        net.network.send(end, Commit(Zxid(2 * said[end] + end.dialled)))
        net.clock.run(until=net.clock.now + random.randrange(2_000))
    net.network.heal()
    net.clock.run()
    arrived = 0
    for talker in net.talkers[1:]:
        due: dict[tuple[ServerId, bool], int | None] = {}
        for peer, word in talker.heard:
            source = ServerId(peer)
            if isinstance(word, LinkUp):
                due[source, word.dialled] = 0
            elif isinstance(word, LinkDown):
                due[source, word.dialled] = None
            elif isinstance(word, Commit):
                arrived += 1
                number, dialled_there = divmod(word.zxid, 2)
                assert due[source, not dialled_there] == number
                due[source, not dialled_there] = number + 1
    assert arrived > 50


def test_what_is_under_way_may_arrive_before_the_end_of_a_broken_link() -> None:
    net = Net(late_percent=100, delay_us_min=3_000, delay_us_max=9_000).linked()
    for number in range(20):
        net.say(1, 2, number)
        net.say(2, 1, number)
    net.network.cut(net.server(1))
    net.say(1, 2, 99)
    net.clock.run()
    assert net.talkers[2].numbers(1) == list(range(20)), "what was sent after the break is lost"
    assert net.talkers[1].numbers(2) == list(range(20))
    assert net.talkers[2].words(1)[-1] == LinkDown(dialled=False)
    assert net.talkers[1].words(2)[-1] == LinkDown(dialled=True)


def test_a_successor_ends_the_late_messages_of_a_broken_link() -> None:
    """Of 30 messages some arrive before the successor, and none after it has been accepted."""
    cases = set()
    for seed in range(40):
        net = Net(seed=str(seed), late_percent=100, delay_us_min=100, delay_us_max=9_000).linked()
        for number in range(30):
            net.say(1, 2, number)
        net.network.cut(net.server(1))
        net.clock.run(net.clock.now + 2_000)
        net.dial(1, 2)
        net.clock.run()
        words = net.talkers[2].words(1)[1:]
        up = words.index(LinkUp(dialled=False))
        assert net.talkers[2].numbers(1) == list(range(len(net.talkers[2].numbers(1))))
        assert all(not isinstance(word, Commit) for word in words[up:])
        cases.add((LinkDown(dialled=False) in words[:up], any(isinstance(word, Commit) for word in words[:up])))
    assert (False, True) in cases, "the successor comes before the end of the link is noticed"
    assert (True, True) in cases, "or behind it"
