"""The session API, the same in this process, with our client at our server, and at Apache's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import zab
from tests.integration import apache
from tests.integration.session_kinds import ALL, TIMEOUT_MS, SessionKind, one_apache, session_kind_of
from zab import Event, Multi, MultiRead, SessionState, Stat, WatchKind
from zab.store.acl import OPEN

MINE = ((31, "auth", ""),)
READ_BY_ALL = ((1, "world", "anyone"),)


@pytest.fixture(scope="module")
def apache_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apache.Server]:
    with one_apache(Path(tmp_path_factory.mktemp("apache"))) as server:
        yield server


@pytest.fixture(params=ALL)
def via(request: pytest.FixtureRequest) -> SessionKind:
    return session_kind_of(request.param, request)


def heard(events: list[zab.WatchEvent]) -> list[tuple[Event, str]]:
    return [(each.event, each.path) for each in events]


# -- nodes ---------------------------------------------------------------------------------------------


async def test_nodes(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session:
        path = f"{it.root}/a"
        assert await session.create(path, b"one") == path
        data, stat = await session.get(path)
        assert (data, stat.version, stat.data_length, stat.num_children) == (b"one", 0, 3, 0)
        assert stat == await session.exists(path)
        changed = await session.set(path, b"three", version=0)
        assert (changed.version, changed.data_length, changed.czxid) == (1, 5, stat.czxid)
        assert changed.mzxid > stat.mzxid
        with pytest.raises(zab.BadVersion, match="/a: bad version"):
            await session.set(path, b"", version=0)
        with pytest.raises(zab.BadVersion):
            await session.delete(path, version=7)
        with pytest.raises(zab.NodeExists):
            await session.create(path)
        for missing in (session.get, session.children, session.children_with_stat, session.delete, session.acl):
            with pytest.raises(zab.NoNode):
                await missing(f"{it.root}/nowhere")
        with pytest.raises(zab.NoNode):
            await session.create(f"{it.root}/nowhere/b")
        assert await session.exists(f"{it.root}/nowhere") is None
        assert await session.create(f"{path}/b") == f"{path}/b"
        with pytest.raises(zab.NotEmpty):
            await session.delete(path)
        assert await session.children(path) == ["b"]
        names, stat = await session.children_with_stat(path)
        assert (names, stat.num_children, stat.cversion) == (["b"], 1, 1)
        await session.delete(f"{path}/b", version=0)
        await session.delete(path)
        assert await session.exists(path) is None


async def test_nothing_is_not_empty(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session:
        for name, data in [("null", None), ("empty", b""), ("bytes", bytes(range(256)))]:
            path = await session.create(f"{it.root}/{name}", data)
            assert (await session.get(path))[0] == data
            await session.set(path, data)
            assert (await session.get(path))[0] == data
        await session.set(path, bytearray(b"as bytes"))  # type: ignore[arg-type]
        assert (await session.get(path))[0] == b"as bytes"


async def test_kinds_of_nodes(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session:
        root = await session.create(f"{it.root}/kinds")
        assert await session.create(f"{root}/s-", sequential=True) == f"{root}/s-0000000000"
        assert await session.create(f"{root}/", sequential=True) == f"{root}/0000000001"
        path, stat = await session.create_with_stat(f"{root}/e-", b"me", ephemeral=True, sequential=True)
        assert path == f"{root}/e-0000000002"
        assert (stat.ephemeral_owner, stat.data_length) == (session.id, 2)
        with pytest.raises(zab.NoChildrenForEphemerals):
            await session.create(f"{path}/x")
        path, stat = await session.create_with_stat(f"{root}/plain", b"12345")
        assert (path, stat.data_length, stat.ephemeral_owner) == (f"{root}/plain", 5, 0)
        path, stat = await session.create_with_stat(f"{root}/box", container=True)
        assert (path, stat.ephemeral_owner) == (f"{root}/box", 0)
        path, stat = await session.create_with_stat(f"{root}/ttl-", ttl_ms=60_000, sequential=True)
        assert (path, stat.ephemeral_owner) == (f"{root}/ttl-0000000005", 0)
        assert await session.create(f"{root}/ttl", ttl_ms=60_000) == f"{root}/ttl"
        assert await session.create(f"{root}/box2", container=True) == f"{root}/box2"
        for wrong in (
            {"ephemeral": True, "container": True},
            {"ephemeral": True, "ttl_ms": 5},
            {"container": True, "sequential": True},
        ):
            with pytest.raises(zab.BadArguments, match="only one of ephemeral"):
                await session.create(f"{root}/x", **wrong)
        with pytest.raises(zab.BadArguments):
            await session.create(f"{root}/x", ttl_ms=0)


async def test_empty_containers_and_ttl_nodes_are_deleted(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session:
        await session.create(f"{it.root}/box", container=True)
        await session.create(f"{it.root}/box/x")
        async with session.watch(it.root or "/", recursive=True) as events:
            await session.create(f"{it.root}/ttl", ttl_ms=50)
            await session.delete(f"{it.root}/box/x")
            gone = {event.path async for event in _some(events, 4) if event.event == Event.DELETED}
        assert gone == {f"{it.root}/box/x", f"{it.root}/box", f"{it.root}/ttl"}


async def _some(events: zab.Watch, count: int) -> Any:
    for _ in range(count):
        yield await anext(events)


async def test_arguments_that_cannot_be(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session:
        for path in ("a", "", "x/a"):
            with pytest.raises(zab.BadArguments):
                await session.get(path)
        for path in (f"{it.root}/.", f"{it.root}/..", f"{it.root}/a\0"):
            with pytest.raises(zab.BadArguments):
                await session.create(path)
        with pytest.raises(zab.BadArguments):
            await session.set(f"{it.root}/a", b"", version=1 << 31)
        with pytest.raises(TypeError, match="data must be bytes or None, not str"):
            await session.set(f"{it.root}/a", "text")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a path must be text, not bytes"):
            await session.get(b"/a")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a version must be a whole number, not str"):
            await session.delete("/a", "1")  # type: ignore[arg-type]
        with pytest.raises(zab.LocalProtocolError, match="the request is too large"):
            await session.create(f"{it.root}/a", bytes(3_000_000))
        with pytest.raises(zab.BadArguments):
            await session.delete_tree("/")
        await session.create(f"{it.root}/a", bytes(900_000))
        assert (await session.get(f"{it.root}/a"))[0] == bytes(900_000)


async def test_error_names_path_and_reason(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session:
        a = await session.create(f"{it.root}/a")
        for call, kind, path, text in (
            (session.get(f"{it.root}/x"), zab.NoNode, f"{it.root}/x", f"{it.root}/x: no node"),
            (session.create(f"{a}/x/y"), zab.NoNode, f"{a}/x/y", f"its parent {a}/x is missing"),
            (session.create(f"{a}/"), zab.BadArguments, f"{a}/", "a path must not end with /"),
            (session.create(f"{it.root}/x/"), zab.BadArguments, f"{it.root}/x/", "a path must not end with /"),
            (session.get(f"{it.root}/x/"), zab.BadArguments, f"{it.root}/x/", "a path must not end with /"),
            (session.create(f"{a}//b"), zab.BadArguments, f"{a}//b", "a name between two / is empty"),
            (session.create(f"{a}/./b"), zab.BadArguments, f"{a}/./b", ". is not a valid name"),
            (session.create(f"{a}/\n"), zab.BadArguments, f"{a}/\n", r"contains an invalid character"),
            (session.set(a, b"", 7), zab.BadVersion, a, f"{a}: bad version (its version is not 7)"),
            (session.delete(a, 7), zab.BadVersion, a, "its version is not 7"),
            (session.set_acl(a, zab.OPEN_ACL, 7), zab.BadVersion, a, "its aversion is not 7"),
            (session.multi(Multi().check(a, 0).check(a, 7)), zab.BadVersion, a, "operation 1 of a multi, check "),
            (session.multi(Multi().create(f"{a}/x/y")), zab.NoNode, f"{a}/x/y", f"create {a}/x/y: no node (its"),
        ):
            with pytest.raises(zab.StoreError) as caught:
                await call
            assert isinstance(caught.value, kind)
            assert caught.value.path == path
            assert text in str(caught.value)
            assert str(caught.value).isprintable(), "nobody writes lines of his own into a log"
        (found,) = await session.read_many(MultiRead().get(f"{it.root}/x"))
        assert isinstance(found, zab.NoNode)
        assert found.path == f"{it.root}/x"


async def test_arguments_of_wrong_type_are_reported(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session:
        a = f"{it.root}/a"
        wrong: Any = [("x",), 5, "all", [(31, "world")], [("31", "world", "anyone")]]
        for acl in [None, *wrong]:
            for ask in (session.create, session.create_with_stat, session.set_acl):
                with pytest.raises(TypeError, match="acl must be a sequence of"):
                    await ask(a, acl=acl)
        with pytest.raises(TypeError, match="multi takes zab.Multi"):
            await session.multi([("create", a)])  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="read_many takes zab.MultiRead"):
            await session.read_many([a])  # type: ignore[arg-type]
        assert await session.exists(a) is None


async def test_ttl_error_names_the_setting(tmp_path: Path) -> None:
    async with zab.open_store(tmp_path, client_port=0) as store, store.session() as here:
        async with zab.connect(f"127.0.0.1:{store.client_port}") as there:
            for session in (here, there):
                with pytest.raises(zab.Unimplemented, match="extended_types=True"):
                    await session.create("/a", ttl_ms=1_000)
        with pytest.raises(TypeError, match="credentials of scheme .digest. must be bytes"):
            await here.add_auth("digest", "user:password")  # type: ignore[arg-type]


# -- several at once -----------------------------------------------------------------------------------


async def test_multi(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session:
        root = it.root
        done = await session.multi(
            Multi()
            .create(f"{root}/a", b"1")
            .set(f"{root}/a", b"22")
            .check(f"{root}/a", 1)
            .create(f"{root}/a/s-", sequential=True, ephemeral=True)
            .create(f"{root}/a/box", container=True)
            .create(f"{root}/a/ttl", None, ttl_ms=60_000)
            .create(f"{root}/b")
            .delete(f"{root}/b", 0)
        )
        stat = done.pop(1)
        assert isinstance(stat, Stat)
        assert (stat.version, stat.data_length) == (1, 2)
        assert done == [
            f"{root}/a", None, f"{root}/a/s-0000000000", f"{root}/a/box", f"{root}/a/ttl", f"{root}/b", None,
        ]  # fmt: skip
        assert (await session.get(f"{root}/a/ttl"))[0] is None
        with pytest.raises(zab.NoNode, match="operation 1 of a multi") as caught:
            await session.multi(Multi().create(f"{root}/c").delete(f"{root}/b").create(f"{root}/d"))
        assert caught.value.index == 1
        assert await session.exists(f"{root}/c") is None
        with pytest.raises(zab.BadVersion) as caught_version:
            await session.multi(Multi().check(f"{root}/a", 0))
        assert caught_version.value.index == 0
        assert await session.multi(Multi()) == []


async def test_many_reads_at_once_each_for_itself(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session:
        await session.create(f"{it.root}/a", b"x")
        await session.create(f"{it.root}/a/b", None)
        reads = MultiRead().get(f"{it.root}/a").children(f"{it.root}/a").get(f"{it.root}/no").get(f"{it.root}/a/b")
        one, two, three, four = await session.read_many(reads)
        assert one == await session.get(f"{it.root}/a")
        assert two == ["b"]
        assert isinstance(three, zab.NoNode)
        assert isinstance(four, tuple)
        assert four[0] is None
        assert await session.read_many(MultiRead()) == []


async def test_many_tasks_ask_at_once(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session:
        found: dict[int, bytes | None] = {}

        async def write_and_read(number: int) -> None:
            path = await session.create(f"{it.root}/n{number}", b"%d" % number)
            assert (await session.set(path, b"<%d>" % number)).version == 1
            found[number] = (await session.get(path))[0]

        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(write_and_read, number)
        assert found == {number: b"<%d>" % number for number in range(200)}
        assert await session.count_below(it.root or "/") == 200


async def test_a_path_is_made_and_a_tree_is_felled(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session:
        await session.ensure_path(f"{it.root}/x/y/z")
        await session.ensure_path(f"{it.root}/x/y/z")
        await session.ensure_path("/")
        for number in range(5):
            await session.create(f"{it.root}/x/y/{number}")
        assert await session.count_below(f"{it.root}/x") == 7
        await session.delete_tree(f"{it.root}/x")
        assert await session.exists(f"{it.root}/x") is None
        await session.delete_tree(f"{it.root}/x")


async def test_long_paths_and_large_trees_take_few_steps(via: SessionKind) -> None:
    """Each step is a write to the disks of a quorum."""
    async with via.open() as it, it.session() as session:
        deep = f"{it.root}/deep" + "".join(f"/{number}" for number in range(90))
        await session.ensure_path(deep)
        first, last = await session.exists(f"{it.root}/deep"), await session.exists(deep)
        assert first is not None
        assert last is not None
        assert last.czxid - first.czxid <= 2
        async with trio.open_nursery() as nursery:
            for number in range(300):
                nursery.start_soon(session.create, f"{it.root}/deep/0/n{number}")
        _, before = await session.create_with_stat(f"{it.root}/before")
        await session.delete_tree(f"{it.root}/deep")
        _, after = await session.create_with_stat(f"{it.root}/after")
        assert await session.exists(f"{it.root}/deep") is None
        assert after.czxid - before.czxid <= 6


async def test_trees_are_made_and_felled_while_others_are_at_it(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session, it.session() as other:
        paths = [f"{it.root}/t/{number % 3}/{number % 5}/{number}" for number in range(30)]

        async def make(who: zab.Session, path: str) -> None:
            await who.ensure_path(path)

        for _ in range(3):
            async with trio.open_nursery() as nursery:
                for number, path in enumerate(paths):
                    nursery.start_soon(make, session if number % 2 else other, path)
                    if not number % 10:
                        nursery.start_soon(session.delete_tree, f"{it.root}/t")
            for path in paths:
                await other.ensure_path(path)
            assert await other.count_below(f"{it.root}/t") == 3 + 15 + 30
            async with trio.open_nursery() as nursery:
                for who in (session, other, session):
                    nursery.start_soon(who.delete_tree, f"{it.root}/t")
            assert await session.exists(f"{it.root}/t") is None


async def test_delete_tree_raises_the_error_of_a_node(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session:
        await session.ensure_path(f"{it.root}/t/a")
        await session.create(f"{it.root}/t/b", acl=zab.digest_acl("somebody", "else"))
        with pytest.raises(zab.NoAuth):
            await session.delete_tree(f"{it.root}/t")
        await session.delete_tree(f"{it.root}/t/a")


async def test_a_protected_create_bears_its_token(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session:
        path = await session.create_protected(f"{it.root}/lock-", b"me")
        assert path.startswith(f"{it.root}/_c_")
        assert path.endswith("-lock-0000000000")
        mine = await session.create_protected(f"{it.root}/tok__lock__", token="tok", ephemeral=False)
        assert mine == f"{it.root}/tok__lock__0000000001"
        assert await session.find_token(it.root or "/", "tok") == mine
        assert await session.find_token(it.root or "/", "nobody's") is None
        assert await session.find_token(f"{it.root}/nowhere", "tok") is None
        with pytest.raises(zab.LocalProtocolError, match="does not contain the token"):
            await session.create_protected(f"{it.root}/a", token="b")
        with pytest.raises(zab.LocalProtocolError, match="the token is empty"):
            await session.create_protected(f"{it.root}/a", token="")


# -- who may -------------------------------------------------------------------------------------------


async def test_permissions_of_each_operation(via: SessionKind) -> None:
    async with via.open() as it, it.session() as mine, it.session() as yours:
        path = f"{it.root}/mine"
        with pytest.raises(zab.InvalidAcl):
            await mine.create(path, acl=MINE)
        with pytest.raises(zab.InvalidAcl):
            await mine.create(path, acl=())
        await mine.add_auth("digest", b"me:secret")
        await mine.add_auth("digest", b"me:secret")
        assert sorted(await mine.who_am_i()) == [("digest", "me"), ("ip", "127.0.0.1")]
        assert await mine.create(f"{it.root}/near", acl=((1, "ip", "127.0.0.1"),))
        assert await yours.get(f"{it.root}/near")
        assert ("digest", "me") not in await yours.who_am_i()
        await mine.create(path, b"x", acl=MINE)
        assert (await mine.get(path))[0] == b"x"
        for refused in (yours.get(path), yours.exists(path), yours.set(path, b""), yours.acl(path)):
            with pytest.raises(zab.NoAuth):
                await refused
        acl, stat = await mine.acl(path)
        assert acl[0][:2] == (31, "digest")
        assert acl[0][2].startswith("me:")
        assert (await mine.set_acl(path, READ_BY_ALL, version=stat.aversion)).aversion == stat.aversion + 1
        with pytest.raises(zab.BadVersion):
            # Of two errors at once, either is right: with this list nobody may change it any more.
            try:
                await mine.set_acl(path, OPEN, version=stat.aversion)
            except zab.NoAuth:
                raise zab.BadVersion(-103, path) from None
        assert (await yours.get(path))[0] == b"x"
        assert (await yours.acl(path))[0] == READ_BY_ALL
        with pytest.raises(zab.NoAuth):
            await yours.set(path, b"")


async def test_lists_of_permissions_have_names(via: SessionKind) -> None:
    async with via.open() as it, it.session() as mine, it.session() as yours:
        await mine.add_auth("digest", b"me:secret")
        await mine.create(f"{it.root}/mine", acl=zab.CREATOR_ACL)
        await mine.create(f"{it.root}/read", acl=zab.READ_ONLY_ACL)
        reading = zab.digest_acl("you", "word", zab.Permission.READ | zab.Permission.CREATE)
        await mine.create(f"{it.root}/shared", b"x", acl=reading + zab.digest_acl("me", "secret"))
        with pytest.raises(zab.NoAuth):
            await yours.get(f"{it.root}/shared")
        await yours.add_auth("digest", b"you:word")
        assert (await yours.get(f"{it.root}/shared"))[0] == b"x"
        assert await yours.create(f"{it.root}/shared/a")
        for refused in (
            yours.set(f"{it.root}/shared", b""),
            yours.get(f"{it.root}/mine"),
            mine.set(f"{it.root}/read", b""),
        ):
            with pytest.raises(zab.NoAuth):
                await refused
        assert (await mine.acl(f"{it.root}/shared"))[0] == reading + zab.digest_acl("me", "secret")
        assert (await mine.acl(it.root or "/"))[0] == zab.OPEN_ACL


async def test_refused_credentials_end_the_session(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session:
        async with session.watch(it.root or "/") as events:
            with pytest.raises(zab.AuthFailed):
                await session.add_auth("trust-me", b"")
            with pytest.raises(zab.AuthFailed):
                await anext(events)
        assert session.state is SessionState.AUTH_FAILED
        with pytest.raises(zab.AuthFailed):
            await session.get("/")


# -- watches -------------------------------------------------------------------------------------------


async def test_watches_for_once(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session, it.session() as other:
        root = it.root or "/"
        a, b = f"{it.root}/a", f"{it.root}/b"
        async with session.watcher() as events, session.watcher() as more:
            assert await session.exists(a, events) is None
            assert await session.children(root, events) == []
            with pytest.raises(zab.NoNode):
                await session.get(b, events)
            await other.create(a)
            await session.sync(root)
            assert heard(await events.take()) == [(Event.CREATED, a), (Event.CHILDREN_CHANGED, root)]
            await other.create(b)
            await session.sync(root)
            assert len(events) == 0, "both were for once, and a read that failed watches nothing"
            await session.get(a, events)
            await session.get(a, more)
            await session.exists(a, events)
            await session.children_with_stat(a, events)
            await other.set(a, b"1")
            await other.set(a, b"2")
            await session.sync(root)
            assert heard(await events.take()) == heard(await more.take()) == [(Event.DATA_CHANGED, a)]
            await session.get(a, more)
            await other.delete(a)
            await session.sync(root)
            assert heard(await events.take()) == heard(await more.take()) == [(Event.DELETED, a)]


async def test_watches_that_stay(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session, it.session() as other:
        a = f"{it.root}/a"
        async with session.watch(a) as events, session.watch(a, recursive=True) as below:
            await other.create(a)
            await other.create(f"{a}/b")
            await other.set(f"{a}/b", b"")
            await other.set(a, b"")
            await other.delete(f"{a}/b")
            await other.delete(a)
            await session.sync(a)
            assert heard(await events.take()) == [
                (Event.CREATED, a), (Event.CHILDREN_CHANGED, a), (Event.DATA_CHANGED, a), (Event.CHILDREN_CHANGED, a),
                (Event.DELETED, a),
            ]  # fmt: skip
            assert heard(await below.take()) == [
                (Event.CREATED, a), (Event.CREATED, f"{a}/b"), (Event.DATA_CHANGED, f"{a}/b"), (Event.DATA_CHANGED, a),
                (Event.DELETED, f"{a}/b"), (Event.DELETED, a),
            ]  # fmt: skip


async def test_one_watch_of_several_nodes(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session:
        async with session.watcher() as events:
            for name in "abc":
                await session.add_watch(f"{it.root}/{name}", events, recursive=name == "c")
                await session.create(f"{it.root}/{name}")
            await session.sync()
            assert [event.path for event in await events.take()] == [f"{it.root}/{name}" for name in "abc"]
        async with it.session() as other, other.watcher() as events:
            with pytest.raises(zab.LocalProtocolError, match="another session"):
                await session.get(f"{it.root}/a", events)


async def test_an_event_comes_before_any_answer_that_shows_the_change(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session, it.session() as other:
        path = await session.create(f"{it.root}/a", b"0")
        for number in range(1, 30):
            async with session.watcher() as events:
                before = (await session.get(path, events))[0]
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(other.set, path, b"%d" % number)
                    while (await session.get(path))[0] == before:
                        pass
                    assert len(events) == 1


async def test_watches_are_removed(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session:
        a = await session.create(f"{it.root}/a")
        assert not await session.has_watch(a)
        with pytest.raises(zab.NoWatcher):
            await session.remove_watch(a)
        async with session.watcher() as events, session.watch(a) as stays, session.watch(a, recursive=True) as below:
            await session.get(a, events)
            await session.children(a, events)
            for kind in WatchKind:
                assert await session.has_watch(a, kind), kind
            await session.remove_watch(a, WatchKind.DATA)
            assert heard(await events.take()) == [(Event.DATA_WATCH_REMOVED, a)]
            assert not await session.has_watch(a, WatchKind.DATA)
            await session.remove_watch(a, WatchKind.RECURSIVE)
            assert heard(await below.take()) == [(Event.PERSISTENT_WATCH_REMOVED, a)]
            await session.remove_watch(a)
            assert heard(await events.take()) == [(Event.CHILD_WATCH_REMOVED, a)]
            assert heard(await stays.take()) == [(Event.PERSISTENT_WATCH_REMOVED, a)]
            assert not await session.has_watch(a)
            await session.set(a, b"")
            await session.sync()
            assert len(events) + len(stays) + len(below) == 0


async def test_a_watch_ends_with_its_block(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session:
        a = await session.create(f"{it.root}/a")
        async with session.watch(a) as stays:
            async with session.watch(a) as events:
                await session.get(a, events)
            with pytest.raises(zab.LocalProtocolError, match="the block of this watch has ended"):
                await anext(events)
            assert await session.has_watch(a, WatchKind.PERSISTENT), "the other one is there still"
            assert not await session.has_watch(a, WatchKind.DATA)
            await session.set(a, b"")
            assert heard([await anext(stays)]) == [(Event.DATA_CHANGED, a)]
        assert not await session.has_watch(a)


async def test_a_watch_that_is_over_watches_nothing_more(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session:
        async with session.watcher() as events:
            pass
        for ask in (session.get, session.exists, session.children, session.add_watch):
            with pytest.raises(zab.LocalProtocolError, match="the block of this watch has ended"):
                await ask(it.root or "/", events)
        assert not await session.has_watch(it.root or "/")


async def test_invalid_watch_is_reported(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session:
        for watch in (True, False, print, session.watcher()):
            with pytest.raises(TypeError, match="a watch comes from `async with session.watcher"):
                await session.get(it.root or "/", watch)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="a watch comes from `async with session.watcher"):
                await session.add_watch(it.root or "/", watch)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["/foo/", "/a//b", "/foo/.", "/foo/.."])
async def test_watch_on_an_invalid_path_is_refused(via: SessionKind, path: str) -> None:
    async with via.open() as it, it.session() as session:
        for recursive in (False, True):
            with pytest.raises(zab.BadArguments, match="bad arguments"):
                async with session.watch(it.root + path, recursive=recursive):
                    pass


async def test_long_path_is_shortened_in_errors(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session:
        for ask in (session.create, session.get, session.delete, session.add_watch):
            async with session.watcher() as watch:
                more = (watch,) if ask == session.add_watch else ()
                with pytest.raises((zab.LocalProtocolError, zab.StoreError)) as refused:
                    await ask(it.root + "/" + "a" * 2_000_000 + "/", *more)
                assert len(str(refused.value)) < 500
                assert "2000" in str(refused.value)


async def test_a_watch_is_for_one_task(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session, session.watch(it.root or "/") as events:
        got: list[zab.WatchEvent] = []

        async def waits() -> None:
            got.append(await anext(events))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(waits)
            await trio.testing.wait_all_tasks_blocked()
            for wait in (events.__anext__, events.take):
                with pytest.raises(trio.BusyResourceError, match="another task waits for this watch"):
                    await wait()
            await session.create(f"{it.root}/child")
        assert heard(got) == [(Event.CHILDREN_CHANGED, it.root or "/")]


# -- sessions ------------------------------------------------------------------------------------------


async def test_ephemerals_go_with_their_session(via: SessionKind) -> None:
    async with via.open() as it, it.session() as other:
        with trio.CancelScope() as scope:
            async with it.session() as session:
                path = await session.create(f"{it.root}/e", ephemeral=True)
                await session.create(f"{it.root}/stays")
                await session.create(f"{it.root}/f", ephemeral=True)
                stat = await other.exists(path)
                assert stat is not None
                assert stat.ephemeral_owner == session.id
                assert sorted(await session.ephemerals()) == [path, f"{it.root}/f"]
                assert await session.ephemerals(path) == [path]
                assert await other.ephemerals() == []
                scope.cancel()
                await trio.sleep_forever()
        assert await other.exists(path) is None
        assert await other.children(it.root or "/") == ["stays"]
        assert session.state is SessionState.CLOSED
        for call in (session.exists(path), session.create(path), session.sync(), session.add_auth("digest", b"a:b")):
            with pytest.raises(zab.SessionClosed, match="the block of this session has ended: use a session"):
                await call
        assert [state async for state in session.states()] == [SessionState.CLOSED]


async def test_cancelling_a_call_leaves_the_session_usable(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session:
        for number in range(20):
            with trio.move_on_after(0):
                await session.create(f"{it.root}/c{number}")
            with trio.move_on_after(0):
                await session.get(it.root or "/")
            async with session.watcher() as events:
                with trio.move_on_after(0):
                    await session.add_watch(f"{it.root}/x", events)
            assert await session.create(f"{it.root}/d{number}") == f"{it.root}/d{number}"
        await session.sync()
        assert not await session.has_watch(f"{it.root}/x")


async def test_the_servers_know_when_all_is_seen(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session, it.session() as other:
        assert session.state is SessionState.CONNECTED
        assert session.over is None
        assert (session.timeout_ms, await anext(session.states())) == (TIMEOUT_MS, SessionState.CONNECTED)
        assert session.id != other.id
        await other.create(f"{it.root}/a")
        await session.sync(f"{it.root}/a")
        assert await session.exists(f"{it.root}/a") is not None


async def test_config_ignores_the_sessions_root(via: SessionKind) -> None:
    async with via.open() as it, it.session() as session, session.watcher() as events:
        data, stat = await session.config(events)
        assert data is None or isinstance(data, bytes)
        assert stat.num_children == 0
        with pytest.raises(zab.StoreError):
            await session.reconfigure(joining=["server.9=nowhere:1:2"], leaving="8", version=3)


@pytest.mark.parametrize("name", ["process", "client"])
async def test_a_read_comes_after_the_writes_that_its_session_asked_for_before(
    name: str, request: pytest.FixtureRequest
) -> None:
    """This includes cancelled writes."""
    async with session_kind_of(name, request).open() as it, it.session() as session:
        path = await session.create(f"{it.root}/a", b"0")
        async with trio.open_nursery() as nursery:
            for number in range(1, 6):
                nursery.start_soon(session.set, path, b"%d" % number)
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()  # all five are asked for by now
            _, stat = await session.get(path)
        assert stat.version == 5
        for number in range(5):
            with trio.CancelScope() as scope:
                scope.cancel()
                await session.set(path, b"c%d" % number)
            first, second = await session.get(path), await session.get(path)
            await session.sync()
            assert first == second == await session.get(path)


LONELY = "a\ud800"
"""Half of a character."""


@pytest.mark.parametrize("name", ["process", "client"])
async def test_acls_too_large_for_a_frame_are_refused_everywhere(name: str, request: pytest.FixtureRequest) -> None:
    """A node with such a list would break `acl` for every client, and the way out of the store."""
    async with session_kind_of(name, request).open() as it, it.session() as session:
        path = f"{it.root}/a"
        for acl in (((1 << 31, "world", "anyone"),), ((31, LONELY, "x"),), ((31, "digest", f"{LONELY}:b"),)):
            for act in (session.create(path, acl=acl), session.set_acl(it.root or "/", acl)):
                with pytest.raises(zab.BadArguments, match="its permissions do not fit into 32 bits"):
                    await act
            with pytest.raises(zab.BadArguments):
                Multi().create(path, acl=acl)
        for coroutine in (
            session.create(f"{path}{LONELY}"),
            session.exists(f"{path}{LONELY}"),
            session.create(path, ttl_ms=1 << 63),
            session.reconfigure(joining="server.2=a:1:2;3", version=1 << 70),
            session.set(it.root or "/", b"", 1 << 31),
            session.remove_watch("/", 9),  # type: ignore[arg-type]
        ):
            with pytest.raises(zab.BadArguments):
                await coroutine
        wrong: Any = 1.5
        for coroutine in (
            session.create(path, ttl_ms=wrong),
            session.set("/", b"", wrong),
            session.reconfigure(joining=5),  # type: ignore[arg-type]
            session.reconfigure(members="server.1=a:1:2;3", version=wrong),
        ):
            with pytest.raises(TypeError, match="whole number|servers must be text"):
                await coroutine
        assert await session.exists(path) is None
