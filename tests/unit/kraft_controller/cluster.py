"""A store in a dictionary, and brokers that obey: what the procedures of the controller are tried against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import evolve

from kraft_controller.core import asks, failover
from kraft_controller.core.asks import Answer, Ask, Changed, Done, Missing, Steps, play
from kraft_controller.core.commands import Command, LeaderAndIsr, StopReplica, UpdateMetadata
from kraft_controller.core.desk import Desk, Settings
from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch, TopicId, TopicPartition, Version
from kraft_controller.core.state import Assignment, Broker, Endpoint, PartitionState, Topic


def broker(number: int, epoch: int = 1) -> Broker:
    return Broker(BrokerId(number), BrokerEpoch(epoch), (Endpoint("PLAINTEXT", f"h{number}", 9092),))


class Store:
    def __init__(self, brokers: int = 3) -> None:
        self.brokers = {BrokerId(number): broker(number) for number in range(1, brokers + 1)}
        self.topics: dict[str, Topic] = {}
        self.states: dict[TopicPartition, PartitionState] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.config_changes: list[str] = []
        self.deletions: list[str] = []
        self.keeps: set[str] = set()
        """Topics whose nodes do not all go, because somebody makes others below them."""
        self.moves: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        self.preferred: tuple[TopicPartition, ...] = ()
        self.isr_changes: tuple[TopicPartition, ...] = ()
        self.damaged: dict[object, str] = {}
        self.before: Callable[[Ask], None] = lambda ask: None
        """Called before each ask is answered: what others do meanwhile."""
        self.rounds = 0
        self.asked: list[Ask] = []

    def topic(self, name: str, *replicas: tuple[int, ...], ident: str | None = "x" * 22) -> None:
        made = {number: Assignment(tuple(map(BrokerId, held))) for number, held in enumerate(replicas)}
        self.topics[name] = Topic(name, None if ident is None else TopicId(ident), made)

    def shrink(self, where: TopicPartition, *isr: int) -> None:
        """The leader writes another ISR."""
        state = self.states[where]
        self.states[where] = evolve(state, isr=tuple(map(BrokerId, isr)), version=Version(state.version + 1))

    def answer(self, asked: Sequence[Ask]) -> list[Answer]:
        self.rounds += 1
        answers = []
        for ask in asked:
            self.before(ask)
            self.asked.append(ask)
            answers.append(self._answer(ask))
        return answers

    def _answer(self, ask: Ask) -> Answer:
        match ask:
            case asks.ListBrokers():
                return asks.Brokers({known.id: known.epoch for known in self.brokers.values()})
            case asks.ReadBroker(ident):
                return self.brokers.get(ident, Missing())
            case asks.ListTopics():
                return asks.Names(tuple(self.topics))
            case asks.ReadTopic(name):
                return asks.Damaged(self.damaged[name]) if name in self.damaged else self.topics.get(name, Missing())
            case asks.WriteTopic(topic):
                held = self.topics.get(topic.name)
                return self._write(self.topics, topic.name, topic, held, topic.version)
            case asks.ReadState(where):
                return asks.Damaged(self.damaged[where]) if where in self.damaged else self.states.get(where, Missing())
            case asks.MakeState(where, state):
                if where in self.states or where in self.damaged:
                    return Changed()
                self.states[where] = state
                return Done()
            case asks.WriteState(where, state):
                return self._write(self.states, where, state, self.states.get(where), state.version)
            case asks.ReadConfig(name):
                if ("config", name) in self.damaged:
                    return asks.Damaged(self.damaged["config", name])
                return asks.Config(self.configs.get(name, {}))
            case asks.ReadBrokerConfig(broker):
                name = "<default>" if broker is None else str(broker)
                return asks.Config(self.configs[name]) if name in self.configs else Missing()
            case asks.TakeConfigChanges(seen):
                news = () if seen is None else tuple(dict.fromkeys(self.config_changes[seen + 1 :]))
                return asks.ConfigChanges(news, len(self.config_changes) - 1)
            case asks.ForgetTopic(name):
                for where in [where for where in self.states if where.topic == name]:
                    del self.states[where]
                if name in self.keeps:
                    return Changed()
                self.topics.pop(name, None)
                self.deletions.remove(name)
            case asks.ListDeletions():
                return asks.Names(tuple(self.deletions))
            case asks.DropDeletion(name):
                self.deletions.remove(name)
            case asks.ReadMoves():
                return asks.Moves(self.moves)
            case asks.DropMoves():
                self.moves = ask.left(self.moves)
            case asks.ReadPreferred():
                return asks.Partitions(self.preferred) if self.preferred else Missing()
            case asks.DropPreferred():
                self.preferred = ()
            case asks.TakeIsrChanges():
                return asks.Partitions(self.isr_changes)
            case asks.TakeLogDirEvents():
                return asks.Brokers({})
            case asks.RaiseEpoch():
                pass  # whose node is not among these
        return Done()

    @staticmethod
    def _write(where: dict[Any, Any], key: object, value: Any, held: Any, expect: Version) -> Answer:
        if held is None:
            return Missing()
        if held.version != expect:
            return Changed()
        where[key] = evolve(value, version=Version(expect + 1))
        return Done(Version(expect + 1))


class Controller:
    """A desk with its store, and everything that it ever said."""

    def __init__(self, store: Store, epoch: int = 1, settings: Settings | None = None, me: int = 1) -> None:
        self.store = store
        self.desk = Desk(BrokerId(me), ControllerEpoch(epoch), settings or Settings())
        self.said: list[tuple[BrokerId, Command]] = []

    def run(self, steps: Steps[Any]) -> Any:
        result = play(steps, self.store.answer)
        self.said += self.desk.say()
        return result

    def take_over(self) -> Controller:
        self.run(failover.take_over(self.desk, self.new_id))
        return self

    @staticmethod
    def new_id() -> TopicId:
        return TopicId("n" * 22)

    # -- what was said since it was asked last -----------------------------------------------------------

    def heard(self) -> list[tuple[BrokerId, Command]]:
        said, self.said = self.said, []
        return said

    def roles(self) -> dict[tuple[int, str], tuple[int, tuple[int, ...], bool]]:
        """(broker, partition) -> leader, ISR, is new; and forget all that was said."""
        return {
            (to, str(role.where)): (role.state.leader, role.state.isr, role.is_new)
            for to, command in self.heard()
            if isinstance(command, LeaderAndIsr)
            for role in command.roles
        }

    def stops(self) -> set[tuple[int, str, bool]]:
        return {
            (to, str(stop.where), stop.delete)
            for to, command in self.heard()
            if isinstance(command, StopReplica)
            for stop in command.stops
        }

    def metadata(self) -> dict[int, dict[str, int]]:
        return {
            to: {str(role.where): role.state.leader for role in command.roles}
            for to, command in self.heard()
            if isinstance(command, UpdateMetadata)
        }

    def leaders(self) -> dict[str, tuple[int, tuple[int, ...]]]:
        return {str(where): (state.leader, state.isr) for where, state in self.store.states.items()}

    def noted(self) -> list[str]:
        return [note.event for note in self.desk.notes]
