"""Replication: where a follower cuts, who counts as in sync, what is committed, and who is told so."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from harness.mutants.edit import Mutant, mutant

CORE: Final = "replica.core"
DIVERGENCE: Final = f"{CORE}.partitions.divergence"
FETCHER: Final = f"{CORE}.fetching.replica_fetcher:ReplicaFetcher"
LEADER: Final = f"{CORE}.partitions.leader_role:LeaderRole"
PARTITION: Final = f"{CORE}.partitions.partition:Partition"
ISR: Final = f"{CORE}.partitions.isr:Isr"
MANAGER: Final = f"{CORE}.replica_manager:ReplicaManager"
LOG: Final = "replica.storage.unified_log:UnifiedLog"
FLUSHER: Final = "replica.storage.log_flusher:LogFlusher"
RECOVERY: Final = "replica.storage.log_loader"
POLICY: Final = f"{CORE}.partitions.log_policy"
FAILOVER: Final = "kraft_controller.core.controller_failover:ControllerFailover"
PRODUCERS: Final = "replica.storage.producer_state:ProducerStateManager"
GROUPS: Final = f"{CORE}.groups"


def of_partitions(name: str, bug: str, *edits: tuple[str, str, str]) -> Mutant:
    return evolve(mutant(name, bug, *edits), voters=(1,), machine="partitions")


MUTANTS: Final[tuple[Mutant, ...]] = (
    # -- where histories part ----------------------------------------------------------------------------
    of_partitions(
        "KIP-101",
        "KIP-101, KAFKA-1211: a new follower truncates its log to its own high watermark",
        (
            f"{FETCHER}.add",
            "self._dirty[partition.where] = None",
            "self._dirty[partition.where] = None; partition.truncate_to(partition.high_watermark)",
        ),
    ),
    of_partitions(
        "KIP-101-divergence",
        "KIP-101: histories are not compared, and a follower as long as the leader fetches the next records",
        (f"{DIVERGENCE}:diverging_end", "if epoch == NO_EPOCH:", "if True:"),
        (f"{FETCHER}.add", "if not self._settings.fetch_diverges and", "if False and"),
    ),
    of_partitions(
        "KIP-279",
        "KIP-279, KAFKA-6361: a follower truncates to the end of its leader's epoch although it lacks that epoch",
        (
            f"{DIVERGENCE}:truncation_offset",
            """
            if own.epoch != leaders.epoch:
                cut, settled = min(own.end_offset, end), False
            else:
                cut, settled = min(leaders.end_offset, own.end_offset, end), True
            """,
            """
            cut, settled = min(leaders.end_offset, end), True
            """,
        ),
    ),
    of_partitions(
        "KAFKA-10706",
        "KAFKA-10706: a truncation at the log end keeps epochs without records",
        (
            f"{LOG}.truncate_to",
            "self.epochs.truncate_from_end(offset)",
            "offset < self._end and self.epochs.truncate_from_end(offset)",
        ),
        (
            f"{DIVERGENCE}:last_epoch",
            "return log.epoch_for_offset(end - 1) if end > log.start_offset else NO_EPOCH",
            "return log.latest_epoch",
        ),
    ),
    of_partitions(
        "epochs-outlive-records",
        "a truncation at the log end keeps the epochs of truncated records",
        (f"{LOG}.truncate_to", "self.epochs.truncate_from_end(offset)", "pass"),
    ),
    of_partitions(
        "epoch-begins-again",
        "records of an epoch, after another epoch without records has begun, count as the start of their epoch",
        (
            "replica.storage.leader_epochs:LeaderEpochFileCache.assign",
            "at = bisect_right(self._epochs, epoch) - 1",
            "at = bisect_right(self._epochs, epoch) - 1; at = at if self._epochs[at + 1:] == [] else -1",
        ),
    ),
    of_partitions(
        "KAFKA-10432",
        "KAFKA-10432: recovery does not find epoch 0 in the batches",
        (f"{RECOVERY}:_restore_epochs", "if epoch >= 0 and", "if epoch > 0 and"),
        (
            f"{RECOVERY}:open_log",
            "epochs = LeaderEpochFileCache(files, folder, kept)",
            "epochs = LeaderEpochFileCache(files, folder, kept and [])",
        ),
    ),
    of_partitions(
        "KAFKA-3410",
        "KAFKA-3410: a follower with more records than its leader stops for good",
        (
            f"{PARTITION}.truncate_to",
            """
            if offset < self.high_watermark:
            """,
            """
            if offset < self.high_watermark and 1 / 0:
            """,
        ),
    ),
    of_partitions(
        "diverging-counts",
        "a follower with a diverging log counts as one that has the records before its fetch offset",
        (
            f"{PARTITION}.read",
            "diverging = diverging_end(log, part.last_epoch, part.offset)",
            (
                "have = part.offset, part.start_offset, now; "
                "diverging = diverging_end(log, part.last_epoch, part.offset); "
                "counts and self._follower_has(self.leading(), follower, *have)"
            ),
        ),
    ),
    of_partitions(
        "old-answers-count",
        "a fetch response from an earlier leader epoch is accepted",
        (
            f"{CORE}.fetching.replica_fetcher_manager:ReplicaFetcherManager.answered",
            "fetcher = self._fetchers.get(request.leader)",
            "fetcher = self._fetchers.get(request.leader) or next(iter(self._fetchers.values()), None)",
        ),
        (f"{FETCHER}._still", "or role.epoch != epoch", ""),
        (f"{FETCHER}._take_each", "if partition.log.end_offset == ends[where]:", "if True:"),
    ),
    of_partitions(
        "clean-for-ever",
        "a leader does not check a partition of a fetch session again after a change in it",
        (
            f"{CORE}.fetching.follower_fetch_sessions:FollowerFetchSessions.disturb",
            "if where not in session.dirty:",
            "if False:",
        ),
    ),
    of_partitions(
        "lost-answer-counts",
        "a fetch session continues after a request whose response was lost",
        (f"{FETCHER}.failed", "self._begin_session()", "self._in_flight = None"),
        (
            f"{CORE}.fetching.follower_fetch_sessions:FollowerFetchSessions.next_of",
            "if session.epoch != place.epoch:",
            "if False:",
        ),
    ),
    of_partitions(
        "KIP-320",
        "KIP-320, KAFKA-7395, 6880: requests with another leader epoch are served",
        (f"{PARTITION}.check_epoch", "if asked == -1 or asked == self.leader_epoch:", "if True:"),
    ),
    of_partitions(
        "restarted-unseen",
        "a leader that lost records while there was no controller continues in the same leader epoch",
        (f"{FAILOVER}._restarted", "0 < state.written < known.epoch", "False"),
    ),
    # -- who is in sync, and what is committed -------------------------------------------------------------
    of_partitions(
        "isr-not-looked-at",
        "KAFKA-2729, of replicas with data: a leader whose ISR was refused does not read the present state",
        (f"{PARTITION}.isr_doubtful", "self.outbox.reads.append(ReadIsr(self.where, leading.epoch))", "pass"),
        (f"{PARTITION}.update", "leading.isr.update(state.isr, state.version)", "pass"),
    ),
    of_partitions(
        "KAFKA-7128",
        "KAFKA-7128: a replica joins the ISR at a new leader's high watermark, though earlier leaders committed more",
        (f"{LEADER}.may_join", "and follower.end_offset >= self.start_offset", ""),
    ),
    of_partitions(
        "KAFKA-13091",
        "KAFKA-13091: the high watermark is not computed again when a replica leaves the ISR",
        (f"{PARTITION}._isr_changed", "self.advance(now)", "pass"),
        (f"{PARTITION}.shrink_isr", "self.advance(now)", "pass"),
    ),
    of_partitions(
        "left-before-it-is-written",
        "a leader stops waiting for a replica that is leaving the ISR before the store has confirmed the change",
        (f"{ISR}.ask", "self.maximal = frozenset(self.members).union(members)", "self.maximal = frozenset(members)"),
    ),
    of_partitions(
        "old-leader-writes-its-isr",
        "a deposed leader writes its ISR over the election of another one",
        (
            f"{ISR}.read",
            """
            return self.gone()
            """,
            """
            self.version = state.version
            return Doubt.ASK_AGAIN
            """,
        ),
    ),
    of_partitions(
        "nobody-waited-for",
        "the leader's log end is the high watermark, whichever replicas have the records",
        (
            f"{LEADER}.committed",
            "if has < least and (follower.id in maximal or self._joins(follower, end, now, live, settings)):",
            "if False:",
        ),
    ),
    of_partitions(
        "watermark-beyond-the-log",
        "a follower adopts its leader's high watermark although its own log is shorter",
        (
            f"{PARTITION}.follow_watermark",
            "committed = max(min(leaders, self.log.end_offset), self.log.start_offset)",
            "committed = leaders",
        ),
    ),
    # -- what is told ----------------------------------------------------------------------------------------
    of_partitions(
        "acknowledged-when-written",
        "a produce with acks=all is answered when only the leader has it",
        (f"{MANAGER}._produce", "if acks == ALL and partition.high_watermark < wanted:", "if False:"),
    ),
    of_partitions(
        "too-few-are-enough",
        "min.insync.replicas is ignored",
        (
            f"{PARTITION}.enough_in_sync",
            ">= min(self.min_insync, max(len(self.assignment.replicas), 1))",
            ">= 1",
        ),
    ),
    of_partitions(
        "KAFKA-9835",
        "KAFKA-9835, 9807, 9838: a consumer reads uncommitted records",
        (f"{PARTITION}.read", "bound = stable if asked.committed else watermark", "bound = log.end_offset"),
    ),
    # -- what goes ---------------------------------------------------------------------------------------------
    of_partitions(
        "old-is-old",
        "retention deletes uncommitted records",
        (f"{POLICY}:retention", "if segment_end > high_watermark:", "if False:"),
    ),
    of_partitions(
        "wished-away-uncommitted",
        "DeleteRecords deletes uncommitted records",
        (
            f"{PARTITION}.delete_records",
            "if not 0 <= offset <= self.high_watermark:",
            "if not 0 <= offset <= self.log.end_offset:",
        ),
    ),
    of_partitions(
        "start-follows-the-leader-back",
        "a follower lowers its log start offset to the leader's, although it has no records there",
        (
            f"{PARTITION}.append_as_follower",
            "if fetched.start_offset > log.start_offset:",
            "if fetched.start_offset != log.start_offset:",
        ),
        (f"{LOG}.increment_start_offset", "if offset > self._start:", "if offset != self._start:"),
    ),
    of_partitions(
        "old-by-its-first",
        "a segment has the age of its first record, so retention deletes younger ones with it",
        (
            f"{LOG}._must_delete",
            "max_timestamp = newest(segment, now_ms - config.retention_ms)",
            "max_timestamp = segment.first_time()",
        ),
    ),
    of_partitions(
        "shorter-than-it-may-be",
        "retention by size deletes one segment too many",
        (
            f"{POLICY}:retention",
            "log_size - segment_size >= config.retention_bytes",
            "log_size >= config.retention_bytes",
        ),
    ),
    of_partitions(
        "start-not-followed",
        "followers keep records that the leader has deleted",
        (f"{PARTITION}.append_as_follower", "if fetched.start_offset > log.start_offset:", "if False:"),
    ),
    of_partitions(
        "cleaned-beyond-the-watermark",
        "a cleaner removes records that only uncommitted records replace",
        ("replica.storage.log_manager:LogManager._cleanable", "bounds.get(partition, 0)", "1 << 60"),
    ),
    # -- positions of groups -----------------------------------------------------------------------------------
    of_partitions(
        "answered-when-appended",
        "an offset commit is answered when it is appended, before it is committed",
        (
            f"{GROUPS}.offset_commits:OffsetCommits.on_commit",
            "self._groups.store(group, records, now, done)",
            "self._groups.store(group, records, now, lambda *_: None); done(E.NONE, 1 << 40, now)",
        ),
    ),
    of_partitions(
        "loaded-before-it-is-committed",
        "a coordinator serves loaded records before they are known to be committed",
        (f"{CORE}.coordinator_loader:CoordinatorLoader.advance", "if high_watermark < self._end", "if False"),
    ),
    of_partitions(
        "members-lose-positions",
        "a coordinator that loads a group with members drops the group's offsets",
        (f"{GROUPS}.group_loading:GroupLoading.build", "if positions:", "if positions and name not in groups:"),
    ),
    of_partitions(
        "former-members-commit",
        "a former member of the group, or one of an earlier generation, may commit offsets",
        (
            f"{GROUPS}.offset_commits:refusal",
            "if (error := group.member_error(who)) is not None:",
            "if error := None:",
        ),
        (f"{GROUPS}.offset_commits:refusal", "if who.generation != group.generation:", "if False:"),
    ),
    # -- producers -------------------------------------------------------------------------------------------
    of_partitions(
        "followers-know-no-producers",
        "only leaders keep producer state, so a new leader has none",
        (
            f"{LOG}._append",
            "if header.producer_id >= 0:",
            "if header.producer_id >= 0 and isinstance(buffer, bytearray):",
        ),
    ),
    of_partitions(
        "cut-records-remembered",
        "a truncated batch still counts as written by its producer",
        (
            f"{LOG}.truncate_to",
            "self.producers = self.snapshots.state_at(self._end) if len(self.producers) else ProducerStateManager()",
            "pass",
        ),
    ),
    of_partitions(
        "said-twice-written-twice",
        "a repeated batch is written again",
        (f"{LOG}._find_duplicate", "written = self.producers.check(header)", "written = None"),
    ),
    of_partitions(
        "any-sequence-will-do",
        "a batch is accepted with any sequence number",
        (f"{PRODUCERS}.check", "if header.base_sequence != expected:", "if False:"),
    ),
    # -- disks -----------------------------------------------------------------------------------------------
    of_partitions(
        "fetched-before-durable",
        "a follower fetches the next records before the last ones are durable",
        (f"{FETCHER}._due_at", "if self._settings.sync_writes and", "if False and"),
        (f"{FETCHER}.next_request", "if self._settings.sync_writes and", "if False and"),
    ),
    of_partitions(
        "counted-before-durable",
        "a leader counts its own records before they are durable",
        (
            f"{PARTITION}.counted_end",
            "return min(self.durable, end) if self.settings.sync_writes else end",
            "return end",
        ),
    ),
    of_partitions(
        "found-is-durable",
        "a broker counts writes of its previous process as durable without a flush",
        (f"{PARTITION}.__attrs_post_init__", "self.durable = log.start_offset", "self.durable = log.end_offset"),
    ),
    of_partitions(
        "flushed-in-name",
        "a flush ends before the files are synced",
        (f"{FLUSHER}.write_out", "sync(self._files, path)", "pass"),
    ),
    of_partitions(
        "flushed-though-cut",
        "a flush counts for records that were truncated since its start",
        (f"{FLUSHER}.finish", "if flush.truncations == self.truncations:", "if True:"),
    ),
    of_partitions(
        "half-a-failed-disk",
        "a broker whose disk fails during its election as leader keeps half of its former role",
        (
            f"{MANAGER}._become_leaders_or_followers",
            "self._fail(partition, error.text)  # its role may be half changed",
            "pass",
        ),
        (
            f"{CORE}.fetching.replica_fetcher_manager:ReplicaFetcherManager.remove",
            """
            self._outbox.leaders[leader] = None
            partition.end_following()
            """,
            """
            self._outbox.leaders[leader] = None
            """,
        ),
    ),
    of_partitions(
        "ends-alone-compared",
        "a follower compares only the ends of epochs, not whether the leader has its last epoch",
        (
            f"{DIVERGENCE}:diverging_end",
            "if end.epoch < epoch or end.end_offset < offset:",
            "if end.end_offset < offset:",
        ),
    ),
    of_partitions(
        "durable-though-cut",
        "records that replace truncated durable records count as durable",
        (f"{PARTITION}.truncate_to", "self.durable = min(self.durable, end)", "pass"),
    ),
    of_partitions(
        "deleted-at-the-leader",
        "DeleteRecords is answered when only the leader has deleted the records",
        (f"{LEADER}.least_start", "return UNKNOWN if UNKNOWN in starts else min([own, *starts])", "return own"),
    ),
)
