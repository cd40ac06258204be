"""An ensemble in one process, for trying things out: real sockets on loopback, real files, real fsyncs."""

from __future__ import annotations

import json
import logging
import shutil
import signal
import sys
from pathlib import Path

import click
import trio
from attrs import frozen

from zab.cli import door
from zab.cli.kv import KeyValue
from zab.core.ensemble import Ensemble, Server
from zab.core.ready import Settings
from zab.core.zxid import ServerId
from zab.runtime.errors import PortTaken
from zab.runtime.member import Member
from zab.runtime.network import TlsConfig

QUORUM_OFFSET = 707
ELECTION_OFFSET = 1707
"""From client port 2181 to the customary 2888 and 3888."""


@frozen
class Layout:
    """How many servers, and where. Kept beside the data, because the data belongs to these addresses."""

    servers: int
    port_base: int

    def client_port(self, sid: int) -> int:
        return self.port_base + sid - 1

    def ensemble(self) -> Ensemble:
        return Ensemble(
            tuple(
                Server(
                    ServerId(sid),
                    "127.0.0.1",
                    self.client_port(sid) + QUORUM_OFFSET,
                    self.client_port(sid) + ELECTION_OFFSET,
                    client_host="127.0.0.1",
                    client_port=self.client_port(sid),
                )
                for sid in range(1, self.servers + 1)
            )
        )


def layout_of(data: Path, servers: int | None, port_base: int | None) -> Layout:
    """What was asked for, unless there is data already: that belongs to what it was made for."""
    kept = data / "dev.json"
    if kept.exists():
        found = Layout(**json.loads(kept.read_text()))
        for name, asked in (("servers", servers), ("port_base", port_base)):
            have = getattr(found, name)
            if asked is not None and asked != have:
                option = name.replace("_", "-")
                raise click.ClickException(
                    f"{data} was made with --{option} {have}. Use that, or another --data, or remove {data}."
                )
        return found
    layout = Layout(servers or 3, port_base or 2181)
    data.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps({"servers": layout.servers, "port_base": layout.port_base}) + "\n")
    return layout


async def run_dev(data: Path, layout: Layout, settings: Settings) -> None:
    ensemble = layout.ensemble()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop_on_signal, nursery.cancel_scope)
        members: list[Member] = []
        for sid in ensemble.by_id:
            members.append(
                await nursery.start(
                    run_one, sid, ensemble, data / str(sid), layout.client_port(sid), settings, None, "127.0.0.1"
                )
            )
        for member in members:
            await member.wait_serving()
        click.echo(introduction(layout, members))
        await trio.sleep_forever()


async def run_one(
    sid: int,
    ensemble: Ensemble,
    data: Path,
    client_port: int | None,
    settings: Settings,
    tls: TlsConfig | None,
    client_host: str,
    task_status: trio.TaskStatus[Member] = trio.TASK_STATUS_IGNORED,
) -> None:
    machine = KeyValue()
    member = Member(machine, data, server_id=sid, ensemble=ensemble, settings=settings, tls=tls)
    async with trio.open_nursery() as nursery:
        await nursery.start(member.run)
        if client_port is not None:
            try:
                await nursery.start(door.serve, member, machine, client_host, client_port)
            except OSError as error:
                raise PortTaken(
                    f"cannot listen on {client_host}:{client_port} for clients: {error.strerror}. "
                    "Is another server running there?"
                ) from error
        task_status.started(member)


async def stop_on_signal(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()
            return


def introduction(layout: Layout, members: list[Member]) -> str:
    leader = members[0].status().role.leader
    zab = "zab" if shutil.which("zab") == sys.argv[0] else sys.argv[0]
    if zab.endswith("__main__.py"):
        zab = f"{sys.executable} -m zab"
    running = "1 server runs" if layout.servers == 1 else f"{layout.servers} servers run"
    first, last = layout.client_port(1), layout.client_port(layout.servers)
    return f"""\
{running} in this process; server {leader} leads. Try, in another terminal:

  {zab} kv --server 127.0.0.1:{first} set /greeting hello       a write through server 1
  {zab} kv --server 127.0.0.1:{last} barrier-get /greeting     read through server {layout.servers}: never stale
  {zab} kv --server 127.0.0.1:{last} get /greeting             the same, as far as server {layout.servers} knows
  {zab} kv --server 127.0.0.1:{first} add /visits 1
  {zab} kv {" ".join(f"--server 127.0.0.1:{layout.client_port(sid)}" for sid in range(1, layout.servers + 1))} status

Ctrl-C ends it; the data stays, and the next start finds it again."""


def log_to_stderr(level: str) -> None:
    logging.basicConfig(
        level=level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S"
    )
