"""Sessions in this process: the store without a socket."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tests.integration.cluster import FAST, Recorder
from tests.integration.stores import PORTS, stores
from zab.client.remote_session import connect
from zab.core.ensemble import Ensemble
from zab.core.errors import ConfigError, DamagedError, LocalProtocolError, Stopped, StorageError
from zab.net import loop_wait
from zab.recipes import Lock, Lost
from zab.runtime.directory_owner import NAME
from zab.runtime.member import open_member
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.runtime.store_server.open_store import open_store
from zab.runtime.store_server.store_server import StoreServer
from zab.session.multi import Multi
from zab.session.session_errors import (
    BadArguments,
    BadVersion,
    EventsLost,
    NoAuth,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
    Unimplemented,
)
from zab.session.state import SessionState
from zab.session.watch import Event, Watch, WatchEvent
from zab.storage.memory_disk import MemoryDisk
from zab.store.operations import Op
from zab.store.store_settings import StoreSettings
from zab.store.znode import Stat
from zab.wire.client.requests import SHAPES


async def test_directory_of_another_machine_is_refused(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store", settings=FAST):
        pass
    with pytest.raises(ConfigError, match="holds the transactions of a state machine of the kind 'store', and this"):
        async with open_member(Recorder(), tmp_path / "store", settings=FAST):
            pass
    async with open_member(Recorder(), tmp_path / "own", settings=FAST) as member:
        await member.submit(b"junk")
    with pytest.raises(
        ConfigError, match="holds the transactions of a state machine without a kind, and this is a state"
    ):
        async with open_store(tmp_path / "own", settings=FAST):
            pass
    async with open_store(tmp_path / "store", settings=FAST):
        pass


async def test_foreign_transaction_stops_the_store_with_a_public_error(tmp_path: Path) -> None:
    async with open_store(tmp_path, settings=FAST) as store, store.session() as session:
        await session.create("/a")
    (tmp_path / NAME).write_bytes(b"\x92\xa3zab\x01")  # as before the kind was recorded
    async with open_member(Recorder(), tmp_path, settings=FAST) as member:
        await member.submit(b"junk")
    with pytest.raises(
        DamagedError, match=r"^log\.\w+: transaction \d+/\d+ was not written by a store .*`zab log repair DATA NEW`"
    ):
        async with open_store(tmp_path, settings=FAST):
            await trio.sleep(10)


async def test_foreign_snapshot_stops_the_store_with_a_public_error(tmp_path: Path) -> None:
    async with open_member(Recorder(), tmp_path, settings=FAST) as member:
        await member.submit(b"junk")
        await member.take_snapshot()
    (tmp_path / NAME).write_bytes(b"\x92\xa3zab\x01")
    with pytest.raises(DamagedError, match=r"/snapshot\.\w+: this is not a snapshot of a store"):
        async with open_store(tmp_path, settings=FAST):
            pass


async def test_nodes(tmp_path: Path) -> None:
    async with open_store(tmp_path, settings=FAST) as store, store.session() as session:
        assert await session.create("/a", b"one") == "/a"
        data, stat = await session.get("/a")
        assert (data, stat.version) == (b"one", 0)
        assert (await session.set("/a", None, version=0)).version == 1
        assert (await session.get("/a"))[0] is None
        with pytest.raises(BadVersion, match="/a: bad version"):
            await session.set("/a", b"", version=0)
        with pytest.raises(NodeExists):
            await session.create("/a")
        with pytest.raises(NoNode):
            await session.get("/b")
        assert await session.exists("/b") is None
        assert await session.create("/a/n-", sequential=True) == "/a/n-0000000000"
        assert await session.create("/a/c", container=True) == "/a/c"
        with pytest.raises(NotEmpty):
            await session.delete("/a")
        assert sorted(await session.children("/a")) == ["c", "n-0000000000"]
        assert await session.count_below("/a") == 2
        with pytest.raises(Unimplemented):
            await session.create("/ttl", ttl_ms=1000)
        with pytest.raises(BadArguments, match="only one of ephemeral"):
            await session.create("/x", ephemeral=True, container=True)


async def test_several_at_once(tmp_path: Path) -> None:
    async with open_store(tmp_path, settings=FAST) as store, store.session() as session:
        created, stat, checked, deleted = await session.multi(
            Multi().create("/a", b"1").set("/a", b"2").check("/a", 1).delete("/a")
        )
        assert (created, checked, deleted) == ("/a", None, None)
        assert isinstance(stat, Stat)
        assert stat.version == 1
        with pytest.raises(NoNode, match="operation 1 of a multi"):
            await session.multi(Multi().create("/a").delete("/b").create("/c"))
        assert await session.exists("/a") is None


async def test_permissions_of_each_operation(tmp_path: Path) -> None:
    async with open_store(tmp_path, settings=FAST) as store, store.session() as mine, store.session() as yours:
        await mine.add_auth("digest", b"me:secret")
        assert await mine.who_am_i() == [("ip", "127.0.0.1"), ("digest", "me")]
        await mine.create("/mine", b"x", acl=((31, "auth", ""),))
        assert (await mine.get("/mine"))[0] == b"x"
        with pytest.raises(NoAuth):
            await yours.get("/mine")
        with pytest.raises(NoAuth):
            await yours.set("/mine", b"")
        await mine.set_acl("/mine", ((1, "world", "anyone"),))
        assert (await yours.get("/mine"))[0] == b"x"
        acl, stat = await yours.acl("/mine")
        assert (acl, stat.aversion) == (((1, "world", "anyone"),), 1)


async def test_ephemerals_end_with_their_block(tmp_path: Path) -> None:
    async with open_store(tmp_path, settings=FAST) as store, store.session() as other:
        with trio.CancelScope() as scope:
            async with store.session() as session:
                await session.create("/e", ephemeral=True)
                stat = await other.exists("/e")
                assert stat is not None
                assert stat.ephemeral_owner == session.id
                assert await session.ephemerals() == ["/e"]
                scope.cancel()
                await trio.sleep_forever()
        assert await other.exists("/e") is None
        with pytest.raises(SessionExpired):
            await session.exists("/e")


async def test_event_arrives_before_the_reply_that_shows_its_change(tmp_path: Path) -> None:
    async with open_store(tmp_path, settings=FAST) as store, store.session() as session, store.session() as other:
        async with session.watch("/a") as events, session.watch("/", recursive=True) as all_events:
            await other.create("/a")
            # Not one step of the loop lies between the change and its event.
            assert len(events) == 1
            await other.create("/a/b")
            await other.set("/a", b"")
            await other.delete("/a/b")
            heard = [await anext(events) for _ in range(4)]
            assert [(each.event, each.path) for each in heard] == [
                (Event.CREATED, "/a"),
                (Event.CHILDREN_CHANGED, "/a"),
                (Event.DATA_CHANGED, "/a"),
                (Event.CHILDREN_CHANGED, "/a"),
            ]
            heard = [await anext(all_events) for _ in range(4)]
            assert [each.path for each in heard] == ["/a", "/a/b", "/a", "/a/b"]
            assert isinstance(heard[0], WatchEvent)
        assert store._server.machine.watches.counts == (0, 0, 0)


async def test_unread_watch_is_bounded(tmp_path: Path) -> None:
    client_ports = ClientPortSettings(events_max=3)
    async with open_store(tmp_path, settings=FAST, client_ports=client_ports) as store, store.session() as session:
        await session.create("/a")
        async with session.watch("/a") as events:
            for _ in range(5):
                await session.set("/a", b"")
            for _ in range(3):
                await anext(events)
            with pytest.raises(EventsLost):
                await anext(events)


async def test_writes_survive_a_restart(tmp_path: Path) -> None:
    async with open_store(tmp_path, settings=FAST) as store, store.session() as session:
        await session.create("/a", b"kept")
    async with open_store(tmp_path, settings=FAST) as store, store.session() as session:
        assert (await session.get("/a"))[0] == b"kept"
        assert list(store._server.machine.sessions.table) == [session.id]


async def test_cancelling_a_change_leaves_the_session_usable(tmp_path: Path) -> None:
    async with open_store(tmp_path, settings=FAST) as store, store.session() as session:
        with trio.move_on_after(0):
            await session.create("/a")
        await session.create("/b")
        assert await session.exists("/b") is not None


async def test_sync_waits_for_cancelled_writes(tmp_path: Path) -> None:
    """Otherwise a client with a cancelled create could not find out whether the node exists."""
    async with open_store(tmp_path, settings=FAST) as store, store.session() as session:
        found = 0
        for steps in range(12):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.create, f"/{steps}")
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
            await session.sync()
            there = await session.exists(f"/{steps}")
            await session.set("/", None)  # behind the create, in the session's order
            assert there == await session.exists(f"/{steps}")
            found += there is not None
        assert found > 1


async def test_three_members_agree(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as running:
        one, two = running.servers[1], running.servers[2]
        async with one.session() as here, two.session() as there:
            async with there.watch("/a") as events:
                await here.create("/a", b"1", ephemeral=True)
                assert (await anext(events)).event == Event.CREATED
            await there.sync()
            assert (await there.get("/a"))[0] == b"1"
        async with two.session() as there:
            await there.sync()
            assert await there.exists("/a") is None


async def test_a_session_in_the_process_outlives_its_leader(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as running:
        leader = await running.leader()
        sid = next(sid for sid in running.servers if sid != leader)
        async with running.servers[sid].session(timeout_ms=3_000) as session:
            await session.create("/e", ephemeral=True)
            await running.stop(leader)
            await session.set("/e", b"still here")
            assert (await session.get("/e"))[0] == b"still here"
            await trio.sleep(4.5)  # longer than its timeout: the new leader hears of it
            assert await session.exists("/e") is not None


async def test_session_in_the_process_is_suspended_without_a_leader(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as running:
        leader = await running.leader()
        left = next(sid for sid in running.servers if sid != leader)
        async with running.servers[left].session() as session:
            states = session.states()
            assert await anext(states) is SessionState.CONNECTED
            for sid in [sid for sid in running.servers if sid != left]:
                await running.stop(sid)
            assert await anext(states) is SessionState.SUSPENDED
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.create, "/waits")
                await running.start(leader)
                while await anext(states) is not SessionState.CONNECTED:
                    pass
            assert await session.exists("/waits") is not None
        assert [state async for state in session.states()] == [SessionState.CLOSED]


class Lets:
    """A way to end an `open_store` while another task has a session in it."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.go = trio.Event()
        self.disk = MemoryDisk()

    async def leave(self) -> None:
        self.go.set()

    async def cancel(self) -> None:
        self.scope.cancel()

    async def fail(self) -> None:
        self.disk.fail("sync")


@pytest.mark.parametrize("how", [Lets.leave, Lets.cancel, Lets.fail])
async def test_the_end_of_the_store_is_the_end_of_its_sessions(tmp_path: Path, how: Callable[[Lets], Any]) -> None:
    """Whatever waits for the store waits no more: states, watches, reads, and recipes."""
    lets, failed = Lets(), how is Lets.fail
    why = "the store failed" if failed else "the store was closed"

    async def keep(task_status: trio.TaskStatus[StoreServer]) -> None:
        with lets.scope, pytest.raises(StorageError) if failed else nullcontext():
            async with open_store(tmp_path, disk=lets.disk) as store:
                task_status.started(store)
                await lets.go.wait()

    async def hold(task_status: trio.TaskStatus[None]) -> None:
        with pytest.raises(Lost, match=why):
            async with Lock(session, "/lock"):
                task_status.started()
                await trio.sleep_forever()

    async def look(events: Watch) -> None:
        with pytest.raises(SessionExpired, match=why):
            await anext(events)

    async def write() -> None:
        with pytest.raises(Stopped):
            await session.create("/never-answered")

    async with trio.open_nursery() as nursery:
        store = await nursery.start(keep)
        async with store.session() as session, session.watch("/quiet") as events:
            states = session.states()
            assert await anext(states) is SessionState.CONNECTED
            async with trio.open_nursery() as waiting:
                await waiting.start(hold)
                waiting.start_soon(look, events)
                await trio.testing.wait_all_tasks_blocked()
                await how(lets)
                if failed:
                    waiting.start_soon(write)
                assert [state async for state in states] == [SessionState.CLOSED]
            assert session.over is not None
            assert session.over.startswith(why)
            for call in (session.get, session.create, session.sync):
                with pytest.raises(SessionExpired, match=why):
                    await call("/")
        with pytest.raises(Stopped):
            async with store.session():
                raise AssertionError("unreachable")


async def test_a_read_that_waits_for_a_leader_does_not_outlive_its_store(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as running:
        leader = await running.leader()
        left = next(sid for sid in running.servers if sid != leader)
        async with running.servers[left].session() as session, trio.open_nursery() as nursery:
            for sid in [sid for sid in running.servers if sid != left]:
                await running.stop(sid)
            async for state in session.states():
                if state is SessionState.SUSPENDED:
                    break

            async def reads() -> None:
                with pytest.raises(SessionExpired, match="the store was closed"):
                    await session.get("/")

            async def writes() -> None:
                with pytest.raises(Stopped):
                    await session.create("/a")

            nursery.start_soon(reads)
            nursery.start_soon(writes)
            await trio.testing.wait_all_tasks_blocked()
            await running.stop(left)


async def test_every_way_to_open_a_store_accepts_the_same(tmp_path: Path) -> None:
    """The size limits agree to the byte, so a node created one way can be written the other way."""
    async with (
        open_store(tmp_path, client_port=0) as store,
        store.session() as here,
        connect(f"127.0.0.1:{store.client_port}") as there,
    ):
        most = 0
        for session in (here, there):
            most = most or ClientPortSettings().frame_bytes_max - 8 - len(SHAPES[Op.SET_DATA].encode(("/a", b"", -1)))
            await session.create("/a")
            with pytest.raises(LocalProtocolError, match="the request is too large, 1048576 bytes: frame_bytes_max"):
                await session.set("/a", bytes(most + 1))
            await session.set("/a", bytes(most))
            with pytest.raises(LocalProtocolError, match="the request is too large"):
                await session.multi(Multi().set("/a", bytes(most)))
            await session.delete("/a")


async def test_invalid_arguments_of_open_store_are_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, text in (("file", "must be a directory"), ("file/below", "must be a directory")):
        with pytest.raises(StorageError, match=text):
            async with open_store(tmp_path / path):
                pass
    with pytest.raises(StorageError, match="no directory can be made there"):
        async with open_store("/proc/no-such-thing"):
            pass
    for port in (-1, 65_536, 99_999):
        with pytest.raises(ConfigError, match=f"client_port.*{port}"):
            async with open_store(tmp_path / "store", client_port=port):
                pass
    with pytest.raises(TypeError, match="ensemble takes zab.Ensemble.parse"):
        async with open_store(tmp_path / "store", ensemble="server.1=host:2888:3888"):  # type: ignore[arg-type]
            pass
    with pytest.raises(TypeError, match="settings= takes zab.Settings, not StoreSettings; that is for store="):
        async with open_store(tmp_path / "store", settings=StoreSettings()):  # type: ignore[arg-type]
            pass
    async with open_store(tmp_path / "store"):
        with pytest.raises(StorageError, match="in use by this process already"):
            async with open_store(tmp_path / "store"):
                pass


async def test_representations_name_their_object(tmp_path: Path) -> None:
    async with open_store(tmp_path, client_port=0) as store, store.session() as session, session.watch("/") as watch:
        assert repr(store) == f"<StoreServer 1 at {tmp_path}, standalone, clients at port {store.client_port}>"
        assert repr(session) == f"<InProcessSession {session.id:#x}, connected>"
        assert repr(watch) == f"<Watch of {session!r}, 0 events>"
    assert repr(watch).endswith("over: the block of this watch has ended>")
    assert "the store was closed" in repr(store)


async def test_containers_and_ttl_nodes_go_when_their_time_has_come(tmp_path: Path) -> None:
    client_ports = ClientPortSettings(containers_ms=50)
    settings = StoreSettings(extended_types=True)
    async with (
        open_store(tmp_path, settings=FAST, client_ports=client_ports, store=settings) as store,
        store.session() as session,
    ):
        await session.create("/c", container=True)
        await session.create("/c/x")
        await session.create("/stays")
        async with session.watch("/", recursive=True) as events:
            await session.create("/ttl", ttl_ms=50)
            await session.delete("/c/x")
            heard = [await anext(events) for _ in range(4)]
        gone = {each.path for each in heard if each.event is Event.DELETED}
        assert gone == {"/c/x", "/c", "/ttl"}
        assert await session.exists("/stays") is not None


async def test_a_timeout_is_clamped(tmp_path: Path) -> None:
    async with (
        open_store(tmp_path, settings=FAST, client_ports=PORTS) as store,
        store.session(timeout_ms=1) as hasty,
        store.session(timeout_ms=10**9) as patient,
    ):
        assert (hasty.timeout_ms, patient.timeout_ms) == (400, 20_000)


async def test_restore_fires_watches_and_ends_missing_sessions(tmp_path: Path) -> None:
    """A server lagged so far that its leader sent a snapshot, while its clients stayed connected."""
    async with open_store(tmp_path / "ahead", settings=FAST) as ahead, ahead.session() as session:
        for name in ("/a", "/b", "/c", "/d"):
            await session.create(name)
        await session.delete("/d")
        chunks = [bytes(chunk) for chunk in ahead._server.machine.snapshot()]
    async with open_store(tmp_path / "behind", settings=FAST) as behind, behind.session() as session:
        await session.create("/d")
        seen: list[bool] = []
        ready = behind._server.restore_begins

        def begins() -> None:
            ready()
            seen.append(behind._server.clients.ready)

        behind._server.restore_begins = begins  # type: ignore[method-assign]
        under_way, old = iter(behind._server.machine.snapshot()), behind._server.machine.tree
        async with session.watch("/a") as here, session.watch("/d") as there:
            await trio.to_thread.run_sync(behind._server.machine.restore, chunks)
            assert seen == [False], "nobody reads while a state is replaced"
            assert (await anext(here)).event == Event.CREATED
            assert (await anext(there)).event == Event.DELETED
            with pytest.raises(SessionExpired):
                await anext(here)
        with pytest.raises(SessionExpired):
            await session.get("/a")
        assert behind._server.clients.ready
        assert "/d" in old.nodes
        assert any(b"/d" in chunk for chunk in under_way), "a snapshot of the old state is not disturbed"
        old = behind._server.machine.tree
        await trio.to_thread.run_sync(behind._server.machine.restore, chunks)
        assert not old.nodes, "else the spared one would stay for ever: there are cycles around it"


async def test_the_collector_does_not_walk_a_large_tree(tmp_path: Path) -> None:
    client_ports = ClientPortSettings(tick_ms=20, nodes_spared_min=50)
    gc.unfreeze()
    try:
        async with open_store(tmp_path, client_ports=client_ports) as store, store.session() as session:
            await session.create("/a")
            assert not gc.get_freeze_count()
            for number in range(60):
                await session.create(f"/a/{number}")
            while not gc.get_freeze_count():
                await trio.sleep(0.01)
            assert not any(each is store._server.machine.tree.nodes for each in gc.get_objects())
    finally:
        gc.freeze()  # as it was: see tests/conftest.py


async def test_ensemble_without_server_id_is_refused(tmp_path: Path) -> None:
    ensemble = Ensemble.parse("server.1=127.0.0.1:1:2, server.2=127.0.0.1:3:4")
    with pytest.raises(ConfigError, match="server_id= is missing"):
        async with open_store(tmp_path, ensemble=ensemble):
            pytest.fail("the store opened as a server that nobody named")


async def test_embedded_store_looks_at_no_private_name_of_trio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise AssertionError("the loop belongs to the application")

    monkeypatch.setattr(loop_wait, "_runner", refuse)
    async with (
        open_store(tmp_path, settings=FAST, client_port=0) as store,
        connect(f"127.0.0.1:{store.client_port}") as session,
    ):
        await session.create("/a", b"one")
        assert (await session.get("/a"))[0] == b"one"
