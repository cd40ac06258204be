"""Equivalent mutations, which change no result of a checker, each with the reason."""

from __future__ import annotations

from typing import Final

EQUIVALENT: Final[dict[str, str]] = {
    # -- ZAB ---------------------------------------------------------------------------------------------
    "checkers.delivery Agreement._deliver: never `place < reached`": (
        "compares delivered transactions one by one from now on: slower, with the same result"
    ),
    "checkers.delivery Agreement._deliver: never `place == reached`": (
        "compares deliveries one by one from the first on: slower, with the same result"
    ),
    "checkers.delivery Agreement._deliver: `place != reached` for `place == reached`": (
        "the first delivery has place 0, and 0 are reached, so they are compared one by one from there on"
    ),
    "checkers.durability DurableOnQuorum.committed: without `zxid >= until` in"
    " `server.epoch != epoch or zxid >= until`": (
        "the repeated check is about transactions that the former quorum has by then"
    ),
    "checkers.durability DurableOnQuorum.committed: `zxid > until` for `zxid >= until`": (
        "the additional check is about a transaction that the former quorum has by then"
    ),
    "checkers.oracle_state OracleState.log: never `self.batches.get(batch.first) is batch`": (
        "the same batch is logged again, which changes no known entry"
    ),
    "checkers.leadership LeaderCompleteness.established: `within <= epoch` for `within < epoch`": (
        "nothing is committed in an epoch before its leader is established"
    ),
    # -- the specification -------------------------------------------------------------------------------
    "checkers.specification promise: `epoch >= s.accepted` for `epoch > s.accepted`": (
        "is called only if the promise on the disk changes"
    ),
    # -- the oracle --------------------------------------------------------------------------------------
    "oracle _must: `len(part) >= somebody` for `len(part) > somebody`": "an empty part is no quorum",
    # -- the store ---------------------------------------------------------------------------------------
    "checkers.store.order replies: `one.response_place >= other.response_place`"
    " for `one.response_place > other.response_place`": ("no two replies have the same index"),
    "checkers.store.replay Replay.__init__: `zxid < last` for `zxid <= last`": (
        "adjacent changes of one zxid are one group"
    ),
    "checkers.store.case Calls._match: `known.zxid <= group.zxid` for `known.zxid < group.zxid`": (
        "no call has claimed the transaction, so no call has its zxid"
    ),
    "checkers.store.log numbered: without `request.op == 'create'` in `request.op == 'create' and"
    " 'sequential' in request.mode`": "only a create has a mode",
    "checkers.store.judge Verdict.valid: without `self.store.valid` in `self.store.valid and"
    " isinstance(self.linear, linear.Legal)`": "linearizability is not checked after a violation",
    "checkers.store.order never_back: 1 for 0 in `(0, None)`": (
        "events without a zxid are skipped, and no zxid is below 1"
    ),
    "checkers.store.watches _Session.__init__: 1 for 0 in `self._server = 0`": (
        "is used only after an event of a connection, which has set the server"
    ),
    "checkers.store.watches _Session._after_jumps: without `made.add(one)`": (
        "finds the same state several times, and `_each` keeps it once"
    ),
    "checkers.store.order _early: `call.zxid <= lowest.zxid` for `call.zxid < lowest.zxid`": (
        "no two writes have the same zxid"
    ),
    "checkers.store.order _early: `lowest.zxid <= shown.zxid` for `lowest.zxid < shown.zxid`": (
        "no write has the zxid of an end"
    ),
    "checkers.store.watches _Session._watch_event: 1 for 0 in `fired.zxid <= 0`": (
        "no event has zxid 1: the first transaction opens a session"
    ),
    "checkers.store.watches _Session._repeated: 1 for 0 in `fired.zxid > 0`": (
        "no event has zxid 1: the first transaction opens a session"
    ),
    "checkers.store.watches _Session._bound: 1 for 0 in `fired.zxid > 0`": (
        "no event has zxid 1: the first transaction opens a session"
    ),
    "checkers.store.watches _words: 1 for 0 in `zxid > 0`": (
        "no event has zxid 1: the first transaction opens a session"
    ),
    "checkers.store.watches _words: `zxid >= 0` for `zxid > 0`": "a due event has a zxid, or -1 if it is unknown",
    "checkers.store.case Calls._match: `place <= low` for `place < low`": (
        "the call at that index is matched already, and skipped"
    ),
    "checkers.store.replay Replay.lives: 1 for 0 in `[0]`": "a path that never existed is missing at every zxid",
    "checkers.store.image _read: `since >= floor` for `since > floor`": (
        "the state that was made at the floor is compared anyway"
    ),
    "checkers.store.image _explained: `made <= since` for `made < since`": (
        "the state since then is the expected one, which the reply does not show"
    ),
    "checkers.store.model Moment.change_for: 1 for 0 in `zxid = 0`": "a Moment has no zxid of its own",
    "checkers.store.order writes: `one.zxid > other.zxid` for `one.zxid >= other.zxid`": (
        "no two calls have the same transaction"
    ),
    # -- limits ------------------------------------------------------------------------------------------
    "checkers.store.quotas check: without `not (quotas.limited or _refused(call.reply))` in `call.reply is None or not"
    " (quotas.limited or _refused(call.reply))`": (
        "without limits and refusals there is no violation: slower, with the same result"
    ),
    "checkers.store.quotas _refused_in_every_state: `zxid <= reply.zxid` for `zxid < reply.zxid`": (
        "a refusal changes nothing, so the state at its zxid equals the one before"
    ),
    "checkers.store.silence last_request_before: `written[place][0] <= end` for `written[place][0] < end`": (
        "no write has the zxid of an end"
    ),
    # -- controllers -------------------------------------------------------------------------------------
    "checkers.controller.partitions arrived: never `write.kind == 'delete'`": (
        "a deletion has no data, so the written state is None anyway"
    ),
    "checkers.controller.partitions arrived: without `origin.moving` in `origin.moving and held.replicas =="
    " origin.target`": "without a reassignment the replicas are unchanged, and unchanged assignments are skipped",
    # -- partitions --------------------------------------------------------------------------------------
    "checkers.partitions.replicas Replicas._changed: 1 for 0 in `Version(0)`": "the version of a topic is not used",
    "checkers.partitions.replicas Replicas.catch_up: never `self._place == upto`": (
        "no change was committed since then, so the loop is empty"
    ),
    "checkers.partitions.replicas Replicas.catch_up: without `change.path.startswith(f'{znodes.DELETE_TOPICS}/')` in"
    " `change.kind == 'create' and change.path.startswith(f'{znodes.DELETE_TOPICS}/')`": (
        "takes the path of another node for the name of a topic, and no topic has such a name"
    ),
    "checkers.partitions.logs Logs.changed: without `continue`": (
        "checks an unchanged log again: slower, with the same result"
    ),
    "checkers.partitions.logs Logs._compare: `watermark >= len(truth.committed)` for"
    " `watermark > len(truth.committed)`": "compares committed records again, and none is new",
    "checkers.partitions.logs Logs._compare: without `watermark > len(truth.committed)` in `leads and watermark >"
    " len(truth.committed)`": "compares committed records again, and none is new",
    "checkers.partitions.logs Logs._append: 2 for 1 in `-1`": "no sequence is below 0",
    "checkers.partitions.copies read_all: 2 for 1 in `1 << 30`": "no log of a run has as many bytes as that",
    "checkers.partitions.copies read_all: 31 for 30 in `1 << 30`": "no log of a run has as many bytes as that",
    "checkers.partitions.copies common: never `one[since:least] == other[since:least]`": (
        "compares records one by one: slower, with the same result"
    ),
    "checkers.partitions.lag Led.sample: `end >= self.ends[-1]` for `end > self.ends[-1]`": (
        "the first of several samples with the same log end counts"
    ),
    "checkers.partitions.producers ProducerModel.read: 2 for 1 in `1 << 30`": (
        "no log of a run has as many bytes as that"
    ),
    "checkers.partitions.producers ProducerModel.read: 31 for 30 in `1 << 30`": (
        "no log of a run has as many bytes as that"
    ),
    # -- disturbances ------------------------------------------------------------------------------------
    "checkers.disturbances VotesBeginWithTheCandidate.heard_notification: 1 for 0 in `message.leader < 0`": (
        "no server has the id 0"
    ),
    "checkers.disturbances VotesBeginWithTheCandidate.heard_notification: `message.leader <= 0` for"
    " `message.leader < 0`": "no server has the id 0",
    "budgets exceeded: 1 for 0 in `recovery.counts.get(counter, 0)`": "every bound is at least 1",
    # -- brokers' clients ----------------------------------------------------------------------------------
    "checkers.records.case Case._answer: without `isinstance(answer, records.Acked)` in `isinstance(answer,"
    " records.Acked) and made.acknowledged and (answer.offset != records.NOWHERE)`": (
        "only acknowledged writes have this property"
    ),
    "checkers.records.groups _before: `its_place <= others_place` for `its_place < others_place`": (
        "no two events have the same index"
    ),
    "checkers.records.polls _in_order: `span.start + 1` for `span.start - 1`": (
        "the placeholder before the first record has no value, and then its offset is not used"
    ),
    "checkers.records.polls _in_order: 2 for 1 in `span.start - 1`": (
        "the placeholder before the first record has no value, and then its offset is not used"
    ),
    "checkers.records.lost _missing: never `not missing`": "searches for no record: the same result",
    "checkers.records.values behind: without `offset != NOWHERE` in `offset != NOWHERE and"
    " sends[event.call].acknowledged`": ("NOWHERE is below every offset, and raises no watermark"),
    "checkers.records.judge judge: never `not broken`": (
        "calls the verifier, which objects only if a checker is wrong"
    ),
    "checkers.records.verify _writes: without `event.producer` in `event.producer and offset <"
    " last.get((event.producer, event.partition), 0)`": "the last record of producers without a number is not stored",
    "checkers.records.verify _raise: `offset >= floors[-1][1]` for `offset > floors[-1][1]`": (
        "the same offset at a later time gives the same answer at any time"
    ),
    # -- transactions --------------------------------------------------------------------------------------
    "checkers.transactions _offsets: `reply.answered <= made.requested` for `reply.answered < made.requested`": (
        "no two moments of a journal are the same"
    ),
    "checkers.transactions _must_be_visible: `made.ended >= reply.requested` for `made.ended > reply.requested`": (
        "no two moments of a journal are the same"
    ),
    "checkers.transactions Journal.moment: 2 for 1 in `self._moments += 1`": "each moment is later than the one before",
    # -- linearizability ---------------------------------------------------------------------------------
    "checkers.linear.certificate certify: 5 for 4 in `:4`": (
        "the fourth is the operation's unique id, so the fifth is never compared"
    ),
    "checkers.linear.decide parts: without `leader[key] = leader[leader[key]]`": (
        "only shortens the path to the root of a part for the next query"
    ),
    "checkers.linear.wgl Search._link: 3 for 2 in `2 * len(self._ops)`": (
        "the head needs a number that no call or return has, and every larger one is free"
    ),
    "checkers.linear.wgl Search._link: 2 for 1 in `self._head + 1`": (
        "the end needs an unused number, and every number above the head is free"
    ),
    "checkers.linear.wgl Search._place: 2 for 1 in `1 << number - base`": (
        "each operation has the next bit, and no two share one; the lowest bit is unused, so the window never"
        " moves, and only grows"
    ),
    "checkers.linear.wgl Search._place: never `window & 1`": (
        "placed operations stay in the window, which only grows: it distinguishes the same states"
    ),
    "checkers.linear.wgl Search._place: 2 for 1 in `1 << number - len(self._known)`": (
        "each operation without a result has the next bit, and no two share one"
    ),
    "checkers.linear.wgl Search._place: `number + len(self._known)` for `number - len(self._known)`": (
        "each operation without a result has another bit, and no two share one"
    ),
}
