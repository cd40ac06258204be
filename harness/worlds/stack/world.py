"""The interface of the simulated runtime: the items of a script that it supports, and a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness import worlds
from harness.checkers import ALL, Checker
from harness.faults import (
    BROKER_OPS,
    AllowUnclean,
    Apart,
    Barrier,
    Blackout,
    BreakDisk,
    ClockSkew,
    ClockStep,
    ClockStrobe,
    Clog,
    Consume,
    Crash,
    CrashAll,
    CrashIn,
    CutBroker,
    CutLinks,
    Deaf,
    Delay,
    DeleteRecords,
    FailDisk,
    Fault,
    FlipBit,
    FullDisk,
    Isolate,
    LoseDisk,
    LoseFsync,
    LosePower,
    Loss,
    MisdirectRecord,
    OldDisk,
    OneWay,
    Op,
    PartBrokers,
    Partition,
    Pause,
    Produce,
    Reconfigure,
    Replication,
    Restart,
    RollingRestart,
    Script,
    Setting,
    SlowDisk,
    Snapshot,
    Split,
    StrikeWrite,
    Swizzle,
    Transact,
    When,
    WipeBroker,
    Write,
)
from harness.outcome import Outcome
from harness.worlds.stack.members import World

CAN: Final = (
    Partition, Split, Isolate, Apart, OneWay, Deaf, Clog, Swizzle, Delay, Loss, CutLinks,
    Crash, CrashAll, CrashIn, When, Pause, Restart, RollingRestart, Setting, ClockStep, ClockSkew, ClockStrobe,
    LoseDisk, OldDisk, FlipBit, MisdirectRecord, LoseFsync, FailDisk, FullDisk, SlowDisk,
    Write, Barrier, Snapshot, Reconfigure, *worlds.CLIENT_OPS, *BROKER_OPS,
    Produce, Consume, DeleteRecords, AllowUnclean, LosePower, Blackout, WipeBroker, BreakDisk, CutBroker, PartBrokers,
    Replication, Transact,
)  # fmt: skip
"""The items that this world supports. Some have a special meaning here:

Loss  Every channel is a stream here: lost data is sent again, and arrives late.
Pause  Nothing reaches the server or leaves it, and none of its tasks runs until the end. All servers share Trio's
    clock, which goes on: at the end all timers of the pause are overdue at once.
When, CrashIn  Messages leave in the turn in which the node hands them out; those after the moment do not.

Not supported are Flaky and Reorder, which need an election channel that loses messages (here it is a stream);
DoubleLinks and Overflow, which act on messages (here are only bytes); ClockDrift and ClockFreeze, which need a
monotonic clock for each server.
"""


def can(item: Fault | Op) -> bool:
    if isinstance(item, Produce) and item.acks == "none":
        return False
    if isinstance(item, StrikeWrite) or (isinstance(item, CrashIn | LosePower) and item.calls):
        return False
    return isinstance(item, CAN) and not (isinstance(item, When) and item.does == "freeze clock")


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
