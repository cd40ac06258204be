"""Locks, elections and semaphores: holders, waiters, and cleanup."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.integration.recipe_stores import SESSION_KINDS, RecipeStore, cancelled_at, in_doubt, opened, until
from tests.integration.stores import stores
from zab.core.errors import ConfigError, LocalProtocolError
from zab.recipes import Election, Held, Lock, Lost, ReadLock, Semaphore, Taken, WriteLock
from zab.recipes.recipe_settings import RecipeSettings
from zab.recipes.waiting_queue import in_order
from zab.runtime.store_server.in_process_session import InProcessSession
from zab.session.api import Session
from zab.session.session_errors import NotReadOnly, SessionExpired
from zab.session.state import SessionState
from zab.store.error_codes import ErrorCode
from zab.store.operations import WRITES, Op
from zab.store.paths import child_of

each_session_kind = pytest.mark.parametrize("via", SESSION_KINDS)


@each_session_kind
async def test_one_at_a_time_in_the_order_of_coming(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as one, store.session() as two:
        held: list[Held] = []
        inside = 0

        async def contend(session: Session, name: str) -> None:
            nonlocal inside
            async with Lock(session, "/locks/a", name) as mine:
                inside += 1
                assert inside == 1
                held.append(mine)
                await trio.lowlevel.checkpoint()
                assert inside == 1
                inside -= 1

        lock = Lock(one, "/locks/a", "zero")
        async with trio.open_nursery() as nursery, lock:
            for number in range(1, 6):
                nursery.start_soon(contend, (one, two)[number % 2], str(number))
                await until(lambda number=number: len(store.names("/locks/a")) == number + 1)  # type: ignore[misc]
            assert await lock.contenders() == ["zero", "1", "2", "3", "4", "5"]
        tokens = [each.token for each in held]
        assert tokens == sorted(set(tokens))
        assert store.names("/locks/a") == []


@each_session_kind
async def test_each_watches_only_the_one_before(tmp_path: Path, via: str) -> None:
    async def wait(session: Session) -> None:
        async with Lock(session, "/l"):
            await trio.sleep_forever()

    async with (
        opened(tmp_path, via) as store,
        store.session() as one,
        store.session() as two,
        trio.open_nursery() as nursery,
        Lock(one, "/l") as held,
    ):
        for number in range(3):
            nursery.start_soon(wait, two)
            await until(lambda number=number: len(store.names("/l")) == number + 2)  # type: ignore[misc]
        watched = store.server.machine.watches
        await until(lambda: len(watched.data_paths) == 3)
        line = [child_of("/l", name) for _, name in in_order(store.names("/l"), ["__lock__"])]
        assert set(watched.data_paths) == set(line[:-1]), "the holder looks at its own node, each other at one before"
        assert line[0] == held.path
        assert not watched.child_paths
        nursery.cancel_scope.cancel()


@each_session_kind
async def test_a_lock_that_is_taken(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as one, store.session() as two:
        lock = Lock(two, "/l")
        async with Lock(one, "/l"):
            with pytest.raises(Taken, match="/l is taken"):
                async with lock.hold(wait=False):
                    raise AssertionError("unreachable")
            with trio.move_on_after(0.05) as scope:
                async with lock:
                    raise AssertionError("unreachable")
            assert scope.cancelled_caught
            assert len(store.names("/l")) == 1
        async with lock.hold(wait=False):
            assert len(store.names("/l")) == 1


@each_session_kind
async def test_taking_a_lock_twice_raises(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as session:
        lock = Lock(session, "/l")
        async with lock:
            with pytest.raises(LocalProtocolError, match="could wait for itself"):
                async with lock:
                    raise AssertionError("unreachable")
        async with lock:
            pass


@each_session_kind
async def test_one_object_serves_many_tasks(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as session:
        lock, inside, served = Lock(session, "/l"), 0, 0

        async def use() -> None:
            nonlocal inside, served
            async with lock:
                inside += 1
                await trio.lowlevel.checkpoint()
                assert inside == 1
                inside -= 1
                served += 1

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(use)
        assert served == 5


@each_session_kind
async def test_waiter_cancelled_at_any_step_leaves_no_node(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as one, store.session() as two, Lock(two, "/l"):

        async def take() -> None:
            async with Lock(one, "/l"):
                raise AssertionError("unreachable")

        step, reached = 0, True
        while reached:
            step += 1
            with trio.move_on_after(2) as patience:  # once it waits there are no more steps
                assert not await cancelled_at(step, take)
            reached = not patience.cancelled_caught
            await one.sync()
            assert len(store.names("/l")) == 1, f"cancelled at step {step}"
        assert step > 3


@each_session_kind
@pytest.mark.parametrize("what", [Lock, Semaphore])
async def test_the_end_of_the_session_ends_the_block(tmp_path: Path, via: str, what: type[Lock | Semaphore]) -> None:
    async with opened(tmp_path, via) as store, store.session() as session, store.session() as other:
        with pytest.raises(Lost, match="session"):
            async with what(session, "/l"):
                store.expire(session)
                await trio.sleep_forever()
        async with what(other, "/l"):
            pass


@each_session_kind
async def test_block_that_missed_the_loss_raises_it_at_its_end(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as session, store.session() as other:
        with pytest.raises(Lost):
            async with Lock(session, "/l") as held:
                with trio.CancelScope(shield=True):
                    await other.delete(held.path)


@each_session_kind
async def test_a_lock_that_an_operator_removes_is_lost(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as session, store.session() as other:
        with pytest.raises(Lost, match="was deleted by another client"):
            async with Lock(session, "/l") as held:
                await other.set(held.path, b"this changes nothing")
                await wait_all_tasks_blocked()
                await other.delete(held.path)
                await trio.sleep_forever()


@each_session_kind
async def test_the_end_of_the_session_ends_the_waiting(tmp_path: Path, via: str) -> None:
    async with (
        opened(tmp_path, via) as store,
        store.session() as one,
        store.session() as two,
        Lock(two, "/l"),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(ends, store, one)
        with pytest.raises(SessionExpired):
            async with Lock(one, "/l"):
                raise AssertionError("unreachable")


async def ends(store: RecipeStore, session: Session) -> None:
    await until(lambda: len(store.names("/l")) == 2)
    await wait_all_tasks_blocked()
    store.expire(session)


@each_session_kind
async def test_an_error_of_the_block_comes_out_as_it_is(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as session:
        mistake = ValueError("mine")
        with pytest.raises(ValueError, match="mine") as caught:
            async with Lock(session, "/l"):
                raise mistake
        assert caught.value is mistake
        group = ExceptionGroup("mine", [mistake])
        with pytest.raises(ExceptionGroup) as caught_group:
            async with Lock(session, "/l"):
                raise group
        assert caught_group.value is group
        assert store.names("/l") == []
        with trio.CancelScope() as scope, pytest.raises(ValueError, match="mine"):
            async with Lock(session, "/l"):
                scope.cancel()
                raise mistake


async def test_a_lock_is_given_up_when_the_connection_is_lost_if_so_wished(tmp_path: Path) -> None:
    settings = RecipeSettings(suspended_ms=0, leave_ms=50)
    async with stores(tmp_path, 3) as running:
        leader = await running.leader()
        mine, other = (sid for sid in running.servers if sid != leader)
        async with running.servers[mine].session(timeout_ms=20_000) as session:
            with pytest.raises(Lost, match="the connection was lost"):
                async with Lock(session, "/l", settings=settings):
                    await running.stop(other)
                    await running.stop(leader)
                    await trio.sleep_forever()


@pytest.mark.parametrize("state", [SessionState.SUSPENDED, SessionState.READ_ONLY])
async def test_a_connection_that_is_back_in_time_is_no_loss(tmp_path: Path, state: SessionState) -> None:
    """Neither are several short losses; a long one is."""
    async with opened(tmp_path) as store, store.session() as session:
        lock = Lock(session, "/l", settings=RecipeSettings(suspended_ms=5_000))
        async with lock:
            for _ in range(12):
                session._state_changes.report(state)
                await trio.sleep(0.45)
                session._state_changes.report(SessionState.CONNECTED)
                await trio.sleep(0.01)
        with pytest.raises(Lost, match="the connection was lost"):
            async with lock:
                session._state_changes.report(state)
                await trio.sleep_forever()


async def test_lock_is_released_when_a_server_accepts_writes(tmp_path: Path) -> None:
    async with opened(tmp_path) as store, store.session() as session:
        real, refused = session._ask, trio.Event()

        async def ask(op: Op, *arguments: Any, **options: Any) -> Any:
            if op in WRITES and session.state is SessionState.READ_ONLY:
                refused.set()
                raise NotReadOnly(ErrorCode.NOT_READ_ONLY, "a server that is cut off")
            return await real(op, *arguments, **options)

        async def find_a_better_one() -> None:
            await refused.wait()
            assert len(store.names("/l")) == 1
            session._state_changes.report(SessionState.CONNECTED)

        session._ask = ask  # type: ignore[method-assign]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(find_a_better_one)
            async with Lock(session, "/l"):
                session._state_changes.report(SessionState.READ_ONLY)
        assert store.names("/l") == []


@pytest.mark.parametrize("well", [True, False])
async def test_lost_block_ends_at_once_and_its_node_is_removed_later(tmp_path: Path, well: bool) -> None:
    """Otherwise the node of a rescued session would stay, and no session would hold the lock."""
    settings = RecipeSettings(suspended_ms=0, leave_ms=1 if well else 1_000_000)
    async with opened(tmp_path) as store, store.session() as session:
        real, back = session._ask, trio.Event()

        async def ask(op: Op, *arguments: Any, **options: Any) -> Any:
            if op in WRITES and session.state is SessionState.SUSPENDED:
                await back.wait()
            return await real(op, *arguments, **options)

        session._ask = ask  # type: ignore[method-assign]
        with pytest.raises(Lost, match="could not be reached" if well else "the connection was lost"):
            async with Lock(session, "/l", settings=settings):
                session._state_changes.report(SessionState.SUSPENDED)
                if not well:
                    await trio.sleep_forever()
        assert len(store.names("/l")) == 1
        session._state_changes.report(SessionState.CONNECTED)
        back.set()
        await until(lambda: store.names("/l") == [])


async def test_a_lock_is_given_up_before_the_session_can_be_over(tmp_path: Path) -> None:
    """Counted from the leader's last word, not from when its silence was noticed, nor anew with each bad server."""
    async with opened(tmp_path) as store, store.session() as session:
        real = session._ask

        async def ask(op: Op, *arguments: Any, **options: Any) -> Any:
            if op is Op.SYNC:
                await trio.sleep_forever()
            return await real(op, *arguments, **options)

        session._ask = ask  # type: ignore[method-assign]

        async def no_better_one() -> None:
            while True:
                for state in (SessionState.READ_ONLY, SessionState.SUSPENDED):
                    await wait_all_tasks_blocked()
                    session._state_changes.report(state)

        async with trio.open_nursery() as nursery:
            with pytest.raises(Lost, match="the connection was lost"):
                async with Lock(session, "/l", settings=RecipeSettings(suspended_ms=1_000_000)):
                    assert isinstance(session, InProcessSession)
                    session._state_changes.report(SessionState.SUSPENDED)
                    session._last_received_at = trio.current_time() - session.timeout_ms / 1000
                    nursery.start_soon(no_better_one)
                    await trio.sleep_forever()
            nursery.cancel_scope.cancel()


async def test_a_lock_is_kept_while_the_connection_is_lost(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as running:
        leader = await running.leader()
        mine, other = (sid for sid in running.servers if sid != leader)
        async with running.servers[mine].session(timeout_ms=20_000) as session, Lock(session, "/l") as held:
            states = session.states()
            assert await anext(states) is SessionState.CONNECTED
            await running.stop(other)
            await running.stop(leader)
            assert await anext(states) is SessionState.SUSPENDED
            await running.start(leader)
            assert await session.exists(held.path) is not None


@each_session_kind
@pytest.mark.parametrize("seed", range(5))
async def test_lock_finds_its_node_after_a_lost_reply(tmp_path: Path, via: str, seed: int) -> None:
    async with opened(tmp_path, via) as store, store.session() as one, store.session() as two:
        in_doubt(one, Random(seed), 0.5)
        for what in (Lock, Semaphore, ReadLock):
            for _ in range(5):
                async with what(one, f"/some/where/{what.__name__}") as held:
                    stat = await two.exists(held.path)
                    assert stat is not None
                    assert stat.czxid == held.token
                    assert len(store.names(f"/some/where/{what.__name__}")) == 1
                assert store.names(f"/some/where/{what.__name__}") == []


# -- many readers, one writer --------------------------------------------------------------------------


@each_session_kind
async def test_readers_together_writers_alone(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as one, store.session() as two:
        read, write = ReadLock(one, "/rw", "r"), WriteLock(two, "/rw", "w")
        async with read.hold(wait=False), read.hold(wait=False):
            with pytest.raises(Taken):
                async with write.hold(wait=False):
                    raise AssertionError("unreachable")
        async with write.hold(wait=False):
            for other in (read, write):
                with pytest.raises(Taken):
                    async with other.hold(wait=False):
                        raise AssertionError("unreachable")
        assert store.names("/rw") == []


@each_session_kind
async def test_a_writer_that_waits_is_not_overtaken_by_readers(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as session:
        order: list[str] = []

        async def take(lock: Lock) -> None:
            async with lock:
                order.append(lock.identifier)

        async with trio.open_nursery() as nursery, ReadLock(session, "/rw", "first"):
            for number, kind in enumerate([WriteLock, ReadLock, ReadLock, WriteLock]):
                nursery.start_soon(take, kind(session, "/rw", f"{number}"))
                await until(lambda number=number: len(store.names("/rw")) == number + 2)  # type: ignore[misc]
            assert await ReadLock(session, "/rw").contenders() == ["first", "0", "1", "2", "3"]
            await wait_all_tasks_blocked()
            assert order == []
        assert (order[0], set(order[1:3]), order[3]) == ("0", {"1", "2"}, "3")


@each_session_kind
async def test_a_plain_lock_does_not_see_readers(tmp_path: Path, via: str) -> None:
    """As in kazoo, only a writer waits for readers."""
    async with opened(tmp_path, via) as store, store.session() as session, ReadLock(session, "/rw"):
        async with Lock(session, "/rw").hold(wait=False):
            pass
        with pytest.raises(Taken):
            async with Lock(session, "/rw", extra_markers=["__rlock__"]).hold(wait=False):
                raise AssertionError("unreachable")


# -- elections -----------------------------------------------------------------------------------------


@each_session_kind
async def test_one_leads_until_it_has_enough(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as one, store.session() as two:
        first, second = Election(one, "/e", "first"), Election(two, "/e", "second")
        assert await first.leader() is None

        async def lead(number: int) -> int:
            assert await first.leader() == "second"
            return number

        led: list[int] = []

        async def volunteer() -> None:
            led.append(await second.run(lead, 7))

        async with trio.open_nursery() as nursery, first.candidate() as leading:
            nursery.start_soon(volunteer)
            await until(lambda: len(store.names("/e")) == 2)
            assert await second.contenders() == ["first", "second"]
            assert await second.leader() == "first"
            assert leading.token > 0
            assert led == []
        assert led == [7]


@each_session_kind
async def test_deposed_candidate_stops(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as one, store.session() as two:
        election, stopped = Election(one, "/e", "first"), trio.Event()

        async def lead() -> None:
            try:
                store.expire(one)
                await trio.sleep_forever()
            finally:
                stopped.set()

        with pytest.raises(Lost):
            await election.run(lead)
        assert stopped.is_set()
        async with Election(two, "/e").candidate():
            pass


# -- semaphores ----------------------------------------------------------------------------------------


@each_session_kind
async def test_as_many_as_there_are_leases(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as one, store.session() as two:
        inside = most = served = 0
        full = trio.Event()

        async def use(session: Session) -> None:
            nonlocal inside, most, served
            async with Semaphore(session, "/s", leases=3):
                inside += 1
                most = max(most, inside)
                if inside == 3:
                    full.set()
                await full.wait()  # the first three stay until all leases are taken, however slow the machine is
                await trio.sleep(0.01)
                inside -= 1
                served += 1

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(use, (one, two)[number % 2])
        assert (most, served) == (3, 10)
        assert store.names("/s") == store.names("/s-__lock__") == []
        assert (await one.get("/s"))[0] == b"3"


@each_session_kind
async def test_leases_are_counted_and_agreed_upon(tmp_path: Path, via: str) -> None:
    async with opened(tmp_path, via) as store, store.session() as session:
        with pytest.raises(ConfigError, match="at least one lease, not 0"):
            Semaphore(session, "/s", leases=0)
        semaphore = Semaphore(session, "/s", "me", leases=2)
        assert await semaphore.holders() == []
        async with semaphore.hold(wait=False), semaphore.hold(wait=False):
            assert await semaphore.holders() == ["me", "me"]
            with pytest.raises(Taken, match="all 2 leases are taken"):
                async with semaphore.hold(wait=False):
                    raise AssertionError("unreachable")
        with pytest.raises(ConfigError, match="has 2 leases, not 5"):
            async with Semaphore(session, "/s", leases=5):
                raise AssertionError("unreachable")
        await session.create("/other", b"for something else")
        async with Semaphore(session, "/other", leases=5):
            assert len(store.names("/other")) == 1
