"""Frames of the command channel: msgpack of `[tag, field, ...]`. The meaning of a tag never changes.

The decoder validates everything. A frame that is too long, or has an unknown tag, a wrong number of fields or a field
of the wrong type raises `FrameError`, and the connection is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgpack

from kraft_controller.core.commands import (
    Answer,
    LeaderAndIsr,
    Numbered,
    Role,
    ShutdownRequest,
    Stop,
    StopReplica,
    UpdateMetadata,
)
from kraft_controller.core.names import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
    TopicPartition,
    Version,
)
from kraft_controller.core.state import Assignment, Broker, Endpoint, PartitionState, Recovery


class FrameError(ValueError):
    """The peer violates the protocol, or the connection ends before the reply. The connection is closed."""


FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
"""The limit for a frame, enough for the roles of a broker with a hundred thousand replicas."""


Frame: TypeAlias = Numbered | Answer | ShutdownRequest

LEADER_AND_ISR, UPDATE_METADATA, STOP_REPLICA, ANSWER, SHUTDOWN_REQUEST = 1, 2, 3, 4, 5


# -- encoding ------------------------------------------------------------------------------------------


def encode(frame: Frame) -> bytes:
    made: list[object]
    if isinstance(frame, Answer):
        errors = [[where.topic, where.partition, error] for where, error in frame.errors.items()]
        made = [ANSWER, frame.number, frame.error, errors]
    elif isinstance(frame, ShutdownRequest):
        made = [SHUTDOWN_REQUEST, frame.number, frame.broker, frame.epoch]
    else:
        command = frame.command
        head = [frame.number, frame.to, command.controller, command.controller_epoch, command.broker_epoch]
        match command:
            case LeaderAndIsr():
                roles, leaders = [_role(role) for role in command.roles], [_broker(each) for each in command.leaders]
                made = [LEADER_AND_ISR, *head, command.full, roles, leaders]
            case UpdateMetadata():
                fields = (UPDATE_METADATA, *head), ([_broker(each) for each in command.brokers], command.full)
                front, behind = (b"".join(map(msgpack.packb, each)) for each in fields)
                return b"".join((_NINE, front, _ROLES.packed(command.roles), behind))
            case StopReplica():
                stops = [[*stop.where, stop.leader_epoch, stop.delete] for stop in command.stops]
                made = [STOP_REPLICA, *head, stops]
    packed: bytes = msgpack.packb(made)
    return packed


class _Roles:
    """Encodes roles once: UpdateMetadata has the same tuple for every broker, so the bytes are reused."""

    def __init__(self) -> None:
        self._roles: tuple[Role, ...] | None = None
        """The roles that were encoded last, compared by identity."""
        self._packed = b""

    def packed(self, roles: tuple[Role, ...]) -> bytes:
        if roles is not self._roles:
            self._roles, self._packed = roles, msgpack.packb([_role(role) for role in roles])
        return self._packed


_ROLES: Final = _Roles()
_NINE: Final = b"\x99"
"""The msgpack header of a list with nine items."""


def _role(role: Role) -> list[object]:
    state, held = role.state, role.assignment
    return [
        *role.where, role.topic_id, state.leader, state.isr, state.leader_epoch, state.controller_epoch,
        int(state.recovery), state.version, held.replicas, held.adding, held.removing, role.is_new,
    ]  # fmt: skip


def _broker(broker: Broker) -> list[object]:
    endpoints = [[each.listener, each.host, each.port] for each in broker.endpoints]
    features = {name: list(span) for name, span in broker.features.items()}
    return [broker.id, broker.epoch, endpoints, dict(broker.protocols), broker.rack, features]


# -- decoding ------------------------------------------------------------------------------------------


def decode(data: bytes) -> Frame:
    if len(data) > FRAME_BYTES_MAX:
        raise FrameError(f"the frame has {len(data)} bytes; the limit is {FRAME_BYTES_MAX}")
    try:
        value = msgpack.unpackb(data, strict_map_key=True)
        if not isinstance(value, list) or not value:
            raise ValueError(f"expected a list that begins with a tag, not {value!r:.40}")
        tag, *fields = value
        read = _READERS.get(tag) if type(tag) is int else None
        if read is None:
            raise ValueError(f"unknown frame tag {tag!r:.40}")
        return read(*fields)
    except (ValueError, TypeError, msgpack.UnpackException, RecursionError) as error:
        raise FrameError(f"malformed frame: {error}") from None


def _whole(value: object, least: int = -(1 << 63), most: int = (1 << 63) - 1) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{value!r:.40} is not an integer from {least} to {most}")
    return value


def _id(value: object) -> int:
    return _whole(value, -2, (1 << 31) - 1)


def _text(value: object) -> str:
    if type(value) is not str:
        raise ValueError(f"{value!r:.40} is not text")
    return value


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise ValueError(f"{value!r:.40} is not a boolean")
    return value


def _list(value: object) -> list[Any]:
    if type(value) is not list:
        raise ValueError(f"{value!r:.40} is not a list")
    return value


def _map(value: object) -> dict[str, Any]:
    if type(value) is not dict:
        raise ValueError(f"{value!r:.40} is not a map")
    return {_text(key): each for key, each in value.items()}


def _ids(value: object) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(_id(each)) for each in _list(value))


def _row(value: object, length: int) -> list[Any]:
    row = _list(value)
    if len(row) != length:
        raise ValueError(f"a list has {len(row)} fields instead of {length}")
    return row


def _read_role(value: object) -> Role:
    topic, number, ident, leader, isr, leader_epoch, epoch, recovery, version, held, adding, removing, new = _row(
        value, 13
    )
    return Role(
        TopicPartition(_text(topic), _whole(number, 0)),
        None if ident is None else TopicId(_text(ident)),
        PartitionState(
            BrokerId(_id(leader)),
            _ids(isr),
            LeaderEpoch(_whole(leader_epoch)),
            ControllerEpoch(_whole(epoch)),
            Recovery(_whole(recovery)),
            Version(_whole(version)),
        ),
        Assignment(_ids(held), _ids(adding), _ids(removing)),
        _flag(new),
    )


def _read_broker(value: object) -> Broker:
    ident, epoch, endpoints, protocols, rack, features = _row(value, 6)
    return Broker(
        BrokerId(_id(ident)),
        BrokerEpoch(_whole(epoch)),
        tuple(_read_endpoint(each) for each in _list(endpoints)),
        {name: _text(protocol) for name, protocol in _map(protocols).items()},
        None if rack is None else _text(rack),
        {name: _read_span(span) for name, span in _map(features).items()},
    )


def _read_endpoint(value: object) -> Endpoint:
    listener, host, port = _row(value, 3)
    return Endpoint(_text(listener), _text(host), _whole(port, -1, 65_535))


def _read_span(value: object) -> tuple[int, int]:
    least, most = _row(value, 2)
    return _whole(least), _whole(most)


def _read_stop(value: object) -> Stop:
    topic, number, epoch, delete = _row(value, 4)
    return Stop(TopicPartition(_text(topic), _whole(number, 0)), LeaderEpoch(_whole(epoch)), _flag(delete))


def _from(controller: object, epoch: object, broker_epoch: object) -> tuple[BrokerId, ControllerEpoch, BrokerEpoch]:
    return BrokerId(_id(controller)), ControllerEpoch(_whole(epoch, 0)), BrokerEpoch(_whole(broker_epoch))


def _leader_and_isr(number: object, to: object, *fields: object) -> Frame:
    controller, epoch, broker_epoch, full, roles, leaders = _row(list(fields), 6)
    command = LeaderAndIsr(
        *_from(controller, epoch, broker_epoch),
        _flag(full),
        tuple(map(_read_role, _list(roles))),
        tuple(map(_read_broker, _list(leaders))),
    )
    return Numbered(_whole(number, 0), command, BrokerId(_id(to)))


def _update_metadata(number: object, to: object, *fields: object) -> Frame:
    controller, epoch, broker_epoch, roles, brokers, full = _row(list(fields), 6)
    command = UpdateMetadata(
        *_from(controller, epoch, broker_epoch),
        tuple(map(_read_role, _list(roles))),
        tuple(map(_read_broker, _list(brokers))),
        _flag(full),
    )
    return Numbered(_whole(number, 0), command, BrokerId(_id(to)))


def _stop_replica(number: object, to: object, *fields: object) -> Frame:
    controller, epoch, broker_epoch, stops = _row(list(fields), 4)
    return Numbered(
        _whole(number, 0),
        StopReplica(*_from(controller, epoch, broker_epoch), tuple(map(_read_stop, _list(stops)))),
        BrokerId(_id(to)),
    )


def _answer(number: object, *fields: object) -> Frame:
    error, rows = _row(list(fields), 2)
    errors = {}
    for row in _list(rows):
        topic, partition, each = _row(row, 3)
        errors[TopicPartition(_text(topic), _whole(partition, 0))] = _whole(each, -1, 32_767)
    return Answer(_whole(number, 0), _whole(error, -1, 32_767), errors)


def _shutdown_request(number: object, *fields: object) -> Frame:
    broker, epoch = _row(list(fields), 2)
    return ShutdownRequest(_whole(number, 0), BrokerId(_id(broker)), BrokerEpoch(_whole(epoch)))


_READERS: Final[Mapping[int, Callable[..., Frame]]] = {
    LEADER_AND_ISR: _leader_and_isr,
    UPDATE_METADATA: _update_metadata,
    STOP_REPLICA: _stop_replica,
    ANSWER: _answer,
    SHUTDOWN_REQUEST: _shutdown_request,
}
