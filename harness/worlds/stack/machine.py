"""The list that members replicate, and what is checked where the driver feeds a machine.

`Fed`: a machine gets exactly what the node handed out, in that order. `Requests`: each request is applied once, and
those of one member in their order; the cores know nothing of requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from harness.checkers import Judge, Violation
from harness.faults import Script
from harness.worlds.cores.machine import Machine
from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.zxid import ServerId, Zxid, show
from zab.service.replicated_machine import Passive
from zab.wire.relay_messages import ORIGIN_BYTES, TAG_BYTES

ONCE = "each request exactly once"
ORDER = "requests of a member stay in order"


class NotWhatWasSaid(Exception):
    """The driver fed the machine something else than what the node handed out."""


class Holds(Protocol):
    """The state of a machine as checkers compare it."""

    @property
    def zxid(self) -> Zxid: ...
    @property
    def digest(self) -> int:
        """A checksum of the whole state."""


class Requests:
    """Checks every transaction that a machine applies. The workload numbers its writes, so no two are equal."""

    def __init__(self) -> None:
        self._place: dict[bytes, Zxid] = {}
        self._last: dict[bytes, tuple[Zxid, int]] = {}

    def applied(self, zxid: Zxid, payload: bytes) -> None:
        txn = payload[TAG_BYTES:]
        place = self._place.get(txn)
        if place is not None:
            if place != zxid:
                raise Violation(ONCE, f"{txn[:20]!r} is {show(place)}, and {show(zxid)}, too")
            return
        self._place[txn] = zxid
        origin, number = payload[:ORIGIN_BYTES], int(txn.partition(b"/")[0])
        before, last = self._last.get(origin, (Zxid(0), 0))
        if (zxid > before) is not (number > last):
            raise Violation(ORDER, f"write {number} is {show(zxid)}, write {last} of the same member {show(before)}")
        self._last[origin] = (zxid, number)


class Surroundings(Protocol):
    """The parts of the simulation that a machine reports to."""

    @property
    def script(self) -> Script: ...
    @property
    def judge(self) -> Judge: ...
    @property
    def requests(self) -> Requests: ...
    def record(self, server: int, verb: str, other: int, what: object) -> None: ...


class OfServer(Protocol):
    @property
    def id(self) -> ServerId: ...
    @property
    def world(self) -> Surroundings: ...


class Process(Protocol):
    """The parts of one life of a server that its machine uses."""

    @property
    def server(self) -> OfServer: ...
    @property
    def dead(self) -> bool: ...
    def restored(self) -> None: ...


class Fed:
    """Checks that the machine gets one by one what the node handed out, in that order."""

    def __init__(self, life: Process) -> None:
        self._life = life
        self._expected: deque[Batch] = deque()
        self._left: deque[tuple[Zxid, bytes]] = deque()
        """What is left of the first expected batch, which the checkers have seen."""

    def expect(self, batch: Batch) -> None:
        self._expected.append(batch)

    def next(self, zxid: Zxid) -> bytes:
        if not self._left:
            batch = self._expected.popleft()
            server = self._life.server
            server.world.record(server.id, "applies", 0, batch)
            server.world.judge.applied(server.id, batch)
            payloads = batch.payloads()
            self._left.extend((Zxid(batch.first + offset), payload) for offset, payload in enumerate(payloads))
        said, payload = self._left.popleft()
        if said != zxid:
            raise NotWhatWasSaid(f"{zxid:x} is applied, the node said {said:x}")
        return payload

    def transaction(self, zxid: Zxid, txn: bytes) -> bytes:
        """Return the expected payload, which is the transaction with its tag."""
        payload = self.next(zxid)
        if payload[TAG_BYTES:] != txn:
            raise NotWhatWasSaid(f"{zxid:x} is {txn!r}, the node said {payload!r}")
        return payload


class ToldMachine(Passive):
    def __init__(self, life: Process) -> None:
        self.holds = Machine(life.server.world.script.knobs.chunk_bytes)
        self.fed = Fed(life)
        self._life = life

    def apply(self, zxid: Zxid, txn: bytes) -> object:
        if not self._life.dead:
            payload = self.fed.transaction(zxid, txn)
            self.holds.add(zxid, payload)
            self._life.server.world.requests.applied(zxid, payload)
        return zxid

    def membership(self, ensemble: Ensemble, zxid: Zxid | None) -> None:
        if zxid is not None and not self._life.dead:
            self.holds.add(zxid, self.fed.next(zxid))

    def snapshot(self) -> Iterable[bytes]:
        return self.holds.snapshot()

    def restore(self, chunks: Iterable[bytes]) -> None:
        self.holds.restore(chunks)
        self._life.restored()
