"""A replicated map in a process per server: the consensus library without the store.

    python docs/examples/replicated_map.py --id 1 --data map1 --client-port 2181 \\
        --ensemble server.1=a:2888:3888,server.2=b:2888:3888,server.3=c:2888:3888

Start it on each of three machines with an `--id` of its own. Then, on one of them, type lines into `nc 127.0.0.1 2181`:

    set KEY VALUE      write; the reply comes when a quorum has it on disk
    add KEY NUMBER     add to a number; replies with the sum
    delete KEY
    get KEY            read from this server, perhaps not the newest value
    barrier-get KEY    read a value that is not older than any write acknowledged before
    list               everything on this server
    status             this server's view of the ensemble, as JSON
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
from collections.abc import Iterable
from functools import partial

import trio

import zab

LINE_BYTES_MAX = 64 << 10


class ReplicatedMap:
    """The replicated machine. A request is a line, and so is a transaction."""

    def __init__(self) -> None:
        self.items: dict[str, str] = {}

    def prepare(self, request: bytes, view: zab.View) -> bytes:
        """Refuse a line that makes no sense. Everything that depends on the state is decided in `apply`."""
        words = request.decode("utf-8", "replace").split(" ", 2)
        count = {"set": 3, "add": 3, "delete": 2}.get(words[0])
        if count != len(words) or not words[1]:
            raise zab.Refused("expected: set KEY VALUE, add KEY NUMBER or delete KEY")
        if words[0] == "add" and not is_number(words[2]):
            raise zab.Refused(f"{words[2]!r} is not a whole number")
        return request

    def apply(self, zxid: zab.Zxid, txn: bytes) -> str:
        word, key, *value = txn.decode("utf-8", "replace").split(" ", 2)
        if word == "set":
            self.items[key] = value[0]
        elif word == "delete":
            self.items.pop(key, None)
        else:
            before = self.items.get(key, "0")
            self.items[key] = str(int(value[0]) + (int(before) if is_number(before) else 0))
            return self.items[key]
        return f"zxid={zxid >> 32}/{zxid & 0xFFFF_FFFF}"

    def snapshot(self) -> Iterable[bytes]:
        return [json.dumps(self.items).encode()]

    def restore(self, chunks: Iterable[bytes]) -> None:
        self.items = json.loads(b"".join(chunks))


def is_number(text: str) -> bool:
    """An error in `apply` would end every member, and `int` raises for very long texts."""
    return len(text) < 20 and text.removeprefix("-").isdecimal()


async def reply_to(member: zab.Member, line: str) -> str:
    word, _, key = line.partition(" ")
    if word in ("set", "add", "delete"):
        return str(await member.submit(line.encode()))
    if word in ("get", "barrier-get"):
        value: str = await member.read(lambda machine: machine.items.get(key, "(none)"), linearizable=word != "get")
        return value
    if word == "list":
        items = await member.read(lambda machine: sorted(machine.items.items()), linearizable=False)
        return " ".join(f"{key}={value}" for key, value in items)
    if word == "status":
        role = member.status().role
        return json.dumps({"leader": role.leader, "serving": role.serving, "epoch": role.epoch})
    raise zab.Refused(f"{word!r} is not a command")


async def serve_client(member: zab.Member, stream: trio.SocketStream) -> None:
    """Answer one line after the other."""
    rest = b""
    try:
        while data := await stream.receive_some():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                try:
                    reply = f"ok {await reply_to(member, line.decode('utf-8', 'replace').rstrip())}"
                except zab.ZabError as error:
                    reply = f"error {type(error).__name__}: {error}"
                await stream.send_all(reply.encode() + b"\n")
            if len(rest) > LINE_BYTES_MAX:
                return
    except trio.BrokenResourceError:
        pass  # the client has gone


async def serve(options: argparse.Namespace) -> None:
    settings = zab.Settings(tick_ms=options.tick_ms)
    ensemble = zab.Ensemble.parse(options.ensemble)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop_on_signal, nursery.cancel_scope)
        async with zab.open_member(
            ReplicatedMap(), options.data, server_id=options.id, ensemble=ensemble, settings=settings
        ) as member:
            await trio.serve_tcp(partial(serve_client, member), options.client_port, host=options.client_host)


async def stop_on_signal(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--id", type=int, required=True, help="the number of this server in the ensemble")
    parser.add_argument("--ensemble", required=True, help="server.N=host:quorumPort:electionPort,...")
    parser.add_argument("--data", required=True, help="the directory of this server's log and snapshots")
    parser.add_argument("--client-port", type=int, required=True, help="the port of this little protocol")
    parser.add_argument("--client-host", default="127.0.0.1", help="the address of that port")
    parser.add_argument("--tick-ms", type=int, default=zab.Settings().tick_ms, help="the unit of timeouts in ticks")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    failures: list[str] = []
    try:
        trio.run(serve, options)
    except* (zab.ZabError, OSError) as group:
        failures += map(str, group.exceptions)
    if failures:  # not in `except*`: before Python 3.11.4 it wraps SystemExit in a group, which prints a traceback
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
