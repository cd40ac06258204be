"""A context manager raises what its block raises unchanged, and our own failures without a group around them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

import zab
from zab.core.zxid import Zxid

Opens = Callable[[Path], AbstractAsyncContextManager[Any]]


class Counter(zab.Passive):
    failure: Exception | None = None

    def apply(self, zxid: Zxid, txn: bytes) -> None:
        if self.failure is not None:
            raise self.failure

    def snapshot(self) -> list[bytes]:
        return []

    def restore(self, chunks: object) -> None: ...


def member(path: Path) -> AbstractAsyncContextManager[Any]:
    return zab.open_member(Counter(), path)


def store(path: Path) -> AbstractAsyncContextManager[Any]:
    return zab.open_store(path, client_port=0)


@asynccontextmanager
async def session(path: Path) -> AsyncIterator[Any]:
    async with zab.open_store(path) as opened, opened.session() as found:
        yield found


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[Any]:
    async with zab.open_store(path, client_port=0) as opened, zab.connect(f"127.0.0.1:{opened.client_port}") as found:
        yield found


@pytest.fixture(params=[member, store, session, connected])
def opens(request: pytest.FixtureRequest) -> Opens:
    found: Opens = request.param
    return found


async def test_exception_of_the_block_propagates_unchanged(tmp_path: Path, opens: Opens) -> None:
    group = ExceptionGroup("mine", [ValueError("one")])
    for error in (ValueError("bare"), group, zab.NoNode(-101, "/x"), ExceptionGroup("", [zab.Stopped("another")])):
        with pytest.raises(type(error)) as caught:
            async with opens(tmp_path):
                raise error
        assert caught.value is error
        assert error.__context__ is None


async def test_the_group_of_ones_own_nursery_stays_a_group(tmp_path: Path, opens: Opens) -> None:
    async def fails() -> None:
        raise ValueError("one")

    with pytest.raises(ExceptionGroup) as caught:
        async with opens(tmp_path), trio.open_nursery() as nursery:
            nursery.start_soon(fails)
    assert [type(each) for each in caught.value.exceptions] == [ValueError]


async def test_own_error_propagates_without_a_group(tmp_path: Path) -> None:
    machine = Counter()
    machine.failure = ZeroDivisionError("in apply")
    with pytest.raises(ZeroDivisionError) as caught:
        async with zab.open_member(machine, tmp_path) as opened:
            await opened.submit(b"x")
    assert caught.value is machine.failure
