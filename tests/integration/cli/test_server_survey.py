"""The queries of `zab migrate plan`: client ports that refuse four-letter words, admin ports, and silent servers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio

from bench.ports import free_port
from zab.cli.migration.ensemble_config import EnsembleConfig, read_config
from zab.cli.migration.server_survey import survey

REFUSED = b"it is not executed because it is not in the whitelist."
MONITOR = {"version": "3.9.5-0ab1, built on 2026-01-01 00:00 UTC", "server_state": "follower"}
PAGES = {
    "/commands/monitor": {**MONITOR, "digest_mismatches_count": 0},
    "/commands/server_stats": {"server_stats": {"last_processed_zxid": 0x100000005}},
    "/commands/configuration": {"server_id": 1},
}

Handler = Callable[[trio.SocketStream], Awaitable[None]]


async def refuse(stream: trio.SocketStream) -> None:
    await stream.receive_some(4)
    await stream.send_all(REFUSED)
    await stream.aclose()


async def stay_silent(stream: trio.SocketStream) -> None:
    await trio.sleep_forever()


async def answer_http(stream: trio.SocketStream) -> None:
    path = (await stream.receive_some(1000)).decode().split()[1]
    body = json.dumps(PAGES[path]).encode()
    await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    await stream.aclose()


@asynccontextmanager
async def listening(*handlers: Handler) -> AsyncIterator[list[int]]:
    async with trio.open_nursery() as nursery:
        ports = []
        for handler in handlers:
            (listener,) = await nursery.start(partial(trio.serve_tcp, handler, 0, host="127.0.0.1"))
            ports.append(listener.socket.getsockname()[1])
        yield ports
        nursery.cancel_scope.cancel()


def config(folder: Path, client: int, more: str) -> EnsembleConfig:
    path = folder / "zoo.cfg"
    lines = f"server.1=127.0.0.1:1:2;127.0.0.1:{client}\nserver.2=127.0.0.1:3:4;127.0.0.1:{free_port()}\n"
    path.write_text(f"dataDir=/data\ninitLimit=10\nsyncLimit=5\n{lines}{more}\n")
    return read_config(path)


async def test_admin_port_answers_for_refused_words(tmp_path: Path) -> None:
    async with listening(refuse, answer_http) as (client, admin):
        found, other = await survey(config(tmp_path, client, f"admin.serverPort={admin}"), {}, 10)
        assert (str(found.software), found.mode, found.zxid) == ("ZooKeeper 3.9.5", "follower", 0x100000005)
        assert (found.digest_mismatches, found.reported_id, found.behind) == (0, 1, 0)
        assert "cannot be reached: Connection refused" in other.problem


async def test_refused_words_without_admin_port_name_the_setting(tmp_path: Path) -> None:
    async with listening(refuse) as (client,):
        for more in ("admin.enableServer=false", f"admin.serverPort={free_port()}", f"admin.serverPort={client}"):
            found, _ = await survey(config(tmp_path, client, more), {}, 10)
            assert "does not allow the four-letter word srvr" in found.problem
            assert "4lw.commands.whitelist=srvr,mntr,conf" in found.remedy


async def test_silent_server_is_reported_in_time(tmp_path: Path) -> None:
    async with listening(stay_silent) as (client,):
        found, _ = await survey(config(tmp_path, client, "admin.enableServer=false"), {2: ("127.0.0.1", client)}, 0.1)
        assert (found.mode, found.problem) == ("unreachable", "no answer in 0.1 s")
