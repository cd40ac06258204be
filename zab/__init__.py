"""A ZooKeeper in pure Python: a coordination store inside your Trio application, and the consensus under it.

    async def main():
        async with zab.open_store("store") as store, store.session() as session:
            await session.ensure_path("/app/workers")
            me = await session.create("/app/workers/w-", b"here", ephemeral=True, sequential=True)
            async with session.watch("/app/workers") as events:
                data, stat = await session.get(me)
                await session.delete(me)
                print(data, await anext(events))

    trio.run(main)

`zab.connect("host1:2181,host2:2181")` opens the same `zab.Session` at servers, ours or Apache ZooKeeper's;
`zab.recipes` has locks, elections, queues and caches. `open_store(..., server_id=, ensemble=)` is one of several.

Under the store is ZAB, atomic broadcast, for whoever has a state machine of their own:

    class Counter(zab.Passive):                       # a request is its own transaction
        value = 0

        def apply(self, zxid, txn):                   # everywhere, in one order, deterministic
            self.value += int(txn)
            return self.value

        def snapshot(self):
            return [str(self.value).encode()]

        def restore(self, chunks):
            self.value = int(b"".join(chunks))

    async def main():
        async with zab.open_member(Counter(), "data") as member:
            print(await member.submit(b"3"))          # 3: durable, and the same on every member

    trio.run(main)

Names are loaded when they are first used. An application that only wants `zab.Ensemble` for its
configuration does not pay for the runtime, and `import zab` stays cheap wherever it stands.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zab.client.dialing import ClientTls
    from zab.client.errors import Unreachable
    from zab.client.session import connect
    from zab.client.settings import ClientSettings
    from zab.core.ensemble import Ensemble, Role, Server
    from zab.core.errors import (
        ConfigError,
        DamagedError,
        LocalProtocolError,
        NewConfigNoQuorum,
        NotLeader,
        Overloaded,
        ReconfigInProgress,
        RemoteProtocolError,
        StorageError,
        WrongVersion,
        ZabError,
    )
    from zab.core.messages import State
    from zab.core.ready import Settings
    from zab.core.zxid import ServerId, Zxid
    from zab.runtime.admin.settings import AdminSettings
    from zab.runtime.coordination.audit import AuditSettings
    from zab.runtime.coordination.opening import open_store
    from zab.runtime.coordination.security import Provider, SecuritySettings
    from zab.runtime.coordination.server import StoreServer
    from zab.runtime.coordination.settings import DoorSettings
    from zab.runtime.errors import CannotListen, ChangeLost, LeadersLost, OutcomeUnknown, PortTaken, Refused, Stopped
    from zab.runtime.limits import Limits
    from zab.runtime.machine import Machine, Passive, View
    from zab.runtime.member import Member, open_member
    from zab.runtime.network import TlsConfig
    from zab.runtime.session.acls import CREATOR_ACL, OPEN_ACL, READ_ONLY_ACL, Permission, digest_acl
    from zab.runtime.session.api import Session
    from zab.runtime.session.errors import (
        AuthFailed,
        BadArguments,
        BadVersion,
        EphemeralOnLocalSession,
        EventsLost,
        InvalidAcl,
        NoAuth,
        NoChildrenForEphemerals,
        NodeExists,
        NoNode,
        NotEmpty,
        NotReadOnly,
        NoWatcher,
        QuotaExceeded,
        ReconfigDisabled,
        SessionClosed,
        SessionExpired,
        StoreError,
        Throttled,
        Unimplemented,
    )
    from zab.runtime.session.multi import Multi, MultiRead
    from zab.runtime.session.state import SessionState
    from zab.runtime.session.watch import Event, Watch, WatchEvent
    from zab.runtime.status import RoleChange, Status
    from zab.runtime.tls.settings import ClientAuth, TlsPortSettings
    from zab.runtime.tls.stores import StoreFile
    from zab.storage.storage import StorageSettings
    from zab.store.node import Stat
    from zab.store.store import StoreSettings
    from zab.store.watches import WatchKind

__all__ = [
    # a machine, and a member that replicates it
    "Machine",
    "Passive",
    "View",
    "open_member",
    "Member",
    "RoleChange",
    "Status",
    # the coordination store
    "open_store",
    "StoreServer",
    "connect",
    "Session",
    "SessionState",
    "Multi",
    "MultiRead",
    "Stat",
    "Watch",
    "WatchEvent",
    "WatchKind",
    "Permission",
    "OPEN_ACL",
    "READ_ONLY_ACL",
    "CREATOR_ACL",
    "digest_acl",
    "Event",
    # who takes part
    "Ensemble",
    "Server",
    "Role",
    "ServerId",
    "State",
    "Zxid",
    # settings
    "Settings",
    "Limits",
    "StorageSettings",
    "StoreSettings",
    "DoorSettings",
    "ClientSettings",
    "ClientTls",
    "AdminSettings",
    "TlsConfig",
    # who may come to the client port, and how
    "SecuritySettings",
    "Provider",
    "TlsPortSettings",
    "ClientAuth",
    "StoreFile",
    "AuditSettings",
    # what can go wrong
    "ZabError",
    "Refused",
    "LeadersLost",
    "OutcomeUnknown",
    "Stopped",
    "Overloaded",
    "NotLeader",
    "ConfigError",
    "ReconfigInProgress",
    "WrongVersion",
    "NewConfigNoQuorum",
    "ChangeLost",
    "CannotListen",
    "PortTaken",
    "StorageError",
    "DamagedError",
    "LocalProtocolError",
    "RemoteProtocolError",
    # what the store may answer
    "StoreError",
    "NoNode",
    "NodeExists",
    "NotEmpty",
    "BadVersion",
    "NoAuth",
    "InvalidAcl",
    "NoChildrenForEphemerals",
    "QuotaExceeded",
    "NotReadOnly",
    "EphemeralOnLocalSession",
    "NoWatcher",
    "BadArguments",
    "Unimplemented",
    "ReconfigDisabled",
    "Throttled",
    "AuthFailed",
    "SessionExpired",
    "SessionClosed",
    "EventsLost",
    "Unreachable",
]

_HOMES: Final = {
    "zab.client.dialing": ("ClientTls",),
    "zab.client.errors": ("Unreachable",),
    "zab.client.session": ("connect",),
    "zab.client.settings": ("ClientSettings",),
    "zab.core.ensemble": ("Ensemble", "Role", "Server"),
    "zab.core.errors": (
        "ConfigError",
        "DamagedError",
        "LocalProtocolError",
        "NewConfigNoQuorum",
        "NotLeader",
        "Overloaded",
        "ReconfigInProgress",
        "RemoteProtocolError",
        "StorageError",
        "WrongVersion",
        "ZabError",
    ),
    "zab.core.messages": ("State",),
    "zab.core.ready": ("Settings",),
    "zab.core.zxid": ("ServerId", "Zxid"),
    "zab.runtime.admin.settings": ("AdminSettings",),
    "zab.runtime.coordination.audit": ("AuditSettings",),
    "zab.runtime.coordination.opening": ("open_store",),
    "zab.runtime.coordination.server": ("StoreServer",),
    "zab.runtime.coordination.security": ("Provider", "SecuritySettings"),
    "zab.runtime.coordination.settings": ("DoorSettings",),
    "zab.runtime.errors": (
        "CannotListen",
        "ChangeLost",
        "LeadersLost",
        "OutcomeUnknown",
        "PortTaken",
        "Refused",
        "Stopped",
    ),
    "zab.runtime.limits": ("Limits",),
    "zab.runtime.machine": ("Machine", "Passive", "View"),
    "zab.runtime.member": ("Member", "open_member"),
    "zab.runtime.network": ("TlsConfig",),
    "zab.runtime.session.acls": ("CREATOR_ACL", "OPEN_ACL", "READ_ONLY_ACL", "Permission", "digest_acl"),
    "zab.runtime.session.api": ("Session",),
    "zab.runtime.session.errors": (
        "AuthFailed",
        "BadArguments",
        "BadVersion",
        "EphemeralOnLocalSession",
        "EventsLost",
        "InvalidAcl",
        "NoAuth",
        "NoChildrenForEphemerals",
        "NoNode",
        "NoWatcher",
        "NodeExists",
        "NotEmpty",
        "NotReadOnly",
        "QuotaExceeded",
        "ReconfigDisabled",
        "SessionClosed",
        "SessionExpired",
        "StoreError",
        "Throttled",
        "Unimplemented",
    ),
    "zab.runtime.session.multi": ("Multi", "MultiRead"),
    "zab.runtime.session.state": ("SessionState",),
    "zab.runtime.session.watch": ("Event", "Watch", "WatchEvent"),
    "zab.runtime.status": ("RoleChange", "Status"),
    "zab.runtime.tls.settings": ("ClientAuth", "TlsPortSettings"),
    "zab.runtime.tls.stores": ("StoreFile",),
    "zab.storage.storage": ("StorageSettings",),
    "zab.store.node": ("Stat",),
    "zab.store.store": ("StoreSettings",),
    "zab.store.watches": ("WatchKind",),
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
