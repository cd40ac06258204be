"""Fixed work in one process: a little of whatever the servers do most."""

from __future__ import annotations

import time
from collections.abc import Callable
from struct import Struct
from typing import Final

from bench.micro import broadcast, wire
from bench.store_micro import PAYLOAD, Leader, request
from zab.store.acl import OPEN
from zab.store.operations import Op
from zab.wire.client.client_frames import RequestReader
from zab.wire.client.requests import encode_request

NODES: Final = 100
SETS: Final = 1_000
CREATES: Final = 1_000
BATCHES: Final = 100
BATCH: Final = 16
FRAMES: Final = 100
REQUESTS: Final = 2_000
READ: Final = 8_192


def sets() -> int:
    leader = Leader()
    for number in range(NODES):
        leader.do(request(Op.CREATE, f"/node-{number:04d}", PAYLOAD, OPEN, 0))
    for number in range(SETS):
        leader.do(request(Op.SET_DATA, f"/node-{number % NODES:04d}", PAYLOAD, -1))
    return NODES + SETS


def creates() -> int:
    leader = Leader()
    for number in range(CREATES):
        leader.do(request(Op.CREATE, f"/node-{number:06d}", PAYLOAD, OPEN, 0))
    return CREATES


def agreed() -> int:
    return broadcast(BATCHES, BATCH)[0]


def framed() -> int:
    return wire(FRAMES, BATCH)[0]


def asked() -> int:
    """Client requests as bytes of a socket."""
    requests = [encode_request(Op.SET_DATA, xid, (f"/node-{xid % NODES:04d}", PAYLOAD, -1)) for xid in range(REQUESTS)]
    sent, reader = b"".join(requests), RequestReader(1 << 20)
    heard = sum(len(reader.feed(sent[start : start + READ])) for start in range(0, len(sent), READ))
    assert heard == REQUESTS
    return REQUESTS


WORKS: Final[dict[str, Callable[[], int]]] = {
    "store: a set prepared and applied": sets,
    "store: a create prepared and applied": creates,
    "core: a transaction agreed by three, 16 in a batch": agreed,
    "wire: a transaction forwarded, proposed and committed, 16 in a batch": framed,
    "wire: a request of a client encoded and read": asked,
}

_PAIR: Final = Struct(">iq")
TURNS: Final = 60_000


def calibration_s() -> float:
    """CPU seconds of a loop like ours, of calls, dictionaries and bytes. Never change it: stored figures rest on it."""
    began = time.process_time()
    seen: dict[bytes, int] = {}
    total = 0
    for number in range(TURNS):
        key = _PAIR.pack(number & 1023, number & 1023)
        seen[key] = seen.get(key, 0) + 1
        total += _step(key, number)
    assert len(seen) == 1024
    assert total > 0
    return time.process_time() - began


def _step(key: bytes, number: int) -> int:
    small, large = _PAIR.unpack(key)
    return int(small + large + (number >> 3))
