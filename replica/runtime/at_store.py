"""Work at the store on behalf of a client: what can go wrong there, in the numbers that clients know."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import trio

import zab
from kraft_controller.core.assignment import AssignmentError, InvalidPartitions, InvalidReplicationFactor
from kraft_controller.core.config_keys import ConfigError
from kraft_controller.runtime.admin.entity_configs import NoSuchEntity
from kraft_controller.runtime.admin.topic_requests import InvalidName, Moving, NoSuchTopic, TopicExists
from kraft_controller.wire.znodes import DamagedNode
from replica.core.errors import ErrorCode, KafkaError

T = TypeVar("T")

STORE_S: Final = 10.0
"""Without a leader a store answers nothing, and whoever waits for it holds up a connection."""

CODES: Final[tuple[tuple[type[Exception], ErrorCode], ...]] = (
    (InvalidPartitions, ErrorCode.INVALID_PARTITIONS),
    (InvalidReplicationFactor, ErrorCode.INVALID_REPLICATION_FACTOR),
    (AssignmentError, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (InvalidName, ErrorCode.INVALID_TOPIC_EXCEPTION),
    (TopicExists, ErrorCode.TOPIC_ALREADY_EXISTS),
    (NoSuchTopic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (Moving, ErrorCode.REASSIGNMENT_IN_PROGRESS),
    (ConfigError, ErrorCode.INVALID_CONFIG),
    (NoSuchEntity, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (DamagedNode, ErrorCode.UNKNOWN_SERVER_ERROR),
)
"""Of what those functions raise that do it: the first that fits counts."""


async def at_the_store(session: zab.Session | None, act: Callable[[zab.Session], Awaitable[T]]) -> T:
    if session is None:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "this broker has no session with the store now")
    try:
        with trio.fail_after(STORE_S):
            return await act(session)
    except trio.TooSlowError:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"the store has not answered for {STORE_S:g} s") from None
    except tuple(kind for kind, _ in CODES) as error:
        code = next(code for kind, code in CODES if isinstance(error, kind))
        raise KafkaError(code, str(error)) from error
    except zab.OutcomeUnknown as error:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"whether the store has done it is not known: {error}") from error
    except zab.ZabError as error:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, f"the store did not do it: {error}") from error
