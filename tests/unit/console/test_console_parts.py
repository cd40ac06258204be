"""The part of the console about the store: nodes that are too large to show, outages, and the need for a password."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest
import trio
import trio.testing

from zab.admin.markup import number
from zab.cli.console_options import gate_of
from zab.cli.kit.failures import Misused
from zab.cli.kit.verb_group import Arguments
from zab.console.node_pages import CHILDREN_MAX, NodePages
from zab.console.page import Page, Refusal, Visit
from zab.console.shared_value import SharedValue
from zab.console.store_link import StoreLink
from zab.console.store_part import StorePart
from zab.core.errors import ZabError
from zab.session.api import Session
from zab.store.acl import OPEN, Acl
from zab.store.znode import Stat

MANY: Final = 1_000_000


class HugeNode:
    """A session in which each node has a million children and a megabyte of data. Reading either fails the test."""

    async def exists(self, path: str) -> Stat:
        return Stat(1, 1, 0, 0, 7, MANY, 0, 0, MANY, MANY, 1)

    async def acl(self, path: str) -> tuple[Acl, Stat]:
        return OPEN, await self.exists(path)


class Link:
    async def session(self) -> Any:
        return HugeNode()


async def test_million_children_and_a_megabyte_are_refused_without_a_read() -> None:
    pages = NodePages(Link(), "", (), ())  # type: ignore[arg-type]  # the part that the page uses
    page = await pages.node(Visit("/node", {"path": "/huge"}))
    assert f"This node has {number(MANY)} children. The console lists at most {number(CHILDREN_MAX)}" in page.body
    assert f"This has {number(MANY)} bytes" in page.body
    assert len(page.body) < 5_000


@pytest.mark.parametrize("path", ["", "a", "/a/", "/../a", "/a\x00"])
async def test_wrong_paths_are_refused(path: str) -> None:
    pages = NodePages(Link(), "", (), ())  # type: ignore[arg-type]  # the part that the page uses
    with pytest.raises(Refusal, match="not the path of a node") as refused:
        await pages.node(Visit("/node", {"path": path}))
    assert refused.value.status is HTTPStatus.BAD_REQUEST


def test_link_opens_another_session_after_any_failure() -> None:
    async def main() -> None:
        attempts = 0

        class Over:
            over = "expired"

            async def states(self) -> AsyncIterator[None]:
                await trio.sleep(1)
                yield None

        @asynccontextmanager
        async def opens() -> AsyncIterator[Session]:
            nonlocal attempts
            attempts += 1
            if attempts == 1:
                raise ZabError("no server")
            if attempts == 2:
                raise ZeroDivisionError("a bug")
            yield Over()  # type: ignore[misc]  # the part that the link uses

        link = StoreLink(opens)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.run)
            await trio.sleep(0.5)
            with pytest.raises(Refusal, match="the store cannot be reached: the last attempt failed: no server"):
                await link.session()
            await trio.sleep(1)
            with pytest.raises(Refusal, match="the session failed: ZeroDivisionError"):
                await link.session()
            await trio.sleep(0.6)
            assert isinstance(await link.session(), Over)
            await trio.sleep(1)
            with pytest.raises(Refusal, match="expired"):
                await link.session()
            await trio.sleep(1.5)
            assert isinstance(await link.session(), Over)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_shared_value_is_loaded_once_for_all_visitors_and_errors_are_not_kept() -> None:
    async def main() -> None:
        loads = 0

        async def load() -> int:
            nonlocal loads
            loads += 1
            await trio.sleep(1)
            if loads == 1:
                raise ValueError("first")
            return loads

        shared = SharedValue(load, 5.0)
        with pytest.raises(ValueError, match="first"):
            await shared.get()
        found: list[int] = []

        async def visit() -> None:
            found.append(await shared.get())

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(visit)
        assert found == [2] * 10
        await trio.sleep(4.9)
        assert await shared.get() == 2
        await trio.sleep(0.2)
        assert await shared.get() == 3
        slow = SharedValue(load, 0.0)
        assert await slow.get() == 4
        await trio.sleep(3.9)
        assert await slow.get() == 4
        await trio.sleep(0.2)
        assert await slow.get() == 5

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_reason_for_a_missing_session_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    @asynccontextmanager
    async def opens() -> AsyncIterator[Session]:
        await trio.lowlevel.checkpoint()
        raise ZabError("no such name")
        yield HugeNode()  # type: ignore[unreachable]  # makes this function a generator

    async def main() -> None:
        with trio.move_on_after(90):
            await StoreLink(opens).run()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    lines = [each.message for each in caplog.records]
    assert lines == ["console_has_no_session why='the last attempt failed: no such name'"] * 2


@pytest.mark.parametrize("changing", [False, True])
def test_only_a_form_may_have_changed_something(changing: bool) -> None:
    part = StorePart("a:1", lambda: pytest.fail("no session is needed"))
    refusal = part.explain(trio.TooSlowError(), changing=changing)
    assert refusal is not None
    assert ("A change may have been made" in str(refusal)) == changing


def test_outage_of_everything_is_a_line_on_the_page() -> None:
    @asynccontextmanager
    async def opens() -> AsyncIterator[Session]:
        if part.menu:
            raise ZabError("<b>refused")
        yield HugeNode()  # type: ignore[misc]  # never reached

    part = StorePart("a:1", opens)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(part.run)
            overview = await part.overview()
            assert "the store cannot be reached: the last attempt failed: &lt;b&gt;refused" in overview
            assert "--admin" in overview
            page = await part.pages["/servers"](Visit("/servers"))
            assert isinstance(page, Page)
            assert "refused" in page.body
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def options(**given: object) -> Arguments:
    return Arguments(**{"listen": ("127.0.0.1", 8090), "password_file": None, "writable": False, **given})


def test_strangers_need_a_password_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    assert not gate_of(options()).has_password
    assert not gate_of(options(listen=("localhost", 1))).has_password
    for host in ("0.0.0.0", "::", "10.0.0.1", "console.example"):
        with pytest.raises(Misused, match="needs --password-file"):
            gate_of(options(listen=(host, 8090)))
    with pytest.raises(Misused, match="--writable needs --password-file"):
        gate_of(options(writable=True))
    for content in ("", "\n", "two\nlines\n"):
        file.write_text(content)
        with pytest.raises(Misused, match="expected one line"):
            gate_of(options(password_file=file))
    file.write_text("secret\n")
    gate = gate_of(options(password_file=file, listen=("0.0.0.0", 8090), writable=True))
    assert gate.has_password
    assert gate.writable
    assert trio.run(gate.log_in, "secret", "10.0.0.1") is not None
