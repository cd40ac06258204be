"""Answering fetches, of followers and of consumers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from attrs import evolve

from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition
from replica.core import upkeep
from replica.core.desk import Desk
from replica.core.errors import ErrorCode, KafkaError, OffsetOutOfRange
from replica.core.followers import UNKNOWN, Follower
from replica.core.following import Following, diverges
from replica.core.leading import Leading
from replica.core.partition import Partition
from replica.core.partition_log import AbortedTxn, FetchDataInfo
from replica.core.purgatory import ParkedFetch
from replica.core.replica_sessions import BEGIN, ReplicaSession
from replica.core.wants import CONSUMER, Fetch, Fetched, SessionFetched, Wanted

_SAY_WHO_LEADS: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def fetch(desk: Desk, token: int, asked: Fetch, now: int) -> list[Fetched] | None:
    """None: it is parked, and answered when there is enough, or when its time is over."""
    if asked.session is not None:
        return _fetch_in_session(desk, token, asked, now)
    if asked.replica >= 0:
        _close_session(desk, asked.replica)
    results = read(desk, asked, asked.parts, now, counts=asked.replica >= 0)
    if not asked.parts or _is_answered(desk, asked, results):
        _sent(desk, asked, results, now)
        return results
    desk.purgatory.park_fetch(ParkedFetch(token, now + asked.wait_ms, asked))
    return None


def _is_answered(desk: Desk, asked: Fetch, results: Sequence[Fetched]) -> bool:
    """Whether it is answered at once."""
    return asked.wait_ms <= 0 or _is_enough(asked, results) or len(desk.purgatory) >= desk.settings.parked_max


def _is_enough(asked: Fetch, results: Sequence[Fetched]) -> bool:
    size = 0
    for result in results:
        if result.error or result.diverging is not None or result.preferred >= 0:
            return True
        size += len(result.records)
    return size >= asked.bytes_min


def wake(desk: Desk, now: int) -> None:
    """After a turn. Followers wait for what is appended, consumers for what is committed, and both have to know when
    this broker has become something else, or the log begins elsewhere."""
    while desk.changed or desk.appended or desk.committed:
        changed, appended, committed = tuple(desk.changed), set(desk.appended), set(desk.committed)
        for each in (desk.changed, desk.appended, desk.committed):
            each.clear()
        for where in changed:
            for parked in desk.purgatory.fetches(where):
                answer(desk, parked, now)
        for where in sorted(appended | committed):
            for parked in desk.purgatory.fetches(where):
                _look(desk, parked, now, appended=where in appended, committed=where in committed)
        _wake_sessions(desk, changed, appended, committed, now)


def _wake_sessions(
    desk: Desk,
    changed: Collection[TopicPartition],
    appended: Collection[TopicPartition],
    committed: Collection[TopicPartition],
    now: int,
) -> None:
    """The same for sessions. Each is looked at once, however many of its partitions have something new."""
    at_once: dict[ReplicaSession, bool] = {}
    for where in (*changed, *appended, *committed):
        desk.disturb(where)
        must = where in changed or (desk.settings.follower_reads and where in committed)
        if must or where in appended or desk.settings.follower_reads:
            for session in desk.sessions.holding(where):
                at_once[session] = must or at_once.get(session, False)
    for session, must in at_once.items():
        parked = desk.purgatory.fetch_in(session.id)
        if parked is not None:
            news = _news(desk, session, parked.fetch, now)
            if must or _is_enough(parked.fetch, news):
                desk.purgatory.answer(parked.token, _told(desk, session, parked.fetch, news, now))


# -- sessions of followers -----------------------------------------------------------------------------------


def _fetch_in_session(desk: Desk, token: int, asked: Fetch, now: int) -> list[Fetched] | None:
    place = asked.session
    assert place is not None
    former = desk.sessions.of(asked.replica)
    if place.epoch == BEGIN or (former is not None and desk.purgatory.fetch_in(former.id) is not None):
        # A follower that asks before it was answered does not wait for that answer: what it was told is unknown.
        _close_session(desk, asked.replica)
    if place.epoch == BEGIN:
        session = desk.sessions.begin(asked, now) if asked.replica in desk.live else None
        if session is None:
            return fetch(desk, token, evolve(asked, session=None), now)
    else:
        try:
            session = desk.sessions.next_of(asked)
        except KafkaError as error:
            return SessionFetched(0, (), error.code)
        for where in place.forgotten:
            desk.rouse(session, where)
            desk.sessions.forget(session, where)
        for part in asked.parts:
            desk.rouse(session, part.where)
            desk.sessions.wish(session, part)
        session.fetched_ms = now
    news = _news(desk, session, asked, now, counts=True)
    if _is_answered(desk, asked, news):
        return _told(desk, session, asked, news, now)
    desk.purgatory.park_fetch(ParkedFetch(token, now + asked.wait_ms, asked, session.id))
    return None


def _close_session(desk: Desk, replica: BrokerId) -> None:
    session = desk.sessions.of(replica)
    if session is None:
        return
    desk.sessions.close(replica)
    waiting = desk.purgatory.fetch_in(session.id)
    if waiting is not None:
        desk.purgatory.answer(waiting.token, _no_session())


def _no_session() -> SessionFetched:
    return SessionFetched(0, (), ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


def _news(desk: Desk, session: ReplicaSession, asked: Fetch, now: int, *, counts: bool = False) -> list[Fetched]:
    """Look at the dirty partitions, and only at those; partitions without news that are settled are clean from here."""
    news = []
    for result in read(desk, asked, session.to_look_at(), now, counts=counts):
        if session.is_news(result):
            news.append(result)
        else:
            _rest(desk, session, result.where)
    return news


def _told(desk: Desk, session: ReplicaSession, asked: Fetch, news: Sequence[Fetched], now: int) -> SessionFetched:
    _sent(desk, asked, news, now)
    for result in news:
        session.tell(result)
        if not result.records:
            _rest(desk, session, result.where)
    return SessionFetched(session.id, news)


def _rest(desk: Desk, session: ReplicaSession, where: TopicPartition) -> None:
    """Make the partition clean if its next fetch would find nothing and change nothing: see `replica_sessions`."""
    partition = desk.partitions.get(where)
    if partition is None or not isinstance(partition.role, Leading):
        return
    leading, wish, end = partition.role, session.wishes[where], partition.log.end_offset
    follower = leading.followers.get(session.replica)
    if (
        follower is not None
        and wish.leader_epoch == leading.epoch
        and wish.offset == follower.end_offset == end == partition.high_watermark
        and wish.start_offset == follower.start_offset
        and session.replica in leading.isr.members
        and session.told.get(where) == (end, partition.log.start_offset)
    ):
        session.dirty.pop(where, None)
        follower.rest_in(session)


def _look(desk: Desk, parked: ParkedFetch, now: int, *, appended: bool, committed: bool) -> None:
    asked = parked.fetch
    if asked.replica == CONSUMER:
        if not committed:
            return
    elif not (appended or desk.settings.follower_reads):
        # A follower that waits hears of a commit with its next answer. To hear at once matters only to those who read
        # there, and costs as many fetches again.
        return
    results = read(desk, asked, asked.parts, now)
    if _is_enough(asked, results) or (asked.replica != CONSUMER and committed and desk.settings.follower_reads):
        _sent(desk, asked, results, now)
        desk.purgatory.answer(parked.token, results)


def answer(desk: Desk, parked: ParkedFetch, now: int) -> None:
    if parked.session:
        session = desk.sessions.of(parked.fetch.replica)
        if session is None or session.id != parked.session:
            desk.purgatory.answer(parked.token, _no_session())
            return
        news = _news(desk, session, parked.fetch, now)
        desk.purgatory.answer(parked.token, _told(desk, session, parked.fetch, news, now))
        return
    results = read(desk, parked.fetch, parked.fetch.parts, now)
    _sent(desk, parked.fetch, results, now)
    desk.purgatory.answer(parked.token, results)


def _sent(desk: Desk, asked: Fetch, results: Sequence[Fetched], now: int) -> None:
    """It counts when it goes out, however often it was read before."""
    if asked.replica >= 0 and desk.sends_slowly:
        desk.sending.took(sum(len(one.records) for one in results if _is_slowed(desk, asked, one.where)), now)


def _is_slowed(desk: Desk, asked: Fetch, where: TopicPartition) -> bool:
    """To a replica that is to come. One that is in sync has to keep up, or it would leave."""
    partition = desk.partitions.get(where)
    role = None if partition is None else partition.role
    return where in desk.sends_slowly and isinstance(role, Leading) and asked.replica not in role.isr.members


def read(desk: Desk, asked: Fetch, parts: Iterable[Wanted], now: int, *, counts: bool = False) -> list[Fetched]:
    """In the order of these parts, until there are bytes enough. Whoever comes first gets one batch whole, whatever its
    size, or he would never get on.

    counts   who asks is a follower, and this says what he has: once, when the request comes, not when it is answered
    """
    room = min(asked.bytes_max, desk.settings.answer_bytes_max)
    first = True
    results = []
    for part in parts:
        partition = None
        try:
            partition = desk.find(part.where)
            result = _read_one(desk, partition, asked, part, now, room, first, counts)
        except KafkaError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR and partition is not None:
                desk.fail(partition, error.text)
            known = partition is not None and error.code in _SAY_WHO_LEADS
            leader = (partition.leader, partition.leader_epoch) if partition is not None and known else None
            result = Fetched(part.where, error.code, leader=leader)
        except Exception as error:
            # This runs in the turns of others, too: who waits for records is answered in the midst of a write.
            desk.note("not_read", partition=str(part.where), raised=error)
            result = Fetched(part.where, ErrorCode.UNKNOWN_SERVER_ERROR)
        if result.records:
            room -= len(result.records)
            first = False
        results.append(result)
    return results


def _read_one(
    desk: Desk, partition: Partition, asked: Fetch, part: Wanted, now: int, room: int, first: bool, counts: bool
) -> Fetched:
    role, log = partition.role, partition.log
    partition.check_epoch(part.leader_epoch)
    if not (isinstance(role, Following) and asked.any_replica and desk.settings.follower_reads):
        partition.leading()  # raises if it is another, and says who
    follower = None
    if asked.replica >= 0:
        follower = _follower(partition, partition.leading(), asked, part)
    diverging = diverges(log, part.last_epoch, part.offset)
    if diverging is not None:
        # What it has beyond that is not ours, so nothing is learned of what it has.
        return Fetched(
            part.where,
            ErrorCode.NONE,
            partition.high_watermark,
            partition.stable_offset,
            log.start_offset,
            b"",
            diverging,
        )
    if not log.start_offset <= part.offset <= log.end_offset:
        _out_of_range(partition, part)
    if follower is not None and counts:
        assert isinstance(role, Leading)
        upkeep.follower_has(desk, partition, role, follower, part.offset, part.start_offset, now)
    watermark = partition.high_watermark  # read once: the bound of what is handed out is the one that is told
    stable = partition.stable_offset
    if follower is None and isinstance(role, Leading) and asked.rack and desk.settings.follower_reads:
        preferred = _preferred(desk, partition, role, asked.rack, part.offset)
        if preferred != desk.me:
            return Fetched(part.where, ErrorCode.NONE, watermark, stable, log.start_offset, preferred=preferred)
    if follower is not None:
        bound = log.end_offset
    else:
        bound = stable if asked.committed else watermark
        if part.offset > watermark and isinstance(role, Following):
            raise KafkaError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"{part.where}: {part.offset} is not known to be committed; {watermark} is",
            )
    records, aborted = b"", tuple[AbortedTxn, ...]()
    waits = follower is not None and _is_slowed(desk, asked, part.where) and desk.sending.open_at(now) > now
    if part.offset < bound and room > 0 and not waits:
        found = log.read(part.offset, min(part.bytes_max, room), bound, at_least_one=first)
        records = found.records
        if follower is not None and counts and follower.is_stuck:
            _look_after(desk, partition, follower, found)
        if asked.committed and follower is None:
            aborted = log.aborted_in(found)
    return Fetched(part.where, ErrorCode.NONE, watermark, stable, log.start_offset, records, aborted=aborted)


def _look_after(desk: Desk, partition: Partition, follower: Follower, found: FetchDataInfo) -> None:
    """He asks for the same again and again. Perhaps he does not take it, as it has rotted here: then another one who
    has it had better lead. Where there is none what can be read of it is better than nothing."""
    wrong = partition.log.find_corruption(found)
    if wrong is None:
        return
    members = partition.leading().isr.members
    if any(each in desk.live for each in members if each not in (desk.me, follower.id)):
        partition.log.mark_damaged(wrong)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition.where}: {wrong}")
    desk.note("log_rotten", partition=str(partition.where), follower=follower.id, why=wrong)


def _follower(partition: Partition, leading: Leading, asked: Fetch, part: Wanted) -> Follower:
    """Who fetches to replicate says for which leader epoch. A request that does not could come from any time."""
    if part.leader_epoch == -1:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"{part.where}: a replica fetches under no leader epoch")
    follower = leading.followers.get(asked.replica)
    if follower is None:
        # It may have been told already that it is to hold one, and we not yet.
        raise KafkaError(
            ErrorCode.UNKNOWN_LEADER_EPOCH, f"{part.where}: broker {asked.replica} holds no replica, for all we know"
        )
    if asked.broker_epoch == BrokerEpoch(-1) or asked.broker_epoch == follower.broker_epoch:
        return follower
    if asked.broker_epoch < follower.broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"broker {asked.replica} has been started again since, as {follower.broker_epoch}",
        )
    if follower.broker_epoch != -1:
        # Another life: what it had is not what it has. How long it may still be in the ISR is as before.
        follower = leading.followers[follower.id] = Follower(follower.id, follower.last_caught_up_ms)
    follower.broker_epoch = asked.broker_epoch
    return follower


def _out_of_range(partition: Partition, part: Wanted) -> None:
    log, role = partition.log, partition.role
    if isinstance(role, Following) and log.end_offset < part.offset <= role.leader_high_watermark:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{part.where}: {part.offset} is not here yet")
    raise OffsetOutOfRange(f"{part.where} has {log.start_offset} to {log.end_offset}, not {part.offset}")


def _preferred(desk: Desk, partition: Partition, leading: Leading, rack: str, offset: int) -> BrokerId:
    """Of those in the consumer's rack the one who has most; ourselves if we are there, or nobody is."""
    mine = desk.live.get(desk.me)
    if mine is not None and mine.rack == rack:
        return desk.me
    best, most = desk.me, UNKNOWN
    for broker in leading.isr.members:
        follower, there = leading.followers.get(broker), desk.live.get(broker)
        if follower is None or there is None or there.rack != rack:
            continue
        if follower.start_offset <= offset <= follower.end_offset and follower.end_offset > most:
            best, most = broker, follower.end_offset
    return best
