"""The settings of the coordination store."""

from __future__ import annotations

from typing import Final, Protocol

from attrs import frozen

from zab.core.argument_names import checks_arguments
from zab.core.settings_checks import check_settings
from zab.store.acl import DEFAULT_ACCESS, ENTRIES_MAX, ID_CHARS_MAX, Access

TXN_BYTES_MAX: Final = (16 << 20) - (64 << 10)
"""The default limit of a transaction's size: the default of `Limits.frame_bytes_max` less 64 KiB, more than the other
fields of a frame need. A server uses the exact limit (`txn_bytes_max_of`)."""


@checks_arguments
@frozen
class StoreSettings:
    """Settings of the store.

    `enforce_quota`, `extended_types` and `access` are settings of ZooKeeper. Only the leader uses the first two; each
    server uses its own `access` for reads and watches, and the leader's `access` decides about writes.

    checkpoints          record the tree's digest at every 4096th zxid, and compare it with the leader's
    acl_entries_max      entries of an ACL that a client sets, with `auth` expanded; a longer ACL that is in the state
                         already stays in force
    acl_id_chars_max     characters of one id in an ACL that a client sets, except for ids that come from `auth`
    path_depth_max       names in the path of a new node: quotas and recursive watches look at each ancestor
    multi_ops_max        operations of one multi
    ephemeral_bytes_max  characters in the paths of one session's ephemeral nodes, and 64 more for each node: one
                         transaction closes the session and deletes all of them
    """

    access: Access = DEFAULT_ACCESS
    enforce_quota: bool = False
    extended_types: bool = False
    checkpoints: bool = True
    acl_entries_max: int = ENTRIES_MAX
    acl_id_chars_max: int = ID_CHARS_MAX
    path_depth_max: int = 100
    multi_ops_max: int = 10_000
    ephemeral_bytes_max: int = 2 << 20

    def __attrs_post_init__(self) -> None:
        check_settings(self, {})


DEFAULT_SETTINGS: Final = StoreSettings()


class ReadLimits(Protocol):
    """The limits of the reads and watches of one server's clients. None: no limit."""

    @property
    def multi_read_bytes_max(self) -> int | None: ...
    @property
    def watches_per_client_max(self) -> int | None: ...
    @property
    def watches_max(self) -> int | None: ...


@frozen
class NoReadLimits:
    """No limits: for a store without a server around it."""

    multi_read_bytes_max: None = None
    watches_per_client_max: None = None
    watches_max: None = None


NO_READ_LIMITS: Final = NoReadLimits()
