"""The page of an admin port: health, warnings, and where to see more."""

from __future__ import annotations

from pathlib import Path

import trio

from tests.integration.http_client import get
from tests.integration.stores import Stores, stores
from zab.admin.admin_settings import AdminSettings

ADMIN = (AdminSettings(port=0),)


async def settled(made: Stores) -> tuple[int, int]:
    """Return the leader, and the admin port of a follower, once every server has a report of every other."""
    leader = await made.leader()
    port = next(server.ports.admin for sid, server in made.servers.items() if sid != leader)
    while True:
        told = (await get(port, "/status.json")).json
        if (
            told["health"] != "starting"
            and told["leader"] == leader
            and all(each["connected"] for each in told["members"] if each["id"] in made.servers)
        ):
            assert port is not None
            return leader, port
        await trio.sleep(0.05)


async def test_page_shows_health_and_warnings_and_links_to_the_rest(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, admin=ADMIN) as made:
        leader, port = await settled(made)
        page = (await get(port, "/")).text
        assert "Healthy" in page
        assert f"Server {leader} leads epoch" in page
        assert "Warnings" not in page
        for path in ("/status.json", "/metrics", "/commands"):
            assert f'href="{path}"' in page
            assert (await get(port, path)).status == 200
        await made.stop(leader)
        successor, port = await settled(made)
        page = (await get(port, "/")).text
        assert "Needs attention" in page
        assert f"Server {successor} leads epoch" in page
        assert f"<li>Server {leader}: it is not in the running ensemble" in page
