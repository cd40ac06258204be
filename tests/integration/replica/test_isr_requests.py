"""ISRs at a store: who is to join has to be registered, and as the one who caught up."""

from __future__ import annotations

from pathlib import Path

import trio
from attrs import evolve

import zab
from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition, Version
from kraft_controller.core.state import PartitionState
from kraft_controller.runtime.store_session import StoreSession
from kraft_controller.wire import znodes
from replica.core.alter_partition_manager import IsrWriteError
from replica.core.replica_messages import WriteIsr
from replica.runtime.replication.log_dir_failures import notify_of_log_failure
from replica.wire.isr_requests import read_isr, write_isr

T0 = TopicPartition("t", 0)
ONE, TWO = BrokerId(1), BrokerId(2)
ALONE = PartitionState(ONE, (ONE,), LeaderEpoch(3), ControllerEpoch(1))


def test_controller_is_notified_of_a_failed_log(tmp_path: Path) -> None:
    async def main() -> None:
        async with zab.open_store(tmp_path) as store, store.session() as session:
            await session.ensure_path(znodes.LOG_DIR_EVENTS)
            await notify_of_log_failure(session, TWO)
            [name] = await session.children(znodes.LOG_DIR_EVENTS)
            path = f"{znodes.LOG_DIR_EVENTS}/{name}"
            data, _ = await session.get(path)
            assert znodes.read_log_dir_event(path, data) == TWO

    trio.run(main)


def test_a_life_that_is_over_does_not_join(tmp_path: Path) -> None:
    async def main() -> None:
        async with zab.open_store(tmp_path) as store, store.session() as session:

            async def registered() -> BrokerEpoch:
                stat = await session.exists(znodes.broker_path(TWO))
                assert stat is not None
                return BrokerEpoch(stat.czxid)

            async def wrote(life: BrokerEpoch, version: int) -> Version | IsrWriteError:
                state = evolve(ALONE, isr=(ONE, TWO), version=Version(version))
                return await StoreSession(session).run(write_isr(WriteIsr(T0, state, (TWO,), (life,))))

            await session.ensure_path(znodes.BROKERS)
            await session.ensure_path(znodes.partition_path(T0))
            await session.create(znodes.state_path(T0), znodes.partition_state(ALONE))
            assert await wrote(BrokerEpoch(-1), 0) is IsrWriteError.UNWANTED
            await session.create(znodes.broker_path(TWO), ephemeral=True)
            former = await registered()
            await session.delete(znodes.broker_path(TWO))
            await session.create(znodes.broker_path(TWO), ephemeral=True)
            assert await wrote(former, 0) is IsrWriteError.UNWANTED
            assert await wrote(await registered(), 7) is IsrWriteError.REFUSED
            assert await wrote(await registered(), 0) == 1
            assert await StoreSession(session).run(read_isr(T0)) == evolve(ALONE, isr=(ONE, TWO), version=Version(1))

    trio.run(main)
