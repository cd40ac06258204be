"""Exceptions from a block with tasks beside it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from zab.core.errors import Stopped
from zab.runtime.block_nursery import block_nursery


class Failure(Exception):
    """The failure of a task beside the block."""


async def fails() -> None:
    raise Failure


async def two_fail() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fails)
        nursery.start_soon(fails)


async def out_of(block: Callable[[], Awaitable[None]], *beside: Callable[[], Awaitable[None]]) -> BaseException | None:
    try:
        async with block_nursery() as nursery:
            for work in beside:
                nursery.start_soon(work)
            await block()
    except BaseException as error:
        return error
    return None


async def test_exception_of_the_block_propagates_unchanged() -> None:
    group = ExceptionGroup("mine", [ValueError("one")])
    of_a_nursery = ExceptionGroup("Exceptions from Trio nursery", [ValueError("one")])
    caused = ValueError("caused")
    caused.__cause__ = KeyError("why")
    for error in (ValueError("bare"), group, of_a_nursery, caused, Stopped("it"), ExceptionGroup("", [Stopped("it")])):
        known = error.__cause__, error.__context__

        async def block(error: Exception = error) -> None:
            raise error

        assert await out_of(block) is error
        assert await out_of(block, trio.sleep_forever) is error
        assert (error.__cause__, error.__context__) == known


async def test_an_error_is_not_lost_in_a_cancellation() -> None:
    error = ExceptionGroup("mine", [ValueError("one")])

    async def block() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise error

    with trio.CancelScope() as scope:
        scope.cancel()
        assert await out_of(block, trio.sleep_forever) is error


async def test_error_beside_the_block_propagates_without_a_group() -> None:
    assert type(await out_of(trio.sleep_forever, fails)) is Failure
    assert type(await out_of(trio.sleep_forever, trio.sleep_forever, fails)) is Failure

    async def deep() -> None:
        async with trio.open_nursery() as nursery, trio.open_nursery() as inner:
            nursery.start_soon(trio.sleep_forever)
            inner.start_soon(fails)

    assert type(await out_of(trio.sleep_forever, deep)) is Failure

    async def in_a_nursery() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)

    assert type(await out_of(in_a_nursery, fails)) is Failure


async def test_exception_group_of_the_caller_is_not_unwrapped() -> None:
    group = ExceptionGroup("mine", [Failure()])

    async def fails_so() -> None:
        raise group

    error = await out_of(trio.sleep_forever, fails_so)  # a copy: Trio looks for cancellations in it
    assert isinstance(error, ExceptionGroup)
    assert (error.message, error.exceptions) == ("mine", group.exceptions)


async def test_two_things_that_went_wrong_are_a_group_of_both() -> None:
    async def block() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("while it was cleaned up")

    error = await out_of(block, fails)
    assert isinstance(error, ExceptionGroup)
    assert [type(each) for each in error.exceptions] == [Failure, ValueError]
    error = await out_of(trio.sleep_forever, two_fail)
    assert isinstance(error, ExceptionGroup)
    assert [type(each) for each in error.exceptions] == [Failure, Failure]


async def test_consequence_is_not_reported_beside_its_cause() -> None:
    async def block() -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            raise Stopped("this member failed") from None

    assert type(await out_of(block, fails)) is Failure


@pytest.mark.parametrize("beside", [(), (trio.sleep_forever,)])
async def test_a_cancelled_block_is_cancelled(beside: tuple[Callable[[], Awaitable[None]], ...]) -> None:
    with trio.CancelScope() as scope:
        async with block_nursery() as nursery:
            for work in beside:
                nursery.start_soon(work)
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    with trio.CancelScope() as scope:
        async with block_nursery() as nursery:
            for work in beside:
                nursery.start_soon(work)
            scope.cancel()
    assert scope.cancel_called


async def test_its_tasks_end_with_it() -> None:
    assert await out_of(trio.lowlevel.checkpoint, trio.sleep_forever) is None
