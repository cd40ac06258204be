"""Queues and counters: every entry is delivered once, despite failures of producers and consumers."""

from __future__ import annotations

from collections import Counter as Multiset
from itertools import count as count_from
from pathlib import Path
from random import Random

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.integration.recipe_stores import SESSION_KINDS, RecipeStore, in_doubt, opened, until
from zab.core.errors import ConfigError, OutcomeUnknown
from zab.recipes import Contended, Counter, EntryInDoubt, LockingQueue, Lost, Queue, RecipeSettings, Taken
from zab.session.api import Session
from zab.session.session_errors import SessionExpired

each_session_kind = pytest.mark.parametrize("via", SESSION_KINDS)


@each_session_kind
async def test_the_most_urgent_first_and_then_in_the_order_of_coming(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as session:
        queue = Queue(session, "/some/q")
        with pytest.raises(trio.WouldBlock):
            await queue.get_nowait()
        for value, priority in [(b"c", 100), (b"d", 100), (b"e", 999), (b"a", 0), (b"b", 99)]:
            await queue.put(value, priority)
        assert await queue.size() == 5
        assert b"".join([await queue.get_nowait() for _ in range(5)]) == b"abcde"
        with pytest.raises(ConfigError, match="between 0 and 999, not 1000"):
            await queue.put(b"", 1000)


@each_session_kind
async def test_every_entry_goes_to_one_consumer(tmp_path: Path, via: str) -> None:
    got: list[bytes] = []

    async def consume(store: RecipeStore) -> None:
        async with store.session() as session:
            async for entry in Queue(session, "/q"):
                got.append(entry)

    async with opened(tmp_path, via) as store, store.session() as session, trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(consume, store)
        queue = Queue(session, "/q")
        for number in range(50):
            await queue.put(b"%d" % number)
        await until(lambda: len(got) == 50)
        assert sorted(map(int, got)) == list(range(50))
        nursery.cancel_scope.cancel()


@each_session_kind
async def test_cancelled_get_takes_nothing(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as session:
        queue, chance = Queue(session, "/q"), Random(1)
        for number in range(100):
            await queue.put(b"%d" % number)
        got: list[bytes] = []
        cancelled = 0
        while len(got) < 100:
            # The more patient the more often it was in vain, or a slow machine would never come to an end.
            with trio.move_on_after(chance.random() * 0.002 * (1 + cancelled / 100)) as scope:
                got.append(await queue.get())
            cancelled += scope.cancelled_caught
        assert list(map(int, got)) == list(range(100))
        assert cancelled


async def test_entry_with_an_unknown_consumer_is_reported(tmp_path: Path) -> None:
    async with opened(tmp_path) as store, store.session() as one, store.session() as two:
        for number in range(40):
            await Queue(two, "/q").put(b"%d" % number)
        in_doubt(one, Random(5), 0.5)
        got: list[int] = []
        doubted: list[int] = []
        while len(got) + len(doubted) < 40:
            try:
                got.append(int(await Queue(one, "/q").get()))
            except EntryInDoubt as doubt:
                doubted.append(int(doubt.data or b"-1"))
        assert sorted(got + doubted) == list(range(40))
        assert got
        assert doubted


# -- with locks ----------------------------------------------------------------------------------------


@each_session_kind
async def test_an_entry_stays_until_it_is_done_with(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as one, store.session() as two:
        queue, other = LockingQueue(one, "/q"), LockingQueue(two, "/q")
        await queue.put_all([])
        assert await queue.size() == 0
        await queue.put(b"first")
        with pytest.raises(ValueError, match="a mistake"):
            async with queue.take() as entry:
                with pytest.raises(Taken, match="no entry is free"):
                    async with other.take(wait=False):
                        raise AssertionError("unreachable")
                raise ValueError("a mistake")
        async with other.take(wait=False) as entry:
            assert entry.data == b"first"
            entry.put_back()
        assert store.names("/q/taken") == []
        async with queue.take(wait=False) as entry:
            assert await queue.size() == 1
        assert await queue.size() == 0
        assert store.names("/q/taken") == []


@each_session_kind
async def test_entry_of_an_ended_consumer_goes_to_the_next(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as one, store.session() as two:
        await LockingQueue(one, "/q").put(b"work")
        taken = trio.Event()

        async def fails() -> None:
            with pytest.raises(Lost):
                async with LockingQueue(one, "/q").take():
                    taken.set()
                    await trio.sleep_forever()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails)
            await taken.wait()
            store.expire(one)
            async with LockingQueue(two, "/q").take() as entry:
                assert entry.data == b"work"
        assert store.names("/q/entries") == []


@pytest.mark.parametrize("doubt", [0, 0.3])
@pytest.mark.parametrize("seed", range(5))
async def test_every_entry_is_done_with_once(tmp_path: Path, doubt: float, seed: int) -> None:
    """Consumers are cancelled, lose replies, and lose their sessions."""
    done = Multiset[bytes]()
    lost: set[bytes] = set()

    async def consume(store: RecipeStore, chance: Random) -> None:
        while store.names("/q/entries"):
            try:
                async with store.session() as session:
                    in_doubt(session, chance, doubt)
                    for tries in count_from(1):
                        if not store.names("/q/entries"):
                            break
                        with trio.move_on_after(0.1 * (1 + tries / 50)):  # in the end also on a slow machine
                            await work(store, session, chance)
            except SessionExpired:
                pass

    async def work(store: RecipeStore, session: Session, chance: Random) -> None:
        entry, fate = None, chance.random()
        try:
            async with LockingQueue(session, "/q").take() as entry:
                assert done[entry.data] == 0, "nobody gets what somebody has done with"
                if fate < 0.1:
                    store.expire(session)
                if fate < 0.3:
                    await trio.sleep(chance.random() * 0.2)
                if fate > 0.9:
                    entry.put_back()
        except Lost:
            if entry is not None:
                lost.add(entry.data)
        else:
            done[entry.data] += not entry.kept

    async with opened(tmp_path) as store, store.session() as session:
        values = [b"%d" % number for number in range(40)]
        await LockingQueue(session, "/q").put_all(values)
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(consume, store, Random(10 * seed + number))
        assert set(done) | lost == set(values)
        assert max(done.values()) == 1
        assert store.names("/q/taken") == []


# -- counters ------------------------------------------------------------------------------------------


@each_session_kind
async def test_nothing_is_counted_twice_or_not_at_all(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as one, store.session() as two:
        seen: list[int] = []

        async def count(session: Session) -> None:
            for _ in range(10):
                seen.append(await Counter(session, "/some/counter").add(1))

        async with trio.open_nursery() as nursery:
            for session in (one, two, one, two):
                nursery.start_soon(count, session)
        assert sorted(seen) == list(range(1, 41))
        assert await Counter(one, "/some/counter").get() == 40


async def test_contended_counter_raises(tmp_path: Path) -> None:
    async with opened(tmp_path) as store, store.session() as session, store.session() as other:
        counter, real, gets = Counter(session, "/c", settings=RecipeSettings(attempts_max=3)), session.get, 0
        await session.create("/c", b"1")

        async def overtaken(path: str, watch: object = None) -> object:
            nonlocal gets
            gets += 1
            found = await real(path)
            await other.set("/c", b"7")
            return found

        session.get = overtaken  # type: ignore[method-assign, assignment]
        with pytest.raises(Contended, match="changed by others 3 times in a row"):
            await counter.add(1)
        assert gets == 3
        assert (await other.get("/c"))[0] == b"7"


async def test_a_change_in_doubt_is_made_at_most_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as store, store.session() as session, store.session() as other:
        counter, sure, doubts = Counter(session, "/c"), 0, 0
        await counter.get()
        in_doubt(session, Random(3), 0.5)
        for _ in range(40):
            before = await Counter(other, "/c").get()
            try:
                assert await counter.add(1) == before + 1
                sure += 1
            except OutcomeUnknown:
                doubts += 1
                assert await Counter(other, "/c").get() == before + 1
        assert sure
        assert doubts


@each_session_kind
async def test_invalid_number_is_reported(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as session:
        await session.create("/c", b"many")
        with pytest.raises(ConfigError, match="/c holds b'many', which this counter cannot read as int"):
            await Counter(session, "/c").get()
        with pytest.raises(ConfigError, match="/c counts ints, not floats"):
            await Counter(session, "/c").add(1.5)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="a counter of Curator cannot count floats"):
            Counter(session, "/c", 0.5, curator=True)
        small = Counter(session, "/small", curator=True)
        await small.add(2**31 - 1)
        with pytest.raises(ConfigError, match="exceeds the 32 bits"):
            await small.add(1)


async def test_waiting_consumer_gets_the_end_of_its_session(tmp_path: Path) -> None:
    async with opened(tmp_path) as store, store.session() as session, trio.open_nursery() as nursery:

        async def end() -> None:
            await wait_all_tasks_blocked()
            store.expire(session)

        nursery.start_soon(end)
        with pytest.raises(SessionExpired):
            await Queue(session, "/q").get()
