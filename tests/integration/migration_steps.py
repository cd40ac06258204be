"""The steps of a migration from servers of Apache ZooKeeper to ours and back, and a writer that they must not harm."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

from click.testing import CliRunner

from tests import forkserver
from tests.integration.mixed_ensemble import MixedEnsemble, wait_for
from tests.integration.raw_client import Client
from zab.cli.root import zab
from zab.store.acl import OPEN
from zab.store.operations import Op


def plan(mixed: MixedEnsemble, *options: str) -> tuple[int, dict[str, Any]]:
    config = mixed.servers[1].data.parent / "zoo.cfg"
    given = [f"--server={sid}=127.0.0.1:{each.port}" for sid, each in mixed.servers.items()]
    words = ["-m", "zab", "migrate", "plan", str(config), "--json", *given, *options]
    done = forkserver.run(words, capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.returncode, json.loads(done.stdout)


def settled(mixed: MixedEnsemble, *options: str) -> dict[str, Any]:
    """Return the first plan whose next step may be taken: followers need a moment to be in sync."""

    def found() -> dict[str, Any] | None:
        status, made = plan(mixed, *options)
        assert (status == 0) == made["may_continue"]
        return made if status == 0 else None

    made = wait_for(found)
    assert made is not None
    return made


class Load:
    """Creates nodes one after the other, and remembers which were acknowledged. It connects again after a loss."""

    def __init__(self, connect: Callable[[], Client]) -> None:
        self.acknowledged: list[str] = []
        self._connect = connect
        self._stopped = Event()
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _run(self) -> None:
        number, client = 0, None
        while not self._stopped.is_set():
            number += 1
            try:
                client = client or self._connect()
                if client.ask(Op.CREATE, f"/load-{number}", b"x" * (number % 50), OPEN, 0) == f"/load-{number}":
                    self.acknowledged.append(f"load-{number}")
            except (OSError, EOFError):
                client = None
            time.sleep(0.05)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def goes_on(self) -> None:
        """Wait until further writes are acknowledged."""
        before = len(self.acknowledged)
        wait_for(lambda: len(self.acknowledged) > before + 10)


def convert(*words: object) -> None:
    done = CliRunner().invoke(zab, [str(word) for word in words])
    assert done.exit_code == 0, done.output


def becomes_ours(mixed: MixedEnsemble, sid: int) -> None:
    mixed.stop(sid)
    convert("import", mixed.servers[sid].data, mixed.data(sid))
    mixed.start_ours(sid)


def becomes_theirs(mixed: MixedEnsemble, sid: int) -> None:
    mixed.stop_ours(sid)
    shutil.rmtree(mixed.servers[sid].data)
    convert("export", mixed.data(sid), mixed.servers[sid].data)
    mixed.start(sid)
