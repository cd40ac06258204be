"""Partition reassignment (KIP-455): moving replicas to other brokers. New ones are in sync before others are removed.

Phase A adds the target replicas to the assignment, and they begin to fetch. Phase B begins when all target replicas are
in the ISR: a target replica leads, and the other replicas are stopped and deleted. The topic's node lists
the adding and removing replicas until the end, so another controller can resume at any point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from kraft_controller.core.broker_request_batch import BrokerRequestBatch
from kraft_controller.core.controller_context import ControllerContext, Replica
from kraft_controller.core.controller_store import ControllerStore, Damaged, Missing
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.core.operator_log import OperatorLog
from kraft_controller.core.state import Assignment, PartitionState
from kraft_controller.core.store_requests import StoreRequests
from kraft_controller.core.topics import leader_election
from kraft_controller.core.topics.leader_election import Election
from kraft_controller.core.topics.partition_state_machine import Failures, PartitionStateMachine
from kraft_controller.core.topics.replica_state_machine import ReplicaStateMachine
from kraft_controller.core.topics.topic_registry import TopicRegistry, by_topic, with_assignments
from kraft_controller.core.transitions import PartitionPhase, ReplicaPhase

NO_PARTITION: Final = "the partition does not exist"
DELETING: Final = "its topic is being deleted"
NOTHING_TO_CANCEL: Final = "there is no reassignment in progress to cancel"
PIECE_MAX: Final = 200
"""The maximum number of reassignments that are started before their commands are sent."""


class PartitionReassignment:
    """Starts, resumes, completes and cancels reassignments."""

    def __init__(
        self,
        context: ControllerContext,
        batch: BrokerRequestBatch,
        flush: Callable[[], None],
        store: ControllerStore,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
        topics: TopicRegistry,
        log: OperatorLog,
    ) -> None:
        self._context = context
        self._batch = batch
        self._flush = flush
        """Sends the collected commands and writes the operator log. Call it only when all preceding writes are
        confirmed."""
        self._store = store
        self._partitions = partitions
        self._replicas = replicas
        self._topics = topics
        self._log = log

    # -- requests ----------------------------------------------------------------------------------------

    def process_node(self) -> StoreRequests[None]:
        """Process `/admin/reassign_partitions` (processZkPartitionReassignment).

        Entries whose reassignment cannot start are reported and removed. Entries whose target is already reached are
        removed. Entries whose reassignment is already in progress stay.
        """
        found = yield from self._store.reassignments()
        if isinstance(found, Damaged):
            self._log.report_damage(found)
        if isinstance(found, Damaged | Missing):
            return
        if not found:
            # remove the empty node, because tools that create the node for each request fail while it exists
            yield from self._store.drop_reassignments(())
            return
        wanted: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        dropped: list[TopicPartition] = []
        for tp, target in found.items():
            held = self._context.assignment(tp)
            if held.moving and held.target == target and not self._context.is_deleting(tp.topic):
                continue  # a request for a topic that is being deleted is refused below instead
            why = self.wrong_with(tp, target)
            if why is not None:
                self._log.report("reassignment_refused", partition=str(tp), why=why)
            if why is not None or (not held.moving and held.replicas == target):
                dropped.append(tp)
            else:
                wanted[tp] = target
        if dropped:
            self._flush()
            yield from self._store.drop_reassignments(dropped, [found[tp] for tp in dropped])
        failures = yield from self._start_all(wanted)
        for tp, why in failures.items():
            self._log.report("reassignment_refused", partition=str(tp), why=why)
        if failures:
            self._flush()
            yield from self._store.drop_reassignments(list(failures), [wanted[tp] for tp in failures])

    def alter(self, wanted: Mapping[TopicPartition, Sequence[BrokerId] | None]) -> StoreRequests[Failures]:
        """Process an AlterPartitionReassignments request; None as a target cancels. Return the reassignments that could
        not start."""
        # A request in the node is older than this one, and must not be found by the next controller.
        yield from self._store.drop_reassignments(tuple(wanted))
        return (yield from self._start_all(wanted))

    def wrong_with(self, tp: TopicPartition, target: Sequence[BrokerId] | None) -> str | None:
        """Return the reason if a reassignment cannot start, else None."""
        context = self._context
        if tp.topic not in context.topics or tp.partition not in context.topics[tp.topic].partitions:
            return NO_PARTITION
        if context.is_deleting(tp.topic):
            return DELETING
        held = context.assignment(tp)
        if target is None:
            return None if held.moving else NOTHING_TO_CANCEL
        if not target:
            return "the list of replicas is empty"
        if len(set(target)) != len(target) or any(broker < 0 for broker in target):
            return f"{list(target)} names a broker twice, or a negative id"
        dead = sorted(set(target) - set(held.origin) - set(context.live))
        if dead:
            return f"brokers {dead} are not alive or are shutting down, so no replica can be added there"
        return None

    def _start_all(self, wanted: Mapping[TopicPartition, Sequence[BrokerId] | None]) -> StoreRequests[Failures]:
        failures: Failures = {}
        targets: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        for tp, target in wanted.items():
            why = self.wrong_with(tp, target)
            if why is not None:
                failures[tp] = why
                continue
            held = self._context.assignment(tp)
            to = held.origin if target is None else tuple(target)
            if held.moving or to != held.replicas:
                targets[tp] = to
        every = list(targets)
        for at in range(0, len(every), PIECE_MAX):
            yield from self._start({tp: targets[tp] for tp in every[at : at + PIECE_MAX]}, failures)
            self._flush()
        return failures

    # -- phase A: add the target replicas ------------------------------------------------------------------

    def _start(self, targets: Mapping[TopicPartition, tuple[BrokerId, ...]], failures: Failures) -> StoreRequests[None]:
        """Start several reassignments, with one write for each topic's node."""
        before = {tp: self._context.assignment(tp) for tp in targets}
        for tp, held in before.items():
            dropped = [broker for broker in held.adding if broker not in held.to(targets[tp]).replicas]
            if dropped and not (yield from self._drop_adding_replicas(tp, dropped)):
                failures[tp] = "the new target removes all live members of the ISR"
        # Increment the leader epoch first. From then on the leader's ISR writes fail until it receives the new
        # assignment, from this controller or from the next one.
        bumped = yield from self._bump_leader_epochs({tp: () for tp in before if tp not in failures})
        failures.update(
            {
                tp: "its state is unknown, or a newer controller has changed it"
                for tp in before
                if tp not in {*failures, *bumped}
            }
        )
        written = yield from self._topics.write_assignments({tp: before[tp].to(targets[tp]) for tp in bumped})
        failures.update({tp: "its topic was changed or deleted meanwhile" for tp in bumped if tp not in written})
        started, complete = [], []
        for tp, after in written.items():
            self._log.report("reassignment", partition=str(tp), replicas=before[tp].origin, target=targets[tp])
            self._send_assignment(tp)
            if after.moving:
                started.append(tp)
            else:  # only the order changed, or everything was cancelled, so no replica is added or removed
                complete.append(tp)
                self._log.report("reassigned", partition=str(tp), replicas=after.replicas)
        if complete:
            yield from self._store.drop_reassignments(complete, [targets[tp] for tp in complete])
        yield from self.complete_if_caught_up(*started)

    def _drop_adding_replicas(self, tp: TopicPartition, brokers: Sequence[BrokerId]) -> StoreRequests[bool]:
        """Delete adding replicas that a new reassignment of the partition no longer needs.

        Return False, and delete none, if the ISR has no other member, or if one of them leads and no other replica can
        be elected.
        """
        context = self._context
        state = context.states.get(tp)
        if state is not None and not set(state.isr) - set(brokers):
            return False
        if state is not None and state.leader in brokers:

            def among_the_others(tp: TopicPartition, state: PartitionState) -> Election | None:
                staying = tuple(broker for broker in context.replicas_of(tp) if broker not in brokers)
                return leader_election.offline(staying, state, context.online(tp) & set(staying), context.epoch)

            if (yield from self._partitions.bring_online([tp], among_the_others)):
                return False
        yield from self._stop_and_delete([(tp, broker) for broker in brokers])
        return True

    def _send_assignment(self, tp: TopicPartition) -> None:
        """Send the assignment to all replicas, and start the adding ones."""
        held = self._context.assignment(tp)
        self._batch.add_leader_and_isr([broker for broker in held.replicas if broker not in held.adding], tp)
        self._batch.add_leader_and_isr(held.adding, tp, is_new=True)
        for broker in held.adding:
            self._context.start_replica((tp, broker), ReplicaPhase.NEW)

    # -- phase B: remove the others -------------------------------------------------------------------------

    def complete_if_caught_up(self, *partitions: TopicPartition) -> StoreRequests[None]:
        """Complete the reassignments whose target replicas are all available and in the ISR, and watch the states."""
        context = self._context
        moving = [tp for tp in dict.fromkeys(partitions) if tp in context.moving and not context.is_deleting(tp.topic)]
        if not moving:
            return
        results = yield from self._store.read_states(moving, watch=True)
        caught_up = []
        for tp, result in zip(moving, results, strict=True):
            if not isinstance(result, PartitionState):
                self._log.report("reassignment_waits", partition=str(tp), why="its state cannot be read")
                continue
            context.update_state(tp, result)
            # A target replica that is in controlled shutdown, or whose log directory has failed, does not count.
            if set(context.assignment(tp).target) <= context.online(tp).intersection(result.isr):
                caught_up.append(tp)
        yield from self._complete(caught_up)

    def _complete(self, partitions: Sequence[TopicPartition]) -> StoreRequests[None]:
        """Complete reassignments (phase B): elect a leader, stop and delete the removing replicas, write the
        assignment.

        The context gets the final assignment before the topic's node, so that the election and its commands name only
        the target. Until the node is written, the partitions stay in `context.moving`. If no target replica of a
        partition can be elected, or its state cannot be written, the context gets the partition's former assignment
        back. If a request to the store raises, the term and its context end. The node still lists the adding and
        removing replicas then, so `resume` of the next term repeats phase B, whose steps are idempotent.
        """
        context, batch = self._context, self._batch
        before = {tp: context.assignment(tp) for tp in partitions}
        adding = [(tp, broker) for tp, held in before.items() for broker in held.adding]
        late = [replica for replica in adding if context.replica_phase(*replica) is not ReplicaPhase.ONLINE]
        self._replicas.move(late, ReplicaPhase.ONLINE)
        # From here on commands carry the final assignment. It is not written yet, so the partitions count as moving.
        self._assume({tp: held.arrived() for tp, held in before.items()})
        context.moving.update(dict.fromkeys(before))

        def all_in_sync(tp: TopicPartition, state: PartitionState) -> Election | None:
            """Elect only if the whole target is still in the ISR, since the leader may have shrunk the ISR
            meanwhile."""
            held = before[tp]
            return self._partitions.reassignment_election(tp, state) if set(held.target) <= set(state.isr) else None

        staying = {
            tp: held.target
            for tp, held in before.items()
            if (leader := context.states[tp].leader) in held.target and context.is_live(leader)
        }
        led = dict.fromkeys((yield from self._bump_leader_epochs(staying)))
        for tp in led:
            batch.add_leader_and_isr(before[tp].target, tp)
        others = [tp for tp in before if tp not in staying]
        failures = yield from self._partitions.bring_online(others, all_in_sync)
        led.update({tp: None for tp in others if tp not in failures})
        self._assume({tp: held for tp, held in before.items() if tp not in led})
        yield from self._stop_and_delete([(tp, broker) for tp in led for broker in before[tp].removing])
        complete = yield from self._topics.write_assignments({tp: before[tp].arrived() for tp in led})
        for tp in complete:
            context.moving.pop(tp, None)
            self._log.report("reassigned", partition=str(tp), replicas=before[tp].target)
        if complete:
            yield from self._store.drop_reassignments(list(complete), [before[tp].target for tp in complete])
            batch.add_update_metadata(context.brokers, complete)

    def _assume(self, assignments: Mapping[TopicPartition, Assignment]) -> None:
        """Set assignments in the context, without a write."""
        for name, partitions in by_topic(assignments).items():
            topic = self._context.topics[name]
            self._context.update_topic(with_assignments(topic, {tp: assignments[tp] for tp in partitions}))

    def _stop_and_delete(self, replicas: Sequence[Replica]) -> StoreRequests[None]:
        """Remove replicas from the ISR and order their deletion, without waiting for confirmations."""
        for replica in replicas:
            self._context.start_replica(replica, ReplicaPhase.ONLINE)
        yield from self._replicas.take_offline(replicas)
        for phase in (ReplicaPhase.DELETION_STARTED, ReplicaPhase.DELETION_SUCCESSFUL, ReplicaPhase.NON_EXISTENT):
            self._replicas.move(replicas, phase)

    def _bump_leader_epochs(
        self, in_sync: Mapping[TopicPartition, Sequence[BrokerId]]
    ) -> StoreRequests[list[TopicPartition]]:
        """Write the same leader and ISR with the next leader epoch. Return the partitions that were written.

        A partition is skipped if one of the brokers that `in_sync` names for it is not in its ISR, or if its state is
        unknown or of a newer controller.
        """
        context = self._context
        failures: Failures = {}
        bumped: list[TopicPartition] = []
        remaining = list(in_sync)
        while remaining:
            states: dict[TopicPartition, PartitionState] = {}
            for tp in remaining:
                state = context.states.get(tp)
                if state is None or state.controller_epoch > context.epoch or not set(in_sync[tp]) <= set(state.isr):
                    continue
                states[tp] = state.next(context.epoch)
            remaining = yield from self._partitions.write_states(states, failures)
            again = {*remaining, *failures}
            bumped += [tp for tp in states if tp not in again]
        for tp, why in failures.items():
            self._log.report("reassignment_waits", partition=str(tp), why=why)
        return bumped

    # -- after a controller failover -------------------------------------------------------------------------

    def resume(self) -> StoreRequests[None]:
        """Resume the reassignments that the topics' nodes list."""
        context = self._context
        moving: Iterable[TopicPartition] = list(context.moving)
        started = [tp for tp in moving if context.phase(tp) is not PartitionPhase.NON_EXISTENT and tp in context.states]
        bumped = yield from self._bump_leader_epochs(dict.fromkeys(started, ()))
        for tp in bumped:
            self._send_assignment(tp)
        yield from self.complete_if_caught_up(*bumped)
