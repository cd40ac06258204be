"""Open a store with all its parts, for as long as a block lasts."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, TypedDict, Unpack

import trio
from attrs import evolve

from zab.admin.admin_settings import AdminSettings
from zab.core.argument_names import check_names
from zab.core.ensemble import Ensemble
from zab.core.errors import ConfigError
from zab.core.ready import Settings
from zab.core.zxid import Zxid
from zab.host.clocks import check_clock_waits
from zab.net.network import LinkTls, Network
from zab.runtime.block_nursery import block_nursery, sole_error
from zab.runtime.environment import Environment
from zab.runtime.member import DEFAULT_LIMITS, Member
from zab.runtime.store_server.client_port import ClientPort, check_client_port
from zab.runtime.store_server.client_port_settings import DEFAULT_CLIENT_PORTS, ClientPortSettings
from zab.runtime.store_server.server_runtime import ServerRuntime
from zab.runtime.store_server.store_machine import StoreMachine
from zab.runtime.store_server.store_server import StoreServer
from zab.runtime.store_server.tls_acceptor import TlsAcceptor
from zab.service.config_node import check_request, text_of
from zab.service.forwarding.proposal_queue import txn_bytes_max_of
from zab.service.limits import Limits
from zab.service.zookeeper_peers import ZookeeperPeers
from zab.storage.disk import Disk
from zab.storage.storage import StorageSettings
from zab.store.operations import Fields
from zab.store.store_settings import DEFAULT_SETTINGS, StoreSettings

PORT_MAX: Final = 65_535
BESIDE_A_FRAME_BYTES = 64 << 10
"""The largest number of bytes that a server adds to a client's request to forward it: session and identities."""


class MemberOptions(TypedDict, total=False):
    """The arguments of `Member` except its machine, its path and its limits."""

    server_id: int | None
    ensemble: Ensemble | None
    name: str
    settings: Settings
    storage: StorageSettings
    tls: LinkTls | None
    listen: bool
    listen_host: str | None
    disk: Disk | None
    network: Network | None
    host: Environment
    admit_non_members: bool
    zookeeper: ZookeeperPeers | None


class StoreOptions(MemberOptions, total=False):
    store: StoreSettings
    client_ports: ClientPortSettings
    limits: Limits


def make_server(
    path: str | os.PathLike[str],
    *,
    store: StoreSettings = DEFAULT_SETTINGS,
    client_ports: ClientPortSettings = DEFAULT_CLIENT_PORTS,
    limits: Limits = DEFAULT_LIMITS,
    **options: Unpack[MemberOptions],
) -> ServerRuntime:
    check_names("a store", options, [*StoreOptions.__annotations__, *_PLACES])
    _check_kinds({"store": store, "client_ports": client_ports, "limits": limits, **options})
    access = client_ports.security.access(
        store.access, tls=client_ports.tls is not None, super_digest=client_ports.super_digest is not None
    )
    among_zookeepers = options.get("zookeeper") is not None

    def check_change(fields: Fields, zxid: int) -> bytes | None:
        new = check_request(fields, member.status(), client_ports)
        return text_of(evolve(new, version=Zxid(zxid))) if among_zookeepers else None

    machine = StoreMachine(
        evolve(store, access=access, checkpoints=store.checkpoints and not among_zookeepers),
        check_change,
        client_ports,
        txn_bytes_max_of(limits),
    )
    if among_zookeepers:
        machine.adopt_sessions()
    request_bytes = max(limits.request_bytes_max, client_ports.frame_bytes_max + BESIDE_A_FRAME_BYTES)
    member = Member(machine, path, limits=evolve(limits, request_bytes_max=request_bytes), **options)
    return ServerRuntime(machine, member, client_ports)


_KINDS: Final[Mapping[str, type[object]]] = {
    "store": StoreSettings,
    "client_ports": ClientPortSettings,
    "limits": Limits,
    "settings": Settings,
    "storage": StorageSettings,
}


_PLACES: Final = ("client_host", "client_port", "secure_client_port", "admin_port", "admin")
"""The keyword arguments of `open_store` that `StoreOptions` lacks."""


def _check_kinds(options: Mapping[str, object]) -> None:
    """Raise `TypeError` for settings of a wrong type: the five types of `_KINDS` are easily mistaken for each other."""
    for name, kind in _KINDS.items():
        value = options.get(name)
        if name in options and not isinstance(value, kind):
            right = next((each for each, of in _KINDS.items() if isinstance(value, of)), None)
            hint = "" if right is None else f"; that is for {right}="
            raise TypeError(f"{name}= takes zab.{kind.__name__}, not {type(value).__name__}{hint}")


async def run_server(
    server: ServerRuntime,
    client_host: str | None = "127.0.0.1",
    client_port: int | None = None,
    admin: Sequence[AdminSettings] = (),
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    *,
    secure_client_port: int | None = None,
    secure_client_host: str | None = None,
) -> None:
    """Run a store until cancelled, and raise its error if it fails. `task_status` is started once its ports are open.

    `secure_client_port` is a port for clients over TLS, with the settings in `client_ports.tls`; its host is
    `client_host` by default. Each element of `admin` describes a port for operators. These ports open first, so that
    operators can see why a store does not serve yet.
    """
    check_port("client_port", client_port)
    check_port("secure_client_port", secure_client_port)
    # Load the TLS keys before any port opens, so that a bad key store is reported before the member starts.
    secure, both = _tls_acceptors(server, secure_client_port)
    audit = server.audit
    try:
        for host, port in ((client_host, client_port), (secure_client_host or client_host, secure_client_port)):
            if port is not None:  # before the member has written anything
                await check_client_port(server, host, port)
        async with trio.open_nursery() as nursery:
            for settings in admin:
                port = await _open_admin_port(nursery, server, settings)
                if server.ports.admin is None:
                    server.ports.admin = port
            await nursery.start(server.member.run)
            nursery.start_soon(server.run)
            if client_port is not None:
                plain = ClientPort(server, client_host, client_port, both)
                server.ports.client = await nursery.start(partial(plain.run, moves=True))
            if secure_client_port is not None:
                host = secure_client_host or client_host
                port = await nursery.start(ClientPort(server, host, secure_client_port, secure).run)
                server.ports.secure_client = port
            if audit is not None:
                audit.own("serverStart")
            task_status.started()
    except BaseExceptionGroup as group:
        raise sole_error(group) from None
    finally:
        server.stop()
        if audit is not None:
            audit.own("serverStop", "invoked")
            audit.close()


async def _open_admin_port(nursery: trio.Nursery, server: ServerRuntime, settings: AdminSettings) -> int:
    """Open a port for operators. The modules that serve only such ports are imported only now."""
    from zab.admin.admin_port import AdminPort
    from zab.runtime.admin.store_site import StoreSite

    site = StoreSite(server, settings)
    port: int = await nursery.start(AdminPort(settings, site.answer, server.log, site.names).run)
    return port


def check_port(name: str, port: int | None) -> None:
    """Raise `TypeError` or `ConfigError` for a value that is no port. Some systems would use only its lower bits."""
    if port is None:
        return
    if isinstance(port, bool) or not isinstance(port, int):
        raise TypeError(f"{name}: a port must be a number, or None, not {type(port).__name__}")
    if not 0 <= port <= PORT_MAX:
        raise ConfigError(f"{name}: {port} is not a port: use 1 to {PORT_MAX}, 0 for any free port, None for none")


def _tls_acceptors(
    server: ServerRuntime, secure_client_port: int | None
) -> tuple[TlsAcceptor | None, TlsAcceptor | None]:
    """Return the TLS acceptors of the secure port, if there is one, and of the plain port if it serves both kinds."""
    tls = server.settings.tls
    if tls is None:
        if secure_client_port is not None:
            raise ConfigError("a secure client port needs a key: ClientPortSettings.tls, or ssl.keyStore.location")
        return None, None
    secure = None if secure_client_port is None else TlsAcceptor(server, tls)
    return secure, TlsAcceptor(server, tls, plain_too=True) if tls.unify else None


@asynccontextmanager
async def open_store(
    path: str | os.PathLike[str],
    *,
    client_host: str | None = "127.0.0.1",
    client_port: int | None = None,
    secure_client_port: int | None = None,
    admin_port: int | None = None,
    admin: AdminSettings | None = None,
    **options: Unpack[StoreOptions],
) -> AsyncIterator[StoreServer]:
    """Open a coordination store for as long as the block lasts, alone or as a member of an ensemble.

        path         the directory of its log and snapshots; no other server may use it
        client_host  the address of both client ports; None: all addresses of this machine
        client_port  port for ZooKeeper's clients; 0: any free one, see `client_port` of the store; None: no port
        secure_client_port  port for clients over TLS, with the settings in `client_ports.tls`; 0: any free one;
                     None: no port
        admin_port   port for operators, with a browser or Prometheus, see `AdminSettings`; 0: any free one, see
                     `admin_port` of the store; None: no port, unless `admin` is given
        admin        settings of that port
        store        settings of the store: `StoreSettings`
        client_ports limits and behaviour of its client ports: `ClientPortSettings`
        limits       limits of the member's queues and requests: `Limits`
        ...          and the other arguments of `Member`, like `server_id` and `ensemble`: see `zab.Member`

    The block begins when the ports are open; the store may not serve yet: see `StoreServer.readable`. When the store
    fails, the block is cancelled, and the store's error is raised.

    Raise `zab.LocalProtocolError` under a `trio.testing.MockClock` with `autojump_threshold=0`, whose time jumps ahead
    while the disk is busy, unless `disk`, `network` or `host` is replaced. Use `zab.testing` with such a clock.
    """
    if not {"disk", "network", "host"} & options.keys():  # otherwise a simulation
        check_clock_waits(
            "zab.open_store", "Use zab.testing.open_memory_store, or the fixture zab_store, with this clock"
        )
    if admin_port is not None:
        admin = evolve(admin or AdminSettings(), port=admin_port)
    server = make_server(path, **options)
    async with block_nursery() as nursery:
        ports = () if admin is None else (admin,)
        run = partial(run_server, secure_client_port=secure_client_port)
        await nursery.start(run, server, client_host, client_port, ports)
        yield StoreServer(server)
