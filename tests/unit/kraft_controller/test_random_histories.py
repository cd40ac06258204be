"""Everything at once: brokers die, come and bounce, leaders write their ISRs, topics come, grow, move and go, and the
controller dies between any two of its questions. After each step the rules of the store hold; at the end, when all
are alive and nothing more happens, everything that was begun is over and every broker knows what the store says."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from attrs import evolve

from kraft_controller.core import controller_events as events
from kraft_controller.core.commands import LeaderAndIsr, StopReplica, UpdateMetadata
from kraft_controller.core.controller_events import Event
from kraft_controller.core.names import BrokerId, LeaderEpoch, TopicPartition, Version
from kraft_controller.core.state import Assignment, PartitionState
from kraft_controller.core.topics import topic_changes, topic_deletion
from tests.unit.kraft_controller.cluster import Controller, Store, broker
from tests.unit.kraft_controller.store_double import (
    Access,
    CreateState,
    DeletePartitions,
    DeleteTopic,
    Procedure,
    WriteState,
)

BROKERS = range(1, 6)


class Died(Exception):
    """The controller, in the middle of something."""


class Disks:
    """What the brokers know, as they were told: by broker, of each partition."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.roles: dict[tuple[int, TopicPartition], tuple[int, PartitionState, Assignment]] = {}
        self.leaders: dict[int, dict[TopicPartition, int]] = {}
        self.newest: dict[int, int] = {}

    def hear(self, controller: Controller) -> list[Event]:
        """In the order in which it was said; returns what they answer."""
        answers: list[Event] = []
        for to, command in controller.heard():
            known = self.world.store.brokers.get(to)
            if (
                known is None
                or known.epoch != command.broker_epoch
                or command.controller_epoch < self.newest.get(to, 0)
            ):
                continue
            self.newest[to] = command.controller_epoch
            if isinstance(command, LeaderAndIsr):
                if command.full:
                    named = {role.where for role in command.roles}
                    for replica in [replica for replica in self.roles if replica[0] == to and replica[1] not in named]:
                        del self.roles[replica]
                for role in command.roles:
                    before = self.roles.get((to, role.where))
                    if before is None or role.state.leader_epoch > before[1].leader_epoch:
                        self.roles[to, role.where] = (command.controller_epoch, role.state, role.assignment)
            elif isinstance(command, UpdateMetadata):
                told = self.leaders.setdefault(to, {})
                for role in command.roles:
                    told[role.where] = role.state.leader
                    if role.state.leader == -2:
                        del told[role.where]
            elif isinstance(command, StopReplica):
                done = []
                for stop in command.stops:
                    if stop.delete:
                        self.roles.pop((to, stop.where), None)
                        done.append(stop.where)
                if done:
                    answers.append(events.StopReplicaReplied(to, known.epoch, tuple(done), ()))
        return answers

    def restarted(self, number: int) -> None:
        self.leaders.pop(number, None)
        self.newest.pop(number, None)


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.store = Store(len(BROKERS))
        self.disks = Disks(self)
        self.epoch = 0
        self.lives = 100
        self.calm = False
        self.names = 0
        self.told: list[Event] = []
        self.leader_epochs: dict[TopicPartition, LeaderEpoch] = {}
        self.led: dict[tuple[str, int, int], int] = {}
        self.dies_after = 0
        self.controller: Controller
        self.take_over()

    # -- the controller ----------------------------------------------------------------------------------

    def take_over(self) -> None:
        """The one before is dead, and what it had not sent is lost."""
        self.epoch += 1
        self.controller = Controller(self.store, epoch=self.epoch)
        self.told = []
        self.handle(events.ControllerElected())

    def handle(self, event: Event) -> None:
        self.dies_after = self.random.randrange(1, 12) if not self.calm and self.random.random() < 0.15 else 0
        try:
            procedure: Procedure = self.controller.term.process(event)
            answers: Sequence[Any] | None = None
            while True:
                try:
                    accesses = next(procedure) if answers is None else procedure.send(answers)
                except StopIteration:
                    break
                answers = self.answer(accesses)
        except Died:
            self.take_over()
            return
        self.told += self.disks.hear(self.controller)
        self.told += self.controller.queued
        self.controller.queued.clear()
        while self.told:
            self.handle(self.told.pop(0))

    def answer(self, accesses: Sequence[Access]) -> list[Any]:
        if self.dies_after:
            self.dies_after -= 1
            if not self.dies_after:
                # Accesses of one round are carried out one by one: some may be done when the controller dies.
                self.check(self.store.answer(accesses[: self.random.randrange(len(accesses) + 1)]), accesses)
                raise Died
        if not self.calm and isinstance(accesses[0], DeletePartitions | DeleteTopic) and self.random.random() < 0.3:
            self.half_forget(accesses[0].topic)
            raise Died
        answers = self.store.answer(accesses)
        self.check(answers, accesses)
        return answers

    def half_forget(self, name: str) -> None:
        """The nodes of a topic go one after the other: some are gone when the controller is, and with it its broker."""
        states = [where for where in self.store.states if where.topic == name]
        for where in states[: self.random.randrange(len(states) + 1)]:
            del self.store.states[where]
        self.lose()

    # -- the rules -----------------------------------------------------------------------------------------

    def check(self, answers: Sequence[Any], accesses: Sequence[Access]) -> None:
        for access, _ in zip(accesses, answers, strict=False):
            if isinstance(access, WriteState | CreateState) and access.where in self.store.states:
                self.check_state(access.where)

    def check_state(self, where: TopicPartition) -> None:
        state = self.store.states[where]
        topic = self.store.topics.get(where.topic)
        assert state.isr, f"{where} has nobody in sync"
        assert state.leader == -1 or state.leader in state.isr, f"{where}: {state}"
        if topic is not None:
            assert set(state.isr) <= set(topic.partitions[where.partition].replicas), f"{where}: {state} {topic}"
        ident = "" if topic is None else str(topic.id) + str(where)
        assert state.leader_epoch >= self.leader_epochs.get(where, 0), f"{where}: the leader epoch went back"
        self.leader_epochs[where] = state.leader_epoch
        if state.leader != -1:
            led = self.led.setdefault((ident, where.partition, state.leader_epoch), state.leader)
            assert led == state.leader, f"{where}: two leaders in one leader epoch"

    # -- what happens --------------------------------------------------------------------------------------

    def step(self) -> None:
        act = self.random.choice(
            [self.die, self.come, self.come, self.bounce, self.shrink, self.catch_up, self.catch_up, self.create,
             self.grow, self.move, self.cancel, self.delete, self.elect, self.balance, self.crash, self.leave,
             self.disk]
        )  # fmt: skip
        act()

    def die(self) -> None:
        if self.lose():
            self.handle(events.BrokersChanged())

    def lose(self) -> bool:
        """One broker, but never the last."""
        if len(self.store.brokers) == 1:
            return False
        gone = self.random.choice(sorted(self.store.brokers))
        del self.store.brokers[gone]
        self.disks.restarted(gone)
        return True

    def come(self) -> None:
        missing = [number for number in BROKERS if number not in self.store.brokers]
        if missing:
            self.register(self.random.choice(missing))
            self.handle(events.BrokersChanged())

    def bounce(self) -> None:
        number = self.random.choice(sorted(self.store.brokers))
        self.disks.restarted(number)
        self.register(number)
        self.handle(events.BrokersChanged())

    def register(self, number: int) -> None:
        self.lives += 1
        self.store.brokers[BrokerId(number)] = broker(number, self.lives)

    def leading(self) -> list[TopicPartition]:
        """Which are led by somebody alive who knows it: only he writes the ISR."""
        return [
            where
            for where, state in self.store.states.items()
            if state.leader in self.store.brokers
            and (role := self.disks.roles.get((state.leader, where))) is not None
            and role[1].leader_epoch == state.leader_epoch
        ]

    def shrink(self) -> None:
        for where in self.leading():
            state = self.store.states.get(where)
            if state is None or where not in self.leading():
                continue  # something else has happened meanwhile
            if len(state.isr) > 1 and self.random.random() < 0.3:
                others = [member for member in state.isr if member != state.leader]
                gone = self.random.choice(others)
                self.write_isr(where, tuple(member for member in state.isr if member != gone))

    def catch_up(self) -> None:
        for where in self.leading():
            state = self.store.states.get(where)
            if state is None or where not in self.leading():
                continue  # something else has happened meanwhile
            role = self.disks.roles[state.leader, where]
            behind = [b for b in role[2].replicas if b not in state.isr and b in self.store.brokers]
            if behind and (self.calm or self.random.random() < 0.8):
                self.write_isr(where, (*state.isr, *behind))

    def write_isr(self, where: TopicPartition, isr: tuple[BrokerId, ...]) -> None:
        state = self.store.states[where]
        self.store.states[where] = evolve(state, isr=isr, version=Version(state.version + 1))
        if self.random.random() < 0.5:
            self.store.isr_changes = (where,)
            self.handle(events.IsrChangeNotification())
        elif where in self.controller.context.moving:
            self.handle(events.PartitionStateChanged(where))

    def some(self, most: int) -> tuple[int, ...]:
        there = sorted(self.store.brokers)
        return tuple(self.random.sample(there, self.random.randint(1, min(most, len(there)))))

    def create(self) -> None:
        if len(self.store.topics) < 3:
            self.names += 1
            ident = f"{self.names:022}"
            self.store.topic(f"t{self.names}", *[self.some(3) for _ in range(self.random.randint(1, 3))], ident=ident)
            self.handle(events.TopicsChanged())

    def grow(self) -> None:
        for name, topic in list(self.store.topics.items()):
            if len(topic.partitions) < 4 and self.random.random() < 0.5:
                more = {**topic.partitions, len(topic.partitions): Assignment(tuple(map(BrokerId, self.some(3))))}
                self.store.topics[name] = evolve(topic, partitions=more, version=Version(topic.version + 1))
                self.handle(events.TopicModified(name))
                return

    def anywhere(self) -> TopicPartition | None:
        every = [
            TopicPartition(name, number) for name, topic in self.store.topics.items() for number in topic.partitions
        ]
        return self.random.choice(every) if every else None

    def move(self) -> None:
        where = self.anywhere()
        if where is not None:
            target = tuple(map(BrokerId, self.some(3)))
            if self.random.random() < 0.5:
                self.handle(events.AlterReassignmentsRequested({where: target}))
            elif not self.store.moves:
                self.store.moves = {where: target}
                self.handle(events.ReassignmentRequested())

    def cancel(self) -> None:
        for where in list(self.controller.context.moving):
            self.handle(events.AlterReassignmentsRequested({where: None}))
            return

    def delete(self) -> None:
        names = [name for name in self.store.topics if name not in self.store.deletions]
        if names and self.random.random() < 0.4:
            self.store.deletions.append(self.random.choice(names))
            self.handle(events.TopicDeletionRequested())

    def elect(self) -> None:
        where = self.anywhere()
        if where is not None:
            self.handle(events.ElectLeadersRequested((where,), unclean=self.random.random() < 0.2))

    def balance(self) -> None:
        self.handle(events.AutoPreferredElection())

    def crash(self) -> None:
        if self.random.random() < 0.5:
            self.take_over()

    def leave(self) -> None:
        number = self.random.choice(sorted(self.store.brokers))
        known = self.controller.context.brokers.get(number)
        if known is not None and known.epoch == self.store.brokers[number].epoch:
            self.handle(events.ControlledShutdownRequested(number, known.epoch))

    def disk(self) -> None:
        where = self.anywhere()
        if where is not None and self.random.random() < 0.3:
            held = sorted(self.store.brokers)
            number = self.random.choice(held)
            self.handle(events.LeaderAndIsrReplied(number, self.store.brokers[number].epoch, (where,)))

    # -- the end -------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Everybody restarts with whole disks, catches up, and nothing more happens."""
        self.calm = True
        for number in BROKERS:
            self.disks.restarted(number)
            self.register(number)
        self.handle(events.BrokersChanged())
        for _ in range(12):
            self.catch_up()
            self.handle(events.PreferredElectionRequested())
        self.handle(events.ReassignmentRequested())
        for _ in range(6):
            self.catch_up()

    def check_settled(self) -> None:
        store, cluster = self.store, self.controller.context
        assert store.deletions == []
        assert store.moves == {}
        assert cluster.moving == {}
        assert not any(held.moving for topic in store.topics.values() for held in topic.partitions.values())
        assert set(store.states) == set(cluster.all_partitions())
        for where, state in store.states.items():
            self.check_state(where)
            assert state.leader != -1, f"{where} is led by nobody: {state}"
            replicas = store.topics[where.topic].partitions[where.partition].replicas
            assert set(state.isr) == set(replicas), f"{where}: {state.isr} of {replicas}"
            for number in replicas:
                role = self.disks.roles.get((number, where))
                assert role is not None, f"broker {number} was never told of {where}"
                assert role[1].leader == state.leader, f"broker {number} takes {role[1]} for {where}, which is {state}"
                assert role[1].leader_epoch == state.leader_epoch
                assert role[2].replicas == replicas
        for number in map(BrokerId, BROKERS):
            assert self.disks.leaders[number] == {at: state.leader for at, state in store.states.items()}
        held = set()
        for where in store.states:
            held |= {(number, where) for number in store.topics[where.topic].partitions[where.partition].replicas}
        astray = {replica for replica in self.disks.roles if replica not in held}
        assert not astray, f"still on disks: {astray}"
        assert "illegal_transition" not in self.controller.noted(), self.controller.messages


@pytest.mark.parametrize("block", range(4))
@pytest.mark.mechanism(26, 87)
def test_random_histories_settle(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_deletion, "PARTITIONS_DELETED_MAX", 2)
    monkeypatch.setattr(topic_changes, "PARTITIONS_CREATED_MAX", 2)
    for seed in range(block * 25, block * 25 + 25):
        world: Any = None
        try:
            world = World(seed)
            for _ in range(40):
                world.step()
            world.settle()
            world.check_settled()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
