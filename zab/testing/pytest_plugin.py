"""The pytest fixtures `zab_store` and `zab_ensemble`: stores in memory, for the tests of applications that use zab.

    async def test_application(zab_store, autojump_clock):          # with pytest-trio
        async with zab_store() as store, store.session() as session:
            ...

    def test_application(zab_ensemble):                             # without it
        async def main():
            async with zab_ensemble() as store:
                ...
        trio.run(main, clock=MockClock(autojump_threshold=0))

A fixture returns a function that opens stores, not an open store: pytest makes fixtures outside of Trio, and a store
belongs to the Trio loop of the test. pytest finds the plugin by itself if zab is installed. The plugin imports the
servers and the client only in tests that use a fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from typing import Unpack

    from zab.testing.memory_servers import MemoryStoreOptions
    from zab.testing.memory_store import MemoryStore, OpenMemoryStore


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("zab").addoption(
        "--zab-seed",
        type=int,
        metavar="N",
        help="seed of the stores of zab_store and zab_ensemble (default: a number that follows from the test's name)",
    )


@pytest.fixture
def zab_store(request: pytest.FixtureRequest) -> OpenMemoryStore:
    """Open a zab store of one server in memory: `async with zab_store() as store, store.session() as session`.

    The arguments are those of `zab.testing.open_memory_store`. Use it inside Trio, with any clock.
    """
    return _opener(request, 1)


@pytest.fixture
def zab_ensemble(request: pytest.FixtureRequest) -> OpenMemoryStore:
    """Open a zab store of three servers in memory, whose servers can be killed: `async with zab_ensemble() as store`.

    The arguments are those of `zab.testing.open_memory_store`. Use it inside Trio, with any clock.
    """
    return _opener(request, 3)


def _opener(request: pytest.FixtureRequest, servers_by_default: int) -> OpenMemoryStore:
    from zab.testing.memory_store import open_memory_store

    test: pytest.Item = request.node
    chosen: int | None = request.config.getoption("--zab-seed")
    seed_of_test = crc32(test.nodeid.encode()) if chosen is None else chosen
    test.add_report_section("setup", "zab", f"the stores of this test have the seed {seed_of_test} (see --zab-seed)")

    def open_store(
        servers: int = servers_by_default, *, seed: int | None = None, **options: Unpack[MemoryStoreOptions]
    ) -> AbstractAsyncContextManager[MemoryStore]:
        return open_memory_store(servers, seed=seed_of_test if seed is None else seed, **options)

    return _Opener(str(request.fixturename), open_store)


class _Opener:
    """The value of a fixture: a function that opens stores, and explains the use of the function as a store."""

    def __init__(self, fixture: str, open_store: OpenMemoryStore) -> None:
        self._fixture = fixture
        self._open_store = open_store

    def __call__(self, *args: Any, **options: Any) -> AbstractAsyncContextManager[MemoryStore]:
        return self._open_store(*args, **options)

    if not TYPE_CHECKING:  # a type checker finds these mistakes by itself

        async def __aenter__(self) -> None:
            raise TypeError(self._called)

        async def __aexit__(self, *_: object) -> None:
            """Do nothing: `__aenter__` raises."""

        def __getattr__(self, name: str) -> object:
            raise AttributeError(f"no attribute {name!r}: {self._called}")

    @property
    def _called(self) -> str:
        return f"{self._fixture} is a function: call it, `async with {self._fixture}() as store`"
