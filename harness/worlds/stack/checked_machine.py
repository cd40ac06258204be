"""The list that members replicate, with checks of what the driver delivers to a state machine.

`DeliveryCheck`: a machine receives exactly what the node handed out, in that order. `RequestCheck`: each request is
applied once, and the requests of one member in their order; the cores have no requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, Protocol

from harness.checkers import Violation
from harness.worlds.cores.machine import Machine
from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.zxid import Zxid, show
from zab.service.replicated_machine import Passive
from zab.wire.relay_messages import ORIGIN_BYTES, TAG_BYTES

ONCE = "each request exactly once"
ORDER = "requests of a member stay in order"


class UnexpectedDelivery(Exception):
    """The driver delivered a transaction to the machine that is not the next one from the node."""


class MachineState(Protocol):
    """The state of a machine that checkers compare."""

    @property
    def zxid(self) -> Zxid: ...
    @property
    def digest(self) -> int:
        """A checksum of the whole state."""


class RequestCheck:
    """Checks every transaction that a machine applies. The workload numbers its writes, so that no two are equal."""

    def __init__(self) -> None:
        self._place: dict[bytes, Zxid] = {}
        self._last: dict[bytes, tuple[Zxid, int]] = {}

    def applied(self, zxid: Zxid, payload: bytes) -> None:
        txn = payload[TAG_BYTES:]
        place = self._place.get(txn)
        if place is not None:
            if place != zxid:
                raise Violation(ONCE, f"the request {txn[:20]!r} is applied at {show(place)} and at {show(zxid)}")
            return
        self._place[txn] = zxid
        origin, number = payload[:ORIGIN_BYTES], int(txn.partition(b"/")[0])
        before, last = self._last.get(origin, (Zxid(0), 0))
        if (zxid > before) is not (number > last):
            earlier = f"write {last} of the same member at {show(before)}"
            raise Violation(ORDER, f"write {number} is applied at {show(zxid)}, {earlier}")
        self._last[origin] = (zxid, number)


class DeliveryCheck:
    """Checks that the machine receives exactly the transactions that the node handed out, in that order."""

    def __init__(self, life: Any) -> None:
        self._life = life
        self._expected: deque[Batch] = deque()
        self._left: deque[tuple[Zxid, bytes]] = deque()
        """The rest of the first expected batch, which was reported to the checkers as applied."""

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
        expected, payload = self._left.popleft()
        if expected != zxid:
            raise UnexpectedDelivery(f"the machine receives {zxid:x}, the node handed out {expected:x}")
        return payload

    def transaction(self, zxid: Zxid, txn: bytes) -> bytes:
        """Return the expected payload, which is the transaction with its tag."""
        payload = self.next(zxid)
        if payload[TAG_BYTES:] != txn:
            raise UnexpectedDelivery(f"the machine receives {txn!r} at {zxid:x}, the node handed out {payload!r}")
        return payload


class CheckedMachine(Passive):
    def __init__(self, life: Any) -> None:
        self.machine_state = Machine(life.server.world.script.knobs.chunk_bytes)
        self.delivery_check = DeliveryCheck(life)
        self._life = life

    def apply(self, zxid: Zxid, txn: bytes) -> object:
        if not self._life.dead:
            payload = self.delivery_check.transaction(zxid, txn)
            self.machine_state.add(zxid, payload)
            self._life.server.world.request_check.applied(zxid, payload)
        return zxid

    def membership(self, ensemble: Ensemble, zxid: Zxid | None) -> None:
        if zxid is not None and not self._life.dead:
            self.machine_state.add(zxid, self.delivery_check.next(zxid))

    def snapshot(self) -> Iterable[bytes]:
        return self.machine_state.snapshot()

    def restore(self, chunks: Iterable[bytes]) -> None:
        self.machine_state.restore(chunks)
        self._life.restored()
