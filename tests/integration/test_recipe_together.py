"""Barriers and parties."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.integration.recipe_stores import SESSION_KINDS, in_doubt, opened, until
from zab.core.errors import ConfigError
from zab.recipes import Barrier, DoubleBarrier, Lost, Party, ShallowParty
from zab.session.api import Session

each_session_kind = pytest.mark.parametrize("via", SESSION_KINDS)


@each_session_kind
async def test_a_barrier_is_in_the_way_until_it_is_removed(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as one, store.session() as two:
        barrier, passed = Barrier(one, "/some/barrier"), trio.Event()
        await barrier.wait()
        await barrier.create()
        await barrier.create()

        async def wait() -> None:
            await Barrier(two, "/some/barrier").wait()
            passed.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await until(lambda: "/some/barrier" in store.server.machine.watches.data_paths)
            await one.set("/some/barrier", b"changed, but there")
            await until(lambda: "/some/barrier" in store.server.machine.watches.data_paths)
            assert not passed.is_set()
            assert await barrier.remove()
        assert passed.is_set()
        assert not await barrier.remove()


@each_session_kind
@pytest.mark.parametrize("doubt", [0, 0.3])
async def test_double_barrier_starts_and_ends_together(tmp_path: Path, via: str, doubt: float) -> None:
    """Round after round, without a pause in between, at the same node."""
    count, rounds = 4, 10
    began, through = [0] * rounds, [0] * rounds

    async def take_part(session: Session) -> None:
        for number in range(rounds):
            async with DoubleBarrier(session, "/some/d", count):
                began[number] += 1
                await until(lambda number=number: began[number] == count)  # type: ignore[misc]
                through[number] += 1
            assert through[number] == count

    async with opened(tmp_path, via) as store, store.session() as one, store.session() as two:
        in_doubt(one, Random(1), doubt)
        async with trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(take_part, (one, two)[number % 2])
        assert through == [count] * rounds
        assert store.names("/some/d") == []


@each_session_kind
async def test_failed_participant_does_not_block_a_double_barrier(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as one, store.session() as two:
        ended = trio.Event()

        async def stays() -> None:
            async with DoubleBarrier(two, "/d", 2):
                pass
            ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stays)
            with pytest.raises(ValueError, match="a mistake"):
                async with DoubleBarrier(one, "/d", 2):
                    await wait_all_tasks_blocked()
                    assert not ended.is_set()
                    raise ValueError("a mistake")
        assert ended.is_set()
        with trio.move_on_after(0.05) as scope:
            async with DoubleBarrier(one, "/d", 2):
                raise AssertionError("unreachable")
        assert scope.cancelled_caught
        assert store.names("/d") == []


@each_session_kind
async def test_leftover_ready_node_opens_no_double_barrier(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as one, store.session() as two:
        await one.ensure_path("/d/ready")
        began: list[int] = []

        async def take_part(session: Session, number: int) -> None:
            async with DoubleBarrier(session, "/d", 2):
                began.append(number)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(take_part, one, 1))
            await until(lambda: len(store.names("/d")) == 1)  # its own, and no longer what was left
            await wait_all_tasks_blocked()
            assert began == []
            nursery.start_soon(partial(take_part, two, 2))
        assert sorted(began) == [1, 2]


@each_session_kind
async def test_the_end_of_a_session_is_the_end_of_its_part(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as one, store.session() as two:
        for what in (DoubleBarrier(one, "/d", 1), Party(two, "/p")):
            with pytest.raises(Lost):
                async with what:
                    store.expire(what.session)
                    await trio.sleep_forever()


@each_session_kind
@pytest.mark.parametrize("kind", [Party, ShallowParty])
async def test_party_lists_present_members(tmp_path: Path, via: str, kind: type[Party | ShallowParty]) -> None:
    async with opened(tmp_path, via) as store, store.session() as one, store.session() as two:
        in_doubt(one, Random(2), 0.5)
        look = kind(two, "/some/party")
        assert await look.members() == []
        async with kind(one, "/some/party", "a"):
            assert await look.members() == ["a"]
            async with kind(two, "/some/party", "b"), kind(one, "/some/party"):
                assert sorted(await look.members()) == ["", "a", "b"]
            assert await look.members() == ["a"]
        assert await look.members() == []


async def test_invalid_arguments_are_reported(tmp_path: Path) -> None:
    async with opened(tmp_path) as store, store.session() as session:
        with pytest.raises(ConfigError, match="needs at least one participant"):
            DoubleBarrier(session, "/d", 0)
        for name in ("a/b", "\x00"):
            with pytest.raises(ConfigError, match="cannot be part of a node's name"):
                ShallowParty(session, "/p", name)
