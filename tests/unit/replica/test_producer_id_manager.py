"""Producer ids: the code of a failed reservation tells clients whether to retry."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import zab
from kraft_controller.core.names import BrokerId
from kraft_controller.wire import znodes
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.logs import Log
from replica.runtime.store.producer_id_manager import BLOCK, ProducerIdManager

ME = BrokerId(1)


async def test_damaged_block_is_not_retriable_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with zab.open_store(tmp_path) as store, store.session() as session:
        await session.create(znodes.PRODUCER_IDS, b"\xffgarbage")
        ids = ProducerIdManager(ME, lambda: session, Log(1))
        caplog.set_level(logging.WARNING, "replica")
        for _ in range(3):
            with pytest.raises(KafkaError, match="not JSON") as caught:
                await ids.take()
            assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        [line] = [record.getMessage() for record in caplog.records]
        assert "producer_ids_unavailable" in line
        assert f"{znodes.PRODUCER_IDS}: not JSON" in line
        await session.set(znodes.PRODUCER_IDS, znodes.producer_ids(ME, 0, BLOCK - 1))
        assert await ids.take() == BLOCK


async def test_missing_session_is_retriable() -> None:
    with pytest.raises(KafkaError, match="no session") as caught:
        await ProducerIdManager(ME, lambda: None, Log(1)).take()
    assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
