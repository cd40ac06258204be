"""The whole of a script: topology, timing, workload and faults, all plain frozen data.

A script is all that a run depends on. It is printed, stored as JSON, replayed, and made smaller by taking
things out of it; therefore every fault carries its own end (`for_ms`, `down_ms`) and nothing in a script
refers to anything else in it. Where a fault names a server, `LEADER` and `FOLLOWER` mean whoever is that
when the fault strikes, so that a script keeps its meaning when something before it was taken out.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import field, frozen

from harness.script.disks import DISKS, DiskFault
from harness.script.network import NETWORK, NetworkFault
from harness.script.process import PROCESS, ProcessFault
from harness.script.workload import Op

Fault: TypeAlias = NetworkFault | ProcessFault | DiskFault
FAULTS: Final[tuple[type[Fault], ...]] = (*NETWORK, *PROCESS, *DISKS)


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
    local_sessions: int = 0
    """1 or 2: only its server knows a new session of a client. 2: creating an ephemeral node makes it known to all."""
    read_only_ms: int = 0
    """A server without a leader for this long serves reads to clients that accept it; 0: it serves nobody."""
    open_requests: int = 0
    """Unanswered requests of all clients of a server; above it all others wait. 0: as many as may be."""
    wait_ms: int = 0
    """A request that has waited for longer is refused; 0: none is. Only where `open_requests` makes some wait."""
    large_bytes: int = 0
    """A request of more bytes is large, and a server has room for few; 0: none is large."""
    connection_tokens: int = 0
    """Connections that a server admits at once, before it closes more; 0: all."""


@frozen
class Script:
    """A run is a function of this. `seed` decides delays and everything else that is left to chance inside."""

    seed: int
    voters: int = 3
    observers: int = 0
    groups: tuple[tuple[int, ...], ...] = ()
    """Voters by their groups, where a quorum is one of groups; nothing: it is a majority."""
    weights: tuple[int, ...] = ()
    """What each voter counts in its group, in the order of their ids; nothing: one each."""
    machine: str = "list"
    brokers: int = 0
    """Where the machine is the controller."""
    length_ms: int = 3_000
    timing: Timing = field(factory=Timing)
    knobs: Knobs = field(factory=Knobs)
    ops: tuple[Op, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def servers(self) -> int:
        return self.voters + self.observers
