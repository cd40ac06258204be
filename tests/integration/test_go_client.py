"""go-zookeeper, unmodified: a program that uses its API, with one server and across the loss of a leader."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import trio

from tests.integration.stores import stores
from tests.integration.test_java_clients import started

pytestmark = pytest.mark.slow

SOURCES = Path(__file__).parent / "go"


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built from what modules are here already: nothing is fetched."""
    if shutil.which("go") is None:
        pytest.skip("needs go, and there is none")
    made = tmp_path_factory.mktemp("go") / "tour"
    offline = {**os.environ, "GOPROXY": "off", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
    known = subprocess.run(
        ["go", "mod", "verify"], cwd=SOURCES, env=offline, capture_output=True, text=True, check=False
    )
    if known.returncode:
        pytest.skip(f"go-zookeeper is not in go's cache of modules; `go mod download` in {SOURCES.name}/ fetches it")
    subprocess.run(["go", "build", "-o", str(made), "."], cwd=SOURCES, env=offline, check=True, capture_output=True)
    return made


async def test_one_server(tour: Path, tmp_path: Path) -> None:
    async with stores(tmp_path) as running, started([str(tour), running.hosts()]) as program:
        assert await program.hear() == "standalone"
        assert await program.hear() == "change"
        await running.stop(1)
        await running.start(1)
        await program.go_on()
        assert await program.rest() == ["whole"]


async def test_three_servers_and_the_leader_goes(tour: Path, tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as running, started([str(tour), running.hosts()]) as program:
        assert await program.hear() == "follower follower leader"
        assert await program.hear() == "change"
        with trio.fail_after(120):
            await running.stop(await running.leader())
        await program.go_on()
        assert await program.rest() == ["whole"]
