"""Each wrong use of a memory store is reported, with what to do instead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import zab
from tests.unit.testing.virtual import on_virtual_time
from zab import testing
from zab.testing import MemoryStore, open_memory_store


def use(calls: Callable[[MemoryStore], Awaitable[object]], servers: int = 3) -> None:
    async def main() -> None:
        async with open_memory_store(servers) as store:
            await calls(store)

    on_virtual_time(main)


def test_another_loop_than_trios_is_reported() -> None:
    async def main() -> None:
        async with open_memory_store():
            raise AssertionError

    with pytest.raises(zab.LocalProtocolError, match=r"needs Trio.*trio.run.*pytest.mark.trio"):
        asyncio.run(main())


def test_with_instead_of_async_with_is_reported() -> None:
    opening: Any = open_memory_store()
    with pytest.raises(TypeError, match="async with"), opening:
        raise AssertionError


def test_use_before_the_block_is_reported() -> None:
    opening: Any = open_memory_store()
    with pytest.raises(AttributeError, match=r"not open yet.*write `async with ... as store:`, then `store.session`"):
        opening.session()
    with pytest.raises(AttributeError, match="no attribute 'sesion'$"):
        opening.sesion()


def test_second_opening_is_reported() -> None:
    async def main() -> None:
        opening = open_memory_store()
        async with opening:
            pass
        with pytest.raises(zab.LocalProtocolError, match="call open_memory_store again"):
            await opening.__aenter__()

    on_virtual_time(main)


CALLS: dict[str, Callable[[MemoryStore], Awaitable[object]]] = {}


def call(function: Callable[[MemoryStore], Awaitable[object]]) -> Callable[[MemoryStore], Awaitable[object]]:
    CALLS[function.__name__] = function
    return function


@call
async def session(store: MemoryStore) -> None:
    async with store.session():
        raise AssertionError


@call
async def connect(store: MemoryStore) -> None:
    async with store.connect(store.hosts):
        raise AssertionError


@call
async def expire(store: MemoryStore) -> None:
    await store.expire(None)  # type: ignore[arg-type]


@call
async def suspend(store: MemoryStore) -> None:
    await store.suspend(None)  # type: ignore[arg-type]


@call
async def resume(store: MemoryStore) -> None:
    await store.resume(None)  # type: ignore[arg-type]


@call
async def server(store: MemoryStore) -> None:
    store.server()


@call
async def wait_leader(store: MemoryStore) -> None:
    await store.wait_leader()


@call
async def kill(store: MemoryStore) -> None:
    await store.kill(1)


@call
async def restart(store: MemoryStore) -> None:
    await store.restart(1)


@call
async def partition(store: MemoryStore) -> None:
    store.partition(1)


@call
async def heal(store: MemoryStore) -> None:
    store.heal()


def test_every_call_is_here() -> None:
    public = {name for name in vars(MemoryStore) if not name.startswith("_")}
    assert public - {"hosts", "leader", "sessions"} == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_call_after_the_end_is_reported(name: str) -> None:
    async def main() -> None:
        async with open_memory_store(servers=3) as store:
            pass
        with pytest.raises(zab.LocalProtocolError, match="is closed: use it inside the block of open_memory_store"):
            await CALLS[name](store)

    on_virtual_time(main)


@pytest.mark.parametrize("name", CALLS)
def test_call_from_another_loop_is_reported(name: str) -> None:
    async def main() -> None:
        async with open_memory_store(servers=3) as store:

            async def elsewhere() -> None:
                with pytest.raises(zab.LocalProtocolError, match="opened in another trio.run: open one in each test"):
                    await CALLS[name](store)

            await trio.to_thread.run_sync(trio.run, elsewhere)

    trio.run(main)


async def request_of_watch(session: zab.Session) -> None:
    async with session.watch("/"):
        raise AssertionError


@pytest.mark.parametrize(
    "request_of",
    [
        lambda session: session.create("/a"),
        lambda session: session.get("/"),
        lambda session: session.add_auth("digest", b"ann:secret"),
        request_of_watch,
    ],
    ids=["create", "get", "add_auth", "watch"],
)
def test_request_of_a_session_from_another_loop_is_reported(
    request_of: Callable[[zab.Session], Awaitable[object]],
) -> None:
    async def main() -> None:
        async with open_memory_store() as store, store.session() as session:

            async def elsewhere() -> None:
                for _ in range(2):
                    with pytest.raises(
                        zab.LocalProtocolError, match="session was opened in another trio.run: open one"
                    ):
                        await request_of(session)

            await trio.to_thread.run_sync(trio.run, elsewhere)
            assert await session.exists("/a") is None

    trio.run(main)


def test_call_from_a_thread_is_reported() -> None:
    async def main() -> None:
        async with open_memory_store(servers=3) as store:

            def elsewhere() -> None:
                with pytest.raises(zab.LocalProtocolError, match=r"MemoryStore.heal needs Trio.*not from a thread"):
                    store.heal()

            await trio.to_thread.run_sync(elsewhere)

    trio.run(main)


def test_wait_for_a_leader_ends_with_the_store() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:

            async def wait(store: MemoryStore) -> None:
                with pytest.raises(zab.LocalProtocolError, match="is closed"):
                    await store.wait_leader()

            async with open_memory_store(servers=3) as store:
                await store.kill(await store.wait_leader())
                nursery.start_soon(wait, store)
                await trio.testing.wait_all_tasks_blocked()
                for server in (1, 2, 3):
                    with suppress(zab.LocalProtocolError):  # it is down already
                        await store.kill(server)
                await trio.sleep(1)

    on_virtual_time(main)


# -- elections that cannot happen ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("killed", "servers", "message"),
    [
        ((1,), 1, r"no server can be elected, because server 1 is down: await store.restart\(1\) starts it"),
        ((1, 2, 3), 3, r"because servers 1, 2, 3 are down: await store.restart\(1\) starts one"),
        ((2, 3), 3, r"because servers 2, 3 are down: await store.restart\(2\) starts one"),
    ],
)
def test_wait_without_a_majority_is_reported(killed: tuple[int, ...], servers: int, message: str) -> None:
    async def main() -> None:
        async with open_memory_store(servers) as store, store.session() as session:
            for server in killed:
                await store.kill(server)
            with pytest.raises(zab.LocalProtocolError, match=f"wait_leader: .*{message}"):
                await store.wait_leader()
            with pytest.raises(zab.LocalProtocolError, match=f"expire: .*{message}"):
                await store.expire(session)
            for server in killed:
                await store.restart(server)
            await store.wait_leader()
            await store.expire(session)

    on_virtual_time(main)


def test_wait_for_a_leader_that_partitions_prevent_is_reported() -> None:
    async def main() -> None:
        async with open_memory_store(servers=3) as store:
            store.partition(1)
            store.partition(2)
            with pytest.raises(
                zab.LocalProtocolError, match=r"partitions leave no majority.* store.heal\(\) ends them"
            ):
                await store.wait_leader()

    on_virtual_time(main)


def test_wait_for_the_leader_during_a_restart_is_no_mistake() -> None:
    async def main() -> None:
        async with open_memory_store() as store, trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(store.restart, 1)
                for _ in range(20):
                    await store.wait_leader()
                    await trio.lowlevel.checkpoint()

    on_virtual_time(main)


# -- a clock that stands still -------------------------------------------------------------------------


STANDS_STILL = r"the MockClock stands still at 0 s, so nothing can {}: .*autojump_threshold to 0.*jump()"


def test_wait_under_a_still_clock_is_reported() -> None:
    async def main() -> None:
        async with open_memory_store(servers=3) as store, store.session() as session:
            clock.autojump_threshold = inf
            await store.kill(await store.wait_leader())
            with pytest.raises(zab.LocalProtocolError, match=STANDS_STILL.format("elect a leader")):
                await store.wait_leader()
            with pytest.raises(zab.LocalProtocolError, match=STANDS_STILL.format("expire the session")):
                await store.expire(session)
            await store.suspend(session)
            with pytest.raises(zab.LocalProtocolError, match=STANDS_STILL.format("connect the session")):
                await store.resume(session)
            clock.autojump_threshold = 0

    clock = MockClock(autojump_threshold=0)
    trio.run(main, clock=clock)


@pytest.mark.parametrize("servers", [1, 3])
def test_session_without_server_under_a_still_clock_is_reported(servers: int) -> None:
    async def main() -> None:
        async with open_memory_store(servers) as store:
            clock.autojump_threshold = inf
            await store.kill(await store.wait_leader())
            with pytest.raises(zab.LocalProtocolError, match=STANDS_STILL.format("open the session")):
                async with store.connect("s1:2181" if servers == 1 else store.hosts):
                    raise AssertionError
            clock.autojump_threshold = 0

    clock = MockClock(autojump_threshold=0)
    trio.run(main, clock=clock)


def test_still_clock_is_no_mistake_within_the_block_of_a_session() -> None:
    async def main() -> None:
        async with open_memory_store() as store, store.session() as session:
            await trio.testing.wait_all_tasks_blocked(0.3)
            assert await session.exists("/") is not None

    trio.run(main, clock=MockClock())


def test_clock_that_a_task_moves_is_no_mistake() -> None:
    async def jump() -> None:
        while True:
            await trio.testing.wait_all_tasks_blocked(0.01)
            clock.jump(0.1)

    async def main() -> None:
        async with open_memory_store(servers=3) as store, trio.open_nursery() as nursery:
            nursery.start_soon(jump)
            await store.kill(await store.wait_leader())
            await store.wait_leader()
            nursery.cancel_scope.cancel()

    clock = MockClock()
    trio.run(main, clock=clock)


# -- arguments -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"server": 3}, TypeError, "open_memory_store has no argument 'server'; did you mean servers?"),
        ({"servers": "3"}, TypeError, "servers must be a whole number, not str"),
        ({"servers": True}, TypeError, "servers must be a whole number, not bool"),
        ({"servers": 0}, zab.LocalProtocolError, "servers = 0: a store has 1 or more"),
        (
            {"servers": 31},
            zab.LocalProtocolError,
            "servers = 31: a store in memory has at most 30: the work of an election grows with the square of them",
        ),
        ({"seed": "a"}, TypeError, "seed must be a whole number, not str"),
    ],
)
def test_wrong_argument_is_reported(arguments: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as raised:
        open_memory_store(**arguments)
    assert str(raised.value) == message


def test_wrong_settings_are_reported() -> None:
    async def main() -> None:
        wrong: Any = zab.StoreSettings()
        with pytest.raises(TypeError, match=r"settings= takes zab.Settings, not StoreSettings; that is for store="):
            async with open_memory_store(settings=wrong):
                raise AssertionError

    on_virtual_time(main)


def test_unknown_server_is_reported() -> None:
    async def calls(store: MemoryStore) -> None:
        for wrong in (store.kill(4), store.restart(0)):
            with pytest.raises(zab.LocalProtocolError, match="there is no server [04]: this store has 1 to 3"):
                await wrong
        for number in (4, "1"):
            server: Any = number
            with pytest.raises(zab.LocalProtocolError, match=f"there is no server {server!r}"):
                store.server(server)
            with pytest.raises(zab.LocalProtocolError, match=f"there is no server {server!r}"):
                store.partition(server)

    use(calls)


def test_server_that_is_down_is_reported() -> None:
    async def calls(store: MemoryStore) -> None:
        await store.kill(1)
        with pytest.raises(zab.LocalProtocolError, match=r"server 1 is down: await store.restart\(1\)"):
            store.server()
        with pytest.raises(zab.LocalProtocolError, match=r"server 1 is down already: await store.restart\(1\)"):
            await store.kill(1)

    use(calls)


def test_partition_without_two_sides_is_reported() -> None:
    async def calls(store: MemoryStore) -> None:
        for side in ((), (1, 2, 3)):
            with pytest.raises(zab.LocalProtocolError, match="name some of the servers 1, 2, 3, and not all"):
                store.partition(*side)

    async def alone(store: MemoryStore) -> None:
        with pytest.raises(zab.LocalProtocolError, match=r"open_memory_store\(servers=3\)"):
            store.partition(1)

    use(calls)
    use(alone, servers=1)


def test_unknown_host_is_reported() -> None:
    async def calls(store: MemoryStore) -> None:
        for hosts in ("zk1:2181", "s1:2181,s4:2181/app", "s1:2182"):
            with pytest.raises(zab.ConfigError, match="is not in this memory store: use store.hosts, 's1:2181,s2"):
                store.connect(hosts)
        with pytest.raises(TypeError, match="did you mean timeout_ms"):
            await store.connect(store.hosts, timeout=3).__aenter__()  # type: ignore[call-arg]

    use(calls)


def test_session_of_another_store_is_reported() -> None:
    async def calls(store: MemoryStore) -> None:
        await trio.sleep(1)  # the ids of sessions contain the time
        async with open_memory_store() as another, another.session() as session:
            for misuse in (store.suspend, store.resume):
                with pytest.raises(zab.LocalProtocolError, match="has no connection in this store: open it with store"):
                    await misuse(session)
            with pytest.raises(zab.LocalProtocolError, match="is not in this store: it has expired, or belongs to"):
                await store.expire(session)

    use(calls)


@pytest.mark.parametrize("wrong", [None, "session"])
def test_value_that_is_no_session_is_reported(wrong: Any) -> None:
    async def calls(store: MemoryStore) -> None:
        with pytest.raises(TypeError, match=r"session must be a session of this store, such as .*, not (None|s)"):
            await store.expire(wrong)

    use(calls, servers=1)


def test_session_without_connection_cannot_be_suspended() -> None:
    async def calls(store: MemoryStore) -> None:
        async with store.server().session() as session:
            with pytest.raises(zab.LocalProtocolError, match="has no connection in this store"):
                await store.suspend(session)

    use(calls)


def test_unknown_name_of_the_module_is_reported() -> None:
    assert set(testing.__all__) <= set(dir(testing))
    with pytest.raises(AttributeError, match=r"module 'zab.testing' has no attribute 'open_store'"):
        _ = testing.open_store  # type: ignore[attr-defined]
