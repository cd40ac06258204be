"""The machine of the cores world behind the face of a machine of the runtime."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from harness.worlds.cores.machine import Machine
from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.zxid import Zxid
from zab.runtime.machine import Passive
from zab.wire.relay import TAG_BYTES

if TYPE_CHECKING:
    from harness.worlds.stack.server import Life


class NotWhatWasSaid(Exception):
    """The driver fed the machine something else than what the node handed out."""


class ToldMachine(Passive):
    """It is fed what the node handed out, one by one and in that order: `expected` is what is still to come."""

    def __init__(self, life: Life) -> None:
        self.holds = Machine(life.server.world.script.knobs.chunk_bytes)
        self.expected: deque[Batch] = deque()
        self._life = life
        self._left: deque[tuple[Zxid, bytes]] = deque()
        """Of the first of `expected`, which the checkers have been told of."""

    def apply(self, zxid: Zxid, txn: bytes) -> object:
        if self._life.dead:
            return zxid
        payload = self._next(zxid)
        if payload[TAG_BYTES:] != txn:
            raise NotWhatWasSaid(f"{zxid:x} is {txn!r}, the node said {payload!r}")
        self._life.server.world.requests.applied(zxid, payload)
        return zxid

    def membership(self, ensemble: Ensemble, zxid: Zxid | None) -> None:
        if zxid is not None and not self._life.dead:
            self._next(zxid)

    def _next(self, zxid: Zxid) -> bytes:
        if not self._left:
            batch = self.expected.popleft()
            server = self._life.server
            server.world.record(server.id, "applies", 0, batch)
            server.world.judge.applied(server.id, batch)
            payloads = batch.payloads()
            self._left.extend((Zxid(batch.first + offset), payload) for offset, payload in enumerate(payloads))
        said, payload = self._left.popleft()
        if said != zxid:
            raise NotWhatWasSaid(f"{zxid:x} is applied, the node said {said:x}")
        self.holds.add(zxid, payload)
        return payload

    def snapshot(self) -> Iterable[bytes]:
        return self.holds.snapshot()

    def restore(self, chunks: Iterable[bytes]) -> None:
        self.holds.restore(chunks)
        self._life.restored()
