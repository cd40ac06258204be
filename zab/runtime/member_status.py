"""The status of a running member: the present state of all its parts, as frozen values."""

from __future__ import annotations

from zab.core.node import Node
from zab.core.ready import Recovered
from zab.core.zxid import ServerId
from zab.runtime.election_links import ElectionLinks
from zab.runtime.links import Links
from zab.runtime.snapshot_restorer import SnapshotRestorer
from zab.runtime.snapshot_taker import SnapshotTaker
from zab.runtime.turn_runner import TurnRunner
from zab.runtime.writer import Writer
from zab.service.batch_applier import BatchApplier
from zab.service.forwarding.pending_submissions import PendingSubmissions
from zab.service.forwarding.request_path import RequestPath
from zab.service.health.role_reporter import RoleReporter
from zab.service.health.status import Counters, DiskStatus, Status
from zab.storage.disk import Disk
from zab.storage.storage import Storage


class MemberStatus:
    """Builds a member's `Status` from its parts, without changing them."""

    def __init__(
        self,
        me: ServerId,
        node: Node,
        recovered: Recovered,
        pending: PendingSubmissions,
        requests: RequestPath,
        roles: RoleReporter,
        turns: TurnRunner,
        applier: BatchApplier,
        restorer: SnapshotRestorer,
        links: Links,
        elections: ElectionLinks,
        writer: Writer,
        snapshots: SnapshotTaker,
        storage: Storage,
        disk: Disk,
    ) -> None:
        self._me = me
        self._node = node
        self._recovered = recovered
        self._pending = pending
        self._requests = requests
        self._roles = roles
        self._turns = turns
        self._applier = applier
        self._restorer = restorer
        self._links = links
        self._elections = elections
        self._writer = writer
        self._snapshots = snapshots
        self._storage = storage
        self._disk = disk

    def member(self) -> Status:
        """Return the present status of the member."""
        node, disk = self._node, self._writer.counts
        counters = Counters(
            submits=self._pending.submits,
            proposals=self._requests.queue.proposed,
            batches=self._requests.queue.batches,
            applied=self._applier.applied,
            applied_bytes=self._applier.applied_bytes,
            elections=node.elections,
            barriers=self._requests.barriers.completed,
            refusals=self._requests.intake.refused,
            snapshots=self._snapshots.status.taken,
            restores=self._restorer.restores,
            diffs_sent=self._links.diffs,
            snapshots_sent=self._links.snapshots,
            turns=self._turns.turns,
            fsyncs=disk.fsyncs,
            fsync_us=disk.fsync_us,
            fsync_us_max=disk.fsync_us_max,
            logged_bytes=disk.logged_bytes,
        )
        return Status(
            server=self._me,
            role=self._roles.role,
            ensemble=node.ensemble,
            pending=node.pending,
            last=node.last,
            durable=node.durable,
            committed=node.committed,
            applied=node.applied,
            synced=node.synced,
            voting=node.voting,
            damage=() if node.voting else self._recovered.damage,
            cut_off_since=node.cut_off_since,
            responsive=node.responsive_voters,
            outstanding=len(self._pending),
            links=self._links.status(),
            election_links=self._elections.links(),
            election_failures=self._elections.failures(),
            counters=counters,
        )

    def disk(self) -> DiskStatus:
        """Return the present state of the log and the snapshots."""
        path = getattr(self._disk, "path", None)
        return DiskStatus(
            path=None if path is None else str(path),
            log_path=None if path is None else str(getattr(self._disk, "log_path", path)),
            fsyncs_us=tuple(self._writer.counts.recent_us),
            writes=self._writer.counts.writes,
            backlog_bytes=self._writer.backlog_bytes,
            snapshot=self._snapshots.status,
            rotten=self._storage.warnings,
        )
