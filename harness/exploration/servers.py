"""The servers of an exploration: real nodes, driven by the code of the simulator, with interned states.

A step of a server depends only on its state and on the input. So each state of a server is pickled once and has a
number, and a step of the real node runs once for each pair of state and input.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, Generic, TypeAlias, TypeVar

from attrs import define, evolve, field, frozen

from harness.checkers import Judge
from harness.exploration.canonical import Key, Moment, Serial, Sid, Walk
from harness.faults import Script
from harness.members import member
from harness.script.script import Knobs
from harness.worlds.common import settings_of
from harness.worlds.cores.server import Server
from harness.worlds.cores.world import World
from harness.worlds.cores.writer import Writer
from harness.worlds.disks import judge_durable
from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.leader.leader import Leader
from zab.core.leader.leader_broadcast import LeaderBroadcast
from zab.core.leader_election import LeaderElection
from zab.core.messages import ON_LINKS, TO_LEADER, LinkDown, LinkUp, Notification, Reachable, State
from zab.core.node import Node
from zab.core.ready import Append, Recovered, SaveEpochs, Settings, Truncate, Write
from zab.core.zxid import NEVER, NOTHING, Epoch, Millis, ServerId, Ticket, Zxid, epoch_of, show

IDS: Final = (ServerId(Sid(1)), ServerId(Sid(2)), ServerId(Sid(3)))
KNOBS: Final = Knobs(finalize_wait_ms=0)
"""An election waits for no better vote: a longer wait is another order of events, and all orders are explored."""

CONNECT: Final = "CONNECT"
"""A request for a link, under way to the dialled server."""
CONNECTED: Final = "CONNECTED"
"""The confirmation of a link, under way to the server that dialled."""
GONE: Final = "GONE"
"""The other end closed the link. All earlier messages arrive."""
BROKEN: Final = "BROKEN"
"""The link broke. The receiver may notice this before it has received all earlier messages."""
T = TypeVar("T")
K = TypeVar("K")
G = TypeVar("G")
R = TypeVar("R")

Fact: TypeAlias = tuple[str, tuple[Any, ...]]
"""A method of the judge, and its arguments."""
Output: TypeAlias = tuple[str, int, bool, object]
"""The kind (`send`, `dial`, `hang up` or `tell`), the peer, True for a link that this server dialled, the message."""
Input: TypeAlias = tuple[Any, ...]
"""The name of a method of `ExploredServer`, and its arguments."""


class OutOfScopeError(Exception):
    """The core uses a feature that the exploration does not support, such as a snapshot."""


@lru_cache(None)
def membership(version: Zxid) -> Ensemble:
    return Ensemble(tuple(member(sid) for sid in IDS), version)


@define
class Disk:
    """The durable content of one server's disk."""

    accepted: Epoch = Epoch(0)
    current: Epoch = Epoch(0)
    ensemble: Ensemble | None = None
    committed: Zxid = NOTHING
    """The committed zxid in the epochs record: a hint, written with the epochs."""
    log: list[Batch] = field(factory=list)
    known: Zxid = NOTHING
    """The committed zxid for the next epochs record, not durable itself."""
    held: None = None

    def know_committed(self, zxid: Zxid) -> None:
        self.known = zxid

    def read_log(self, after: Zxid, until: Zxid) -> Sequence[Batch]:
        raise OutOfScopeError("the window in memory holds the whole history")

    @property
    def last(self) -> Zxid:
        return self.log[-1].last if self.log else NOTHING

    def perform(self, write: Write) -> None:
        if isinstance(write, Append):
            self.log.append(write.batch)
        elif isinstance(write, Truncate):
            kept = [batch for batch in self.log if batch.first <= write.zxid]
            self.log = [batch.until(write.zxid) for batch in kept]
        elif isinstance(write, SaveEpochs) and write.whole and not write.forgotten:
            self.accepted, self.current, self.ensemble = write.accepted, write.current, write.ensemble
            self.committed = min(self.known, self.last)
        else:
            raise OutOfScopeError(f"{type(write).__name__}: no disk is damaged, so no history is replaced")

    def recover(self) -> Recovered:
        """Return what a restart finds, by the rule of `zab.storage.recovery`: a logged epoch counts as adopted."""
        self.known = self.committed
        current = Epoch(max(self.current, epoch_of(self.last)))
        return Recovered(self.accepted, current, self.ensemble, batches=tuple(self.log), committed=self.committed)


class WriteQueue(Writer):
    """Writes that were handed to the disk. The exploration decides when each becomes durable."""

    def __init__(self, server: ExploredServer) -> None:
        super().__init__(server)
        self.queue: list[Write] = []

    def hand_over(self, writes: Sequence[Write]) -> None:
        self.queue.extend(writes)

    def write_next(self, disk: Disk) -> Ticket:
        write = self.queue.pop(0)
        disk.perform(write)
        judge_durable(self._world.judge, self._server.id, [write])
        return write.ticket


class Outlets:
    """The network of one server. It collects the outputs of the server."""

    def __init__(self, *_: object) -> None:
        self.outputs: list[Output] = []

    def dial(self, server: ExploredServer, to: ServerId) -> None:
        server.dialling.add(to)
        self.outputs.append(("dial", to, True, None))

    def hang_up(self, server: ExploredServer, peer: ServerId, dialled: bool) -> None:
        pending = dialled and peer in server.dialling
        server.dialling.discard(peer)
        if pending or server.close(peer, dialled):
            self.outputs.append(("hang up", peer, dialled, None))

    def tell(self, source: ServerId, target: ServerId, message: Notification) -> None:
        self.outputs.append(("tell", target, False, message))


class Recorder:
    """Record the facts that the simulator passes to its judge."""

    def __init__(self, judge: Judge) -> None:
        self.facts: list[Fact] = []
        self.said = {kind: self._fact("said", kind) for kind in judge.said}

    def _fact(self, name: str, *before: object) -> Callable[..., None]:
        def fact(*arguments: object) -> None:
            hashable = [tuple(each) if isinstance(each, list) else each for each in arguments]
            self.facts.append((name, (*before, *hashable)))

        return fact

    def __getattr__(self, name: str) -> Callable[..., None]:
        return self._fact(name)


class ExploredServer(Server):
    """A server of the simulator whose disk and network the exploration drives, one input at a time."""

    world: Stage

    def __init__(self, world: Stage, sid: ServerId, _: Ensemble, seed: str) -> None:
        super().__init__(world, IDS[sid - 1], membership(NOTHING), seed)
        self.keep(Disk())
        self.writes = WriteQueue(self)
        self.writer = self.writes
        self.clock.plain = False  # so the clock reads `now_ms`
        self.dialling: set[ServerId] = set()  # type: ignore[assignment]

    def keep(self, disk: Disk) -> None:
        """Use this disk from now on."""
        self.contents = disk
        self.storage = disk  # type: ignore[assignment]

    @property
    def now_ms(self) -> Millis:
        return self.node._now if self.up else Moment(0)

    def _wind(self) -> None:
        """No timer runs: `stall` lets time pass."""

    def _feed(self, batch: Batch) -> None:
        self.storage.know_committed(batch.last)
        if self.submitted:
            self._acknowledge(batch)

    def make_node(self, recovered: Recovered) -> Node:
        node = Node(self.id, self.ensemble, recovered, self.settings, no_jitter, Moment(0))
        node._out.ticket = Serial(0)
        return node

    def _send(self, to: ServerId, message: Any) -> None:
        kind = type(message)
        if kind is Notification:
            self.world.network.tell(self.id, to, message)
            return
        if kind not in ON_LINKS:
            raise OutOfScopeError(f"{kind.__name__}: no history is so long that a snapshot replaces it")
        dialled = kind in TO_LEADER
        if to not in (self.dialled if dialled else self.accepted):
            return
        self.world.network.outputs.append(("send", to, dialled, message))
        fact = self.world.judge.said.get(kind)
        if fact is not None:
            fact(self.id, to, message)

    def close(self, peer: ServerId, dialled: bool) -> bool:
        """Close this end of a link. Return False if it is closed already."""
        return (self.dialled if dialled else self.accepted).pop(peer, None) is not None

    # -- inputs ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the process."""
        judge = self.world.judge
        recovered = self.contents.recover()
        last = recovered.batches[-1].last if recovered.batches else NOTHING
        judge.started(self.id, recovered, last)
        judge.restored(self.id, recovered.snapshot)
        self.node = self.make_node(recovered)
        self.up = True
        self._seen = (recovered.snapshot, State.LOOKING, Epoch(0), None, False)
        self.drain()

    def fall(self) -> None:
        """Crash: everything is lost that is not durable."""
        self.up = False
        self.submitted.clear()
        self.world.judge.crashed(self.id, ())

    def link_up(self, peer: ServerId, dialled: bool) -> None:
        (self.dialled if dialled else self.accepted)[peer] = True  # type: ignore[assignment]
        self.dialling.discard(peer)
        self.receive(peer, LinkUp(dialled))

    def link_down(self, peer: ServerId, dialled: bool) -> None:
        self.close(peer, dialled)
        if dialled:
            self.dialling.discard(peer)
        self.receive(peer, LinkDown(dialled))

    def write(self) -> None:
        self.saved(self.writes.write_next(self.contents))

    def offer(self, payload: bytes) -> None:
        self.submit([payload])

    def elect(self, leader: ServerId) -> None:
        """End the election with this leader, by votes of servers that lead or follow already."""
        node = self.node
        assert isinstance(node._role, LeaderElection)
        turn = node._role.round
        for source in sorted((sid for sid in IDS if sid != self.id), key=lambda sid: sid != leader):
            state = State.LEADING if source == leader else State.FOLLOWING
            vote = Notification(state, leader, NOTHING, Epoch(0), turn, node.ensemble)
            node.step(source, vote, self.now_ms)
        assert node.state is not State.LOOKING
        self.turn_soon()

    def decide(self) -> None:
        """End the election on which a quorum agrees, without waiting for a better vote."""
        self.node.tick(self.now_ms)
        self.turn_soon()

    def stall(self) -> None:
        """Stop the process for longer than every timeout, and continue."""
        settings, node = self.settings, self.node
        role = node._role
        now = node._now + settings.init_ms + settings.sync_ms
        node.tick(now)
        if node._role is role and isinstance(role, Leader):
            node.tick(node.deadline)  # a leader checks its quorum at every second tick
        self.turn_soon()


def no_jitter(most: Millis) -> Millis:
    return 0


class Stage(World):
    """The simulated world of one server at a time, which loads a state and applies one input to it."""

    server_type = ExploredServer
    network: Outlets  # type: ignore[assignment]
    network_type = Outlets

    def __init__(self) -> None:
        super().__init__(Script(0, knobs=KNOBS))
        self.recorder = Recorder(self.judge)
        self.judge = self.recorder  # type: ignore[assignment]
        self.acknowledged = lambda server, zxid: self.judge.acknowledged(server.id, zxid)


@frozen
class ServerView:
    """The facts about a state of a server that decide which steps are enabled."""

    up: bool = False
    looking: bool = False
    leading: bool = False
    established: bool = False
    """True if the server leads an established epoch and accepts transactions."""
    writing: bool = False
    decided: bool = False
    """True if a quorum agrees on a vote, so that the election ends unless a better vote arrives."""
    stuck: bool = False
    """True if the server only waits for a timeout."""
    follows: int = 0
    """The leader of the server, or 0."""
    dialled: frozenset[int] = frozenset()
    dialling: frozenset[int] = frozenset()
    accepted: frozenset[int] = frozenset()


@frozen
class Step:
    """The result of an input: the next state, the outputs with numbers of messages, and the number of the facts."""

    state: int
    outputs: tuple[tuple[str, int, bool, int], ...]
    facts: int


class Numbers(Generic[T]):
    """Distinct values and their numbers."""

    def __init__(self, *first: T) -> None:
        self.values: list[T] = list(first)
        self._numbers = {value: number for number, value in enumerate(first)}

    def of(self, value: T) -> int:
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        return number


_LEFT_OUT: Final = {
    "Node": frozenset({"elections", "has_ready", "_now"}),
    "History": frozenset({"_digests"}),  # a cache
    "Outbox": frozenset({"ticket"}),  # every ticket is relative to it
}
_LEFT_OUT_BY_ORACLE: Final = {**_LEFT_OUT, "Node": _LEFT_OUT["Node"] | {"_round"}}
_OPAQUE: Final = frozenset({"Settings"})


class States(ABC, Generic[K, G, R]):
    """All states so far, by number, and all steps between them, each of which runs real code once."""

    def __init__(self) -> None:
        self._pickles: list[bytes] = []
        self.keys: Numbers[K] = Numbers()
        self._steps: dict[tuple[int, G], R] = {}

    @property
    def steps(self) -> int:
        """The number of steps that ran real code."""
        return len(self._steps)

    def step(self, state: int, given: G) -> R:
        found = self._steps.get((state, given))
        if found is None:
            found = self._steps[state, given] = self._run(state, given)
        return found

    @abstractmethod
    def _run(self, state: int, given: G) -> R: ...


class ServerStates(States[Key, Input, Step]):
    def __init__(self, *, oracle: bool) -> None:
        """Create the initial states. With `oracle` only `ExploredServer.elect` ends elections: votes are left out."""
        super().__init__()
        self._stage = Stage()
        self._oracle = oracle
        self.views: list[ServerView] = []
        self.messages: Numbers[object] = Numbers(CONNECT, CONNECTED, GONE, BROKEN, Reachable())
        self.facts: Numbers[tuple[Fact, ...]] = Numbers(())
        self.initial = [self._store(self._server(sid)) for sid in IDS]

    def summary(self, state: int) -> str:
        """Describe a state for readers."""
        server = self._load(state)
        if not server.up:
            return f"down, disk to {show(server.contents.last)}, promised {server.contents.accepted}"
        node = server.node
        last = f"history to {show(node.last)}, durable {show(node.durable)}, committed {show(node.committed)}"
        return f"{node.state.name} {node.phase}, epoch {node.epoch}, promised {node.accepted}, {last}"

    def _run(self, state: int, given: Input) -> Step:
        stage = self._stage
        server = self._load(state)
        stage.recorder.facts, stage.network.outputs = [], []
        try:
            if given[0] == "receive":
                server.receive(given[1], self.messages.values[given[2]])  # type: ignore[arg-type]
            else:
                getattr(server, given[0])(*given[1:])
        except OutOfScopeError:
            raise
        except Exception as error:
            stage.report_failure(server, f"fails in {given[0]}", error)
        outputs = [
            (kind, peer, dialled, self.messages.of(message))
            for kind, peer, dialled, message in stage.network.outputs
            if kind != "tell" or not self._oracle
        ]
        return Step(self._store(server), tuple(outputs), self.facts.of(tuple(stage.recorder.facts)))

    def _server(self, sid: ServerId) -> ExploredServer:
        server = self._stage.servers[sid]
        assert isinstance(server, ExploredServer)
        return server

    def _load(self, state: int) -> ExploredServer:
        sid, disk, running = pickle.loads(self._pickles[state])
        server = self._server(sid)
        server.keep(disk)
        server.up = running is not None
        server._broadcasts = False
        if running is None:
            running = (None, [], None, False, False, {}, {}, set(), {})
        node, queue, server._seen, server._leads, server._serves, server.submitted, *links = running
        server.node, server.writes.queue = node, queue
        server.dialled, server.dialling, server.accepted = links
        return server

    def _store(self, server: ExploredServer) -> int:
        disk = server.contents
        if not server.up:
            disk = evolve(disk, known=disk.committed)
            kept: Any = (server.id, disk, None)
            now = ticket = 0
        else:
            node = server.node
            now, ticket = node._now, node._out.ticket
            kept = (server.id, disk, (
                node, server.writes.queue, server._seen, server._leads, server._serves, server.submitted,
                server.dialled, server.dialling, server.accepted,
            ))  # fmt: skip
        left_out, opaque = (_LEFT_OUT_BY_ORACLE, _OPAQUE | {"LeaderElection"}) if self._oracle else (_LEFT_OUT, _OPAQUE)
        number = self.keys.of(Walk(left_out, opaque, now, ticket).key(kept))
        if number == len(self._pickles):
            self._pickles.append(dumped(kept))
            self.views.append(_view(server))
        return number


def dumped(value: object) -> bytes:
    """Pickle a graph; memberships and settings are the same objects again when it is loaded."""
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, protocol=5)
    pickler.dispatch_table = _TABLE
    pickler.dump(value)
    return buffer.getvalue()


_SETTINGS: Final = settings_of(KNOBS)


def _settings() -> Settings:
    return _SETTINGS


_TABLE: Final = copyreg.dispatch_table.copy()
_TABLE[Ensemble] = lambda ensemble: (membership, (ensemble.version,))
_TABLE[Settings] = lambda settings: (_settings, ())


def _view(server: ExploredServer) -> ServerView:
    if not server.up:
        return ServerView()
    role, writing = server.node._role, bool(server.writes.queue)
    links = frozenset(server.dialled), frozenset(server.dialling), frozenset(server.accepted)
    if isinstance(role, LeaderElection):
        return ServerView(True, True, False, False, writing, role._pending is not None, False, 0, *links)
    if isinstance(role, Leader):
        established = isinstance(role.phase, LeaderBroadcast)
        return ServerView(True, False, True, established, writing, False, False, 0, *links)
    stuck = role.phase.name == "dialling" and role.phase.due != NEVER
    return ServerView(True, False, False, False, writing, False, stuck, role.leader, *links)
