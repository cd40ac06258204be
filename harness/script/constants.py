"""The constants and settings of the product that scripts draw beside the `Knobs`: timers, windows, limits, batch sizes.

No operator sets most of them, and their usual values are out of reach in a short run: a checkpoint at each 4096th zxid,
a check every ten minutes. A script has the small values that it draws. `in_force` changes them for the time of
one run. A row names a constant of a module, or a field of a module's settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Final

from attrs import evolve, frozen

from harness.script.names import MACHINES, WITH_BROKERS


@frozen
class Constant:
    where: str
    """`module:NAME`, or `module:NAME.field` for a field of an attrs object. The harness has such objects for settings
    that a run does not draw in another way."""
    values: tuple[int, ...]
    machines: tuple[str, ...] = MACHINES
    """The systems under test that use the constant."""
    also: tuple[str, ...] = ()
    """The other modules that have the constant, because they import it by name or must agree with it."""


@frozen
class Drawn:
    """A constant that a script changes."""

    name: str
    value: int


STORE: Final = ("store", *WITH_BROKERS)
PARTITIONS: Final = ("partitions",)
_SETTINGS: Final = "harness.worlds.common:SETTINGS"
_PORTS: Final = "harness.worlds.cores.store.client_service:PORTS"
_LIMITS: Final = "harness.worlds.cores.store.server:LIMITS"
_REPLICAS: Final = "harness.worlds.cores.partitions.simulator:REPLICAS"
_LOGS: Final = "harness.worlds.cores.partitions.simulator:LOGS"
_MANAGER: Final = "harness.worlds.cores.partitions.disk:MANAGER"
_GROUPS: Final = "harness.worlds.cores.partitions.group_coordinator:SETTINGS"
_TRANSACTIONS: Final = "harness.worlds.cores.partitions.transaction_coordinator:SETTINGS"
_SESSIONS: Final = "harness.worlds.cores.partitions.consumer_sessions:LIMITS"
_STATES: Final = ("zab.wire.apache.snapshot_stream",)

CONSTANTS: Final[Mapping[str, Constant]] = {
    # consensus
    # Not 1: a server that is still in its election drops a link after `dial_retry_ms` times the attempts, which may be
    # 1 ms. Then a learner that dials once, a little before its leader's election ends, gives up at every election.
    "dial_attempts": Constant("zab.core.learner.learner:DIAL_ATTEMPTS", (2, 3, 10), also=("zab.core.node",)),
    "progress_log_ms": Constant("zab.core.sync_progress:PROGRESS_LOG_MS", (1, 20)),
    "outstanding_bytes_max": Constant(f"{_SETTINGS}.outstanding_bytes_max", (1, 200, 1_000)),
    "window_bytes": Constant(f"{_SETTINGS}.window_bytes", (1, 200, 1_000)),
    "log_gather_bytes": Constant("zab.storage.transaction_log:GATHER_BYTES_MAX", (1, 100, 500)),
    "snapshot_gather_bytes": Constant("zab.storage.snapshot_files:_GATHER_BYTES", (1, 50, 300)),
    "snapshot_sync_bytes": Constant("zab.storage.snapshot_files:_SYNC_BYTES", (1, 100)),
    # the store
    "checkpoint_every": Constant("zab.store.digest:CHECKPOINT_EVERY", (1, 2, 8), STORE, ("zab.store.store",)),
    "checkpoints_kept": Constant("zab.store.digest:HISTORY_LENGTH", (1, 2, 5), STORE),
    "digest_changed_max": Constant("zab.store.digest:CHANGED_MAX", (0, 1, 4), STORE, ("zab.store.store",)),
    "digest_known_max": Constant("zab.store.digest:KNOWN_MAX", (0, 1, 3), STORE),
    "chunk_nodes": Constant("zab.store.store_snapshot:CHUNK_NODES", (1, 2, 5), STORE, _STATES),
    "chunk_bytes_min": Constant("zab.store.store_snapshot:CHUNK_BYTES", (1, 50, 200), STORE, _STATES),
    "acl_scanned_max": Constant("zab.store.acl:_SCANNED_MAX", (0, 1), STORE),
    "reaper_part_ms": Constant("zab.service.container_reaper:PART_MS", (1, 20, 100), STORE),
    "containers_per_minute_max": Constant(f"{_PORTS}.containers_per_minute_max", (1, 120), STORE),
    "containers_ms": Constant(f"{_PORTS}.containers_ms", (1, 20, 300), STORE),
    "requests_max": Constant(f"{_PORTS}.requests_max", (1, 2, 5), STORE),
    "requests_total_max": Constant(f"{_PORTS}.requests_total_max", (1, 3, 10), STORE),
    "unsent_bytes_max": Constant(f"{_PORTS}.unsent_bytes_max", (1, 200), STORE),
    "cut_off_ticks": Constant("zab.service.session_tracker:CUT_OFF_TICKS", (0, 1, 10), STORE),
    "slept_checks": Constant(
        "zab.service.session_tracker:SLEPT_CHECKS", (1, 2, 10), STORE, ("harness.worlds.cores.store.client_service",)
    ),
    "patience": Constant(
        "zab.service.session_tracker:PATIENCE", (2, 5), STORE, ("harness.worlds.cores.store.client_service",)
    ),
    "pending_slack": Constant("zab.service.forwarding.pending_submissions:SLACK", (0, 1, 5), STORE),
    "changes_pending_max": Constant("zab.service.forwarding.membership_changes:PENDING_MAX", (1, 2), STORE),
    "change_attempts_max": Constant("zab.service.config_node:ATTEMPTS_MAX", (1, 2, 3), STORE),
    "forwarded_max": Constant("zab.service.forwarding.request_forwarder:REQUESTS_MAX", (1, 2, 5), STORE),
    "submits_max": Constant(f"{_LIMITS}.submits_max", (1, 2, 8), STORE),
    "submit_bytes_max": Constant(f"{_LIMITS}.submit_bytes_max", (1, 300, 1_000), STORE),
    "leaders_lost_max": Constant(f"{_LIMITS}.leaders_lost_max", (2, 10), STORE),
    "batch_entries_max": Constant(f"{_LIMITS}.batch_entries_max", (1, 2, 7), STORE),
    "batch_bytes_max": Constant(f"{_LIMITS}.batch_bytes_max", (1, 200, 1_000), STORE),
    "xid_max": Constant("zab.client.client_protocol:_XID_MAX", (2, 7, 40), STORE),
    "client_requests_max": Constant(
        "harness.worlds.recorded:SETTINGS.requests_max", (1, 2, 5), STORE, ("harness.worlds.cores.store.client",)
    ),
    "watch_bytes_max": Constant(
        "harness.worlds.recorded:SETTINGS.watch_bytes_max", (1, 30), STORE, ("harness.worlds.cores.store.client",)
    ),
    # the controller
    "partitions_created_max": Constant(
        "kraft_controller.core.topics.topic_changes:PARTITIONS_CREATED_MAX", (1, 2), WITH_BROKERS
    ),
    "partitions_deleted_max": Constant(
        "kraft_controller.core.topics.topic_deletion:PARTITIONS_DELETED_MAX", (1, 2), WITH_BROKERS
    ),
    "merged_max": Constant("kraft_controller.core.event_queue:MERGED_MAX", (0, 1, 2), WITH_BROKERS),
    "states_max": Constant("kraft_controller.wire.znode_store:STATES_MAX", (1, 2, 3), WITH_BROKERS),
    "deletions_max": Constant("kraft_controller.wire.znode_store:DELETIONS_MAX", (1, 2, 3), WITH_BROKERS),
    "command_piece_max": Constant("kraft_controller.core.command_handler:PIECE_MAX", (1, 2), WITH_BROKERS),
    "store_tries_max": Constant(
        "kraft_controller.core.store_requests:TRIES_MAX",
        (2, 3),
        WITH_BROKERS,
        ("kraft_controller.wire.znode_store", "kraft_controller.wire.epoch_fence"),
    ),
    # replication
    "stuck_repeats": Constant("replica.core.partitions.remote_replica:STUCK_REPEATS", (1, 2), PARTITIONS),
    "throttle_pause_ms": Constant("replica.core.replication_quota:PAUSE_MS", (1, 50, 300), PARTITIONS),
    "fetch_bytes_max": Constant(f"{_REPLICAS}.fetch_bytes_max", (1, 300, 2_000), PARTITIONS),
    "answer_bytes_max": Constant(f"{_REPLICAS}.answer_bytes_max", (1, 300, 2_000), PARTITIONS),
    "partition_bytes_max": Constant(f"{_REPLICAS}.partition_bytes_max", (1, 100, 2_000), PARTITIONS),
    "fetch_wait_ms": Constant(f"{_REPLICAS}.fetch_wait_ms", (1, 20, 250), PARTITIONS),
    "fetch_backoff_ms": Constant(f"{_REPLICAS}.fetch_backoff_ms", (1, 200), PARTITIONS),
    "isr_backoff_ms": Constant(f"{_REPLICAS}.isr_backoff_ms", (1, 200), PARTITIONS),
    "session_partitions_max": Constant(f"{_REPLICAS}.session_partitions_max", (1, 2), PARTITIONS),
    # logs of brokers
    "index_interval_bytes": Constant(f"{_LOGS}.index_interval_bytes", (1, 1_000), PARTITIONS),
    "segment_ms": Constant(f"{_LOGS}.segment_ms", (1, 100, 500), PARTITIONS),
    "flush_ms": Constant(f"{_LOGS}.flush_ms", (1, 100), PARTITIONS),
    "segment_index_bytes": Constant(f"{_LOGS}.segment_index_bytes", (12, 24, 60), PARTITIONS),
    "file_delete_delay_ms": Constant(f"{_LOGS}.file_delete_delay_ms", (50, 500), PARTITIONS),
    "flush_bytes": Constant("replica.storage.log_flusher:FLUSH_BYTES", (1, 300), PARTITIONS),
    "producer_snapshot_bytes": Constant("replica.storage.unified_log:SNAPSHOT_BYTES", (1, 200, 1_000), PARTITIONS),
    "positions_max": Constant("replica.storage.log_segments:_POSITIONS_MAX", (1, 2), PARTITIONS),
    "look_bytes": Constant("replica.storage.log_segment:_LOOK_BYTES", (61, 200), PARTITIONS),
    "recovery_bytes": Constant("replica.storage.log_loader:_CHUNK_BYTES", (61, 200, 700), PARTITIONS),
    "cleaner_keys_max": Constant(f"{_MANAGER}.cleaner_keys_max", (1, 2, 5), PARTITIONS),
    "open_files_max": Constant(f"{_MANAGER}.open_files_max", (1, 4), PARTITIONS),
    # coordinators and clients of brokers
    "session_epoch_max": Constant(
        "replica.core.fetching.fetch_session_cache:EPOCH_MAX",
        (30, 100),
        PARTITIONS,
        (
            "replica.core.fetching.follower_fetch_sessions",
            "replica.core.fetching.replica_fetcher",
            "harness.checkers.partitions.fetch_sessions",
        ),
    ),
    "session_slots_max": Constant(f"{_SESSIONS}.slots_max", (0, 1, 4), PARTITIONS),
    "session_keep_ms": Constant(f"{_SESSIONS}.keep_ms", (0, 50, 2_000), PARTITIONS),
    "sessions_partitions_max": Constant(f"{_SESSIONS}.partitions_max", (1, 3), PARTITIONS),
    "first_sequence": Constant(
        "harness.worlds.cores.partitions.clients:FIRST_SEQUENCE", (2**31 - 1, 2**31 - 2, 2**31 - 20), PARTITIONS
    ),
    "greatest_epoch": Constant(
        "replica.core.transactions.transaction_messages:GREATEST_EPOCH",
        (2, 3, 5),
        PARTITIONS,
        ("replica.core.transactions.transaction_metadata",),
    ),
    "rebalance_delay_ms": Constant(f"{_GROUPS}.group_initial_rebalance_delay_ms", (0, 50), PARTITIONS),
    "member_join_ms": Constant(f"{_GROUPS}.new_member_join_timeout_ms", (150, 400), PARTITIONS),
    "tombstones_per_batch": Constant("replica.core.groups.group_expiration:TOMBSTONES_PER_BATCH", (1, 2), PARTITIONS),
    "offsets_retention_ms": Constant(f"{_GROUPS}.offsets_retention_ms", (100, 500), PARTITIONS),
    "offsets_check_ms": Constant(f"{_GROUPS}.offsets_retention_check_interval_ms", (20, 150), PARTITIONS),
    "load_bytes": Constant("harness.worlds.cores.partitions.coordinator:PACE.read_bytes", (1, 100, 2_000), PARTITIONS),
    "id_expiration_ms": Constant(f"{_TRANSACTIONS}.id_expiration_ms", (200, 1_000), PARTITIONS),
    "id_expiry_check_ms": Constant(f"{_TRANSACTIONS}.expiry_check_ms", (20, 150), PARTITIONS),
    "markers_max": Constant(
        "harness.worlds.cores.partitions.transaction_coordinator:MARKERS.partitions_max", (1, 2), PARTITIONS
    ),
}


@contextmanager
def in_force(drawn: Sequence[Drawn]) -> Iterator[None]:
    """Change the constants inside the block.

    The modules that a run uses must be imported before: a module that is imported inside the block, and imports a
    constant by name, would keep its changed value.
    """
    with ExitStack() as stack:
        for each in drawn:
            constant = CONSTANTS[each.name]
            where, _, path = constant.where.partition(":")
            name, _, setting = path.partition(".")
            value = evolve(getattr(import_module(where), name), **{setting: each.value}) if setting else each.value
            for module in map(import_module, (where, *constant.also)):
                stack.callback(setattr, module, name, getattr(module, name))
                setattr(module, name, value)
        yield
