"""All of them, and those that cannot be.

Names that begin with `M` are rows of the catalogue of bugs that ZooKeeper had; the others are mistakes that
any implementation of this protocol can make.
"""

from __future__ import annotations

from typing import Final

from harness.mutants import (
    broadcast,
    brokers,
    controller,
    epochs,
    limits,
    membership,
    pipeline,
    reigns,
    replication,
    runtime,
    serving,
    storage,
    synchronization,
)
from harness.mutants.edit import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = (
    *epochs.MUTANTS,
    *synchronization.MUTANTS,
    *broadcast.MUTANTS,
    *membership.MUTANTS,
    *storage.MUTANTS,
    *runtime.MUTANTS,
    *pipeline.MUTANTS,
    *serving.MUTANTS,
    *limits.MUTANTS,
    *controller.MUTANTS,
    *brokers.MUTANTS,
    *replication.MUTANTS,
    *reigns.MUTANTS,
)

IMPOSSIBLE: Final[dict[str, str]] = {
    "M10": "ZOOKEEPER-3769, a malformed notification ends the receiver: cores hear values; the tests of wire see to bytes",
    "M18": "a leader ships what it has not durably got: what it reads from its log is applied, hence durable",
    "M21": "memory reused across roles: the machine holds only what is committed, so nothing is ever taken back",
    "M22": "ZOOKEEPER-3023 is M06a",
    "M24": "tasks that outlive a role: a core has no tasks, and what a role wanted is dropped with it",
    "M25": "a log writer that outlives its role: a learner tells its history when the disk has reported all of it",
    "M26": "ZOOKEEPER-4837, a snapshot newer than the cut: snapshots are of applied state, and no cut goes below that",
    "M28": "memory ahead of the log after a failed TRUNC: a disk that fails stops the server, and memory is made anew",
    "appends-kept": "a snapshot leaves appends of the old history pending: whoever gets one has promised the epoch before,"
    " and that promise was durable behind all that it had appended",
    "reports-of-what-is-gone": "what a disk reports of a write counts for what has taken its place: who is told to cut its log, or"
    " gets a snapshot, has promised the epoch before, and that was durable behind all that it had appended, so nothing is"
    " left to be reported; at no cut and no snapshot of 230 histories was there anything",
    "commit-seen-dropped": "a COMMIT between NEWLEADER and UPTODATE is forgotten: UPTODATE comes behind it on the same link,"
    " and tells what was committed when it was sent",
    "leader-serves-early": "a leader serves before it has applied its initial history: the epoch is established behind that"
    " history on its disk, and commits it in the same step",
    "ZOOKEEPER-1573, 3306, 4846": "fuzzy snapshots: one is the state at exactly one zxid, so nothing is replayed twice",
    "KAFKA-4229, 6517, 8532": "whoever hears of a session's end waits for the controller's loop: it ends by cancellation",
    "KAFKA-5642, 7299": "stores asked and brokers told one by one: nothing is wrong but the time; `bench controller`",
    "KAFKA-9866": "elections of who is not in sync, again and again: each is refused; the tests of balance count them",
    "KAFKA-14154": "an answer of a deposed controller to a leader that asks for an ISR: leaders write theirs themselves",
    "KAFKA-1647, 948": "the watermark of a partition that nobody leads is not kept: no log is cut at a watermark, so it is only told late",
    "KAFKA-3427": "a refusal is written as another version: who writes a reply is given its version with the request; the tests of the protocol read each",
    "KAFKA-15608, 20961": "epochs that are lost when a log moves to another directory: logs do not move between directories",
    "ZOOKEEPER-2355": "a follower that lost part of a proposal goes on: a broken link ends what it follows",
    "older-state-shown": "a client is taken in by a server that is behind: to take it in is a transaction, and who has applied that is behind no more",
}
"""Bugs that cannot be written down in this design, or that change nothing that anybody could see, and why."""

BY_NAME: Final = {mutant.name: mutant for mutant in MUTANTS}
assert len(BY_NAME) == len(MUTANTS)

PROFILES: Final[dict[str, str]] = {
    "old-leader-accepted": "two reigns",
    "forgotten-promise-counted": "two reigns",
    "barrier-without-proof": "deposed",
    "barrier-by-old-pong": "deposed",
    "leader-answers-unapplied": "leader's disk lags",
    "observer-synced-to-applied": "leader's disk lags",
    "removed-leader-stays": "leaders leave",
    "membership-hidden-by-a-snapshot": "unseen change",
    "let-in-by-what-it-was-sent": "healed in a change",
    "counted-by-what-it-was-sent": "healed in a change",
    "barrier-outlives-its-link": "links replaced",
    "half-of-the-groups": "groups",
    "groups-not-asked": "groups",
    "weights-not-counted": "groups",
    "epoch-saved-before-the-log": "behind",
    "found-is-synced": "power after",
    "truncation-not-synced": "cut back",
    "M31c": "crowded disk",
    "asked-again-at-once": "leaders go",
    "end-takes-anothers": "owners leave",
    "deleted-by-its-own-list": "not for all",
    "list-of-yesterday": "not for all",
    "read-without-leave": "not for all",
    "told-without-leave": "not for all",
    "first-list-for-all": "not for all",
    "container-goes-with-a-child": "passing",
    "time-since-creation": "passing",
    "written-and-gone": "passing",
    "left-and-still-there": "passing",
    "gone-before-it-was-used": "passing",
    "for-ever-in-a-snapshot": "passing",
    "soft-limits-refuse": "within limits",
    "one-beyond-the-limit": "within limits",
    "limits-not-for-data": "within limits",
    "what-ends-is-counted-on": "within limits",
    "limits-not-in-snapshots": "within limits",
    "deposed-ends-sessions": "leader for a while",
    "ended-by-the-last-leader": "leader for a while",
    "old-end-takes-the-new": "half open",
    "asked-again-after-a-snapshot": "cut off",
    "events-lost-in-a-snapshot": "cut off",
    "events-before-their-snapshot": "cut off",
    "moves-not-resumed": "moves",
    "move-of-order-never-ends": "moves",
    "old-controller-obeyed": "unheard",
    "reign-at-any-version": "contested",
    "anothers-election-taken": "in doubt",
    "link-outlives-a-life": "bounced",
    "cut-records-remembered": "leaders in turn",
    "flushed-though-cut": "leaders in turn",
    "KAFKA-7128": "counted too early",
    "KAFKA-13091": "counted too early",
    "KIP-320": "counted too early",
    "diverging-counts": "counted too early",
    "KIP-279": "epochs apart",
    "epochs-outlive-records": "cut within an epoch",
    "epoch-begins-again": "cut within an epoch",
    "old-is-old": "too long",
    "old-by-its-first": "too old",
    "answered-when-appended": "positions",
    "loaded-before-it-is-committed": "positions",
    "members-lose-positions": "positions",
    "former-members-commit": "positions",
    "cleaned-beyond-the-watermark": "positions",
    "earlier-reign-counts": "led before",
    "told-in-a-later-reign": "led again",
    "cancelled-with-the-last": "moves taken back",
    "cancelled-for-anybody": "moves taken back",
    "news-narrow-the-isr": "asked in vain",
    "former-life-let-in": "let in too late",
    "older-generation-commits": "late commits",
    "older-generation-dealt": "shares on the way",
    "former-bearer-of-a-name": "names outlive ids",
    "half-deleted-led-anew": "half deleted",
    "arrival-of-yesterday": "gone on arrival",
    "read-past-what-is-open": "transactions",
    "aborted-and-told-to-count": "transactions",
    "former-bearer-writes": "transactions",
    "aborted-positions-count": "transactions",
    "positions-forgotten-at-the-end": "transactions",
    "positions-shown-before-the-end": "transactions",
    "unstable-told-as-stable": "transactions",
    "flush-told-and-not-done": "power fails",
    "uncommitted-shown": "left alone",
    "groups-answered-for-unread": "coordinators go",
}
"""Bugs whose situation random scripts seldom reach, and the profile of `harness.profiles` that leads to it."""
assert not PROFILES.keys() - BY_NAME.keys()
