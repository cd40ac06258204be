"""The words that a script chooses from: who, when, how, and which."""

from __future__ import annotations

from typing import Final

LEADER: Final = 0
"""Whoever leads at that moment; nobody when nobody does."""

FOLLOWER: Final = -1
"""The first server that follows the one that leads at that moment."""

LOSSES: Final = ("keep", "lose", "tear")
"""What a crash does to what no fsync has covered: it is still in the cache of the system, and as durable as it was,
since the process alone has died; or all of it is lost with the power; or chance decides by the sector."""

SHAPES: Final = ("halves", "bridge", "ring")
"""Partitions without numbers in them, for any number of servers, begun at the one that is named.

halves: it and those behind it, together less than a majority, against the others; bridge: two such halves, and it
hears both; ring: everybody hears a majority, and no two hear the same one.
"""

MANNERS: Final = ("orderly", "kill")
"""How a server ends that is to be started again: having closed its log, or in the middle of whatever it did."""

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
"""Where an aimed fault may strike: between two acts of a server, named by one of them.

quorum acked: a leader has counted a quorum of acknowledgements, and has told nobody that it commits.
quorum promised: a leader has counted a quorum of promises, and has told nobody of the history that it begins with.
"""

DEEDS: Final = ("crash", "crash all", "cut", "isolate", "pause", "lose disk", "freeze clock")
"""What an aimed fault does to the server that has come to the moment."""

DISK_ERRORS: Final = ("write", "fsync", "full", "read")

CHANGES: Final = ("add", "remove", "observe", "promote", "replace")
"""replace: the server comes in, and the first voter that does not lead goes, in one step."""

JOINING: Final = ("add", "replace")
"""By these a server comes in that may never have been there."""

MACHINES: Final = ("list", "store", "controller", "partitions")
"""What is replicated: a list of all that was ever written, the coordination store with its clients, the store with
brokers for clients, of which one is the controller, or these with the partitions that they replicate."""

WITH_BROKERS: Final = ("controller", "partitions")


def is_users(machine: str) -> bool:
    """Return whether the machine is a class of the user's own, named as `module:Class`."""
    return ":" in machine
