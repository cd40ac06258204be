"""A test of `tests/unit` opens no connection, starts no process, and writes no file outside of a temporary folder.

The interpreter reports each of these to an audit hook, which refuses it. Trio wakes its loop through a pair of sockets
that is neither bound nor connected, so `trio.run` is allowed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Generator
from typing import Any, Final

import pytest

REFUSED: Final = frozenset(
    {
        "socket.bind", "socket.connect", "socket.getaddrinfo", "socket.sendto",
        "subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system",
    }
)  # fmt: skip
WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT
ELSEWHERE: Final = ("__pycache__", ".hypothesis", os.devnull)
"""Files that Python and Hypothesis write for themselves."""


class Guard:
    active = False
    """True while a test of this folder, or one of its fixtures, runs."""
    refused: str | None = None
    """The first refused event of the test. The test fails even if the code catches the error."""

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.active or (event != "open" and event not in REFUSED):
            return
        if event == "open":
            path, _, flags = arguments
            if not flags & WRITES or not isinstance(path, str | bytes) or _is_allowed(os.fsdecode(path)):
                return
        what = f"{event} {arguments!r}"
        self.refused = self.refused or what
        raise RuntimeError(f"a unit test opens no connection, starts no process, and writes only in tmp_path: {what}")


def _is_allowed(path: str) -> bool:
    """Return True for a path in a temporary folder, and for a name in a folder that the product has opened."""
    return not os.path.isabs(path) or path.startswith(tempfile.gettempdir()) or any(each in path for each in ELSEWHERE)


_guard: Final = Guard()
sys.addaudithook(_guard)


@pytest.fixture
def guard() -> Guard:
    """The guard, for its own tests: they clear `refused`, or they would fail."""
    return _guard


def _guarded() -> Generator[None, object, object]:
    _guard.active, _guard.refused = True, None
    try:
        result = yield
    finally:
        _guard.active = False
    if _guard.refused is not None:
        pytest.fail(f"a unit test tried what only other folders may: {_guard.refused}")
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _guarded())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _guarded())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _guarded())
