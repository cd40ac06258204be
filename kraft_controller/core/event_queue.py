"""The controller's event queue, and the processing of one event at a time (ControllerEventManager in Apache Kafka)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from attrs import frozen

from kraft_controller.core.controller_events import (
    BrokerNotAvailable,
    BrokersChanged,
    ControllerElected,
    Event,
    PartitionStateChanged,
    PartitionStatesChanged,
    StaleBrokerEpoch,
)
from kraft_controller.core.kafka_controller import KafkaController
from kraft_controller.core.store_requests import ControllerMoved, RepliesLost, StoreRequests

MERGED_MAX: Final = 200
"""The maximum number of `PartitionStateChanged` events that are processed together. Other events wait meanwhile."""
_LOST: Final = "this broker is no longer the controller"


class NotController(Exception):
    """This broker is not the controller, or not any more. The request must be sent to the current controller."""


class EventFailed(Exception):
    """The controller raised an unexpected exception while it processed this event. Another controller would
    probably raise it, too."""


class EventResult:
    """The result of an event that a broker or an administrator requested."""

    def __init__(self, on_done: Callable[[], None]) -> None:
        self.done = False
        self._on_done = on_done
        """Called once, when the result is available."""
        self._result: Any = None
        self._error: Exception | None = None

    def get(self) -> Any:
        """Return the result, or raise the error."""
        assert self.done
        if self._error is not None:
            raise self._error
        return self._result

    def succeed(self, result: Any) -> None:
        self._finish(result, None)

    def fail(self, error: Exception) -> None:
        self._finish(None, error)

    def _finish(self, result: Any, error: Exception | None) -> None:
        if not self.done:
            self.done, self._result, self._error = True, result, error
            self._on_done()


@frozen
class QueuedEvent:
    event: Event
    result: EventResult | None
    """The receiver of the result; None for a notification."""
    queued_s: float


class EventQueue:
    """A queue of events. `BrokersChanged` goes to the front, behind `ControllerElected` only, because partitions may be
    leaderless while it waits. Equal notifications are queued once, since processing one of them suffices.
    """

    def __init__(self, now_s: Callable[[], float], wake: Callable[[], None] = lambda: None) -> None:
        self._now_s = now_s
        self._wake = wake
        """Called whenever an event is added."""
        self._waiting: deque[QueuedEvent] = deque()
        self._noted: set[Event] = set()
        """The notifications in `_waiting`."""
        self.closed = False
        """True if the term is over: no event is accepted or processed any more."""

    def __len__(self) -> int:
        return len(self._waiting)

    def note(self, event: Event) -> None:
        """Add a notification, unless an equal one is queued."""
        if not self.closed and event not in self._noted:
            self._noted.add(event)
            self._put(event, None)

    def ask(self, event: Event, on_done: Callable[[], None]) -> EventResult:
        """Add a request. `on_done` is called when its result is available. After the end of the term, the request fails
        at once."""
        result = EventResult(on_done)
        if self.closed:
            result.fail(NotController(_LOST))
        else:
            self._put(event, result)
        return result

    def take(self) -> QueuedEvent | None:
        """Return the next event; None if the queue is empty."""
        if not self._waiting:
            return None
        queued = self._waiting.popleft()
        if queued.result is None:
            self._noted.discard(queued.event)
        if isinstance(queued.event, PartitionStateChanged):
            return QueuedEvent(self._merged(queued.event), queued.result, queued.queued_s)
        return queued

    def _merged(self, first: PartitionStateChanged) -> Event:
        """Merge a changed state with other queued ones, so that they are read and written together."""
        partitions, others = [first.where], deque[QueuedEvent]()
        for queued in self._waiting:
            event = queued.event
            if isinstance(event, PartitionStateChanged) and queued.result is None and len(partitions) < MERGED_MAX:
                self._noted.discard(event)
                partitions.append(event.where)
            else:
                others.append(queued)
        self._waiting = others
        return first if len(partitions) == 1 else PartitionStatesChanged(tuple(partitions))

    def close(self) -> None:
        """Drop all events. Requests fail with `NotController`."""
        self.closed = True
        for queued in self._waiting:
            if queued.result is not None:
                queued.result.fail(NotController(_LOST))
        self._waiting.clear()
        self._noted.clear()

    def _put(self, event: Event, result: EventResult | None) -> None:
        place = len(self._waiting)
        if isinstance(event, BrokersChanged):
            place = 1 if self._waiting and isinstance(self._waiting[0].event, ControllerElected) else 0
        self._waiting.insert(place, QueuedEvent(event, result, self._now_s()))
        self._wake()


def process_event(controller: KafkaController, queued: QueuedEvent) -> StoreRequests[None]:
    """Process one event and deliver its result.

    If a request is refused, only its requester receives the error. Any other exception may leave the context
    inconsistent: it is raised, and the term ends. If that exception was expected, the requester receives
    `NotController`, and repeats the request to the next controller. If not, the requester receives `EventFailed`, since
    the next controller would probably raise the exception, too.
    """
    result = queued.result
    try:
        value = yield from controller.process(queued.event)
    except (StaleBrokerEpoch, BrokerNotAvailable, ValueError) as error:
        if result is None:
            raise
        result.fail(error)
    except (ControllerMoved, RepliesLost):
        if result is not None:
            result.fail(NotController(_LOST))
        raise
    except Exception as error:
        if result is not None:
            result.fail(EventFailed(f"{type(queued.event).__name__}: {error!r}"))
        raise
    except BaseException:  # the driver stopped, because the term or the session ended
        if result is not None:
            result.fail(NotController(_LOST))
        raise
    else:
        if result is not None:
            result.succeed(value)
