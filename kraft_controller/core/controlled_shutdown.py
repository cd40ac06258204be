"""Controlled shutdown: before a broker stops, the controller moves the broker's leaderships to other brokers.

The broker requests this. Otherwise each partition that it leads would have no leader until the controller notices that
the broker is gone.
"""

from __future__ import annotations

from collections.abc import Iterable

from kraft_controller.core.commands import Answer, ShutdownRequest
from kraft_controller.core.controller_events import BrokerNotAvailable, StaleBrokerEpoch
from kraft_controller.core.error_codes import (
    BROKER_NOT_AVAILABLE,
    LEADER_NOT_AVAILABLE,
    NONE,
    NOT_CONTROLLER,
    STALE_BROKER_EPOCH,
    UNKNOWN_SERVER_ERROR,
)
from kraft_controller.core.event_queue import NotController
from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition


class ControlledShutdown:
    """The attempts of one broker at a controlled shutdown (controlledShutdown of KafkaServer).

    The driver sends `request`, reports the reply or the failure, and repeats this after a pause until `finished`.
    """

    def __init__(self, me: BrokerId, tries_max: int) -> None:
        self._me = me
        self._tries_max = tries_max
        """`controlled.shutdown.max.retries`, plus the first attempt."""
        self._tries = 0
        """The number of ended attempts, including failed ones."""
        self.remaining: tuple[TopicPartition, ...] | None = None
        """The partitions whose leadership is still to be moved, from the latest reply without an error; None before the
        first such reply."""

    @property
    def finished(self) -> bool:
        return self.remaining == () or self._tries >= self._tries_max

    def request(self, epoch: BrokerEpoch) -> ShutdownRequest:
        assert not self.finished
        return ShutdownRequest(self._tries, self._me, epoch)

    def replied(self, answer: object) -> str | None:
        """Handle the reply to the request. Return the reason if the attempt failed, else None."""
        number, self._tries = self._tries, self._tries + 1
        if not isinstance(answer, Answer) or answer.number != number:
            return "the reply does not belong to the request"
        if answer.error:
            return f"the controller replied with error code {answer.error}"
        self.remaining = tuple(answer.errors)
        return None

    def failed(self) -> None:
        """Record an attempt that ended without a reply."""
        self._tries += 1


def shutdown_granted(request: ShutdownRequest, remaining: Iterable[TopicPartition]) -> Answer:
    """Return the controller's reply, which names the partitions whose leadership is still to be moved."""
    return Answer(request.number, NONE, dict.fromkeys(remaining, LEADER_NOT_AVAILABLE))


def shutdown_refused(request: ShutdownRequest, error: Exception) -> Answer:
    """Return the reply to a request whose processing raised this error."""
    match error:
        case NotController():
            code = NOT_CONTROLLER
        case BrokerNotAvailable():
            code = BROKER_NOT_AVAILABLE
        case StaleBrokerEpoch():
            code = STALE_BROKER_EPOCH
        case _:
            code = UNKNOWN_SERVER_ERROR
    return Answer(request.number, code, {})
