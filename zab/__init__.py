"""ZAB: a state machine of your own, replicated by atomic broadcast.

Names are loaded when they are first used. An application that only wants `zab.Ensemble` for its
configuration does not pay for the runtime, and `import zab` stays cheap wherever it stands.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zab.core.ensemble import Ensemble, Role, Server
    from zab.core.errors import (
        ConfigError,
        DamagedError,
        LocalProtocolError,
        NotLeader,
        Overloaded,
        RemoteProtocolError,
        StorageError,
        ZabError,
    )
    from zab.core.messages import State
    from zab.core.ready import Settings
    from zab.core.zxid import ServerId, Zxid

__all__ = [
    "Ensemble",
    "Role",
    "Server",
    "ServerId",
    "Settings",
    "State",
    "Zxid",
    "ZabError",
    "ConfigError",
    "DamagedError",
    "LocalProtocolError",
    "NotLeader",
    "Overloaded",
    "RemoteProtocolError",
    "StorageError",
]

_HOMES: Final = {
    "zab.core.ensemble": ("Ensemble", "Role", "Server"),
    "zab.core.errors": (
        "ConfigError",
        "DamagedError",
        "LocalProtocolError",
        "NotLeader",
        "Overloaded",
        "RemoteProtocolError",
        "StorageError",
        "ZabError",
    ),
    "zab.core.messages": ("State",),
    "zab.core.ready": ("Settings",),
    "zab.core.zxid": ("ServerId", "Zxid"),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # else a type checker would believe in every name that anybody misspells

    def __getattr__(name: str) -> object:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module 'zab' has no attribute {name!r}")
        value: object = getattr(import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
