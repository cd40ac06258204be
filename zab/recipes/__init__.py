"""Recipes: locks, elections, queues and caches, built on nodes, sessions and watches.

    from zab.recipes import Lock

    async with Lock(session, "/locks/report") as held: ...

Each recipe works on a `zab.Session`, in the same process or over the network. It shares its nodes with kazoo's recipe
of the same name, if there is one. A recipe is loaded when its name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zab.recipes.barrier import Barrier, DoubleBarrier
    from zab.recipes.cache import Cached, Change, ChildrenCache, NodeCache, TreeCache
    from zab.recipes.counter import Counter
    from zab.recipes.election import Election
    from zab.recipes.holding import Held
    from zab.recipes.lock import Lock, ReadLock, WriteLock
    from zab.recipes.locking_queue import Entry, LockingQueue
    from zab.recipes.party import Party, ShallowParty
    from zab.recipes.queue import Queue
    from zab.recipes.recipe_errors import Contended, EntryInDoubt, Lost, Taken
    from zab.recipes.recipe_settings import RecipeSettings
    from zab.recipes.semaphore import Semaphore

__all__ = [
    # one holder, or a limited number
    "Lock",
    "ReadLock",
    "WriteLock",
    "Semaphore",
    "Election",
    "Held",
    # several participants
    "Barrier",
    "DoubleBarrier",
    "Party",
    "ShallowParty",
    # queues and counters
    "Queue",
    "LockingQueue",
    "Entry",
    "Counter",
    # copies in memory
    "NodeCache",
    "ChildrenCache",
    "TreeCache",
    "Cached",
    "Change",
    # settings and errors
    "RecipeSettings",
    "Lost",
    "Taken",
    "Contended",
    "EntryInDoubt",
]

_HOMES: Final = {
    "barrier": ("Barrier", "DoubleBarrier"),
    "cache": ("Cached", "Change", "ChildrenCache", "NodeCache", "TreeCache"),
    "counter": ("Counter",),
    "election": ("Election",),
    "recipe_errors": ("Contended", "EntryInDoubt", "Lost", "Taken"),
    "holding": ("Held",),
    "lock": ("Lock", "ReadLock", "WriteLock"),
    "locking_queue": ("Entry", "LockingQueue"),
    "party": ("Party", "ShallowParty"),
    "queue": ("Queue",),
    "semaphore": ("Semaphore",),
    "recipe_settings": ("RecipeSettings",),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module 'zab.recipes' has no attribute {name!r}")
        value: object = getattr(import_module(f"zab.recipes.{home}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
