"""The limits of a member: of its queues, frames, waits and retries."""

from __future__ import annotations

from attrs import frozen

from zab.core.argument_names import checks_arguments
from zab.core.settings_checks import check_ordered, check_settings


@checks_arguments
@frozen
class Limits:
    """Counts, bytes and times. A name with `bytes`, `ms` or `us` (microseconds) has that unit.

    submits_max, submit_bytes_max  open requests of this member; further ones wait
    request_bytes_max              one request
    leaders_lost_max               a request is refused once this many leaders in a row were lost while it was under
                                   way. The last of these leaders receives it alone: no other request of the member is
                                   under way then. At least 2
    batch_entries_max, batch_bytes_max   one batch of proposals
    frame_bytes_max                one frame of a learner link; holds a whole batch
    snapshot_chunk_bytes_max       one chunk of a snapshot; one that is larger than a frame travels in pieces
    election_frame_bytes_max       one frame of an election link
    link_bytes_max, link_frames_max      unsent data of one link; overflow closes the link
    inbox_bytes_max                data that waits to be processed or written to the disk; above it, no more is read
                                   from other servers
    pause_us_max                   how long a write to the disk may hold up the event loop; on a slower disk, or if this
                                   is 0, a thread writes instead
    links_max                      learner links at one time, accepted and dialled; one more is not accepted
    handshakes_max                 connections without a valid hello, per port. Connections of known addresses (of
                                   members, or with an earlier valid hello) and of unknown ones are counted separately.
                                   One more connection closes the oldest of the address that has the most
    handshake_ms, connect_ms       how long a peer may take to send its hello, or to be reached
    parting_ms                     how long a server may stay connected, or connect again, after it left the membership
    linger_ms                      how long a closing link may take to send its queued messages
    redial_ms_min, redial_ms_max   pause between attempts to reach a peer for an election
    strangers_max                  servers outside the known memberships with which election links are kept
    snap_entries, snap_bytes       transactions, or their bytes, applied between two snapshots: each time a random value
                                   from half of this to all of it
    snapshots_kept                 the newest snapshots; older ones are purged, with the log that only they need
    resume_bytes_min               if a leader sends a state of this size or more to a learner, it also writes the state
                                   to its disk: if the link breaks, it sends the rest from there
    """

    submits_max: int = 20_000
    submit_bytes_max: int = 32 << 20
    request_bytes_max: int = 1 << 20
    leaders_lost_max: int = 3
    batch_entries_max: int = 4_096
    batch_bytes_max: int = 1 << 20
    frame_bytes_max: int = 16 << 20
    election_frame_bytes_max: int = 512 << 10
    link_bytes_max: int = 64 << 20
    link_frames_max: int = 100_000
    inbox_bytes_max: int = 4 << 20
    pause_us_max: int = 0
    links_max: int = 256
    handshakes_max: int = 20
    handshake_ms: int = 5_000
    connect_ms: int = 5_000
    parting_ms: int = 60_000
    linger_ms: int = 1_000
    redial_ms_min: int = 50
    redial_ms_max: int = 1_000
    strangers_max: int = 64
    snap_entries: int = 100_000
    snap_bytes: int = 64 << 20
    snapshots_kept: int = 3
    resume_bytes_min: int = 4 << 20
    snapshot_chunk_bytes_max: int = 1 << 30

    def __attrs_post_init__(self) -> None:
        # A frame of less than 100 bytes could not hold a header and an entry, and every link would close. With a linger
        # of 0 ms, a closing link ends at once.
        check_settings(
            self, {"frame_bytes_max": 100, "linger_ms": 0, "strangers_max": 0, "pause_us_max": 0, "leaders_lost_max": 2}
        )
        check_ordered(self, "redial_ms_min", "redial_ms_max")
