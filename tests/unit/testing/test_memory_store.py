"""A store in memory, of one server: on every clock, without threads, files and sockets; and faults of its sessions."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import zab
from tests.unit.testing.virtual import on_virtual_time
from zab.recipes import Election, Lock, Lost
from zab.testing import MemoryStore, open_memory_store

TIMEOUT_MS = 4_000
"""The shortest timeout that a server grants by default."""


def state_of(session: zab.Session) -> zab.SessionState:
    """Return the state now; a type checker takes an attribute for unchanged."""
    return session.state


async def use(store: MemoryStore) -> None:
    """Use a store as an application does: sleep, wait for others, write and read."""
    async with store.session() as one, store.session() as two:
        await one.create("/jobs", b"0")
        async with two.watch("/jobs") as events, trio.open_nursery() as nursery:
            await two.get("/jobs")

            async def work() -> None:
                await trio.sleep(3)
                async with Lock(one, "/lock"):
                    await one.set("/jobs", b"1")
                    await trio.sleep(3)

            nursery.start_soon(work)
            assert (await anext(events)).event is zab.Event.DATA_CHANGED
            with trio.fail_after(30):
                async with Lock(two, "/lock"):
                    assert (await two.get("/jobs"))[0] == b"1"


@pytest.mark.slow
def test_store_works_many_times_under_autojump() -> None:
    async def main() -> None:
        async with open_memory_store() as store:
            await use(store)

    for _ in range(50):
        on_virtual_time(main)


def test_store_works_in_real_time() -> None:
    async def main() -> None:
        async with open_memory_store() as store, store.session() as session:
            await session.create("/a", b"1")
            await store.expire(session)

    trio.run(main)


def test_single_store_needs_no_time() -> None:
    clock = MockClock()

    async def main() -> None:
        async with open_memory_store() as store, store.session() as session:
            await session.create("/a", b"1")
            assert trio.current_time() == 0
            clock.jump(1.5)
            assert await session.get("/a")

    trio.run(main, clock=clock)


def test_store_uses_no_thread_file_or_socket() -> None:
    def open_here() -> tuple[list[str], int]:
        return os.listdir("/dev/fd"), threading.active_count()

    async def main() -> None:
        before = open_here()
        async with open_memory_store(servers=3) as store, store.session() as session:
            await session.create("/a", b"1")
            await store.restart(3)
            assert open_here() == before
        assert open_here() == before

    on_virtual_time(main)


def test_wall_clock_follows_virtual_time() -> None:
    async def main() -> None:
        options: Any = {"client_ports": zab.ClientPortSettings(containers_ms=1_000)}
        async with open_memory_store(**options) as store, store.session() as session:
            await session.create("/box", container=True)
            await session.create("/box/n")
            first = await session.exists("/box")
            await trio.sleep(100)
            await session.delete("/box/n")
            last = await session.exists("/box")
            assert first is not None
            assert last is not None
            await session.create("/later")
            later = await session.exists("/later")
            assert later is not None
            assert later.ctime - first.ctime >= 100_000
            await trio.sleep(10)
            assert await session.exists("/box") is None

    on_virtual_time(main)


# -- sessions ------------------------------------------------------------------------------------------


def test_expired_session_loses_its_ephemeral_nodes() -> None:
    async def main() -> None:
        async with open_memory_store() as store, store.session() as session, store.session() as other:
            await session.create("/me", ephemeral=True)
            await store.expire(session)
            assert state_of(session) is zab.SessionState.EXPIRED
            assert await other.exists("/me") is None
            with pytest.raises(zab.SessionExpired):
                await session.get("/me")
            await store.expire(session)  # nothing is left to do
            assert store.sessions == (session, other)
            assert other.state is zab.SessionState.CONNECTED

    on_virtual_time(main)


def test_session_without_connection_expires_too() -> None:
    async def main() -> None:
        async with open_memory_store() as store, store.server().session() as session:
            await session.create("/me", ephemeral=True)
            await store.expire(session)
            assert state_of(session) is zab.SessionState.EXPIRED

    on_virtual_time(main)


def test_suspended_session_survives_until_its_timeout() -> None:
    async def main() -> None:
        async with open_memory_store() as store, store.session(TIMEOUT_MS) as session, store.session() as other:
            await session.create("/me", ephemeral=True)
            states = session.states()
            assert await anext(states) is zab.SessionState.CONNECTED
            async with session.watch("/a") as events:
                await session.exists("/a")
                await store.suspend(session)
                assert state_of(session) is zab.SessionState.SUSPENDED
                await other.create("/a")
                await trio.sleep(TIMEOUT_MS / 1000 / 2)
                assert state_of(session) is zab.SessionState.SUSPENDED
                await store.resume(session)
                assert state_of(session) is zab.SessionState.CONNECTED
                assert (await anext(events)).event is zab.Event.MAYBE_MISSED  # as over any lost connection
            assert await session.exists("/me") is not None
            assert [await anext(states), await anext(states)] == [
                zab.SessionState.SUSPENDED,
                zab.SessionState.CONNECTED,
            ]

    on_virtual_time(main)


def test_session_that_is_suspended_for_too_long_expires() -> None:
    async def main() -> None:
        async with open_memory_store() as store, store.session(TIMEOUT_MS) as session, store.session() as other:
            await session.create("/me", ephemeral=True)
            async with other.watch("/me") as events:
                await other.exists("/me")
                await store.suspend(session)
                began = trio.current_time()
                assert (await anext(events)).event is zab.Event.DELETED
            assert TIMEOUT_MS <= (trio.current_time() - began) * 1000 <= TIMEOUT_MS + 2_000
            assert state_of(session) is zab.SessionState.SUSPENDED
            await store.resume(session)
            assert state_of(session) is zab.SessionState.EXPIRED

    on_virtual_time(main)


def test_expired_session_that_is_suspended_learns_of_it_later() -> None:
    async def main() -> None:
        async with open_memory_store() as store, store.session() as session:
            await store.suspend(session)
            await store.expire(session)
            assert state_of(session) is zab.SessionState.SUSPENDED
            await store.resume(session)
            assert state_of(session) is zab.SessionState.EXPIRED

    on_virtual_time(main)


def test_calls_of_a_suspended_session_wait() -> None:
    async def main() -> None:
        async with open_memory_store() as store, store.session() as session:
            await session.create("/a", b"1")
            await store.suspend(session)
            with trio.move_on_after(1) as scope:
                await session.get("/a")
            assert scope.cancelled_caught
            await store.resume(session)
            assert (await session.get("/a"))[0] == b"1"

    on_virtual_time(main)


def test_connect_has_the_arguments_of_the_real_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with open_memory_store(servers=2) as store, store.session() as session:
            await session.create("/app")
            async with store.connect("s2:2181/app", auth=[("digest", b"u:p")]) as below:
                await below.create("/n", acl=zab.CREATOR_ACL)
            with pytest.raises(zab.NoAuth):
                await session.get("/app/n")

            monkeypatch.setattr(zab, "connect", store.connect)
            async with zab.connect(f"{store.hosts}/app", timeout_ms=TIMEOUT_MS) as below:
                assert below.timeout_ms == TIMEOUT_MS
                assert await below.children("/") == ["n"]

    on_virtual_time(main)


# -- recipes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suspended", [False, True])
def test_lock_is_lost_when_its_session_expires(suspended: bool) -> None:
    async def main() -> None:
        async with open_memory_store() as store, store.session(TIMEOUT_MS) as one, store.session() as two:
            holds = trio.Event()

            async def hold() -> None:
                with pytest.raises(Lost):
                    async with Lock(one, "/lock"):
                        holds.set()
                        await trio.sleep_forever()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(hold)
                await holds.wait()
                if suspended:
                    await store.suspend(one)
                else:
                    await store.expire(one)
                with trio.fail_after(10):
                    async with Lock(two, "/lock"):
                        pass
            if suspended:
                await store.resume(one)

    on_virtual_time(main)


def test_election_has_another_leader_after_an_expiry() -> None:
    async def main() -> None:
        led: list[str] = []

        async def run(store: MemoryStore, name: str, ends: bool) -> None:
            async with store.session() as session:
                try:
                    async with Election(session, "/boss", name).candidate():
                        led.append(name)
                        if ends:
                            await store.expire(session)
                            await trio.sleep_forever()
                except Lost:
                    led.append(f"{name} lost it")

        async with open_memory_store() as store, trio.open_nursery() as nursery:
            nursery.start_soon(run, store, "anna", True)
            await trio.sleep(1)
            nursery.start_soon(run, store, "ben", False)
        assert sorted(led) == ["anna", "anna lost it", "ben"]

    on_virtual_time(main)


# -- restarts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power_loss", [False, True])
def test_restarted_store_has_its_data_and_its_sessions(power_loss: bool) -> None:
    async def main() -> None:
        async with open_memory_store() as store, store.session() as session:
            await session.create("/a", b"1", ephemeral=True)
            await store.kill(1, power_loss=power_loss)
            assert store.leader is None
            assert "no leader" in repr(store)
            await trio.sleep(1)
            assert state_of(session) is zab.SessionState.SUSPENDED
            await store.restart(1)
            assert (await session.get("/a"))[0] == b"1"
            assert state_of(session) is zab.SessionState.CONNECTED
            await store.restart(1)  # a running server is stopped in good order first
            assert (await session.get("/a"))[0] == b"1"
            assert store.server().mode == "standalone"

    on_virtual_time(main)


def test_seed_determines_the_choices_of_clients() -> None:
    def choices(seed: int) -> list[str]:
        async def main() -> list[str]:
            found = []
            async with open_memory_store(servers=3, seed=seed) as store:
                for _ in range(16):
                    async with store.session() as session:
                        found.append(str(session.connector.server))
            return found

        return on_virtual_time(main)

    assert choices(1) == choices(1)
    assert choices(1) != choices(2)
