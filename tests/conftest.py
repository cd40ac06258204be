"""What every test stands on: searches that repeat themselves, and async tests that are run by Trio."""

from __future__ import annotations

import gc
import inspect
import os
from functools import partial

import pytest
import trio
from hypothesis import HealthCheck, settings

# A check that fails on one run and not on the next teaches nobody. Who wants fresh examples says so:
# HYPOTHESIS_PROFILE=search pytest tests/unit
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", deadline=None, max_examples=5_000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

ASYNC_TEST_SECONDS_MAX = 600
"""No test takes this long, on whatever machine. One that does is stuck, and would otherwise keep the run with it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever asks real processes on a real clock may have met a machine that stood still: it is asked a second time.

    What failed first is not hidden: `pytest_terminal_summary` shows it, and it is somebody's bug.
    """
    for item in items:
        if "integration" in item.path.parts:
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    failed_first = terminalreporter.stats.get("rerun", [])
    if failed_first:
        terminalreporter.section("failed, and were asked a second time", sep="=", yellow=True)
    for report in failed_first:
        terminalreporter.section(report.nodeid, sep="_", yellow=True)
        terminalreporter.line(report.longreprtext)


def pytest_collection_finish() -> None:
    """What is there before the first test stays to the end, and no round of the collector has to walk it again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """An `async def` test is run by Trio, on the real clock. For a virtual clock, call `trio.run` in a plain test."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}

    async def bounded() -> None:
        with trio.fail_after(ASYNC_TEST_SECONDS_MAX):
            await test(**arguments)

    trio.run(partial(bounded))
    return True
