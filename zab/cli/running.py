"""A command that runs until it is told to end, in Trio."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import click
import trio

from zab.core.errors import ConfigError, ZabError
from zab.runtime.blocks import sole_error
from zab.runtime.logs import shown

P = ParamSpec("P")
T = TypeVar("T")


class Misused(click.ClickException):
    """One line, and exit status 2."""

    exit_code = 2


def run_in_trio(function: Callable[..., Any], *arguments: object) -> None:
    """An expected failure is one line on stderr and exit status 1."""
    try:
        trio.run(function, *arguments)
    except (ZabError, OSError) as error:
        raise click.ClickException(str(error)) from error
    except BaseExceptionGroup as group:
        sole = sole_error(group)
        if isinstance(sole, (ZabError, OSError)):
            raise click.ClickException(str(sole)) from sole
        raise sole from None


def failing_plainly(command: Callable[P, T]) -> Callable[P, T]:
    """What is expected to go wrong is one line on stderr; exit status 2 where other arguments would help, else 1."""

    @wraps(command)
    def run(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            return command(*arguments, **options)
        except ConfigError as error:
            raise Misused(str(error)) from error
        except BrokenPipeError:
            raise  # click ends quietly: somebody has seen enough
        except (ZabError, OSError) as error:
            raise click.ClickException(str(error)) from error

    return run


async def stop_on_signal(
    scope: trio.CancelScope,
    survives_hangup: bool = False,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Started when a signal is no longer the end of the process, but the beginning of a clean one.

    `survives_hangup`: a server outlives the terminal that it was started from, and whoever thinks that SIGHUP has it
    read its configuration again.
    """
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        task_status.started()
        async for number in signals:
            name = signal.Signals(number).name
            if number == signal.SIGHUP and survives_hangup:
                why = "the configuration is read at the start only: restart this server to have it read"
                _say("signal_ignored", signal=name, why=why)
                continue
            _say("ended", by=name)
            tell_systemd("STOPPING=1")
            scope.cancel()
            return


def _say(event: str, /, **fields: str) -> None:
    """In the log of the servers here, though of none of them alone."""
    line = " ".join(f"{key}={shown(value)}" for key, value in fields.items())
    logging.getLogger("zab").info("%s %s", event, line, extra={"event": event, "fields": fields})


def tell_systemd(word: str) -> None:
    """For `Type=notify`: whoever started this may want to know when it serves. Nobody else is told."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        try:
            out.sendto(word.encode(), "\0" + address[1:] if address.startswith("@") else address)
        except OSError as error:
            click.echo(f"cannot tell {address} {word}: {error}", err=True)


def own_name() -> str:
    """How to call this program again, as a person would type it."""
    if shutil.which("zab") == sys.argv[0]:
        return "zab"
    return f"{sys.executable} -m zab" if sys.argv[0].endswith("__main__.py") else sys.argv[0]
