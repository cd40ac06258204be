"""What all parts of the coordinator work with: settings, deadlines, what is being written, and what goes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from attrs import define, field, frozen

from replica.core.coordinating import Done, TopicDesk
from replica.core.errors import ErrorCode
from replica.core.groups.alarms import Alarm, Alarms, Kind
from replica.core.groups.group import Group, Member
from replica.core.groups.holding import Ledger
from replica.core.groups.messages import Reply
from replica.core.groups.ready import Append, Note, Record, StateChanged
from replica.core.groups.states import GroupState, may

E: TypeAlias = ErrorCode


@frozen
class Settings:
    """Named as in a broker's configuration, with what it says when it says nothing."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2_147_483_647
    group_member_bytes_max: int = 1_048_576
    """What one member may say of itself. One more than that has come by mistake, or to do harm."""
    group_members_bytes_max: int = 268_435_456
    """What the members of all groups here hold together: what is beyond is a member of none."""
    new_member_join_timeout_ms: int = 300_000
    """A client that vanished while its first join waited is not waited for longer than this."""
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_interval_ms: int = 600_000


@define(eq=False)
class Desk(TopicDesk[Reply, Append, Note]):
    """new_id      something that nobody else will ever be called
    topics_of   what a consumer's metadata says it wants; None: not understood
    ledger      what the members of all groups hold
    open        groups that have positions in a transaction, by partition and producer
    """

    settings: Settings
    new_id: Callable[[], str]
    topics_of: Callable[[bytes], frozenset[str] | None]
    alarms: Alarms = field(factory=Alarms)
    ledger: Ledger = field(factory=Ledger)
    open: dict[tuple[int, int], dict[str, None]] = field(factory=dict)

    def write(
        self,
        partition: int,
        records: tuple[Record, ...],
        now: int,
        done: Done,
        producer: tuple[int, int] | None = None,
    ) -> None:
        ident = self.writes(partition, done)
        self.appends.append(Append(ident, partition, self.epochs[partition], records, now, producer))

    def move(self, group: Group, state: GroupState, now: int) -> None:
        assert may(group.state, state), f"{group.id}: no way from {group.state} to {state}"
        self.note(StateChanged(group.id, group.state, state, group.generation, len(group.members)))
        group.state = state
        group.since_ms = now

    def session(self, group: Group, member: Member, now: int) -> None:
        """It lives: its session begins anew."""
        self.alarms.set(Alarm(group.id, Kind.SESSION, member.id), now + member.session_timeout_ms)


_COMMIT_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = {
    E.UNKNOWN_TOPIC_OR_PARTITION: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_ENOUGH_REPLICAS: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_LEADER_OR_FOLLOWER: E.NOT_COORDINATOR,
    E.FENCED_LEADER_EPOCH: E.NOT_COORDINATOR,
    E.KAFKA_STORAGE_ERROR: E.NOT_COORDINATOR,
    E.MESSAGE_TOO_LARGE: E.INVALID_COMMIT_OFFSET_SIZE,
    E.RECORD_LIST_TOO_LARGE: E.INVALID_COMMIT_OFFSET_SIZE,
    E.INVALID_FETCH_SIZE: E.INVALID_COMMIT_OFFSET_SIZE,
}
_GROUP_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = {
    **_COMMIT_ERRORS,
    E.REQUEST_TIMED_OUT: E.REBALANCE_IN_PROGRESS,
    E.MESSAGE_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
    E.RECORD_LIST_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
    E.INVALID_FETCH_SIZE: E.UNKNOWN_SERVER_ERROR,
}


def commit_error(error: ErrorCode) -> ErrorCode:
    """What a client hears whose positions could not be written."""
    return _COMMIT_ERRORS.get(error, error)


def group_error(error: ErrorCode) -> ErrorCode:
    """What members hear whose assignment could not be written."""
    return _GROUP_ERRORS.get(error, error)
