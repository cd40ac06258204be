"""The replica state machine (ReplicaStateMachine in Apache Kafka): starting, stopping and deleting replicas."""

from __future__ import annotations

from collections.abc import Iterable

from kraft_controller.core.broker_request_batch import BrokerRequestBatch
from kraft_controller.core.controller_context import ControllerContext, Replica
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.core.operator_log import OperatorLog
from kraft_controller.core.state import PartitionState
from kraft_controller.core.store_requests import StoreRequests
from kraft_controller.core.topics import leader_election
from kraft_controller.core.topics.partition_state_machine import Failures, PartitionStateMachine
from kraft_controller.core.transitions import REPLICA_FROM, ReplicaPhase, may


class ReplicaStateMachine:
    """Moves replicas between their phases, and removes offline replicas from the ISR."""

    def __init__(
        self,
        context: ControllerContext,
        batch: BrokerRequestBatch,
        partitions: PartitionStateMachine,
        log: OperatorLog,
    ) -> None:
        self._context = context
        self._batch = batch
        self._partitions = partitions
        self._log = log

    def _legal(self, replicas: Iterable[Replica], to: ReplicaPhase) -> list[Replica]:
        """Return the replicas whose transition is legal. An illegal one is a bug: it is reported, and not made."""
        legal = []
        for tp, broker in replicas:
            before = self._context.replica_phase(tp, broker)
            if may(REPLICA_FROM, before, to):
                legal.append((tp, broker))
            else:
                self._log.report(
                    "illegal_transition", partition=str(tp), broker=broker, before=before.value, after=to.value
                )
        return legal

    def move(self, replicas: Iterable[Replica], to: ReplicaPhase) -> list[Replica]:
        """Move replicas to any phase but OfflineReplica. Return those whose transition is legal."""
        context, batch = self._context, self._batch
        moved = self._legal(replicas, to)
        for tp, broker in moved:
            before = context.replica_phase(tp, broker)
            if to is ReplicaPhase.DELETION_STARTED:
                batch.add_stop_replica(broker, tp, delete=True)
            elif to is ReplicaPhase.NEW and tp in context.states:
                batch.add_leader_and_isr([broker], tp, is_new=True)
            elif to is ReplicaPhase.ONLINE and tp in context.states and before is not ReplicaPhase.NEW:
                # a new replica already received its role when its partition got a leader
                batch.add_leader_and_isr([broker], tp)
            context.move_replica((tp, broker), to)
        return moved

    def take_offline(self, replicas: Iterable[Replica]) -> StoreRequests[Failures]:
        """Move replicas to OfflineReplica: stop them, and remove them from the ISR.

        If a registered broker leads the partition, the state is written even if the replica is not in the ISR. The
        leader may be about to add the replica, which may have caught up before it went offline. The write changes the
        node's version, so the leader's write fails, and the leader reads the state first.
        """
        context, batch = self._context, self._batch
        legal = self._legal(replicas, ReplicaPhase.OFFLINE)
        failures: Failures = {}
        offline: dict[TopicPartition, list[BrokerId]] = {}
        for tp, broker in legal:
            batch.add_stop_replica(broker, tp, delete=False)
            offline.setdefault(tp, []).append(broker)
        remaining = list(offline)
        while remaining:
            states: dict[TopicPartition, PartitionState] = {}
            for tp in remaining:
                state = context.states.get(tp)
                if state is None:
                    batch.add_update_metadata(context.brokers, [tp])
                elif state.controller_epoch > context.epoch:
                    failures[tp] = (
                        f"a newer controller, of epoch {state.controller_epoch}, has changed the partition's state"
                    )
                elif (shrunk := self._without_all(state, offline[tp])) is not None:
                    states[tp] = shrunk
                elif self._may_join_isr(tp, state, offline[tp]):
                    states[tp] = state
            remaining = yield from self._partitions.write_states(states, failures)
            for tp in states:
                if tp not in remaining and tp not in failures and not context.is_deleting(tp.topic):
                    others = [broker for broker in context.replicas_of(tp) if broker not in offline[tp]]
                    batch.add_leader_and_isr(others, tp)
        for replica in legal:
            context.move_replica(replica, ReplicaPhase.OFFLINE)
        for tp, why in failures.items():
            self._log.report("isr_not_shrunk", partition=str(tp), why=why)
        return failures

    def _without_all(self, state: PartitionState, brokers: Iterable[BrokerId]) -> PartitionState | None:
        """Remove several brokers from the ISR with one increment of the leader epoch; return None if none is a
        member."""
        epoch = self._context.epoch
        shrunk: PartitionState | None = None
        for broker in brokers:
            after = leader_election.without(shrunk or state, broker, epoch)
            if after is not None:
                shrunk = state.next(epoch, leader=after.leader, isr=after.isr)
        return shrunk

    def _may_join_isr(self, tp: TopicPartition, state: PartitionState, offline: Iterable[BrokerId]) -> bool:
        context = self._context
        led = state.leader in context.brokers and state.leader not in offline
        return led and not context.is_deleting(tp.topic) and set(offline) <= set(context.replicas_of(tp))
