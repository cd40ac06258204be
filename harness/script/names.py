"""The words and numbers that fields of a script may have."""

from __future__ import annotations

from typing import Final

LEADER: Final = 0
"""The server that leads at that time, if any."""

FOLLOWER: Final = -1
"""The first server that follows the leader at that time, if any."""

CONTROLLER: Final = 0
"""The broker that is the controller at that time, if any."""

LOSSES: Final = ("keep", "lose", "tear")
"""The effect of a crash on unsynced data. keep: only the process ends, and the page cache stays; lose: all of it is
lost with the power; tear: each sector is lost or not, at random."""

SHAPES: Final = ("halves", "bridge", "ring")
"""The shapes of partitions of any number of servers, rotated to begin at the named one.

halves: a minority that begins with the named server, and the others; bridge: two such halves, both of which the named
server reaches; ring: each server reaches a majority, and no two reach the same one.
"""

MANNERS: Final = ("orderly", "kill")
"""The ways in which a server ends before a restart: after closing its log, or at any point."""

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
    "quorum acked",
    "quorum promised",
)
"""The moments of the fault `When`: before or after an act of a server, and two moments of a leader.

quorum acked: the leader has counted a quorum of acknowledgements, and has not sent the commit. quorum promised: the
leader has counted a quorum of promises, and has not sent its initial history.
"""

DEEDS: Final = ("crash", "crash all", "cut", "isolate", "pause", "lose disk", "freeze clock")
"""The effects of the fault `When` on the server."""

DISK_ERRORS: Final = ("write", "fsync", "full", "read")

CHANGES: Final = ("add", "remove", "observe", "promote", "replace")
"""The membership changes. replace: add the server and remove the first voter that does not lead, in one step."""

JOINING: Final = ("add", "replace")
"""The changes that may add a server that does not exist yet."""

MACHINES: Final = ("list", "store", "controller", "partitions")
"""The system under test: a replicated list of all writes; the coordination store with its clients; the store with
brokers as its clients, of which one is the controller; or these with the partitions that they replicate."""

WITH_BROKERS: Final = ("controller", "partitions")

WAYS: Final = ("node", "call")
"""The ways of an operator's request: through a node of the store, or by a call to the controller."""

ACKS: Final = ("all", "one", "none")
DURABILITIES: Final = ("cache", "each", "before")
"""The time at which written data becomes durable. cache: at a flush in the background; each: before an append returns;
before: before it counts for the leader's or a follower's position."""

TRUNCATIONS: Final = ("fetched", "asked")
"""The source of the offset at which a follower's log diverges: the response to its fetch, or a request before that."""

READS: Final = ("leader", "anybody")
"""The replicas from which consumers read."""

LIBRARIES: Final = ("confluent", "python")
"""The libraries of group members: confluent-kafka, kafka-python."""

ENDS: Final = ("leaves", "killed")
"""The ways in which a group member ends."""

PARTS: Final = ("member", "alone", "hasty", "named")
"""The kinds of clients that commit offsets. member: a member of a group; alone: a consumer without a group membership;
hasty: a member of which one commit arrives again after a rebalance; named: a static member, which continues under its
name after a restart."""

FATES: Final = ("commits", "aborts", "vanishes")
"""The ends of a transaction. vanishes: the producer stops sending, and returns when another one has its name."""

TRANSACTIONS: Final = 8
"""The topic that transactions write to."""

OFFSETS: Final = 9
"""The number of the topic of committed offsets."""

EDGES: Final = ("before", "after")
"""The side of a write to the store on which a fault hits the broker."""

STRIKES: Final = ("crash", "cut", "expire")
"""The faults of a broker at its write. crash: its process ends; cut: it cannot reach the store; expire: it cannot reach
the store until its session expires."""

NODE_POINTS: Final = ("before request", "after request", "before reply", "before step", "after act")
"""The moments of the fault `StrikeNode`. before reply: a reply is lost if the node is cut off; before step: a task of
the program is about to continue, for example because it has slept, or has a reply; after act: the node has reported an
act."""

ACTIVE: Final = 0
"""The node that has reported the last act, if any runs; else the first one that runs."""

NODE_HARMS: Final = ("kill", "cut", "pause")

UNCLEAN: Final = ("allowed", "forbidden")


def is_users(machine: str) -> bool:
    """Return True if the machine is a class of the user, named as `module:Class`."""
    return ":" in machine
