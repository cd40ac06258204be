"""Creation of missing topics that clients ask about (`auto.create.topics.enable`), in the background.

A response does not wait until all of its topics are created: a request of a megabyte can name tens of thousands.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import trio
from attrs import define, field

from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.logs import Log

CREATED_AT_A_TIME_MAX: Final = 50
"""The maximum number of topics that are created concurrently."""
CREATED_BY_REQUEST_MAX: Final = 1_000
"""The maximum number of topics that one request may create."""
PENDING_MAX: Final = 2_000
"""The maximum number of topics with a pending creation, for all requests together."""
WAIT_S: Final = 1.0
"""The longest time that a response waits for its topics, to report errors such as a wrong replication factor."""

Make = Callable[[str], Awaitable[None]]
"""Creates a missing topic. Raises `KafkaError`."""


@define(eq=False)
class _Creation:
    name: str
    code: ErrorCode = ErrorCode.LEADER_NOT_AVAILABLE
    """The error to report. A created topic has no leader yet, and a temporary error is reported in the same way:
    clients ask again."""
    done: trio.Event = field(factory=trio.Event)


class AutoTopicCreationManager:
    """Creates topics while `run` runs."""

    def __init__(self, make: Make, log: Log) -> None:
        self._make = make
        self._log = log
        self._pending: dict[str, _Creation] = {}
        """The topics whose creation is not complete, by name."""
        self._queue, self._to_begin = trio.open_memory_channel[_Creation](PENDING_MAX)
        """The creations in `_pending` that have not begun. They always fit, because `_pending` has the same limit."""

    async def create(self, names: Iterable[str]) -> dict[str, ErrorCode]:
        """Begin to create topics, wait up to `WAIT_S`, and return the error of each.

        The error is LEADER_NOT_AVAILABLE if the topic was created, if its creation is pending, or if the creation
        failed with a retriable error. Topics beyond the limits are not created and not returned.
        """
        begun: dict[str, _Creation] = {}
        for name in names:
            creation = self._pending.get(name)
            if creation is None:
                if len(begun) >= CREATED_BY_REQUEST_MAX or len(self._pending) >= PENDING_MAX:
                    continue
                creation = self._pending[name] = _Creation(name)
                self._queue.send_nowait(creation)
            begun[name] = creation
        with trio.move_on_after(WAIT_S):
            for creation in begun.values():
                await creation.done.wait()
        return {name: creation.code for name, creation in begun.items()}

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(CREATED_AT_A_TIME_MAX):
                nursery.start_soon(self._work)

    async def _work(self) -> None:
        async for creation in self._to_begin:
            try:
                await self._make(creation.name)
            except KafkaError as error:
                if not error.code.retriable:
                    creation.code = error.code
            except Exception as error:
                self._log.failed("auto_creation", error, topic=creation.name)
                creation.code = ErrorCode.UNKNOWN_SERVER_ERROR
            finally:
                del self._pending[creation.name]
                creation.done.set()
