"""A nursery for the tasks of a store or a member, which run while the user's block runs.

A nursery wraps every error in a group. The user did not open this nursery, so a single error of its tasks is raised
without a group. An error of the block is raised unchanged, also if it is a group, unless a task fails as well.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final

import trio

from zab.core.errors import Stopped

_NURSERYS: Final = "Exceptions from Trio nursery"
"""The message of the groups that nurseries make. A group with another message counts as one error."""


@asynccontextmanager
async def block_nursery() -> AsyncIterator[trio.Nursery]:
    """Open a nursery whose tasks are cancelled at the end of the block.

    If a task fails, cancel the block and raise the task's error: see `sole_error`.
    """
    ended: BaseException | None = None
    failure: BaseExceptionGroup[BaseException] | None = None
    try:
        async with trio.open_nursery() as nursery:
            try:
                yield nursery
            except BaseException as error:
                ended = error
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        failure = group
    # Outside of the handlers, so that an error of the block is raised without a `__context__`.
    if failure is not None and (ended is None or not _is_cancelled(failure)):
        if ended is None or _is_cancelled(ended):
            raise sole_error(failure) from None
        raise sole_error(BaseExceptionGroup(_NURSERYS, [failure, ended])) from None
    if ended is not None:
        raise ended


def sole_error(group: BaseException) -> BaseException:
    """Return the single error inside the groups of nurseries, or a group of the errors if there are several.

    Cancellations do not count, and `Stopped` only if there is nothing else. If there are only cancellations, return
    `group` itself.
    """
    found = [error for error in _in_nurseries(group) if not isinstance(error, trio.Cancelled)]
    found = [error for error in found if not isinstance(error, Stopped)] or found  # only a consequence of another error
    if not found:
        return group
    return found[0] if len(found) == 1 else BaseExceptionGroup(_NURSERYS, found)


def _in_nurseries(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup) and error.message == _NURSERYS:
        for each in error.exceptions:
            yield from _in_nurseries(each)
    else:
        yield error


def _is_cancelled(error: BaseException) -> bool:
    """Return whether this is a cancellation, or a group of nothing but cancellations."""
    return isinstance(error, trio.Cancelled) or (
        isinstance(error, BaseExceptionGroup) and error.split(trio.Cancelled)[1] is None
    )
