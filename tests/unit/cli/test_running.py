"""A running command: signals, notifications for systemd, and the log."""

from __future__ import annotations

import json
import logging
import sys

import click
import pytest
from click.testing import CliRunner

from zab.cli.kit.failures import report_failures
from zab.cli.kit.log_options import JsonFormatter
from zab.core.errors import ConfigError, StorageError
from zab.core.zxid import Epoch, ServerId
from zab.host.logs import Log


def test_an_event_is_an_object_with_its_parts(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "zab")
    log = Log(ServerId(3), lambda: Epoch(7))
    log.say("role", state="LEADING", serving=True, why='two words, and "quotes"', level="shadowed")
    (record,) = caplog.records
    said = json.loads(JsonFormatter().format(record))
    assert said.pop("time").endswith("+00:00")
    assert said == {
        "level": "info", "event": "role", "server": 3, "epoch": 7, "state": "LEADING", "serving": True,
        "why": 'two words, and "quotes"',
    }  # fmt: skip


def test_records_of_other_loggers_are_events() -> None:
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        record = logging.LogRecord("other", logging.WARNING, "", 0, "%s words", ("two",), sys.exc_info())
    said = json.loads(JsonFormatter().format(record))
    assert (said["level"], said["event"]) == ("warning", "two words")
    assert "ZeroDivisionError" in said["traceback"]


@pytest.mark.parametrize(
    ("error", "status"), [(ConfigError("other words"), 2), (StorageError("a disk"), 1), (FileNotFoundError("x"), 1)]
)
def test_expected_failure_is_one_line(error: Exception, status: int) -> None:
    @click.command()
    @report_failures
    def command() -> None:
        raise error

    result = CliRunner().invoke(command)
    assert (result.exit_code, result.output) == (status, f"Error: {error}\n")
