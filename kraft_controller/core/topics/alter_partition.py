"""ISR changes by partition leaders: requested from the controller (AlterPartition, KIP-497), or written by the leaders
themselves and reported by notifications."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from attrs import evolve, frozen

from kraft_controller.core.broker_request_batch import BrokerRequestBatch
from kraft_controller.core.controller_context import ControllerContext
from kraft_controller.core.controller_store import ControllerStore
from kraft_controller.core.names import BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition, Version
from kraft_controller.core.state import PartitionState, Recovery
from kraft_controller.core.store_requests import StoreRequests
from kraft_controller.core.topics.partition_state_machine import Failures, PartitionStateMachine
from kraft_controller.core.topics.reassignment import PartitionReassignment


class AlterPartitionError(Enum):
    """Error codes of Kafka's protocol."""

    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    FENCED_LEADER_EPOCH = 74
    STALE_BROKER_EPOCH = 77
    INVALID_UPDATE_VERSION = 95
    INELIGIBLE_REPLICA = 107


@frozen
class IsrMember:
    """One member of a requested ISR, by its broker's `id`."""

    id: BrokerId
    epoch: BrokerEpoch = BrokerEpoch(-1)
    """The broker epoch under which the member fetches from the leader; -1 matches any (KIP-903)."""


@frozen
class IsrChange:
    """The ISR that a leader requests, with the leader epoch and version of the state on which the request is based.

    where         the partition
    leader_epoch  the leader epoch of that state
    version       its version, the partition epoch
    isr           the requested ISR
    recovery      whether the leader has recovered from an unclean election
    """

    where: TopicPartition
    leader_epoch: LeaderEpoch
    version: Version
    isr: tuple[IsrMember, ...]
    recovery: Recovery = Recovery.RECOVERED


@frozen
class IsrChangeResult:
    """The outcome of an `IsrChange`; `error` is `NONE` if the controller has written it."""

    error: AlterPartitionError
    state: PartitionState | None = None
    """The current state, if there is no error."""


class AlterPartition:
    """Validates and writes ISRs that leaders request, and reads ISRs that leaders wrote."""

    def __init__(
        self,
        context: ControllerContext,
        batch: BrokerRequestBatch,
        store: ControllerStore,
        partitions: PartitionStateMachine,
        reassignment: PartitionReassignment,
    ) -> None:
        self._context = context
        self._batch = batch
        self._store = store
        self._partitions = partitions
        self._reassignment = reassignment

    def process_notifications(self) -> StoreRequests[None]:
        """Read states that leaders wrote themselves, and send them to all brokers (processIsrChangeNotification).

        Complete the reassignments whose target replicas are now in the ISR.
        """
        named = yield from self._store.take_isr_changes()
        known = [tp for tp in dict.fromkeys(named) if tp in self._context.states]
        failures: Failures = {}
        readable = yield from self._partitions.read_states(known, failures)
        self._batch.add_update_metadata(self._context.brokers, readable)
        yield from self._reassignment.complete_if_caught_up(*readable)

    def process(
        self, broker: BrokerId, epoch: BrokerEpoch, changes: Sequence[IsrChange]
    ) -> StoreRequests[dict[TopicPartition, IsrChangeResult]]:
        """Process an AlterPartition request, and return the result for each partition. A stale broker epoch, or an
        unregistered broker, fails the whole request."""
        context = self._context
        known = context.brokers.get(broker)
        if known is None or known.epoch != epoch:
            return {change.where: IsrChangeResult(AlterPartitionError.STALE_BROKER_EPOCH) for change in changes}
        results: dict[TopicPartition, IsrChangeResult] = {}
        writes: dict[TopicPartition, PartitionState] = {}
        for change in changes:
            verdict = self._validate(broker, change)
            if isinstance(verdict, PartitionState):
                writes[change.where] = verdict
            else:
                results[change.where] = verdict
        failures: Failures = {}
        changed = yield from self._partitions.write_states(writes, failures)
        written = [tp for tp in writes if tp not in changed and tp not in failures]
        for tp in writes:
            if tp in written:
                results[tp] = IsrChangeResult(AlterPartitionError.NONE, context.states[tp])
            else:
                results[tp] = IsrChangeResult(AlterPartitionError.INVALID_UPDATE_VERSION)
        self._batch.add_update_metadata(context.brokers if written else (), written)
        yield from self._reassignment.complete_if_caught_up(*written)
        return results

    def _validate(self, broker: BrokerId, change: IsrChange) -> IsrChangeResult | PartitionState:
        """Return the state to write, or the result if there is nothing to write (validations of
        KafkaController.processAlterPartition).

        In the current leader epoch, a request for the current ISR succeeds even if its version is outdated, since it
        may repeat a request whose reply was lost.
        """
        context = self._context
        state = context.states.get(change.where)
        if state is None:
            return IsrChangeResult(AlterPartitionError.UNKNOWN_TOPIC_OR_PARTITION)
        if change.leader_epoch > state.leader_epoch or change.version > state.version:
            return IsrChangeResult(AlterPartitionError.NOT_CONTROLLER)  # a newer controller has written the state
        if change.leader_epoch < state.leader_epoch:
            return IsrChangeResult(AlterPartitionError.FENCED_LEADER_EPOCH)
        isr = tuple(member.id for member in change.isr)
        if isr == state.isr and change.recovery is state.recovery:
            return IsrChangeResult(AlterPartitionError.NONE, state)
        if change.version < state.version:
            return IsrChangeResult(AlterPartitionError.INVALID_UPDATE_VERSION)
        recovering = change.recovery is Recovery.RECOVERING
        if (
            broker != state.leader
            or broker not in isr
            or len(set(isr)) != len(isr)
            or not set(isr) <= set(context.replicas_of(change.where))
            or (recovering and (len(isr) > 1 or state.recovery is Recovery.RECOVERED))
        ):
            return IsrChangeResult(AlterPartitionError.INVALID_REQUEST)
        for member in change.isr:
            known = context.brokers.get(member.id)
            if known is None or not context.is_live(member.id) or member.epoch not in (-1, known.epoch):
                return IsrChangeResult(AlterPartitionError.INELIGIBLE_REPLICA)
        # The leader epoch stays the same, because leader and followers continue unchanged.
        return evolve(state, isr=isr, recovery=change.recovery, controller_epoch=context.epoch)
