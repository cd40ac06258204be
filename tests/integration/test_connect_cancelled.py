"""Whoever gives up while a session, a store or a member is opened gets away at once.

In a process of its own: what hangs behind a shield would take the test with it, and its deadline too.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 240

BEGIN = """
import sys, trio, zab

class Counter(zab.Passive):
    def apply(self, zxid, txn): ...
    def snapshot(self): return []
    def restore(self, chunks): ...

async def given_up(opening, seconds):
    with trio.move_on_after(seconds) as patience:
        async with opening:
            if seconds == 0:
                await trio.sleep_forever()
    assert patience.cancelled_caught or seconds
"""

PROGRAMS = {
    "nobody there": """
async def main(path):
    for milliseconds in (0, 1, 2, 3, 5, 10, 20, 50):
        await given_up(zab.connect("127.0.0.1:1", wait_ms=None), milliseconds / 1000)
""",
    "a server": """
async def main(path):
    async with zab.open_store(path, client_port=0) as store:
        for milliseconds in (0, 1, 2, 3, 5, 10, 20, 50):
            await given_up(zab.connect(f"127.0.0.1:{store.client_port}", wait_ms=None), milliseconds / 1000)
""",
    "somebody who accepts and says nothing": """
async def main(path):
    async with trio.open_nursery() as nursery:
        async def silent(stream):
            await trio.sleep_forever()
        listener = (await nursery.start(trio.serve_tcp, silent, 0))[0]
        port = listener.socket.getsockname()[1]
        for milliseconds in (0, 1, 3, 10):
            await given_up(zab.connect(f"127.0.0.1:{port}", wait_ms=None), milliseconds / 1000)
        nursery.cancel_scope.cancel()
""",
    "a session in this process": """
async def main(path):
    async with zab.open_store(path) as store:
        for milliseconds in (0, 1, 3, 10):
            await given_up(store.session(), milliseconds / 1000)
""",
    "a store": """
async def main(path):
    for milliseconds in (0, 1, 3, 10):
        await given_up(zab.open_store(path, client_port=0), milliseconds / 1000)
""",
    "a member": """
async def main(path):
    for milliseconds in (0, 1, 3, 10):
        await given_up(zab.open_member(Counter(), path), milliseconds / 1000)
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_giving_up(name: str, tmp_path: Path) -> None:
    program = f"{BEGIN}{PROGRAMS[name]}\ntrio.run(main, sys.argv[1])"
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "d")], cwd=ROOT, timeout=SECONDS_MAX, check=True)
