"""Answers fetches of consumers and followers, at once or after a delay."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from attrs import evolve

from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.core.state import Broker
from replica.core.errors import ErrorCode, KafkaError
from replica.core.fetching.fetch_session_cache import BEGIN
from replica.core.fetching.follower_fetch_sessions import FollowerFetchSession, FollowerFetchSessions
from replica.core.outbox import Outbox
from replica.core.partitions.leader_role import LeaderRole
from replica.core.partitions.partition import Partition
from replica.core.purgatory import DelayedFetch, DelayedOperationPurgatory
from replica.core.replica_messages import CONSUMER, Fetch, Fetched, FetchPartition, SessionFetched
from replica.core.replica_settings import ReplicaSettings
from replica.core.replication_quota import ReplicationQuotaManager

_NAMES_THE_LEADER: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""Errors of clients with stale metadata. The answer then includes the newest leader that this broker knows, if any."""


class FetchServer:
    """Reads partitions for fetches, delays fetches without enough records, and keeps followers' fetch sessions."""

    def __init__(
        self,
        settings: ReplicaSettings,
        partitions: Mapping[TopicPartition, Partition],
        find: Callable[[TopicPartition], Partition],
        fail: Callable[[Partition, str], None],
        live: Mapping[BrokerId, Broker],
        purgatory: DelayedOperationPurgatory,
        outbox: Outbox,
    ) -> None:
        """`find` returns a partition or raises; `fail` takes a partition offline after a storage error."""
        self.sessions = FollowerFetchSessions(settings.session_partitions_max)
        self.quota = ReplicationQuotaManager()
        """Limits the bytes of throttled partitions that are sent to followers outside of the ISR
        (`leader.replication.throttled.rate`)."""
        self._settings = settings
        self._partitions = partitions
        self._find = find
        self._fail = fail
        self._live = live
        self._purgatory = purgatory
        self._outbox = outbox

    def fetch(self, token: int, asked: Fetch, now: int) -> list[Fetched] | None:
        """Return the answer; None if the fetch is delayed."""
        if asked.session is not None:
            return self._fetch_in_session(token, asked, now)
        if asked.replica >= 0:
            self._close_session(asked.replica)
        results = self.read(asked, asked.parts, now, counts=asked.replica >= 0)
        if not asked.parts or self._answers_at_once(asked, results):
            self._record(asked, results, now)
            return results
        self._purgatory.delay_fetch(DelayedFetch(token, now + asked.wait_ms, asked))
        return None

    def _answers_at_once(self, asked: Fetch, results: Sequence[Fetched]) -> bool:
        return asked.wait_ms <= 0 or _is_enough(asked, results) or len(self._purgatory) >= self._settings.parked_max

    def answer(self, delayed: DelayedFetch, now: int) -> None:
        """Answer a delayed fetch with the available records."""
        if delayed.session:
            session = self.sessions.of(delayed.fetch.replica)
            if session is None or session.id != delayed.session:
                self._purgatory.answer(delayed.token, _no_session())
            else:
                news = self._news(session, delayed.fetch, now)
                self._purgatory.answer(delayed.token, self._told(session, delayed.fetch, news, now))
            return
        results = self.read(delayed.fetch, delayed.fetch.parts, now)
        self._record(delayed.fetch, results, now)
        self._purgatory.answer(delayed.token, results)

    # -- the end of a turn ---------------------------------------------------------------------------------

    def complete(self, now: int) -> None:
        """Answer the delayed fetches that are complete after the changes of this turn.

        A follower's fetch is examined after an append, a consumer's after the high watermark has advanced. It is
        complete if its answer has enough bytes, an error, a diverging epoch or another replica to read from. With
        `follower_reads`, a new high watermark also completes the fetches of followers. A change of role, or
        DeleteRecords, completes all fetches of the partition.
        """
        purgatory = self._purgatory
        while purgatory.changed or purgatory.appended or purgatory.committed:
            changed, appended = tuple(purgatory.changed), set(purgatory.appended)
            committed = set(purgatory.committed)
            for each in (purgatory.changed, purgatory.appended, purgatory.committed):
                each.clear()
            for where in changed:
                for delayed in purgatory.fetches(where):
                    self.answer(delayed, now)
            for where in sorted(appended | committed):
                for delayed in purgatory.fetches(where):
                    self._complete_one(delayed, now, appended=where in appended, committed=where in committed)
            self._complete_in_sessions(changed, appended, committed, now)

    def _complete_one(self, delayed: DelayedFetch, now: int, *, appended: bool, committed: bool) -> None:
        asked = delayed.fetch
        if asked.replica == CONSUMER:
            if not committed:
                return
        elif not (appended or self._settings.follower_reads):
            # A follower receives the high watermark with its next fetch response. A response for each high watermark
            # would double the number of fetches, so one is sent at once only if consumers read from followers.
            return
        results = self.read(asked, asked.parts, now)
        urgent = asked.replica != CONSUMER and committed and self._settings.follower_reads
        if urgent or _is_enough(asked, results):
            self._record(asked, results, now)
            self._purgatory.answer(delayed.token, results)

    def _complete_in_sessions(
        self,
        changed: Collection[TopicPartition],
        appended: Collection[TopicPartition],
        committed: Collection[TopicPartition],
        now: int,
    ) -> None:
        """Mark the partitions as dirty in all sessions, and answer the sessions' delayed fetches that are complete.
        Each session is examined once, however many of its partitions changed."""
        at_once: dict[FollowerFetchSession, bool] = {}
        for where in (*changed, *appended, *committed):
            self.sessions.disturb(where)
            must = where in changed or (self._settings.follower_reads and where in committed)
            if must or where in appended or self._settings.follower_reads:
                for session in self.sessions.holding(where):
                    at_once[session] = must or at_once.get(session, False)
        for session, must in at_once.items():
            delayed = self._purgatory.fetch_in(session.id)
            if delayed is not None:
                news = self._news(session, delayed.fetch, now)
                if must or _is_enough(delayed.fetch, news):
                    self._purgatory.answer(delayed.token, self._told(session, delayed.fetch, news, now))

    # -- sessions of followers -----------------------------------------------------------------------------

    def _fetch_in_session(self, token: int, asked: Fetch, now: int) -> list[Fetched] | None:
        place = asked.session
        assert place is not None
        former = self.sessions.of(asked.replica)
        if place.epoch == BEGIN or (former is not None and self._purgatory.fetch_in(former.id) is not None):
            # A follower that sends a new request has abandoned the delayed one, so its session has missed an answer.
            self._close_session(asked.replica)
        if place.epoch == BEGIN:
            session = self.sessions.begin(asked, now) if asked.replica in self._live else None
            if session is None:
                return self.fetch(token, evolve(asked, session=None), now)
        else:
            try:
                session = self.sessions.next_of(asked, now)
            except KafkaError as error:
                return SessionFetched(0, (), error.code)
        news = self._news(session, asked, now, counts=True)
        if self._answers_at_once(asked, news):
            return self._told(session, asked, news, now)
        self._purgatory.delay_fetch(DelayedFetch(token, now + asked.wait_ms, asked, session.id))
        return None

    def _close_session(self, replica: BrokerId) -> None:
        session = self.sessions.of(replica)
        if session is None:
            return
        self.sessions.close(replica)
        delayed = self._purgatory.fetch_in(session.id)
        if delayed is not None:
            self._purgatory.answer(delayed.token, _no_session())

    def _news(self, session: FollowerFetchSession, asked: Fetch, now: int, *, counts: bool = False) -> list[Fetched]:
        """Read the dirty partitions, and return the results that the follower must receive. Mark the other dirty
        partitions as clean if possible."""
        news = []
        for result in self.read(asked, session.to_look_at(), now, counts=counts):
            if session.is_news(result):
                news.append(result)
            else:
                self._rest(session, result.where)
        return news

    def _told(self, session: FollowerFetchSession, asked: Fetch, news: Sequence[Fetched], now: int) -> SessionFetched:
        self._record(asked, news, now)
        for result in news:
            session.tell(result)
            if not result.records:
                self._rest(session, result.where)
        return SessionFetched(session.id, news)

    def _rest(self, session: FollowerFetchSession, where: TopicPartition) -> None:
        """Mark a partition as clean if a fetch of it would return nothing, and would change only the time of the
        follower's last fetch."""
        partition = self._partitions.get(where)
        if partition is None or not isinstance(partition.role, LeaderRole):
            return
        leading, request, end = partition.role, session.requests[where], partition.log.end_offset
        follower = leading.followers.get(session.replica)
        if (
            follower is not None
            and request.leader_epoch == leading.epoch
            and request.offset == follower.end_offset == end == partition.high_watermark
            and request.start_offset == follower.start_offset
            and session.replica in leading.isr.members
            and session.last_sent.get(where) == (end, partition.log.start_offset)
        ):
            session.rest(where, follower)

    # -- reading -------------------------------------------------------------------------------------------

    def read(self, asked: Fetch, parts: Iterable[FetchPartition], now: int, *, counts: bool = False) -> list[Fetched]:
        """Read these partitions in order. When the answer is full, the remaining results have no records.

        The first batch is returned whole, whatever its size: otherwise a reader could never pass it. With `counts`, a
        follower's fetch acknowledges the records before its offset. Only the first read of a fetch does this, not the
        later reads of a delayed one.
        """
        room = min(asked.bytes_max, self._settings.answer_bytes_max)
        first = True
        results = []
        throttles = asked.replica >= 0 and bool(self.quota.partitions) and self.quota.open_at(now) > now
        for part in parts:
            partition = None
            try:
                partition = self._find(part.where)
                throttled = throttles and self._is_throttled(asked, part.where)
                result = partition.read(asked, part, now, room, first, counts, throttled)
            except KafkaError as error:
                if error.code is ErrorCode.KAFKA_STORAGE_ERROR and partition is not None:
                    self._fail(partition, error.text)
                known = partition is not None and error.code in _NAMES_THE_LEADER
                leader = (partition.leader, partition.leader_epoch) if partition is not None and known else None
                result = Fetched(part.where, error.code, leader=leader)
            except Exception as error:
                # A delayed fetch is answered in the turn of another request, which must not fail because of this error.
                self._outbox.note("not_read", partition=str(part.where), raised=error)
                result = Fetched(part.where, ErrorCode.UNKNOWN_SERVER_ERROR)
            if result.records:
                room -= len(result.records)
                first = False
            results.append(result)
        return results

    def _record(self, asked: Fetch, results: Sequence[Fetched], now: int) -> None:
        """Record the throttled bytes of an answer against the quota. Called once for each answer, when it is sent."""
        if asked.replica >= 0 and self.quota.partitions:
            sizes = (len(one.records) for one in results if self._is_throttled(asked, one.where))
            self.quota.record(sum(sizes), now)

    def _is_throttled(self, asked: Fetch, where: TopicPartition) -> bool:
        """Return whether the quota applies to this follower. ISR members are exempt: throttling could remove them from
        the ISR."""
        if where not in self.quota.partitions:
            return False
        partition = self._partitions.get(where)
        role = None if partition is None else partition.role
        return isinstance(role, LeaderRole) and asked.replica not in role.isr.members


def _is_enough(asked: Fetch, results: Sequence[Fetched]) -> bool:
    size = 0
    for result in results:
        if result.error or result.diverging is not None or result.preferred >= 0:
            return True
        size += len(result.records)
    return size >= asked.bytes_min


def _no_session() -> SessionFetched:
    return SessionFetched(0, (), ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
