"""The table of commands: each row is a command that can be loaded and says what it takes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio

from replica.cli import main
from replica.cli.bootstrap import with_client
from replica.cli.command_config import read_command_config
from replica.cli.root import COMMANDS
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.authentication.sasl_client import Identity
from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import CLOSED_BY_BROKER, Unreachable
from zab.cli.kit.failures import Failed
from zab.cli.kit.verb_group import Arguments


@pytest.mark.parametrize("name", COMMANDS)
def test_help_describes_command_and_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    about = capsys.readouterr().out
    assert f"Usage: zab-broker {name}" in about
    assert len(about.splitlines()) > 8


def test_help_imports_no_command_modules(capsys: pytest.CaptureFixture[str]) -> None:
    before = set(sys.modules)
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in COMMANDS)
    assert not {command.module for command in COMMANDS.values()} & (set(sys.modules) - before)


@pytest.mark.parametrize("given", [[], ["sing"], ["brokers"], ["brokers", "sing"], ["brokers", "list", "--sing"]])
def test_misuse_ends_with_2(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(given) == 2
    assert "Usage: zab-broker" in capsys.readouterr().err


@pytest.mark.parametrize("given", [["--offset", "-5"], ["--since", "-1"], ["--count", "-3"]])
def test_consume_refuses_negative_numbers(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consume", "orders", *given]) == 2
    assert f"{given[1]} is not in the range x>=0" in capsys.readouterr().err


def test_error_of_the_brokers_inside_a_nursery_is_one_line() -> None:
    async def handler(client: Client, arguments: Arguments) -> int:
        async with trio.open_nursery():
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic NOPE")

    given = Arguments(
        command_config=None, bootstrap=None, login=None, tls=False, ca=None, cert=None, key=None, within=1
    )
    with pytest.raises(Failed, match="^UNKNOWN_TOPIC_OR_PARTITION: there is no topic NOPE$"):
        with_client(handler, given)


def test_group_without_a_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consume", "t", "--group", ""]) == 2
    assert capsys.readouterr().err.endswith("--group: the group name must not be empty\n")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            "topics create t --bootstrap h:9092",
            "--bootstrap: this command works on the store: name its servers with --store",
        ),
        ("brokers list --bootstrap-server=h:9092", "--bootstrap-server: this command works on the store"),
        ("groups list --store h:2181", "--store: this command needs a broker: --bootstrap"),
        ("consume t --zookeeper", "--zookeeper: this command needs a broker: --bootstrap"),
    ],
)
def test_wrong_server_option_is_reported_with_the_right_one(
    given: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(given.split()) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tls", "login", "options", "unused"),
    [
        (False, None, "--tls, --cert, --login", ""),
        (True, None, "--cert, --login", "; or the listener does not use TLS"),
        (False, Identity("PLAIN", "a", "b"), "--tls, --cert", "; or the listener does not use SASL"),
    ],
)
def test_hint_names_only_options_that_were_not_given(
    tls: bool, login: Identity | None, options: str, unused: str
) -> None:
    async def disconnect(_: Client, __: Arguments) -> int:
        raise Unreachable(CLOSED_BY_BROKER)

    arguments = Arguments(
        command_config=None, bootstrap=None, login=login, tls=tls, ca=None, cert=None, key=None, within=1
    )
    with pytest.raises(Failed) as caught:
        with_client(disconnect, arguments)
    hint = f"; if it requires TLS or authentication, use {options}, or --command-config{unused}"
    assert str(caught.value) == CLOSED_BY_BROKER + hint


def test_ignored_keys_of_command_config_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "client.properties"
    file.write_text("acks=all\nlinger.ms=1\nMIIEvQ==\nsecurity.protocol=PLAINTEXT\n")
    read_command_config(file)
    assert capsys.readouterr().err == f"warning: --command-config {file}: ignored keys (3): acks, linger.ms\n"
