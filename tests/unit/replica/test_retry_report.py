"""The report of a command that retries."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from replica.cli.bootstrap import RetryReport
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.network.broker_connection import Unreachable

REFUSED = Unreachable("cannot connect to h:1: Connection refused")
ELECTING = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "no leader of t-0")


def test_unreachable_broker_is_reported_at_once_and_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        report = RetryReport(30.0)
        for second in range(25):
            report.on_retry(REFUSED, float(second))
            await trio.sleep(1)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert capsys.readouterr().err.splitlines() == [f"{REFUSED}; retrying for up to {left} s" for left in (30, 20, 10)]


def test_short_election_is_not_reported(capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        report = RetryReport(30.0)
        report.on_retry(ELECTING, 1.0)
        assert capsys.readouterr().err == ""
        report.on_retry(ELECTING, 5.0)

    trio.run(main)
    assert capsys.readouterr().err == f"{ELECTING}; retrying for up to 25 s\n"
