"""A few real nodes with a network and disks that act only on command.

The world checks two invariants during a story: no two servers apply different transactions at one zxid, and
no two servers lead one epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from attrs import define, field, frozen

from tests.scenario import words
from tests.scenario.disk import Disk, State, freeze, thaw
from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.messages import (
    TO_LEADER,
    LinkDown,
    LinkUp,
    Message,
    Notification,
    Ping,
    Pong,
    Propose,
    Reachable,
    SnapBegin,
    SnapChunk,
    SnapEnd,
    SnapResume,
)
from zab.core.messages import State as Role
from zab.core.node import Node
from zab.core.ready import (
    Activate,
    Append,
    Apply,
    Dial,
    FindSnapshot,
    InstallSnapshot,
    Note,
    Restore,
    SaveEpochs,
    SendLog,
    SendRest,
    SendSnapshot,
    Settings,
    SnapshotChunk,
    Truncate,
    Write,
)
from zab.core.zxid import Epoch, Millis, ServerId, Zxid, follows, show

QUIET: Final = (Ping, Pong, SnapChunk, SnapshotChunk)
"""What a story does not tell unless it is about that."""


@define(eq=False)
class Link:
    """One learner link. Each end stays open until it receives the event that the link is down."""

    learner: ServerId
    leader: ServerId
    open: set[ServerId] = field(factory=set)


@frozen
class HungUp:
    """The last thing on a link that the other end closed."""


@define(eq=False)
class Packet:
    number: int
    source: ServerId
    to: ServerId
    message: Message | HungUp
    link: Link | None

    @property
    def name(self) -> str:
        return type(self.message).__name__

    def __str__(self) -> str:
        what = "HungUp" if isinstance(self.message, HungUp) else words.of_message(self.message)
        return f"{self.source}->{self.to} {what}"


@frozen
class Event:
    """One event. A summary selects events by `kind`, and merges consecutive `batch` events of one server."""

    kind: str
    text: str
    subject: str = ""
    first: Zxid = Zxid(0)
    last: Zxid = Zxid(0)


@frozen
class Input:
    """Something that a node is about to hear, and the end of a link that it is about."""

    to: ServerId
    act: Callable[[Node], None]
    end: tuple[ServerId, bool] | None = None


@define(eq=False)
class Server:
    id: ServerId
    file: Ensemble
    disk: Disk = field(factory=Disk)
    slow: bool = False
    node: Node | None = None
    state: State = field(factory=list)
    epochs: SaveEpochs | None = None

    @property
    def alive(self) -> Node:
        assert self.node is not None, f"server {self.id} is not running"
        return self.node


class World:
    def __init__(self) -> None:
        self.now: Millis = 0
        self.settings = Settings(tick_ms=500, init_limit=10, sync_limit=4)
        self.ensemble: Ensemble | None = None
        self.chunk_bytes = 1 << 20
        """Of a snapshot that is sent."""
        self.servers: dict[ServerId, Server] = {}
        self.events: list[Event] = []
        self.hidden: set[type] = set(QUIET)
        self.cuts: set[tuple[ServerId, ServerId]] = set()
        self.packets: list[Packet] = []
        self._links: list[Link] = []
        self._number = 0
        self._inputs: list[Input] = []
        self._decided: dict[Zxid, bytes] = {}
        self._led: dict[Epoch, ServerId] = {}

    # -- servers -----------------------------------------------------------------------------------

    def running(self) -> Iterator[tuple[ServerId, Node]]:
        for sid, server in sorted(self.servers.items()):
            if server.node is not None:
                yield sid, server.node

    def start(self, sid: ServerId) -> None:
        server = self.servers[sid]
        assert server.node is None, f"server {sid} is running already"
        recovered = server.disk.recovered()
        server.state = thaw(server.disk.state)
        known = recovered.ensemble or server.file
        server.epochs = SaveEpochs(
            0, recovered.accepted, recovered.current, known, recovered.voting, recovered.forgotten
        )
        server.node = Node(sid, server.file, recovered, self.settings, lambda limit: limit, self.now)
        self._drain(sid)
        for other, _ in list(self.running()):
            if other != sid and not self.is_cut(sid, other):
                self._reachable(sid, other)
        self.run_inputs()

    def crash(self, sid: ServerId, keep: bool = False) -> None:
        """Crash the server. Unreported writes are lost, or with `keep` reach the disk."""
        server = self.servers[sid]
        assert server.node is not None, f"server {sid} is not running"
        while keep and server.disk.pending:
            self._tell_saved(sid, server.disk.save_one()[0])
        server.node = None
        server.disk.crash()
        for packet in [each for each in self.packets if sid in (each.source, each.to)]:
            self.lose(packet)
        for link in [each for each in self._links if sid in (each.learner, each.leader)]:
            link.open.discard(sid)
            for end in sorted(link.open):
                if not self.is_cut(sid, end):
                    self._close_end(link, end)
        self.run_inputs()

    # -- the network -------------------------------------------------------------------------------

    def is_cut(self, one: ServerId, other: ServerId) -> bool:
        return (one, other) in self.cuts or (other, one) in self.cuts

    def heal(self, one: ServerId, other: ServerId) -> None:
        self.cuts -= {(one, other), (other, one)}
        for link in [each for each in self._links if {each.learner, each.leader} == {one, other}]:
            if len(link.open) == 1:
                # One end went away behind the partition; the other hears it only now.
                self._forget_packets(link)
                self._close_end(link, min(link.open))
        if all(self.servers[sid].node is not None for sid in (one, other)):
            self._reachable(one, other)
        self.run_inputs()

    def break_links(self, one: ServerId, other: ServerId) -> None:
        for link in [each for each in self._links if {each.learner, each.leader} == {one, other}]:
            self._forget_packets(link)
            for end in sorted(link.open):
                self._close_end(link, end)
        self.run_inputs()

    def queue(self, source: ServerId, to: ServerId) -> list[Packet]:
        if (source, to) in self.cuts:
            return []
        return [packet for packet in self.packets if packet.source == source and packet.to == to]

    def deliver(self, packet: Packet) -> None:
        self.packets.remove(packet)
        message = packet.message
        if isinstance(message, HungUp):
            assert packet.link is not None
            self._close_end(packet.link, packet.to)
        elif self.servers[packet.to].node is not None:
            self.step(packet.to, lambda node: node.step(packet.source, message, self.now))
        self.run_inputs()

    def lose(self, packet: Packet) -> None:
        self.packets.remove(packet)
        if packet.link is not None and type(packet.message) not in (*self.hidden, HungUp):
            self.tell("lost", f"lost {packet}")

    def _reachable(self, one: ServerId, other: ServerId) -> None:
        self._inputs.append(Input(one, lambda node: node.step(other, Reachable(), self.now)))
        self._inputs.append(Input(other, lambda node: node.step(one, Reachable(), self.now)))

    def _link_event(self, to: ServerId, peer: ServerId, event: LinkUp | LinkDown) -> None:
        # What was still to be heard of an older link at this end is not heard any more.
        self._forget_link_events(to, peer, event.dialled)
        self._inputs.append(Input(to, lambda node: node.step(peer, event, self.now), (peer, event.dialled)))

    def _forget_link_events(self, to: ServerId, peer: ServerId, dialled: bool) -> None:
        self._inputs = [each for each in self._inputs if (each.to, each.end) != (to, (peer, dialled))]

    def _dial(self, learner: ServerId, leader: ServerId) -> None:
        if leader not in self.servers or self.servers[leader].node is None or self.is_cut(learner, leader):
            self.tell("link", f"{learner} cannot reach {leader}")
            self._link_event(learner, leader, LinkDown(dialled=True))
            return
        for old in [each for each in self._links if (each.learner, each.leader) == (learner, leader)]:
            self._forget_packets(old)
            self._links.remove(old)
        self._links.append(Link(learner, leader, {learner, leader}))
        self.tell("link", f"{learner} dials {leader}")
        self._link_event(leader, learner, LinkUp(dialled=False))
        self._link_event(learner, leader, LinkUp(dialled=True))

    def _link(self, sender: ServerId, to: ServerId, from_learner: bool) -> Link | None:
        learner, leader = (sender, to) if from_learner else (to, sender)
        for link in self._links:
            if (link.learner, link.leader) == (learner, leader) and sender in link.open:
                return link
        return None

    def _hang_up(self, sid: ServerId, peer: ServerId, dialled: bool) -> None:
        link = self._link(sid, peer, from_learner=dialled)
        self._forget_link_events(sid, peer, dialled)
        if link is None:
            return
        link.open.discard(sid)
        for packet in [each for each in self.packets if each.link is link and each.to == sid]:
            self.lose(packet)
        if peer in link.open:
            self._post(sid, peer, HungUp(), link)
        else:
            self._links.remove(link)

    def _close_end(self, link: Link, end: ServerId) -> None:
        """Give this end the event that the link is down."""
        if end not in link.open:
            return
        link.open.discard(end)
        self._forget_packets(link, to=end)
        if not link.open:
            self._links.remove(link)
        peer, dialled = (link.leader, True) if end == link.learner else (link.learner, False)
        self._link_event(end, peer, LinkDown(dialled))

    def _forget_packets(self, link: Link, to: ServerId | None = None) -> None:
        for packet in [each for each in self.packets if each.link is link and to in (None, each.to)]:
            self.lose(packet)

    def _post(self, source: ServerId, to: ServerId, message: Message | HungUp, link: Link | None) -> None:
        self._number += 1
        self.packets.append(Packet(self._number, source, to, message, link))

    # -- turning -----------------------------------------------------------------------------------

    def step(self, sid: ServerId, act: Callable[[Node], None]) -> None:
        """Step one node: one input, then its effects."""
        node = self.servers[sid].node
        if node is None:
            return
        act(node)
        self._drain(sid)
        self.run_inputs()

    def run_inputs(self) -> None:
        while self._inputs:
            heard = self._inputs.pop(0)
            node = self.servers[heard.to].node
            if node is not None:
                heard.act(node)
                self._drain(heard.to)

    def save(self, sid: ServerId, count: int = 1) -> None:
        """Make the oldest writes durable by one fsync, and report the last one to the node."""
        for _ in range(count):
            write, ticket = self.servers[sid].disk.save_one()
            self._tell_saved(sid, write)
        held = self.servers[sid].disk.held

        def saved(node: Node) -> None:
            node.holds(held)
            node.saved(ticket, self.now)

        self.step(sid, saved)

    def _drain(self, sid: ServerId) -> None:
        server = self.servers[sid]
        node = server.alive
        ready = node.ready()
        for note in ready.notes:
            self._tell_note(sid, node, note)
        for write in ready.save:
            server.disk.pending.append(write)
            if server.slow:
                self._tell_save(sid, write)
        for what in ready.apply:
            self._apply(server, what)
        for envelope in ready.send:
            self._send(server, envelope.to, envelope.message)
        for wish in ready.links:
            if isinstance(wish, Dial):
                self._dial(sid, wish.to)
            else:
                self._hang_up(sid, wish.peer, wish.dialled)
        for question in ready.finds:
            self._find(server, question)
        for barrier in ready.barriers:
            outcome = "failed" if barrier.zxid is None else f"done at {show(barrier.zxid)}"
            self.tell("barrier", f"{sid} barrier {barrier.token} {outcome}")
        while server.disk.pending and not server.slow:
            self.save(sid, len(server.disk.pending))

    def _chunks(self, data: bytes) -> list[bytes]:
        size = self.chunk_bytes
        return [data[at : at + size] for at in range(0, len(data), size)]

    def _find(self, server: Server, question: FindSnapshot) -> None:
        found = server.disk.find(question.held)
        self.tell("disk", f"{server.id} {'has' if found else 'does not have'} a snapshot with that beginning")
        self._inputs.append(Input(server.id, lambda node: node.found(question, found, self.now)))

    def _send(self, server: Server, to: ServerId, message: Message | SendSnapshot | SendRest | SendLog) -> None:
        sid = server.id
        if isinstance(message, SendSnapshot):
            assert message.zxid == server.alive.applied, "the snapshot to send is of what is applied"
            self._send(server, to, SnapBegin(message.zxid, message.digest))
            for chunk in self._chunks(freeze(server.state)):
                self._send(server, to, SnapChunk(chunk))
            self._send(server, to, SnapEnd())
        elif isinstance(message, SendRest):
            held, found = message.held, message.found
            self._send(server, to, SnapResume(held.zxid, found.digest, held.size, found.size))
            for chunk in self._chunks(server.disk.state[held.size :]):
                self._send(server, to, SnapChunk(chunk))
            self._send(server, to, SnapEnd())
        elif isinstance(message, SendLog):
            sent = server.disk.read(message.after, message.until)
            assert sent, "the log that was to be sent is purged"
            assert follows(sent[0].first, message.after), "the log that was to be sent has a hole"
            assert sent[-1].last == message.until, "the log that was to be sent ends early"
            for batch in sent:
                self._send(server, to, Propose(batch))
        elif isinstance(message, Notification):
            if (sid, to) not in self.cuts and to in self.servers and self.servers[to].node is not None:
                self._post(sid, to, message, None)
            self.tell("send", words.of_message(message), f"{sid}->{to}")
        else:
            from_learner = type(message) in TO_LEADER
            link = self._link(sid, to, from_learner)
            assert link is not None, f"{sid} talks to {to}, but there is no link"
            if (link.learner if sid == link.leader else link.leader) in link.open:
                self._post(sid, to, message, link)
            if type(message) not in self.hidden:
                self.tell("send", words.of_message(message), f"{sid}->{to}")

    def _apply(self, server: Server, what: Apply | Restore | Activate) -> None:
        sid = server.id
        if isinstance(what, Activate):
            ensemble = what.ensemble
            self.tell("history", f"{sid} activates {show(ensemble.version)}: {words.members(ensemble)}")
        elif isinstance(what, Restore):
            assert server.disk.snapshot == what.zxid, "restored before it was durable"
            server.state = thaw(server.disk.state)
            self.tell("history", f"{sid} becomes the snapshot {show(what.zxid)}")
        else:
            self._deliver_batch(server, what.batch)
            self.tell("batch", "applies", str(sid), what.batch.first, what.batch.last)

    # -- the judge ---------------------------------------------------------------------------------

    def _deliver_batch(self, server: Server, batch: Batch) -> None:
        for offset, payload in enumerate(batch.payloads()):
            zxid = Zxid(batch.first + offset)
            last = server.state[-1][0] if server.state else Zxid(0)
            assert follows(zxid, last), f"server {server.id} applies {show(zxid)} behind {show(last)}"
            assert self._decided.setdefault(zxid, payload) == payload, f"two transactions are {show(zxid)}"
            before = [decided for decided in self._decided if decided < zxid and decided > last]
            assert not before, f"server {server.id} skips {[show(each) for each in before]}"
            server.state.append((zxid, payload))

    def _judge_leader(self, sid: ServerId, epoch: Epoch) -> None:
        assert self._led.setdefault(epoch, sid) == sid, f"{self._led[epoch]} and {sid} both lead epoch {epoch}"

    # -- telling -----------------------------------------------------------------------------------

    def tell(self, kind: str, text: str, subject: str = "", first: Zxid = Zxid(0), last: Zxid = Zxid(0)) -> None:
        self.events.append(Event(kind, text, subject, first, last))

    def _tell_note(self, sid: ServerId, node: Node, note: Note) -> None:
        fields = dict(note.fields)
        if note.event == "membership":
            return  # told when it is activated
        if note.event == "established":
            self._judge_leader(sid, node.epoch)
            followers = " with " + ",".join(str(peer) for peer in node.synced) if node.synced else ""
            self.tell("role", f"{sid} leads epoch {node.epoch}{followers}")
        elif note.event == "up_to_date":
            joins = "observes" if node.state is Role.OBSERVING else "follows"
            self.tell("role", f"{sid} {joins} {fields['leader']} in epoch {fields['epoch']}")
        elif note.event in ("looking", "elected", "ignored"):
            self.tell("talk", f"{sid} {words.of_note(note)}")
        else:
            self.tell("role", f"{sid} {words.of_note(note)}")

    def _tell_save(self, sid: ServerId, write: Write) -> None:
        if isinstance(write, Append):
            self.tell("save", f"{sid} saves {words.of_batch(write.batch)}")
        elif type(write) not in self.hidden:
            self.tell("save", f"{sid} saves {self._name(sid, write)}")

    def _tell_saved(self, sid: ServerId, write: Write) -> None:
        if isinstance(write, Append):
            self.tell("batch", "saved", str(sid), write.batch.first, write.batch.last)
        elif isinstance(write, SaveEpochs):
            self.tell("disk", f"{sid} saved {self._name(sid, write)}")
            self.servers[sid].epochs = write
        elif isinstance(write, Truncate | InstallSnapshot):
            self.tell("history", f"{sid} saved {self._name(sid, write)}")
        elif type(write) not in self.hidden and self.servers[sid].slow:
            self.tell("disk", f"{sid} saved {self._name(sid, write)}")

    def _name(self, sid: ServerId, write: Write) -> str:
        if isinstance(write, SaveEpochs):
            server = self.servers[sid]
            pending = [each for each in server.disk.pending if isinstance(each, SaveEpochs) and each is not write]
            earlier = [each for each in pending if each.ticket < write.ticket]
            return words.of_epochs(write, earlier[-1] if earlier else server.epochs)
        if isinstance(write, Truncate):
            return f"the cut at {show(write.zxid)}"
        if isinstance(write, InstallSnapshot):
            return f"the snapshot {show(write.zxid)}"
        return type(write).__name__

    # -- all at once -------------------------------------------------------------------------------

    def tick(self, until: Millis) -> None:
        """Let time pass, as far as `until`, and no message with it."""
        while True:
            waiting = [(node.deadline, sid) for sid, node in self.running()]
            deadline, sid = min(waiting, default=(until + 1, ServerId(0)))
            if deadline > until:
                break
            self.now = max(self.now, deadline)
            self.step(sid, lambda node: node.tick(self.now))
            assert self.servers[sid].alive.deadline > self.now, f"server {sid} wants the time it already has"
        self.now = until

    def pump(self, slow_disks: bool = False, limit: int = 10_000) -> None:
        """Deliver until nothing is under way; with `slow_disks`, save until nothing waits there either."""
        for _ in range(limit):
            for sid, server in sorted(self.servers.items()):
                while slow_disks and server.node is not None and server.disk.pending:
                    self.save(sid, len(server.disk.pending))
            packet = next((each for each in self.packets if (each.source, each.to) not in self.cuts), None)
            if packet is not None:
                self.deliver(packet)
            elif not slow_disks or all(not server.disk.pending for server in self.servers.values()):
                return
        raise AssertionError("they talk and talk, and no time passes")

    def calm(self) -> bool:
        """Return whether all servers follow one leader and have applied everything."""
        nodes = dict(self.running())
        leaders = {node.leader for node in nodes.values()}
        if len(leaders) != 1 or (leader := leaders.pop()) not in nodes:
            return False
        last = nodes[leader].last
        return all(node.serving and node.applied == last and not node.pending for node in nodes.values()) and set(
            nodes[leader].synced
        ) == set(nodes) - {leader}

    def stabilize(self, limit: Millis) -> bool:
        until = self.now + limit
        while True:
            self.pump(slow_disks=True)
            if self.calm():
                return True
            deadline = min((node.deadline for _, node in self.running()), default=until + 1)
            if deadline > until:
                self.now = until
                return False
            self.tick(max(deadline, self.now))
