"""A million nodes at the client port: what each costs in memory, and how long the event loop is ever held up."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Any, Final

import trio

from bench.report import Result, publish
from bench.workers import Worker, python
from zab.store.acl import OPEN
from zab.store.operations import Op
from zab.wire.client.client_frames import FirstFrame, ReplyReader
from zab.wire.client.connect import ConnectRequest, decode_connect_response, encode_connect_request
from zab.wire.client.requests import encode_request

DATA: Final = bytes(range(100))
CHILDREN: Final = 1_000
CONNECTIONS: Final = 4
OUTSTANDING: Final = 250
READY_S: Final = 600.0
PAUSE_MS_MAX: Final = 100
NODE_BYTES_MAX: Final = 1_024


class Client:
    """Keeps a number of requests on their way, and looks at nothing but the errors of the replies."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._reader = ReplyReader()

    async def connect(self) -> None:
        await self._stream.send_all(encode_connect_request(ConnectRequest(0, 40_000)))
        first = FirstFrame()
        while (payload := first.feed(await self._received())) is None:
            pass
        decode_connect_response(payload)
        self._reader.feed(first.rest)

    async def _received(self) -> bytes:
        data = bytes(await self._stream.receive_some(1 << 16))
        if not data:
            raise RuntimeError("the server hung up")
        return data

    async def ask(self, requests: list[bytes]) -> None:
        sent = heard = 0
        while heard < len(requests):
            upto = min(len(requests), heard + OUTSTANDING)
            if upto > sent:
                await self._stream.send_all(b"".join(requests[sent:upto]))
                sent = upto
            for _, _, error, _ in self._reader.feed(await self._received()):
                if error:
                    raise RuntimeError(f"the server answered {error}")
                heard += 1


def creates(parents: range, children: int) -> list[bytes]:
    """Create one parent with its children after the other."""
    made = []
    for parent in parents:
        made.append(encode_request(Op.CREATE, 1, (f"/parent-{parent:05d}", b"", OPEN, 0)))
        for child in range(children):
            made.append(encode_request(Op.CREATE, 1, (f"/parent-{parent:05d}/node-{child:08d}", DATA, OPEN, 0)))
    return made


def some_of_everything(number: int, parents: int, count: int) -> list[bytes]:
    """Reads and writes all over the tree."""
    made = []
    for each in range(count):
        place = (number + each * CONNECTIONS) * 7_919
        path = f"/parent-{place % parents:05d}/node-{place // parents % CHILDREN:08d}"
        if each % 3:
            made.append(encode_request(Op.GET_DATA, 1, (path, False)))
        else:
            made.append(encode_request(Op.SET_DATA, 1, (path, DATA, -1)))
    return made


async def _all(port: int, work: Any) -> None:
    async with trio.open_nursery() as nursery:

        async def one(number: int) -> None:
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                client = Client(stream)
                await client.connect()
                await work(client, number)
                await client.ask([struct.pack(">iii", 8, 2, Op.CLOSE_SESSION)])

        for number in range(CONNECTIONS):
            nursery.start_soon(one, number)


def run(nodes: int, data: Path) -> bool:
    parents = max(CONNECTIONS, nodes // CHILDREN)
    directory = data / "million"
    directory.mkdir(parents=True, exist_ok=True)
    command = python("bench.million.server", "--data", str(directory / "store"))
    rows: list[dict[str, object]] = []
    details: dict[str, Any] = {}

    def phase(name: str, worker: Worker, began: float, operations: int) -> None:
        pauses, status = worker.ask("pauses"), worker.ask("status")
        per_node = (status["rss"] - empty) / status["nodes"]
        details[name] = {**pauses, **status, "seconds": time.perf_counter() - began, "bytes_per_node": per_node}
        rows.append({
            "phase": name,
            "nodes": status["nodes"],
            "operations/s": round(operations / (time.perf_counter() - began)),
            "bytes a node": round(per_node),
            "longest pause ms": round(pauses["pause_ms"]),
            "of ours ms": round(pauses["process_ms"]),
            "of the loop ms": round(pauses["own_ms"]),
            "collector ms": round(pauses["collector_ms"]),
            "snapshots": status["snapshots"],
        })  # fmt: skip

    async def load(client: Client, number: int) -> None:
        for parent in range(number, parents, CONNECTIONS):
            await client.ask(creates(range(parent, parent + 1), CHILDREN))

    async def serve(client: Client, number: int) -> None:
        await client.ask(some_of_everything(number, parents, nodes // 4 // CONNECTIONS))

    worker = Worker(command, directory / "server.log")
    try:
        started = worker.hear(READY_S)
        empty = started["empty_rss"]
        worker.ask("pauses")
        began = time.perf_counter()
        trio.run(_all, started["port"], load)
        phase("load", worker, began, nodes)
        began = time.perf_counter()
        trio.run(_all, started["port"], serve)
        phase("serve", worker, began, nodes // 4)
    finally:
        worker.stop()
    worker = Worker(command, directory / "server.log")
    try:
        began = time.perf_counter()
        started = worker.hear(READY_S)
        empty = started["empty_rss"]
        phase("restart", worker, began, 0)
        details["restart"]["ready_s"] = started["ready_s"]
        began = time.perf_counter()
        trio.run(_all, started["port"], serve)
        phase("serve again", worker, began, nodes // 4)
    finally:
        worker.stop()
    result: Result = {"nodes": nodes, "data_bytes": len(DATA), "phases": details}
    publish("million", result, rows)
    held = all(
        each["process_ms"] <= PAUSE_MS_MAX and each["bytes_per_node"] <= NODE_BYTES_MAX for each in details.values()
    )
    print(f"ready {details['restart']['ready_s']:.1f} s after its start; {'held' if held else 'NOT HELD'}")
    return held
