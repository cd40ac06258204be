"""Warnings for operators, in sentences and as a log line. A healthy server has no warnings.

The functions are pure: the values and the time are arguments, and the caller logs or shows the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from zab.core.zxid import Millis, ServerId
from zab.service.health.status import DiskStatus, Status
from zab.store.store import Mismatch

SLOW_FSYNC_MS: Final = 100
SLOW_FSYNCS: Final = 10
"""The number of recent fsyncs that are checked. The disk counts as slow if at least half of them are slow."""
QUEUED_BYTES: Final = 8 << 20
QUORUM_MISSED_MS: Final = 3_000
"""The time without a quorum after which the log names each missing server and the reason."""


def operator_warnings(status: Status, disk: DiskStatus, mismatch: Mismatch | None, loops: Sequence[str]) -> list[str]:
    """Return the warnings about a server: quorum, veto, vote, loops, damage, bad disk, digest, slow disk, slow links.

    The most urgent warnings come first. `mismatch` is the store's last mismatch; `loops` are the watchdogs' sentences
    about dead and stalled loops.
    """
    found = []
    if not status.role.serving:
        leader = status.role.leader
        if leader not in (None, status.server):
            found.append(f"not serving yet: this server follows leader {leader}, and is still being synchronized")
        elif status.role.veto is None:
            found.append("no leader yet: this server does not serve, and writes wait")
        if status.cut_off_since is not None:
            found += [f"server {sid} is missing: {why}" for sid, why in missing_voters(status).items()]
    if status.role.veto is not None:
        found.append(
            f"veto: this server stays out of the ensemble: {status.role.veto.text()}; unless a leader with these "
            "transactions takes over, an operator has to decide: a POST to /commands/give_up_history gives them up; to "
            "keep them, stop the other servers, empty their directories except for `myid`, and start the others again "
            "while this server runs"
        )
    if not status.voting:
        found.append("this server does not vote: history or promises may be missing until a leader has healed it")
    found += loops
    found += [f"damaged: {text}" for text in status.damage]
    found += disk.rotten
    if mismatch is not None:
        found.append(
            f"the tree differs from the leader's at zxid {mismatch.zxid:#x}: "
            "one of the two is wrong; compare /commands/hash of the servers"
        )
    recent = sorted(disk.fsyncs_us[-SLOW_FSYNCS:])
    if len(recent) == SLOW_FSYNCS and recent[SLOW_FSYNCS // 2] > SLOW_FSYNC_MS * 1000:
        found.append(
            f"the disk is slow: half of the last {SLOW_FSYNCS} fsyncs took {recent[SLOW_FSYNCS // 2] // 1000} ms or "
            "more"
        )
    for link in status.links:
        if link.queued_bytes > QUEUED_BYTES:
            found.append(f"the link to server {link.peer} is slow: {link.queued_bytes >> 20} MiB wait to be sent")
    return found


def quorum_loss(status: Status, now: Millis) -> Mapping[str, int | str] | None:
    """Return the fields of the line `no_quorum`, or None if there is nothing to log yet.

    The line names each missing server with the reason. It is due once the present election has lasted for
    `QUORUM_MISSED_MS` and no quorum has sent votes in it. An ordinary election is over before that.
    """
    since = status.cut_off_since
    if since is None or now - since < QUORUM_MISSED_MS:
        return None
    missing = {f"server_{sid}": why for sid, why in missing_voters(status).items()}
    return {"for_s": (now - since) // 1000, **missing}


def missing_voters(status: Status) -> dict[ServerId, str]:
    """Return the other voters that have sent no vote in the present election, with the reasons."""
    found: dict[ServerId, str] = {}
    for sid in status.ensemble.voters:
        if sid == status.server or sid in status.responsive:
            continue
        if sid in status.election_links:
            found[sid] = "connected, but it sends no votes"
        else:
            found[sid] = status.election_failures.get(sid, "not reached yet")
    return found
