"""The pytest plugin: its fixtures with pytest-trio and without it, and what it costs in tests that do not use it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from tests.project.test_docs import FENCE

ROOT: Final = Path(__file__).parents[3]
PLUGIN: Final = "zab.testing.pytest_plugin"

pytest_plugins = ["pytester"]

WITH_PYTEST_TRIO: Final = """
    import pytest
    import trio
    import zab
    from zab.testing import MemoryStore, OpenMemoryStore


    @pytest.fixture
    async def store(zab_ensemble: OpenMemoryStore):
        async with zab_ensemble() as store:
            yield store


    @pytest.mark.trio
    async def test_fixture_of_the_tests(store: MemoryStore, autojump_clock) -> None:
        async with store.session() as session:
            await session.create("/a")
            await store.kill(await store.wait_leader())
            await trio.sleep(60)
            assert await session.exists("/a")


    @pytest.mark.trio
    async def test_two_stores(zab_store, zab_ensemble, autojump_clock) -> None:
        async with zab_store() as one, zab_ensemble() as three, zab_ensemble(servers=2) as two:
            assert [store.hosts.count(":") for store in (one, three, two)] == [1, 3, 2]


    @pytest.mark.trio
    async def test_real_time(zab_store: OpenMemoryStore) -> None:
        settings = zab.ClientPortSettings(session_ms_min=7)
        async with zab_store(client_ports=settings) as store, store.session(7) as session:
            assert session.timeout_ms == 7
"""

UNCALLED: Final = """
    import pytest
    import trio


    @pytest.mark.parametrize("fixture", ["zab_store", "zab_ensemble"])
    def test_fixture_that_is_not_called(fixture, request) -> None:
        async def main() -> None:
            async with request.getfixturevalue(fixture):
                raise AssertionError

        with pytest.raises(TypeError, match=rf"{fixture} is a function: .* `async with {fixture}\\(\\) as store`"):
            trio.run(main)


    def test_attribute_of_a_fixture(zab_store) -> None:
        with pytest.raises(AttributeError, match="no attribute 'session': zab_store is a function: call it"):
            zab_store.session()
"""

WITHOUT: Final = """
    import trio
    from trio.testing import MockClock

    def test_plain(zab_store) -> None:
        async def main() -> None:
            async with zab_store() as store, store.session() as session:
                await session.create("/a")
                await store.expire(session)

        trio.run(main)
        trio.run(main, clock=MockClock(autojump_threshold=0))
"""

MISUSED: Final = """
    import asyncio

    def test_asyncio(zab_store) -> None:
        async def main() -> None:
            async with zab_store():
                pass

        asyncio.run(main())

    def test_not_opened(zab_store) -> None:
        zab_store().session()
"""

SEEDS: Final = """
    import pytest

    @pytest.mark.parametrize("number", [1, 2])
    def test_fails(zab_store, number: int) -> None:
        assert False
"""


@pytest.fixture(autouse=True)
def only_named_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of pytest in these tests load the plugins that they name, whatever is installed here."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


def run(pytester: pytest.Pytester, test: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test)
    return pytester.runpytest_inprocess("-p", PLUGIN, *options)


def test_fixtures_work_with_pytest_trio(pytester: pytest.Pytester) -> None:
    assert find_spec("pytest_trio"), "the extra `dev` includes pytest-trio"
    pytester.makepyfile(WITH_PYTEST_TRIO)
    # In a process of its own, because pytest-trio changes Trio's scheduler.
    pytester.runpytest_subprocess("-W", "error", "-p", PLUGIN, "-p", "pytest_trio.plugin").assert_outcomes(passed=3)


def test_fixtures_work_without_pytest_trio(pytester: pytest.Pytester) -> None:
    run(pytester, WITHOUT).assert_outcomes(passed=1)


def test_fixture_that_is_not_called_says_what_to_do(pytester: pytest.Pytester) -> None:
    run(pytester, UNCALLED).assert_outcomes(passed=3)


def test_misused_fixture_says_what_to_do(pytester: pytest.Pytester) -> None:
    result = run(pytester, MISUSED)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "*LocalProtocolError: open_memory_store needs Trio*mark the async test with pytest.mark.trio of *",
            "*AttributeError: this memory store is not open yet*write `async with ... as store:`, then `store.session`",
        ]
    )


def test_failed_test_shows_its_seed(pytester: pytest.Pytester) -> None:
    def seeds(*options: str) -> list[str]:
        lines = run(pytester, SEEDS, *options).outlines
        return [line for line in lines if line.startswith("the stores of this test have the seed ")]

    first, second = shown = seeds()
    assert first != second
    assert seeds() == shown
    assert seeds("--zab-seed", "7") == ["the stores of this test have the seed 7 (see --zab-seed)"] * 2


def test_fixtures_are_documented(pytester: pytest.Pytester) -> None:
    run(pytester, WITHOUT, "--fixtures").stdout.fnmatch_lines(
        [
            "zab_store -- *",
            "*Open a zab store of one server in memory: *",
            "zab_ensemble -- *",
            "*Open a zab store of three servers in memory, *",
        ]
    )


def test_pytest_finds_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"]["zab"] == PLUGIN
    assert import_module(PLUGIN).zab_store


def test_plugin_loads_no_more_of_zab_than_its_names() -> None:
    script = (
        f"import pytest, sys, importlib; before = set(sys.modules); import {PLUGIN}; print(*set(sys.modules) - before)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == {"zab", "zab.testing", PLUGIN}


def test_examples_of_the_docs_pass_under_pytest(pytester: pytest.Pytester) -> None:
    """`tests/project/test_docs.py` runs the page as a program, which only defines its tests."""
    blocks = [FENCE.findall((ROOT / page).read_text()) for page in ("docs/howto/test-your-application.md", "README.md")]
    how_to, readme = ([code for language, code in found if language == "python"] for found in blocks)
    (example,) = [code for code in readme if "zab_store" in code]
    pytester.makepyfile("\n".join([*how_to, "from zab.recipes import Lock", example]))
    result = pytester.runpytest_subprocess("-W", "error", "-p", PLUGIN, "-p", "pytest_trio.plugin")
    result.assert_outcomes(passed=6)
