"""The language in which a run is written down: topology, timing, workload and faults, all plain frozen data.

A script is all that a run depends on. It is printed, stored as JSON, replayed, and made smaller by taking
things out of it; therefore every fault carries its own end (`for_ms`, `down_ms`) and nothing in a script
refers to anything else in it. Where a fault names a server, `LEADER` and `FOLLOWER` mean whoever is that
when the fault strikes, so that a script keeps its meaning when something before it was taken out.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import field, frozen

LEADER: Final = 0
"""Whoever leads at that moment; nobody when nobody does."""

FOLLOWER: Final = -1
"""The first server that follows the one that leads at that moment."""

LOSSES: Final = ("keep", "lose", "tear")
"""What a crash does to what no fsync has covered: all of it survives, all is lost, or chance decides by the sector."""

SAYS: Final = (
    "FollowerInfo", "LeaderInfo", "AckEpoch", "Diff", "Trunc", "SnapBegin", "SnapEnd", "NewLeader", "AckNewLeader",
    "UpToDate", "Propose", "Ack", "Commit",
)  # fmt: skip
WRITES: Final = ("SaveEpochs", "Append", "Truncate", "BeginSnapshot", "SnapshotChunk", "InstallSnapshot")
MOMENTS: Final = (
    *(f"before sending {word}" for word in SAYS),
    *(f"after sending {word}" for word in SAYS),
    *(f"before writing {word}" for word in WRITES),
    *(f"after writing {word}" for word in WRITES),
)
"""Where an aimed crash may strike: between two acts of a server, named by one of them."""

DISK_ERRORS: Final = ("write", "fsync", "full")


# -- faults of the network -----------------------------------------------------------------------------


@frozen
class Partition:
    """Only servers that are in a common group hear each other. Groups may overlap: that makes a bridge."""

    at: int
    for_ms: int
    groups: tuple[tuple[int, ...], ...]


@frozen
class Isolate:
    """One server hears nobody, and nobody hears it."""

    at: int
    for_ms: int
    server: int


@frozen
class OneWay:
    """What `source` says does not reach `target`; the other direction works."""

    at: int
    for_ms: int
    source: int
    target: int


@frozen
class Deaf:
    """The server can speak, but hears nobody."""

    at: int
    for_ms: int
    server: int


@frozen
class Clog:
    """What `source` says to `target` is held back, and comes in one burst at the end."""

    at: int
    for_ms: int
    source: int
    target: int


@frozen
class CutLinks:
    """Every link of the server breaks now, and may be dialled again at once."""

    at: int
    server: int


@frozen
class Flaky:
    """The election channel loses and doubles messages, and everything is slow."""

    at: int
    for_ms: int
    loss_percent: int
    double_percent: int
    slower: int


# -- faults of a process -------------------------------------------------------------------------------


@frozen
class Crash:
    at: int
    down_ms: int
    server: int
    loss: str


@frozen
class CrashAll:
    at: int
    down_ms: int
    loss: str


@frozen
class CrashIn:
    """A crash right before the server's n-th act from here on: before a word leaves, before a write is done or told."""

    at: int
    down_ms: int
    server: int
    acts: int
    loss: str


DEEDS: Final = ("crash", "crash all", "cut", "isolate", "pause", "lose disk")


@frozen
class When:
    """An aimed fault: the n-th time that a server (`None`: any) comes to this moment, something is done to it.

    It crashes, alone or with everybody; its links break; it is isolated; it stands still; its disk is lost.
    """

    at: int
    for_ms: int
    server: int | None
    moment: str
    nth: int
    does: str
    loss: str


@frozen
class Pause:
    """The process stands still, while time goes on and its peers wait."""

    at: int
    for_ms: int
    server: int


# -- faults of a disk ----------------------------------------------------------------------------------


@frozen
class LoseDisk:
    """The server crashes and comes back with an empty disk."""

    at: int
    down_ms: int
    server: int


@frozen
class FlipBit:
    """The server crashes, one bit of what it stored turns over, and it comes back. `where` is a share of 1000."""

    at: int
    down_ms: int
    server: int
    where: int


@frozen
class FailDisk:
    """The n-th call from now fails with this error. The server must stop; it is started again later."""

    at: int
    down_ms: int
    server: int
    error: str
    nth: int


@frozen
class SlowDisk:
    at: int
    for_ms: int
    server: int
    slower: int


Fault: TypeAlias = (
    Partition | Isolate | OneWay | Deaf | Clog | CutLinks | Flaky
    | Crash | CrashAll | CrashIn | When | Pause
    | LoseDisk | FlipBit | FailDisk | SlowDisk
)  # fmt: skip
FAULTS: Final[tuple[type[Fault], ...]] = (
    Partition, Isolate, OneWay, Deaf, Clog, CutLinks, Flaky,
    Crash, CrashAll, CrashIn, When, Pause,
    LoseDisk, FlipBit, FailDisk, SlowDisk,
)  # fmt: skip


# -- workload ------------------------------------------------------------------------------------------


@frozen
class Write:
    """`count` transactions in one proposal, at every server that believes it leads."""

    at: int
    count: int
    size: int


@frozen
class Barrier:
    """Asked of one server, whatever it is at that moment."""

    at: int
    server: int


@frozen
class Snapshot:
    """The server stores its state and purges what that makes superfluous."""

    at: int
    server: int


CHANGES: Final = ("add", "remove", "observe", "promote")


@frozen
class Reconfigure:
    """A membership change, asked of every server that believes it leads."""

    at: int
    change: str
    server: int


# -- what clients of the store do; only where the replicated machine is the store ------------------------


@frozen
class Connect:
    """The client begins a session at this server, or takes the one that it has there."""

    at: int
    client: int
    server: int
    timeout_ms: int


@frozen
class Step:
    """One operation on the store. `size` is that of the data, which is another one each time."""

    op: str
    path: str = ""
    version: int = -1
    mode: str = ""
    watch: str = ""
    size: int = 8


@frozen
class Ask:
    """The client asks, whether or not its last answer has come. Several steps are one multi."""

    at: int
    client: int
    steps: tuple[Step, ...]


@frozen
class Leave:
    """The client closes its session."""

    at: int
    client: int


@frozen
class Vanish:
    """The client's process stands still, its connection breaks, and its session may well expire meanwhile."""

    at: int
    for_ms: int
    client: int


Op: TypeAlias = Write | Barrier | Snapshot | Reconfigure | Connect | Ask | Leave | Vanish
OPS: Final[tuple[type[Op], ...]] = (Write, Barrier, Snapshot, Reconfigure, Connect, Ask, Leave, Vanish)
MACHINES: Final = ("list", "store")
"""What is replicated: a list of all that was ever written, or the coordination store with its clients."""


# -- the whole -----------------------------------------------------------------------------------------


@frozen
class Timing:
    """How fast this world is, in microseconds unless said. Chance decides within these bounds."""

    delay_us_min: int = 100
    delay_us_max: int = 2_000
    spike_percent: int = 0
    spike_us_max: int = 50_000
    fsync_us_min: int = 100
    fsync_us_max: int = 3_000
    turn_us_max: int = 0
    """A server drains its inbox at most this long before it acts on what it heard; 0 acts on each message."""
    loss_percent: int = 0
    double_percent: int = 0
    break_ms_max: int = 300
    """A link through a direction that is blocked for this long breaks, perhaps earlier."""


@frozen
class Knobs:
    """The settings of the servers. Small, so that a short run sees every form of synchronization."""

    tick_ms: int = 100
    init_limit: int = 6
    sync_limit: int = 4
    finalize_wait_ms: int = 20
    notification_ms_min: int = 20
    notification_ms_max: int = 320
    dial_retry_ms: int = 10
    window_entries: int = 16
    log_sync_entries_max: int = 60
    outstanding_max: int = 1_000
    counter_max: int = 0xFFFF_FFFF
    snapshot_every: int = 30
    """Transactions between two local snapshots."""
    segment_bytes: int = 1_024
    chunk_bytes: int = 256


@frozen
class Script:
    """A run is a function of this. `seed` decides delays and everything else that is left to chance inside."""

    seed: int
    voters: int = 3
    observers: int = 0
    machine: str = "list"
    length_ms: int = 3_000
    timing: Timing = field(factory=Timing)
    knobs: Knobs = field(factory=Knobs)
    ops: tuple[Op, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def servers(self) -> int:
        return self.voters + self.observers
