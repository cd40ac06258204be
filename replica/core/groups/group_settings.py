"""The settings of a group coordinator."""

from __future__ import annotations

from attrs import frozen


@frozen
class GroupSettings:
    """The settings. Most are named like a configuration key of the broker, and have its default."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2_147_483_647
    group_member_bytes_max: int = 1_048_576
    """The limit in bytes for the memory that one JoinGroup may take."""
    group_members_bytes_max: int = 268_435_456
    """The limit in bytes for the memory of the members of all groups. A join that would exceed it is refused, unless
    the member sends no more than before."""
    new_member_join_timeout_ms: int = 300_000
    """The longest time for which the first JoinGroup of a member may be pending: the client may be gone."""
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_interval_ms: int = 600_000
