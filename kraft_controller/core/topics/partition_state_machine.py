"""The partition state machine (PartitionStateMachine in Apache Kafka).

A decision is based on the context. Its write is applied only if the node still has the version in the context. Brokers
are notified after the write is confirmed. If the node has another version, since a leader wrote its ISR there for
example, the node is read and the decision is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from attrs import evolve

from kraft_controller.core.broker_request_batch import BrokerRequestBatch
from kraft_controller.core.controller_context import ControllerContext
from kraft_controller.core.controller_store import Changed, ControllerStore, Damaged, Missing, Written
from kraft_controller.core.names import LeaderEpoch, TopicPartition
from kraft_controller.core.operator_log import OperatorLog
from kraft_controller.core.state import PartitionState
from kraft_controller.core.store_requests import StoreRequests
from kraft_controller.core.topics import leader_election
from kraft_controller.core.topics.leader_election import Election
from kraft_controller.core.transitions import PARTITION_FROM, PartitionPhase, may

Failures: TypeAlias = dict[TopicPartition, str]
"""The partitions for which an operation failed, with the reason."""
ElectionStrategy: TypeAlias = Callable[[TopicPartition, PartitionState], Election | None]


class PartitionStateMachine:
    """Moves partitions between their phases, elects their leaders and writes their state nodes."""

    def __init__(
        self, context: ControllerContext, batch: BrokerRequestBatch, store: ControllerStore, log: OperatorLog
    ) -> None:
        self._context = context
        self._batch = batch
        self._store = store
        self._log = log
        self.elections = 0
        """The number of leader elections in this controller term, including those that kept the leader."""
        self.unclean_elections = 0
        """The number of elections of a replica outside the ISR."""

    # -- election strategies -----------------------------------------------------------------------------

    def offline_election(self, tp: TopicPartition, state: PartitionState) -> Election | None:
        context = self._context
        # No unclean election while a restarted ISR member is processed as failed: it is live again right afterwards.
        unclean = tp.topic in context.unclean and context.returning.isdisjoint(state.isr)
        return leader_election.offline(
            context.replicas_of(tp), state, context.online(tp), context.epoch, unclean=unclean
        )

    def unclean_election(self, tp: TopicPartition, state: PartitionState) -> Election | None:
        """Elect a live ISR member, else any live replica, as an administrator requested. Return None if no replica is
        live."""
        context = self._context
        return leader_election.offline(context.replicas_of(tp), state, context.online(tp), context.epoch, unclean=True)

    def reassignment_election(self, tp: TopicPartition, state: PartitionState) -> Election | None:
        context = self._context
        return leader_election.reassigned(context.assignment(tp).target, state, context.online(tp), context.epoch)

    def preferred_election(self, tp: TopicPartition, state: PartitionState) -> Election | None:
        context = self._context
        return leader_election.preferred(context.replicas_of(tp), state, context.online(tp), context.epoch)

    def shutdown_election(self, tp: TopicPartition, state: PartitionState) -> Election | None:
        context = self._context
        online = context.online(tp, shutting_down_too=True)
        live = frozenset(broker for broker in online if broker not in context.shutting_down)
        return leader_election.controlled_shutdown(context.replicas_of(tp), state, live, online - live, context.epoch)

    def _same_leader_election(self, tp: TopicPartition, state: PartitionState) -> Election | None:
        context = self._context
        online = context.online(tp)
        if state.leader not in online:
            return self.offline_election(tp, state)
        isr = tuple(member for member in state.isr if member in online)
        reachable = tuple(broker for broker in context.replicas_of(tp) if broker in online)
        return Election(state.next(context.epoch, isr=isr), reachable)

    # -- transitions -------------------------------------------------------------------------------------

    def move(self, partitions: Iterable[TopicPartition], to: PartitionPhase) -> list[TopicPartition]:
        """Move partitions to a phase that needs no write. Return those whose transition is legal."""
        moved = [tp for tp in partitions if self._is_legal(tp, to)]
        for tp in moved:
            self._context.move_partition(tp, to)
        return moved

    def _is_legal(self, tp: TopicPartition, to: PartitionPhase) -> bool:
        """Return whether a transition is legal. An illegal one is a bug in the controller: it is reported, and not
        made."""
        before = self._context.phase(tp)
        if may(PARTITION_FROM, before, to):
            return True
        self._log.report("illegal_transition", partition=str(tp), before=before.value, after=to.value)
        return False

    def bring_online(
        self, partitions: Iterable[TopicPartition], elect: ElectionStrategy | None = None
    ) -> StoreRequests[Failures]:
        """Move partitions to OnlinePartition: create the state of new ones, elect a leader for others. Return the
        failures."""
        failures: Failures = {}
        legal = [tp for tp in partitions if self._is_legal(tp, PartitionPhase.ONLINE)]
        new = [tp for tp in legal if self._context.phase(tp) is PartitionPhase.NEW]
        others = [tp for tp in legal if self._context.phase(tp) is not PartitionPhase.NEW]
        yield from self._initialize(new, failures)
        yield from self._elect_leaders(others, elect or self.offline_election, failures)
        for tp, why in failures.items():
            state = self._context.states.get(tp)
            led = state is not None and state.leader in self._context.online(tp)
            self._log.report("leader_not_changed" if led else "no_leader", partition=str(tp), why=why)
        return failures

    def _initialize(self, new: Sequence[TopicPartition], failures: Failures) -> StoreRequests[None]:
        """Create the states of new partitions. The first live replica leads, and all live replicas are in the ISR. If a
        partition already has a state, `_resume` brings it online."""
        context = self._context
        states: dict[TopicPartition, PartitionState] = {}
        for tp in new:
            online = context.online(tp)
            there = tuple(broker for broker in context.replicas_of(tp) if broker in online)
            if there:
                states[tp] = PartitionState(there[0], there, LeaderEpoch(0), context.epoch)
            else:
                failures[tp] = f"none of its replicas {list(context.replicas_of(tp))} is available"
        if not states:
            return
        results = yield from self._store.create_states(states)
        existing: list[TopicPartition] = []
        for (tp, state), result in zip(states.items(), results, strict=True):
            if isinstance(result, Changed):
                existing.append(tp)
            elif isinstance(result, Missing):
                failures[tp] = "its topic was deleted"
            else:
                context.update_state(tp, evolve(state, version=result.version))
                context.move_partition(tp, PartitionPhase.ONLINE)
                self._batch.add_leader_and_isr(state.isr, tp, is_new=True)
        readable = yield from self.read_states(existing, failures)
        yield from self._resume(readable, failures)

    def _resume(self, partitions: Sequence[TopicPartition], failures: Failures) -> StoreRequests[None]:
        """Bring partitions online that already have a state. It was unreadable before, or has been created meanwhile.

        A live leader stays, but in a new leader epoch, because brokers that dropped the partition meanwhile would
        ignore the old one.
        """
        for tp in partitions:
            self._context.move_partition(tp, PartitionPhase.OFFLINE)
        yield from self._elect_leaders(partitions, self._same_leader_election, failures)

    def _elect_leaders(
        self, partitions: Sequence[TopicPartition], elect: ElectionStrategy, failures: Failures
    ) -> StoreRequests[None]:
        """Elect leaders and write the new states, until each partition has a leader or is in `failures`
        (doElectLeaderForPartitions)."""
        context = self._context
        remaining = list(partitions)
        while remaining:
            elections: dict[TopicPartition, Election] = {}
            for tp in remaining:
                state = context.states.get(tp)
                if state is None:
                    failures[tp] = "its state is unknown"
                elif state.controller_epoch > context.epoch:
                    failures[tp] = (
                        f"a newer controller, of epoch {state.controller_epoch}, has changed the partition's state"
                    )
                elif (election := elect(tp, state)) is None:
                    failures[tp] = f"no replica is eligible; the ISR is {list(state.isr)}"
                else:
                    elections[tp] = election
            states = {tp: election.state for tp, election in elections.items()}
            remaining = yield from self.write_states(states, failures)
            for tp, election in elections.items():
                if tp not in remaining and tp not in failures:
                    self._elected(tp, election)

    def _elected(self, tp: TopicPartition, election: Election) -> None:
        self._context.move_partition(tp, PartitionPhase.ONLINE)
        self._batch.add_leader_and_isr(election.recipients, tp)
        self.elections += 1
        if election.unclean:
            self.unclean_elections += 1
            self._log.report("unclean_election", partition=str(tp), leader=election.state.leader)

    # -- state nodes -------------------------------------------------------------------------------------

    def write_states(
        self, states: dict[TopicPartition, PartitionState], failures: Failures
    ) -> StoreRequests[list[TopicPartition]]:
        """Write each state if its node still has that state's version. Return the partitions whose node had another
        version and is readable.

        The context then has the current states of these partitions, so the caller can decide again.
        """
        if not states:
            return []
        results = yield from self._store.write_states(states)
        changed: list[TopicPartition] = []
        for (tp, state), result in zip(states.items(), results, strict=True):
            if isinstance(result, Written):
                self._context.update_state(tp, evolve(state, version=result.version))
            elif isinstance(result, Changed):
                changed.append(tp)
            else:
                failures[tp] = "its state node was deleted"
        return (yield from self.read_states(changed, failures))

    def read_states(
        self, partitions: Sequence[TopicPartition], failures: Failures
    ) -> StoreRequests[list[TopicPartition]]:
        """Read states into the context. Return the partitions with a readable state; `failures` receives the others."""
        if not partitions:
            return []
        results = yield from self._store.read_states(partitions)
        readable, damaged = self._take_states(partitions, results, failures)
        if damaged:
            # Watch the damaged nodes, to be notified of their repair.
            for tp in damaged:
                failures.pop(tp)
            watched = list(damaged)
            results = yield from self._store.read_states(watched, watch=True)
            repaired, damaged = self._take_states(watched, results, failures)
            readable += repaired
            for damage in damaged.values():
                self._log.report_damage(damage)
        return readable

    def _take_states(
        self,
        partitions: Sequence[TopicPartition],
        results: Sequence[PartitionState | Damaged | Missing],
        failures: Failures,
    ) -> tuple[list[TopicPartition], dict[TopicPartition, Damaged]]:
        readable: list[TopicPartition] = []
        damaged: dict[TopicPartition, Damaged] = {}
        for tp, result in zip(partitions, results, strict=True):
            if isinstance(result, PartitionState):
                self._context.update_state(tp, result)
                readable.append(tp)
            elif isinstance(result, Damaged):
                failures[tp] = result.why
                damaged[tp] = result
                self._context.unreadable.add(tp)
            else:
                failures[tp] = "the partition has no state node"
        return readable, damaged
