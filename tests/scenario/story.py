"""The language of the stories: each line is a command, and each command returns its outcome as text.

ensemble 1 2 3 [observer 4] [groups 1:2:3 4:5] [weights 5=0] [leader=3 epoch=2]
                         the members; with `leader` they are started and established
settings NAME=N ...      fields of zab.core.ready.Settings; on or off for those that are true or false
server N [DISK ...]      the disk of N before its start: accepted=2 current=1 log=1/1-1/6,2/1
                         other=1/4 (differs there and from there on) damaged forgotten file="1 2 observer 4"
start N ...              start servers in this order
crash N [keep]           unsaved writes are lost, or (keep) reached the disk without a report
restart N ...            from the saved state of the disk
time +MS                 time passes, and nothing else happens
deliver A->B [N|KIND]    deliver messages from A to B; or the first N; or up to the first KIND
deliver all              deliver all messages in flight, but none that they cause
drop A->B [N|KIND]       lose them; only notifications may be lost without breaking a link
run                      deliver until no message is in flight; no time passes, and slow disks stay slow
disk N slow|instant      whether writes of N are durable at once, or only by `save`
save N [K]               all waiting writes of N, or the first K, become durable by one fsync
cut A-B | A->B           no message arrives any more, without a report; A-* is all servers
heal A-B | all
break A-B                the link breaks, and both ends get the event
propose N "text" ...     as one batch
reconfigure N members [expect=2/1]
barrier N TOKEN
chunks BYTES             the size of snapshot chunks; by default a snapshot is one chunk
snapshot N [purge]       N takes a snapshot of its applied state, and purges the log before it
stabilize [MS]           deliver and let time pass until all agree; prints the outcome only
show [N ...]             the state of all servers
hide KIND ... | reveal KIND ...
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Callable
from typing import Any, Final

from attrs import evolve

from tests.scenario import words
from tests.scenario.world import Event, Packet, Server, World
from zab.core import messages
from zab.core.batch import pack
from zab.core.ensemble import Ensemble, Group, Role
from zab.core.ensemble import Server as Member
from zab.core.errors import ZabError
from zab.core.messages import Notification, State
from zab.core.zxid import Epoch, ServerId, Zxid, counter_of, epoch_of, parse, show

WIDTH: Final = 116
_FLAGS: Final = {"on": True, "off": False}
SUMMARY: Final = ("role", "history", "batch", "barrier")
STABILIZE_MS: Final = 20_000


class Story:
    """One world, and the commands that step it."""

    def __init__(self) -> None:
        self.world = World()

    def tell(self, line: str) -> str:
        """Run one command, and return its outcome as lines of text."""
        name, *arguments = shlex.split(line)
        command = _COMMANDS.get(name)
        assert command is not None, f"no such command: {name}"
        self.world.events.clear()
        said = command(self, arguments)
        if said is not None:
            return said
        return wrap(clauses(self.world.events))

    # -- the cast ----------------------------------------------------------------------------------

    def _ensemble(self, arguments: list[str]) -> str | None:
        world = self.world
        options = dict(word.split("=") for word in arguments if word.startswith(("leader=", "epoch=")))
        ensemble = members([word for word in arguments if not word.startswith(("leader=", "epoch="))])
        world.ensemble = ensemble
        for member in ensemble.servers:
            world.servers[member.id] = Server(member.id, ensemble)
        if not options:
            return None
        leader, epoch = ServerId(int(options["leader"])), int(options.get("epoch", 1))
        for sid, server in world.servers.items():
            server.disk.accepted = Epoch(epoch - 1)
            # Of equal logs the newest epoch wins, so this one will lead.
            server.disk.current = Epoch(max(epoch - 1 if sid == leader else epoch - 2, 0))
        for sid in world.servers:
            world.start(sid)
        assert world.stabilize(STABILIZE_MS), "this ensemble does not settle"
        node = world.servers[leader].alive
        assert (node.state, node.epoch) == (State.LEADING, epoch), f"{leader} does not lead epoch {epoch}"
        world.events.clear()
        return ""

    def _settings(self, arguments: list[str]) -> None:
        pairs = (word.split("=") for word in arguments)
        changes: dict[str, Any] = {name: _FLAGS[value] if value in _FLAGS else int(value) for name, value in pairs}
        self.world.settings = evolve(self.world.settings, **changes)

    def _server(self, arguments: list[str]) -> None:
        sid = ServerId(int(arguments[0]))
        world = self.world
        assert world.ensemble is not None, "first the ensemble"
        server = world.servers.setdefault(sid, Server(sid, world.ensemble))
        disk = server.disk
        options = dict(word.partition("=")[::2] for word in arguments[1:])
        if "file" in options:
            server.file = members(options["file"].split())
        other = parse(options["other"]) if "other" in options else None
        for part in filter(None, options.get("log", "").split(",")):
            first, _, last = part.partition("-")
            start, stop = parse(first), parse(last or first)
            for zxid in range(start, stop + 1):
                word = "other" if other is not None and zxid >= other else "txn"
                disk.batches.append(pack(Zxid(zxid), [f"{word} {show(Zxid(zxid))}".encode()]))
        logged = epoch_of(disk.batches[-1].last) if disk.batches else 0
        disk.current = Epoch(int(options.get("current", max(logged, disk.current))))
        disk.accepted = Epoch(int(options.get("accepted", max(disk.current, disk.accepted))))
        disk.whole = "damaged" not in options
        disk.forgotten = "forgotten" in options

    def _start(self, arguments: list[str]) -> None:
        for sid in arguments:
            self.world.start(ServerId(int(sid)))

    def _crash(self, arguments: list[str]) -> None:
        self.world.crash(ServerId(int(arguments[0])), keep="keep" in arguments)

    # -- what goes on between them -----------------------------------------------------------------

    def _time(self, arguments: list[str]) -> None:
        self.world.tick(self.world.now + int(arguments[0]))

    def _deliver(self, arguments: list[str]) -> None:
        for packet in self._chosen(arguments):
            if packet in self.world.packets:
                self.world.deliver(packet)

    def _drop(self, arguments: list[str]) -> None:
        for packet in self._chosen(arguments):
            assert isinstance(packet.message, Notification), f"{packet}: a link loses nothing without breaking"
            self.world.packets.remove(packet)

    def _chosen(self, arguments: list[str]) -> list[Packet]:
        world = self.world
        if arguments == ["all"]:
            return [each for each in world.packets if (each.source, each.to) not in world.cuts]
        found: list[Packet] = []
        for source, to in pairs(arguments[0], list(world.servers)):
            queue = world.queue(source, to)
            wanted = arguments[1] if len(arguments) > 1 else str(len(queue))
            if wanted.isdigit():
                assert queue, f"nothing is under way {arguments[0]}"
                found += queue[: int(wanted)]
                continue
            kind = getattr(messages, wanted, None)
            hits = [each for each in queue if each.name == wanted]
            assert hits, f"no {wanted} is under way {source}->{to}"
            # A link is first in, first out; the election channel is another, and not held up by it.
            same = [each for each in queue if (each.link is None) == (kind is Notification)]
            found += same[: same.index(hits[0]) + 1]
        return found

    def _run(self, arguments: list[str]) -> None:
        self.world.pump()

    def _disk(self, arguments: list[str]) -> None:
        server = self._named(arguments[0])
        server.slow = arguments[1] == "slow"
        while not server.slow and server.disk.pending:
            self.world.save(server.id, len(server.disk.pending))

    def _save(self, arguments: list[str]) -> None:
        server = self._named(arguments[0])
        count = int(arguments[1]) if len(arguments) > 1 else len(server.disk.pending)
        assert 0 < count <= len(server.disk.pending), f"only {len(server.disk.pending)} writes wait at {server.id}"
        self.world.save(server.id, count)

    def _cut(self, arguments: list[str]) -> None:
        for word in arguments:
            self.world.cuts |= set(pairs(word, list(self.world.servers)))
        # What is not on a link is not kept for later either.
        for packet in [each for each in self.world.packets if (each.source, each.to) in self.world.cuts]:
            if packet.link is None:
                self.world.packets.remove(packet)

    def _heal(self, arguments: list[str]) -> None:
        for word in arguments:
            chosen = sorted(self.world.cuts) if word == "all" else pairs(word, list(self.world.servers))
            for one, other in dict.fromkeys((min(pair), max(pair)) for pair in chosen):
                self.world.heal(one, other)

    def _break(self, arguments: list[str]) -> None:
        for one, other in pairs(arguments[0], list(self.world.servers))[:1]:
            self.world.break_links(one, other)

    # -- what is asked of them ---------------------------------------------------------------------

    def _propose(self, arguments: list[str]) -> None:
        payloads = [word.encode() for word in arguments[1:]]
        self._ask(arguments[0], lambda sid: self.world.servers[sid].alive.propose(payloads, self.world.now))

    def _reconfigure(self, arguments: list[str]) -> None:
        ensemble = members([word for word in arguments[1:] if not word.startswith("expect=")])
        expect = next((parse(word[7:]) for word in arguments if word.startswith("expect=")), None)
        for member in ensemble.servers:
            self.world.servers.setdefault(member.id, Server(member.id, ensemble))
        self._ask(arguments[0], lambda sid: self.world.servers[sid].alive.reconfigure(ensemble, expect, self.world.now))

    def _barrier(self, arguments: list[str]) -> None:
        self._ask(arguments[0], lambda sid: self.world.servers[sid].alive.barrier(int(arguments[1]), self.world.now))

    def _ask(self, word: str, act: Callable[[ServerId], object]) -> None:
        sid = ServerId(int(word))
        try:
            act(sid)
        except ZabError as error:
            self.world.tell("role", f"{sid} refuses: {type(error).__name__}: {error}")
        self.world.step(sid, lambda node: None)

    def _chunks(self, arguments: list[str]) -> None:
        self.world.chunk_bytes = int(arguments[0])

    def _snapshot(self, arguments: list[str]) -> None:
        server = self._named(arguments[0])
        node = server.alive
        server.disk.take_snapshot(node.applied, node.digest(), server.state, purge="purge" in arguments)
        if "purge" in arguments:
            node.log_starts(node.applied)
        self.world.tell("disk", f"{server.id} has a snapshot at {show(node.applied)}")

    # -- what is to be seen ------------------------------------------------------------------------

    def _stabilize(self, arguments: list[str]) -> str:
        settled = self.world.stabilize(int(arguments[0]) if arguments else STABILIZE_MS)
        told = wrap(clauses(summary(self.world.events)))
        return told if settled else "\n".join(filter(None, (told, "and they do not agree")))

    def _show(self, arguments: list[str]) -> str:
        chosen = [ServerId(int(word)) for word in arguments] or sorted(self.world.servers)
        return "\n".join(self._line(self.world.servers[sid]) for sid in chosen)

    def _line(self, server: Server) -> str:
        node = server.node
        if node is None:
            logged = show(server.disk.batches[-1].last) if server.disk.batches else show(server.disk.snapshot)
            return f"{server.id} down with {logged}, promised {server.disk.accepted}, epoch {server.disk.current}"
        what = node.state.name.lower()
        if node.state in (State.FOLLOWING, State.OBSERVING):
            what += f" {node.leader}"
        if not node.serving:
            what += f" in {node.phase}" if node.state is not State.LOOKING else ""
        line = f"{server.id} {what}, epoch {node.epoch}, last {show(node.last)}, applied {show(node.applied)}"
        if node.durable != node.last:
            line += f", durable {show(node.durable)}"
        if node.accepted != node.epoch:
            line += f", promised {node.accepted}"
        if counter_of(node.ensemble.version):
            line += f", membership {show(node.ensemble.version)}"
        if node.pending is not None:
            line += f", pending {show(node.pending.version)}"
        return line if node.voting else line + ", no vote"

    def _hide(self, arguments: list[str]) -> None:
        self.world.hidden |= {getattr(messages, word) for word in arguments}

    def _reveal(self, arguments: list[str]) -> None:
        self.world.hidden -= {getattr(messages, word) for word in arguments}

    def _named(self, word: str) -> Server:
        return self.world.servers[ServerId(int(word))]


_COMMANDS: Final[dict[str, Callable[[Story, list[str]], str | None]]] = {
    name.removeprefix("_"): getattr(Story, name)
    for name in (
        *("_ensemble", "_settings", "_server", "_start", "_crash", "_time", "_deliver", "_drop", "_run", "_disk"),
        *("_save", "_cut", "_heal", "_break", "_propose", "_reconfigure", "_barrier", "_snapshot", "_stabilize"),
        *("_show", "_hide", "_reveal", "_chunks"),
    )
} | {"restart": Story._start}


# -- reading -----------------------------------------------------------------------------------------


def members(arguments: list[str]) -> Ensemble:
    """`1 2 3 observer 4 groups 1:2 3 weights 3=0`"""
    servers: list[Member] = []
    groups: list[Group] = []
    weights: dict[ServerId, int] = {}
    kind = "voter"
    for word in arguments:
        if not word[0].isdigit():
            kind = word
        elif kind == "groups":
            groups.append(Group(len(groups) + 1, tuple(ServerId(int(sid)) for sid in word.split(":"))))
        elif kind == "weights":
            sid, _, weight = word.partition("=")
            weights[ServerId(int(sid))] = int(weight)
        else:
            role = Role.OBSERVER if kind == "observer" else Role.PARTICIPANT
            servers.append(Member(ServerId(int(word)), f"host{word}", 2888, 3888, role))
    return Ensemble(tuple(servers), groups=tuple(groups), weights=weights)


def pairs(word: str, everybody: list[ServerId]) -> list[tuple[ServerId, ServerId]]:
    """Parse pairs of servers: `1->2` is one direction, `1-2` both; `*` is all other servers."""
    match = re.fullmatch(r"(\d+|\*)(->|-)(\d+|\*)", word)
    assert match, f"expected something like 1->2 or 1-2, not {word}"
    left, arrow, right = match.groups()
    sources = everybody if left == "*" else [ServerId(int(left))]
    targets = everybody if right == "*" else [ServerId(int(right))]
    found = [(one, other) for one in sources for other in targets if one != other]
    return found if arrow == "->" else [*found, *((other, one) for one, other in found)]


# -- telling -----------------------------------------------------------------------------------------


def summary(events: list[Event]) -> list[Event]:
    """Return the outcome without messages. Consecutive saves or applies of one server are one line."""
    told: list[Event] = []
    open_runs: dict[tuple[str, str], int] = {}
    for event in events:
        if event.kind not in SUMMARY:
            continue
        if event.kind != "batch":
            open_runs.clear()
            told.append(event)
            continue
        key = (event.subject, event.text)
        at = open_runs.get(key)
        if at is None:
            open_runs[key] = len(told)
            told.append(event)
        else:
            told[at] = evolve(told[at], last=event.last)
    return told


def clauses(events: list[Event]) -> list[str]:
    """Return one clause for each event. Consecutive equal messages to several servers are one clause."""
    said: list[str] = []
    sender, receivers, text = "", [""], ""
    batch_run, first = ("", ""), Zxid(0)
    for event in events:
        if event.kind != "batch":
            batch_run = ("", "")
        if event.kind == "send":
            source, _, to = event.subject.partition("->")
            if said and (source, event.text) == (sender, text):
                receivers.append(to)
                said[-1] = f"{source}->{','.join(receivers)} {text}"
                continue
            sender, receivers, text = source, [to], event.text
            said.append(f"{source}->{to} {text}")
            continue
        sender = ""
        if event.kind == "batch":
            run = (event.subject, event.text)
            if run == batch_run:
                said.pop()
            else:
                batch_run, first = run, event.first
            said.append(f"{event.subject} {event.text} {words.span(first, event.last)}")
        else:
            said.append(event.text)
    return said


def wrap(said: list[str]) -> str:
    """Clauses that belong to one command, on as few lines as are pleasant to read; no clause is torn."""
    if not said:
        return ""
    glued = "; ".join(clause.replace(" ", "\0") for clause in said)
    lines = textwrap.wrap(glued, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")
