"""The long replies to four-letter words, in the format that tools for ZooKeeper parse."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zab.core.ensemble import Role
from zab.host.clocks import now_ms
from zab.runtime.admin.environment_commands import environment
from zab.runtime.admin.rows import Rows
from zab.runtime.admin.statistics_commands import directories

if TYPE_CHECKING:
    from zab.runtime.store_server.server_runtime import ServerRuntime


def hexadecimal(session: int) -> str:
    return f"{session & 0xFFFF_FFFF_FFFF_FFFF:#x}"


def conf(server: ServerRuntime) -> str:
    settings, status = server.settings, server.member.status()
    ensemble = status.ensemble
    alone = len(ensemble.servers) == 1
    disk, (data, log) = server.member.disk_status(), directories(server)
    lines = [
        f"clientPort={_port(server.ports.client)}",
        f"secureClientPort={_port(server.ports.secure_client)}",
        f"dataDir={disk.path}",
        f"dataDirSize={data}",
        f"dataLogDir={disk.log_path}",
        f"dataLogSize={log}",
        f"tickTime={settings.tick_ms}",
        f"maxClientCnxns={settings.connections_per_host_max}",
        f"minSessionTimeout={settings.timeout_ms(0)}",
        f"maxSessionTimeout={settings.timeout_ms((1 << 31) - 1)}",
        "clientPortListenBacklog=-1",
        f"serverId={0 if alone else server.me}",
    ]
    if not alone:
        mine, timing = ensemble.by_id.get(server.me), server.member.settings
        role = Role.OBSERVER if mine is None else mine.role
        lines += [
            f"initLimit={timing.init_limit}",
            f"syncLimit={timing.sync_limit}",
            "electionAlg=3",
            f"electionPort={-1 if mine is None else mine.election_port}",
            f"quorumPort={-1 if mine is None else mine.quorum_port}",
            f"peerType={0 if role is Role.PARTICIPANT else 1}",
            "membership: ",
            ensemble.text(),
        ]
    return "\n".join(lines) + "\n"


def _port(port: int | None) -> int:
    return -1 if port is None else port


def cons(server: ServerRuntime) -> str:
    """List the connections. Latencies and zxid are the server's: counts for each connection would slow requests."""
    low, mean, high = server.clients.totals.latency.milliseconds
    zxid, now = server.machine.zxid, now_ms()
    rows = Rows(server.settings.listed_max)
    lines = [
        f" /{each.peer}[1](queued={each.queued},recved={each.received},sent={each.sent},sid={hexadecimal(each.session)}"
        f",lop=NA,est={each.established_ms},to={each.timeout_ms},lcxid=0xffffffffffffffff,lzxid={zxid:#x},lresp={now}"
        f",llat=0,minlat={low},avglat={int(mean)},maxlat={high})\n"
        for each in rows.take(server.clients.connections)
    ]
    return "".join(lines) + rows.line + "\n"


def dump(server: ServerRuntime) -> str:
    """List global sessions, ephemerals and connections.

    A server that does not lead lists no sessions, because only the leader knows when they expire.
    """
    most = server.settings.listed_max
    buckets = server.clients.tracker.ends()
    lines = ["SessionTracker dump:", _sets("Session", [len(sessions) for _, sessions in buckets])]
    rows = Rows(most)
    for end, sessions in buckets:
        if listed := [f"\t{hexadecimal(session)}" for session in rows.take(sessions)]:
            lines += [f"{len(sessions)} expire at {_date(server, end)}:", *listed]
    owners = server.machine.tree.ephemerals
    lines += [*_cut(rows), "ephemeral nodes dump:", f"Sessions with Ephemerals ({sum(map(bool, owners.values()))}):"]
    rows = Rows(most)
    for session, paths in owners.items():
        if listed := [f"\t{path}" for path in rows.take(paths)]:
            lines += [f"{hexadecimal(session)}:", *listed]
    lines += _cut(rows)
    ends: dict[int, list[str]] = {}
    tick, now, rows = server.settings.tick_ms, now_ms(), Rows(most)
    for each in rows.take(server.clients.connections):
        end = ((now + each.timeout_ms) // tick + 1) * tick
        ends.setdefault(end, []).append(f"\tip: /{each.peer} sessionId: {hexadecimal(each.session)}")
    lines += ["Connections dump:", _sets("Connections", [len(each) for each in ends.values()])]
    for end in sorted(ends):
        lines += [f"{len(ends[end])} expire at {_date(server, end)}:", *ends[end]]
    return "\n".join([*lines, *_cut(rows)]) + "\n"


def _cut(rows: Rows) -> list[str]:
    return rows.line.splitlines()


def _sets(what: str, sizes: list[int]) -> str:
    return f"{what} Sets ({len(sizes)})/({sum(sizes)}):"


def _date(server: ServerRuntime, at_ms: int) -> str:
    return time.strftime(
        "%a %b %d %H:%M:%S UTC %Y", time.gmtime((server.member.environment.wall_ms() + at_ms - now_ms()) / 1000)
    )


def envi(server: ServerRuntime) -> str:
    return "Environment:\n" + "".join(f"{key}={value}\n" for key, value in environment(server).items())


def dirs(server: ServerRuntime) -> str:
    """Return the sizes of the snapshots' and of the log's directory in bytes. They may be the same directory."""
    data, log = directories(server)
    return f"datadir_size: {data}\nlogdir_size: {log}\n"


def proposals(server: ServerRuntime) -> str:
    """Return a leader's line about the sizes of proposals, else "".

    The sizes are -1: those of batches could not be compared with ZooKeeper's, which has a packet per transaction.
    """
    return "Proposal sizes last/min/max: -1/-1/-1\n" if server.mode == "leader" else ""
