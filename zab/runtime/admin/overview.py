"""The overview of an ensemble as plain values, for the status page, for the web console, and for `zab status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from zab.admin.admin_query import Form, check_form, json_object
from zab.admin.summary import Summary
from zab.core.ensemble import NO_HOST
from zab.host.clocks import now_ms, wall_ms
from zab.runtime.admin.metrics_sampler import trio_time
from zab.runtime.admin.report import VERSION, Report
from zab.service.health.ensemble_health import VETOING, absence, health, is_settled, seen_mode, takes_part

if TYPE_CHECKING:
    from zab.runtime.store_server.server_runtime import ServerRuntime

CLIENTS_SHOWN: Final = 20

_FORM: Final[Form] = {
    **dict.fromkeys(("server", "now_ms", "epoch"), int),
    **dict.fromkeys(("version", "health", "mode", "zxid"), str),
    **dict.fromkeys(("serving", "reconfiguring"), bool),
    "leader": int | None,
    "voters": [int],
    "members": [
        {
            **dict.fromkeys(
                ("id", "epoch", "connections", "sessions", "outstanding", "client_port", "quorum_port"), int
            ),
            **dict.fromkeys(("requests_per_s", "latency_us", "fsync_us", "uptime_ms"), int | float),
            **dict.fromkeys(("lag", "age_ms"), int | None),
            **dict.fromkeys(("host", "role", "mode", "version", "zxid"), str),
            **dict.fromkeys(("me", "connected", "serving", "voting"), bool),
        }
    ],
    "warnings": [{"server": int, "text": str}],
    "beats": {name: [int | float] for name in ("requests", "commits", "latency_us", "fsync_us")},
    "elections": [dict.fromkeys(("at_ms", "epoch", "leader", "took_ms"), int | None)],
    "disk": {
        "path": str | None,
        "backlog_bytes": int,
        "fsync_us": dict.fromkeys(("last", "p50", "p99", "max"), int | float),
        "snapshot": {"zxid": str | None, **dict.fromkeys(("at_ms", "took_ms", "bytes"), int | float)},
    },
    "store": dict.fromkeys(("znodes", "ephemerals", "watches", "sessions", "data_bytes"), int),
    "clients": {
        "count": int,
        "shown": [{"peer": str, "session": str, **dict.fromkeys(("timeout_ms", "received", "queued"), int)}],
    },
}
"""What the readers of an overview use of it."""


def read_overview(body: bytes) -> Mapping[str, Any]:
    """Return an overview from JSON. Raise `ValueError` if it is something else, and names the part that differs."""
    found = json_object(body)
    check_form(found, _FORM)
    return found


def overview(server: ServerRuntime) -> dict[str, Any]:
    status = server.member.status()
    mine = server.sampler.report()
    reports: dict[int, tuple[int, Report]] = {
        sid: (round((trio_time() - at) * 1000), report) for sid, (at, report) in server.sampler.peers.items()
    }
    reports[server.me] = (0, mine)
    newest = max(report.applied for _, report in reports.values())
    members = [_member(server, each.id, reports.get(each.id)) for each in status.ensemble.servers]
    warnings = _warnings(members, status.role.serving and is_settled(server.role.serving_ms(now_ms())))
    return {
        "server": server.me,
        "version": VERSION,
        "now_ms": wall_ms(),
        "health": health(
            [member["connected"] for member in members], serving=status.role.serving, warned=bool(warnings)
        ),
        "mode": mine.mode,
        "serving": status.role.serving,
        "leader": status.role.leader,
        "epoch": status.role.epoch,
        "zxid": f"{newest:#x}",
        "voters": list(status.ensemble.voters),
        "reconfiguring": status.pending is not None,
        "members": members,
        "warnings": warnings,
        "beats": {
            "requests": [sample.requests for sample in server.sampler.samples],
            "commits": [sample.commits for sample in server.sampler.samples],
            "latency_us": [sample.latency_us for sample in server.sampler.samples],
            "fsync_us": [sample.fsync_us for sample in server.sampler.samples],
        },
        "elections": [
            {
                "at_ms": each.at_ms,
                "epoch": each.epoch,
                "leader": each.leader,
                "took_ms": each.took_ms,
                "mode": each.mode,
            }
            for each in reversed(server.sampler.availability.elections)
        ],
        "disk": _disk(server),
        "store": _store(server),
        "clients": _clients(server),
    }


def verdict(view: Mapping[str, Any]) -> str:
    """Return who leads, or the reason that the server of this overview does not serve."""
    if view["mode"] == "standalone":
        found = f"Server {view['server']} serves alone"
    elif view["serving"]:
        found = f"Server {view['leader']} leads epoch {view['epoch']}"
    elif any(each["mode"] == VETOING for each in view["members"]):
        found = "This server vetoes its leader and stays out of the ensemble; it cannot see whether the others serve"
    else:
        found = "This server does not serve; writes wait"
    return found + (", and the membership is changing" if view["reconfiguring"] else "")


def _member(server: ServerRuntime, sid: int, reported: tuple[int, Report] | None) -> dict[str, Any]:
    """Return one member's entry. `reported` is the age and the content of its last status report; None without one."""
    status = server.member.status()
    member = status.ensemble.by_id[sid]  # type: ignore[index]  # a `ServerId`
    placed = {
        "id": sid,
        "me": sid == server.me,
        "host": "" if member.host == NO_HOST else member.host,
        "role": member.role.value,
        "leads": status.role.leader == sid,
    }
    age_ms, report = reported or (None, Report())
    connected = takes_part(member.id, status, age_ms, report.epoch)
    return {
        **placed,
        "age_ms": age_ms,
        "connected": connected,
        "mode": seen_mode(member.id, status, report.mode, age_ms, report.epoch),
        "serving": report.serving and connected,
        "voting": report.voting,
        "version": report.version,
        "epoch": report.epoch,
        "zxid": f"{report.applied:#x}",
        "lag": report.lag if connected and report.lag >= 0 else None,
        "connections": report.connections,
        "sessions": report.sessions,
        "outstanding": report.outstanding,
        "requests_per_s": report.requests_per_s,
        "commits_per_s": report.commits_per_s,
        "latency_us": report.latency_us,
        "fsync_us": report.fsync_us,
        "elections": report.elections,
        "uptime_ms": report.uptime_ms,
        "client_port": report.client_port or member.client_port or 0,
        "quorum_port": member.quorum_port,
        "admin_port": report.admin_port,
        "warnings": list(report.warnings) if connected else [],
    }


def _warnings(members: list[dict[str, Any]], settled: bool) -> list[dict[str, Any]]:
    """List the warnings of the connected members. Once `settled`, also warn of members that are not connected.

    In its first seconds of service, a server does not have the reports of all others yet.
    """
    found = []
    for member in members:
        if settled and not member["connected"]:
            found.append({"server": member["id"], "text": absence(member["age_ms"])})
        found += [{"server": member["id"], "text": text} for text in member["warnings"]]
    return found


def _disk(server: ServerRuntime) -> dict[str, Any]:
    disk, counters = server.member.disk_status(), server.member.status().counters
    recent = Summary.of(counters.fsyncs, counters.fsync_us, counters.fsync_us_max, disk.fsyncs_us)
    p50, p99 = recent.quantiles((0.5, 0.99))
    snapshot = disk.snapshot
    return {
        "path": disk.path,
        "fsyncs": counters.fsyncs,
        "fsync_us": {"last": (disk.fsyncs_us or (0,))[-1], "p50": p50, "p99": p99, "max": counters.fsync_us_max},
        "backlog_bytes": disk.backlog_bytes,
        "logged_bytes": counters.logged_bytes,
        "snapshot": {
            "zxid": None if snapshot.zxid is None else f"{snapshot.zxid:#x}",
            "at_ms": snapshot.at_ms,
            "took_ms": snapshot.took_ms,
            "bytes": snapshot.size,
            "taken": snapshot.taken,
        },
    }


def _store(server: ServerRuntime) -> dict[str, Any]:
    machine = server.machine
    return {
        "znodes": len(machine.tree),
        "ephemerals": sum(map(len, machine.tree.ephemerals.values())),
        "watches": machine.watches.count,
        "sessions": len(machine.sessions.table),
        "data_bytes": server.sampler.approximate_data_size,
    }


def _clients(server: ServerRuntime) -> dict[str, Any]:
    """Return the number of connections, and the `CLIENTS_SHOWN` connections with the most requests."""
    busiest = sorted(server.clients.connections, key=lambda each: each.received, reverse=True)[:CLIENTS_SHOWN]
    return {
        "count": len(server.clients.connections),
        "shown": [
            {
                "peer": each.peer,
                "session": f"{each.session & 0xFFFF_FFFF_FFFF_FFFF:#x}",
                "timeout_ms": each.timeout_ms,
                "received": each.received,
                "sent": each.sent,
                "queued": each.queued,
            }
            for each in busiest
        ],
    }
