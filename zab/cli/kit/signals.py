"""End a command cleanly on a signal, and report its states to systemd."""

from __future__ import annotations

import os
import signal
import socket

import click
import trio

from zab.cli.kit.log_options import log_event


async def stop_on_signal(
    scope: trio.CancelScope,
    survives_hangup: bool = False,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Cancel the scope on SIGINT, SIGTERM or SIGHUP. `task_status` is started once they no longer kill the process.

    `survives_hangup`: ignore SIGHUP, with a line in the log. A server must outlive its terminal, and an operator may
    expect that SIGHUP makes it read its configuration again.
    """
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        task_status.started()
        async for number in signals:
            name = signal.Signals(number).name
            if number == signal.SIGHUP and survives_hangup:
                why = "the configuration is read only at the start: restart this server to apply changes"
                log_event("signal_ignored", signal=name, why=why)
                continue
            log_event("ended", by=name)
            notify_systemd("STOPPING=1")
            scope.cancel()
            return


def notify_systemd(word: str) -> None:
    """Send a state to systemd, if it started this process with `Type=notify`."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        try:
            out.sendto(word.encode(), "\0" + address[1:] if address.startswith("@") else address)
        except OSError as error:
            click.echo(f"cannot notify systemd at {address} of {word}: {error}", err=True)
