"""Contenders with random cancellations, lost replies and session ends, from a seed.

Invariants: no two holders of an exclusive lock, tokens only grow, and at the end no node is
left and all can continue.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import trio

from tests.integration.recipe_stores import RecipeStore, in_doubt, opened
from zab.recipes import Lock, Lost, ReadLock, Semaphore, WriteLock
from zab.recipes.holding import Holdable
from zab.session.api import Session
from zab.session.session_errors import SessionExpired

CONTENDERS = 6
TURNS = 12

Make = Callable[[Session, Random], Holdable]


def lock(session: Session, chance: Random) -> Holdable:
    return Lock(session, "/x")


def readers_and_writers(session: Session, chance: Random) -> Holdable:
    return (ReadLock if chance.random() < 0.6 else WriteLock)(session, "/x")


def semaphore(session: Session, chance: Random) -> Holdable:
    return Semaphore(session, "/x", leases=2)


class Inside:
    """The assumed holders, compared with the store."""

    def __init__(self, store: RecipeStore) -> None:
        self._store = store
        self._paths: dict[str, Holdable] = {}
        self._newest = 0
        self.entered = 0

    def enter(self, path: str, token: int, what: Holdable) -> None:
        # Whoever's node is gone has been told to stop, and may not have heard of it yet: that is no lie of the recipe.
        nodes = self._store.server.machine.tree.nodes
        assert path in nodes
        others = [other for there, other in self._paths.items() if there in nodes]
        match what:
            case ReadLock():
                assert all(isinstance(other, ReadLock) for other in others)
            case Lock():
                assert others == []
                assert token > self._newest, "a fencing token grows"
                self._newest = token
            case _:
                assert len(others) <= 1
        self._paths[path] = what
        self.entered += 1

    def leave(self, path: str) -> None:
        del self._paths[path]


async def contend(store: RecipeStore, inside: Inside, make: Make, chance: Random, doubt: float) -> None:
    turns = TURNS
    while turns:
        try:
            async with store.session() as session:
                in_doubt(session, chance, doubt)
                while turns:
                    turns -= 1
                    await take(store, session, inside, make(session, chance), chance)
        except (Lost, SessionExpired):
            pass


async def take(store: RecipeStore, session: Session, inside: Inside, what: Holdable, chance: Random) -> None:
    with trio.CancelScope() as scope:
        if chance.random() < 0.4:
            scope.deadline = trio.current_time() + chance.random() * 0.02
        async with what as held:
            inside.enter(held.path, held.token, what)
            try:
                await trio.sleep(chance.choice([0, 0.001, 0.01]))
                if chance.random() < 0.1:
                    store.expire(session)
                    await trio.sleep_forever()
                if chance.random() < 0.1:
                    scope.cancel()
            finally:
                inside.leave(held.path)


@pytest.mark.parametrize("make", [lock, readers_and_writers, semaphore])
@pytest.mark.parametrize("doubt", [0, 0.2])
@pytest.mark.parametrize("seed", range(3))
async def test_lock_excludes_others_under_stress(tmp_path: Path, make: Make, doubt: float, seed: int) -> None:
    chance = Random(seed)
    async with opened(tmp_path) as store, store.session() as last:
        inside = Inside(store)
        async with trio.open_nursery() as nursery:
            for _ in range(CONTENDERS):
                nursery.start_soon(contend, store, inside, make, Random(chance.random()), doubt)
        assert inside.entered > CONTENDERS
        assert store.names("/x") == store.names("/x-__lock__") == []
        async with make(last, chance):
            pass
