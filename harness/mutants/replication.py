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
        "KIP-279, KAFKA-6361: a follower cuts where its leader's epoch ended, though it is one that it does not have",
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
        "KAFKA-10706: epochs in which nothing was written are not forgotten where a log is cut at its end",
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
        "where a log is cut at its end it keeps the epochs of what was behind",
        (f"{LOG}.truncate_to", "self.epochs.truncate_from_end(offset)", "pass"),
    ),
    of_partitions(
        "epoch-begins-again",
        "what comes of an epoch, when another one has begun in which nothing was written, is taken for its beginning",
        (
            "replica.storage.leader_epochs:LeaderEpochFileCache.assign",
            "at = bisect_right(self._epochs, epoch) - 1",
            "at = bisect_right(self._epochs, epoch) - 1; at = at if self._epochs[at + 1:] == [] else -1",
        ),
    ),
    of_partitions(
        "KAFKA-10432",
        "KAFKA-10432: a start does not find epoch 0 in the batches again",
        (f"{RECOVERY}:_restore_epochs", "if epoch >= 0 and", "if epoch > 0 and"),
        (
            f"{RECOVERY}:open_log",
            "epochs = LeaderEpochFileCache(files, folder, kept)",
            "epochs = LeaderEpochFileCache(files, folder, kept and [])",
        ),
    ),
    of_partitions(
        "KAFKA-3410",
        "KAFKA-3410: a follower that has more than its leader takes that for the end of the world",
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
        "an answer that was asked for under an earlier leader is taken in",
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
        "a leader does not look again at a partition of a fetch session in which something happened",
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
        "KIP-320, KAFKA-7395, 6880: a request with another leader epoch is answered",
        (f"{PARTITION}.check_epoch", "if asked == -1 or asked == self.leader_epoch:", "if True:"),
    ),
    of_partitions(
        "restarted-unseen",
        "a leader that lost records while no controller was there leads on in the same leader epoch",
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
        "KAFKA-13091: the high watermark is not computed again when a replica has left the ISR",
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
        "a leader that is none any more writes its ISR over the decision for another one",
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
        "a follower takes its leader's high watermark for its own, though it has less",
        (
            f"{PARTITION}.follow_watermark",
            "committed = max(min(leaders, self.log.end_offset), self.log.start_offset)",
            "committed = leaders",
        ),
    ),
    # -- what is told ----------------------------------------------------------------------------------------
    of_partitions(
        "acknowledged-when-written",
        "a producer that waits for all is told when the leader alone has it",
        (f"{MANAGER}._produce", "if acks == ALL and partition.high_watermark < wanted:", "if False:"),
    ),
    of_partitions(
        "too-few-are-enough",
        "min.insync.replicas is not heeded",
        (
            f"{PARTITION}.enough_in_sync",
            ">= min(self.min_insync, max(len(self.assignment.replicas), 1))",
            ">= 1",
        ),
    ),
    of_partitions(
        "KAFKA-9835",
        "KAFKA-9835, 9807, 9838: a consumer is shown what is not committed",
        (f"{PARTITION}.read", "bound = stable if asked.committed else watermark", "bound = log.end_offset"),
    ),
    # -- what goes ---------------------------------------------------------------------------------------------
    of_partitions(
        "old-is-old",
        "what is too much goes, committed or not",
        (f"{POLICY}:retention", "if segment_end > high_watermark:", "if False:"),
    ),
    of_partitions(
        "wished-away-uncommitted",
        "records are deleted on request that are not committed",
        (
            f"{PARTITION}.delete_records",
            "if not 0 <= offset <= self.high_watermark:",
            "if not 0 <= offset <= self.log.end_offset:",
        ),
    ),
    of_partitions(
        "start-follows-the-leader-back",
        "a follower's log begins again where its leader's does, though what was there is gone",
        (
            f"{PARTITION}.append_as_follower",
            "if fetched.start_offset > log.start_offset:",
            "if fetched.start_offset != log.start_offset:",
        ),
        (f"{LOG}.increment_start_offset", "if offset > self._start:", "if offset != self._start:"),
    ),
    of_partitions(
        "old-by-its-first",
        "a segment is as old as its first record, and younger ones go with it",
        (
            f"{LOG}._must_delete",
            "max_timestamp = newest(segment, now_ms - config.retention_ms)",
            "max_timestamp = segment.first_time()",
        ),
    ),
    of_partitions(
        "shorter-than-it-may-be",
        "a log loses what makes it too long, and a segment more",
        (
            f"{POLICY}:retention",
            "log_size - segment_size >= config.retention_bytes",
            "log_size >= config.retention_bytes",
        ),
    ),
    of_partitions(
        "start-not-followed",
        "what has gone from the leader stays with its followers",
        (f"{PARTITION}.append_as_follower", "if fetched.start_offset > log.start_offset:", "if False:"),
    ),
    of_partitions(
        "cleaned-beyond-the-watermark",
        "a cleaner takes what is replaced by a record that is not committed, and may be cut off",
        ("replica.storage.log_manager:LogManager._cleanable", "bounds.get(partition, 0)", "1 << 60"),
    ),
    # -- positions of groups -----------------------------------------------------------------------------------
    of_partitions(
        "answered-when-appended",
        "a consumer that commits is answered when its position is on its way to the log",
        (
            f"{GROUPS}.offset_commits:OffsetCommits.on_commit",
            "self._groups.store(group, records, now, done)",
            "self._groups.store(group, records, now, lambda *_: None); done(E.NONE, 1 << 40, now)",
        ),
    ),
    of_partitions(
        "loaded-before-it-is-committed",
        "a coordinator shows what it has read before it knows that the others have it",
        (f"{CORE}.coordinator_loader:CoordinatorLoader.advance", "if high_watermark < self._end", "if False"),
    ),
    of_partitions(
        "members-lose-positions",
        "a coordinator that reads of a group that it had members forgets where these were",
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
        "the state of producers exists at the leader only, and is lost with it",
        (
            f"{LOG}._append",
            "if header.producer_id >= 0:",
            "if header.producer_id >= 0 and isinstance(buffer, bytearray):",
        ),
    ),
    of_partitions(
        "cut-records-remembered",
        "a batch that was cut off still counts as written by its producer",
        (
            f"{LOG}.truncate_to",
            "self.producers = self.snapshots.state_at(self._end) if len(self.producers) else ProducerStateManager()",
            "pass",
        ),
    ),
    of_partitions(
        "said-twice-written-twice",
        "a batch that is said again is written again",
        (f"{LOG}._find_duplicate", "written = self.producers.check(header)", "written = None"),
    ),
    of_partitions(
        "any-sequence-will-do",
        "a batch is taken that is not the next one of its producer",
        (f"{PRODUCERS}.check", "if header.base_sequence != expected:", "if False:"),
    ),
    # -- disks -----------------------------------------------------------------------------------------------
    of_partitions(
        "fetched-before-durable",
        "a follower asks for what comes next before its disk has what came before",
        (f"{FETCHER}._due_at", "if self._settings.sync_writes and", "if False and"),
        (f"{FETCHER}.next_request", "if self._settings.sync_writes and", "if False and"),
    ),
    of_partitions(
        "counted-before-durable",
        "what a leader has written counts before its disk has it",
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
        "a flush is told to be done before the files are durable",
        (f"{FLUSHER}.write_out", "sync(self._files, path)", "pass"),
    ),
    of_partitions(
        "flushed-though-cut",
        "what a flush had begun with counts as on the disk when it ends, though it was cut off meanwhile",
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
        "of a follower's last epoch it is asked where it ended, and not whether the leader has it at all",
        (
            f"{DIVERGENCE}:diverging_end",
            "if end.epoch < epoch or end.end_offset < offset:",
            "if end.end_offset < offset:",
        ),
    ),
    of_partitions(
        "durable-though-cut",
        "what takes the place of records that were cut off counts as on the disk, as they did",
        (f"{PARTITION}.truncate_to", "self.durable = min(self.durable, end)", "pass"),
    ),
    of_partitions(
        "deleted-at-the-leader",
        "DeleteRecords is answered when only the leader has deleted the records",
        (f"{LEADER}.least_start", "return UNKNOWN if UNKNOWN in starts else min([own, *starts])", "return own"),
    ),
)
