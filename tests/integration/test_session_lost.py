"""Connections that break, servers that fall silent, sessions that expire: the same at our server and at Apache's."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import count as count_from
from pathlib import Path
from random import Random

import pytest
import trio
from attrs import evolve

import zab
from tests.integration import apache
from tests.integration.session_kinds import REMOTE, Opened, Proxy, SessionKind, one_apache, proxied, session_kind_of
from tests.integration.stores import PORTS, stores
from zab import Event, SessionState
from zab.client.remote_session import RemoteSession

QUICK = zab.ClientSettings(pause_ms_min=10, pause_ms_max=50)
CONNECTED, SUSPENDED, EXPIRED = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.EXPIRED


@pytest.fixture(scope="module")
def apache_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apache.Server]:
    with one_apache(Path(tmp_path_factory.mktemp("apache"))) as server:
        yield server


@pytest.fixture(params=REMOTE)
def via(request: pytest.FixtureRequest) -> SessionKind:
    return session_kind_of(request.param, request)


@asynccontextmanager
async def behind_a_proxy(
    it: Opened, timeout_ms: int = 10_000, settings: zab.ClientSettings = QUICK
) -> AsyncIterator[tuple[zab.Session, Proxy]]:
    assert it.hosts is not None
    async with (
        proxied(it.hosts) as (proxy, hosts),
        it.session(at=hosts, timeout_ms=timeout_ms, settings=settings) as session,
    ):
        yield session, proxy


async def reached(session: zab.Session, wanted: SessionState) -> None:
    """Wait for a state that lasts. For a passing one use `states()` beforehand."""
    async for state in session.states():
        if state is wanted:
            return
    raise AssertionError(f"never {wanted}")


async def again(session: zab.Session, proxy: Proxy) -> None:
    """The connection is cut, and another one stands."""
    states = session.states()
    assert await anext(states) is CONNECTED
    proxy.cut()
    assert await anext(states) is SUSPENDED
    assert await anext(states) is CONNECTED


# -- a connection breaks -------------------------------------------------------------------------------


async def test_a_session_outlives_its_connection(via: SessionKind) -> None:
    async with via.open() as it, it.session() as other, behind_a_proxy(it) as (session, proxy):
        path = await session.create(f"{it.root}/e", b"x", ephemeral=True)
        session_id = session.id
        for _ in range(3):
            await again(session, proxy)
        assert session.id == session_id
        assert proxy.accepted == 4
        assert await session.ephemerals() == [path]
        assert (await other.get(path))[0] == b"x"


async def test_identity_file_survives_a_restart(via: SessionKind) -> None:
    async with via.open() as it, behind_a_proxy(it) as (session, proxy):
        await session.add_auth("digest", b"me:secret")
        path = await session.create(f"{it.root}/mine", b"x", acl=((31, "auth", ""),))
        await again(session, proxy)
        assert (await session.get(path))[0] == b"x"


async def test_watches_outlive_their_connection(via: SessionKind) -> None:
    async with via.open() as it, it.session() as other, behind_a_proxy(it) as (session, proxy):
        for name in ("a", "b", "c", "d", "p", "r"):
            await session.create(f"{it.root}/{name}")
        async with (
            session.watcher() as once,
            session.watch(f"{it.root}/p") as stays,
            session.watch(f"{it.root}/r", recursive=True) as below,
        ):
            await session.get(f"{it.root}/a", once)
            await session.children(f"{it.root}/b", once)
            await session.exists(f"{it.root}/new", once)
            await session.get(f"{it.root}/c", once)
            await session.get(f"{it.root}/d", once)
            proxy.refusing = True
            proxy.cut()
            await reached(session, SUSPENDED)
            await other.set(f"{it.root}/a", b"")
            await other.create(f"{it.root}/b/x")
            await other.set(f"{it.root}/p", b"")
            await other.create(f"{it.root}/r/x")
            await other.create(f"{it.root}/new")
            await other.delete(f"{it.root}/d")
            proxy.refusing = False
            await reached(session, CONNECTED)
            await session.sync()
            assert {(each.event, each.path) for each in await once.take()} == {
                (Event.DATA_CHANGED, f"{it.root}/a"),
                (Event.CHILDREN_CHANGED, f"{it.root}/b"),
                (Event.CREATED, f"{it.root}/new"),
                (Event.DELETED, f"{it.root}/d"),
            }, "what was missed is made up for"
            assert [(each.event, each.path) for each in await stays.take()] == [(Event.MAYBE_MISSED, f"{it.root}/p")]
            assert [(each.event, each.path) for each in await below.take()] == [(Event.MAYBE_MISSED, f"{it.root}/r")]
            await other.set(f"{it.root}/c", b"")
            await other.set(f"{it.root}/p", b"")
            await other.set(f"{it.root}/r/x", b"")
            await session.sync()
            for events, path in ((once, "c"), (stays, "p"), (below, "r/x")):
                assert [(each.event, each.path) for each in await events.take()] == [
                    (Event.DATA_CHANGED, f"{it.root}/{path}")
                ]


async def test_ten_thousand_watches_outlive_their_connection(via: SessionKind) -> None:
    async with (
        via.open() as it,
        behind_a_proxy(it, timeout_ms=20_000) as (session, proxy),
        session.watcher() as events,
    ):
        async with trio.open_nursery() as nursery:
            for number in range(10_000):
                nursery.start_soon(session.exists, f"{it.root}/not-there-yet-{number:06}", events)
        await again(session, proxy)
        for number in (0, 5_000, 9_999):
            path = await session.create(f"{it.root}/not-there-yet-{number:06}")
            assert await anext(events) == zab.WatchEvent(Event.CREATED, path, (await _created(session, path)))


async def _created(session: zab.Session, path: str) -> int:
    stat = await session.exists(path)
    assert stat is not None
    return stat.czxid


async def test_a_change_without_an_answer_is_in_doubt_and_a_read_is_asked_again(via: SessionKind) -> None:
    async with via.open() as it, it.session() as other, behind_a_proxy(it) as (session, proxy):
        await session.create(f"{it.root}/a", b"0")
        proxy.silent_down = True
        async with trio.open_nursery() as nursery:
            found: list[bytes | None] = []

            async def change() -> None:
                with pytest.raises(zab.OutcomeUnknown, match="set_data .*/a: the connection was lost before"):
                    await session.set(f"{it.root}/a", b"1")

            async def read() -> None:
                found.append((await session.get(f"{it.root}/a"))[0])

            async def synchronize() -> None:
                await session.sync()
                found.append(b"synced")

            for task in (change, read, synchronize):
                nursery.start_soon(task)
            while (await other.get(f"{it.root}/a"))[0] != b"1":
                await trio.sleep(0.01)
            proxy.silent_down = False
            proxy.cut()
        assert sorted(each for each in found if each) == [b"1", b"synced"]


async def test_a_protected_create_is_made_once(via: SessionKind) -> None:
    async with via.open() as it, it.session() as other, behind_a_proxy(it) as (session, proxy):
        parent = it.root or "/"
        for number in range(3):
            proxy.silent_down = True
            made: list[str] = []

            async def create(made: list[str] = made) -> None:
                made.append(await session.create_protected(f"{it.root}/lock-"))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(create)
                while len(await other.children(parent)) <= number:
                    await trio.sleep(0.01)
                proxy.silent_down = False
                proxy.cut()
            children = await other.children(parent)
            assert len(children) == number + 1
            assert made[0].rpartition("/")[2] in children


async def test_create_that_never_arrived_is_repeated_on_the_next_connection(via: SessionKind) -> None:
    async with via.open() as it, behind_a_proxy(it) as (session, proxy):
        proxy.silent_up = True
        async with trio.open_nursery() as nursery:

            async def create() -> None:
                path = await session.create_protected(f"{it.root}/lock-")
                assert [path] == await session.ephemerals()

            nursery.start_soon(create)
            await trio.sleep(0.05)
            proxy.silent_up = False
            proxy.cut()


async def test_client_leaves_a_silent_server(via: SessionKind) -> None:
    async with via.open() as it, behind_a_proxy(it, timeout_ms=5_000) as (session, proxy):
        await session.create(f"{it.root}/e", ephemeral=True)
        proxy.silent_down = True
        await reached(session, SUSPENDED)
        proxy.silent_down = False
        await reached(session, CONNECTED)
        assert await session.ephemerals() == [f"{it.root}/e"]


async def test_last_received_at_is_the_request_time_of_the_last_answered_sync(via: SessionKind) -> None:
    """Events and other replies do not prove a sign of life at the leader."""
    async with (
        via.open() as it,
        it.session() as other,
        behind_a_proxy(it, timeout_ms=8_000) as (session, proxy),
    ):
        path = await session.create(f"{it.root}/a")
        async with session.watch(path) as events:
            before = trio.current_time()
            await session.sync()
            assert before <= session.last_received_at <= trio.current_time()
            proxy.silent_up = True
            no_progress = trio.current_time()
            await other.set(path, b"1")
            assert (await anext(events)).event is Event.DATA_CHANGED
            assert before <= session.last_received_at <= no_progress
            await reached(session, SUSPENDED)
            assert before <= session.last_received_at <= no_progress
            proxy.silent_up = False
            await reached(session, CONNECTED)
            assert session.last_received_at > no_progress


async def test_last_received_at_in_process_is_set_by_a_leaders_reply(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as running, running.servers[1].session() as session:
        before = trio.current_time()
        assert session.last_received_at <= before
        await session.sync()
        assert before <= session.last_received_at
        await running.stop(2)
        await running.stop(3)
        await reached(session, SUSPENDED)
        lost = session.last_received_at
        assert before <= lost <= trio.current_time()
        await trio.sleep(0.05)
        assert session.last_received_at == lost
        await running.start(2)
        await reached(session, CONNECTED)
        await session.sync()
        assert session.last_received_at > lost


async def test_an_idle_session_is_kept_alive(via: SessionKind) -> None:
    async with via.open() as it, it.session(timeout_ms=8_000) as session:
        states = session.states()
        assert await anext(states) is CONNECTED
        await session.create(f"{it.root}/e", ephemeral=True)
        before = trio.current_time()
        await trio.sleep(9)
        assert session.state is CONNECTED
        await session.sync()
        assert session.last_received_at >= before + 9
        assert await session.ephemerals() == [f"{it.root}/e"]


async def test_suspended_process_expires_no_session(via: SessionKind) -> None:
    async with via.open() as it, behind_a_proxy(it, timeout_ms=10_000) as (session, proxy):
        await session.sync()
        time.sleep(7)  # noqa: ASYNC251  # that is what it is about: more than two thirds, less than all of it
        await trio.sleep(1)
        assert session.state is CONNECTED
        assert proxy.accepted == 1


async def test_calls_wait_for_a_connection_and_can_be_cancelled(via: SessionKind) -> None:
    async with via.open() as it, behind_a_proxy(it) as (session, proxy):
        proxy.refusing = True
        proxy.cut()
        await reached(session, SUSPENDED)
        with trio.move_on_after(0.05) as patience:
            await session.create(f"{it.root}/cancelled")
        assert patience.cancelled_caught
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.create, f"{it.root}/waited")
            await trio.sleep(0.05)
            proxy.refusing = False
        assert await session.children(it.root or "/") == ["waited"]


# -- a session ends ------------------------------------------------------------------------------------


async def test_disconnected_session_expires_on_a_servers_report(via: SessionKind) -> None:
    async with (
        via.open() as it,
        it.session() as other,
        behind_a_proxy(it, timeout_ms=2_000) as (session, proxy),
    ):
        path = await session.create(f"{it.root}/e", ephemeral=True)
        async with session.watch(path) as events, other.watch(path) as watch:
            proxy.refusing = True
            proxy.cut()
            await reached(session, SUSPENDED)
            async with trio.open_nursery() as nursery:

                async def waits() -> None:
                    with pytest.raises(zab.SessionExpired):
                        await session.create(f"{it.root}/never")

                nursery.start_soon(waits)
                assert (await anext(watch)).event == Event.DELETED
                assert session.state is SUSPENDED, "nobody has told it yet"
                proxy.refusing = False
                await reached(session, EXPIRED)
            with pytest.raises(zab.SessionExpired, match="the session has expired, or its password is wrong"):
                await anext(events)
        with pytest.raises(zab.SessionExpired):
            await session.get("/")
        assert await other.exists(f"{it.root}/never") is None


async def test_session_closed_by_another_client_is_over(via: SessionKind) -> None:
    async with via.open() as it, it.session(settings=QUICK) as session:
        assert isinstance(session, RemoteSession)
        async with session.watch(it.root or "/") as events:
            async with it.session(reattach=(session.id, session.password)) as thief:
                assert thief.id == session.id
            await reached(session, EXPIRED)
            with pytest.raises(zab.SessionExpired):
                while True:
                    await anext(events)


async def test_a_wrong_password_is_no_session(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session:
        with pytest.raises(zab.SessionExpired, match="the session has expired, or its password is wrong"):
            async with it.session(reattach=(session.id, b"guess" * 3 + b"!")):
                raise AssertionError("never")
        assert await session.exists(it.root or "/") is not None


async def test_leaving_without_a_server_takes_its_time_and_no_more(via: SessionKind) -> None:
    settings = zab.ClientSettings(close_ms=200)
    async with via.open() as it, behind_a_proxy(it, settings=settings) as (session, proxy):
        proxy.refusing = True
        proxy.cut()
        await reached(session, SUSPENDED)
    assert session.state is SessionState.CLOSED


async def test_session_is_closed_on_the_next_connection_if_necessary(via: SessionKind) -> None:
    async with via.open() as it, it.session() as other:
        async with behind_a_proxy(it, timeout_ms=20_000) as (session, proxy):
            path = await session.create(f"{it.root}/e", ephemeral=True)
            proxy.cut()
        assert await other.exists(path) is None


async def test_unreachable_servers_are_reported_with_reasons() -> None:
    with pytest.raises(zab.Unreachable) as caught:
        async with zab.connect("127.0.0.1:1,no-such-host.invalid", wait_ms=3_000):
            raise AssertionError("never")
    said = str(caught.value)
    assert "127.0.0.1:1: " in said
    assert "no-such-host.invalid:2181: its name cannot be resolved" in said


async def test_invalid_server_is_reported() -> None:
    async def chatter(stream: trio.SocketStream) -> None:
        await stream.send_all(b"220 mail.example ESMTP\r\n")
        await stream.receive_some()

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, chatter, listeners)
        port = listeners[0].socket.getsockname()[1]
        with pytest.raises(zab.Unreachable, match="it broke the protocol: a frame of"):
            async with zab.connect(f"127.0.0.1:{port}", wait_ms=2_000):
                raise AssertionError("never")
        nursery.cancel_scope.cancel()


# -- several servers -----------------------------------------------------------------------------------


async def test_a_session_outlives_the_leader(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as running:
        leader = await running.leader()
        hosts = running.hosts()
        async with zab.connect(hosts, timeout_ms=20_000, settings=QUICK) as session:
            path = await session.create("/e", b"0", ephemeral=True)
            async with session.watch("/w") as events:
                await running.stop(leader)
                for number in range(1, 20):
                    try:
                        await session.set(path, b"%d" % number)
                    except zab.OutcomeUnknown:
                        pass
                assert (await session.get(path))[0] == b"19"
                await session.create("/w")
                while (await anext(events)).event is not Event.CREATED:
                    pass
            assert await session.ephemerals() == [path]
            assert session.over is None


async def test_a_session_moves_to_another_server(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as running:
        hosts = running.hosts()
        async with zab.connect(hosts, timeout_ms=20_000, settings=QUICK) as session:
            assert isinstance(session, RemoteSession)
            path = await session.create("/e", b"0", ephemeral=True)
            server = session.connector.server
            assert server is not None
            here = next(sid for sid, port in running.ports.items() if port == server.port)
            async with session.watcher() as events:
                await session.get(path, events)
                states = session.states()
                assert await anext(states) is CONNECTED
                await running.stop(here)
                assert [await anext(states), await anext(states)] == [SUSPENDED, CONNECTED]
                assert session.connector.server != server
                try:
                    await session.set(path, b"1")
                except zab.OutcomeUnknown:
                    await session.set(path, b"2")
                assert (await anext(events)).event is Event.DATA_CHANGED
            assert await session.ephemerals() == [path]


@apache.needs_apache
@pytest.mark.slow
async def test_three_of_apache_lose_their_leader_and_then_their_quorum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dreadonlymode.enabled=true")
    more = {"localSessionsEnabled": "true", "localSessionsUpgradingEnabled": "true"}
    with apache.members(tmp_path, **more) as started:
        alive = dict(started)
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in alive)

        def kill(server: apache.Server) -> None:
            process = alive.pop(server)
            process.kill()
            process.wait()

        settings = zab.ClientSettings(pause_ms_min=10, pause_ms_max=50, search_ms_max=100)
        async with zab.connect(hosts, timeout_ms=20_000, settings=settings) as session:
            path = await session.create("/e", b"0", ephemeral=True)
            async with session.watcher() as events:
                await session.exists("/new", events)
                kill(next(server for server in alive if "Mode: leader" in apache.ask(server.port, "srvr")))
                for number in range(1, 10):
                    try:
                        await session.set(path, b"%d" % number)
                    except zab.OutcomeUnknown:
                        pass
                assert (await session.get(path))[0] == b"9"
                assert await session.ephemerals() == [path]
                await session.create("/new")
                assert (await anext(events)).event is Event.CREATED
            await session.sync()
        kill(next(iter(alive)))
        (left,) = alive
        said = ""
        while said != "ro":
            await trio.sleep(0.1)
            with suppress(OSError):
                said = await trio.to_thread.run_sync(apache.ask, left.port, "isro")
        async with zab.connect(hosts, timeout_ms=20_000, settings=settings, read_only=True, wait_ms=240_000) as session:
            assert session.state is SessionState.READ_ONLY
            assert await session.exists("/new") is not None
            with pytest.raises(zab.NotReadOnly):
                await session.create("/never")


# -- all of it at once ---------------------------------------------------------------------------------


async def test_nothing_is_doubled_lost_or_missed_while_connections_break(via: SessionKind) -> None:
    """Ten tasks count and queue up behind a proxy that keeps cutting; a mirror of the tree is kept by its watches."""
    chance = Random(7)
    async with via.open() as it, it.session() as other, behind_a_proxy(it) as (session, proxy):
        counter, queue = await session.create(f"{it.root}/counter", b"0"), await session.create(f"{it.root}/queue")
        added = doubts = queued = 0
        mirror: dict[str, bytes | None] = {}
        done = trio.Event()

        async def count() -> None:
            nonlocal added, doubts, queued
            for number in count_from(1):
                while True:
                    data, stat = await session.get(counter)
                    try:
                        await session.set(counter, b"%d" % (int(data or b"") + 1), stat.version)
                    except zab.BadVersion:
                        continue
                    except zab.OutcomeUnknown:
                        doubts += 1
                    else:
                        added += 1
                    break
                await session.create_protected(f"{queue}/n-", ephemeral=chance.random() < 0.5)
                queued += 1
                if number >= 15 and proxy.accepted > 3:  # on a fast machine the work is done before enough was broken
                    return

        async def watch(events: zab.Watch) -> None:
            """A cache as one writes it by hand: look when something happened, and when something may have."""
            while True:
                mirror.clear()
                mirror.update(dict.fromkeys(await session.children(queue, events)))
                if "last" in mirror:
                    return
                with trio.fail_after(120):
                    await events.take()

        async def cut() -> None:
            for number in count_from(0):
                if done.is_set():
                    return
                # Longer and longer, so that on the slowest machine something is done between two of them.
                await trio.sleep(chance.uniform(0, 0.1) * (1 + number / 20))
                proxy.silent_down = chance.random() < 0.5
                await trio.sleep(chance.uniform(0, 0.03))
                proxy.cut()
                proxy.silent_down = False

        async with session.watcher() as events, trio.open_nursery() as nursery:
            nursery.start_soon(watch, events)
            nursery.start_soon(cut)
            async with trio.open_nursery() as counting:
                for _ in range(10):
                    counting.start_soon(count)
            done.set()
            await other.create(f"{queue}/last")
        total = int((await other.get(counter))[0] or b"")
        assert added <= total <= added + doubts
        names = await other.children(queue)
        assert len(names) == queued + 1 > 150, "each create was made, and once"
        assert set(mirror) == set(names)
        assert session.over is None


async def test_server_without_a_quorum_lets_its_clients_go(tmp_path: Path) -> None:
    """A third of this session's timeout is longer than the test may take: only the missing quorum can be the reason."""
    async with stores(tmp_path, 3, client_ports=evolve(PORTS, timeout_ticks_max=10_000)) as running:
        leader = await running.leader()
        survivor, *others = sorted(running.servers, key=lambda sid: sid == leader)
        async with zab.connect(running.hosts(survivor), timeout_ms=1_200_000, settings=QUICK) as session:
            states = session.states()
            assert await anext(states) is CONNECTED
            for sid in others:
                await running.stop(sid)
            with trio.fail_after(60):
                assert await anext(states) is SUSPENDED
            assert survivor in running.servers
            await running.start(others[0])
            with trio.fail_after(60):
                while await anext(states) is not CONNECTED:
                    pass
