"""A server without a quorum logs the missing servers and the reasons."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import trio

from tests.integration.cluster import loopback
from tests.integration.http_client import get
from tests.integration.stores import Stores, stores
from zab.admin.admin_settings import AdminSettings
from zab.core.ensemble import Ensemble

ADMIN = (AdminSettings("127.0.0.1", 0),)


async def logged(caplog: pytest.LogCaptureFixture, *words: str) -> str:
    while True:
        for record in caplog.records:
            if all(word in record.getMessage() for word in words):
                assert record.levelno == logging.WARNING
                return record.getMessage()
        await trio.sleep(0.05)


async def test_servers_that_are_down_are_named_with_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "zab"):
        async with stores(tmp_path, 3, admin=ADMIN) as made:
            await made.leader()
            for sid in (1, 2):
                await made.stop(sid)
            await logged(caplog, "role_over server=3")
            line = await logged(caplog, "no_quorum server=3")
            assert line.count("Connection refused") == 2, line
            told = (await get(made.servers[3].ports.admin, "/status.json")).json
            assert [text for each in told["warnings"] if "server 1 is missing: " in (text := each["text"])]


async def test_server_of_another_ensemble_is_named_with_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pair = Ensemble(loopback(2))
    with caplog.at_level(logging.WARNING, "zab"):
        async with trio.open_nursery() as nursery:
            ours = Stores(nursery, tmp_path / "ours", 1, {"name": "ours"})
            theirs = Stores(nursery, tmp_path / "theirs", 1, {"name": "theirs"})
            await ours.start(1, pair)
            theirs.ports[2] = theirs.ports.pop(1)
            await theirs.start(2, pair)
            await logged(caplog, "no_quorum server=2", "server_1", "'ours'")
            nursery.cancel_scope.cancel()
