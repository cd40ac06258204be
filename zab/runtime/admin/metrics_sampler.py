"""Samples of a server, once a second: rates and times.

Most values are differences of counters that the server has in any case. In addition, at most one of every 64 writes,
and one read a second, are timed.

The sampler also sends this server's report to the leader, and keeps the reports of the other servers. At the leader it
sends the reports of all servers to its learners.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Final, Protocol

import trio
from attrs import evolve, frozen

from zab.admin.summary import Summary
from zab.core.errors import WireError, ZabError
from zab.core.zxid import ServerId, Zxid, counter_of, epoch_of
from zab.host.clocks import wall_ms
from zab.host.logs import Log
from zab.runtime.admin.report import VERSION, Report, decode_report, decode_reports, encode_report, encode_reports
from zab.runtime.member import Member
from zab.runtime.store_server.store_machine import StoreMachine
from zab.service.client_service import ClientService
from zab.service.forwarding.pending_submissions import Done
from zab.service.health.availability import Availability
from zab.service.health.operator_warnings import operator_warnings
from zab.service.health.server_role import ServerRole
from zab.service.health.status import OpenPorts, RoleChange
from zab.store.paths import ROOT

SAMPLE_S: Final = 1.0
SAMPLES_KEPT: Final = 120
FORGET_S: Final = 600.0


@frozen
class Sample:
    """The requests, commits and mean latency since the last sample, and the duration of the last fsync."""

    requests: int
    commits: int
    latency_us: int
    fsync_us: int


class SampledServer(Protocol):
    """The part of `ServerRuntime` that the sampler uses."""

    ports: OpenPorts
    machine: StoreMachine
    member: Member
    log: Log
    clients: ClientService
    me: ServerId
    role: ServerRole

    @property
    def mode(self) -> str: ...
    def tell_leader(self, report: bytes) -> None: ...


class MetricsSampler:
    """Keeps the recent samples of a server, its own measurements, and the last reports of the other servers."""

    def __init__(self, server: SampledServer) -> None:
        self.samples: deque[Sample] = deque(maxlen=SAMPLES_KEPT)
        self.availability = Availability(trio_time())
        self.reads = Summary()
        self.writes = Summary()
        self.lag = Summary()
        self.election_time = Summary()
        self.unavailable_time = Summary()
        self.peers: dict[int, tuple[float, Report]] = {}
        """server -> the time (of this server's clock) and content of its last report; forgotten after `FORGET_S`"""
        self._server = server
        self._lag = -1
        """The lag of this server, as the leader has computed it; -1 if it is unknown."""
        self._counted = (0, 0, 0, 0.0)
        """The counters at the last sample: requests, commits, and number and sum of latencies."""
        self._read_only = False

    # -- on the path of requests --------------------------------------------------------------------

    def timed(self, done: Done) -> Done:
        """Return a callback for a write: it records the time from now until its call, and calls `done`."""
        began = time.perf_counter()
        writes = self.writes

        def timed(result: object, error: Exception | None) -> None:
            writes.add((time.perf_counter() - began) * 1000)
            done(result, error)

        return timed

    # -- notifications ------------------------------------------------------------------------------

    def role_changed(self, role: RoleChange, mode: str) -> None:
        self._check_read_only()
        ended = self.availability.role_changed(role, mode, trio_time(), wall_ms())
        if ended.election_ms is not None:
            self.election_time.add(ended.election_ms)
        if ended.unavailable_ms is not None:
            self.unavailable_time.add(ended.unavailable_ms)

    def on_report(self, body: bytes) -> None:
        """At the leader: store the report that a follower or observer has sent, with its lag behind this server."""
        try:
            report = decode_report(body)
            lag = behind(self._server.machine.zxid, report.applied)
            self._keep(0, evolve(report, lag=-1 if lag is None else lag))
        except WireError as error:
            self._server.log.warn_rate_limited("bad_report", "report", why=error)

    def on_reports(self, body: bytes) -> None:
        """Store the reports of all servers, which the leader has sent. Of this server's own, keep only the lag."""
        try:
            for age_ms, report in decode_reports(body):
                self._keep(age_ms, report)
        except WireError as error:
            self._server.log.warn_rate_limited("bad_report", "notice", why=error)

    def _keep(self, age_ms: int, report: Report) -> None:
        if report.server == self._server.me:
            self._lag = report.lag
        else:
            self.peers[report.server] = (trio_time() - age_ms / 1000, report)

    # -- sampling -----------------------------------------------------------------------------------

    async def run(self) -> None:
        due = trio_time()
        while True:
            due = max(due + SAMPLE_S, trio_time())
            await trio.sleep_until(due)
            self._measure_a_read(due)
            self._check_read_only()
            self._take_sample()
            self._tell()

    def _check_read_only(self) -> None:
        """Log when the read-only mode begins or ends. No event announces its beginning, so it is polled."""
        server = self._server
        if server.clients.leader.read_only is self._read_only:
            return
        self._read_only = server.clients.leader.read_only
        if self._read_only:
            server.log.say("read_only", "warning", why="no leader: clients that accept read-only mode may read")
        else:
            server.log.say("read_only_ended", why="there is a leader again")

    def _measure_a_read(self, due: float) -> None:
        """Record the delay of the event loop and, if the state may be read, that delay plus the time of one read."""
        lag = max(0.0, trio_time() - due)
        self.lag.add(lag * 1000)
        if self._server.clients.ready:
            began = time.perf_counter()
            self._server.machine.tree.nodes.get(ROOT)
            self.reads.add((lag + time.perf_counter() - began) * 1000)

    def _take_sample(self) -> None:
        server = self._server
        received, _ = server.clients.traffic()
        try:
            applied = server.member.status().counters.applied
            recent = server.member.disk_status().fsyncs_us
        except ZabError:
            return
        latency = server.clients.totals.latency
        last_received, last_applied, last_count, last_sum = self._counted
        self._counted = (received, applied, latency.count, latency.sum)
        count = latency.count - last_count
        self.samples.append(
            Sample(
                max(0, received - last_received),
                max(0, applied - last_applied),
                round((latency.sum - last_sum) / count * 1e6) if count > 0 else 0,
                recent[-1] if recent else 0,
            )
        )

    def _tell(self) -> None:
        member, now = self._server.member, trio_time()
        self.peers = {sid: kept for sid, kept in self.peers.items() if now - kept[0] < FORGET_S}
        try:
            report = self.report()
            if not self._server.role.leading:
                self._server.tell_leader(encode_report(report))
            elif self.peers:
                others = [(round((now - at) * 1000), each) for at, each in self.peers.values()]
                member.tell_members(encode_reports([(0, report), *others]))
        except ZabError:
            pass  # the member is about to end

    def report(self) -> Report:
        """Return the report of this server, now."""
        server = self._server
        member = server.member
        status, loops = member.status(), [*member.watchdogs.problems(), *member.watchdogs.warnings()]
        sample = self.samples[-1] if self.samples else Sample(0, 0, 0, 0)
        return Report(
            server=server.me,
            version=VERSION,
            mode=server.mode,
            serving=status.role.serving,
            voting=status.voting,
            epoch=status.role.epoch,
            applied=server.machine.zxid,
            committed=status.committed,
            last=max(0, status.last),
            lag=0 if server.role.leading else self._lag if status.role.serving else -1,
            connections=len(server.clients.connections),
            sessions=len(server.clients.sessions.attached),
            outstanding=server.clients.totals.open_requests,
            requests_per_s=sample.requests,
            commits_per_s=sample.commits,
            latency_us=sample.latency_us,
            fsync_us=sample.fsync_us,
            elections=status.counters.elections,
            uptime_ms=round(trio_time() * 1000) - server.role.started_ms,
            client_port=server.ports.client or 0,
            admin_port=server.ports.admin or 0,
            warnings=tuple(operator_warnings(status, member.disk_status(), server.machine.mismatch, loops)),
        )

    @property
    def approximate_data_size(self) -> int:
        """The characters of all paths plus the bytes of all data, which the store counts along with its digest."""
        return self._server.machine.digest.data_bytes


def behind(newest: int, applied: int) -> int | None:
    """Return how many transactions `applied` is behind `newest`, at least 0; None if their epochs differ."""
    if epoch_of(Zxid(applied)) != epoch_of(Zxid(newest)):
        return None
    return max(0, counter_of(Zxid(newest)) - counter_of(Zxid(applied)))


def trio_time() -> float:
    return trio.current_time()
