"""Requests for a controlled shutdown, without a network."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

from kraft_controller.core.names import BrokerEpoch, BrokerId
from kraft_controller.runtime.shutdown_request import ShutdownSettings, request_shutdown


def test_attempt_without_a_known_controller_fails_and_is_repeated(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    tried_at: list[float] = []

    def find_controller() -> None:
        tried_at.append(trio.current_time())

    async def main() -> object:
        settings = ShutdownSettings(tries=2, pause_s=5.0)
        return await request_shutdown(BrokerId(1), lambda: BrokerEpoch(1), find_controller, settings)

    assert trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0)) is None
    assert tried_at[1] - tried_at[0] == 5
    why = "the controller or its address is not known"
    assert caplog.messages == [f"controlled shutdown of broker 1: attempt failed: {why}"] * 2
