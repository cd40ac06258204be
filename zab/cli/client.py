"""The other end of the demonstration machine's port."""

from __future__ import annotations

import json
import sys

import click
import trio
from rich.console import Console
from rich.table import Table


async def ask(server: str, line: str, timeout_s: float) -> str:
    """One request, one reply."""
    host, _, port = server.rpartition(":")
    if not host or not port.isdecimal():
        raise click.UsageError(f"{server!r}: a server looks like 127.0.0.1:2181")
    try:
        with trio.fail_after(timeout_s):
            stream = await trio.open_tcp_stream(host.strip("[]"), int(port))
            async with stream:
                await stream.send_all(line.encode() + b"\n")
                reply = bytearray()
                while not reply.endswith(b"\n"):
                    data = await stream.receive_some()
                    if not data:
                        raise click.ClickException(f"{server} closed the connection without a reply")
                    reply += data
    except trio.TooSlowError:
        raise click.ClickException(f"no reply from {server} in {timeout_s:g} s: is there a quorum?") from None
    except OSError as error:
        raise click.ClickException(f"cannot reach {server}: {error}. Is `zab dev` running?") from error
    return reply.decode().rstrip("\n")


async def converse(server: str, line: str, timeout_s: float) -> None:
    outcome, _, rest = (await ask(server, line, timeout_s)).partition(" ")
    if outcome != "ok":
        raise click.ClickException(rest)
    click.echo(rest)


async def status_table(servers: tuple[str, ...], timeout_s: float) -> None:
    columns = (
        "server",
        "state",
        "serving",
        "leader",
        "epoch",
        "applied",
        "committed",
        "voters",
        "elections",
        "fsync_ms",
    )
    table = Table("address", *columns, box=None)
    for server in servers:
        try:
            _, _, rest = (await ask(server, "status", timeout_s)).partition(" ")
        except click.ClickException as error:
            table.add_row(server, error.message)
            continue
        status = json.loads(rest)
        table.add_row(server, *(shown(status[column]) for column in columns))
    # Where nobody looks, nothing is folded: a script may want to cut it in columns.
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def shown(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
