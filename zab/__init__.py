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

`zab.connect("host1:2181,host2:2181")` opens a `zab.Session` with servers of zab or of Apache ZooKeeper. `zab.recipes`
has locks, elections, queues and caches. With `server_id=` and `ensemble=`, `open_store` runs one server
of an ensemble.

Under the store is ZAB, an atomic broadcast that replicates any state machine:

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

Names are loaded when they are first used, so `import zab` is cheap: an application that only needs
`zab.Ensemble` for its configuration does not load the runtime.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zab.admin.admin_settings import AdminSettings
    from zab.client.client_settings import ClientSettings
    from zab.client.connection_failures import Unreachable
    from zab.client.dialing import ClientTls
    from zab.client.remote_session import connect
    from zab.core.ensemble import Ensemble, Role, Server
    from zab.core.errors import (
        ChangeLost,
        ConfigError,
        DamagedError,
        LeadersLost,
        LocalProtocolError,
        NewConfigNoQuorum,
        NotLeader,
        OutcomeUnknown,
        Overloaded,
        ReconfigInProgress,
        Refused,
        RemoteProtocolError,
        Stopped,
        StorageError,
        WrongVersion,
        ZabError,
    )
    from zab.core.messages import State
    from zab.core.ready import Settings
    from zab.core.zxid import ServerId, Zxid
    from zab.net.cannot_listen import CannotListen, PortTaken
    from zab.net.network import TlsConfig
    from zab.net.tls.key_stores import StoreFile
    from zab.net.tls.tls_settings import ClientAuth, TlsPortSettings
    from zab.runtime.member import Member, open_member
    from zab.runtime.store_server.audit import AuditSettings
    from zab.runtime.store_server.client_port_settings import ClientPortSettings
    from zab.runtime.store_server.open_store import open_store
    from zab.runtime.store_server.security_settings import Provider, SecuritySettings
    from zab.runtime.store_server.store_server import StoreServer
    from zab.service.health.status import RoleChange, Status
    from zab.service.limits import Limits
    from zab.service.replicated_machine import Machine, Passive, View
    from zab.service.zookeeper_peers import ZookeeperPeers
    from zab.session.acls import CREATOR_ACL, OPEN_ACL, READ_ONLY_ACL, Permission, digest_acl
    from zab.session.api import Session
    from zab.session.multi import Multi, MultiRead
    from zab.session.session_errors import (
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
    from zab.session.state import SessionState
    from zab.session.watch import Event, Watch, WatchEvent
    from zab.storage.storage import StorageSettings
    from zab.store.server_watches import WatchKind
    from zab.store.store_settings import StoreSettings
    from zab.store.znode import Stat

__all__ = [
    # state machines, and the members that replicate them
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
    # members and quorums
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
    "ClientPortSettings",
    "ClientSettings",
    "ClientTls",
    "AdminSettings",
    "TlsConfig",
    "ZookeeperPeers",
    # access to the client port
    "SecuritySettings",
    "Provider",
    "TlsPortSettings",
    "ClientAuth",
    "StoreFile",
    "AuditSettings",
    # errors of members and connections
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
    # errors of sessions and of their operations
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
    "zab.client.connection_failures": ("Unreachable",),
    "zab.client.remote_session": ("connect",),
    "zab.client.client_settings": ("ClientSettings",),
    "zab.core.ensemble": ("Ensemble", "Role", "Server"),
    "zab.core.errors": (
        "ChangeLost",
        "ConfigError",
        "DamagedError",
        "LeadersLost",
        "LocalProtocolError",
        "NewConfigNoQuorum",
        "NotLeader",
        "OutcomeUnknown",
        "Overloaded",
        "ReconfigInProgress",
        "Refused",
        "RemoteProtocolError",
        "Stopped",
        "StorageError",
        "WrongVersion",
        "ZabError",
    ),
    "zab.net.cannot_listen": ("CannotListen", "PortTaken"),
    "zab.core.messages": ("State",),
    "zab.core.ready": ("Settings",),
    "zab.core.zxid": ("ServerId", "Zxid"),
    "zab.admin.admin_settings": ("AdminSettings",),
    "zab.runtime.store_server.audit": ("AuditSettings",),
    "zab.runtime.store_server.open_store": ("open_store",),
    "zab.runtime.store_server.store_server": ("StoreServer",),
    "zab.runtime.store_server.security_settings": ("Provider", "SecuritySettings"),
    "zab.runtime.store_server.client_port_settings": ("ClientPortSettings",),
    "zab.service.limits": ("Limits",),
    "zab.service.replicated_machine": ("Machine", "Passive", "View"),
    "zab.service.zookeeper_peers": ("ZookeeperPeers",),
    "zab.runtime.member": ("Member", "open_member"),
    "zab.net.network": ("TlsConfig",),
    "zab.session.acls": ("CREATOR_ACL", "OPEN_ACL", "READ_ONLY_ACL", "Permission", "digest_acl"),
    "zab.session.api": ("Session",),
    "zab.session.session_errors": (
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
    "zab.session.multi": ("Multi", "MultiRead"),
    "zab.session.state": ("SessionState",),
    "zab.session.watch": ("Event", "Watch", "WatchEvent"),
    "zab.service.health.status": ("RoleChange", "Status"),
    "zab.net.tls.tls_settings": ("ClientAuth", "TlsPortSettings"),
    "zab.net.tls.key_stores": ("StoreFile",),
    "zab.storage.storage": ("StorageSettings",),
    "zab.store.znode": ("Stat",),
    "zab.store.store_settings": ("StoreSettings",),
    "zab.store.server_watches": ("WatchKind",),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # without this condition a type checker would accept every misspelled name

    def __getattr__(name: str) -> object:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module 'zab' has no attribute {name!r}")
        value: object = getattr(import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
