"""The machine of the cores world behind the face of a machine of the runtime."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from harness.worlds.cores.machine import Machine
from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.zxid import Zxid
from zab.service.replicated_machine import Passive
from zab.wire.relay_messages import TAG_BYTES

if TYPE_CHECKING:
    from harness.worlds.stack.server import Life


class NotWhatWasSaid(Exception):
    """The driver fed the machine something else than what the node handed out."""


class Holds(Protocol):
    """What a server's machine is looked at for."""

    @property
    def zxid(self) -> Zxid: ...
    @property
    def digest(self) -> int:
        """A checksum of the whole state."""


class Fed:
    """What the node handed out must come to the machine one by one, and in that order."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._expected: deque[Batch] = deque()
        self._left: deque[tuple[Zxid, bytes]] = deque()
        """Of the first of the expected, which the checkers have been told of."""

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
        """With its tag."""
        payload = self.next(zxid)
        if payload[TAG_BYTES:] != txn:
            raise NotWhatWasSaid(f"{zxid:x} is {txn!r}, the node said {payload!r}")
        return payload


class ToldMachine(Passive):
    def __init__(self, life: Life) -> None:
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
