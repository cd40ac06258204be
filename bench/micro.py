"""Measure the pure layers alone: a fixed amount of work in one process, in operations per CPU second.

No disk, no network, no clock: two runs of the same code on the same machine differ by a few per cent, so a
change of ten means that somebody changed something.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from bench.report import Result, median, publish
from zab.core.batch import pack
from zab.core.ensemble import Ensemble
from zab.core.messages import Ack, Commit, LinkEvent, LinkUp, Message, Propose
from zab.core.node import Node
from zab.core.ready import Apply, Dial, Ready, Recovered, SendLog, SendRest, SendSnapshot, Settings
from zab.core.zxid import Epoch, ServerId, Zxid, make
from zab.wire.frames import FrameReader
from zab.wire.peer import Channel, decode, encode
from zab.wire.relay_messages import Forward

PAYLOAD: Final = bytes(128)


class Trio:
    """Three nodes with disks and a network that take no time: the rest is the cost of the core."""

    def __init__(self) -> None:
        text = "\n".join(f"server.{sid}=127.0.0.1:{20000 + sid}:{21000 + sid}" for sid in (1, 2, 3))
        ensemble = Ensemble.parse(text)
        self.now = 0
        self.applied = 0
        self._heard: deque[tuple[ServerId, ServerId, Message | LinkEvent]] = deque()
        self.nodes = {
            ServerId(sid): Node(
                ServerId(sid), ensemble, Recovered(Epoch(0), Epoch(0)), Settings(), lambda most: most, 0
            )
            for sid in (1, 2, 3)
        }
        while not all(node.serving for node in self.nodes.values()):
            self.settle()
            self.now = min(node.deadline for node in self.nodes.values())
            assert self.now < 60_000, "three nodes with a perfect network found no leader in a minute"
            for node in self.nodes.values():
                node.tick(self.now)
        self.leader = next(node for node in self.nodes.values() if node.leader == node.me)

    def settle(self) -> None:
        """Deliver until no message is in flight."""
        while True:
            for node in self.nodes.values():
                self._drain(node)
            if not self._heard:
                return
            while self._heard:
                source, to, message = self._heard.popleft()
                self.nodes[to].step(source, message, self.now)

    def _drain(self, node: Node) -> None:
        while ready := node.ready():
            self._perform(node, ready)

    def _perform(self, node: Node, ready: Ready) -> None:
        for link in ready.links:
            if type(link) is Dial:
                self._heard.append((node.me, link.to, LinkUp(dialled=False)))
                self._heard.append((link.to, node.me, LinkUp(dialled=True)))
        for envelope in ready.send:
            assert not isinstance(envelope.message, SendSnapshot | SendRest | SendLog), "all nodes begin empty"
            self._heard.append((node.me, envelope.to, envelope.message))
        for applied in ready.apply:
            if type(applied) is Apply:
                self.applied += len(applied.batch.payloads())
        if ready.save:
            node.saved(ready.save[-1].ticket, self.now)


def broadcast(batches: int, size: int) -> tuple[int, float]:
    """Propose, save, acknowledge, commit and apply on three nodes. Returns transactions and CPU seconds."""
    trio = Trio()
    payloads = [PAYLOAD] * size
    began = time.process_time()
    for _ in range(batches):
        trio.leader.propose(payloads, trio.now)
        trio.settle()
    took = time.process_time() - began
    assert trio.applied == 3 * batches * size
    return batches * size, took


def wire(rounds: int, size: int) -> tuple[int, float]:
    """Encode and decode the messages of one batch: a forward, a proposal, an acknowledgement and a commit."""
    forward = Forward(Epoch(1), b"12345678", 1, (PAYLOAD,) * size)
    batch = pack(make(1, 1), [PAYLOAD] * size)
    messages: list[tuple[Channel, object]] = [
        (Channel.TO_LEADER, forward),
        (Channel.TO_LEARNER, Propose(batch)),
        (Channel.TO_LEADER, Ack(Zxid(batch.last))),
        (Channel.TO_LEARNER, Commit(Zxid(batch.last))),
    ]
    reader = FrameReader(16 << 20)
    began = time.process_time()
    for _ in range(rounds):
        for channel, message in messages:
            for payload in reader.feed(encode(message)):  # type: ignore[arg-type]
                decode(channel, payload)
    return rounds * size, time.process_time() - began


WORK: Final[dict[str, Callable[[], tuple[int, float]]]] = {
    "core, 1 per batch": lambda: broadcast(5_000, 1),
    "core, 16 per batch": lambda: broadcast(3_000, 16),
    "core, 256 per batch": lambda: broadcast(1_000, 256),
    "wire, 1 per batch": lambda: wire(10_000, 1),
    "wire, 16 per batch": lambda: wire(5_000, 16),
    "wire, 256 per batch": lambda: wire(1_000, 256),
}


def run(repeats: int) -> None:
    rows = []
    result: Result = {}
    for name, work in WORK.items():
        measured = [work() for _ in range(repeats)]
        seconds = median([took for _, took in measured])
        count = measured[0][0]
        result[name] = {"transactions": count, "cpu_s": [took for _, took in measured]}
        rows.append({"work": name, "transactions": count, "cpu s": seconds, "per cpu second": count / seconds})
    publish("micro", result, rows)
