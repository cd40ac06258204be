"""The arguments of `open_store`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from trio.testing import MockClock

import zab
from zab.core.ensemble import Ensemble
from zab.recipes import Lock, Semaphore
from zab.runtime.member import Member
from zab.runtime.store_server.open_store import MemberOptions


def test_open_store_accepts_the_arguments_of_a_member() -> None:
    """Written down twice, because a type checker does not read the one from the other."""
    parameters = inspect.signature(Member).parameters
    of_a_member = {name: each.annotation for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY}
    del of_a_member["limits"]
    assert {name: each.__forward_arg__ for name, each in MemberOptions.__annotations__.items()} == of_a_member


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"client_port": 99_999}, zab.ConfigError),
        ({"client_port": -1}, zab.ConfigError),
        ({"secure_client_port": 65_536}, zab.ConfigError),
        ({"client_port": "2181"}, TypeError),
        ({"client_port": True}, TypeError),
    ],
)
async def test_a_port_that_is_none(given: dict[str, Any], error: type[Exception], tmp_path: Path) -> None:
    (name,) = given
    with pytest.raises(error, match=f"{name}: .* port"):
        async with zab.open_store(tmp_path / "store", **given):
            raise AssertionError("never")
    assert not (tmp_path / "store").exists(), "nothing was begun"


class Nothing(zab.Passive):
    def apply(self, zxid: zab.Zxid, txn: bytes) -> None:
        pass

    def snapshot(self) -> list[bytes]:
        return []

    def restore(self, chunks: Iterable[bytes]) -> None:
        pass


@pytest.mark.parametrize("server_id", ["1", 1.0, True])
@pytest.mark.parametrize("ensemble", [None, Ensemble.parse("server.1=127.0.0.1:1:2, server.2=127.0.0.1:3:4")])
def test_server_id_of_another_type_is_named(tmp_path: Path, server_id: Any, ensemble: Ensemble | None) -> None:
    with pytest.raises(TypeError, match=f"server_id must be a number, like 1, not {type(server_id).__name__}"):
        zab.Member(Nothing(), tmp_path, server_id=server_id, ensemble=ensemble)


def test_misspelt_argument_of_connect_or_open_member_names_the_near_one(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="zab.connect has no argument 'timeout'; did you mean timeout_ms?"):
        zab.connect("127.0.0.1:1", timeout=5)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="zab.open_member has no argument 'server_i'; did you mean server_id?"):
        zab.open_member(Nothing(), tmp_path, server_i=1)  # type: ignore[call-arg]


MISSPELT = [
    (zab.Settings, "tick_sm", "tick_ms"),
    (zab.Limits, "submits_mx", "submits_max"),
    (zab.StorageSettings, "autocreat", "autocreate"),
    (zab.StoreSettings, "extended_type", "extended_types"),
    (zab.ClientPortSettings, "super_diges", "super_digest"),
    (zab.ClientSettings, "frame_byte_max", "frame_bytes_max"),
    (zab.AdminSettings, "prt", "port"),
    (zab.AuditSettings, "fil", "file"),
    (zab.Member, "serverid", "server_id"),
]


@pytest.mark.parametrize(("kind", "given", "near"), MISSPELT, ids=lambda each: getattr(each, "__name__", None))
def test_misspelt_argument_of_a_constructor_names_the_near_one(kind: Any, given: str, near: str) -> None:
    assert near in inspect.signature(kind).parameters
    with pytest.raises(TypeError, match=f"zab.{kind.__name__} has no argument '{given}'; did you mean {near}?"):
        kind(**{given: 1})


async def test_misspelt_argument_names_the_near_one(tmp_path: Path) -> None:
    misspelt: dict[str, Any] = {"client_prt": 2181}
    with pytest.raises(TypeError, match="a store has no argument 'client_prt'; did you mean client_port?"):
        async with zab.open_store(tmp_path / "store", **misspelt):
            raise AssertionError("never")


MISSPELT_METHODS: Final[list[tuple[Callable[..., object], str, str]]] = [
    (zab.Session.create, "ephemral", "Session.create has no argument 'ephemral'; did you mean ephemeral?"),
    (zab.Session.get, "wach", "Session.get has no argument 'wach'; did you mean watch?"),
    (zab.Session.set, "verson", "Session.set has no argument 'verson'; did you mean version?"),
    (zab.Session.watch, "recursiv", "Session.watch has no argument 'recursiv'; did you mean recursive?"),
    (zab.StoreServer.session, "timeout", "StoreServer.session has no argument 'timeout'; did you mean timeout_ms?"),
    (zab.Member.reconfigure, "version", "Member.reconfigure has no argument 'version'; did you mean expect_version?"),
    (Lock, "setting", "Lock has no argument 'setting'; did you mean settings?"),
    (Lock.hold, "wat", "Lock.hold has no argument 'wat'; did you mean wait?"),
    (Semaphore, "count", "Semaphore has no argument 'count'"),
]


@pytest.mark.parametrize(("call", "given", "says"), MISSPELT_METHODS, ids=lambda each: getattr(each, "__name__", None))
def test_misspelt_argument_of_a_method_names_the_near_one(call: Callable[..., object], given: str, says: str) -> None:
    with pytest.raises(TypeError, match=re.escape(says)) as error:
        call(None, "/a", **{given: 1})
    assert error.value.__suppress_context__


async def test_exceeded_quota_is_logged_once_in_ten_seconds(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with zab.open_store(tmp_path / "store") as store, store.session() as session:
        await session.create("/q")
        await session.ensure_path("/zookeeper/quota/q")
        await session.create("/zookeeper/quota/q/zookeeper_limits", b"count=2,bytes=-1")
        await session.create("/zookeeper/quota/q/zookeeper_stats", b"")
        for name in ("/q/a", "/q/b", "/q/c"):
            await session.create(name)
    lines = [record.message for record in caplog.records if "quota_exceeded" in record.message]
    assert len(lines) == 1
    assert lines[0].endswith("path=/q limit=count allowed=2 wanted=3 refused=False")


def test_clock_that_jumps_while_the_disk_is_busy_is_reported(tmp_path: Path) -> None:
    async def open_store() -> None:
        async with zab.open_store(tmp_path / "data"):
            raise AssertionError

    with pytest.raises(zab.LocalProtocolError, match=r"open_store needs a clock .* Use zab.testing.open_memory_store"):
        trio.run(open_store, clock=MockClock(autojump_threshold=0))
    assert not list(tmp_path.iterdir())


def test_clock_that_jumps_while_data_travel_is_reported() -> None:
    async def connect(hosts: str) -> None:
        async with zab.connect(hosts):
            raise AssertionError

    with pytest.raises(
        zab.LocalProtocolError, match=r"connect needs a clock .* connect of zab.testing.open_memory_store"
    ):
        trio.run(connect, "127.0.0.1:1", clock=MockClock(autojump_threshold=0))
