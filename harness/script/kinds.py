"""How often each kind is drawn, and from which values: one table, for scripts from a seed and for Hypothesis.

The values are near what a run of a few seconds is about. A script that is written by hand may say anything that
makes sense.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from attrs import frozen

from harness.script.brokers import (
    WAYS,
    Balance,
    BounceBroker,
    BrokerOp,
    CancelMove,
    CreateTopic,
    DeleteTopic,
    Depart,
    ElectPreferred,
    GrowTopic,
    KillBroker,
    LoseController,
    LoseStore,
    PauseBroker,
    Reassign,
    Resign,
)
from harness.script.disks import FailDisk, FlipBit, FullDisk, LoseDisk, LoseFsync, MisdirectRecord, OldDisk, SlowDisk
from harness.script.names import DEEDS, DISK_ERRORS, LOSSES, MANNERS, MOMENTS, SHAPES
from harness.script.network import (
    Apart,
    Clog,
    CutLinks,
    Deaf,
    Delay,
    DoubleLinks,
    Flaky,
    Isolate,
    Loss,
    OneWay,
    Overflow,
    Partition,
    Reorder,
    Split,
    Swizzle,
)
from harness.script.partitions import (
    ACKS,
    DURABILITIES,
    READS,
    TRUNCATIONS,
    UNCLEAN,
    AllowUnclean,
    Blackout,
    BreakDisk,
    CutBroker,
    DeleteRecords,
    LosePower,
    PartBrokers,
    PartitionOp,
    SlowBroker,
    WipeBroker,
)
from harness.script.process import (
    ClockDrift,
    ClockFreeze,
    ClockSkew,
    ClockStep,
    ClockStrobe,
    Crash,
    CrashAll,
    CrashIn,
    Pause,
    Restart,
    RollingRestart,
    Setting,
    When,
)
from harness.script.script import Fault

# -- values --------------------------------------------------------------------------------------------


@frozen
class Upto:
    """Any number from the least to the most."""

    least: int
    most: int


@frozen
class Short:
    """A number rather near the least."""

    least: int
    most: int


@frozen
class Among:
    """One of these, as often as it stands there."""

    values: tuple[str | int, ...]


@frozen
class Who:
    """A server, and often the one that leads: that is where things happen."""


@frozen
class Sid:
    """A server by its number."""


@frozen
class Anyone:
    """Whoever comes to the moment, or now and then a certain server."""


@frozen
class Groups:
    """Two groups of a partition, now and then with a bridge between them."""


@frozen
class Together:
    """Several fields that only make sense together: one of these."""

    options: tuple[Mapping[str, Value], ...]


Value: TypeAlias = Upto | Short | Among | Who | Sid | Anyone | Groups | Together


@frozen
class Kind:
    weight: float
    """How often it is part of a run, and how often it strikes when it is."""
    fields: Mapping[str, Value]


LASTING: Final = Short(10, 1_500)
DOWN: Final = Short(1, 900)
LOSS: Final = Among(LOSSES)

SETTINGS: Final = Together(
    tuple(
        {"knob": Among((knob,)), "value": value}
        for knob, value in (
            ("tick_ms", Among((50, 100, 200))),
            ("init_limit", Upto(3, 10)),
            ("sync_limit", Upto(3, 8)),
            ("window_entries", Short(2, 60)),
            ("log_sync_entries_max", Upto(0, 20)),
            ("outstanding_max", Upto(2, 20)),
            ("snapshot_every", Upto(3, 60)),
            ("segment_bytes", Upto(300, 3_000)),
            ("chunk_bytes", Upto(20, 600)),
        )
    )
)


# -- the table -----------------------------------------------------------------------------------------

KINDS: Final[Mapping[type[Fault], Kind]] = {
    Crash: Kind(3.0, {"down_ms": DOWN, "server": Who(), "loss": LOSS}),
    CrashAll: Kind(1.0, {"down_ms": DOWN, "loss": LOSS}),
    CrashIn: Kind(2.0, {"down_ms": DOWN, "server": Who(), "acts": Short(1, 60), "loss": LOSS}),
    When: Kind(
        4.0,
        {
            "for_ms": DOWN,
            "server": Anyone(),
            "moment": Among((*MOMENTS, *MOMENTS[-2:])),
            "nth": Short(1, 4),
            "does": Among((*DEEDS, *DEEDS[:1] * 4)),
            "loss": LOSS,
        },
    ),
    Pause: Kind(1.0, {"for_ms": LASTING, "server": Who()}),
    Restart: Kind(0.7, {"down_ms": Short(1, 400), "server": Who()}),
    RollingRestart: Kind(0.4, {"down_ms": Short(1, 300), "wait_ms": Short(1, 400), "manner": Among(MANNERS)}),
    Setting: Kind(0.4, {"for_ms": LASTING, "server": Who(), "": SETTINGS}),
    Partition: Kind(1.5, {"for_ms": LASTING, "groups": Groups()}),
    Split: Kind(1.0, {"for_ms": LASTING, "shape": Among(SHAPES), "server": Who()}),
    Isolate: Kind(2.0, {"for_ms": LASTING, "server": Who()}),
    Apart: Kind(0.7, {"for_ms": LASTING, "source": Who(), "target": Sid()}),
    OneWay: Kind(1.0, {"for_ms": LASTING, "source": Who(), "target": Sid()}),
    Deaf: Kind(0.7, {"for_ms": LASTING, "server": Who()}),
    Clog: Kind(1.5, {"for_ms": Short(5, 600), "source": Who(), "target": Sid()}),
    Swizzle: Kind(0.7, {"for_ms": Short(20, 800)}),
    Overflow: Kind(0.7, {"for_ms": Short(150, 1_500), "source": Who(), "target": Sid(), "most": Short(1, 4)}),
    Delay: Kind(0.5, {"for_ms": LASTING, "source": Who(), "target": Sid(), "more_ms": Short(1, 150)}),
    Loss: Kind(0.5, {"for_ms": LASTING, "source": Who(), "target": Sid(), "percent": Upto(5, 90)}),
    Flaky: Kind(
        0.7, {"for_ms": LASTING, "loss_percent": Upto(0, 40), "double_percent": Upto(0, 40), "slower": Upto(1, 6)}
    ),
    Reorder: Kind(0.5, {"for_ms": LASTING, "percent": Upto(5, 70), "hold_ms": Short(1, 400)}),
    CutLinks: Kind(1.0, {"server": Who()}),
    DoubleLinks: Kind(0.5, {"server": Who()}),
    ClockDrift: Kind(0.5, {"for_ms": LASTING, "server": Who(), "rate_percent": Among((10, 50, 80, 120, 200, 500))}),
    ClockFreeze: Kind(0.5, {"for_ms": LASTING, "server": Who()}),
    ClockStep: Kind(0.3, {"server": Who(), "by_ms": Among((-3_600_000, -500, 500, 60_000))}),
    ClockSkew: Kind(0.3, {"for_ms": LASTING, "server": Who(), "by_ms": Among((-60_000, -200, 200, 3_600_000))}),
    ClockStrobe: Kind(
        0.3, {"for_ms": LASTING, "server": Who(), "by_ms": Among((-1_000, 10, 1_000)), "every_ms": Short(5, 200)}
    ),
    LoseDisk: Kind(1.0, {"down_ms": DOWN, "server": Who()}),
    OldDisk: Kind(0.7, {"for_ms": Short(10, 800), "down_ms": DOWN, "server": Who()}),
    FlipBit: Kind(1.0, {"down_ms": DOWN, "server": Who(), "where": Upto(0, 999)}),
    MisdirectRecord: Kind(0.7, {"down_ms": DOWN, "server": Who(), "where": Upto(0, 999)}),
    LoseFsync: Kind(0.7, {"for_ms": Short(5, 600), "down_ms": DOWN, "server": Who(), "loss": LOSS}),
    FailDisk: Kind(0.7, {"down_ms": DOWN, "server": Who(), "error": Among(DISK_ERRORS), "nth": Short(1, 8)}),
    FullDisk: Kind(0.5, {"for_ms": LASTING, "server": Who(), "room": Short(0, 800)}),
    SlowDisk: Kind(0.7, {"for_ms": LASTING, "server": Who(), "slower": Upto(2, 60)}),
}
"""Every kind of fault. When a run has it, its weight is drawn anew, so that runs differ in what happens most."""

# -- clients of the store ------------------------------------------------------------------------------

CLIENTS_MAX: Final = 4
PARENTS: Final = ("/a", "/b")
CHILDREN: Final = ("/a/x", "/a/y", "/b/x", "/b/x/z")
PATHS: Final = (*PARENTS, *CHILDREN)
VERSION: Final = Among((-1, -1, -1, 0, 0, 1, 1, 2, 3))
"""Of a node that is seldom changed the version is often one of these, and often another one of these."""
SIZE: Final = Short(0, 60)

TAKEN_BACK: Final = ("", "data", "children", "persistent", "recursive")
"""Which watches `unwatch` is about; the empty one is all at that node."""

STEPS: Final[tuple[Kind, ...]] = (
    Kind(2.0, {"op": Among(("create",)), "path": Among(PATHS), "size": SIZE}),
    Kind(1.5, {"op": Among(("create",)), "path": Among(CHILDREN), "mode": Among(("ephemeral",)), "size": SIZE}),
    Kind(
        1.0,
        {
            "op": Among(("create",)),
            "path": Among(("/a/s-", "/b/s-")),
            "mode": Among(("sequential", "ephemeral sequential")),
            "size": SIZE,
        },
    ),
    Kind(3.0, {"op": Among(("set",)), "path": Among(PATHS), "version": VERSION, "size": SIZE}),
    Kind(1.0, {"op": Among(("delete",)), "path": Among((*CHILDREN, *CHILDREN, *PARENTS)), "version": VERSION}),
    Kind(3.0, {"op": Among(("get",)), "path": Among(PATHS), "watch": Among(("", "", "once"))}),
    Kind(1.0, {"op": Among(("exists",)), "path": Among(PATHS), "watch": Among(("", "once"))}),
    Kind(1.2, {"op": Among(("children",)), "path": Among((*PARENTS, *PATHS)), "watch": Among(("", "once"))}),
    Kind(0.5, {"op": Among(("watch",)), "path": Among(PATHS), "watch": Among(("persistent", "recursive"))}),
    Kind(0.6, {"op": Among(("unwatch",)), "path": Among(PATHS), "watch": Among(TAKEN_BACK)}),
    Kind(0.7, {"op": Among(("sync",)), "path": Among(PARENTS)}),
)
"""What clients ask."""

PARTS: Final[tuple[Kind, ...]] = (
    *(kind for kind in STEPS if kind.fields["op"] in (Among(("create",)), Among(("set",)), Among(("delete",)))),
    Kind(2.0, {"op": Among(("check",)), "path": Among(PATHS), "version": VERSION}),
)
"""What may be part of a multi."""

PARTS_MAX: Final = 4

# -- brokers and their controller ----------------------------------------------------------------------

BROKERS_MIN, BROKERS_MAX = 3, 5
TOPICS_MAX: Final = 3
_TOPIC: Final = Upto(1, TOPICS_MAX)
_PARTITION: Final = Short(0, 2)
_FACTOR: Final = Among((1, 2, 2, 3, 3))
_BROKER: Final = Among((0, 0, 1, 2, 3, 4, 5))
"""0: the controller."""

BROKER_KINDS: Final[Mapping[type[BrokerOp], Kind]] = {
    CreateTopic: Kind(2.0, {"topic": _TOPIC, "partitions": Upto(1, 3), "factor": _FACTOR}),
    GrowTopic: Kind(1.0, {"topic": _TOPIC, "partitions": Upto(1, 2)}),
    DeleteTopic: Kind(1.0, {"topic": _TOPIC}),
    Reassign: Kind(
        4.0,
        {"topic": _TOPIC, "partition": _PARTITION, "first": Upto(1, 5), "factor": _FACTOR, "way": Among(WAYS)},
    ),
    CancelMove: Kind(1.0, {"topic": _TOPIC, "partition": _PARTITION}),
    ElectPreferred: Kind(1.0, {"topic": _TOPIC, "partition": _PARTITION, "way": Among(WAYS)}),
    Balance: Kind(0.7, {}),
    Resign: Kind(1.0, {}),
    KillBroker: Kind(3.0, {"down_ms": Short(1, 2_000), "broker": _BROKER}),
    BounceBroker: Kind(2.0, {"broker": _BROKER}),
    Depart: Kind(1.5, {"down_ms": Short(1, 1_500), "broker": _BROKER}),
    PauseBroker: Kind(2.0, {"for_ms": Short(10, 3_000), "broker": _BROKER}),
    LoseStore: Kind(2.0, {"for_ms": Short(10, 3_000), "broker": _BROKER}),
    LoseController: Kind(1.5, {"for_ms": Short(10, 1_000), "broker": _BROKER}),
}
"""What people ask of a controller, and what happens to it and to its brokers."""

# -- partitions ----------------------------------------------------------------------------------------

HELD_MAX: Final = 2
"""Topics, and partitions of each, where brokers have data: much happens to few."""
_HELD: Final = Among((1, 1, 2))
_SLICE: Final = Among((0, 0, 1))
_CLIENT: Final = Upto(1, 3)
PATIENCE: Final = Among((300, 300, 300, 600, 1_500, 3_000, 3_000))
"""Those who ask anew soon see more of what happens; who waits long is still there when a leader that was deposed leads
again."""
SET_UP: Final[Mapping[str, Value]] = {
    "durability": Among((*DURABILITIES, DURABILITIES[0])),
    "truncation": Among((*TRUNCATIONS, TRUNCATIONS[0])),
    "reads": Among(READS),
    "in_sync": Among((1, 1, 2)),
    "lag_ms": Upto(150, 500),
    "retention_bytes": Among((0, 0, 600, 2_000)),
    "timeout_ms": PATIENCE,
}
PRODUCE: Final[Mapping[str, Value]] = {
    "client": _CLIENT, "topic": _HELD, "partition": _SLICE, "count": Short(1, 8), "acks": Among((*ACKS[:1] * 3, *ACKS)),
}  # fmt: skip
CONSUME: Final[Mapping[str, Value]] = {"client": _CLIENT, "topic": _HELD, "partition": _SLICE}

PARTITION_KINDS: Final[Mapping[type[BrokerOp | PartitionOp], Kind]] = {
    KillBroker: Kind(3.0, {"down_ms": Short(1, 1_500), "broker": _BROKER}),
    BounceBroker: Kind(2.0, {"broker": _BROKER}),
    Depart: Kind(1.0, {"down_ms": Short(1, 1_000), "broker": _BROKER}),
    PauseBroker: Kind(2.0, {"for_ms": Short(10, 2_000), "broker": _BROKER}),
    LoseStore: Kind(1.5, {"for_ms": Short(10, 2_000), "broker": _BROKER}),
    LoseController: Kind(1.0, {"for_ms": Short(10, 1_000), "broker": _BROKER}),
    Resign: Kind(0.5, {}),
    Reassign: Kind(
        1.0, {"topic": _HELD, "partition": _SLICE, "first": Upto(1, 4), "factor": _FACTOR, "way": Among(WAYS)}
    ),
    CancelMove: Kind(0.5, {"topic": _HELD, "partition": _SLICE}),
    ElectPreferred: Kind(1.0, {"topic": _HELD, "partition": _SLICE, "way": Among(WAYS)}),
    GrowTopic: Kind(0.3, {"topic": _HELD, "partitions": Upto(1, 1)}),
    DeleteTopic: Kind(0.3, {"topic": _HELD}),
    CreateTopic: Kind(0.5, {"topic": _HELD, "partitions": Upto(1, 2), "factor": _FACTOR}),
    DeleteRecords: Kind(1.0, {"topic": _HELD, "partition": _SLICE, "percent": Among((20, 50, 90, 100))}),
    AllowUnclean: Kind(0.7, {"topic": _HELD, "unclean": Among((*UNCLEAN[:1] * 2, *UNCLEAN))}),
    LosePower: Kind(2.0, {"down_ms": Short(1, 1_500), "broker": _BROKER, "loss": LOSS}),
    Blackout: Kind(0.5, {"down_ms": Short(1, 600), "loss": LOSS}),
    WipeBroker: Kind(0.7, {"down_ms": Short(1, 1_000), "broker": _BROKER}),
    BreakDisk: Kind(
        0.7, {"down_ms": Short(100, 1_000), "broker": _BROKER, "error": Among(DISK_ERRORS), "nth": Short(1, 12)}
    ),
    CutBroker: Kind(2.5, {"for_ms": Short(10, 1_500), "broker": _BROKER}),
    PartBrokers: Kind(2.5, {"for_ms": Short(10, 1_500), "broker": Upto(1, 4), "other": Upto(1, 4)}),
    SlowBroker: Kind(1.0, {"for_ms": Short(50, 1_500), "broker": _BROKER, "more_ms": Short(10, 400)}),
}
"""What happens to brokers that have data. A run has a random few of these."""
FAMILIES: Final = (("/a", "/a/x"), ("/b", "/b/x"), ("/b/x", "/b/x/z"))
FAMILY: Final[Mapping[tuple[str, str], tuple[Kind, ...]]] = {
    (parent, child): (
        Kind(2.0, {"op": Among(("create",)), "path": Among((child,)), "size": SIZE}),
        Kind(1.0, {"op": Among(("create",)), "path": Among((parent,)), "size": SIZE}),
        Kind(2.0, {"op": Among(("delete",)), "path": Among((parent, parent, child))}),
        Kind(1.0, {"op": Among(("set",)), "path": Among((parent, child)), "size": SIZE}),
        Kind(
            1.0, {"op": Among(("children", "get", "exists")), "path": Among((parent, child)), "watch": Among(("once",))}
        ),
    )
    for parent, child in FAMILIES
}
"""What is asked all at once of a node and its child, so that each is judged by what the others will have done."""

AT_ONCE_MAX: Final = 8

FLOOD: Final[Mapping[str, tuple[Kind, ...]]] = {
    parent: (
        Kind(6.0, {"op": Among(("set",)), "path": Among(tuple(path for path in PATHS if path.startswith(parent)))}),
        Kind(2.0, {"op": Among(("create",)), "path": Among((f"{parent}/s-",)), "mode": Among(("sequential",))}),
        Kind(1.0, {"op": Among(("create", "delete")), "path": Among((f"{parent}/x",))}),
    )
    for parent in PARENTS
}
"""Written in one moment, so that whoever is away then may need a snapshot when it is back."""

FLOOD_MAX: Final = 40
