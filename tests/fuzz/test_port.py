"""Arbitrary bytes at the client port: other clients are served, and the server's memory does not grow."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import port as at
from tests.fuzz.test_zookeeper import gone_wrong
from tests.fuzz.zookeeper_values import REQUESTS
from tests.integration.processes import ROOT
from zab.store.acl import OPEN
from zab.store.operations import Op
from zab.wire.client import requests

MEMORY_BYTES_MAX = 160 << 20
"""More than a server has when nothing was asked of it. It includes what Python does not give back."""


@frozen
class Served:
    port: int
    pid: int
    log: Path

    @property
    def memory_bytes(self) -> int:
        status = Path(f"/proc/{self.pid}/statm").read_text()
        return int(status.split()[1]) * os.sysconf("SC_PAGE_SIZE")


PROGRAM = """
import sys, trio
from tests.fuzz import port as at
from zab.runtime.store_server.open_store import open_store

async def main():
    async with open_store(sys.argv[1], client_port=0, client_ports=at.PORTS) as server:
        print(server.client_port, flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Run a server in a process of its own, to measure its memory."""
    folder = tmp_path_factory.mktemp("port")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder / "data")], cwd=ROOT, stdout=subprocess.PIPE, stderr=log
        )
    assert process.stdout is not None
    try:
        made = Served(int(process.stdout.readline()), process.pid, folder / "log")
        caller = at.Caller(made.port)
        assert caller.ask(Op.CREATE, (at.LARGE, bytes(900_000), OPEN, 0)) == 0
        caller.close()
        yield made
        assert process.poll() is None, "the server has ended"
    finally:
        process.terminate()
        process.wait(timeout=20)
        process.stdout.close()


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is looked up in /proc"),
]


@pytest.mark.parametrize("data", at.NASTY.values(), ids=at.NASTY)
def test_hostile_connections_disturb_no_other_client(server: Served, data: bytes) -> None:
    before = server.memory_bytes
    for _ in range(3):
        at.throw(server.port, data, then=at.hear_out)
        at.throw(server.port, data)
    at.still_serves(server.port)
    assert server.memory_bytes - before < MEMORY_BYTES_MAX


def test_client_that_never_reads_is_not_served(server: Served) -> None:
    before = server.memory_bytes
    connections = [at.never_reads(server.port) for _ in range(10)]
    try:
        at.still_serves(server.port)
        assert server.memory_bytes - before < MEMORY_BYTES_MAX
    finally:
        for connection in connections:
            connection.close()
    at.still_serves(server.port)


def test_many_silent_connections(server: Served) -> None:
    """Silent connections end after `first_frame_ms`; meanwhile other clients connect."""
    silent = [socket.create_connection(("127.0.0.1", server.port), timeout=at.PATIENCE_S) for _ in range(200)]
    at.still_serves(server.port)
    for connection in silent:
        assert connection.recv(1) == b""
        connection.close()


def test_reason_is_logged_once(server: Served) -> None:
    """Repeated garbage does not fill the disk with log lines."""
    for _ in range(100):
        at.throw(server.port, at.NASTY["a negative length"], then=at.hear_out)
    at.still_serves(server.port)
    cut = re.findall(r"client_protocol_error", server.log.read_text())
    assert 1 <= len(cut) <= 10


FRAMES = st.one_of(
    REQUESTS.map(lambda asked: requests.encode_request(asked[1], asked[0], asked[2])),
    REQUESTS.flatmap(lambda asked: gone_wrong(requests.encode_request(asked[1], asked[0], asked[2]))),
    st.binary(max_size=60),
    st.just(requests.PING),
)
SAID = st.tuples(st.sampled_from([at.CONNECT, b"", at.CONNECT[:-1]]), st.lists(FRAMES, max_size=6)).map(
    lambda said: said[0] + b"".join(said[1])
)


@given(said=SAID)
@settings(max_examples=75)
def test_any_bytes_leave_the_port_serving(server: Served, said: bytes) -> None:
    at.throw(server.port, said, then=at.hear_out)
    at.still_serves(server.port)


@pytest.mark.fuzz
@given(said=SAID)
@settings(max_examples=20_000, derandomize=False)
def test_long_campaign_of_any_bytes_leaves_the_port_serving(server: Served, said: bytes) -> None:
    at.throw(server.port, said, then=at.hear_out)
    at.still_serves(server.port)


def test_nothing_of_it_was_a_mistake_of_ours(server: Served) -> None:
    """This test is the last one, because it reads the server's log of all others."""
    said = server.log.read_text()
    assert "client_failed" not in said
    assert "Traceback" not in said


def test_atheris_target_names_its_prerequisites() -> None:
    if at_hand("atheris"):
        pytest.skip("atheris is installed: python -m tests.fuzz.port")
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.port"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "atheris is not installed" in done.stderr


def at_hand(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None
