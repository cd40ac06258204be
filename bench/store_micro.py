"""The store by itself: the cost of one operation, and of a million nodes. `python -m bench.store_micro`

No disk, no network. CPU time per operation is the least of several rounds: on a shared machine the least is
what the code costs, and the rest is what the neighbours do. Only ratios between two runs on one machine count.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from attrs import frozen

from zab.core.zxid import make
from zab.store.acl import OPEN
from zab.store.operations import Op
from zab.store.request_format import INTERNAL, pack_body, pack_request
from zab.store.store import Store
from zab.store.znode import stat_fields

SESSION: Final = 1 << 56
PAYLOAD: Final = bytes(128)
ROUNDS: Final = 5
COUNT: Final = 20_000


@frozen
class View:
    zxid: int
    epoch: int
    now_ms: int
    outstanding: tuple[tuple[int, bytes], ...] = ()


class Client:
    session = SESSION
    identities = (("ip", "127.0.0.1"),)


class Leader:
    """Prepares and applies, one after the other, `depth` requests being outstanding."""

    def __init__(self) -> None:
        self.store = Store()
        self.zxid: int = make(1, 0)
        self.do(pack_request(Op.SET_SECRET, pack_body((bytes(32),)), flags=INTERNAL))
        self.do(pack_request(Op.CREATE_SESSION, pack_body((30_000,)), SESSION, 0, 1, flags=INTERNAL))

    def do(self, request: bytes) -> None:
        txn = self.prepare(request)
        self.store.apply(self.zxid, txn)

    def prepare(self, request: bytes) -> bytes:
        self.zxid += 1
        return self.store.prepare(request, View(self.zxid, 1, 1_700_000_000_000))


def request(op: Op, *fields: object) -> bytes:
    return pack_request(op, pack_body(fields), SESSION, 7, 1)


def per_op_us(work: Callable[[], int]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        gc.collect()
        began = time.process_time()
        count = work()
        best = min(best, (time.process_time() - began) / count)
    return best * 1e6


def writes(name: str, requests: Callable[[int], list[bytes]]) -> None:
    leader = Leader()
    for number in range(1000):
        leader.do(request(Op.CREATE, f"/node-{number:04d}", PAYLOAD, OPEN, 0))
    follower = Store()
    follower.restore(list(leader.store.snapshot()))
    rounds = iter(range(1000))
    txns: list[tuple[int, bytes]] = []
    tree_digest = {}

    def prepare() -> int:
        made = requests(next(rounds))
        txns.clear()
        for each in made:
            txns.append((leader.zxid + 1, leader.prepare(each)))
        return len(made)

    def apply_at(store: Store) -> Callable[[], int]:
        def apply() -> int:
            for zxid, txn in txns:
                store.apply(zxid, txn)
            return len(txns)

        return apply

    best = [float("inf")] * 3
    for _ in range(ROUNDS):
        gc.collect()
        for index, work in enumerate((prepare, apply_at(leader.store), apply_at(follower))):
            began = time.process_time()
            count = work()
            best[index] = min(best[index], (time.process_time() - began) / count * 1e6)
    tree_digest[name] = leader.store.digest.value
    assert follower.digest.value == leader.store.digest.value, "the follower came out otherwise"
    assert not follower.mismatches
    print(f"{name:28} prepare {best[0]:6.2f}  apply, leader {best[1]:6.2f}  apply, follower {best[2]:6.2f}  us")


def reads() -> None:
    leader = Leader()
    for number in range(1000):
        leader.do(request(Op.CREATE, f"/node-{number:04d}", PAYLOAD, OPEN, 0))
    for number in range(10_000):
        leader.do(request(Op.CREATE, f"/node-0000/child-{number:06d}", PAYLOAD, OPEN, 0))
    client, store = Client(), leader.store
    paths = [f"/node-{number % 1000:04d}" for number in range(COUNT)]

    def get(watch: bool) -> Callable[[], int]:
        def work() -> int:
            get_data = store.reads.get_data
            for path in paths:
                _, node = get_data(client, path, watch)
                stat_fields(node)
            store.watches.drop(client)
            return len(paths)

        return work

    def get_children() -> int:
        for _ in range(100):
            store.reads.get_children(client, "/node-0000", False)
        return 100

    print(f"{'getData with stat':28} {per_op_us(get(False)):6.2f} us")
    print(f"{'getData with stat and watch':28} {per_op_us(get(True)):6.2f} us")
    print(f"{'getChildren of 10,000':28} {per_op_us(get_children):6.2f} us")


def resident_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


class Longest:
    """The longest single step, by the clock and by the CPU time of this thread: neighbours lengthen only the first."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def step(self, work: Callable[[], None]) -> None:
        wall, cpu = time.perf_counter(), time.thread_time()
        work()
        self.cpu = max(self.cpu, time.thread_time() - cpu)
        self.wall = max(self.wall, time.perf_counter() - wall)

    def __str__(self) -> str:
        return f"{self.cpu * 1e3:.1f} ms of CPU ({self.wall * 1e3:.1f} ms by the clock)"


def million(count: int) -> None:
    """Load, snapshot beside writes, restore: memory for each node, and the longest time the loop stood still."""
    leader = Leader()
    gc.collect()
    gc.freeze()  # as the runtime does: the one dict of all nodes is never walked by the collector
    before = resident_kib()
    began = time.process_time()
    for number in range(100):
        leader.do(request(Op.CREATE, f"/load-{number:02d}", None, OPEN, 0))
    loading = Longest()
    for number in range(count):
        create = request(Op.CREATE, f"/load-{number % 100:02d}/node-{number:010d}", bytes(100), OPEN, 0)
        loading.step(partial(leader.do, create))
    took = time.process_time() - began
    grown = resident_kib() - before
    print(f"{count:,} nodes of 100 bytes in {took:.1f} s of CPU; longest write {loading}")
    print(f"memory {grown * 1024 / count:.0f} bytes for each node")
    beginning, during = Longest(), Longest()
    taken: list[Iterable[bytes]] = []
    beginning.step(lambda: taken.append(leader.store.snapshot()))
    print(f"snapshot begun in {beginning}")
    chunks: list[bytes] = []
    value = leader.store.digest.value

    def consume() -> None:
        chunks.extend(taken.pop())

    writer = threading.Thread(target=consume)
    began, written = time.process_time(), 0
    writer.start()
    while writer.is_alive():
        path = f"/load-{written % 100:02d}/node-{written % count:010d}"
        during.step(partial(leader.do, request(Op.SET_DATA, path, bytes(100), -1)))
        written += 1
    took, peak = time.process_time() - began, resident_kib()
    print(f"snapshot of {sum(map(len, chunks)) >> 20} MiB and {written:,} writes in {took:.1f} s of CPU")
    print(f"meanwhile longest write {during}, memory {(peak - before) * 1024 / count:.0f} bytes for each node")
    began = time.process_time()
    other = Store()
    other.restore(iter(chunks))
    print(f"restored in {time.process_time() - began:.1f} s of CPU")
    assert other.digest.value == value, "what was restored is not what was there"


def main() -> None:
    writes(
        "setData 128 bytes",
        lambda turn: [request(Op.SET_DATA, f"/node-{n % 1000:04d}", PAYLOAD, -1) for n in range(COUNT)],
    )
    writes("setData, one hot node", lambda turn: [request(Op.SET_DATA, "/node-0001", PAYLOAD, -1)] * COUNT)
    writes(
        "create 128 bytes",
        lambda turn: [
            request(Op.CREATE, f"/node-{n % 10:04d}/c{turn}-{n:06d}", PAYLOAD, OPEN, 0) for n in range(COUNT)
        ],
    )
    reads()
    if "--nodes" in sys.argv:
        million(int(sys.argv[sys.argv.index("--nodes") + 1]))


if __name__ == "__main__":
    main()
