"""A process without free descriptors: its logs continue, and it does not report a failed disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio

import zab

LOGS = """
import errno, os, resource, sys
from replica.core.partitions.log_config import LogConfig
from replica.storage.log_manager import LogManager
from tests.unit.replica.storage.logs import NOW, batch

logs = LogManager.open([sys.argv[1]], lambda topic: LogConfig(segment_bytes=2_000))
logs.load(1, "c")
logs.get_or_create(("t", 0)).append_as_leader(batch(b"a"), 0, NOW)
resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
taken = []
def take_all():
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        assert error.errno == errno.EMFILE
take_all()
for number in range(1, 30):
    logs.get_or_create(("t", number)).append_as_leader(batch(b"b" * 600, b"c" * 600), 0, NOW)
    logs.get_or_create(("t", 0)).append_as_leader(batch(b"d" * 600), 0, NOW)
    take_all()
for log in logs.logs.values():
    log.flush()
logs.checkpoint()
assert logs.failures() == []
assert logs.logs["t", 0].end_offset == 30
while taken:
    os.close(taken.pop())
assert not logs.directories[0].files.scarce
logs.close(1)
"""


def test_logs_go_on_where_others_have_taken_every_descriptor(tmp_path: Path) -> None:
    """New logs, new segments, flushes and checkpoints, while another task takes each freed descriptor at once."""
    ended = subprocess.run(
        [sys.executable, "-c", LOGS, str(tmp_path / "logs")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


LIMITS = """
import resource
from zab.host.process_tuning import raise_open_files
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 128))
assert raise_open_files() == 128
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (128, 128)
"""


def test_descriptor_limit_is_raised_to_the_maximum() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LIMITS],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


async def test_a_store_keeps_some_for_its_members_and_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with trio.fail_after(120):
        async with zab.open_store(tmp_path, client_port=0) as store:
            with monkeypatch.context() as patched:
                patched.setattr("zab.runtime.store_server.client_port.open_files_limit", lambda: 0)
                stream = await trio.open_tcp_stream("127.0.0.1", store.client_port or 0)
                async with stream:
                    assert await stream.receive_some() == b""
            assert store._server.clients.counts.connection_rejected == 1
            stream = await trio.open_tcp_stream("127.0.0.1", store.client_port or 0)
            async with stream:
                await stream.send_all(b"ruok")
                assert await stream.receive_some() == b"imok"
