"""Coverage probes: situations that must occur somewhere in a campaign. A probe that is never hit shows that the faults
miss their purpose.

The budget of a probe is the number of runs of the usual size in which it must have been hit: about five times the
measured average, and at least fifty. A healthy campaign of exactly that many runs misses one probe about once in a
hundred times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from attrs import frozen

PREFIX: Final = "point: "
"""The prefix of a probe's name in the counts of an outcome."""


@frozen
class Probe:
    name: str
    what: str
    budget: int
    """The number of usual runs of which at least one must hit the probe."""
    store: bool = False
    """True if the probe needs clients of the store."""


OF_SERVERS: Final[tuple[Probe, ...]] = (
    # -- leaders -----------------------------------------------------------------------------------------
    Probe(
        "quorum acked, leader dies", "a quorum has the transaction on disk, and the leader ends before it commits", 200
    ),
    Probe("unacked, leader dies", "the leader ends, and its proposal is not on the disks of a quorum", 100),
    Probe(
        "leader behind its commit", "a leader commits a transaction that a quorum has on disk, but not its own disk", 50
    ),
    Probe("deposed leader serves", "an epoch begins while the leader of an older one still serves", 100),
    Probe(
        "deposed leader gets barrier", "a deposed leader receives a barrier request, and ends without a reply", 1_000
    ),
    Probe("two candidates", "two servers consider themselves elected at the same time", 50),
    Probe("candidate fails", "an elected leader gives up before its epoch begins", 200),
    Probe("late voter", "a server ends its election because it finds a serving leader", 50),
    Probe("epochs skipped", "an epoch begins, and the epoch before it never began", 100),
    Probe("epoch without a transaction", "an epoch begins with the same history as the epoch before it", 50),
    # -- histories ---------------------------------------------------------------------------------------
    Probe("tail inherited", "an epoch begins with transactions that may or may not be committed", 50),
    Probe("tail decided", "a leader commits a proposal of an earlier leader", 50),
    Probe("histories diverge", "an epoch begins while another server has transactions that its leader lacks", 200),
    Probe("own tail truncated", "a former leader truncates its own proposals", 100),
    Probe("long truncation", "a truncation removes more than one batch", 500),
    Probe("sync diff", "a learner is synchronized by DIFF", 50),
    Probe("sync trunc", "a learner is synchronized by TRUNC", 100),
    Probe("sync snap", "a learner is synchronized by SNAP", 50),
    Probe("sync from disk", "the missing batches are no longer in the leader's memory, and come from its log", 50),
    Probe("NEWLEADER unanswered", "a learner ends, or leaves, before it has adopted the epoch", 50),
    Probe("late acknowledgement", "a server acknowledges a transaction that is already committed", 50),
    # -- disks -------------------------------------------------------------------------------------------
    Probe("dies in a snapshot", "a learner ends while it writes a snapshot from its leader", 1_000),
    Probe("dies after a truncation", "a server ends after a truncation, before it has adopted the epoch", 1_000),
    Probe("dies at adoption", "a server ends while history and epoch are on their way to its disk", 1_000),
    Probe("unreported write found", "a restart finds writes that were never reported as durable", 200),
    Probe("healed by a snapshot", "a server that lost its disk receives the leader's state", 50),
    Probe("old disk unnoticed", "a server starts with an old state of its disk, and cannot notice it", 100),
    Probe("readmitted", "a server that lost its promises counts again", 50),
    Probe("all servers down", "all servers are down at the same time", 200),
    # -- memberships -------------------------------------------------------------------------------------
    Probe(
        "observer promoted under load",
        "a change makes an observer a voter while transactions are outstanding",
        1_000,
    ),
    Probe("leader leaves", "a leader proposes a membership in which it has no vote", 100),
    Probe("change inherited", "an epoch begins with a membership change that may or may not be committed", 1_000),
    # -- clients -----------------------------------------------------------------------------------------
    Probe("expiry races a create", "a session expires while the outcome of one of its creates is unknown", 500, True),
    Probe("session moves", "a session continues at another server", 50, True),
    Probe("watch fires on return", "a watch that is set again on reconnection fires at once", 300, True),
    Probe("multi refused in the middle", "a multi fails at an operation that is not its first", 50, True),
    Probe("wrong version", "a write fails because another client was faster", 50, True),
    Probe("unknown outcome", "a write without a reply was carried out", 50, True),
    Probe("unknown and undone", "a write without a reply was not carried out", 50, True),
)

OF_PARTITIONS: Final[tuple[Probe, ...]] = (
    Probe("high watermark behind", "a new leader's high watermark is behind the newest one", 50),
    Probe("logs diverge", "a new leader lacks records that another replica has", 50),
    Probe("follower truncates", "a follower truncates records that its leader lacks", 50),
    Probe("two leaders", "a leader appends records while the store names another leader", 50),
    Probe(
        "joins ISR during writes", "a replica joins the ISR while some of its leader's records are not committed", 50
    ),
    Probe("only one in sync", "only one of several replicas is in sync", 50),
    Probe("elected unclean", "a replica outside of the ISR is elected", 200),
    Probe("log start advances", "a log start advances, by retention or DeleteRecords", 50),
    Probe("power failure loses records", "a broker lacks records after a power failure", 500),
    Probe("ISR member lost records", "a member of the ISR has lost committed records on its disk", 50),
)
"""The probes of partitions. `harness.checkers.partitions` counts them."""

NAMES: Final = frozenset(probe.name for probe in (*OF_SERVERS, *OF_PARTITIONS))
"""The names of all probes, which are distinct."""
assert len(NAMES) == len(OF_SERVERS) + len(OF_PARTITIONS)


def probes_of(machine: str) -> tuple[Probe, ...]:
    """Return the probes of this machine; empty for machines without budgets."""
    if machine == "partitions":
        return OF_PARTITIONS
    if machine not in ("list", "store"):
        return ()
    return tuple(probe for probe in OF_SERVERS if machine == "store" or not probe.store)


def counted_as(name: str) -> str:
    assert name in NAMES, name
    return PREFIX + name


def missed(counts: Mapping[str, int], probes: Iterable[Probe]) -> list[Probe]:
    """Return the probes that a campaign never hit."""
    return [probe for probe in probes if not counts.get(PREFIX + probe.name)]
