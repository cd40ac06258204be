"""One name and those who bear it, writes that fail and are there all the same, partitions that are deaf for a while,
and coordinators that are deposed; from seeds.

What must hold, whatever happens:
  - partitions are told what stands in the topic as the last decision, and nothing else
  - what was committed, as its producer was told, is told to all of its partitions as committed, and never otherwise
  - of those who bear the name only the last one is believed
  - when things calm down, nothing is left half done, and a new producer may begin
"""

from __future__ import annotations

from random import Random

import pytest
from attrs import define, field

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode as E
from replica.core.transactions.transaction_messages import (
    AddPartitions,
    End,
    Init,
    Initialized,
    ProducerIdentity,
    Ticket,
    TransactionDone,
)
from replica.core.transactions.transaction_states import AT_REST
from tests.unit.replica.transactions.room import ID, TIMEOUT_MS, Room

WHERES = [TopicPartition("t", number) for number in range(3)]
PASSES = (E.CONCURRENT_TRANSACTIONS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR, E.COORDINATOR_LOAD_IN_PROGRESS)
ERRORS = (E.REQUEST_TIMED_OUT, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


@define(eq=False)
class Bearer:
    """A producer, and what it knows of its transaction.

    since       how much had been told when it began
    partitions  that are in it, for all that it was told
    wants       how it is to end: it asks for that until it knows, as clients do
    """

    who: ProducerIdentity
    since: int = 0
    partitions: set[TopicPartition] = field(factory=set)
    asked: Ticket | None = None
    adding: TopicPartition | None = None
    wants: bool | None = None
    dead: bool = False


class Play:
    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.room = Room()
        self.bearers: list[Bearer] = []
        self.init: Ticket | None = None
        self.committed = 0

    def step(self) -> None:
        room, chance = self.room, self.chance
        match chance.randrange(12):
            case 0:
                self._init()
            case 1 | 2 | 3 | 4 if living := [each for each in self.bearers if not each.dead]:
                self._act(chance.choice(living))
            case 5:
                room.holding = not room.holding
                room.turn()
            case 6 if room.held:
                error = chance.choice(ERRORS)
                room.fail(error, written=error is not E.NOT_ENOUGH_REPLICAS and chance.random() < 0.5)
            case 7:
                room.deaf = not room.deaf
                room.turn()
            case 8 if room.markers and room.coordinator.completion.awaits(
                (marker := chance.choice(room.markers)).number
            ):
                room.tell(marker, chance.choice(marker.partitions))
                room.turn()
            case 9 if chance.random() < 0.3:
                room.take_over()
                self._forget_questions()
            case _:
                room.wait(chance.choice((0, 100, 1_000, TIMEOUT_MS // 2)))
        self._listen()

    def _forget_questions(self) -> None:
        """They were asked of somebody who is gone: what came of them nobody knows."""
        self.init = None
        for each in self.bearers:
            each.asked = each.adding = None

    def _init(self) -> None:
        if self.init is None:
            self.init = self.room.post(Init(ID, TIMEOUT_MS, fresh=7))

    def _act(self, bearer: Bearer) -> None:
        if bearer.asked is not None:
            return
        if bearer.wants is None and (not bearer.partitions or self.chance.random() < 0.6):
            if not bearer.partitions:
                bearer.since = len(self.room.told)
            bearer.adding = self.chance.choice(WHERES)
            bearer.asked = self.room.post(AddPartitions(bearer.who, frozenset({bearer.adding})))
            return
        if bearer.wants is None:
            bearer.wants = self.chance.random() < 0.7
        bearer.asked = self.room.post(End(bearer.who, bearer.wants))

    def _listen(self) -> None:
        room = self.room
        if self.init is not None and (reply := room.heard(self.init)) is not None:
            self.init = None
            assert isinstance(reply, Initialized)
            if reply.error is E.NONE:
                who = ProducerIdentity(ID, reply.producer, reply.epoch)
                assert all(each.who.epoch < who.epoch for each in self.bearers), "each epoch is one producer's"
                self.bearers.append(Bearer(who))
        for each in self.bearers:
            if each.asked is not None and (answer := room.heard(each.asked)) is not None:
                each.asked = None
                assert isinstance(answer, TransactionDone)
                self._answered(each, answer.error)

    def _answered(self, bearer: Bearer, error: E) -> None:
        adding, bearer.adding = bearer.adding, None
        if error in PASSES:
            return
        if error is not E.NONE:
            bearer.dead = True
            return
        assert bearer is self.bearers[-1], "who was fenced is told so"
        if adding is not None:
            bearer.partitions.add(adding)
            return
        if bearer.wants:
            self.committed += 1
            self.calm()
            mine = {where: commit for where, _, epoch, commit in self._told(bearer) if epoch == bearer.who.epoch}
            assert all(mine.get(where) for where in bearer.partitions), "committed, as it was told"
        bearer.partitions.clear()
        bearer.wants = None

    def _told(self, bearer: Bearer) -> list[tuple[TopicPartition, int, int, bool]]:
        return self.room.told[bearer.since :]

    def calm(self) -> None:
        """Whatever is under way comes to its end."""
        self.room.holding = self.room.deaf = False
        self.room.turn()
        self.room.wait(self.room.settings.again_ms)
        for transaction in self.room.coordinator.transactions:
            assert transaction.pending is None


def test_transactions_are_committed_in_these_plays() -> None:
    """Else they would show nothing."""
    plays = [Play(seed) for seed in range(5)]
    for play in plays:
        for _ in range(250):
            play.step()
    assert sum(play.committed for play in plays) > 5


@pytest.mark.parametrize("seed", range(60))
def test_all_or_nothing(seed: int) -> None:
    play = Play(seed)
    for _ in range(250):
        play.step()
    play.calm()
    play.room.wait(TIMEOUT_MS + play.room.settings.abort_check_ms)
    assert all(each.state in AT_REST for each in play.room.coordinator.transactions)
    who = play.room.producer()
    assert play.room.add(who, WHERES[0]) is E.NONE
    assert play.room.commit(who) is E.NONE
