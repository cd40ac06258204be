"""The checkers of ZAB: one class for each invariant. `ALL` can be checked from the facts of a run, step by step.

That a healed ensemble serves again is an invariant, too; the world checks it at the end of a run
(`harness.worlds.cores.liveness`), because it must stop the faults first.
"""

from __future__ import annotations

from typing import Final

from harness.checkers import delivery, durability, history, leadership, primary_order, recovery, service
from harness.checkers.judge import Checker, Judge
from harness.checkers.oracle_state import OracleState, Violation
from harness.checkers.refinement import Refinement

ALL: Final[tuple[type[Checker], ...]] = (
    leadership.OneLeaderPerEpoch,
    leadership.LeaderCompleteness,
    leadership.FollowsALeader,
    leadership.StepDown,
    leadership.RemovedLeaderEnds,
    history.SameZxidSameTransaction,
    history.LogMatching,
    history.Contiguity,
    history.CommittedStays,
    history.ProcessConsistency,
    durability.DurableBeforeAck,
    durability.HistoryBeforeEpoch,
    durability.MembersBeforeSnapshot,
    durability.DecidedIsInForce,
    durability.ActivatedIsDecided,
    durability.ReadmittedBySomethingNewer,
    durability.EpochsAscend,
    durability.DurableOnQuorum,
    durability.AdoptedByQuorum,
    delivery.PrefixConsistency,
    delivery.TotalOrder,
    delivery.Agreement,
    delivery.Integrity,
    delivery.CommittedAndDurable,
    primary_order.LocalPrimaryOrder,
    primary_order.GlobalPrimaryOrder,
    primary_order.PrimaryIntegrity,
    recovery.RestartIsTheDisk,
    recovery.KeptSnapshotsServe,
    recovery.NothingNeedlessStays,
    recovery.MachineIsHistory,
    service.BarrierIsLinearizable,
    service.ServingIsCurrent,
    service.HistoriesAgree,
    service.NoCrash,
    Refinement,
)

__all__ = ["ALL", "Checker", "OracleState", "Judge", "Refinement", "Violation"]
