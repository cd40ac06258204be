"""Disturbances need a cause: a healthy learner is not dropped, and no server votes for a candidate of another round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness.checkers.judge import Checker
from harness.checkers.oracle_state import OracleState, ServerState
from zab.core.messages import Notification, State
from zab.core.zxid import NEVER, NOTHING, Epoch, Millis, ServerId, Zxid, show

_LOOKING: Final = State.LOOKING


class DropsHaveACause(Checker):
    """A leader does not drop a follower whose acknowledgements have progressed within sync_limit."""

    invariant = "a healthy follower is not dropped"

    def __init__(self, ghost: OracleState, now_ms: Callable[[], Millis]) -> None:
        super().__init__(ghost)
        self._now_ms = now_ms
        self._progress: dict[tuple[ServerId, ServerId], tuple[Zxid, Millis]] = {}
        """The newest zxid that a follower acknowledged on its present link, and the time of its arrival, by leader and
        follower."""
        self._at_tick: dict[tuple[ServerId, ServerId], tuple[Zxid, Millis]] = {}
        """`_progress` at the last tick of each leader. A tick decides on drops, which are reported later."""

    def heard_follower_info(self, server: ServerState, source: ServerId) -> None:
        self._progress.pop((server.id, source), None)
        self._at_tick.pop((server.id, source), None)

    def ticked(self, server: ServerState) -> None:
        self._at_tick.update((key, progress) for key, progress in self._progress.items() if key[0] == server.id)

    def heard_ack(self, server: ServerState, source: ServerId, zxid: Zxid) -> None:
        key = server.id, source
        before = self._progress.get(key)
        if before is None or zxid > before[0]:
            self._progress[key] = zxid, self._now_ms()

    def dropped(self, server: ServerState, learner: ServerId, sync_ms: Millis) -> None:
        self._progress.pop((server.id, learner), None)
        zxid, at_ms = self._at_tick.pop((server.id, learner), (NOTHING, NEVER))
        if at_ms != NEVER and (took_ms := self._now_ms() - at_ms) < sync_ms:
            self.fail(
                f"server {server.id} drops {learner}, which acknowledged {show(zxid)} only {took_ms} ms ago, within the"
                f" limit of {sync_ms} ms"
            )


class VotesBeginWithTheCandidate(Checker):
    """The candidate of a vote casts this vote first, in each round of an election.

    A server begins each round with its own vote, also if it joins the round of others. So it votes for another server
    only if that server takes part in the same round. A vote that outlives its round elects servers that are gone.
    """

    invariant = "a vote is for a candidate of its round"

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self._cast: set[tuple[int, Epoch, Zxid, ServerId]] = set()
        """The votes of candidates for themselves, with their rounds."""

    def heard_notification(self, server: ServerState, source: ServerId, message: Notification) -> None:
        if message.state is not _LOOKING or message.leader < 0:
            return
        vote = message.round, message.epoch, message.zxid, message.leader
        if source == message.leader:
            self._cast.add(vote)
        elif vote not in self._cast:
            self.fail(
                f"server {source} votes in round {message.round} for {message.leader} at {show(message.zxid)}, which"
                " has not voted so for itself in this round"
            )
