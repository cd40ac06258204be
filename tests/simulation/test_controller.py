"""The controller in the cores world: brokers around the store, and what is promised of who commands them."""

from __future__ import annotations

import pytest

from harness.checkers.controller import judged
from harness.checkers.controller.facts import BecameController, CommandApplied, Fact, Registered
from harness.draw import script_from_seed
from harness.faults import (
    BounceBroker,
    CreateTopic,
    DeleteTopic,
    GrowTopic,
    KillBroker,
    LoseController,
    LoseStore,
    Op,
    PauseBroker,
    Reassign,
    Resign,
    Script,
    StrikeWrite,
)
from harness.history import Change, History, Request
from harness.mutants.edit import planted
from harness.mutants.table import BY_NAME
from harness.outcome import Outcome
from harness.script.checks import ScriptError
from harness.script.names import EDGES
from harness.worlds import world
from harness.worlds.cores.controller.simulator import WriteStrikes
from harness.worlds.cores.world import run, world_of
from kraft_controller.core.names import BrokerId, TopicId, Version
from kraft_controller.core.state import Assignment
from kraft_controller.wire import znodes
from tests.simulation.elsewhere import printed

SEEDS = range(12)


def script(*ops: Op, brokers: int = 3, length_ms: int = 2_000) -> Script:
    return Script(1, voters=3, machine="controller", brokers=brokers, ops=ops, length_ms=length_ms)


def healthy(outcome: Outcome) -> dict[str, int]:
    assert outcome.valid, f"{outcome.invariant}: {outcome.what}"
    return dict(outcome.counts)


def states(outcome: Outcome) -> dict[str, bytes | None]:
    """What the store holds in the end."""
    assert outcome.history is not None
    found: dict[str, bytes | None] = {}
    for change in outcome.history.changes:
        if change.kind in ("create", "set"):
            found[change.path] = change.data
        elif change.kind == "delete":
            found.pop(change.path, None)
    return found


# -- what is asked comes about ---------------------------------------------------------------------------


def test_topics_are_created_grow_and_are_deleted() -> None:
    outcome = run(
        script(
            CreateTopic(400, 1, partitions=2, factor=3),
            CreateTopic(450, 2, partitions=1, factor=2),
            GrowTopic(700, 1, partitions=2),
            DeleteTopic(900, 2),
        )
    )
    counts = healthy(outcome)
    assert counts["controller topic_deleted"] == 1
    topics = {path for path in states(outcome) if path.startswith("/brokers/topics/t") and path.endswith("state")}
    assert topics == {f"/brokers/topics/t1/partitions/{number}/state" for number in range(4)}


@pytest.mark.parametrize("way", ["node", "call"])
def test_reassignment_survives_a_controller_failure(way: str) -> None:
    outcome = run(
        script(
            CreateTopic(400, 1, partitions=1, factor=2),
            Reassign(800, 1, 0, first=4, factor=2, way=way),
            KillBroker(815, down_ms=400),
            brokers=5,
        )
    )
    assert healthy(outcome)["controller elected"] >= 2
    found = znodes.read_topic("t1", states(outcome)["/brokers/topics/t1"], Version(0))
    assert found.partitions[0] in (assignment(4, 5), assignment(2, 3))  # or it never began


def test_reassignment_of_order_only_completes() -> None:
    outcome = run(
        script(CreateTopic(400, 1, partitions=1, factor=3), Reassign(700, 1, 0, first=2, factor=3, way="node"))
    )
    healthy(outcome)
    assert znodes.REASSIGN not in states(outcome)


@pytest.mark.parametrize(
    "fault",
    [KillBroker(800), BounceBroker(800), PauseBroker(800, 1_500), LoseStore(800, 1_500), Resign(800)],
    ids=lambda fault: type(fault).__name__,
)
def test_another_controller_takes_over(fault: Op) -> None:
    counts = healthy(run(script(CreateTopic(400, 1, partitions=3, factor=3), fault, length_ms=3_000)))
    assert counts["controller elected"] == 2
    assert counts[f"hit {type(fault).__name__}"] == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn(seed: int) -> None:
    healthy(run(script_from_seed(seed, machine="controller", faults=seed % 3 * 5)))


# -- strikes at writes to the store ------------------------------------------------------------------------


def moved_and_struck(nth: int, edge: str, strike: str, broker: int = 0) -> Outcome:
    at_write = StrikeWrite(800, 300, broker, nth, edge, strike)
    return run(script(CreateTopic(400, 1, 2, 2), at_write, Reassign(800, 1, 0, 3, 2), brokers=4, length_ms=2_500))


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize(("strike", "controllers"), [("crash", 2), ("cut", 1), ("expire", 2)])
def test_strike_at_first_write_of_reassignment(edge: str, strike: str, controllers: int) -> None:
    counts = healthy(moved_and_struck(1, edge, strike))
    assert counts["hit StrikeWrite"] == 1
    assert counts["controller elected"] == controllers
    assert counts["controller reassigned"] == 1


def test_strike_waits_for_its_write() -> None:
    assert "hit StrikeWrite" not in healthy(moved_and_struck(1_000, "before", "crash"))


@pytest.mark.parametrize("edge", EDGES)
def test_every_gap_between_writes_is_reached(edge: str) -> None:
    """The write that is struck is the n-th one: so many writes leave the controller as n allows."""
    for nth in range(1, 7):
        strikes = WriteStrikes()
        strikes.arm(StrikeWrite(0, nth=nth, edge=edge), lambda broker: broker == 2)
        asked = [Request("get", "/a"), Request("multi"), Request("create", "/b")] * 3
        due = [strikes.due(2, request) is not None for request in asked]
        assert not any(strikes.due(1, request) for request in asked)
        writes = [struck for struck, request in zip(due, asked, strict=True) if request.op != "get"]
        assert writes.index(True) == nth - 1
        assert sum(due) == 1


def test_strikes_at_writes_are_drawn_near_long_procedures() -> None:
    drawn = [script_from_seed(seed, machine="controller").ops for seed in range(200)]
    strikes = [[op for op in ops if isinstance(op, StrikeWrite)] for ops in drawn]
    assert 70 < sum(map(bool, strikes)) < 130
    busy = [{op.at for op in ops if isinstance(op, (Reassign, DeleteTopic))} for ops in drawn]
    near = sum(op.at in times for found, times in zip(strikes, busy, strict=True) for op in found)
    assert near > 0.4 * sum(map(len, strikes))
    nth = [op.nth for found in strikes for op in found]
    assert min(nth) == 1
    assert max(nth) > 25
    assert 0.2 < sum(each >= 8 for each in nth) / len(nth) < 0.6


# -- bugs that are seldom seen by chance -------------------------------------------------------------------

OLD_COMMANDS: tuple[Op, ...] = (
    CreateTopic(400, 1, 2, 3),
    *(LoseController(900, 1_800, broker) for broker in (1, 2, 3, 4)),
    CreateTopic(950, 2, 2, 3),
    LoseStore(1_100, 2_500),
    CreateTopic(2_500, 3, 2, 3),
)
"""What the first controller had to say of the second topic cannot be heard before there is another controller."""


def test_mutant_is_detected_when_old_commands_wait() -> None:
    told = script(*OLD_COMMANDS, brokers=4, length_ms=4_000)
    healthy(run(told))
    with planted(BY_NAME["old-controller-obeyed"].edits):
        assert run(told).invariant == "a broker ignores commands of an older controller"


def test_mutant_is_detected_when_only_the_order_changes() -> None:
    told = script(CreateTopic(400, 1, partitions=1, factor=3), Reassign(700, 1, 0, first=2, factor=3))
    with planted(BY_NAME["move-of-order-never-ends"].edits):
        assert run(told).invariant == "everything that was begun completes"


# -- a run is a function of its script -------------------------------------------------------------------

PROGRAM = """
from harness.draw import script_from_seed
from harness.worlds.cores.world import run
for seed in (1, 5):
    print(run(script_from_seed(seed, machine="controller"), trace=True).trace.hash())
"""


def test_equal_in_another_process_under_another_hash_seed() -> None:
    here = []
    for seed in (1, 5):
        trace = run(script_from_seed(seed, machine="controller"), trace=True).trace
        assert trace is not None
        here.append(trace.hash())
    assert here[0] != here[1]
    assert printed(PROGRAM, "4711") == here


def test_script_with_brokers_runs_in_the_controller_world() -> None:
    made = world_of(script(brokers=4))
    assert [type(made).__name__, len(made.script.faults)] == ["ControllerWorld", 0]
    with pytest.raises(ScriptError, match="not controller"):
        world("processes").playable(script())


# -- those who judge -------------------------------------------------------------------------------------


def change(zxid: int, path: str, data: bytes | None, *, session: int = 7, version: int = 0) -> Change:
    return Change(zxid, session, "set" if version else "create", path, data, version)


def topic(partition: int, *replicas: int) -> bytes:
    return znodes.topic(TopicId("a" * 22), {partition: assignment(*replicas)})


def moved(replicas: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]) -> bytes:
    """On the way."""
    lists = (tuple(map(BrokerId, each)) for each in (replicas, adding, removing))
    return znodes.topic(TopicId("a" * 22), {0: Assignment(*lists)})


def assignment(*replicas: int) -> Assignment:
    return Assignment(tuple(map(BrokerId, replicas)))


ONE = (
    change(1, znodes.CONTROLLER_EPOCH, b"0"),
    change(2, znodes.CONTROLLER_EPOCH, b"1", version=1),
    change(3, "/brokers/topics/t1", topic(0, 1, 2), session=9),
)
RULES = (Registered(10, 1, 1, 7, 1), BecameController(20, 1, 7, 1))


def verdict(changes: tuple[Change, ...], facts: tuple[Fact, ...] = RULES) -> str:
    broken = judged(History(changes=changes), facts)
    return "" if broken is None else broken.invariant


def state(zxid: int, leader: int, isr: list[int], epoch: int, *, by: int = 1, session: int = 7) -> Change:
    data = b'{"controller_epoch":%d,"leader":%d,"version":1,"leader_epoch":%d,"isr":%s}' % (
        by, leader, epoch, str(isr).encode(),
    )  # fmt: skip
    return change(zxid, "/brokers/topics/t1/partitions/0/state", data, session=session, version=zxid - 4)


@pytest.mark.parametrize(
    ("invariant", "changes", "facts"),
    [
        ("", (state(4, 1, [1, 2], 0), state(5, 2, [2], 1)), ()),
        ("one controller per epoch", (change(4, znodes.CONTROLLER_EPOCH, b"3", version=2),), ()),
        ("one controller per epoch", (), (BecameController(30, 2, 8, 1),)),
        ("one controller per epoch", (), (CommandApplied(30, 2, 1, 5, 3, 1),)),
        ("no write of a fenced controller takes effect", (state(4, 1, [1], 0), state(5, 1, [1], 1, by=0)), ()),
        (
            "no write of a fenced controller takes effect",
            (change(4, "/brokers/topics/t1", topic(0, 1, 2), session=8, version=1),),
            (Registered(5, 2, 1, 8, 1),),
        ),
        ("the leader is in the ISR", (state(4, 1, [2], 0),), ()),
        ("the leader is in the ISR", (state(4, -1, [], 0),), ()),
        ("ISR members are assigned replicas", (state(4, 1, [1, 3], 0),), ()),
        ("an elected leader was in the ISR before", (state(4, 1, [1], 0), state(5, 2, [2], 1)), ()),
        ("leader epochs increase", (state(4, 1, [1], 3), state(5, 1, [1], 2)), ()),
        ("partition states are written with a version check", (state(4, 1, [1, 2], 0), state(5, 1, [1], 2)), ()),
        (
            "partition states are written with a version check",
            (state(4, 1, [1, 2], 0), state(5, 1, [1], 0, session=9)),
            (),
        ),
        (
            "assignments are legal",
            (change(4, "/brokers/topics/t1", topic(1, 1), session=9, version=1),),
            (),
        ),
        (
            "assignments are legal",
            (change(4, "/brokers/topics/t2", topic(0, 1), session=9),),
            (),
        ),
        (
            "a reassignment ends when all target replicas are in sync",
            (
                state(4, 1, [1, 2], 0),
                change(5, "/brokers/topics/t1", moved((1, 2, 3), (3,), (2,)), version=1),
                change(6, "/brokers/topics/t1", topic(0, 1, 3), version=2),
            ),
            (),
        ),
        (
            "",
            (
                state(4, 1, [1, 2], 0),
                change(5, "/brokers/topics/t1", moved((1, 2, 3), (3,), (2,)), version=1),
                state(6, 1, [1, 2, 3], 1),
                state(7, 1, [1], 2),
                change(8, "/brokers/topics/t1", topic(0, 1, 3), version=2),
            ),
            (),
        ),
        (
            "a reassignment ends when all target replicas are in sync",
            (
                state(4, 1, [1, 2], 0),
                change(5, "/brokers/topics/t1", moved((1, 2, 3), (3,), (2,)), version=1),
                state(6, 1, [1, 2, 3], 0),
                state(7, 1, [1], 1),
                change(8, "/brokers/topics/t1", topic(0, 1, 3), version=2),
            ),
            (),
        ),
        (
            "a broker ignores commands for its former process",
            (),
            (Registered(40, 1, 2, 11, 9), CommandApplied(50, 1, 2, 1, 1, 1)),
        ),
    ],
)  # fmt: skip
def test_violations_are_named(invariant: str, changes: tuple[Change, ...], facts: tuple[Fact, ...]) -> None:
    assert verdict((*ONE, *changes), (*RULES, *facts)) == invariant


def test_command_of_an_older_controller_is_a_violation() -> None:
    changes = (*ONE, change(4, znodes.CONTROLLER_EPOCH, b"2", session=8, version=2))
    applied = CommandApplied(40, 3, 1, -1, 2, 2), CommandApplied(50, 3, 1, -1, 1, 1)
    facts = (*RULES, BecameController(30, 2, 8, 2), *applied)
    assert verdict(changes, facts) == "a broker ignores commands of an older controller"
