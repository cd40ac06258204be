"""`ElectLeaders`, `AlterPartitionReassignments` and `ListPartitionReassignments`, answered by the controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kraft_controller.core import controller_events as events
from kraft_controller.core.controller_context import ControllerContext
from kraft_controller.core.event_queue import EventFailed, NotController
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.core.topics import reassignment
from kraft_controller.core.topics.preferred_election import ElectionOutcome
from kraft_controller.runtime.controller import Controller
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.requests import Handlers, Request, handler_table, handles
from replica.wire.schemas.reassignment_schemas import (
    ALTER_PARTITION_REASSIGNMENTS,
    ELECT_LEADERS,
    LIST_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    PartitionResult,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ReplicaElectionResult,
)

_UNCLEAN: Final = 1
_CODES: Final[Mapping[ElectionOutcome, ErrorCode]] = {
    ElectionOutcome.ELECTED: ErrorCode.NONE,
    ElectionOutcome.NOT_NEEDED: ErrorCode.ELECTION_NOT_NEEDED,
    ElectionOutcome.PREFERRED_NOT_AVAILABLE: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionOutcome.ELIGIBLE_NOT_AVAILABLE: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    ElectionOutcome.UNKNOWN: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ElectionOutcome.DELETING: ErrorCode.INVALID_TOPIC_EXCEPTION,
}


def handlers(current: Callable[[], Controller | None]) -> Handlers:
    """Return the handlers. `current` returns this broker's `Controller`, whether it is elected or not; None before the
    first session with the store."""

    def context() -> ControllerContext | None:
        controller = current()
        return None if controller is None or controller.term is None else controller.term.context

    async def ask(event: events.Event) -> object:
        """Return the controller's answer. The timeout in the request is ignored."""
        controller = current()
        try:
            if controller is None:
                raise NotController("this broker has had no session with the store yet")
            return await controller.ask(event)
        except NotController as error:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, str(error)) from error
        except (EventFailed, ValueError) as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller failed: {error}") from error

    async def elect(request: Request[ElectLeadersRequest]) -> ElectLeadersResponse:
        body = request.body
        named = body.topic_partitions
        if named is None:
            known = context()
            partitions = () if known is None else tuple(known.all_partitions())
        else:
            partitions = tuple(TopicPartition(one.topic, number) for one in named for number in one.partitions)
        unclean = body.election_type == _UNCLEAN
        try:
            outcomes = await ask(events.ElectLeadersRequested(partitions, unclean))
        except KafkaError as error:
            return ElectLeadersResponse(
                error_code=error.code, replica_election_results=_results(dict.fromkeys(partitions, error))
            )
        assert isinstance(outcomes, dict)
        errors = {
            where: KafkaError(_CODES[outcome], outcome.value)
            for where, outcome in outcomes.items()
            if named is not None or outcome is not ElectionOutcome.NOT_NEEDED
        }
        return ElectLeadersResponse(replica_election_results=_results(errors))

    async def alter(request: Request[AlterPartitionReassignmentsRequest]) -> AlterPartitionReassignmentsResponse:
        targets: dict[TopicPartition, Sequence[BrokerId] | None] = {
            TopicPartition(topic.name, one.partition_index): _brokers(one.replicas)
            for topic in request.body.topics
            for one in topic.partitions
        }
        try:
            failed = await ask(events.AlterReassignmentsRequested(targets))
        except KafkaError as error:
            return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.text)
        assert isinstance(failed, dict)
        topics: dict[str, list[ReassignablePartitionResponse]] = {}
        for where, target in targets.items():
            entry = ReassignablePartitionResponse(partition_index=where.partition)
            if where in failed:
                entry.error_code, entry.error_message = _error_code(target, failed[where]), failed[where]
            topics.setdefault(where.topic, []).append(entry)
        return AlterPartitionReassignmentsResponse(
            responses=[ReassignableTopicResponse(name=name, partitions=entries) for name, entries in topics.items()]
        )

    async def list_ongoing(request: Request[ListPartitionReassignmentsRequest]) -> ListPartitionReassignmentsResponse:
        known = context()
        if known is None:
            return ListPartitionReassignmentsResponse(
                error_code=ErrorCode.NOT_CONTROLLER, error_message="this broker is not the controller"
            )
        named = request.body.topics
        wanted = (
            None
            if named is None
            else {TopicPartition(one.name, number) for one in named for number in one.partition_indexes}
        )
        topics: dict[str, list[OngoingPartitionReassignment]] = {}
        for where in known.moving:
            if wanted is None or where in wanted:
                assignment = known.assignment(where)
                topics.setdefault(where.topic, []).append(
                    OngoingPartitionReassignment(
                        partition_index=where.partition,
                        replicas=assignment.replicas,
                        adding_replicas=assignment.adding,
                        removing_replicas=assignment.removing,
                    )
                )
        return ListPartitionReassignmentsResponse(
            topics=[OngoingTopicReassignment(name=name, partitions=entries) for name, entries in topics.items()]
        )

    return handler_table(
        handles(ELECT_LEADERS, elect),
        handles(ALTER_PARTITION_REASSIGNMENTS, alter),
        handles(LIST_PARTITION_REASSIGNMENTS, list_ongoing),
    )


def _brokers(replicas: Sequence[int] | None) -> Sequence[BrokerId] | None:
    return None if replicas is None else [BrokerId(each) for each in replicas]


def _error_code(target: Sequence[BrokerId] | None, why: object) -> ErrorCode:
    if why in (reassignment.NO_PARTITION, reassignment.DELETING):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS if target is None else ErrorCode.INVALID_REPLICA_ASSIGNMENT


def _results(errors: Mapping[TopicPartition, KafkaError]) -> list[ReplicaElectionResult]:
    topics: dict[str, list[PartitionResult]] = {}
    for where, error in errors.items():
        topics.setdefault(where.topic, []).append(
            PartitionResult(partition_id=where.partition, error_code=error.code, error_message=error.text or None)
        )
    return [ReplicaElectionResult(topic=topic, partition_result=results) for topic, results in topics.items()]
