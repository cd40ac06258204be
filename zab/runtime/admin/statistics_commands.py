"""Commands about the connections, sessions, watches, counters, digests and directories of a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zab.core.zxid import NOTHING
from zab.host.clocks import now_ms
from zab.runtime.admin.report import VERSION
from zab.runtime.admin.rows import Rows

if TYPE_CHECKING:
    from zab.runtime.store_server.server_runtime import ServerRuntime
    from zab.service.attached import Connected

SLOW_FSYNC_MS: Final = 1_000


def connections(server: ServerRuntime) -> Mapping[str, object]:
    rows = Rows(server.settings.listed_max)
    common = _of_server(server)
    listed = [{**_of_connection(each), **common} for each in rows.take(server.clients.connections)]
    return {"connections": listed, "secure_connections": [], **rows.values}


def _brief(each: Connected) -> dict[str, object]:
    return {
        "remote_socket_address": each.peer,
        "interest_ops": 1,
        "outstanding_requests": each.queued,
        "packets_received": each.received,
        "packets_sent": each.sent,
    }


def _of_connection(each: Connected) -> dict[str, object]:
    return {
        **_brief(each),
        "session_id": each.session,
        "last_operation": "NA",
        "established": each.established_ms,
        "session_timeout": each.timeout_ms,
        "last_cxid": -1,
    }


def _of_server(server: ServerRuntime) -> dict[str, object]:
    """Return the server's values for keys of a connection: to count them per connection would slow every request."""
    low, mean, high = server.clients.totals.latency.milliseconds
    return {
        "last_zxid": server.machine.zxid,
        "last_response_time": now_ms(),
        "last_latency": 0,
        "min_latency": low,
        "avg_latency": int(mean),
        "max_latency": high,
    }


def reset_connections(server: ServerRuntime) -> Mapping[str, object]:
    for each in server.clients.connections:
        each.received = each.sent = 0
    return {}


def reset(server: ServerRuntime) -> Mapping[str, object]:
    server.clients.reset_statistics()
    return {}


def directories(server: ServerRuntime) -> tuple[int, int]:
    """Return the bytes in the snapshots' directory and in the log's directory, which may be the same."""
    disk = server.member.disk_status()
    size = _bytes_in(disk.path)
    return size, size if disk.log_path == disk.path else _bytes_in(disk.log_path)


def _bytes_in(path: str | None) -> int:
    total = 0
    for file in Path(path).iterdir() if path is not None else ():
        try:
            total += file.stat().st_size
        except OSError:
            continue  # it was just purged
    return total


def dirs(server: ServerRuntime) -> Mapping[str, object]:
    data, log = directories(server)
    return {"datadir_size": data, "logdir_size": log}


def dump(server: ServerRuntime) -> Mapping[str, object]:
    rows, owners = Rows(server.settings.listed_max), server.machine.tree.ephemerals
    ends: dict[str, list[int]] = {}
    for end, sessions in server.clients.tracker.ends():
        if listed := list(rows.take(sessions)):
            ends[str(end)] = listed
    owned: dict[str, list[str]] = {}
    rows_of_paths = Rows(server.settings.listed_max)
    for session, paths in owners.items():
        if found := sorted(rows_of_paths.take(paths)):
            owned[str(session)] = found
    rows.cut |= rows_of_paths.cut
    return {"expiry_time_to_session_ids": ends, "session_id_to_ephemeral_paths": owned, **rows.values}


def hashes(server: ServerRuntime) -> Mapping[str, object]:
    return {
        "digests": [
            {"zxid": f"{zxid:#x}", "digest": f"{digest:x}", "version": 2}
            for zxid, digest in server.machine.digest.history
        ]
    }


def last_snapshot(server: ServerRuntime) -> Mapping[str, object]:
    """Return the last snapshot with ZooKeeper's keys: its zxid, and the time of its end in seconds since 1970.

    The time is 0 if the snapshot was written before the start of this member.
    """
    snapshot = server.member.disk_status().snapshot
    zxid = NOTHING if snapshot.zxid is None else snapshot.zxid
    return {"zxid": f"{zxid:x}", "timestamp": snapshot.at_ms // 1000}


def server_stats(server: ServerRuntime) -> Mapping[str, object]:
    received, sent = server.clients.traffic()
    low, mean, high = server.clients.totals.latency.milliseconds
    data, log = directories(server)
    sizes = {"last_buffer_size": -1, "min_buffer_size": -1, "max_buffer_size": -1}
    slow = sum(took > SLOW_FSYNC_MS * 1000 for took in server.member.disk_status().fsyncs_us)
    values: dict[str, object] = {
        "version": VERSION,
        "read_only": server.clients.leader.read_only,
        "server_stats": {
            "packets_sent": sent,
            "packets_received": received,
            "fsync_threshold_exceed_count": slow,
            "client_response_stats": dict(sizes),
            "provider_null": False,
            "server_state": server.mode,
            "outstanding_requests": server.clients.totals.open_requests,
            "min_latency": low,
            "avg_latency": round(mean, 4),
            "max_latency": high,
            "data_dir_size": data,
            "log_dir_size": log,
            "last_processed_zxid": server.machine.zxid,
            "num_alive_client_connections": len(server.clients.connections),
            "auth_failed_count": server.clients.counts.auth_failed,
            "non_mtlsremote_conn_count": 0,
            "non_mtlslocal_conn_count": 0,
            "uptime": now_ms() - server.role.started_ms,
        },
        "client_response": sizes,
        "node_count": len(server.machine.tree),
    }
    if server.mode == "leader":
        values["proposal_stats"] = dict(sizes)
    return values


def stats(server: ServerRuntime) -> Mapping[str, object]:
    rows = Rows(server.settings.listed_max)
    listed = [_brief(each) for each in rows.take(server.clients.connections)]
    return {**server_stats(server), "connections": listed, "secure_connections": [], **rows.values}


def watch_summary(server: ServerRuntime) -> Mapping[str, object]:
    total, paths, watchers = server.machine.watches.counts
    return {"num_connections": watchers, "num_paths": paths, "num_total_watches": total}


def watches(server: ServerRuntime) -> Mapping[str, object]:
    rows = Rows(server.settings.listed_max)
    found: dict[str, list[str]] = {}
    for session, path in rows.take(watched(server)):
        found.setdefault(str(session), []).append(path)
    return {"session_id_to_watched_paths": found, **rows.values}


def watches_by_path(server: ServerRuntime) -> Mapping[str, object]:
    rows = Rows(server.settings.listed_max)
    found: dict[str, list[int]] = {}
    for session, path in rows.take(watched(server)):
        found.setdefault(path, []).append(session)
    return {"path_to_session_ids": found, **rows.values}


def watched(server: ServerRuntime) -> Iterator[tuple[int, str]]:
    """Yield (session id, path) for each path that a connected client watches."""
    for each in server.clients.connections:
        for path in server.machine.watches.paths_of(each):
            yield each.session, path
