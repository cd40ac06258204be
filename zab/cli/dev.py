"""`zab dev`: an ensemble in one process, with real sockets, files and fsyncs."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NoReturn

import click
import trio
from attrs import frozen

from zab.admin.admin_settings import AdminSettings
from zab.cli.console_options import console_settings
from zab.cli.kit.failures import Misused, run_in_trio
from zab.cli.kit.log_options import format_option, level_option, log_to_stderr
from zab.cli.kit.signals import stop_on_signal
from zab.cli.kit.standard_streams import announce
from zab.client.remote_session import connect
from zab.console.admin_reports import AdminUrl
from zab.console.console_gate import ConsoleGate
from zab.console.console_site import run_console
from zab.console.store_part import StorePart
from zab.core.ensemble import Ensemble, Server
from zab.core.ready import Settings
from zab.core.zxid import ServerId
from zab.host.process_tuning import raise_open_files, tune_collector
from zab.host.watchdog import LoopMonitor
from zab.net.loop_wait import claim_this_loop
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.runtime.store_server.open_store import make_server, run_server
from zab.runtime.store_server.server_runtime import ServerRuntime
from zab.store.store_settings import StoreSettings
from zab.wire.client.client_frames import FOUR_LETTER_WORDS

HOST = "127.0.0.1"
QUORUM_OFFSET = 707
ELECTION_OFFSET = 1707
ADMIN_OFFSET = 5899
CONSOLE_OFFSET = 5909
"""These four offsets are the distances from client port 2181 to the usual ports 2888, 3888, 8080 and 8090."""
HOLDS = "store"
SERVERS_MAX = 9
PORT_BASE_MIN, PORT_BASE_MAX = 1024, 59_000
_BROKERS: Final = "replica"


@click.command()
@click.option(
    "--servers",
    type=click.IntRange(1, SERVERS_MAX),
    help="The number of servers.  [default: 3, or as in --data]",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("data"),
    show_default=True,
    help="The directory of all logs and snapshots. The next start uses them.",
)
@click.option(
    "--port-base",
    type=click.IntRange(PORT_BASE_MIN, PORT_BASE_MAX),
    help="The client port of server 1; each further server has the next port. The quorum port is 707 higher, the "
    "election port 1707, and the admin port 5899, or any free one if that is taken. The web console's port is 5909 "
    "higher than the client port of server 1, or any free one.  [default: 2181, with 2888, 3888, 8080 and 8090; or as "
    "in --data]",
)
@click.option(
    "--brokers",
    type=click.IntRange(0, SERVERS_MAX),
    default=0,
    show_default=True,
    help="Also run this many Kafka brokers, at port 9092 and above, as `zab-broker dev` does.",
)
@click.option(
    "--tick-ms",
    type=click.IntRange(10),
    default=Settings().tick_ms,
    show_default=True,
    help="The unit of timeouts, in ms: a leader pings every half tick, and a silent peer is dropped after five ticks.",
)
@level_option("warning")
@format_option
def dev(
    servers: int | None,
    data: Path,
    port_base: int | None,
    brokers: int,
    tick_ms: int,
    log_level: str,
    log_format: str,
) -> None:
    """Run an ensemble of the coordination store on loopback, in this process.

    Each server has its own sockets and files, and takes part in real elections. Any ZooKeeper client can connect to
    each of them. When all are ready, the command prints examples to try. Ctrl-C stops the servers, with exit status
    0; the data remains.

    \b
    zab dev                              three servers, clients at 2181, 2182 and 2183
    zab dev --servers 1 --data /tmp/d    one server, with its data in /tmp/d
    zab dev --brokers 3                  also three Kafka brokers, at 9092, 9093 and 9094
    """
    if brokers:
        given: dict[str, object] = {
            "servers": servers,
            "store-port-base": port_base,
            "tick-ms": tick_ms,
            "log-level": log_level,
        }
        given |= {"brokers": brokers, "data": data, "log-format": log_format}
        become_brokers(given)
    layout = layout_of(data, servers, port_base)
    log_to_stderr(log_level, log_format)
    raise_open_files()
    tune_collector()
    run_in_trio(run_dev, data, layout, Settings(tick_ms=tick_ms))


def become_brokers(options: Mapping[str, object]) -> NoReturn:
    """Replace this process by `zab-broker dev`: this package must not import the broker, only run its command."""
    if find_spec(_BROKERS) is None:
        raise Misused("--brokers: the broker is not installed: pip install 'zab[broker]'")
    beside = Path(sys.argv[0]).with_name("zab-broker")
    command = [str(beside)] if beside.exists() else [sys.executable, "-m", f"{_BROKERS}.cli"]
    given = [f"--{name}={value}" for name, value in options.items() if value is not None]
    os.execv(command[0], [*command, "dev", *given])


@frozen
class Layout:
    """The number of servers and their ports, stored beside the data, because the stored membership has these ports."""

    servers: int
    port_base: int

    def client_port(self, sid: int) -> int:
        return self.port_base + sid - 1

    @property
    def hosts(self) -> str:
        """The connection string for clients."""
        return ",".join(f"{HOST}:{self.client_port(sid)}" for sid in range(1, self.servers + 1))

    def ensemble(self) -> Ensemble:
        return Ensemble(
            tuple(
                Server(
                    ServerId(sid),
                    HOST,
                    self.client_port(sid) + QUORUM_OFFSET,
                    self.client_port(sid) + ELECTION_OFFSET,
                    client_host=HOST,
                    client_port=self.client_port(sid),
                )
                for sid in range(1, self.servers + 1)
            )
        )


def layout_of(data: Path, servers: int | None, port_base: int | None) -> Layout:
    """Return the stored layout. If none is stored yet, store and return the requested one.

    Raise `Misused` if the two differ, or if the stored one is invalid or `data` cannot be used.
    """
    kept = data / "dev.json"
    try:
        if kept.exists():
            found = _kept_layout(kept)
            for name, asked in (("servers", servers), ("port_base", port_base)):
                have = getattr(found, name)
                if asked is not None and asked != have:
                    option = name.replace("_", "-")
                    raise Misused(
                        f"{data} was made with --{option} {have}. Use that value, use another --data, or remove {data}."
                    )
            return found
        layout = Layout(servers or 3, port_base or 2181)
        data.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps({"holds": HOLDS, "servers": layout.servers, "port_base": layout.port_base}) + "\n")
    except OSError as error:
        raise Misused(f"--data {data}: {error.strerror}. It must be a writable directory.") from error
    return layout


def _kept_layout(kept: Path) -> Layout:
    try:
        found = json.loads(kept.read_text())
        if found.get("holds", "map") != HOLDS:
            raise Misused(
                f"{kept.parent} was made by another version of this command and holds no store. "
                f"Use another --data, or remove {kept.parent}."
            )
        layout = Layout(found["servers"], found["port_base"])
        if type(layout.servers) is not int or not 1 <= layout.servers <= SERVERS_MAX:
            raise ValueError(f"servers: {layout.servers!r} is not a number from 1 to {SERVERS_MAX}")
        if type(layout.port_base) is not int or not PORT_BASE_MIN <= layout.port_base <= PORT_BASE_MAX:
            raise ValueError(f"port_base: {layout.port_base!r} is not a number from {PORT_BASE_MIN} to {PORT_BASE_MAX}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Misused(
            f"{kept} does not say which servers the data belongs to: {error}. Restore it, like "
            '{"holds": "store", "servers": 3, "port_base": 2181}, or use another --data.'
        ) from None
    return layout


async def run_dev(data: Path, layout: Layout, settings: Settings) -> None:
    """Run servers and the console. At the end stop the console first, so that it can close its session."""
    stopped = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        await nursery.start(stop_on_signal, stopped)
        with stopped:
            servers = await start_servers(nursery, data, layout, settings)
            nursery.start_soon(LoopMonitor(servers[0].member.watchdogs.add("event loop")).run)
            async with trio.open_nursery() as inner:
                console = await inner.start(run_console, [dev_store_part(layout, servers)], *dev_console(layout))
                announce(introduction(data, layout, servers, console))
        nursery.cancel_scope.cancel()


def dev_console(layout: Layout) -> tuple[AdminSettings, ConsoleGate, str]:
    """Return the arguments of `run_console` after the parts: loopback, without a password, so without changes."""
    port = free_or_any(layout.client_port(1) + CONSOLE_OFFSET)
    return console_settings(HOST, port), ConsoleGate(), f"Store {layout.hosts}"


def dev_store_part(
    layout: Layout, servers: Sequence[ServerRuntime], related: Iterable[Callable[[str], Iterable[str]]] = ()
) -> StorePart:
    """Return the pages about the servers of this process."""
    admin = [AdminUrl(HOST, port) for server in servers if (port := server.ports.admin) is not None]
    return StorePart(layout.hosts, lambda: connect(layout.hosts, read_only=True), admin, related)


async def start_servers(nursery: trio.Nursery, data: Path, layout: Layout, settings: Settings) -> list[ServerRuntime]:
    """Start all servers in the nursery, and return them when all of them serve."""
    claim_this_loop()
    ensemble = layout.ensemble()
    client_ports = ClientPortSettings(
        tick_ms=settings.tick_ms, words=frozenset(FOUR_LETTER_WORDS.values()), connections_per_host_max=0
    )
    servers: list[ServerRuntime] = []
    for sid in ensemble.by_id:
        server = make_server(
            data / str(sid),
            store=StoreSettings(extended_types=True),
            client_ports=client_ports,
            server_id=sid,
            ensemble=ensemble,
            settings=settings,
        )
        admin = AdminSettings(HOST, free_or_any(layout.client_port(sid) + ADMIN_OFFSET))
        await nursery.start(run_server, server, HOST, layout.client_port(sid), [admin])
        servers.append(server)
    for server in servers:
        await server.member.wait_serving()
    return servers


def free_or_any(port: int) -> int:
    """Return the port if it is free, else 0, for any free port: a start must not fail because 8080 is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return 0
    return port


def introduction(data: Path, layout: Layout, servers: list[ServerRuntime], console: int) -> str:
    leader = servers[0].member.status().role.leader
    first = f"{HOST}:{layout.client_port(1)}"
    running = "1 server runs" if layout.servers == 1 else f"{layout.servers} servers run"
    return f"""\
{running} in this process; server {leader} leads. A ZooKeeper client finds the ensemble at

  {layout.hosts}

A browser shows servers and nodes at http://{HOST}:{console}/

Try, in another terminal:

  {own_name()} status --server {layout.hosts}
  {own_name()} shell --server {layout.hosts}
  curl http://{HOST}:{servers[0].ports.admin}/commands/ruok, or look at http://{HOST}:{servers[0].ports.admin}/
  python -c 'from kazoo.client import KazooClient as K; k = K("{first}"); k.start(); print(k.get_children("/"))'
  {own_name()} log dump {data}/1

No login is needed: a client that reaches these ports of {HOST} may read and change every node whose ACL does not
forbid it.
Ctrl-C stops the ensemble. The data remains, and the next start uses it."""


def own_name() -> str:
    """Return the command of this program, as a user would type it."""
    if shutil.which("zab") == sys.argv[0]:
        return "zab"
    return f"{sys.executable} -m zab" if sys.argv[0].endswith("__main__.py") else sys.argv[0]
