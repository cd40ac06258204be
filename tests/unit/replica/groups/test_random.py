"""Many members that join, commit, stall, die and leave, coordinators that are deposed, writes that fail; from seeds.

What must hold, whatever happens:
  - what a member was assigned in a generation is what the leader of that generation said, and no partition is with two
  - a position that was acknowledged is not lost, and none that is older is shown after it
  - when things calm down, whoever is alive is in one stable group that shares out everything
"""

from __future__ import annotations

import itertools
from random import Random

import pytest
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_controller.core.names import TopicPartition
from replica.core.coordinator_topic import AppendId, Load
from replica.core.errors import ErrorCode as E
from replica.core.groups.group_coordinator import GroupCoordinator
from replica.core.groups.group_effects import GroupAppend, OffsetRecord, Record
from replica.core.groups.group_messages import (
    Ask,
    Commit,
    Committed,
    GroupIdentity,
    Heartbeat,
    HeartbeatAnswered,
    Join,
    Joined,
    Leave,
    LeavingMember,
    OffsetAndMetadata,
    OffsetFetch,
    OffsetsFetched,
    Reply,
    SupportedProtocol,
    Sync,
    Synced,
    Ticket,
)
from replica.core.groups.group_metadata import GroupMetadata
from replica.core.groups.group_settings import GroupSettings
from replica.core.groups.group_states import GroupState
from replica.wire.group_records import topics_of
from tests.unit.replica.groups.room import GROUP, subscription

WHERES = [TopicPartition("t", index) for index in range(6)]
SESSION_MS, REBALANCE_MS = 10_000, 20_000
WRITE_MS = 5_000


@define(eq=False)
class Broker:
    """A coordinator, and what it knows of the log: a copy of its own from when it began to lead."""

    coordinator: GroupCoordinator
    log: list[Record]
    epoch: int
    safe: int
    """How much of its log every replica has."""
    written: dict[AppendId, tuple[int, int, int]] = field(factory=dict)
    """What waits to be safe: where it begins and ends, and until when it is waited for."""
    deposed: bool = False
    """Somebody else leads. It may not have heard yet: it goes on, and nothing that it writes is ever safe."""


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 1_000_000
        self.ids = itertools.count(1)
        self.tickets = itertools.count(1)
        self.epochs = itertools.count(1)
        self.calm = False
        self.brokers: list[Broker] = []
        self.replies: dict[Ticket, Reply] = {}
        self.assigned: dict[tuple[int, int, str], dict[str, bytes]] = {}
        """By coordinator, generation and leader: what was given to whom. A generation that was not written down before
        its coordinator was lost is counted again by the next one, and is another one."""
        self.delivered: dict[int, list[bytes]] = {}
        """By generation: all that was given in it, once somebody got his part."""
        self.acknowledged: dict[TopicPartition, int] = {}
        """The number of the newest position that somebody was told is safe; they are numbered as they are written."""
        self.numbers: dict[str, int] = {}
        self.elect([], 0)
        self.members = [Member(self, index) for index in range(5)]

    @property
    def leader(self) -> Broker:
        return self.brokers[-1]

    def elect(self, log: list[Record], safe: int) -> None:
        coordinator = GroupCoordinator(
            GroupSettings(group_initial_rebalance_delay_ms=1_000), self.now, lambda: f"id{next(self.ids)}", topics_of
        )
        coordinator.topic.partitions = 1
        broker = Broker(coordinator, log, next(self.epochs), safe)
        coordinator.topic.elected(0, broker.epoch)
        self.brokers.append(broker)
        [load] = coordinator.ready().loads
        self.load(broker, load)

    def load(self, broker: Broker, load: Load) -> None:
        """Nothing is served before all that it found is everywhere."""
        for offset, record in enumerate(broker.log):
            broker.coordinator.replay(load, offset, record)
        broker.safe = len(broker.log)
        broker.coordinator.loaded(load, self.now)
        self.turn(broker)

    def fail_over(self) -> None:
        """The next leader has all that was safe, and perhaps some of what was not."""
        old = self.leader
        kept = self.random.randint(old.safe, len(old.log))
        old.deposed = True
        self.elect(old.log[:kept], old.safe)
        if self.random.random() < 0.5:
            old.coordinator.topic.resigned(0, self.leader.epoch, self.now)
            self.turn(old)

    # -- one thing after the other -------------------------------------------------------------------------

    def turn(self, broker: Broker) -> None:
        ready = broker.coordinator.ready()
        for answer in ready.answers:
            assert answer.ticket not in self.replies
            self.replies[answer.ticket] = answer.reply
        for append in ready.appends:
            self.write(broker, append)

    def write(self, broker: Broker, append: GroupAppend) -> None:
        first = len(broker.log)
        broker.log.extend(append.records)
        broker.written[append.id] = (first, len(broker.log), self.now + WRITE_MS)
        for record in append.records:
            if isinstance(record, OffsetRecord) and record.position is not None and not broker.deposed:
                self.numbers[record.position.metadata] = max(self.numbers.values(), default=0) + 1

    def replicate(self, broker: Broker) -> None:
        """Followers have more of it by now, and what they have is reported; what took too long is given up."""
        if not broker.deposed:
            broker.safe = len(broker.log) if self.calm else self.random.randint(broker.safe, len(broker.log))
        for ident, (first, end, until) in list(broker.written.items()):
            if end <= broker.safe and not broker.deposed:
                del broker.written[ident]
                broker.coordinator.topic.appended(ident, E.NONE, first, self.now)
            elif self.now >= until:
                del broker.written[ident]
                broker.coordinator.topic.appended(ident, E.REQUEST_TIMED_OUT, -1, self.now)
        self.turn(broker)

    def pass_time(self) -> None:
        self.now += self.random.choice((50, 200, 1_000) if self.calm else (50, 200, 1_000, 4_000))
        for broker in self.brokers[-2:]:
            if broker.coordinator.deadline <= self.now:
                broker.coordinator.tick(self.now)
                self.turn(broker)
            self.replicate(broker)

    def ask(self, ask: Ask, broker: Broker) -> Ticket:
        ticket = Ticket(next(self.tickets))
        broker.coordinator.step(ticket, ask, self.now)
        self.turn(broker)
        return ticket

    def step(self) -> None:
        chance = self.random.random()
        if not self.calm and chance < 0.01:
            self.fail_over()
        elif chance < 0.15:
            self.pass_time()
        else:
            self.random.choice(self.members).act()

    def settle(self) -> None:
        """No more faults. Time passes, and whoever is alive goes on."""
        self.calm = True
        for _ in range(2_500):
            self.pass_time()
            for member in self.members:
                member.act()
            if self.settled():
                return
        raise AssertionError("they do not come to rest")

    def settled(self) -> bool:
        groups = [group for group in self.leader.coordinator.groups if group.id == GROUP]
        alive = [member for member in self.members if member.alive]
        if not groups or not alive:
            return not alive and (not groups or groups[0].state is GroupState.EMPTY)
        group = groups[0]
        return (
            group.state is GroupState.STABLE
            and set(group.members) == {member.id for member in alive}
            and all(member.generation == group.generation and member.owns is not None for member in alive)
            and sorted(where for member in alive for where in member.owns or ()) == WHERES
        )

    # -- what must hold --------------------------------------------------------------------------------------

    def check_fetched(self, where: TopicPartition, position: OffsetAndMetadata | None, broker: Broker) -> None:
        if broker.deposed:
            return  # it may not know yet what was committed elsewhere
        newest = self.acknowledged.get(where, 0)
        found = self.numbers[position.metadata] if position is not None else 0
        assert found >= newest, f"{where}: position {newest} was acknowledged, {found} is shown"


@define(eq=False)
class Member:
    """A client: asks one thing at a time, gives up on answers that do not come, and looks for the coordinator anew."""

    world: World
    index: int
    alive: bool = True
    id: str = ""
    generation: int = -1
    leader: str = ""
    owns: list[TopicPartition] | None = None
    joined: Joined | None = None
    broker: Broker | None = None
    pending: tuple[Ask, Ticket, int] | None = None
    next_beat: int = 0
    commits: int = 0

    @property
    def instance(self) -> str | None:
        return f"static{self.index}" if self.index == 4 else None

    def act(self) -> None:
        world, random = self.world, self.world.random
        if not self.alive:
            if not world.calm and random.random() < 0.05:
                self._start()
            return
        if not world.calm and self.pending is None and random.random() < 0.01:
            self._end()
            return
        if self.broker is None:
            # Some hear of a new coordinator late.
            self.broker = world.leader if world.calm else random.choice(world.brokers[-2:])
        if self.pending is not None:
            self._hear()
        elif self.owns is not None:
            self._work()
        elif self.joined is not None:
            self._sync()
        else:
            self._join()

    def _start(self) -> None:
        self.alive, self.id, self.generation = True, "", -1
        self._lose()
        self.broker = self.pending = None

    def _end(self) -> None:
        self.alive = False
        if self.world.random.random() < 0.5 and self.broker is not None and self.instance is None:
            self.world.ask(Leave(GROUP, (LeavingMember(self.id),)), self.broker)
        self.pending = None

    def _lose(self) -> None:
        self.owns = self.joined = None

    def _who(self) -> GroupIdentity:
        return GroupIdentity(GROUP, self.id, self.generation, self.instance)

    def _ask(self, ask: Ask) -> None:
        assert self.broker is not None
        self.pending = (ask, self.world.ask(ask, self.broker), self.world.now + 40_000)
        self._hear()

    def _hear(self) -> None:
        assert self.pending is not None
        ask, ticket, until = self.pending
        reply = self.world.replies.get(ticket)
        stale = self.broker is not None and self.broker.deposed and self.world.random.random() < 0.2
        if reply is None:
            if self.world.now >= until or stale:  # its connection broke, or it gave up
                self.pending = self.broker = None
                self._lose()
            return
        self.pending = None
        match ask, reply:
            case Join(), Joined():
                self._on_joined(reply)
            case Sync(), Synced():
                self._on_synced(ask, reply)
            case Heartbeat(), HeartbeatAnswered(error):
                self._on_error(error)
            case Commit(), Committed(errors):
                self._on_committed(ask, dict(errors))
            case OffsetFetch(), OffsetsFetched():
                self._on_fetched(reply)
            case _:
                raise AssertionError(f"{ask} was answered with {reply}")

    def _on_error(self, error: E) -> bool:
        if error is E.NONE:
            return True
        self._lose()
        if error in (E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID):
            self.id, self.generation = "", -1
        elif error in (E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE, E.REQUEST_TIMED_OUT):
            self.broker = None
        return False

    # -- becoming a member -----------------------------------------------------------------------------------

    def _join(self) -> None:
        protocols = (SupportedProtocol("range", subscription("t")), SupportedProtocol("sticky", subscription("t")))
        self._ask(
            Join(
                GroupIdentity(GROUP, self.id, instance=self.instance),
                "consumer",
                protocols,
                SESSION_MS,
                REBALANCE_MS,
                client_id=f"c{self.index}",
                can_skip=self.index % 2 == 0,
            )
        )

    def _on_joined(self, reply: Joined) -> None:
        if reply.error is E.MEMBER_ID_REQUIRED:
            self.id = reply.member
        elif self._on_error(reply.error):
            self.id, self.generation, self.leader, self.joined = reply.member, reply.generation, reply.leader, reply
            self.next_beat = self.world.now + 3_000

    def _sync(self) -> None:
        assert self.joined is not None
        shares: dict[str, bytes] = {}
        if self.joined.leader == self.id and not self.joined.skip_assignment:
            names = [entry.member for entry in self.joined.members]
            for number, name in enumerate(names):
                shares[name] = bytes(index for index in range(len(WHERES)) if index % len(names) == number)
            assert self.broker is not None
            key = (self.broker.epoch, self.generation, self.id)
            assert self.world.assigned.setdefault(key, shares) == shares
        self._ask(Sync(self._who(), shares))

    def _on_synced(self, _: Sync, reply: Synced) -> None:
        if self._on_error(reply.error):
            self.owns = [WHERES[index] for index in reply.assignment]
            broker = self.broker
            assert broker is not None
            group = next((group for group in broker.coordinator.groups if group.id == GROUP), None)
            if group is None:  # it has resigned since
                return
            if group.generation == self.generation and group.state is GroupState.STABLE:
                shares = [where for each in group.members.values() for where in each.assignment]
                assert len(set(shares)) == len(shares), f"generation {self.generation} gave a partition to two"
                known = self.world.delivered.setdefault(self.generation, sorted(self._shares(group)))
                assert known == sorted(self._shares(group)), f"there are two generations {self.generation}"
                given = [share for share in self.world.assigned.values() if share.get(self.id) == reply.assignment]
                static = any(each.startswith("static") for each in group.members)
                assert given or static or not reply.assignment, f"nobody gave {reply.assignment!r} to {self.id}"

    @staticmethod
    def _shares(group: GroupMetadata) -> list[bytes]:
        return [member.assignment for member in group.members.values()]

    # -- being one -------------------------------------------------------------------------------------------

    def _work(self) -> None:
        world, random = self.world, self.world.random
        assert self.owns is not None
        if world.now >= self.next_beat:
            if world.calm or random.random() < 0.9:
                self.next_beat = world.now + 3_000
                self._ask(Heartbeat(self._who()))
            else:
                self.next_beat = world.now + 12_000  # its process stands still
        elif self.owns and random.random() < 0.3:
            self.commits += 1
            mark = f"{self.index}/{self.commits}"
            some = random.sample(self.owns, random.randint(1, len(self.owns)))
            self._ask(
                Commit(
                    self._who(), {where: OffsetAndMetadata(self.commits, metadata=f"{mark}/{where}") for where in some}
                )
            )
        elif self.owns:
            self._ask(OffsetFetch(GROUP, tuple(self.owns)))

    def _on_committed(self, ask: Commit, errors: dict[TopicPartition, E]) -> None:
        assert set(errors) == set(ask.positions)
        for where, error in errors.items():
            if error is E.NONE:
                number = self.world.numbers[ask.positions[where].metadata]
                self.world.acknowledged[where] = max(number, self.world.acknowledged.get(where, 0))
        for error in dict.fromkeys(errors.values()):
            if error is not E.NONE:
                self._on_error(error)

    def _on_fetched(self, reply: OffsetsFetched) -> None:
        if self._on_error(reply.error):
            for where, position in reply.positions.items():
                assert not isinstance(position, E)
                assert self.broker is not None
                self.world.check_fetched(where, position, self.broker)


def played(seed: int, steps: int) -> World:
    world = World(seed)
    for _ in range(steps):
        world.step()
    world.settle()
    for where in WHERES:
        [ticket] = [world.ask(OffsetFetch(GROUP, (where,)), world.leader)]
        reply = world.replies[ticket]
        assert isinstance(reply, OffsetsFetched)
        position = reply.positions[where]
        assert not isinstance(position, E)
        world.check_fetched(where, position, world.leader)
    return world


@pytest.mark.parametrize("seed", range(20))
def test_random_histories_keep_invariants_and_settle(seed: int) -> None:
    played(seed, 1_500)


def test_random_histories_reach_their_probes() -> None:
    """Rebalances, changes of coordinators, commits of which some are refused: else the test above shows nothing."""
    world = played(3, 3_000)
    assert len(world.brokers) > 5
    assert len(world.assigned) > 5
    assert len(world.acknowledged) == len(WHERES)
    assert sum(member.commits for member in world.members) > 50


@given(st.integers(0, 2**32), st.integers(50, 600))
@settings(max_examples=25, derandomize=True, deadline=None)
def test_any_seed(seed: int, steps: int) -> None:
    played(seed, steps)
