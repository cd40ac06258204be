"""A command that names thousands of partitions is executed piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import trio

from kraft_controller.core.command_handler import PIECE_MAX, ControllerCommandHandler
from kraft_controller.core.commands import (
    Command,
    LeaderAndIsr,
    Numbered,
    Role,
    Stop,
    StopReplica,
    UpdateMetadata,
    in_pieces,
)
from kraft_controller.core.error_codes import NONE, STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH
from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from kraft_controller.core.state import Assignment, PartitionState
from kraft_controller.runtime.command_server import CommandServer

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


class Receiver:
    """Keeps the commands that it executes. Partition 7 is in a failed log directory."""

    def __init__(self) -> None:
        self.epoch = BrokerEpoch(5)
        self.executed: list[Command] = []
        self.begun = 0
        self.server = CommandServer(ControllerCommandHandler(lambda: self.epoch, self.execute))

    def execute(self, command: Command) -> dict[TopicPartition, int]:
        self.executed.append(command)
        if not isinstance(command, LeaderAndIsr):
            return {}
        self.begun += len(command.roles)
        return {each.where: 56 for each in command.roles if each.where.partition == 7}

    @property
    def epochs(self) -> list[int]:
        return [command.controller_epoch for command in self.executed]


def run(test: Callable[[], Any]) -> None:
    async def main() -> None:
        with trio.fail_after(120):
            await test()

    trio.run(main)


def test_pieces_carry_the_whole_command_in_order() -> None:
    pieces = list(in_pieces(leads(100), 16))
    assert [len(each.roles) for each in pieces if isinstance(each, LeaderAndIsr)] == [16] * 6 + [4]
    assert [one for each in pieces if isinstance(each, LeaderAndIsr) for one in each.roles] == list(leads(100).roles)
    ends = list(in_pieces(stops(33), 16))
    assert [one for each in ends if isinstance(each, StopReplica) for one in each.stops] == list(stops(33).stops)
    assert len(ends) == 3


def test_only_the_last_piece_is_full() -> None:
    whole = leads(40, full=True)
    *pieces, last = in_pieces(whole, 16)
    assert last == whole
    assert len(pieces) == 3
    assert not any(each.full for each in pieces if isinstance(each, LeaderAndIsr))


def test_short_command_is_one_piece() -> None:
    nothing = UpdateMetadata(BrokerId(9), ControllerEpoch(1), BrokerEpoch(5), leads(MANY).roles, ())
    for command in (leads(16), leads(0, full=True), stops(16), nothing):
        assert list(in_pieces(command, 16)) == [command]


def test_other_tasks_run_while_many_replicas_start() -> None:
    async def test() -> None:
        receiver = Receiver()
        seen = [0]

        async def beat() -> None:
            while True:
                await trio.lowlevel.checkpoint()
                seen.append(receiver.begun)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(beat)
            answer = await receiver.server.execute(Numbered(1, leads(MANY)))
            nursery.cancel_scope.cancel()
        assert answer.error == NONE
        assert answer.errors == {TopicPartition("t", 7): 56}
        assert receiver.begun == MANY
        seen.append(receiver.begun)
        assert max(after - before for before, after in pairwise(seen)) <= TURNS_MAX * PIECE_MAX

    run(test)


def test_newer_controller_waits_for_the_command_in_execution() -> None:
    async def test() -> None:
        receiver = Receiver()

        async def newer() -> None:
            while not receiver.executed:
                await trio.lowlevel.checkpoint()
            assert (await receiver.server.execute(Numbered(1, leads(3, epoch=2)))).error == NONE

        async with trio.open_nursery() as nursery:
            nursery.start_soon(newer)
            assert (await receiver.server.execute(Numbered(1, leads(100)))).error == NONE
        assert receiver.epochs == [1] * 7 + [2]
        assert (await receiver.server.execute(Numbered(2, leads(100)))).error == STALE_CONTROLLER_EPOCH
        assert receiver.epochs == [1] * 7 + [2]

    run(test)


def test_new_registration_ends_the_command_in_execution() -> None:
    async def test() -> None:
        receiver = Receiver()

        async def live_anew() -> None:
            while not receiver.executed:
                await trio.lowlevel.checkpoint()
            receiver.epoch = BrokerEpoch(6)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(live_anew)
            assert (await receiver.server.execute(Numbered(1, leads(MANY)))).error == STALE_BROKER_EPOCH
        assert 0 < receiver.begun < MANY

    run(test)


def test_cancelled_command_blocks_no_other() -> None:
    async def test() -> None:
        receiver = Receiver()
        with trio.CancelScope() as scope:

            async def cut() -> None:
                while not receiver.executed:
                    await trio.lowlevel.checkpoint()
                scope.cancel()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(cut)
                await receiver.server.execute(Numbered(1, leads(MANY)))
        assert 0 < receiver.begun < MANY
        receiver.begun = 0
        assert (await receiver.server.execute(Numbered(1, leads(MANY)))).error == NONE  # said again
        assert receiver.begun == MANY

    run(test)
