"""docs/walks.md against the code: trace a set through a follower, compare its functions and its files with the page."""

from __future__ import annotations

import inspect
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import pack, unpack
from types import CodeType, FrameType, FunctionType

import pytest
import trio
import trio.testing
from trio._core import _thread_cache

import zab
from bench.ports import free_ports
from tests.project.test_docs import resolve

ROOT = Path(zab.__file__).parents[1]
PAGE = (ROOT / "docs" / "walks.md").read_text()
SETS = 24


class Trace:
    """The Python functions that ran while it was on, in all threads."""

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()
        self.on = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if self.on and event == "call":
            self.codes.add(frame.f_code)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Trace this thread and new ones. Threads that Trio keeps from earlier tests would not be traced."""
        before, kept = sys.getprofile(), _thread_cache.THREAD_CACHE
        _thread_cache.THREAD_CACHE = _thread_cache.ThreadCache()
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(before)
            threading.setprofile(before)
            _thread_cache.THREAD_CACHE = kept


def file_of(code: CodeType) -> str | None:
    """Return the file of zab that defines the function, None if it belongs to another package."""
    generated = re.fullmatch(r"<attrs generated \w+ (zab\.[\w.]+)\.\w+>", code.co_filename)
    path = ROOT / (generated[1].replace(".", "/") + ".py") if generated else Path(code.co_filename)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT / "zab") else None


def buffer(data: bytes) -> bytes:
    return pack(">i", len(data)) + data


async def ask(stream: trio.SocketStream, request: bytes) -> bytes:
    await stream.send_all(buffer(request))
    received = b""
    while len(received) < 4 or len(received) < 4 + unpack(">i", received[:4])[0]:
        received += await stream.receive_some()
    return received[4:]


async def trace_sets(folder: Path, trace: Trace) -> list[set[CodeType]]:
    """Run three servers in this process, and return the functions of each of some sets at a follower."""
    ports = free_ports(6)
    ensemble = zab.Ensemble.parse(
        "\n".join(f"server.{sid}=127.0.0.1:{ports[2 * sid - 2]}:{ports[2 * sid - 1]}" for sid in (1, 2, 3))
    )
    stores: dict[int, zab.StoreServer] = {}

    async def serve(sid: int, task_status: trio.TaskStatus[None]) -> None:
        async with zab.open_store(folder / str(sid), server_id=sid, ensemble=ensemble, client_port=0) as store:
            stores[sid] = store
            task_status.started()
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as starting:
            for sid in (1, 2, 3):
                starting.start_soon(nursery.start, serve, sid)
        roles = {sid: await store.member.wait_serving() for sid, store in stores.items()}
        follower = stores[min(sid for sid, role in roles.items() if role.leader != sid)]
        assert follower.client_port is not None
        # The client's side is bytes made by hand, so that no code of zab's own client is in the trace.
        stream = await trio.open_tcp_stream("127.0.0.1", follower.client_port)
        await ask(stream, pack(">iqiq", 0, 0, 30_000, 0) + buffer(bytes(16)))
        everything_to_anyone = pack(">ii", 1, 31) + buffer(b"world") + buffer(b"anyone")
        await ask(stream, pack(">ii", 1, 1) + buffer(b"/a") + buffer(b"") + everything_to_anyone + pack(">i", 0))
        traced = []
        for xid in range(2, 2 + SETS):
            trace.codes, trace.on = set(), True
            reply = await ask(stream, pack(">ii", xid, 5) + buffer(b"/a") + buffer(b"data") + pack(">i", -1))
            await trio.testing.wait_all_tasks_blocked(0.05)  # until the slowest server has applied the set
            trace.on = False
            assert unpack(">iqi", reply[:16])[::2] == (xid, 0)
            traced.append(trace.codes)
        await stream.aclose()
        nursery.cancel_scope.cancel()
    return traced


def test_walk_of_a_set_names_functions_that_run_and_counts_their_files(tmp_path: Path) -> None:
    trace = Trace()
    with trace.installed():
        traced = trio.run(trace_sets, tmp_path, trace)
    ran = set.union(*traced)
    # Background work, such as pings and session reports, runs beside some of the sets, hardly ever beside all of them.
    always = set.intersection(*traced)

    section = PAGE.partition("\n## A set through a follower\n")[2].partition("\n## ")[0]
    named = {name: resolve(name) for name in re.findall(r"`(zab\.[\w.]+\.\w+)`", section)}
    functions = {name: code for name, value in named.items() if (code := getattr(value, "__code__", None))}
    assert len(functions) > 20
    assert [name for name, code in functions.items() if code not in ran] == []

    files = {file for code in always if (file := file_of(code)) is not None}
    walked = {inspect.getsourcefile(value) for value in named.values() if isinstance(value, type | FunctionType)}
    stated = re.search(r"name (\d+) files.*?run code of (\d+) files", section, re.DOTALL)
    assert stated is not None
    # A module more or less is no reason to touch the page.
    assert len(walked) == pytest.approx(int(stated[1]), rel=0.1), str(walked)
    assert len(files) == pytest.approx(int(stated[2]), rel=0.1), "\n".join(sorted(files))
