"""`zab migrate plan` leads one server of Apache ZooKeeper to zab and back, in an ensemble with two servers of zab."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.integration import apache
from tests.integration.migration_steps import plan, settled
from tests.integration.mixed_ensemble import check_equal, mixed_ensemble, write
from tests.integration.processes import ROOT
from tests.integration.served import serve

pytestmark = [apache.needs_apache, pytest.mark.slow]

JAVA = 1


def software(made: dict[str, Any]) -> dict[int, str]:
    return {each["server"]: each["software"] for each in made["servers"]}


class Shell:
    """Runs command lines of a plan as they are printed, with a program `zab` in the path."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        program = folder / "zab"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m zab "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self._environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}

    def run(self, part: dict[str, Any]) -> None:
        """Run all lines of a part except those that start or stop a server."""
        lines = [each for each in part["commands"] if not each.startswith(("zab serve /", "bin/zkServer.sh", "kill "))]
        script = "\n".join(lines).removesuffix("&&")
        subprocess.run(["sh", "-ec", script], env=self._environment, check=True, capture_output=True)


def test_printed_steps_lead_to_zab_and_back(tmp_path: Path) -> None:
    with mixed_ensemble(tmp_path) as mixed, ThreadPoolExecutor() as pool:
        starting = pool.submit(mixed.start, JAVA)  # it serves once a second server runs
        mixed.start_ours(2)
        starting.result()
        mixed.start_ours(3)
        write(mixed, 2, "/before")
        shell, data = Shell(tmp_path / "bin"), mixed.servers[JAVA].data

        made = settled(mixed)
        assert {sid: name.split()[0] for sid, name in software(made).items()} == {1: "ZooKeeper", 2: "zab", 3: "zab"}
        assert {each["digest_mismatches"] for each in made["servers"]} == {0}
        step = made["next"]
        assert step["server"] == JAVA
        prepare, _, take_over = step["parts"]
        shell.run(prepare)

        mixed.stop(JAVA)
        status, stopped = plan(mixed)
        assert (status, stopped["next"]) == (1, None)
        assert stopped["begun"]["parts"] == [take_over]
        shell.run(take_over)
        with serve(data.parent / "zab.cfg") as ours:
            assert "follows" in ours.ready()
            done = settled(mixed)
            assert done["done"]
            assert {name.split()[0] for name in software(done).values()} == {"zab"}
            write(mixed, JAVA, "/zab")

            back = settled(mixed, "--back")["next"]
            assert back["server"] == JAVA, "a follower comes before the leader"
            ours.stop()
        shell.run(back["parts"][-1])
        mixed.start(JAVA)
        write(mixed, JAVA, "/back")
        made = settled(mixed, "--back")
        assert software(made)[JAVA].startswith("ZooKeeper")
        assert made["next"]["server"] != JAVA
        check_equal(mixed)
