"""A caller's block, and tasks of ours beside it.

A nursery wraps whatever goes wrong in a group. Who uses a store did not open that nursery: what fails in it comes
out bare, and what their own block raises comes out as they raised it, also if that is a group.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final

import trio

from zab.runtime.errors import Stopped

_NURSERYS: Final = "Exceptions from Trio nursery"
"""The message of the groups that nurseries make; others are somebody's own."""


@asynccontextmanager
async def beside_a_block() -> AsyncIterator[trio.Nursery]:
    """A nursery whose tasks end with the block, and cancel it when one of them fails."""
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
    # Out here, so that what the block raised has no context that it did not have before.
    if failure is not None and (ended is None or not _is_cancelled(failure)):
        if ended is None or _is_cancelled(ended):
            raise sole_error(failure) from None
        raise sole_error(BaseExceptionGroup(_NURSERYS, [failure, ended])) from None
    if ended is not None:
        raise ended


def sole_error(group: BaseException) -> BaseException:
    """What went wrong, out of the groups that nurseries wrap it in, where it is one thing."""
    found = [error for error in _in_nurseries(group) if not isinstance(error, trio.Cancelled)]
    found = [error for error in found if not isinstance(error, Stopped)] or found  # a consequence of something else
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
    """And nothing else."""
    return isinstance(error, trio.Cancelled) or (
        isinstance(error, BaseExceptionGroup) and error.split(trio.Cancelled)[1] is None
    )
