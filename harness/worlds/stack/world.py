"""The interface of the simulated runtime: the items of a script that it supports, and a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness import faults, worlds
from harness.checkers import ALL, Checker
from harness.faults import Fault, Op, Script
from harness.outcome import Outcome
from harness.worlds.stack.members import World

UNSUPPORTED: Final = (
    faults.Flaky, faults.Reorder,  # they need an election channel that loses messages; here it is a stream
    faults.DoubleLinks, faults.Overflow,  # they act on messages; here are only bytes
    faults.ClockDrift, faults.ClockFreeze,  # they need a monotonic clock for each server
    faults.Invoke, faults.NodeFault,  # for machines and programs of the user
    faults.CommitPositions, faults.JoinGroup, faults.SlowBroker, faults.SlowStore, faults.StrikeWrite,
    faults.ThrottleReplica,
)  # fmt: skip
"""The items that this world does not support. Some others have a special meaning here:

Loss  Every channel is a stream here: lost data is sent again, and arrives late.
Pause  Nothing reaches the server or leaves it, and none of its tasks runs until the end. All servers share Trio's
    clock, which goes on: at the end all timers of the pause are overdue at once.
When, CrashIn  Messages leave in the turn in which the node hands them out; those after the moment do not.
"""


def can(item: Fault | Op) -> bool:
    if isinstance(item, faults.Produce) and item.acks == "none":
        return False
    if isinstance(item, faults.CrashIn | faults.LosePower) and item.calls:
        return False
    return not isinstance(item, UNSUPPORTED) and not (isinstance(item, faults.When) and item.does == "freeze clock")


def run(script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> Outcome:
    """Run a script without the items that this world cannot carry out: see `World.playable`."""
    return world_of(WORLD.playable(script).script, trace=trace, checkers=checkers).run()


def world_of(script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> World:
    """Return the world for the system under test that the script names. Its code is imported when it is needed."""
    made: type[World] = World
    if script.machine == "controller":
        from harness.worlds.stack.controller.world import ControllerWorld as made
    elif script.machine == "partitions":
        from harness.worlds.stack.brokers.world import BrokersWorld as made
    elif script.machine != "list":
        from harness.worlds.stack.store.world import StoreWorld as made
    return made(script, trace=trace, checkers=checkers)


WORLD: Final = worlds.World("stack", "complete members on virtual time", can, run)
