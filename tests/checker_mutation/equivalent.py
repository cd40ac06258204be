"""Equivalent mutations, which change no result of a checker, each with the reason."""

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
    "checkers.durability DurableOnQuorum.committed: without `zxid >= until` in"
    " `server.epoch != epoch or zxid >= until`": (
        "what is asked again from now on is what the former quorum has by then"
    ),
    "checkers.durability DurableOnQuorum.committed: `zxid > until` for `zxid >= until`": (
        "what is asked once more is what the former quorum has by then"
    ),
    "checkers.oracle_state OracleState.log: never `self.batches.get(batch.first) is batch`": (
        "the very same batch is logged again, and of what is known already nothing is changed"
    ),
    "checkers.leadership LeaderCompleteness.established: `within <= epoch` for `within < epoch`": (
        "nothing is committed in an epoch before its leader is established"
    ),
    # -- the specification -------------------------------------------------------------------------------
    "checkers.specification promise: `epoch >= s.accepted` for `epoch > s.accepted`": (
        "it is asked only when the promise on the disk becomes another one"
    ),
    # -- the oracle --------------------------------------------------------------------------------------
    "oracle _must: `len(part) >= somebody` for `len(part) > somebody`": "where nobody is left there is no quorum",
    # -- the store ---------------------------------------------------------------------------------------
    "checkers.store.order replies: `one.response_place >= other.response_place`"
    " for `one.response_place > other.response_place`": ("no two replies have one place"),
    "checkers.store.replay Replay.__init__: `zxid < last` for `zxid <= last`": (
        "changes of one zxid that are neighbours are one group"
    ),
    "checkers.store.case Calls._match: `known.zxid <= group.zxid` for `known.zxid < group.zxid`": (
        "what is looked for is claimed by no call, so no call has its zxid"
    ),
    "checkers.store.log numbered: without `request.op == 'create'` in `request.op == 'create' and"
    " 'sequential' in request.mode`": "only a create has a mode",
    "checkers.store.judge Verdict.valid: without `self.store.valid` in `self.store.valid and"
    " isinstance(self.linear, linear.Legal)`": "what broke a promise is not searched for an order",
    "checkers.store.order never_back: 1 for 0 in `(0, None)`": (
        "what shows no zxid is passed over, and none that is shown is below 1"
    ),
    "checkers.store.watches _Session.__init__: 1 for 0 in `self._server = 0`": (
        "it is asked for only where a connection has told something, and whoever is connected has named the server"
    ),
    "checkers.store.watches _Session._after_jumps: without `made.add(one)`": (
        "the same state is found several times, and `_each` keeps it once"
    ),
    "checkers.store.watches _Session._by_event: never `not state.table`": (
        "who watches nothing is told nothing, whatever changes are gone through"
    ),
    "checkers.store.order _early: `call.zxid <= lowest.zxid` for `call.zxid < lowest.zxid`": (
        "no two writes have one zxid"
    ),
    "checkers.store.order _early: `lowest.zxid <= shown.zxid` for `lowest.zxid < shown.zxid`": (
        "no write has the zxid of an end"
    ),
    "checkers.store.watches _Session._watch_event: 1 for 0 in `fired.zxid <= 0`": (
        "no event tells of zxid 1: what is committed first opens a session"
    ),
    "checkers.store.watches _Session._repeated: 1 for 0 in `fired.zxid > 0`": (
        "no event tells of zxid 1: what is committed first opens a session"
    ),
    "checkers.store.watches _Session._by_event: 1 for 0 in `fired.zxid > 0`": (
        "no event tells of zxid 1: what is committed first opens a session"
    ),
    "checkers.store.watches _words: 1 for 0 in `zxid > 0`": (
        "no event tells of zxid 1: what is committed first opens a session"
    ),
    "checkers.store.watches _words: `zxid >= 0` for `zxid > 0`": "what is due has a zxid, or -1 if it is not said",
    "checkers.store.case Calls._match: `place <= low` for `place < low`": (
        "what is at that place has been matched, and is not looked at"
    ),
    "checkers.store.replay Replay.lives: 1 for 0 in `[0]`": "what was never there was not there from any zxid on",
    "checkers.store.image _read: `since >= floor` for `since > floor`": (
        "what was made at the floor is there at the floor, and looked at anyway"
    ),
    "checkers.store.image _explained: `made <= since` for `made < since`": (
        "what was there since then is what it should have been told, and was not"
    ),
    "checkers.store.model Moment.change_for: 1 for 0 in `zxid = 0`": "nobody asks a moment for it",
    "checkers.store.order writes: `one.zxid > other.zxid` for `one.zxid >= other.zxid`": (
        "no two calls have one transaction"
    ),
    # -- limits ------------------------------------------------------------------------------------------
    "checkers.store.quotas check: without `not (quotas.limited or _refused(call.reply))` in `call.reply is None or not"
    " (quotas.limited or _refused(call.reply))`": (
        "where nothing was ever limited, nor refused for that, nothing is wrong: more slowly, with the same result"
    ),
    "checkers.store.quotas _refused_in_every_state: `zxid <= reply.zxid` for `zxid < reply.zxid`": (
        "what was refused changes nothing, so at its zxid all is as it was right before"
    ),
    "checkers.store.silence last_request_before: `written[place][0] <= end` for `written[place][0] < end`": (
        "no write has the zxid of an end"
    ),
    # -- controllers -------------------------------------------------------------------------------------
    "checkers.controller.partitions arrived: without `origin.moving` in `origin.moving and held.replicas =="
    " origin.target`": "what did not move is held by the same as before then, and what is as before was passed over",
    # -- partitions --------------------------------------------------------------------------------------
    "checkers.partitions.replicas Replicas._changed: 1 for 0 in `Version(0)`": "nobody asks for the version of a topic",
    "checkers.partitions.replicas Replicas.catch_up: never `self._place == upto`": (
        "nothing has been committed since then, so there is nothing to go through"
    ),
    "checkers.partitions.replicas Replicas.catch_up: without `change.path.startswith(f'{znodes.DELETE_TOPICS}/')` in"
    " `change.kind == 'create' and change.path.startswith(f'{znodes.DELETE_TOPICS}/')`": (
        "whatever else is created, its path is taken for the name of a topic, and no topic has a path for its name"
    ),
    "checkers.partitions.logs Logs.changed: without `continue`": (
        "what is as it was is looked at once more: more slowly, with the same result"
    ),
    "checkers.partitions.copies Copy.seen: returns at once": (
        "what is as it was is looked at once more: more slowly, with the same result"
    ),
    "checkers.partitions.logs Logs._compare: `watermark >= len(truth.committed)` for"
    " `watermark > len(truth.committed)`": "what is known to be committed is compared once more, and nothing is new",
    "checkers.partitions.logs Logs._compare: without `watermark > len(truth.committed)` in `leads and watermark >"
    " len(truth.committed)`": "what is known to be committed is compared once more, and nothing is new",
    "checkers.partitions.logs Logs._grew: 2 for 1 in `-1`": "no producer's number is below 0",
    "checkers.partitions.copies read_all: 2 for 1 in `1 << 30`": "no log of a run has as many bytes as that",
    "checkers.partitions.copies read_all: 31 for 30 in `1 << 30`": "no log of a run has as many bytes as that",
    "checkers.partitions.copies common: never `one[since:least] == other[since:least]`": (
        "they are compared one by one: more slowly, with the same result"
    ),
    # -- brokers' clients ----------------------------------------------------------------------------------
    "checkers.records.case _Preparing._answer: without `isinstance(answer, Acked)` in `isinstance(answer, Acked) and"
    " made.acknowledged and (answer.offset != NOWHERE)`": "only what is acknowledged is kept",
    "checkers.records.groups positions: without `isinstance(asked.call, Looking)` in `isinstance(asked.call, Looking)"
    " and isinstance(asked.answer, Found)`": "only who looks is answered with what was found",
    "checkers.records.groups _before: `its_place <= others_place` for `its_place < others_place`": (
        "no two events have one place"
    ),
    "checkers.records.polls _Polls._in_order: `span.start + 1` for `span.start - 1`": (
        "what stands in front of the first record has no value, and without one nobody looks at its offset"
    ),
    "checkers.records.polls _Polls._in_order: 2 for 1 in `span.start - 1`": (
        "what stands in front of the first record has no value, and without one nobody looks at its offset"
    ),
    "checkers.records.lost _missing: never `not missing`": "who has read past nothing is looked for in vain: the same",
    "checkers.records.values behind: without `offset != NOWHERE` in `offset != NOWHERE and"
    " sends[event.call].acknowledged`": ("nowhere is below every offset, and raises no watermark"),
    "checkers.records.judge judge: never `not broken`": (
        "it is the verifier that is asked there, and it objects only where a checker is wrong itself"
    ),
    "checkers.records.verify _writes: without `event.producer` in `event.producer and offset <"
    " last.get((event.producer, event.partition), 0)`": "of those without a number no last record is kept",
    "checkers.records.verify _raise: `offset >= floors[-1][1]` for `offset > floors[-1][1]`": (
        "the same offset, known once more and later: whoever asks at any time is told no other"
    ),
    # -- transactions --------------------------------------------------------------------------------------
    "checkers.transactions _placed: `look.answered <= made.asked` for `look.answered < made.asked`": (
        "no two moments of a journal are the same"
    ),
    "checkers.transactions _counts_beyond: `made.told >= look.asked` for `made.told > look.asked`": (
        "no two moments of a journal are the same"
    ),
    "checkers.transactions Journal.moment: 2 for 1 in `self._moments += 1`": "each is later than the one before",
    # -- linearizability ---------------------------------------------------------------------------------
    "checkers.linear.certificate certify: 5 for 4 in `:4`": (
        "the fourth is the number of the operation, which no other has; so the fifth is never compared"
    ),
    "checkers.linear.decide parts: without `leader[key] = leader[leader[key]]`": (
        "it only makes the way to the leader of a part shorter for whoever asks next"
    ),
    "checkers.linear.wgl Search._link: 3 for 2 in `2 * len(self._ops)`": (
        "the head of the line needs a number that no call and no return has, and any beyond them is one"
    ),
    "checkers.linear.wgl Search._link: 2 for 1 in `self._head + 1`": (
        "the end of the line needs a number that nothing else has, and any beyond the head is one"
    ),
    "checkers.linear.wgl Search._place: 2 for 1 in `1 << number - base`": (
        "each operation has the bit beside its own, and no two have one; the lowest is nobody's, so the window never"
        " moves on, and only grows"
    ),
    "checkers.linear.wgl Search._place: never `window & 1`": (
        "what is placed stays in the window, which only grows: it says the same of each state"
    ),
    "checkers.linear.wgl Search._place: 2 for 1 in `1 << number - len(self._known)`": (
        "each operation without an answer has the bit beside its own, and no two have one"
    ),
    "checkers.linear.wgl Search._place: `number + len(self._known)` for `number - len(self._known)`": (
        "each operation without an answer has another bit, and no two have one"
    ),
}
