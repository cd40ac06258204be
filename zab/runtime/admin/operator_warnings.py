"""Warnings for operators, in sentences. A healthy server has no warnings."""

from __future__ import annotations

from typing import Final

from zab.runtime.member import Member
from zab.runtime.status import missing_voters
from zab.runtime.store_server.store_machine import StoreMachine

SLOW_FSYNC_MS: Final = 100
SLOW_FSYNCS: Final = 10
"""A warning needs half of this many last fsyncs to be slow: a single slow fsync means nothing."""
QUEUED_BYTES: Final = 8 << 20


def warnings_of(member: Member, machine: StoreMachine) -> list[str]:
    """Return the warnings about a server: quorum, veto, stalled loops, damage, digest, slow disk, slow links.

    Each is a rule of its own, and the most urgent come first.
    """
    status, disk = member.status(), member.disk_status()
    found = []
    if not status.role.serving:
        found.append("no leader: this server is not part of a quorum, and writes wait")
        if status.cut_off_since is not None:
            found += [f"server {sid} is missing: {why}" for sid, why in missing_voters(status).items()]
    if status.role.veto is not None:
        found.append(
            f"veto: {status.role.veto.text()}; an operator has to decide: a POST to /commands/give_up_history gives "
            "them up; to keep them, stop the others, empty their directories, and start them beside this server"
        )
    if not status.voting:
        found.append("this server does not vote: its history may be incomplete until a leader has given it all")
    found += member.watchdogs.problems() + member.watchdogs.warnings()
    found += [f"damaged: {text}" for text in status.damage]
    found += [f"the disk is going bad: {text}" for text in disk.rotten]
    if machine.mismatch is not None:
        found.append(
            f"the tree differs from the leader's at zxid {machine.mismatch.zxid:#x}: "
            "one of them is wrong; compare /commands/hash of the servers"
        )
    recent = sorted(disk.fsyncs_us[-SLOW_FSYNCS:])
    if len(recent) == SLOW_FSYNCS and recent[SLOW_FSYNCS // 2] > SLOW_FSYNC_MS * 1000:
        found.append(f"the disk is slow: half of the last fsyncs took more than {recent[SLOW_FSYNCS // 2] // 1000} ms")
    for link in status.links:
        if link.queued_bytes > QUEUED_BYTES:
            found.append(f"the link to server {link.peer} is slow: {link.queued_bytes >> 20} MiB wait to be sent")
    return found
