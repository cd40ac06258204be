"""Scripts for the oracle of availability, with every kind of fault, and short runs that it observes.

Nothing is simulated. The oracle derives from a script when servers must serve; for the observer, the examples write the
events of a run directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from typing import Final

from attrs import evolve, fields_dict

from harness.availability import Availability
from harness.checkers import Judge, OracleState, Violation
from harness.draw import script_from_seed
from harness.faults import FAULTS, CutLinks, Fault, Isolate, Partition, Pause, Reconfigure, Script, Split
from harness.members import member
from harness.oracle import Oracle, Segment, Service, timeline
from zab.core.batch import pack
from zab.core.ensemble import Ensemble
from zab.core.messages import State
from zab.core.ready import Recovered
from zab.core.zxid import NOTHING, Epoch, ServerId, Zxid, make

ONE, TWO, THREE = ServerId(1), ServerId(2), ServerId(3)
ENSEMBLE: Final = Ensemble((member(ONE), member(TWO), member(THREE)))
LENGTH_MS: Final = 2_000
GROUPED: Final[tuple[tuple[tuple[tuple[int, ...], ...], tuple[int, ...]], ...]] = (
    (((1, 2), (3,)), ()),
    (((1,), (2, 3), (4, 5)), ()),
    (((1, 2, 3), (4, 5)), (1, 0, 2, 1, 3)),
)
WEIGHED: Final[tuple[tuple[tuple[tuple[int, ...], ...], tuple[int, ...], tuple[Fault, ...]], ...]] = (
    (((1, 2, 3),), (3, 1, 1), (Partition(100, 300, ((1,), (2,), (3,))),)),
    (((1, 2, 3, 4),), (3, 1, 1, 1), (Partition(100, 300, ((1, 2), (3, 4))),)),
    (((1, 2, 3, 4, 5),), (5, 5, 1, 1, 1), (Partition(100, 300, ((1, 2), (3, 4, 5))),)),
    ((tuple(range(1, 8)),), (), (Isolate(100, 300, 0),) * 3),
    ((tuple(range(1, 10)),), (), (Isolate(100, 300, 0),) * 4),
)
"""Ensembles with groups and weights in which few servers have much weight, or many are down."""

Action = Callable[[], object]


def actions() -> Iterator[tuple[str, Action]]:
    """Yield the named actions."""
    for name, script in scripts():
        yield name, _action(script)
    for name, action in RUNS.items():
        yield name, action


def abstained(segments: Sequence[Segment]) -> float:
    """Return the share of the time for which the oracle abstains."""
    whole = sum(segment.end - segment.begin for segment in segments)
    unknown = sum(segment.end - segment.begin for segment in segments if segment.service is Service.UNKNOWN)
    return unknown / max(1, whole)


def _action(script: Script) -> Action:
    def action() -> object:
        segments = timeline(script)
        return segments, [segment.end - segment.begin for segment in segments], abstained(segments)

    return action


# -- scripts -------------------------------------------------------------------------------------------


def scripts() -> Iterator[tuple[str, Script]]:
    """Yield scripts with each fault: alone, after a crash, and across the end; then random ones."""
    away = Pause(0, LENGTH_MS, 1)
    for kind in FAULTS:
        for server in (0, 1, 3):
            for at in (500, LENGTH_MS - 50):
                fault = _made(kind, at, server)
                if fault is not None:
                    for voters in (3, 5):
                        yield f"{fault}, {voters}", _script(fault, voters=voters)
                        yield f"{fault}, and one is away, {voters}", _script(away, fault, voters=voters)
    for number, faults in enumerate(TOGETHER):
        for voters in (2, 3, 4, 5):
            yield f"together {number}, {voters}", _script(*faults, voters=voters)
            yield f"together {number}, {voters} with an observer", _script(*faults, voters=voters, observers=1)
    change = Reconfigure(300, "remove", 1)
    apart = Partition(500, 200, ((1,), (2,), (3,)))
    yield "members change", Script(1, voters=3, length_ms=LENGTH_MS, faults=(apart,), ops=(change,))
    yield "members change in the end", Script(1, voters=3, length_ms=LENGTH_MS, ops=(Reconfigure(1_900, "remove", 1),))
    for number, faults in enumerate(TOGETHER):
        for groups, weights in GROUPED:
            voters = sum(map(len, groups))
            script = evolve(_script(*faults, voters=voters), groups=groups, weights=weights)
            yield f"together {number}, {groups} {weights}", script
    for groups, weights, faults in WEIGHED:
        voters = sum(map(len, groups))
        yield f"{groups} {weights}", evolve(_script(*faults, voters=voters), groups=groups, weights=weights)
    yield "four of nine", _script(*(Isolate(100, 300, 0),) * 4, voters=9)
    for seed in range(12):
        yield f"drawn {seed}", script_from_seed(seed, voters=(3, 4, 5)[seed % 3], faults=seed)


def _script(*faults: Fault, voters: int, observers: int = 0) -> Script:
    return Script(1, voters=voters, observers=observers, length_ms=LENGTH_MS, faults=faults)


def _made(kind: type[Fault], at: int, server: int) -> Fault | None:
    """Return the fault at this server, or None if it equals another one."""
    if "server" in fields_dict(kind):
        return kind(at, server=server)  # type: ignore[call-arg]
    return kind(at) if server == 0 and "at" in signature(kind).parameters else None


TOGETHER: Final[tuple[tuple[Fault, ...], ...]] = (
    (Isolate(100, 300, 1), Isolate(200, 300, 2)),
    (Isolate(100, 300, 0), Isolate(200, 300, 2)),
    (Isolate(100, 300, 0), Isolate(200, 300, 0)),
    (Pause(100, 300, 1), Isolate(200, 300, 2)),
    (Pause(100, 300, 2), Pause(200, 300, 2)),
    (Pause(100, 100, 2), Pause(200, 100, 3)),
    (Pause(100, 101, 2), Pause(200, 100, 3)),
    (CutLinks(100, 1), CutLinks(100, 2)),
    (CutLinks(100, 1), CutLinks(101, 2)),
    (Partition(100, 300, ((1, 2), (3, 4, 5))),),
    (Partition(100, 300, ((1, 2), (2, 3))),),
    (Partition(100, 300, ((1,), (2,), (3,))),),
    (Partition(100, 300, ((1,), (2,))),),
    (Partition(100, 300, ((1, 0), (2,))),),
    (Partition(100, 300, ((1, 2), (3,))), Partition(200, 300, ((1,), (2, 3)))),
    (Partition(100, 300, ((1, 2, 3), (4, 5))), Isolate(200, 300, 1)),
    (Partition(100, 300, ((1, 2, 3), (4, 5))), Pause(200, 100, 5)),
    (Split(100, 300, "halves", 1),),
    (Split(100, 300, "halves", 2), Pause(200, 100, 2)),
    (Split(100, 300, "halves", 2), Isolate(200, 300, 3)),
    (Split(100, 300, "halves", 3), Split(200, 300, "halves", 1)),
    (Split(100, 300, "halves", 5),),
    (Split(100, 300, "halves", 6),),
    (Split(100, 300, "ring", 1),),
    (Split(100, 300, "halves", 0),),
)


# -- runs ---------------------------------------------------------------------------------------------

MUST, MUST_NOT, UNKNOWN = Service.MUST, Service.MUST_NOT, Service.UNKNOWN


class Run:
    """A leader that proposes and commits in a timeline of segments."""

    def __init__(self, *segments: Segment) -> None:
        self.now = 0
        ghost = OracleState(ENSEMBLE, 3)
        self.judge = Judge(ghost, [lambda _: Oracle(ghost, segments, lambda: self.now)])
        self.judge.role(THREE, State.LEADING, Epoch(1), THREE, True)

    def proposes(self, at_us: int, counter: int = 1, count: int = 1) -> None:
        self.now = at_us
        batch = pack(make(1, counter), [b"x"] * count)
        self.judge.proposed(THREE, batch.first, batch.payloads())
        self.judge.appended(THREE, batch)

    def commits(self, at_us: int, counter: int = 1) -> str:
        self.now = at_us
        try:
            self.judge.committed(THREE, make(1, counter), True)
        except Violation as violation:
            return str(violation)
        return ""


def _decided(proposed_us: int, committed_us: int) -> Action:
    """Return an action with one transaction near two segments in which no commit is possible."""

    def action() -> object:
        run = Run(Segment(0, 100, MUST), Segment(100, 200, MUST_NOT), Segment(200, 300, MUST_NOT))
        run.proposes(proposed_us)
        return run.commits(committed_us)

    return action


def _several() -> object:
    """Commit a batch of three after an earlier transaction, and learn of the commits again later."""
    run = Run(Segment(0, 100, MUST), Segment(100, 200, MUST_NOT))
    run.proposes(50_000)
    run.proposes(110_000, 2, 3)
    return run.commits(120_000), run.commits(150_000, 4), run.commits(160_000, 3), run.commits(250_000, 4)


def _elsewhere() -> object:
    """A leader learns of a commit that is not in its history."""
    run = Run(Segment(100, 200, MUST_NOT))
    run.proposes(110_000)
    run.now = 120_000
    run.judge.committed(THREE, make(7, 7), True)
    return run.commits(120_000), run.commits(130_000)


def _quiet() -> object:
    """Return the longest allowed outages, by segment."""
    segments = [
        Segment(0, 500, MUST),
        Segment(500, 900, UNKNOWN),
        Segment(900, 1_500, MUST),
        Segment(1_500, 2_000, MUST_NOT),
    ]
    oracle = Oracle(OracleState(ENSEMBLE, 3), segments, lambda: 0)
    asked = [
        [(100, 300)], [(100, 301)], [(400, 1_100)], [(400, 1_101)], [(0, 200), (300, 500)], [(0, 201)], [(299, 800)],
        [(1_300, 2_000)], [(1_299, 2_000)], [(0, 100), (950, 1_200)], [],
    ]  # fmt: skip
    return [str(oracle.unserved(quiet, 200)) for quiet in asked]


class Watched:
    """An observer of serving servers with a clock."""

    def __init__(self) -> None:
        self.now = 0
        self.ghost = OracleState(ENSEMBLE, 3)
        self.seen = Availability(self.ghost, lambda: self.now)
        self.judge = Judge(self.ghost, (), self.seen.update)
        for sid in (ONE, TWO, THREE):
            self.judge.started(sid, Recovered(Epoch(0), Epoch(0)), NOTHING)

    def role(self, at_us: int, sid: ServerId, state: State, leader: ServerId | None, serving: bool = True) -> None:
        self.now = at_us
        self.judge.role(sid, state, Epoch(1), leader, serving)

    def crashes(self, at_us: int, sid: ServerId) -> None:
        self.now = at_us
        self.judge.crashed(sid)

    def state(self) -> object:
        seen = self.seen
        return seen.outages(), seen.quiet(), seen.strikes(), tuple(seen.hits), tuple(seen.broker_hits)


def _outages() -> object:
    """Check after each change: a start, an outage that ends, one without a fault, and one that lasts."""
    watched = Watched()
    states = [watched.state()]
    watched.role(20_500, ONE, State.LEADING, ONE)
    states.append(watched.state())
    watched.role(50_999, TWO, State.FOLLOWING, ONE)
    states.append(watched.state())
    watched.crashes(60_000, TWO)
    watched.now = 65_001
    states.append(watched.state())
    watched.seen.struck("Crash", "broadcast", 200)
    watched.role(90_000, THREE, State.FOLLOWING, ONE)
    watched.seen.struck("Pause", "election")
    watched.seen.struck("Pause", "election", 7)
    watched.seen.struck_broker("CrashBroker", "broadcast", 9)
    states.append(watched.state())
    watched.role(95_000, TWO, State.FOLLOWING, ONE)
    watched.crashes(200_000, ONE)
    watched.now = 250_000
    return states, watched.state()


def _serving() -> object:
    """Followers of another leader, leaders that do not serve yet, and two leaders at once are no quorum."""
    watched = Watched()
    states = []
    for at, (sid, state, leader, serving) in enumerate((
        (ONE, State.LEADING, ONE, False), (TWO, State.FOLLOWING, ONE, True), (THREE, State.FOLLOWING, ONE, True),
        (ONE, State.LEADING, ONE, True), (TWO, State.FOLLOWING, ONE, False), (THREE, State.FOLLOWING, ONE, True),
        (THREE, State.FOLLOWING, TWO, True), (TWO, State.LEADING, TWO, True), (ONE, State.FOLLOWING, TWO, True),
        (TWO, State.FOLLOWING, ONE, True), (ONE, State.LEADING, ONE, True),
    )):  # fmt: skip
        watched.role(1_000 * (at + 1), sid, state, leader, serving)
        states.append(watched.state())
    return states


def _other_members() -> object:
    """Two of four servers are no quorum after the change to four is committed."""
    watched = Watched()
    watched.role(1_000, ONE, State.LEADING, ONE)
    watched.role(2_000, TWO, State.FOLLOWING, ONE)
    grown = ENSEMBLE.changed(joining=(member(ServerId(4)),), version=make(1, 1))
    change = pack(make(1, 1), [grown.text().encode()], config=True)
    for sid in (ONE, TWO, THREE):
        watched.judge.appended(sid, change)
    watched.role(3_000, THREE, State.LOOKING, None, False)
    before = watched.state()
    watched.judge.committed(ONE, Zxid(change.last), True)
    watched.role(4_000, THREE, State.LOOKING, None, False)
    watched.now = 9_000
    return before, watched.state()


RUNS: Final[dict[str, Action]] = {
    **{
        f"proposed at {proposed}, committed at {committed}": _decided(proposed, committed)
        for proposed in (50_000, 100_000, 100_001, 150_000, 199_999, 200_000, 200_001)
        for committed in (150_000, 199_999, 200_000, 250_000, 299_999, 350_000)
        if proposed <= committed
    },
    "abstained": lambda: [abstained(segments) for segments in ([], [Segment(0, 1, UNKNOWN)], [Segment(0, 1, MUST)])],
    "several": _several,
    "elsewhere": _elsewhere,
    "quiet": _quiet,
    "outages": _outages,
    "serving": _serving,
    "other members": _other_members,
}
