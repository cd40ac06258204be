"""`zab migrate plan` leads one server of Apache ZooKeeper to zab and back, in an ensemble with two servers of zab."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests import forkserver
from tests.integration import apache
from tests.integration.mixed_ensemble import MixedEnsemble, check_equal, mixed_ensemble, wait_for, write
from tests.integration.processes import ROOT
from tests.integration.served import serve

pytestmark = [apache.needs_apache, pytest.mark.slow]

JAVA = 1


def plan(mixed: MixedEnsemble, *options: str) -> tuple[int, dict[str, Any]]:
    config = mixed.servers[JAVA].data.parent / "zoo.cfg"
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
