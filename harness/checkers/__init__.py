"""One class for each promise. `ALL` is every one that can be checked from what servers do, step by step.

Whether a healed ensemble comes back to life is a promise, too; the world itself checks it at the end of a
run (`harness.worlds.cores.liveness`), because it must first make the faults stop.
"""

from __future__ import annotations

from typing import Final

from harness.checkers.delivery import Agreement, CommittedAndDurable, Integrity, PrefixConsistency, TotalOrder
from harness.checkers.durability import (
    ActivatedIsDecided,
    AdoptedByQuorum,
    DecidedIsInForce,
    DurableBeforeAck,
    DurableOnQuorum,
    EpochsAscend,
    HistoryBeforeEpoch,
    MembersBeforeSnapshot,
    ReadmittedBySomethingNewer,
)
from harness.checkers.ghost import Ghost, Violation
from harness.checkers.history import (
    CommittedStays,
    Contiguity,
    LogMatching,
    ProcessConsistency,
    SameZxidSameTransaction,
)
from harness.checkers.judge import Checker, Judge
from harness.checkers.leadership import (
    FollowsALeader,
    LeaderCompleteness,
    OneLeaderPerEpoch,
    RemovedLeaderEnds,
    StepDown,
)
from harness.checkers.primary_order import GlobalPrimaryOrder, LocalPrimaryOrder, PrimaryIntegrity
from harness.checkers.recovery import (
    KeptSnapshotsServe,
    MachineIsHistory,
    NothingNeedlessStays,
    RestartIsTheDisk,
)
from harness.checkers.refinement import Refinement
from harness.checkers.service import BarrierIsLinearizable, HistoriesAgree, NoCrash, ServingIsCurrent

ALL: Final[tuple[type[Checker], ...]] = (
    OneLeaderPerEpoch,
    LeaderCompleteness,
    FollowsALeader,
    StepDown,
    RemovedLeaderEnds,
    SameZxidSameTransaction,
    LogMatching,
    Contiguity,
    CommittedStays,
    ProcessConsistency,
    DurableBeforeAck,
    HistoryBeforeEpoch,
    MembersBeforeSnapshot,
    DecidedIsInForce,
    ActivatedIsDecided,
    ReadmittedBySomethingNewer,
    EpochsAscend,
    DurableOnQuorum,
    AdoptedByQuorum,
    PrefixConsistency,
    TotalOrder,
    Agreement,
    Integrity,
    CommittedAndDurable,
    LocalPrimaryOrder,
    GlobalPrimaryOrder,
    PrimaryIntegrity,
    RestartIsTheDisk,
    KeptSnapshotsServe,
    NothingNeedlessStays,
    MachineIsHistory,
    BarrierIsLinearizable,
    ServingIsCurrent,
    HistoriesAgree,
    NoCrash,
    Refinement,
)

__all__ = ["ALL", "Checker", "Ghost", "Judge", "Refinement", "Violation"]
