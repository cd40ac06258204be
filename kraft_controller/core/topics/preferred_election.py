"""Leader elections on request and preferred leader balancing (KIP-460, autoLeaderRebalance in Apache Kafka)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from kraft_controller.core.controller_context import ControllerContext
from kraft_controller.core.controller_store import ControllerStore, Damaged, Missing
from kraft_controller.core.names import TopicPartition
from kraft_controller.core.operator_log import OperatorLog
from kraft_controller.core.store_requests import StoreRequests
from kraft_controller.core.topics.partition_state_machine import PartitionStateMachine


class ElectionOutcome(Enum):
    """The outcome of a requested election for one partition. The value is the explanation."""

    ELECTED = ""
    NOT_NEEDED = "no election is needed: the leader is live, and it is the preferred one if that was requested"
    PREFERRED_NOT_AVAILABLE = "the preferred leader is not available, or not in the ISR"
    ELIGIBLE_NOT_AVAILABLE = "no replica is available"
    UNKNOWN = "the partition does not exist, or its state is not known"
    DELETING = "its topic is being deleted"


class PreferredElection:
    """Executes elections that administrators request, and balances leaders periodically."""

    def __init__(
        self,
        context: ControllerContext,
        store: ControllerStore,
        partitions: PartitionStateMachine,
        log: OperatorLog,
    ) -> None:
        self._context = context
        self._store = store
        self._partitions = partitions
        self._log = log

    def elect(
        self, partitions: Iterable[TopicPartition], *, unclean: bool = False
    ) -> StoreRequests[dict[TopicPartition, ElectionOutcome]]:
        """Elect preferred leaders. With `unclean`, elect leaders only for partitions without a live leader: live ISR
        members, else any live replicas. Return the outcome for each partition."""
        context = self._context
        outcomes: dict[TopicPartition, ElectionOutcome] = {}
        held: list[TopicPartition] = []
        for tp in partitions:
            state = context.states.get(tp)
            if state is None or tp.topic not in context.topics:
                outcomes[tp] = ElectionOutcome.UNKNOWN
            elif context.is_deleting(tp.topic):
                outcomes[tp] = ElectionOutcome.DELETING
            elif context.is_live(state.leader) and (unclean or state.leader == context.replicas_of(tp)[0]):
                outcomes[tp] = ElectionOutcome.NOT_NEEDED
            else:
                held.append(tp)
        strategy = self._partitions.unclean_election if unclean else self._partitions.preferred_election
        failures = yield from self._partitions.bring_online(held, strategy)
        unavailable = ElectionOutcome.ELIGIBLE_NOT_AVAILABLE if unclean else ElectionOutcome.PREFERRED_NOT_AVAILABLE
        for tp in held:
            outcomes[tp] = unavailable if tp in failures else ElectionOutcome.ELECTED
        return outcomes

    def process_node(self) -> StoreRequests[None]:
        """Execute the elections in `/admin/preferred_replica_election`, and remove the node whatever the outcome. If
        the node cannot be parsed, report it and leave it."""
        found = yield from self._store.preferred_elections()
        if isinstance(found, Damaged):
            self._log.report_damage(found)
        if isinstance(found, Damaged | Missing):
            return
        outcomes = yield from self.elect(found.partitions, unclean=found.unclean)
        for tp, outcome in outcomes.items():
            if outcome is not ElectionOutcome.ELECTED:
                self._log.report("not_elected", partition=str(tp), unclean=found.unclean, why=outcome.value)
        yield from self._store.drop_preferred_elections()

    def balance(self) -> StoreRequests[None]:
        """Elect preferred leaders for brokers whose imbalance exceeds `leader.imbalance.per.broker.percentage`.

        Only partitions whose preferred leader is live and in the ISR take part, since other elections would fail.
        Partitions that are being reassigned or deleted do not.
        """
        context = self._context
        limit = context.settings.imbalance_percent
        imbalanced = {
            broker
            for broker, (preferred, elsewhere) in context.imbalance().items()
            if preferred and elsewhere * 100 > preferred * limit
        }
        candidates = [
            tp
            for tp, state in context.states.items()
            if not context.is_deleting(tp.topic)
            and tp not in context.moving
            and (first := context.replicas_of(tp)[:1])
            and first[0] in imbalanced
            and state.leader != first[0]
            and first[0] in context.online(tp)
            and first[0] in state.isr
        ]
        if candidates:
            self._log.report("rebalance", brokers=tuple(sorted(imbalanced)), partitions=len(candidates))
            yield from self._partitions.bring_online(candidates, self._partitions.preferred_election)
