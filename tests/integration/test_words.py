"""Four-letter words, beside those of Apache ZooKeeper: the same lines with the same keys, for the same situation."""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from re import fullmatch
from typing import Any

import pytest
import trio
from attrs import evolve

from tests.integration import apache
from tests.integration.stores import PORTS, stores
from tests.integration.test_client_port import raw
from zab.wire.client.client_frames import FOUR_LETTER_WORDS

PATIENCE_S = 240


def say(port: int, letters: bytes) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(letters)
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


async def hear(port: int, letters: bytes) -> str:
    return await trio.to_thread.run_sync(say, port, letters)


def shape(word: str, said: str) -> object:
    """Return the output without addresses, times and counts."""
    lines = [line for line in said.splitlines() if line.strip()]
    match word:
        case "conf" | "envi":
            return [line.partition("=")[0] for line in lines]
        case "dirs":
            return [line.partition(":")[0] for line in lines]
        case "srvr":
            return [line.partition(":")[0] for line in lines]
        case "stat":
            return [line.partition(":")[0] for line in lines if not line.startswith(" /")]
        case "cons":
            (mine,) = [line for line in lines if "sid=" in line]
            return re.findall(r"(\w+)=", mine), re.sub(r"\d+", "N", mine.partition("(")[0])
        case "dump":
            shapes = [re.sub(r"0x[0-9a-f]+", "ID", re.sub(r"at .*", "at DATE:", line)) for line in lines]
            shapes = [re.sub(r"ip: \S+", "ip: IP", re.sub(r"\d+ expire", "N expire", line)) for line in shapes]
            # The original counts the connection on which it is asked, too.
            shapes = [re.sub(r"\(\d+\)/\(\d+\)", "(N)/(N)", line) for line in shapes if "sessionId: ID" not in line]
            # Sessions and connections may or may not end in one tick.
            return [line for line, before in zip(shapes, ["", *shapes], strict=False) if line != before]
        case "wchs" | "ruok" | "isro" | "crst" | "srst" | "gtmk":
            return said
        case "wchc" | "wchp":
            return sorted(re.sub(r"0x[0-9a-f]+", "ID", line) for line in lines)
        case _:
            raise AssertionError(word)


def situation(port: int) -> Any:
    """Run one session with a watched ephemeral node."""
    from kazoo.client import KazooClient

    zk = KazooClient(hosts=f"127.0.0.1:{port}")
    zk.start(PATIENCE_S)
    zk.create("/e", b"x", ephemeral=True)
    zk.get("/e", watch=print)
    return zk


@contextmanager
def in_the_situation(port: int) -> Any:
    zk = situation(port)
    try:
        yield
    finally:
        zk.stop()
        zk.close()


COMPARED = ["conf", "cons", "dirs", "dump", "envi", "gtmk", "isro", "ruok", "srvr", "stat", "wchc", "wchp", "wchs",
            "crst", "srst"]  # fmt: skip


def shapes_at(port: int) -> dict[str, object]:
    with in_the_situation(port):
        return {word: shape(word, say(port, word.encode())) for word in COMPARED}


@apache.needs_apache
@pytest.mark.slow
async def test_the_same_lines_as_the_original(tmp_path: Path) -> None:
    pytest.importorskip("kazoo", reason="kazoo is not installed")

    def original() -> dict[str, object]:
        with apache.running(tmp_path / "apache") as server:
            return shapes_at(server.port)

    theirs = await trio.to_thread.run_sync(original)
    async with stores(tmp_path / "ours") as running:
        ours = await trio.to_thread.run_sync(partial(shapes_at, running.ports[1]))
    for word in COMPARED:
        assert ours[word] == theirs[word], word


async def test_the_mask_of_traces_is_kept_and_means_nothing(tmp_path: Path) -> None:
    async with stores(tmp_path) as running:
        port = running.ports[1]
        assert await hear(port, b"gtmk") == "306"
        assert await hear(port, b"stmk" + (258).to_bytes(8, "big")) == "258"
        assert await hear(port, b"gtmk") == "258"


async def test_sender_of_a_word_is_no_client(tmp_path: Path) -> None:
    async with stores(tmp_path) as running:
        said = (await hear(running.ports[1], b"srvr")).splitlines()
        assert [line for line in said if line.startswith(("Latency", "Received", "Connections"))] == [
            "Latency min/avg/max: 0/0.0/0",
            "Received: 0",
            "Connections: 0",
        ]


async def test_all_of_them_answer_also_in_an_ensemble(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as running:
        leader = await running.leader()
        for sid, port in running.ports.items():
            for letters, word in FOUR_LETTER_WORDS.items():
                said = await hear(port, letters + (bytes(8) if word == "stmk" else b""))
                assert said or word in ("wchc", "wchp", "hash"), word
            assert ("Proposal sizes last/min/max" in await hear(port, b"srvr")) is (sid == leader)
            said = await hear(port, b"conf")
            assert running.ensemble is not None
            assert all(each.text() in said for each in running.ensemble.servers)
            assert f"serverId={sid}\ninitLimit=" in said


@asynccontextmanager
async def without_a_leader(path: Path) -> AsyncIterator[int]:
    async with stores(path, 3) as running:
        leader = await running.leader()
        left, *_ = gone = [sid for sid in running.servers if sid != leader]
        for sid in (leader, *gone[1:]):
            await running.stop(sid)
        with trio.fail_after(PATIENCE_S):
            while running.servers[left].clients.ready:
                await trio.sleep(0.01)
        yield running.ports[left]


async def test_without_a_leader_a_few_answer(tmp_path: Path) -> None:
    async with without_a_leader(tmp_path) as port:
        for word in ("srvr", "stat", "mntr", "cons", "dump", "conf", "wchs"):
            assert await hear(port, word.encode()) == "This ZooKeeper instance is not currently serving requests\n"
        assert await hear(port, b"ruok") == "imok"
        assert await hear(port, b"isro") == "null"
        assert (await hear(port, b"envi")).startswith("Environment:\nzookeeper.version=")


async def test_user_outside_the_list_is_refused(tmp_path: Path) -> None:
    async with stores(tmp_path, client_ports=evolve(PORTS, words=frozenset({"srvr"}))) as running, raw(running):
        port = running.ports[1]
        version, _, built = (await hear(port, b"srvr")).splitlines()[0].partition(", built on ")
        assert version.startswith("Zookeeper version: 3.9.")
        assert fullmatch(r"\d\d/\d\d/\d{4} \d\d:\d\d UTC", built)
        assert await hear(port, b"ruok") == "ruok is not executed because it is not in the whitelist.\n"
