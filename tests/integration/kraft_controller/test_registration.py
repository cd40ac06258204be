"""A broker's lives at a real store: each has an epoch of its own, and a ghost of an earlier one is no obstacle."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from attrs import evolve

import zab
from kraft_controller.core.names import BrokerEpoch, BrokerId
from kraft_controller.core.state import Broker, Endpoint
from kraft_controller.runtime.meta_properties import claim
from kraft_controller.runtime.registration import (
    AddressTaken,
    BrokerIdTaken,
    Registration,
    RegistrationSettings,
    cluster_id,
    generated_id,
    prepare,
)
from kraft_controller.wire import znodes
from kraft_controller.wire.broker_identity import WrongIdentity
from tests.integration.kraft_controller.site import Site, led, run, site
from zab.client.remote_session import RemoteSession

ENDS = (Endpoint("EXTERNAL", "h1", 9092), Endpoint("CONTROLLER", "h1", 9093))
ONE = Broker(
    BrokerId(1), BrokerEpoch(0), ENDS, {"EXTERNAL": "PLAINTEXT", "CONTROLLER": "SSL"}, "east", {"metadata": (1, 3)}
)
PATH = znodes.broker_path(ONE.id)


async def idle(_: zab.Session) -> None:
    await trio.sleep_forever()


def of(here: Site, **options: object) -> Registration:
    return Registration(here.store.session, ONE, lambda: 1_700_000_000_000, **options)  # type: ignore[arg-type]


def ones(size: int) -> bytes:
    return b"\x01" * size


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    while not await check():
        await trio.sleep(0.01)


@pytest.mark.mechanism(45)
def test_reassignment_node_has_kafka_format(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path) as here, trio.open_nursery() as nursery:
            mine = of(here)
            epoch = await nursery.start(mine.run, idle)
            data, stat = await here.session.get(PATH)
            assert mine.epoch == epoch == stat.czxid
            assert stat.version == 1
            assert mine.session is not None
            assert stat.ephemeral_owner == mine.session.id
            assert json.loads(data or b"") == {
                "version": 5,
                "host": "h1",
                "port": 9092,
                "endpoints": ["EXTERNAL://h1:9092", "CONTROLLER://h1:9093"],
                "jmx_port": -1,
                "timestamp": "1700000000000",
                "rack": "east",
                "listener_security_protocol_map": {"EXTERNAL": "PLAINTEXT", "CONTROLLER": "SSL"},
                "features": {"metadata": {"min_version": 1, "max_version": 3}},
            }
            moved = Broker(ONE.id, BrokerEpoch(0), (Endpoint("EXTERNAL", "h2", 9092),), ONE.protocols)
            await mine.update(moved)
            data, stat = await here.session.get(PATH)
            assert (stat.czxid, json.loads(data or b"")["host"]) == (epoch, "h2")
            nursery.cancel_scope.cancel()

    run(test)


def test_broker_with_the_address_of_another_is_refused(tmp_path: Path) -> None:
    """What is said to it would reach the other one. A broker that is given another id is no other."""

    async def test() -> None:
        async with site(tmp_path) as here, trio.open_nursery() as nursery:
            sessions: list[int] = []
            mine = of(here, remember=sessions.append)
            await nursery.start(mine.run, idle)
            other = evolve(ONE, id=BrokerId(2), endpoints=(Endpoint("CONTROLLER", "h1", 9093),))
            settings = RegistrationSettings(taken_s=0.2)
            late = Registration(here.store.session, other, lambda: 1, settings=settings)
            with pytest.raises(
                AddressTaken, match="broker 1 is registered with h1:9093, which is also an address of broker 2"
            ):
                await late.run(idle)
            assert await here.session.exists("/brokers/ids/2") is None
            again = Registration(here.store.session, other, lambda: 1, former=sessions, settings=settings)
            await nursery.start(again.run, idle)
            nursery.cancel_scope.cancel()

    run(test)


def test_deleted_registration_returns_with_a_new_epoch(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path) as here, trio.open_nursery() as nursery:
            mine = of(here)
            epoch = await nursery.start(mine.run, idle)
            await here.session.delete(PATH)

            async def back() -> bool:
                stat = await here.session.exists(PATH)
                return stat is not None and mine.epoch == stat.czxid > epoch

            await until(back)
            nursery.cancel_scope.cancel()

    run(test)


def test_lost_session_is_replaced(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path) as here, trio.open_nursery() as nursery:
            lives: list[zab.Session] = []
            remembered: list[int] = []

            async def live(session: zab.Session) -> None:
                lives.append(session)
                await trio.sleep_forever()

            async def lived() -> bool:
                return bool(lives)

            opened = partial(zab.connect, here.at, timeout_ms=20_000)
            mine = Registration(opened, ONE, lambda: 1, remember=remembered.append)
            epoch = await nursery.start(mine.run, live)
            await until(lived)
            # Another holder of the same session says goodbye: to the store, this one is over.
            assert isinstance(lives[0], RemoteSession)
            async with zab.connect(here.at, reattach=(lives[0].id, lives[0].password)):
                pass

            async def again() -> bool:
                return mine.epoch > epoch and len(lives) == 2

            await until(again)
            assert remembered == [lives[0].id, lives[1].id]
            stat = await here.session.exists(PATH)
            assert stat is not None
            assert (stat.czxid, stat.ephemeral_owner) == (mine.epoch, lives[1].id)
            nursery.cancel_scope.cancel()

    run(test)


@pytest.mark.mechanism(51)
def test_own_former_registration_is_replaced(tmp_path: Path) -> None:
    """Nobody who watches sees the broker gone; only its epoch says that it was."""

    async def test() -> None:
        async with site(tmp_path) as here, here.store.session() as before, trio.open_nursery() as nursery:
            await before.create(PATH, znodes.broker(ONE, 1), ephemeral=True)
            ghost = await before.exists(PATH)
            assert ghost is not None
            async with here.session.watch(PATH) as heard:
                mine = of(here, former=[before.id])
                epoch = await nursery.start(mine.run, idle)
                assert epoch > ghost.czxid
                names = [(await anext(heard)).event.name for _ in range(3)]
                assert names == ["DELETED", "CREATED", "DATA_CHANGED"]
            assert await before.exists(PATH) is not None
            nursery.cancel_scope.cancel()

    run(test)


def test_foreign_registration_is_awaited(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def test() -> None:
        async with site(tmp_path) as here, here.store.session() as other:
            await other.create(PATH, znodes.broker(ONE, 1), ephemeral=True)
            with pytest.raises(BrokerIdTaken, match=f"registered by session {other.id:#x}, with EXTERNAL://h1:9092"):
                await of(here, settings=RegistrationSettings(taken_s=0.2)).run(idle)
            stat = await here.session.exists(PATH)
            assert stat is not None
            assert stat.ephemeral_owner == other.id
            caplog.clear()
            async with trio.open_nursery() as nursery:

                async def let_go() -> None:
                    while "waits" not in caplog.text:
                        await trio.sleep(0.01)
                    await other.delete(PATH)

                nursery.start_soon(let_go)
                mine = of(here)
                await nursery.start(mine.run, idle)
                assert mine.epoch > stat.czxid
                nursery.cancel_scope.cancel()

    run(test)


def test_error_of_the_live_function_is_raised(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path) as here:

            async def live(_: zab.Session) -> None:
                raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await of(here).run(live)
            assert await here.session.exists(PATH) is None

    run(test)


def test_store_error_of_the_live_function_is_followed_by_a_pause(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with site(tmp_path) as here, trio.open_nursery() as nursery:
            began: list[float] = []
            reported: list[int] = []

            async def live(_: zab.Session) -> None:
                began.append(trio.current_time())
                reported.append(caplog.messages.count("broker 1 ended its session: too many requests"))
                raise zab.Overloaded("too many requests")

            async def twice() -> bool:
                return len(began) > 1

            await nursery.start(of(here, settings=RegistrationSettings(pause_s=0.5)).run, live)
            await until(twice)
            assert began[1] - began[0] >= 0.5
            assert reported[:2] == [0, 1]
            nursery.cancel_scope.cancel()

    run(test)


def test_empty_store_is_prepared_and_named_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with zab.open_store(tmp_path) as store, store.session() as session:
            mine = Registration(store.session, ONE, lambda: 1)
            async with trio.open_nursery() as nursery:
                await nursery.start(mine.run, idle)  # nothing is there yet, not even what is above its node
                nursery.cancel_scope.cancel()
            await prepare(session)
            await prepare(session)
            numbers = iter(range(10, 100))
            drawn = [await cluster_id(session, lambda size: next(numbers).to_bytes(size)) for _ in range(3)]
            assert len(set(drawn)) == 1
            assert len(drawn[0]) == 22
            data, _ = await session.get("/cluster/id")
            assert json.loads(data or b"") == {"version": "1", "id": drawn[0]}
            assert [await generated_id(session) for _ in range(3)] == [1001, 1002, 1003]
            assert await generated_id(session, 5) == 9

    run(test)


def test_lost_cluster_id_is_restored_from_directories(tmp_path: Path) -> None:
    async def test() -> None:
        async with led(tmp_path / "store", {1: None}) as (here, _):
            before, fresh = tmp_path / "before", tmp_path / "fresh"
            claim([before], "a-name", BrokerId(1))
            with pytest.raises(WrongIdentity, match="first start a broker that was part of the cluster"):
                await cluster_id(here.session, ones, [fresh])
            assert await here.session.exists(znodes.CLUSTER_ID) is None
            assert await cluster_id(here.session, ones, [before]) == "a-name"
            assert await cluster_id(here.session, ones, [fresh]) == "a-name"

    run(test)


@pytest.mark.parametrize("data", [b"\xff\xfe garbage", b"", b'{"version":"1"}', b'{"version":"1","id":7}'])
def test_damaged_cluster_id_is_reported_with_its_repair(data: bytes, tmp_path: Path) -> None:
    async def test() -> None:
        async with led(tmp_path / "store", {1: None}) as (here, _):
            before = tmp_path / "before"
            claim([before], "a-name", BrokerId(1))
            await here.session.ensure_path("/cluster")
            await here.session.create(znodes.CLUSTER_ID, data)
            with pytest.raises(znodes.DamagedNode, match=r"^/cluster/id: .*first start a broker that was part of"):
                await cluster_id(here.session, ones, [tmp_path / "fresh"])
            with pytest.raises(znodes.DamagedNode, match=r"^/cluster/id: .*delete the node, and this broker writes"):
                await cluster_id(here.session, ones, [before])
            await here.session.delete(znodes.CLUSTER_ID)
            assert await cluster_id(here.session, ones, [before]) == "a-name"

    run(test)


class Early:
    """A session that asks for the first time right before somebody else has made what it asks for."""

    def __init__(self, session: zab.Session) -> None:
        self._session = session
        self._asked = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def get(self, path: str) -> tuple[bytes | None, zab.Stat]:
        if self._asked:
            return await self._session.get(path)
        self._asked = True
        raise zab.NoNode(-101, path)


def test_concurrently_created_cluster_has_one_id(tmp_path: Path) -> None:
    """Of brokers that start together for the first time one may be the controller before another one has looked."""

    async def test() -> None:
        async with led(tmp_path / "store", {1: None}) as (here, _):
            name = await cluster_id(here.session, ones)
            early = cast(zab.Session, Early(here.session))
            assert await cluster_id(early, ones, [tmp_path / "fresh"]) == name

    run(test)


def test_broker_of_a_cluster_refuses_an_empty_store(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path / "store") as here:
            claim([tmp_path / "before"], "a-name", BrokerId(1))
            with pytest.raises(WrongIdentity, match="check that zookeeper.connect names the right store"):
                await cluster_id(here.session, ones, [tmp_path / "before"])
            assert await here.session.exists(znodes.CLUSTER_ID) is None
            assert await cluster_id(here.session, ones, [tmp_path / "fresh"]) == "AQEBAQEBAQEBAQEBAQEBAQ"

    run(test)


@pytest.mark.parametrize(
    ("broker", "why"),
    [
        (Broker(BrokerId(-1), BrokerEpoch(0), ENDS, ONE.protocols), "a broker id must be 0 or greater"),
        (Broker(BrokerId(1), BrokerEpoch(0), ()), "no endpoints"),
        (Broker(BrokerId(1), BrokerEpoch(0), ENDS, {"EXTERNAL": "PLAINTEXT"}), "no security protocol for .*CONTROLLER"),
        (Broker(BrokerId(1), BrokerEpoch(0), (ENDS[0], ENDS[0]), ONE.protocols), "more than one endpoint"),
        (Broker(BrokerId(1), BrokerEpoch(0), (Endpoint("E", "", 1),), {"E": "SSL"}), "is not a reachable address"),
        (Broker(BrokerId(1), BrokerEpoch(0), (Endpoint("E", "h", 0),), {"E": "SSL"}), "is not a reachable address"),
    ],
)
def test_unreachable_description_is_refused(broker: Broker, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Registration(lambda: zab.connect("h"), broker, lambda: 1)


@pytest.mark.mechanism(43, 44)
def test_tree_has_kafka_layout(tmp_path: Path) -> None:
    async def test() -> None:
        async with led(tmp_path, {1: None}) as (here, _):
            await prepare(here.session)
            await cluster_id(here.session, lambda size: b"\x01" * size)
            assert set(await here.session.children("/")) == {
                "cluster", "controller_epoch", "controller", "brokers", "zookeeper", "admin", "isr_change_notification",
                "consumers", "log_dir_event_notification", "latest_producer_id_block", "config",
            }  # fmt: skip
            assert set(await here.session.children("/brokers")) == {"ids", "topics", "seqid"}

    run(test)
