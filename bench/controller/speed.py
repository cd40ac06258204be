"""How long it takes until the last broker is told who leads: after the death of a controller, and of a broker.

Three servers of the store and two brokers that may be controllers are processes. The ten brokers that hold the replicas
are here: they answer every command at once, and look at nothing but what kind it is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgpack
import trio

import zab
from bench.controller.processes import Brokers, brokers
from bench.report import Result, median, publish
from bench.zookeeper.ensembles import ours, usage
from kraft_controller.core.commands import Answer
from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicId, TopicPartition, Version
from kraft_controller.core.state import Assignment, Broker, Endpoint
from kraft_controller.runtime.frames import Frames
from kraft_controller.runtime.registration import prepare
from kraft_controller.wire import znodes
from kraft_controller.wire.command_frames import FRAME_BYTES_MAX, LEADER_AND_ISR, encode

HOLDERS: Final = 10
CONTROLLERS: Final = (101, 102)
FACTOR: Final = 3
PER_TOPIC: Final = 100
SIZES: Final = (1_000, 2_000, 5_000, 10_000)
WITHIN_S: Final = 240.0
QUIET_S: Final = 1.5
"""When nothing has been said for so long, all has been said."""
CONTROLLER_TARGET_S: Final = 5.0
BROKER_TARGET_S: Final = 1.0


def head_of(body: bytes) -> tuple[int, int, int]:
    """Of a command: its kind, its number, and the epoch of its controller. The rest would take its time."""
    unpacker = msgpack.Unpacker(max_buffer_size=FRAME_BYTES_MAX)
    unpacker.feed(body)
    unpacker.read_array_header()
    kind, number, _, _, epoch = (unpacker.unpack() for _ in range(5))
    return kind, number, epoch


class Holder:
    """A broker that is told things."""

    def __init__(self, ident: int) -> None:
        self.id = BrokerId(ident)
        self.told: list[tuple[float, int, int]] = []
        """When, which kind, and by the controller of which epoch."""
        self.port = 0

    async def run(self, nursery: trio.Nursery) -> None:
        [ear] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = ear.socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, self._hear, [ear])

    async def _hear(self, stream: trio.SocketStream) -> None:
        frames = Frames(stream)
        try:
            while (body := await frames.receive()) is not None:
                kind, number, epoch = head_of(body)
                self.told.append((time.monotonic(), kind, epoch))
                await frames.send(encode(Answer(number, 0, {})))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            await frames.aclose()

    async def register(self, session: zab.Session) -> None:
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", self.port)
        described = Broker(self.id, BrokerEpoch(0), (endpoint,), {"PLAINTEXT": "PLAINTEXT"})
        await session.create(znodes.broker_path(self.id), znodes.broker(described, 0), ephemeral=True)


class Stage:
    """Ten holders, and somebody who looks on."""

    def __init__(self, store: str, fakes: Brokers) -> None:
        self.store = store
        self.fakes = fakes
        self.holders = [Holder(ident) for ident in range(1, HOLDERS + 1)]
        self.partitions = 0

    @property
    def last(self) -> float:
        return max((holder.told[-1][0] for holder in self.holders if holder.told), default=0.0)

    async def quiet(self) -> None:
        """Nothing is said any more."""
        while time.monotonic() - self.last < QUIET_S:
            await trio.sleep(0.1)

    def roles_since(self, since: float, epoch: int = 0) -> list[float]:
        return [
            at
            for holder in self.holders
            for at, kind, by in holder.told
            if kind == LEADER_AND_ISR and at >= since and by >= epoch
        ]

    async def create(self, session: zab.Session, partitions: int) -> float:
        """So many altogether. Until all have a state, and all is told."""
        began = time.monotonic()
        for first in range(self.partitions, partitions, PER_TOPIC):
            held = {
                number: Assignment(tuple(BrokerId((number + place) % HOLDERS + 1) for place in range(FACTOR)))
                for number in range(PER_TOPIC)
            }
            ident = TopicId(f"T{first:021}")
            await session.create(znodes.topic_path(f"t{first:06}"), znodes.topic(ident, held))
        self.partitions = partitions
        while None in await self.states(session):
            await trio.sleep(0.2)
        took = time.monotonic() - began
        await self.quiet()
        return took

    async def states(self, session: zab.Session) -> list[int | None]:
        """Who leads, of each partition."""
        leaders: list[int | None] = []
        for first in range(0, self.partitions, PER_TOPIC):
            reads = zab.MultiRead()
            wheres = [TopicPartition(f"t{first:06}", number) for number in range(PER_TOPIC)]
            for where in wheres:
                reads.get(znodes.state_path(where))
            for where, found in zip(wheres, await session.read_many(reads), strict=True):
                if isinstance(found, tuple):
                    leaders.append(znodes.read_partition_state(where, found[0], Version(0)).leader)
                else:
                    leaders.append(None)
        return leaders

    # -- deaths ------------------------------------------------------------------------------------------

    async def controller_dies(self, session: zab.Session) -> dict[str, float]:
        victim = znodes.read_controller((await session.get(znodes.CONTROLLER))[0])
        epoch = znodes.read_controller_epoch((await session.get(znodes.CONTROLLER_EPOCH))[0]) + 1
        killed_at = time.monotonic()
        async with session.watcher() as heard:
            await session.exists(znodes.CONTROLLER, heard)
            self.fakes.kill(victim)
            await anext(heard)
        lost_at = time.monotonic()
        with trio.fail_after(WITHIN_S):
            while any(all(by < epoch for _, _, by in holder.told) for holder in self.holders):
                await trio.sleep(0.02)
            await self.quiet()
        roles = self.roles_since(lost_at - 1, epoch)
        self.fakes.start(victim)
        await self._registered(session, victim)
        await self.quiet()
        return {
            "session_s": lost_at - killed_at,
            "first_s": min(roles) - lost_at,
            "last_s": max(roles) - lost_at,
            "all_s": self.last - lost_at,
        }

    async def broker_dies(self, session: zab.Session) -> dict[str, float]:
        leaders = await self.states(session)
        even = self.partitions // HOLDERS
        victim = min(self.holders, key=lambda holder: abs(leaders.count(holder.id) - even))
        led = leaders.count(victim.id)
        ended: list[float] = []

        async with session.watcher() as heard:
            await session.exists(znodes.broker_path(victim.id), heard)
            self.scopes[victim.id].cancel()
            await anext(heard)
            ended.append(time.monotonic())
        with trio.fail_after(WITHIN_S):
            while not self.roles_since(ended[0] - 1):
                await trio.sleep(0.01)
            await self.quiet()
            while victim.id in await self.states(session):
                await trio.sleep(0.05)
        roles = self.roles_since(ended[0] - 1)
        await self.nursery.start(self.keep, victim)
        await trio.sleep(QUIET_S)
        await self.quiet()
        return {"led": led, "first_s": min(roles) - ended[0], "last_s": max(roles) - ended[0]}

    async def _registered(self, session: zab.Session, ident: int) -> None:
        with trio.fail_after(WITHIN_S):
            while await session.exists(znodes.broker_path(BrokerId(ident))) is None:
                await trio.sleep(0.1)

    # -- from start to end -------------------------------------------------------------------------------

    async def keep(self, holder: Holder, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Registered, until it dies."""
        with trio.CancelScope() as scope:
            self.scopes[holder.id] = scope
            async with zab.connect(self.store, timeout_ms=30_000) as session:
                await holder.register(session)
                task_status.started()
                await trio.sleep_forever()

    async def run(self, sizes: Sequence[int], rounds: int) -> list[dict[str, Any]]:
        self.scopes: dict[BrokerId, trio.CancelScope] = {}
        measured = []
        async with zab.connect(self.store, timeout_ms=30_000) as session, trio.open_nursery() as self.nursery:
            await prepare(session)
            for holder in self.holders:
                await holder.run(self.nursery)
                await self.nursery.start(self.keep, holder)
            for ident in CONTROLLERS:
                self.fakes.start(ident)
                await self._registered(session, ident)
            for size in sizes:
                created_s = await self.create(session, size)
                controllers = [await self.controller_dies(session) for _ in range(rounds)]
                dead = [await self.broker_dies(session) for _ in range(rounds)]
                measured.append({"partitions": size, "created_s": created_s, "controller": controllers, "broker": dead})
            self.nursery.cancel_scope.cancel()
        return measured


def run(sizes: Sequence[int], rounds: int, data: Path, picture: Path | None = None) -> None:
    with ours(data / "store") as store, brokers(store.hosts, data / "brokers") as fakes:
        measured = trio.run(Stage(store.hosts, fakes).run, sizes, rounds)
        servers = usage(store)
    rows = [
        {
            "partitions": each["partitions"],
            "made s": each["created_s"],
            "controller: first s": median([one["first_s"] for one in each["controller"]]),
            "last s": median([one["last_s"] for one in each["controller"]]),
            "broker led": max(one["led"] for one in each["broker"]),
            "new leaders s": median([one["last_s"] for one in each["broker"]]),
        }
        for each in measured
    ]
    result: Result = {
        "rounds": rounds,
        "targets_s": {"controller": CONTROLLER_TARGET_S, "broker": BROKER_TARGET_S},
        "measured": measured,
        "store_cpu_s": servers.cpu_s,
        "store_rss_mib": servers.rss_mib,
    }
    publish("controller", result, rows)
    if picture is not None:
        from bench.controller.picture import draw

        draw(measured, picture)
