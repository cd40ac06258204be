"""Calls to the store on behalf of a client. Their exceptions become Kafka error codes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import trio

import zab
from kraft_controller.core.configuration.config_keys import ConfigError
from kraft_controller.core.topics.assignment import AssignmentError, InvalidPartitions, InvalidReplicationFactor
from kraft_controller.runtime.admin.entity_configs import NoSuchEntity
from kraft_controller.runtime.admin.topic_requests import InvalidName, Moving, NoSuchTopic, TopicExists
from kraft_controller.wire.znodes import DamagedNode
from replica.core.errors import ErrorCode, KafkaError

T = TypeVar("T")

STORE_S: Final = 10.0
"""The time limit of a call: a store without a leader does not answer, and the client's connection waits."""

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
"""Error codes for exceptions of `kraft_controller`. The first matching class wins, so subclasses come first."""


async def call_store(session: zab.Session | None, act: Callable[[zab.Session], Awaitable[T]]) -> T:
    """Return the result of `act`. Raises `KafkaError` if there is no session, or if `act` takes too long or raises a
    `KafkaError`, a `ZabError` or one of the exceptions in `CODES`."""
    if session is None:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "this broker currently has no session with the store")
    try:
        with trio.fail_after(STORE_S):
            return await act(session)
    except trio.TooSlowError:
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, f"the store did not answer within {STORE_S:g} s; any change may still be made"
        ) from None
    except tuple(kind for kind, _ in CODES) as error:
        code = next(code for kind, code in CODES if isinstance(error, kind))
        raise KafkaError(code, str(error)) from error
    except zab.OutcomeUnknown as error:
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, f"the store may or may not have made the change: {error}"
        ) from error
    except zab.ZabError as error:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, f"the request to the store failed: {error}") from error
