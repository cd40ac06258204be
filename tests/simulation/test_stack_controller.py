"""The controller in the simulated runtime: sessions, registration, candidacy and links as shipped."""

from __future__ import annotations

import pytest

from harness.draw import script_from_seed
from harness.faults import (
    BounceBroker,
    CreateTopic,
    DeleteTopic,
    Depart,
    KillBroker,
    LoseController,
    LoseStore,
    Op,
    PauseBroker,
    Reassign,
    Resign,
    Script,
)
from harness.outcome import Outcome
from harness.worlds.stack.world import run
from kraft_controller.core.names import BrokerId, TopicPartition, Version
from kraft_controller.wire import znodes
from tests.simulation.elsewhere import printed


def script(*ops: Op, brokers: int = 3, length_ms: int = 2_000) -> Script:
    return Script(1, voters=3, machine="controller", brokers=brokers, ops=ops, length_ms=length_ms)


def healthy(outcome: Outcome) -> dict[str, int]:
    assert outcome.valid, f"{outcome.invariant}: {outcome.what}"
    return dict(outcome.counts)


@pytest.mark.parametrize("seed", [3, 6])
def test_drawn_run_is_valid(seed: int) -> None:
    healthy(run(script_from_seed(seed, machine="controller", faults=seed % 2 * 5)))


@pytest.mark.parametrize(
    "fault",
    [KillBroker(800), BounceBroker(800), PauseBroker(800, 1_500), LoseStore(800, 1_500), Resign(800)],
    ids=lambda fault: type(fault).__name__,
)
def test_another_controller_takes_over_after_a_fault(fault: Op) -> None:
    counts = healthy(run(script(CreateTopic(400, 1, partitions=3, factor=3), fault, length_ms=3_000)))
    assert counts["controller elected"] >= 2
    assert counts[f"hit {type(fault).__name__}"] == 1


def test_reassignment_survives_a_controller_failure() -> None:
    outcome = run(
        script(
            CreateTopic(400, 1, partitions=1, factor=2),
            Reassign(800, 1, 0, first=4, factor=2),
            KillBroker(825, down_ms=400),
            DeleteTopic(1_500, 1),
            brokers=5,
        )
    )
    counts = healthy(outcome)
    assert counts["controller elected"] == 2
    assert counts["controller topic_deleted"] == 1


def test_broker_leads_nothing_after_controlled_shutdown() -> None:
    outcome = run(script(CreateTopic(400, 1, partitions=3, factor=3), Depart(800, 5_000, broker=2), length_ms=1_500))
    healthy(outcome)
    assert outcome.history is not None
    leaders: dict[str, int] = {}
    for change in outcome.history.changes:
        if change.kind == "close" and znodes.broker_path(BrokerId(2)) in change.gone:
            break
        if change.path.endswith("/state"):
            state = znodes.read_partition_state(TopicPartition("t1", 0), change.data, Version(0))
            leaders[change.path] = state.leader
    else:
        raise AssertionError("broker 2 did not shut down")
    assert len(leaders) == 3
    assert 2 not in leaders.values()


def test_lost_command_is_sent_again() -> None:
    outcome = run(
        script(
            *(LoseController(500, 900, broker) for broker in (1, 2, 3)), CreateTopic(600, 1, 2, 3), DeleteTopic(900, 1)
        )
    )
    assert healthy(outcome)["controller topic_deleted"] == 1


PROGRAM = """
from harness.draw import script_from_seed
from harness.worlds.stack.world import run
for seed in (2, 5):
    print(run(script_from_seed(seed, machine="controller"), trace=True).trace.hash())
"""


def test_runs_are_equal_in_another_process_with_another_hash_seed() -> None:
    here = []
    for seed in (2, 5):
        trace = run(script_from_seed(seed, machine="controller"), trace=True).trace
        assert trace is not None
        here.append(trace.hash())
    assert here[0] != here[1]
    assert printed(PROGRAM, "4711") == here
