"""Real brokers and a real store: the controller is killed during each kind of work."""

from __future__ import annotations

from pathlib import Path

from bench.controller import campaign
from harness.worlds.processes.controllers.kill_rounds import DEATHS


def test_unfinished_work_is_finished_by_the_next_controller(tmp_path: Path) -> None:
    assert campaign.run(len(DEATHS), 3, tmp_path)
