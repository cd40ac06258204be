"""Leaders of partitions: what they know of their followers and of their ISR, and how long that is true."""

from __future__ import annotations

from typing import Final

from harness.mutants.edit import Mutant
from harness.mutants.replication import GROUPS, ISR, PARTITION, of_partitions

REASSIGNMENT: Final = "kraft_controller.core.topics.reassignment:PartitionReassignment"

MUTANTS: Final[tuple[Mutant, ...]] = (
    of_partitions(
        "earlier-reign-counts",
        "positions of followers from an earlier term of the leader still count",
        (
            f"{PARTITION}.make_leader",
            "if isinstance(before, LeaderRole) and before.epoch + 1 == state.leader_epoch:",
            "if isinstance(before, LeaderRole):",
        ),
    ),
    of_partitions(
        "told-in-a-later-reign",
        "a produce that waits at a deposed leader is answered by the record at its offset when it leads again",
        (
            f"{PARTITION}.make_follower",
            "self._fail_delayed(ErrorCode.NOT_LEADER_OR_FOLLOWER, self._other_leader)",
            "pass",
        ),
    ),
    of_partitions(
        "news-narrow-the-isr",
        "a leader stops waiting for a replica that is joining when the controller sends another ISR version",
        (
            f"{ISR}.update",
            "self.maximal = frozenset(members).union(self.asked)",
            "self.maximal = frozenset(members)",
        ),
    ),
    of_partitions(
        "former-life-let-in",
        "a leader writes an ISR with a replica that crashed and restarted since it caught up",
        (
            "kraft_controller.core.topics.replica_state_machine:ReplicaStateMachine._may_join_isr",
            "led = state.leader in context.brokers and state.leader not in offline",
            "led = False",
        ),
    ),
    of_partitions(
        "cancelled-with-the-last",
        "the cancellation of a reassignment removes the last replicas that have all records",
        (
            f"{REASSIGNMENT}._drop_adding_replicas",
            "if state is not None and not set(state.isr) - set(brokers):",
            "if False:",
        ),
        (
            f"{REASSIGNMENT}._drop_adding_replicas",
            """
            if (yield from self._partitions.bring_online([tp], among_the_others)):
                return False
            """,
            """
            yield from self._partitions.bring_online([tp], among_the_others)
            """,
        ),
    ),
    of_partitions(
        "cancelled-for-anybody",
        "after a cancelled reassignment any remaining replica leads, even if only the removed ones have all records",
        (
            f"{REASSIGNMENT}._drop_adding_replicas",
            "if state is not None and not set(state.isr) - set(brokers):",
            "if False:",
        ),
        (
            f"{REASSIGNMENT}._drop_adding_replicas",
            "return leader_election.offline(staying, state, context.online(tp) & set(staying), context.epoch)",
            "return leader_election.offline(staying, state, frozenset(staying), context.epoch, unclean=True)",
        ),
    ),
    of_partitions(
        "older-generation-dealt",
        "the assignment of an older generation counts for the present one",
        (
            f"{GROUPS}.group_rebalance:GroupRebalance.assign",
            "if group.state is not S.COMPLETING_REBALANCE or group.generation != generation:",
            "if group.state is not S.COMPLETING_REBALANCE:",
        ),
    ),
    of_partitions(
        "older-generation-commits",
        "a member of an older generation commits offsets",
        (
            f"{GROUPS}.offset_commits:refusal",
            "if who.generation != group.generation:",
            "if who.generation > group.generation:",
        ),
    ),
    of_partitions(
        "former-bearer-of-a-name",
        "a replaced static member (KIP-345) may commit offsets",
        (
            f"{GROUPS}.offset_commits:refusal",
            "if (error := group.member_error(who)) is not None:",
            "if (error := group.member_error(who)) not in (None, E.FENCED_INSTANCE_ID):",
        ),
    ),
)
