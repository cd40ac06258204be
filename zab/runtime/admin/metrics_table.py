"""The metrics: one table for Prometheus, for `monitor` and for `mntr`, evaluated on request.

If ZooKeeper has a metric for the same thing, the metric has ZooKeeper's name, so that its dashboards and alerts keep
working. The names of all others begin with `zab_`. Times are in milliseconds, as in ZooKeeper, unless the name says
otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from attrs import frozen

from zab.admin.summary import Summary
from zab.core.zxid import counter_of
from zab.host.clocks import now_ms, wall_ms
from zab.runtime.admin.environment_commands import descriptors
from zab.runtime.admin.metrics_sampler import behind

if TYPE_CHECKING:
    from zab.runtime.store_server.server_runtime import ServerRuntime

Value: TypeAlias = int | float | Summary | Mapping[int, int | float] | None


class Observation:
    """One observation of a server, so that all values of an answer are of the same moment."""

    def __init__(self, server: ServerRuntime) -> None:
        self.server = server
        self.status = server.member.status()
        self.disk = server.member.disk_status()
        self.counters = self.status.counters
        self.received, self.sent = server.clients.traffic()
        self.latency = server.clients.totals.latency.milliseconds
        self.descriptors = descriptors()
        self.leads = server.role.leading
        self.followers = [sid for sid in self.status.synced if sid != server.me] if self.leads else []
        self.observers = [sid for sid in self.followers if sid not in self.status.ensemble.voters]

    def at_leader(self, value: int) -> int | None:
        return value if self.leads and len(self.status.ensemble.servers) > 1 else None

    @property
    def lags(self) -> Mapping[int, int]:
        """The lag of each other member whose lag is known, as the leader computed it."""
        members = self.status.ensemble.by_id
        reports = {sid: report for sid, (_, report) in sorted(self.server.sampler.peers.items()) if sid in members}
        return {sid: report.lag for sid, report in reports.items() if report.lag >= 0}


@frozen
class Metric:
    """One metric.

    value   returns None if the server has no value, for example a follower for a metric of leaders
    spread  whether `monitor` shows the quantiles of a summary, too
    """

    name: str
    kind: str
    help: str
    value: Callable[[Observation], Value]
    spread: bool = False


def _gauge(name: str, help_: str, value: Callable[[Observation], Value]) -> Metric:
    return Metric(name, "gauge", help_, value)


def _counter(name: str, help_: str, value: Callable[[Observation], Value]) -> Metric:
    return Metric(name, "counter", help_, value)


def _summary(name: str, help_: str, value: Callable[[Observation], Value], spread: bool = False) -> Metric:
    return Metric(name, "summary", help_, value, spread)


def _fsyncs(seen: Observation) -> Summary:
    counters = seen.counters
    recent = (took / 1000 for took in seen.disk.fsyncs_us)
    return Summary.of(counters.fsyncs, counters.fsync_us / 1000, counters.fsync_us_max / 1000, recent)


def _snapshots(seen: Observation) -> Summary:
    snapshot = seen.disk.snapshot
    return Summary.of(snapshot.taken, snapshot.total_ms, snapshot.most_ms, [snapshot.took_ms] if snapshot.taken else [])


def _quorum_size(seen: Observation) -> int | None:
    """Return the number of voters; None for a single server, for which ZooKeeper has no such metric either."""
    status = seen.status
    return len(status.ensemble.voters) if len(status.ensemble.servers) > 1 else None


def _snapshot_age(seen: Observation) -> int | None:
    at_ms = seen.disk.snapshot.at_ms
    return (wall_ms() - at_ms) // 1000 if at_ms else None


METRICS: Final = (
    # clients
    _gauge(
        "avg_latency",
        "mean duration of the periods in which a connection had unanswered requests, since the last reset",
        lambda seen: round(seen.latency[1], 4),
    ),
    _gauge("min_latency", "the shortest of the periods that `avg_latency` averages", lambda seen: seen.latency[0]),
    _gauge("max_latency", "the longest of the periods that `avg_latency` averages", lambda seen: seen.latency[2]),
    _counter(
        "packets_received", "requests received on the client ports, since the last reset", lambda seen: seen.received
    ),
    _counter("packets_sent", "replies and events sent to clients, since the last reset", lambda seen: seen.sent),
    _gauge(
        "num_alive_connections",
        "client connections with a session",
        lambda seen: len(seen.server.clients.connections),
    ),
    _counter(
        "connection_request_count",
        "requests of clients to create or to resume a session",
        lambda seen: seen.server.clients.counts.connection_request_count,
    ),
    _counter(
        "connection_rejected",
        "new connections refused: too many connections, too many new ones at one time, or too many open files",
        lambda seen: seen.server.clients.counts.connection_rejected,
    ),
    _counter(
        "connection_drop_count",
        "connections with a session that were lost or cut before the client closed the session",
        lambda seen: seen.server.clients.counts.connection_drop_count,
    ),
    _counter(
        "sessionless_connections_expired",
        "connections closed because their first request did not arrive in time",
        lambda seen: seen.server.clients.counts.sessionless_connections_expired,
    ),
    _counter(
        "bytes_received_count",
        "bytes of requests, connect requests excluded",
        lambda seen: seen.server.clients.counts.bytes_received,
    ),
    _counter(
        "response_bytes",
        "bytes of replies and events, replies to connect requests excluded",
        lambda seen: seen.server.clients.response_bytes,
    ),
    _counter(
        "unsuccessful_handshake",
        "clients refused at a TLS port, for example for a late or failed handshake, a bad certificate, or plain text",
        lambda seen: seen.server.clients.counts.unsuccessful_handshake,
    ),
    _counter(
        "tls_handshake_exceeded",
        "TLS handshakes that began while the maximum number was under way; for each, an older one is closed",
        lambda seen: seen.server.clients.counts.tls_handshake_exceeded,
    ),
    _gauge(
        "outstanding_tls_handshake",
        "TLS handshakes under way",
        lambda seen: seen.server.clients.counts.outstanding_tls_handshake,
    ),
    _counter(
        "auth_failed_count",
        "clients refused at a TLS port, failed logins by SASL, auth request or admin command, "
        "requests before a required login, and admin commands without permission",
        lambda seen: seen.server.clients.counts.auth_failed,
    ),
    _counter(
        "ensemble_auth_fail",
        "clients disconnected because they named another ensemble",
        lambda seen: seen.server.clients.counts.ensemble_auth_fail,
    ),
    _counter(
        "throttled_ops",
        "requests answered with THROTTLEDOP because they had waited too long",
        lambda seen: seen.server.clients.counts.throttled_ops,
    ),
    _counter(
        "large_requests_rejected",
        "clients disconnected because all large requests together had too many bytes",
        lambda seen: seen.server.clients.counts.large_requests_rejected,
    ),
    _counter(
        "stale_sessions_expired",
        "sessions that this server expired as the leader",
        lambda seen: seen.server.clients.counts.stale_sessions_expired,
    ),
    _gauge(
        "outstanding_requests",
        "requests taken from clients and not answered yet",
        lambda seen: seen.server.clients.totals.open_requests,
    ),
    _summary(
        "readlatency",
        "delay of the event loop plus the time of one read, measured once a second",
        lambda seen: seen.server.sampler.reads,
        True,
    ),
    _summary(
        "updatelatency",
        "time from the arrival of a write at this server until it is applied here; at most one of 64 is measured",
        lambda seen: seen.server.sampler.writes,
        True,
    ),
    # the store
    _gauge("znode_count", "nodes of the tree", lambda seen: len(seen.server.machine.tree)),
    _gauge("watch_count", "watches set at this server", lambda seen: seen.server.machine.watches.count),
    _gauge(
        "ephemerals_count", "ephemeral nodes", lambda seen: sum(map(len, seen.server.machine.tree.ephemerals.values()))
    ),
    _gauge(
        "approximate_data_size",
        "characters of all paths, plus bytes of all data",
        lambda seen: seen.server.sampler.approximate_data_size,
    ),
    _gauge(
        "global_sessions",
        "sessions of the ensemble, without local ones",
        lambda seen: len(seen.server.machine.sessions.table),
    ),
    _gauge("local_sessions", "local sessions of this server", lambda seen: len(seen.server.clients.sessions.local)),
    _counter(
        "digest_mismatches_count",
        "comparisons in which the tree's digest differed from the leader's",
        lambda seen: seen.server.machine.mismatches,
    ),
    # the process
    _gauge("uptime", "time since the start of this server", lambda seen: now_ms() - seen.server.role.started_ms),
    _gauge("open_file_descriptor_count", "open file descriptors of the process", lambda seen: seen.descriptors[0]),
    _gauge(
        "max_file_descriptor_count", "limit of open file descriptors of the process", lambda seen: seen.descriptors[1]
    ),
    # the ensemble
    _gauge("quorum_size", "voters of the ensemble", _quorum_size),
    _gauge(
        "learners",
        "synchronized servers that follow this leader, observers included; only at a leader",
        lambda seen: seen.at_leader(len(seen.followers)),
    ),
    _gauge(
        "synced_followers",
        "synchronized followers that vote; only at a leader",
        lambda seen: seen.at_leader(len(seen.followers) - len(seen.observers)),
    ),
    _gauge(
        "synced_observers",
        "synchronized observers; only at a leader",
        lambda seen: seen.at_leader(len(seen.observers)),
    ),
    _gauge(
        "synced_non_voting_followers",
        "the same as `synced_observers`; only at a leader",
        lambda seen: seen.at_leader(len(seen.observers)),
    ),
    _gauge(
        "leader_uptime",
        "time since this leader began to serve; only at a leader",
        lambda seen: seen.at_leader(now_ms() - seen.server.role.leading_since_ms),
    ),
    _counter("looking_count", "elections that this server has begun", lambda seen: seen.counters.elections),
    _summary(
        "election_time",
        "duration of elections: from LOOKING until this server leads, follows or observes",
        lambda seen: seen.server.sampler.election_time,
    ),
    _summary(
        "unavailable_time",
        "time from the loss of the leader, or from the start, until this server serves",
        lambda seen: seen.server.sampler.unavailable_time,
    ),
    # the history
    _counter(
        "proposal_count", "transactions proposed by this server while it led", lambda seen: seen.counters.proposals
    ),
    _counter(
        "commit_count",
        "transactions applied here since the start, those replayed from the log included",
        lambda seen: seen.counters.applied,
    ),
    _counter(
        "sync_processor_request_queued",
        "records written to the disk, mostly batches of transactions; several may share one fsync",
        lambda seen: seen.disk.writes,
    ),
    _summary(
        "fsynctime",
        "duration of one fsync with the writes before it, mostly of the log; the minimum is that of the last 512",
        _fsyncs,
    ),
    _summary(
        "snapshottime",
        "duration of one snapshot, written in the background; minimum and quantiles are the duration of the last one",
        _snapshots,
    ),
    _counter(
        "diff_count",
        "DIFF messages sent to learners: usually one in a synchronization without a snapshot or TRUNC",
        lambda seen: seen.counters.diffs_sent,
    ),
    _counter(
        "snap_count",
        "snapshots sent to learners; sending the rest of an interrupted one is not counted",
        lambda seen: seen.counters.snapshots_sent,
    ),
    # not in ZooKeeper
    _gauge(
        "zab_serving",
        "1 while this server serves: it leads, follows or observes, and is synchronized",
        lambda seen: int(seen.status.role.serving),
    ),
    _gauge("zab_is_leader", "1 while this server leads and serves", lambda seen: int(seen.leads)),
    _gauge(
        "zab_voting",
        "0 while this server must not vote, because its disk may have lost history or promises; else 1",
        lambda seen: int(seen.status.voting),
    ),
    _gauge(
        "zab_veto",
        "1 while this server does not follow a leader, because it keeps committed history that the leader lacks",
        lambda seen: int(seen.status.role.veto is not None),
    ),
    _gauge(
        "zab_epoch",
        "newest epoch that this server has adopted, as leader or as learner",
        lambda seen: seen.status.role.epoch,
    ),
    _gauge(
        "zab_applied_counter",
        "counter (lower 32 bits) of the last zxid applied",
        lambda seen: counter_of(seen.status.applied),
    ),
    _gauge(
        "zab_uncommitted",
        "transactions in this server's log not known to be committed; no value if they reach into another epoch",
        lambda seen: behind(max(0, seen.status.last), seen.status.committed),
    ),
    _gauge(
        "zab_peer_lag_transactions",
        "lag of each other server behind the leader, in transactions",
        lambda seen: seen.lags,
    ),
    _counter(
        "zab_batches",
        "batches proposed; all transactions of a batch are proposed, logged and acknowledged together",
        lambda seen: seen.counters.batches,
    ),
    _counter("zab_turns", "turns of the loop that runs the protocol", lambda seen: seen.counters.turns),
    _counter(
        "zab_barriers",
        "barriers passed, such as for `sync`; requests that wait at the same time share one",
        lambda seen: seen.counters.barriers,
    ),
    _counter(
        "zab_applied_bytes",
        "bytes of the transactions that `commit_count` counts",
        lambda seen: seen.counters.applied_bytes,
    ),
    _counter(
        "zab_logged_bytes",
        "bytes written to the disk, of transactions and of received snapshots",
        lambda seen: seen.counters.logged_bytes,
    ),
    _counter(
        "zab_restores",
        "snapshots received from a leader in place of this server's history",
        lambda seen: seen.counters.restores,
    ),
    _counter("zab_snapshots", "snapshots taken", lambda seen: seen.counters.snapshots),
    _gauge("zab_snapshot_age_seconds", "time since this process last took a snapshot", _snapshot_age),
    _gauge(
        "zab_disk_backlog_bytes", "bytes handed to the disk and not durable yet", lambda seen: seen.disk.backlog_bytes
    ),
    _gauge(
        "zab_link_queued_bytes",
        "bytes waiting to be sent on the learner link to each server, without the data of a synchronization",
        lambda seen: {link.peer: link.queued_bytes for link in seen.status.links},
    ),
    _gauge(
        "zab_outstanding_submits",
        "requests submitted by this server, such as its clients' writes, whose outcome is open",
        lambda seen: seen.status.outstanding,
    ),
    _gauge(
        "zab_rotten_files",
        "warnings at the start: damaged files that were not needed, or many (or large) `damaged.*` files",
        lambda seen: len(seen.disk.rotten),
    ),
    _summary(
        "zab_loop_lag",
        "delay of the event loop, measured once a second",
        lambda seen: seen.server.sampler.lag,
        True,
    ),
    _counter(
        "zab_loop_stalls",
        "pieces of work that held up a loop for more than 200 ms; `loop_stalled` in the log names each with its cause",
        lambda seen: seen.server.member.watchdogs.stalls,
    ),
)
