"""Cancellation at every step leaves no node and takes no entry."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.integration.recipe_stores import SESSION_KINDS, RecipeStore, cancelled_at, opened
from zab.recipes import DoubleBarrier, Lock, LockingQueue, Party, Queue, ReadLock, Semaphore, ShallowParty
from zab.session.api import Session
from zab.store.znode import OWNER

each_session_kind = pytest.mark.parametrize("via", SESSION_KINDS)


BLOCKS: dict[str, Callable[[Session], AbstractAsyncContextManager[Any]]] = {
    "lock": lambda session: Lock(session, "/x"),
    "read lock": lambda session: ReadLock(session, "/x"),
    "semaphore": lambda session: Semaphore(session, "/x"),
    "double barrier": lambda session: DoubleBarrier(session, "/x", 1),
    "party": lambda session: Party(session, "/x"),
    "shallow party": lambda session: ShallowParty(session, "/x"),
}


def left(store: RecipeStore) -> list[str]:
    return [path for path, node in store.server.machine.tree.nodes.items() if node[OWNER] > 0]


@each_session_kind
@pytest.mark.parametrize("name", BLOCKS)
async def test_a_block(tmp_path: Path, via: str, name: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as session:

        async def work() -> None:
            async with BLOCKS[name](session):
                assert len(left(store)) == 1

        step, done = 0, False
        while not done:
            step += 1
            done = await cancelled_at(step, work)
            await session.sync()
            assert left(store) == [], f"cancelled at step {step}"
        assert step > 1


@each_session_kind
async def test_cancelled_take_of_an_entry(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as session:
        done = 0

        async def work() -> None:
            nonlocal done
            async with LockingQueue(session, "/q").take():
                assert len(left(store)) == 1
            done += 1

        await LockingQueue(session, "/q").put(b"1")
        step, finished = 0, False
        while not finished:
            step += 1
            finished = await cancelled_at(step, work)
            await session.sync()
            assert left(store) == [], f"cancelled at step {step}"
            assert len(store.names("/q/entries")) == 1 - done, f"cancelled at step {step}"
            if done:
                break
        assert step > 1
        assert done


@each_session_kind
async def test_cancelled_get_of_an_entry(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as session:
        got: list[bytes] = []

        async def work() -> None:
            got.append(await Queue(session, "/q").get())

        await Queue(session, "/q").put(b"1")
        step = 0
        while not got:
            step += 1
            await cancelled_at(step, work)
            await session.sync()
            assert len(store.names("/q")) == 1 - len(got), f"cancelled at step {step}"
        assert step > 1


@each_session_kind
async def test_cancellation_after_returning_an_entry(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as session:
        with trio.CancelScope() as scope:
            async with Lock(session, "/x"):
                scope.cancel()
        assert left(store) == []
