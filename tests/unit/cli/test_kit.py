"""The kit that all commands share."""

from __future__ import annotations

import click
import pytest
import trio

from zab.cli.kit.failures import DONE, FAILED, MISUSED, Failed, run_in_trio
from zab.cli.kit.options import SECONDS, SECONDS_OR_ZERO, check_exclusive, identity, user_and_password
from zab.cli.kit.program import LazyCommand, Program, check_command_line, run_program
from zab.cli.kit.reference_page import chapter
from zab.cli.kit.verb_group import Arguments, Handler, Verbs, params_of


def connect(handler: Handler, arguments: Arguments) -> int:
    """Run a handler that never waits, with its own name for a connection."""
    try:
        handler(f"connection to {arguments.server}", arguments).send(None)  # type: ignore[attr-defined]
    except StopIteration as end:
        code: int = end.value
        return code
    raise AssertionError("it waits")


@click.group(
    cls=Verbs, connect=connect, common=lambda: params_of(click.option("--server", default="s"), click.option("--tls"))
)
def things() -> None:
    """Things."""


@things.verb("list", "List things.")
@click.argument("names", nargs=-1)
@click.option("--fail", is_flag=True, help="Fail.")
async def _list(connection: str, arguments: Arguments) -> int:
    if arguments.fail:
        raise Failed(f"{connection} is lost")
    print(connection, *arguments.names)
    return DONE


program = Program(
    "tool",
    table={
        "things": LazyCommand(f"{__name__}:things", "list things"),
        "missing": LazyCommand("no_such_library:command", "never loads"),
    },
    extra="tool[more]",
)


def test_verb_gets_the_connection_and_its_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(program, "tool", ["things", "list", "a", "b", "--server", "h"]) == DONE
    assert capsys.readouterr().out == "connection to h a b\n"


async def _fail_side_by_side(*errors: Exception) -> None:
    async def fail(error: Exception) -> None:
        raise error

    async with trio.open_nursery() as nursery:
        for error in errors:
            nursery.start_soon(fail, error)


def test_failures_of_several_tasks_are_one_message_without_repetitions() -> None:
    errors = [OSError("port 9092 is taken"), OSError("port 9093 is taken"), OSError("port 9093 is taken")]
    with pytest.raises(Failed) as failed:
        run_in_trio(_fail_side_by_side, *errors)
    parts = sorted(str(failed.value).split("; "))
    assert parts == ["port 9092 is taken", "port 9093 is taken"]


def test_unexpected_failure_beside_an_expected_one_is_raised() -> None:
    with pytest.raises(ExceptionGroup) as raised:
        run_in_trio(_fail_side_by_side, OSError("port 9092 is taken"), ZeroDivisionError())
    assert {type(error) for error in raised.value.exceptions} == {OSError, ZeroDivisionError}


def test_failure_is_one_line_that_names_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(program, "tool", ["things", "list", "--fail"]) == FAILED
    assert capsys.readouterr().err == "tool things: connection to s is lost\n"


def test_missing_library_names_the_extra_to_install(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(program, "tool", ["missing"]) == MISUSED
    assert "pip install 'tool[more]'" in capsys.readouterr().err


def test_help_of_the_program_loads_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(program, "tool", ["--help"]) == DONE
    assert "never loads" in capsys.readouterr().out


@pytest.mark.parametrize("line", ["things sing", "things list --sing", "sing", "things"])
def test_wrong_command_line_is_noticed_without_running_it(line: str) -> None:
    check_command_line(program, ["things", "list", "a", "--fail"])
    with pytest.raises(click.UsageError):
        check_command_line(program, line.split())


def test_page_has_own_options_before_common_ones() -> None:
    text = chapter("tool things list", things.commands["list"])
    assert "`tool things list [NAMES]... [OPTIONS]`" in text
    assert text.index("`--fail`") < text.index("`--server` TEXT") < text.index("`--tls` TEXT")


def test_exclusive_options() -> None:
    given = Arguments(to_end=True, offset=None, topic=())
    check_exclusive(given, "--to-end", "--offset", required=True)
    with pytest.raises(click.UsageError, match="one of --offset, --topic is needed"):
        check_exclusive(given, "--offset", "--topic", required=True)
    with pytest.raises(click.UsageError, match="--to-end and --offset exclude each other"):
        check_exclusive(Arguments(to_end=True, offset=0), "--to-end", "--offset")


@pytest.mark.parametrize("text", ["x", "-1", "0", "nan", "1e9"])
def test_seconds_are_positive_and_bounded(text: str) -> None:
    assert SECONDS.convert("1.5", None, None) == 1.5
    with pytest.raises(click.BadParameter):
        SECONDS.convert(text, None, None)
    assert SECONDS_OR_ZERO.convert("0", None, None) == 0


def test_messages_about_credentials_do_not_repeat_them() -> None:
    assert identity("digest:a:b") == ("digest", b"a:b")
    assert user_and_password("ann:secret") == ("ann", "secret")
    for read in (identity, user_and_password):
        with pytest.raises(click.BadParameter) as caught:
            read("canary")
        assert "canary" not in caught.value.message
