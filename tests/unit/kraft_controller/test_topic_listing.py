"""Checks of new topic names: collisions with other topics are found by few listings."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio

import zab
from kraft_controller.runtime.admin.topic_requests import InvalidName, TopicExists, TopicListing, check_name


class Session:
    """A store with topics only. Each listing takes a turn, and may fail."""

    def __init__(self, *topics: str) -> None:
        self.topics = list(topics)
        self.listings = 0
        self.fails = False

    async def children(self, path: str) -> list[str]:
        self.listings += 1
        found = list(self.topics)
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        if self.fails:
            raise zab.NotLeader("lost")
        return found

    async def exists(self, path: str) -> Any:
        await trio.lowlevel.checkpoint()
        parent, _, name = path.rpartition("/")
        return object() if parent == "/brokers/topics" and name in self.topics else None


async def checked(session: Session, name: str, listing: TopicListing | None = None) -> str:
    try:
        await check_name(cast(zab.Session, session), name, listing)
    except (InvalidName, TopicExists) as error:
        return str(error)
    return ""


async def test_names_without_dots_and_underscores_need_no_listing() -> None:
    session = Session("a", "b.c")
    assert await checked(session, "new") == ""
    assert "already exists" in await checked(session, "a")
    assert session.listings == 0
    assert "b_c and b.c would be equal" in await checked(session, "b_c")
    assert "already exists" in await checked(session, "b.c")
    assert session.listings == 1


async def test_concurrent_checks_share_listings() -> None:
    session, listing, found = Session("a.b", "x"), TopicListing(), dict[str, str]()

    async def check(name: str) -> None:
        found[name] = await checked(session, name, listing)

    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(check, f"t.{number}")
        nursery.start_soon(check, "a_b")
    assert found.pop("a_b")
    assert set(found.values()) == {""}
    assert session.listings <= 2


async def test_check_does_not_use_a_listing_that_began_before() -> None:
    """A topic that is created between two checks is found by the second one."""
    session, listing, found = Session(), TopicListing(), list[str]()

    async def check(name: str) -> None:
        found.append(await checked(session, name, listing))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(check, "t.1")
        while not session.listings:
            await trio.lowlevel.checkpoint()
        session.topics.append("a.b")
        nursery.start_soon(check, "a_b")
    assert found[0] == ""
    assert "a_b and a.b would be equal" in found[1]


async def test_failed_listing_is_not_shared() -> None:
    session, listing = Session("a.b"), TopicListing()
    session.fails = True
    with pytest.raises(zab.NotLeader):
        await checked(session, "a_b", listing)
    session.fails = False
    assert await checked(session, "a_b", listing)
