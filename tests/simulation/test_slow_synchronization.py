"""A synchronization that is slow and goes on is let go on; one that stalls ends after its time."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from harness.faults import LoseDisk, Script, Write
from harness.worlds.stack.members import World
from harness.worlds.stack.server import Life

LOST_MS = 1_500
LATE = 1
"""The server that comes back with an empty disk. Server 3 leads."""
STATE = tuple(Write(at, 5, 2_000) for at in range(300, 1_400, 50))
LATER = tuple(Write(at, 1, 100) for at in range(2_000, 9_000, 500))
RATE = 80_000
"""Bytes a second: the state of 340 kB takes 4 s, and a synchronization without progress is given up after 1 s."""


class Looked(World):
    """Notes when the late server serves, why it was dropped, and why it gave up itself."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.dropped: list[str] = []
        self.left_because: list[str] = []
        self.served_at: int | None = None
        self.push(LOST_MS * 1_000 + 250_000, self._look, None, None)

    def _look(self, _: object, __: object) -> None:
        server = self.servers[LATE]
        if server.up and server.node.serving:
            self.served_at = self.now_ms
        else:
            self.push(self.now + 10_000, self._look, None, None)

    def noted(self, server: Any, note: Any) -> None:
        if note.event == "learner_dropped":
            self.dropped.append(dict(note.fields)["why"])
        elif note.event == "role_over" and server.id == LATE:
            self.left_because.append(dict(note.fields)["why"])
        super().noted(server, note)


def looked(length_ms: int = 10_000) -> Looked:
    script = Script(7, length_ms=length_ms, ops=STATE + LATER, faults=(LoseDisk(LOST_MS, 200, LATE),))
    return Looked(script)


def test_snapshot_over_a_slow_link_arrives_at_the_first_attempt() -> None:
    world = looked()
    world.push(LOST_MS * 1_000, lambda *_: world.network.limit(3, LATE, RATE), None, None)
    outcome = world.run()
    assert outcome.valid, outcome.what
    assert world.served_at is not None
    assert LOST_MS + 4_000 < world.served_at < 8_000
    assert dict(outcome.counts)["sync snap"] == 1
    assert world.dropped == []


def test_snapshot_that_stalls_is_given_up_and_the_log_names_setting_and_rate() -> None:
    world = looked(8_000)
    world.push(LOST_MS * 1_000, lambda *_: world.network.limit(3, LATE, RATE), None, None)
    world.push((LOST_MS + 2_000) * 1_000, lambda *_: world.network.clog(3, LATE), None, None)
    outcome = world.run()
    assert outcome.valid, outcome.what
    assert world.left_because
    assert "in synchronization for 600 ms, the limit of init_limit * tick_ms; " in world.left_because[0]
    assert "bytes were received in" in world.left_because[0]
    assert "bytes/s" in world.left_because[0]


@pytest.mark.parametrize("writing", [False, True])
def test_server_whose_machine_is_long_to_restore_is_not_dropped(monkeypatch: pytest.MonkeyPatch, writing: bool) -> None:
    in_thread = Life._in_thread  # restoring takes 4 s: four times what a silent learner is given

    async def slowly(self: Life, job: Any, *, limiter: Any = None) -> Any:
        if getattr(getattr(job, "func", None), "__name__", "") == "restore":
            await trio.sleep(4)
        return await in_thread(self, job, limiter=limiter)

    monkeypatch.setattr(Life, "_in_thread", slowly)
    script = Script(7, length_ms=10_000, ops=STATE + LATER * writing, faults=(LoseDisk(LOST_MS, 200, LATE),))
    world = Looked(script)
    outcome = world.run()
    assert outcome.valid, outcome.what
    assert world.served_at is not None
    assert LOST_MS + 4_000 < world.served_at < 7_000
    assert dict(outcome.counts)["sync snap"] == 1
    assert world.dropped == []
