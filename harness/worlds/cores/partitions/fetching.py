"""The fetchers of a broker. Each sends one request at a time to its leader, as in `replica.runtime`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from kraft_controller.core.names import BrokerId
from replica.core.replica_messages import EpochAnswer, Fetched, LeaderRequest, OffsetAnswer

Answers = Sequence[Fetched | EpochAnswer | OffsetAnswer]
ANSWER_US: Final = 250_000
"""The timeout of a request, in addition to the time for which the request lets the leader wait."""


class Fetcher:
    """The fetcher of one leader, in one life of the broker."""

    def __init__(self, broker: Any, leader: BrokerId) -> None:
        self._broker = broker
        self._leader = leader
        self._life = broker.life
        self._sent = 0
        """The number of requests that were sent or given up, which identifies the request in progress."""
        self._busy = False
        self._alarm = 0

    def wake(self) -> None:
        """Send the next request, if any. Abandon the request in progress if the core wants to fetch more at once."""
        broker = self._broker
        if self._busy and broker.core.fetchers.interrupts(self._leader, broker.clock()):
            broker.world.counted("fetches interrupted")
            self._busy = False
        if not self._busy:
            self._ask()

    def _ask(self) -> None:
        broker, leader = self._broker, self._leader
        core = broker.core
        self._alarm += 1
        if leader not in core.fetchers.leaders:
            return
        request = core.fetchers.next_request(leader, broker.epoch, broker.clock())
        if request is None:
            at = core.fetchers.resume_at(leader, broker.clock())
            if at is not None:
                self._again(max(at - broker.clock(), 1))
            return
        for part in request.fetch.parts if request.fetch is not None else ():
            broker.world.checkers.disks.fetches(broker, part.where, part.offset)
        self._busy = True
        self._sent += 1
        number = self._sent
        broker.send(leader, lambda other: other.serve(broker, request, partial(self._on_reply, number, request)))
        wait_ms = request.fetch.wait_ms if request.fetch is not None else 0
        broker.later(ANSWER_US + wait_ms * 1_000, partial(self._give_up, number, request))

    def _again(self, wait_ms: int) -> None:
        alarm = self._alarm

        def act() -> None:
            if alarm == self._alarm and not self._busy:
                self._ask()

        self._broker.later(wait_ms * 1_000, act)

    def _on_reply(self, number: int, request: LeaderRequest, answers: Answers | None) -> None:
        """Handle the reply, or None if the leader is down. Replies to an earlier process are dropped."""
        if number != self._sent or not self._busy or self._life != self._broker.life:
            return
        self._busy = False
        if answers is None:
            self._broker.core.fetchers.failed(request, self._broker.clock())
        else:
            self._broker.core.fetchers.answered(request, answers, self._broker.clock())
        self._broker.turn()
        self.wake()

    def _give_up(self, number: int, request: LeaderRequest) -> None:
        if number == self._sent and self._busy:
            self._sent += 1
            self._on_reply(self._sent, request, None)
