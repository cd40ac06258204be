"""What every test stands on: searches that repeat themselves, and async tests that are run by Trio."""

from __future__ import annotations

import gc
import inspect
import os
from functools import partial
from typing import Final

import pytest
import trio
from hypothesis import HealthCheck, settings

from tests.distribution import distribute

# A check that fails on one run and not on the next teaches nobody. Who wants fresh examples says so:
# HYPOTHESIS_PROFILE=search pytest tests/unit
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", deadline=None, max_examples=5_000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

ASYNC_TEST_SECONDS_MAX = 600
"""No test takes this long, on whatever machine. One that does is stuck, and would otherwise keep the run with it."""


QUARANTINE: Final[dict[str, str]] = {}
"""Tests that fail by chance for a reason that this project cannot cure, such as a bug in a client of others.

Each key is a node id without parameters, each value the reason. A quarantined test runs and is reported as xfailed or
xpassed. Every other test runs once and must pass: `pyproject.toml` blocks pytest-rerunfailures even if it is installed.
"""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        items[:] = distribute(items, workers)
    for item in items:
        reason = QUARANTINE.get(item.nodeid.partition("[")[0])
        if reason is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=False))


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
