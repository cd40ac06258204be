"""The demonstration machine's own port: a line per request, a line per reply, in order.

What was received is looked at in one go, and what is ready is sent in one go, so a client that sends a
thousand lines without waiting has them carried out together.
"""

from __future__ import annotations

import json
from collections import deque
from functools import partial
from typing import Final

import trio

from zab.cli.kv import WRITES, KeyValue
from zab.core.errors import Overloaded, ZabError
from zab.core.zxid import show
from zab.runtime.doorbell import Doorbell
from zab.runtime.errors import Refused
from zab.runtime.member import Member

LINE_BYTES_MAX: Final = 64 << 10
PIPELINE_MAX: Final = 2_000
"""Requests of one connection whose replies it has not been sent yet. Above it, nothing more is read from it."""

HELP: Final = "set KEY VALUE | add KEY NUMBER | delete KEY | get KEY | barrier-get KEY | list | status | help"


class Reply:
    """A place in the queue of replies, to be filled."""

    __slots__ = ("line",)

    def __init__(self, line: str | None = None) -> None:
        self.line = line


async def serve(member: Member, machine: KeyValue, host: str, port: int, task_status: trio.TaskStatus[None]) -> None:
    listeners = await trio.open_tcp_listeners(port, host=host)
    task_status.started()
    await trio.serve_listeners(partial(_converse, member, machine), listeners)


async def _converse(member: Member, machine: KeyValue, stream: trio.SocketStream) -> None:
    try:
        async with trio.open_nursery() as nursery:
            conversation = _Conversation(member, machine, stream, nursery)
            nursery.start_soon(conversation.send)
            await conversation.receive()
            nursery.cancel_scope.cancel()
    except* (trio.BrokenResourceError, trio.ClosedResourceError):
        pass


class _Conversation:
    def __init__(self, member: Member, machine: KeyValue, stream: trio.SocketStream, nursery: trio.Nursery) -> None:
        self._member = member
        self._machine = machine
        self._stream = stream
        self._nursery = nursery
        self._replies: deque[Reply] = deque()
        self._bell = Doorbell()
        self._room = trio.lowlevel.ParkingLot()

    async def receive(self) -> None:
        held = b""
        while data := await self._stream.receive_some(64 << 10):
            *lines, held = (held + data).split(b"\n")
            if len(held) > LINE_BYTES_MAX:
                return
            for line in lines:
                self._take(line.rstrip(b"\r"))
            while len(self._replies) > PIPELINE_MAX:
                await self._room.park()
        while self._replies:  # who only closed its sending side still wants its answers
            await self._room.park()

    def _take(self, line: bytes) -> None:
        reply = Reply()
        self._replies.append(reply)
        word, _, rest = line.decode("utf-8", "replace").partition(" ")
        if word in WRITES:
            try:
                self._member.post(line, partial(self._done, reply))
            except Overloaded:
                self._nursery.start_soon(self._submit, reply, line)  # it waits its turn; the connection is bounded
            except ZabError as error:
                self._done(reply, None, error)
        elif word == "get":
            self._done(reply, self._machine.items.get(rest, "(none)"), None)
        elif word == "barrier-get":
            self._nursery.start_soon(self._barrier_get, reply, rest)
        elif word == "list":
            items = " ".join(f"{key}={value}" for key, value in sorted(self._machine.items.items()))
            self._done(reply, items, None)
        elif word == "status":
            self._done(reply, json.dumps(status_of(self._member)), None)
        elif word == "help":
            self._done(reply, HELP, None)
        else:
            self._done(reply, None, Refused(f"no command {word!r:.40}; there are: {HELP}"))

    async def _submit(self, reply: Reply, line: bytes) -> None:
        try:
            self._done(reply, await self._member.submit(line), None)
        except ZabError as error:
            self._done(reply, None, error)

    async def _barrier_get(self, reply: Reply, key: str) -> None:
        try:
            value = await self._member.read(lambda machine: machine.items.get(key, "(none)"))
            self._done(reply, value, None)
        except ZabError as error:
            self._done(reply, None, error)

    def _done(self, reply: Reply, result: object, error: Exception | None) -> None:
        reply.line = f"ok {result}" if error is None else f"error {type(error).__name__}: {error}"
        self._bell.ring()

    async def send(self) -> None:
        replies = self._replies
        while True:
            await self._bell.wait()
            ready: list[str] = []
            while replies and replies[0].line is not None:
                ready.append(replies[0].line.replace("\n", " "))
                replies.popleft()
            if ready:
                ready.append("")
                await self._stream.send_all("\n".join(ready).encode())
                self._room.unpark_all()


def status_of(member: Member) -> dict[str, object]:
    status = member.status()
    counters = status.counters
    return {
        "server": status.server,
        "state": status.role.state.name.lower(),
        "serving": status.role.serving,
        "leader": status.role.leader,
        "epoch": status.role.epoch,
        "applied": show(status.applied),
        "committed": show(status.committed),
        "last": show(status.last),
        "voters": list(status.ensemble.voters),
        "version": show(status.ensemble.version),
        "elections": counters.elections,
        "fsyncs": counters.fsyncs,
        "fsync_ms": round(counters.fsync_us / max(1, counters.fsyncs) / 1000, 3),
        "damage": list(status.damage),
    }
