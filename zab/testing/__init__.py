"""A store in memory, for the tests of applications that use zab.

    from zab.testing import open_memory_store

    async def test_application() -> None:
        async with open_memory_store(servers=3) as store, store.session() as session:
            ...                                             # run the application with this session
            await store.kill(await store.wait_leader())     # then inject a fault

The servers, the client and the sessions are the real ones. Only the disk and the network are in memory: there are no
threads, files and sockets. So the store runs on any clock of Trio. Under a `trio.testing.MockClock` with
`autojump_threshold=0`, a timeout costs no real time.

pytest finds the fixtures `zab_store` and `zab_ensemble` by itself: see `zab.testing.pytest_plugin`. Names are loaded
when they are first used, so the plugin costs little in tests that do not use it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zab.testing.memory_store import MemoryStore, OpenMemoryStore, open_memory_store

__all__ = ["open_memory_store", "MemoryStore", "OpenMemoryStore"]


if not TYPE_CHECKING:  # without this condition a type checker would accept every misspelled name

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'zab.testing' has no attribute {name!r}")
        value: object = getattr(import_module("zab.testing.memory_store"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
