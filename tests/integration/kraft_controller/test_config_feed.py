"""What brokers hear of configurations, and when old notes go."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio

from kraft_controller.core.configuration.config_keys import values_of
from kraft_controller.core.configuration.throttles import Throttles
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.runtime.admin.entity_configs import Entity
from kraft_controller.runtime.config_feed import ConfigFeed, delete_old_notes
from kraft_controller.wire import znodes
from tests.integration.kraft_controller.site import led, run, site, until


class Ear:
    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, str]]] = []
        self.throttles = Throttles(BrokerId(2))
        self.feed = ConfigFeed(self.apply)

    def apply(self, entity: Entity, said: Mapping[str, str]) -> None:
        self.heard.append((entity.path, dict(said)))
        self.throttles.configure(entity.path, said)

    async def has(self, path: str, said: dict[str, str]) -> bool:
        return dict(self.heard).get(path) == said


def test_feed_reads_all_and_then_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with site(tmp_path) as here, trio.open_nursery() as nursery:
            await here.session.create("/brokers/topics/t", b"{}")
            for words in (
                ("topics", "t", "--set", "retention.ms=5"),
                ("brokers", "--default", "--set", "log.retention.ms=6"),
                ("users", "ann", "--client", "app", "--set", "producer_byte_rate=7"),
            ):
                await here.done("configs", "alter", *words)
            ear = Ear()
            await nursery.start(ear.feed.run, here.session)
            assert sorted(ear.heard) == [
                ("brokers/<default>", {"log.retention.ms": "6"}),
                ("topics/t", {"retention.ms": "5"}),
                ("users/ann/clients/app", {"producer_byte_rate": "7"}),
            ]
            ear.heard.clear()
            await here.done("configs", "alter", "topics", "t", "--set", "retention.ms=8")
            await until(lambda: ear.has("topics/t", {"retention.ms": "8"}))
            # Damaged by hand, it stays in force; and the next change of somebody else is heard.
            await here.session.set("/config/topics/t", b'{"version":1,"conf')
            note = znodes.config_change("topics", "t")
            await here.session.create(f"{znodes.CONFIG_CHANGES}/config_change_", note, sequential=True)
            await here.session.create(f"{znodes.CONFIG_CHANGES}/config_change_", b"torn", sequential=True)
            await here.done("configs", "delete", "brokers", "--default", "--unset", "log.retention.ms")
            await until(lambda: ear.has("brokers/<default>", {}))
            assert dict(ear.heard)["topics/t"] == {"retention.ms": "8"}
            assert "/config/topics/t: not JSON" in caplog.text
            nursery.cancel_scope.cancel()

    run(test)


def test_feed_survives_a_recreated_parent(tmp_path: Path) -> None:
    """The next one counts its notes anew: none of them is taken for one that was seen."""

    async def test() -> None:
        async with site(tmp_path) as here, trio.open_nursery() as nursery:
            await here.session.create("/brokers/topics/t", b"{}")
            for number in (1, 2, 3):
                await here.done("configs", "alter", "topics", "t", "--set", f"retention.ms={number}")
            ear = Ear()
            await nursery.start(ear.feed.run, here.session)
            for name in await here.session.children(znodes.CONFIG_CHANGES):
                await here.session.delete(f"{znodes.CONFIG_CHANGES}/{name}")
            await here.session.delete(znodes.CONFIG_CHANGES)
            await until(lambda: here.session.exists(znodes.CONFIG_CHANGES))
            await here.done("configs", "alter", "topics", "t", "--set", "retention.ms=8")
            await until(lambda: ear.has("topics/t", {"retention.ms": "8"}))
            nursery.cancel_scope.cancel()

    run(test)


def test_feed_reads_changes_between_sessions(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path) as here:
            ear = Ear()
            await here.done("configs", "alter", "brokers", "2", "--set", "num.replica.fetchers=2")
            await here.done("configs", "alter", "brokers", "3", "--set", "num.replica.fetchers=3")
            for _ in range(2):
                async with here.store.session() as session, trio.open_nursery() as nursery:
                    await nursery.start(ear.feed.run, session)
                    nursery.cancel_scope.cancel()
                await here.session.delete("/config/brokers/2") if await here.session.exists(
                    "/config/brokers/2"
                ) else None
            assert ear.heard == [
                ("brokers/2", {"num.replica.fetchers": "2"}),
                ("brokers/3", {"num.replica.fetchers": "3"}),
                ("brokers/2", {}),
            ]

    run(test)


def test_throttles_follow_configurations(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path, dict.fromkeys((1, 2, 3))) as here, trio.open_nursery() as nursery:
            ear = Ear()
            await nursery.start(ear.feed.run, here.session)
            throttles = ear.throttles
            await here.done("topics", "create", "t", "--replica-assignment", "1:3,1:3")
            plan = tmp_path / "plan"
            plan.write_text('{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[2,3]}]}')
            await here.done("reassign", "execute", str(plan), "--throttle", "1000")

            async def throttled() -> bool:
                return throttles.follower_rate() == throttles.leader_rate() == 1000

            await until(throttled)
            assert throttles.slows_follower(TopicPartition("t", 1))
            assert not throttles.slows_follower(TopicPartition("t", 0))
            assert not throttles.slows_leader(TopicPartition("t", 1))  # it has nothing yet that it could send
            nursery.cancel_scope.cancel()

    run(test)


def test_old_notifications_are_deleted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def test() -> None:
        # The clock of this controller stands far behind the store's: to it every note is new.
        async with led(tmp_path, {1: None}, sweep_s=0.01, notes_s=1.0) as (here, _):
            await here.done("configs", "alter", "brokers", "1", "--set", "log.retention.ms=6")
            [name] = await here.session.children(znodes.CONFIG_CHANGES)
            stat = await here.session.exists(f"{znodes.CONFIG_CHANGES}/{name}")
            assert stat is not None
            assert await delete_old_notes(here.session, stat.ctime + 900, 1_000) == 0
            assert await delete_old_notes(here.session, stat.ctime + 1_001, 1_000) == 1
            assert await here.session.children(znodes.CONFIG_CHANGES) == []
        async with led(tmp_path, {1: None}, sweep_s=0.01, notes_s=-1e10) as (here, _):
            await here.done("configs", "alter", "brokers", "1", "--set", "log.retention.ms=7")

            async def swept() -> bool:
                return not await here.session.children(znodes.CONFIG_CHANGES)

            await until(swept)

    run(test)


def test_effective_values_and_errors() -> None:
    found, wrong = values_of("topics", {"retention.ms": "5", "segment.bytes": "many", "colour": "red"})
    assert (found["retention.ms"], found["segment.bytes"], found["cleanup.policy"]) == (5, 1 << 30, ("delete",))
    assert wrong == (
        "colour: topics have no such key",
        "segment.bytes=many: expected a whole number, 14 or more",
    )
    found, _ = values_of("topics", {}, {"retention.ms": "9", "unclean.leader.election.enable": "TRUE"})
    assert (found["retention.ms"], found["unclean.leader.election.enable"]) == (9, True)
