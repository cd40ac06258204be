"""A script: topology, timing, workload and faults, all plain frozen data.

A script determines its run completely. It can be printed, stored as JSON, run again, and shrunk by removing parts.
Therefore no part refers to another part.
"""

from __future__ import annotations

from typing import Final

from attrs import field, frozen

from harness.script.brokers import BROKER_OPS, PARTITION_OPS
from harness.script.constants import Drawn
from harness.script.faults import Fault
from harness.script.workload import STORE_OPS, Op

OPS: Final = (*STORE_OPS, *BROKER_OPS, *PARTITION_OPS)


@frozen
class Timing:
    """The speed of the simulated world, in microseconds unless a name has another unit. Delays are random within it."""

    delay_us_min: int = 100
    delay_us_max: int = 2_000
    spike_percent: int = 0
    spike_us_max: int = 50_000
    fsync_us_min: int = 100
    fsync_us_max: int = 3_000
    turn_us_max: int = 0
    """The time for which a server collects messages before it processes them; 0: it processes each at once."""
    loss_percent: int = 0
    double_percent: int = 0
    break_ms_max: int = 300
    """The time after which a link with a blocked direction breaks at the latest."""
    late_percent: int = 0
    """The share of breaking links whose messages under way still arrive, before their receiver notices the end."""


@frozen
class Knobs:
    """The settings of the servers. They are small, so that a short run reaches every form of synchronization."""

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
    """The number of transactions between two local snapshots."""
    segment_bytes: int = 1_024
    chunk_bytes: int = 256
    local_sessions: int = 0
    """1: new sessions are local to their server; 2: they become global when they create an ephemeral node."""
    read_only_ms: int = 0
    """The time without a leader after which a server serves reads to clients that accept it; 0: never."""
    open_requests: int = 0
    """The limit of open requests of all clients of a server, above which others wait; 0: no limit."""
    wait_ms: int = 0
    """The time for which requests wait because of `open_requests` before they are refused; 0: for ever."""
    large_bytes: int = 0
    """A request of more bytes is large, and a server has memory for few of them; 0: none is large."""
    connection_tokens: int = 0
    """The number of connections that a server accepts at once; 0: no limit."""
    read_work_max: int = 0
    """The limit of work of the reads of one pass before other tasks run; 0: the product's limit."""
    scans_behind_max: int = 0
    """The limit of scans of a connection that wait for its writes; 0: the product's limit."""
    report_sessions_max: int = 0
    """The limit of sessions in one report to the leader; 0: the product's limit."""
    impolite_percent: int = 0
    """The share of its connections in which a client presents a session that it had earlier."""
    closed_loop: int = 0
    """How many writes clients of the list keep outstanding at each server that believes it leads, until the healing."""
    quiet_stage: int = 0
    """The stage after the faults in which only a quorum is healed and must answer all requests without a new write.
    0: no such stage; 1: the other servers are down; more: they are cut off."""
    zookeeper_peers: int = 0
    """The servers of the list speak ZooKeeper's protocol, unless it is 0. 1: all servers are ours; 2: those with odd
    ids make durable what a server of ZooKeeper does; more: the membership has no version either."""
    zookeeper_servers: int = 0
    """The number of voters that are real servers of Apache ZooKeeper, in the world processes. All others are ours, and
    speak its protocol."""


INNER_BOUNDS: Final = ("read_work_max", "scans_behind_max", "report_sessions_max")
"""The settings for limits of the product that no operator sets."""


@frozen
class Script:
    """The input of a run, which is a function of its script. All random choices of the run come from `seed`."""

    seed: int
    voters: int = 3
    observers: int = 0
    groups: tuple[tuple[int, ...], ...] = ()
    """The voters of each group of hierarchical quorums; empty: a majority is a quorum."""
    weights: tuple[int, ...] = ()
    """The weights of the voters, in the order of their ids; empty: one each."""
    machine: str = "list"
    brokers: int = 0
    """The number of brokers, if the machine has any."""
    nodes: int = 0
    """The number of nodes, if the machine is a program of the user (`harness.program`)."""
    length_ms: int = 3_000
    timing: Timing = field(factory=Timing)
    knobs: Knobs = field(factory=Knobs)
    constants: tuple[Drawn, ...] = ()
    """The constants of the product that the run changes; the others have their usual values."""
    ops: tuple[Op, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def items(self) -> tuple[Fault | Op, ...]:
        return (*self.faults, *self.ops)

    @property
    def servers(self) -> int:
        return self.voters + self.observers
