"""Mistakes that are none: what they change, nobody can see. Each with the reason."""

from __future__ import annotations

from typing import Final

EQUIVALENT: Final[dict[str, str]] = {
    # -- ZAB ---------------------------------------------------------------------------------------------
    "checkers.delivery Agreement._deliver: never `place < reached`": (
        "what was delivered already is compared one by one from now on: more slowly, with the same result"
    ),
    "checkers.delivery Agreement._deliver: never `place == reached`": (
        "deliveries are compared one by one from the first on: more slowly, with the same result"
    ),
    "checkers.delivery Agreement._deliver: `place != reached` for `place == reached`": (
        "the first delivery has place 0 where 0 are reached; so they are compared one by one from there on"
    ),
    "checkers.delivery Integrity.applied: never `self._seen.get(batch.first) is batch`": (
        "the very same batch is compared with what was proposed again, and found equal again"
    ),
    "checkers.delivery Integrity.applied: without `self._seen[batch.first] = batch`": (
        "as no batch is known, each is compared with what was proposed whenever it is delivered"
    ),
    "checkers.ghost Ghost.log: never `self.batches.get(batch.first) is batch`": (
        "the very same batch is logged again, and of what is known already nothing is changed"
    ),
    "checkers.history SameZxidSameTransaction.appended: never `ghost.batches.get(batch.first) is batch`": (
        "the payloads of the very same batch are compared with themselves"
    ),
    "checkers.leadership LeaderCompleteness.established: 1 for 0 in `make(epoch, 0)`": (
        "no transaction has the counter 0, and what is sought is the last one before the epoch's first, which has 1"
    ),
    # -- the specification -------------------------------------------------------------------------------
    "spec.actions promise: `epoch >= s.accepted` for `epoch > s.accepted`": (
        "it is asked only when the promise on the disk becomes another one"
    ),
    # -- the store ---------------------------------------------------------------------------------------
    "checkers.store.order replies: `one.told_place >= other.told_place` for `one.told_place > other.told_place`": (
        "no two replies have one place"
    ),
    "checkers.store.replay Replay.__init__: `zxid < last` for `zxid <= last`": (
        "changes of one zxid that are neighbours are one group"
    ),
    "checkers.store.calls Calls._match: `known.zxid <= group.zxid` for `known.zxid < group.zxid`": (
        "what is looked for is claimed by no call, so no call has its zxid"
    ),
    "checkers.store.sequences check: without `call.write` in `call.write and call.group is not None and"
    " (not call.group.refused)`": "only writes have a group",
    "checkers.store.sequences check: without `request.op == 'create'` in `request.op == 'create' and"
    " 'sequential' in request.mode`": "only a create has a mode",
    "checkers.store.judge Verdict.held: without `self.store.held` in `self.store.held and"
    " isinstance(self.linear, linear.Legal)`": "what broke a promise is not searched for an order",
    # -- linearizability ---------------------------------------------------------------------------------
    "checkers.linear.decide _proved: never `wrong is not None`": (
        "it stands between a wrong checker and its user; there is none here"
    ),
}
