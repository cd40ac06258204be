"""Checks of liveness after the last fault: the awaited conditions, the limits, and the messages.

Nothing is simulated. A small world has a heap and servers whose states an example sets at given times; the world
records each request in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from heapq import heappop, heappush
from typing import Any, Final, cast

from attrs import define, evolve, field

from harness.checkers import Violation
from harness.faults import Knobs, Script, Timing, Write
from harness.members import member
from harness.worlds.common import settings_of
from harness.worlds.cores.liveness import Liveness
from zab.core.ensemble import Ensemble, Role
from zab.core.messages import State
from zab.core.ready import Settings
from zab.core.zxid import Epoch, ServerId, Zxid, make

Action = Callable[[], object]

ONE, TWO, THREE, FOUR = (ServerId(sid) for sid in (1, 2, 3, 4))
ENSEMBLE: Final = Ensemble((member(ONE), member(TWO), member(THREE)))
OBSERVED: Final = Ensemble((*ENSEMBLE.servers, member(FOUR, Role.OBSERVER)))
HERE: Final = make(1, 7)
BEGAN_US: Final = 3_000_400
LOOKS_MAX: Final = 4_000
"""A time that exceeds all limits of these examples."""


@define
class Node:
    ensemble: Ensemble
    state: State = State.FOLLOWING
    leader: ServerId | None = THREE
    serving: bool = True
    phase: str = "broadcast"
    epoch: Epoch = Epoch(1)
    applied: Zxid = HERE
    committed: Zxid = HERE


@define
class Machine:
    zxid: Zxid = HERE
    digest: int = 11


@define
class Server:
    id: ServerId
    node: Node
    machine: Machine = field(factory=Machine)
    founded: bool = True
    up: bool = True


class Nemesis:
    def __init__(self, requests: list[object]) -> None:
        self._requests = requests

    def rest(self) -> None:
        self._requests.append("rests")


class Workload:
    """The workload acknowledges the write with a given number."""

    def __init__(self, requests: list[object], world: World) -> None:
        self._requests, self._world = requests, world
        self.acknowledged = 5
        self.asked = 0
        self.answers_at = 1

    def write(self, op: Write) -> None:
        self.asked += 1
        self._requests.append((self._world.now, op))
        if self.asked >= self.answers_at:
            self.acknowledged += 1


class World:
    def __init__(self, script: Script, ensemble: Ensemble = ENSEMBLE) -> None:
        self.script = script
        self.settings: Settings = settings_of(script.knobs)
        self.now = BEGAN_US
        self.requests: list[object] = []
        self.heap: list[tuple[int, int, Callable[[Any, Any], None]]] = []
        self.pushed = 0
        self.over = False
        self.servers = [Server(ServerId(sid), Node(ensemble)) for sid in range(len(ensemble.servers) + 1)]
        for sid in ensemble.observers:
            self.servers[sid].node.state = State.OBSERVING
        self.servers[0].up = False
        self.servers[THREE].node.state = State.LEADING
        if len(self.servers) > FOUR:
            self.servers[FOUR].node.state = State.OBSERVING
        self.chosen: ServerId | None = THREE
        self.nemesis = Nemesis(self.requests)
        self.workload = Workload(self.requests, self)
        self.counts = {"elected": 100, "established": 40, "messages": 5_000}
        """Return the spent resources. Those before the last fault do not count."""

    def push(self, at: int, act: Callable[[Any, Any], None], one: object, other: object) -> None:
        self.pushed += 1
        heappush(self.heap, (at, self.pushed, act))

    def record(self, server: ServerId, what: str, peer: ServerId, value: object) -> None:
        self.requests.append((self.now, server, what, peer, value))

    def spent(self) -> dict[str, int]:
        return dict(self.counts)

    def revive(self, server: Server) -> None:
        self.requests.append((self.now, "revived", server.id))

    def running(self) -> list[Server]:
        return [server for server in self.servers if server.up]

    def leader(self) -> Server | None:
        return None if self.chosen is None else self.servers[self.chosen]

    def stop(self) -> None:
        self.over = True


Change = Callable[[World], None]
"""A function that changes a world before all faults are healed, and may schedule later changes."""


def waited(change: Change, script: Script, ensemble: Ensemble) -> object:
    """Return the requests, the times of the checks, and the outcome."""
    world = World(script, ensemble)
    liveness = Liveness(cast(Any, world))
    results: list[object] = [liveness.bound_ms, liveness.began, liveness.took_ms, liveness.done, liveness.invariant]
    change(world)
    try:
        liveness.begin()
        for _ in range(LOOKS_MAX):
            if world.over or not world.heap:
                break
            world.now, _, act = heappop(world.heap)
            act(None, None)
    except Violation as violation:
        results.append((violation.invariant, violation.what))
    results += [world.now, world.pushed, world.over, liveness.began, liveness.took_ms, liveness.done]
    return results, world.requests


# -- changes -------------------------------------------------------------------------------------------


def _at(world: World, after_ms: int, change: Callable[[], None]) -> None:
    world.push(BEGAN_US + after_ms * 1_000, lambda _, __: change(), None, None)


def _nothing(_: World) -> None:
    """Change nothing."""


def _leads_later(world: World) -> None:
    world.chosen = None
    _at(world, 501, lambda: setattr(world, "chosen", THREE))


def _no_leader(world: World) -> None:
    world.chosen = None
    world.servers[TWO].up = False
    world.servers[THREE].node = evolve(
        world.servers[THREE].node, state=State.LOOKING, phase="election", applied=Zxid(3)
    )


def _leader_does_not_serve(world: World) -> None:
    world.servers[THREE].node.serving = False


def _others_do_not_serve(world: World) -> None:
    for sid in (ONE, TWO):
        world.servers[sid].node.serving = False


def _others_follow_another(world: World) -> None:
    for sid in (ONE, TWO):
        world.servers[sid].node.leader = TWO


def _one_follows_later(world: World) -> None:
    world.servers[ONE].node.leader = TWO
    _at(world, 300, lambda: setattr(world.servers[ONE].node, "leader", THREE))


def _quorum_goes_again(world: World) -> None:
    """One server is stopped after the write was submitted, and none is asked again."""
    world.workload.answers_at = 8
    _at(world, 25, lambda: _others_do_not_serve(world))
    _at(world, 60, lambda: _all_serve(world))


def _all_serve(world: World) -> None:
    for server in world.servers:
        server.node.serving = True


def _no_answer(world: World) -> None:
    world.workload.answers_at = LOOKS_MAX


def _late_answer(world: World) -> None:
    world.workload.answers_at = 12


def _answered_elsewhere(world: World) -> None:
    """Two writes are submitted at once, and neither is the last one submitted."""
    world.workload.answers_at = LOOKS_MAX
    _at(world, 43, lambda: setattr(world.workload, "acknowledged", 7))


def _elects_again(world: World, times: int) -> None:
    """Elect a leader `times` times after the last fault."""
    world.chosen = None
    _at(world, 31, lambda: world.counts.update(elected=world.counts["elected"] + times))
    _at(world, 35, lambda: setattr(world, "chosen", THREE))


def _sends_much(world: World, messages: int) -> None:
    """Send `messages` messages after the last fault; a slow recovery may send more."""
    world.chosen = None
    _at(world, 31, lambda: world.counts.update(messages=world.counts["messages"] + messages, syncs=1))
    _at(world, 95, lambda: setattr(world, "chosen", THREE))


def _some_are_down(world: World) -> None:
    """A server that never started is neither revived nor awaited."""
    world.servers[ONE].up = False
    world.servers[FOUR].up = world.servers[FOUR].founded = False
    _at(world, 77, lambda: setattr(world.servers[ONE], "up", True))


def _stays_down(world: World) -> None:
    world.servers[ONE].up = False
    world.servers[FOUR].up = world.servers[FOUR].founded = False


def _no_member(world: World) -> None:
    """A removed server may have any state."""
    world.servers[FOUR].up = False
    for server in world.servers[:FOUR]:
        server.node.ensemble = ENSEMBLE


def _unlike(change: Change, back: Change | None = None) -> Iterator[tuple[str, Change]]:
    """Yield a permanent and a temporary version of the change."""

    def later(world: World) -> None:
        change(world)
        kept = World(world.script, world.servers[0].node.ensemble)

        def mend() -> None:
            for server, sound in zip(world.servers, kept.servers, strict=True):
                server.node, server.machine, server.up = sound.node, sound.machine, sound.up

        _at(world, 155, mend)

    yield "", change
    yield ", for a time", later


def _changes() -> Iterator[tuple[str, Change]]:
    """Change one attribute of one server."""

    def of(part: str, server: ServerId, what: Mapping[str, object]) -> Change:
        def change(world: World) -> None:
            for name, value in what.items():
                setattr(getattr(world.servers[server], part), name, value)

        return change

    for sid in (ONE, TWO, FOUR):
        yield f"{sid} does not serve", of("node", sid, {"serving": False})
        yield f"{sid} follows no server", of("node", sid, {"leader": None, "state": State.LOOKING, "phase": "election"})
        yield f"{sid} is behind", of("machine", sid, {"zxid": make(1, 6)})
        yield f"{sid} is ahead", of("machine", sid, {"zxid": make(1, 8)})
        yield f"{sid} has another state", of("machine", sid, {"digest": 12})
    yield "one has other members", of("node", TWO, {"ensemble": evolve(OBSERVED, version=make(1, 3))})
    yield "a voter observes", of("node", ONE, {"state": State.OBSERVING})
    yield "an observer follows", of("node", FOUR, {"state": State.FOLLOWING})
    yield "the leader has not applied all", of("machine", THREE, {"zxid": make(1, 6)})
    yield "the leader has applied more", of("machine", THREE, {"zxid": make(1, 8)})
    yield "the leader has committed more", of("node", THREE, {"committed": make(1, 8)})
    yield "the leader has committed less", of("node", THREE, {"committed": make(1, 6)})


STORIES: Final[dict[str, Change]] = {
    "no change": _nothing,
    "a leader is elected later": _leads_later,
    "no server leads": _no_leader,
    "the leader does not serve": _leader_does_not_serve,
    "the others do not serve": _others_do_not_serve,
    "the others follow another": _others_follow_another,
    "one follows later": _one_follows_later,
    "a quorum stops serving again": _quorum_goes_again,
    "no reply": _no_answer,
    "a late reply": _late_answer,
    "a reply to another write": _answered_elsewhere,
    **{f"{times} servers find a leader": partial(_elects_again, times=times) for times in (18, 19, 24, 25)},
    **{f"{number} messages": partial(_sends_much, messages=number) for number in (500, 540, 541, 545, 585, 586, 1_000)},
}
WITH_AN_OBSERVER: Final[dict[str, Change]] = {
    "some are down": _some_are_down,
    "one stays down": _stays_down,
    "one is no member": _no_member,
    **{name + how: requests for name, change in _changes() for how, requests in _unlike(change)},
}
SLOW: Final = Timing(
    delay_us_max=21_013, fsync_us_max=30_012, turn_us_max=2_000_025, break_ms_max=533, spike_us_max=47_549
)
"""Limits with distinct numbers, to see whether and how often each is used."""
SCRIPTS: Final[dict[str, Script]] = {
    "slow": Script(1, timing=SLOW),
    "slow, with spikes": Script(1, timing=evolve(SLOW, spike_percent=1)),
    "hasty": Script(1, knobs=Knobs(tick_ms=13, init_limit=7, sync_limit=3, notification_ms_max=101)),
}


def actions() -> Iterator[tuple[str, Action]]:
    for name, change in STORIES.items():
        yield name, _waited(change, Script(1), ENSEMBLE)
    for name, change in WITH_AN_OBSERVER.items():
        yield name, _waited(change, Script(1), OBSERVED)
    for name, script in SCRIPTS.items():
        yield name, _waited(_no_leader, script, ENSEMBLE)


def _waited(change: Change, script: Script, ensemble: Ensemble) -> Action:
    return lambda: waited(change, script, ensemble)
