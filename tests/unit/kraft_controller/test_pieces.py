"""A command that names thousands of partitions is obeyed piece by piece, and is still one command."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import trio

from kraft_controller.core.commands import Command, LeaderAndIsr, Role, Stop, StopReplica, UpdateMetadata, in_pieces
from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from kraft_controller.core.state import Assignment, PartitionState
from kraft_controller.runtime.orders import NONE, PIECE_MAX, STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH, Orders
from kraft_controller.wire.commands import Numbered

ONE = BrokerId(1)
MANY = 500
TURNS_MAX = 2
"""Of one task between two of another: each has one in every round, in no order."""


def role(number: int) -> Role:
    state = PartitionState(ONE, (ONE,), controller_epoch=ControllerEpoch(1))
    return Role(TopicPartition("t", number), None, state, Assignment((ONE,)))


def leads(count: int, *, epoch: int = 1, full: bool = False) -> LeaderAndIsr:
    roles = tuple(role(number) for number in range(count))
    return LeaderAndIsr(BrokerId(9), ControllerEpoch(epoch), BrokerEpoch(5), full, roles, ())


def stops(count: int) -> StopReplica:
    said = tuple(Stop(TopicPartition("t", number), LeaderEpoch(1), delete=True) for number in range(count))
    return StopReplica(BrokerId(9), ControllerEpoch(1), BrokerEpoch(5), said)


class Ear:
    """Hears commands, and keeps what it obeyed. Partitions whose number is 7 are on a disk that failed."""

    def __init__(self) -> None:
        self.epoch = BrokerEpoch(5)
        self.obeyed: list[Command] = []
        self.begun = 0
        self.orders = Orders(lambda: self.epoch, self.obey)

    def obey(self, command: Command) -> dict[TopicPartition, int]:
        self.obeyed.append(command)
        if not isinstance(command, LeaderAndIsr):
            return {}
        self.begun += len(command.roles)
        return {each.where: 56 for each in command.roles if each.where.partition == 7}

    @property
    def epochs(self) -> list[int]:
        return [command.controller_epoch for command in self.obeyed]


def run(test: Callable[[], Any]) -> None:
    async def main() -> None:
        with trio.fail_after(120):
            await test()

    trio.run(main)


def test_pieces_say_together_what_the_whole_said_in_its_order() -> None:
    pieces = list(in_pieces(leads(100), 16))
    assert [len(each.roles) for each in pieces if isinstance(each, LeaderAndIsr)] == [16] * 6 + [4]
    assert [one for each in pieces if isinstance(each, LeaderAndIsr) for one in each.roles] == list(leads(100).roles)
    ends = list(in_pieces(stops(33), 16))
    assert [one for each in ends if isinstance(each, StopReplica) for one in each.stops] == list(stops(33).stops)
    assert len(ends) == 3


def test_only_the_last_says_that_it_names_all() -> None:
    whole = leads(40, full=True)
    *pieces, last = in_pieces(whole, 16)
    assert last == whole
    assert len(pieces) == 3
    assert not any(each.full for each in pieces if isinstance(each, LeaderAndIsr))


def test_what_is_short_is_one_piece() -> None:
    nothing = UpdateMetadata(BrokerId(9), ControllerEpoch(1), BrokerEpoch(5), leads(MANY).roles, ())
    for command in (leads(16), leads(0, full=True), stops(16), nothing):
        assert list(in_pieces(command, 16)) == [command]


def test_others_have_their_turn_while_many_replicas_begin() -> None:
    async def test() -> None:
        ear = Ear()
        seen = [0]

        async def beat() -> None:
            while True:
                await trio.lowlevel.checkpoint()
                seen.append(ear.begun)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(beat)
            answer = await ear.orders.obeyed(Numbered(1, leads(MANY)))
            nursery.cancel_scope.cancel()
        assert answer.error == NONE
        assert answer.errors == {TopicPartition("t", 7): 56}
        assert ear.begun == MANY
        seen.append(ear.begun)
        assert max(after - before for before, after in pairwise(seen)) <= TURNS_MAX * PIECE_MAX

    run(test)


def test_a_newer_controller_waits_for_the_end_of_what_is_being_obeyed() -> None:
    async def test() -> None:
        ear = Ear()

        async def newer() -> None:
            while not ear.obeyed:
                await trio.lowlevel.checkpoint()
            assert (await ear.orders.obeyed(Numbered(1, leads(3, epoch=2)))).error == NONE

        async with trio.open_nursery() as nursery:
            nursery.start_soon(newer)
            assert (await ear.orders.obeyed(Numbered(1, leads(100)))).error == NONE
        assert ear.epochs == [1] * 7 + [2]
        assert (await ear.orders.obeyed(Numbered(2, leads(100)))).error == STALE_CONTROLLER_EPOCH
        assert ear.epochs == [1] * 7 + [2]

    run(test)


def test_what_was_said_to_a_life_that_ends_in_the_midst_of_it_is_left_at_that() -> None:
    async def test() -> None:
        ear = Ear()

        async def live_anew() -> None:
            while not ear.obeyed:
                await trio.lowlevel.checkpoint()
            ear.epoch = BrokerEpoch(6)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(live_anew)
            assert (await ear.orders.obeyed(Numbered(1, leads(MANY)))).error == STALE_BROKER_EPOCH
        assert 0 < ear.begun < MANY

    run(test)


def test_who_is_cut_off_in_the_midst_of_it_holds_up_nobody() -> None:
    async def test() -> None:
        ear = Ear()
        with trio.CancelScope() as scope:

            async def cut() -> None:
                while not ear.obeyed:
                    await trio.lowlevel.checkpoint()
                scope.cancel()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(cut)
                await ear.orders.obeyed(Numbered(1, leads(MANY)))
        assert 0 < ear.begun < MANY
        ear.begun = 0
        assert (await ear.orders.obeyed(Numbered(1, leads(MANY)))).error == NONE  # said again
        assert ear.begun == MANY

    run(test)
