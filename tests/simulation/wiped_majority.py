"""A majority of servers loses its disks and begins anew, beside one server that still has what was committed.

No protocol keeps its promises then, so the usual checkers have no say. What can be asked for is that the survivor
keeps what it knows to be committed, and helps no other history into force, until an operator decides; that it does
so for no other reason; and that afterwards all servers serve one history.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any, Final, TypeAlias

from harness.checkers import Checker, Violation
from harness.checkers.oracle_state import OracleState, ServerState
from harness.checkers.service import NoCrash
from harness.faults import Crash, CutLinks, Fault, Isolate, Pause, Restart, Script, Snapshot, Write
from harness.worlds.cores.liveness import Liveness
from harness.worlds.cores.server import Server
from harness.worlds.cores.world import World
from zab.core.batch import Batch
from zab.core.errors import ZabError
from zab.core.messages import AckNewLeader, State
from zab.core.ready import Note, Recovered
from zab.core.zxid import NOTHING, Epoch, Millis, ServerId, Zxid, epoch_of, show
from zab.storage.memory_disk import MemoryDisk

VOTERS: Final = 3
LENGTH_MS: Final = 4_000
STUCK_MS: Final = 3_000
"""After this time without a leader the operator who gives up histories keeps one instead."""
LOOKS_MS: Final = 100
"""How often the operator looks, from the time on at which it does."""

Ledger: TypeAlias = "list[tuple[Zxid, bytes]]"


class KeepsHistory(Checker):
    """Knows what each server was handed for its log, and how far it knows that to be committed."""

    invariant = "committed history is kept until an operator decides"

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self.ledgers: dict[ServerId, Ledger] = {known.id: [] for known in ghost.servers}
        self.lost: dict[ServerId, Ledger] = {known.id: [] for known in ghost.servers}
        """What was on the disk that the server lost last."""
        self.known: dict[ServerId, Zxid] = {known.id: NOTHING for known in ghost.servers}
        self.decided: set[ServerId] = set()
        """Servers whose history the operator has given up, and no leader has replaced yet."""
        self.vetoed_at: dict[tuple[ServerId, int, ServerId], Millis] = {}
        """By server, its life, and the leader: when the last veto was."""
        self.unknowable = 0
        """Histories that were replaced because neither side could know that the leader's is another one."""
        self.outlined: dict[ServerId, Zxid] = {}
        """The zxid behind which a leader knows the outline of its history."""

    def disk_emptied(self, sid: ServerId) -> None:
        self.lost[sid], self.ledgers[sid], self.known[sid] = self.ledgers[sid], [], NOTHING

    def has_all(self, leader: ServerId, sid: ServerId, until: Zxid) -> bool:
        """Return whether the leader's history begins with this server's, up to `until`."""
        theirs = dict(self.ledgers[leader])
        return all(theirs.get(zxid) == payload for zxid, payload in self.ledgers[sid] if zxid <= until)

    # -- facts -------------------------------------------------------------------------------------

    def appended(self, who: ServerState, batch: Batch) -> None:
        self.ledgers[who.id] += [(Zxid(batch.first + at), each) for at, each in enumerate(batch.payloads())]

    def truncated(self, who: ServerState, zxid: Zxid) -> None:
        if zxid < self.known[who.id] and who.id not in self.decided:
            self.fail(f"server {who.id} truncates to {show(zxid)}, and {show(self.known[who.id])} was committed there")
        self.ledgers[who.id] = [entry for entry in self.ledgers[who.id] if entry[0] <= zxid]

    def installed(self, who: ServerState, zxid: Zxid) -> None:
        known, leader = self.known[who.id], who.leader
        assert leader is not None
        whole = self.ledgers[leader]
        if not whole or whole[-1][0] < zxid:
            whole = self.lost[leader]
        elif who.id not in self.decided and not self.has_all(leader, who.id, known):
            # Other contents under the number of an older epoch: nothing tells where no digest is in memory.
            other_number = known not in dict(whole) or epoch_of(known) == self.ghost.servers[leader].epoch
            if self.outlined.get(leader, NOTHING) <= known and other_number:
                self.fail(f"a snapshot of {leader} replaces what server {who.id} knows, up to {show(known)}")
            self.unknowable += 1
        self.ledgers[who.id] = [entry for entry in whole if entry[0] <= zxid]
        self.known[who.id] = zxid
        self.decided.discard(who.id)

    def applied(self, who: ServerState, batch: Batch) -> None:
        self.known[who.id] = max(self.known[who.id], batch.last)

    def started(self, who: ServerState, recovered: Recovered) -> None:
        if not recovered.voting:
            return
        last = recovered.batches[-1].last if recovered.batches else recovered.snapshot
        self.ledgers[who.id] = [entry for entry in self.ledgers[who.id] if entry[0] <= last]
        self.known[who.id] = max(recovered.snapshot, recovered.committed)

    def said_ack_new_leader(self, who: ServerState, to: ServerId, message: AckNewLeader) -> None:
        known = self.known[who.id]
        if not self.has_all(to, who.id, known) and known not in dict(self.ledgers[to]):
            self.fail(
                f"server {who.id} helps the history of {to} into force, which lacks what it knows to be committed"
            )

    def role(self, who: ServerState, state: State, epoch: Epoch, leader: ServerId | None, serving: bool) -> None:
        if serving:
            self.vetoed_at = {pair: at for pair, at in self.vetoed_at.items() if pair[0] != who.id}

    def vetoed(self, sid: ServerId, life: int, leader: ServerId, committed: Zxid, now: Millis, retry: Millis) -> None:
        before = self.vetoed_at.get((sid, life, leader), -retry)
        if now - before < retry:
            self.fail(
                f"server {sid} vetoes leader {leader} again after {now - before} ms; it is to wait for {retry} ms"
            )
        self.vetoed_at[sid, life, leader] = now
        if self.has_all(leader, sid, committed):
            self.fail(f"server {sid} vetoes leader {leader}, which has everything up to {show(committed)}")


def drawn(seed: int) -> Script:
    """Writes all the time, and faults in the second half that no disk suffers from."""
    random = Random(f"{seed}/wiped")
    writes = [Write(at, random.randint(1, 6), 10) for at in range(300, LENGTH_MS, random.choice((20, 60)))]
    snapshots = [
        Snapshot(random.randrange(500, LENGTH_MS), random.randint(1, VOTERS)) for _ in range(random.randint(0, 5))
    ]
    faults: list[Fault] = []
    for _ in range(random.randint(0, 6)):
        at, who, long = random.randrange(1_800, LENGTH_MS), random.randint(0, VOTERS), random.randrange(20, 600)
        faults.append(
            random.choice(
                (
                    Crash(at, long, who),
                    Isolate(at, long, who),
                    CutLinks(at, who),
                    Pause(at, long, who),
                    Restart(at, long, who),
                )
            )
        )
    return Script(seed, VOTERS, length_ms=LENGTH_MS, ops=(*writes, *snapshots), faults=tuple(faults))


class _Later(Liveness):
    def __init__(self, world: Any) -> None:
        super().__init__(world)
        self.bound_ms += 2 * world.settings.veto_retry_ms + 2 * STUCK_MS


class WipedWorld(World):
    liveness_type = _Later

    def __init__(self, seed: int) -> None:
        super().__init__(drawn(seed), checkers=(NoCrash, KeepsHistory))
        (self.keeps,) = (each for each in self.judge.checkers if isinstance(each, KeepsHistory))
        self.vetoes = 0
        self.acted = 0
        """How often the operator did something."""
        self._chance = random = Random(f"{seed}/operator")
        self.survivor = ServerId(random.randint(1, VOTERS))
        self.gives_up = random.random() < 0.5
        """Whether the operator gives up what vetoes; else it empties the others once more."""
        self.looks_at = random.choice((random.randrange(1_700, LENGTH_MS), LENGTH_MS))
        self._emptied_at = self._stuck_since = 0
        chance = Random(f"{seed}/memberships")
        self.renews_at = sorted(chance.randrange(300, LENGTH_MS) for _ in range(chance.randint(0, 3)))
        """The times in milliseconds at which the leader proposes its membership anew, as after each readmission."""

    def play(self) -> Violation | None:
        self._prepare()
        self.push(random_ms(self._chance, 900, 1_500), self._wipe, None, None)
        for at in self.renews_at:
            self.push(at * 1_000, self._renew, None, None)
        self.push(self.looks_at * 1_000, self._operate, None, None)
        self._loop()
        assert not self.unknown, self.unknown
        return self.violation

    def _wipe(self, _: object, __: object) -> None:
        """All end, or all but the survivor; the disks of the others are empty when they come back."""
        chance = self._chance
        if chance.random() < 0.7:
            self.crash(self.servers[self.survivor], chance.choice(("keep", "lose")), chance.randrange(5, 1_200))
        self._empty(chance.choice((30, 300)))

    def _renew(self, _: object, __: object) -> None:
        leader = self.leader()
        if leader is not None and not leader.paused:
            with suppress(ZabError):
                leader.reconfigure(leader.node.ensemble)

    def _empty(self, down_ms: int) -> None:
        for server in self.servers[1:]:
            if server.id != self.survivor:
                self.crash(server, "keep", self._chance.randrange(5, down_ms))
                server.disk = MemoryDisk()
                server.founding = True
                self.keeps.disk_emptied(server.id)

    def _operate(self, _: object, __: object) -> None:
        vetoing = [server for server in self.running() if server.node.veto is not None and not server.paused]
        leader = self.leader()
        serves = leader is not None and leader.node.serving
        if not self.gives_up and vetoing and self.now - self._emptied_at > 2_000_000:
            self._emptied_at = self.now
            self.acted += 1
            self._empty(50)
        # One at a time: a server that is not healed yet does not vote, and two of them would be the end of the quorum.
        for server in vetoing if self.gives_up and not self.keeps.decided else ():
            if serves or server.id == self.survivor:
                self._give_up(server)
                break
        if serves or not vetoing:
            self._stuck_since = self.now
        elif self.now - self._stuck_since > STUCK_MS * 1_000:
            # The others have two histories, too: of the three, one is chosen.
            self.survivor, self.gives_up = vetoing[0].id, False
        self.push(self.now + LOOKS_MS * 1_000, self._operate, None, None)

    def _give_up(self, server: Server) -> None:
        self.acted += 1
        self.keeps.decided.add(server.id)
        server.node.give_up_history(server.now_ms)
        server.drain()

    def noted(self, server: Server, note: Note) -> None:
        if note.event == "vetoes":
            veto = server.node.veto
            assert veto is not None
            self.vetoes += 1
            retry = self.settings.veto_retry_ms
            self.keeps.vetoed(server.id, server.life, veto.leader, veto.committed, self.now_ms, retry)
        elif note.event == "synchronize":
            self.keeps.outlined[server.id] = server.node._log_state.history.outlined
        super().noted(server, note)


def random_ms(random: Random, least: int, most: int) -> int:
    """Return a time in microseconds."""
    return random.randrange(least, most) * 1_000
