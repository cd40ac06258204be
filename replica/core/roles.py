"""Obeying the controller: leading, following and letting go of partitions, each only if it is news.

Whether the command is for this life of this broker, and of the newest controller, was found out before
(`kraft_controller.core.command_handler`). Here the leader epoch of each partition is compared.
"""

from __future__ import annotations

from typing import assert_never

from kraft_controller.core.commands import (
    EPOCH_OF_DELETION,
    EPOCH_UNKNOWN,
    Command,
    LeaderAndIsr,
    Role,
    Stop,
    StopReplica,
    UpdateMetadata,
)
from kraft_controller.core.names import DELETED, NOBODY, TopicPartition
from replica.core import replicating, upkeep
from replica.core.desk import Desk
from replica.core.errors import ErrorCode, KafkaError
from replica.core.following import Following
from replica.core.isr import Isr
from replica.core.leading import Leading
from replica.core.partition import Partition
from replica.core.purgatory import Line
from replica.core.wants import RoleTaken


def obey(desk: Desk, command: Command, now: int) -> dict[TopicPartition, int]:
    """What went wrong with which partition."""
    match command:
        case LeaderAndIsr():
            return _take_roles(desk, command, now)
        case UpdateMetadata():
            _learn(desk, command, now)
            return {}
        case StopReplica():
            return _stop_all(desk, command)
        case _:
            assert_never(command)


def _take_roles(desk: Desk, command: LeaderAndIsr, now: int) -> dict[TopicPartition, int]:
    errors = {}
    desk.live.update((broker.id, broker) for broker in command.leaders)
    for role in command.roles:
        desk.known[role.where] = None
        try:
            _take(desk, role, now)
        except KafkaError as error:
            errors[role.where] = int(error.code)
            desk.note("role_refused", partition=str(role.where), epoch=role.state.leader_epoch, why=str(error))
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                partition = desk.partitions.get(role.where)
                if partition is not None:
                    desk.fail(partition, error.text)  # in the midst of it: it has no part in it any more
                desk.offline[role.where] = None
    if command.full:
        named = {role.where for role in command.roles}
        for where in [where for where in desk.partitions if where not in named]:
            # Kept on disk: an order to delete names what it deletes.
            desk.note("stray", partition=str(where))
            _let_go(desk, desk.partitions[where])
    return errors


def _take(desk: Desk, role: Role, now: int) -> None:
    where, state = role.where, role.state
    if desk.me not in role.assignment.replicas:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"broker {desk.me} is to hold no replica of {where}")
    partition = desk.partitions.get(where)
    if partition is not None and partition.role is None and _is_another(partition, role):
        # Nobody leads or follows in it here any more, and there is a new topic of that name.
        partition = None
    if partition is None:
        # Who stands in the ISR, and does not begin, stands there by a log. An empty one in its place would lead, and
        # followers would cut off what is committed.
        begins = role.is_new or desk.me not in state.isr
        log = desk.logs.open(where, role.topic_id, begins=begins)
        partition = Partition(where, log, desk.logs.high_watermark(where), role.topic_id)
        desk.partitions[where] = partition
        desk.offline.pop(where, None)
        if partition.durable < partition.log.end_offset:
            desk.wish_flush(partition)
    elif _is_another(partition, role):
        raise KafkaError(
            ErrorCode.INCONSISTENT_TOPIC_ID, f"{where} is of topic {partition.topic_id}, not {role.topic_id}"
        )
    if state.leader_epoch < partition.leader_epoch:
        text = f"{where} is in leader epoch {partition.leader_epoch} already, {state.leader_epoch} is none any more"
        raise KafkaError(ErrorCode.STALE_CONTROLLER_EPOCH, text)
    partition.assignment = role.assignment
    partition.min_insync = desk.min_insync.get(where.topic, desk.settings.min_insync)
    if state.leader_epoch == partition.leader_epoch:
        if isinstance(partition.role, Leading) and state.leader == desk.me:
            # The same, as the store has it now: perhaps of a change of ours whose answer has not come yet.
            partition.role.isr.heard(state.isr, state.version)
            partition.role.assign(role.assignment.replicas, now)
            desk.disturb(where)
            upkeep.advance(desk, partition, now)
        return
    if state.leader == desk.me:
        _lead(desk, partition, role, now)
    else:
        _follow(desk, partition, role)
    desk.changed[where] = None


def _is_another(partition: Partition, role: Role) -> bool:
    """Another topic of the same name."""
    return None not in (role.topic_id, partition.topic_id) and role.topic_id != partition.topic_id


def _lead(desk: Desk, partition: Partition, role: Role, now: int) -> None:
    state, log = role.state, partition.log
    before = partition.role
    desk.stop_following(partition)
    start = log.end_offset
    log.assign_epoch(state.leader_epoch, start)
    # Of the controller that decided on it: one that only repeats it has decided nothing.
    decided_by = state.controller_epoch
    leading = Leading(desk.me, state.leader_epoch, decided_by, start, Isr(state.isr, state.version))
    if isinstance(before, Leading) and before.epoch + 1 == state.leader_epoch:
        # Nobody else has led in between, so nobody has truncated, and what they have they have.
        leading.followers = before.followers
    leading.assign(role.assignment.replicas, now)
    partition.role, partition.leader, partition.leader_epoch = leading, desk.me, state.leader_epoch
    desk.roles.append(RoleTaken(partition.where, True, state.leader_epoch))
    desk.note("leads", partition=str(partition.where), epoch=state.leader_epoch, start=start, isr=state.isr)
    if leading.followers:
        desk.behind[partition.where] = None
    desk.wish_flush(partition)
    upkeep.advance(desk, partition, now)
    if isinstance(before, Leading):
        upkeep.too_few(desk, partition)


def _follow(desk: Desk, partition: Partition, role: Role) -> None:
    state, where = role.state, partition.where
    desk.stop_following(partition)
    partition.leader, partition.leader_epoch = state.leader, state.leader_epoch
    desk.behind.pop(where, None)
    _no_leader_any_more(desk, partition)
    if state.leader == NOBODY:
        partition.role = None
    else:
        partition.role = Following(state.leader, state.leader_epoch, in_sync=desk.me in state.isr)
        replicating.begin(desk, partition, partition.role)
    desk.roles.append(RoleTaken(where, False, state.leader_epoch))
    desk.note(
        "follows", partition=str(where), epoch=state.leader_epoch, leader=state.leader, end=partition.log.end_offset
    )


def _no_leader_any_more(desk: Desk, partition: Partition) -> None:
    for line in Line:
        text = f"{partition.where} is led by broker {partition.leader} now; what was written may be or not be"
        desk.purgatory.failed(partition.where, line, ErrorCode.NOT_LEADER_OR_FOLLOWER, text)


def _learn(desk: Desk, command: UpdateMetadata, now: int) -> None:
    before = desk.live
    desk.live = {broker.id: broker for broker in command.brokers}
    for role in command.roles:
        if role.state.leader == DELETED:
            desk.known.pop(role.where, None)
        else:
            desk.known[role.where] = None
    if before.keys() - desk.live.keys():
        # Nobody waits for the dead to join, nor to delete.
        for where in list(desk.behind):
            partition = desk.partitions.get(where)
            if partition is not None:
                upkeep.advance(desk, partition, now)
        for where in desk.purgatory.waiting(Line.DELETED):
            partition = desk.partitions.get(where)
            if partition is not None and isinstance(partition.role, Leading):
                upkeep.deleted(desk, partition, partition.role)


def _stop_all(desk: Desk, command: StopReplica) -> dict[TopicPartition, int]:
    errors = {}
    for stop in command.stops:
        try:
            _stop(desk, stop)
        except KafkaError as error:
            errors[stop.where] = int(error.code)
            desk.note("stop_refused", partition=str(stop.where), epoch=stop.leader_epoch, why=str(error))
    return errors


def _stop(desk: Desk, stop: Stop) -> None:
    partition = desk.partitions.get(stop.where)
    if partition is not None:
        if stop.leader_epoch not in (EPOCH_UNKNOWN, EPOCH_OF_DELETION):
            partition.check_epoch(min(stop.leader_epoch, partition.leader_epoch))
        _let_go(desk, partition)
    if stop.delete:
        desk.partitions.pop(stop.where, None)
        desk.offline.pop(stop.where, None)
        desk.logs.delete(stop.where)
        desk.note("deleted", partition=str(stop.where))


def _let_go(desk: Desk, partition: Partition) -> None:
    desk.stop_following(partition)
    partition.role = None
    desk.behind.pop(partition.where, None)
    _no_leader_any_more(desk, partition)
    desk.changed[partition.where] = None
    desk.roles.append(RoleTaken(partition.where, None, partition.leader_epoch))
