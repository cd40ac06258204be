"""`zab log`: what a server has written down, read by a person."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from attrs import evolve

from zab.cli.history.options import log_dir_option
from zab.cli.history.states import our_disk, pieces, read_ours, unheard
from zab.cli.history.transactions import Line, line_of_theirs, lines_of, readable, zxid_of
from zab.cli.history.writing import found_in
from zab.cli.running import Misused, failing_plainly
from zab.core.errors import DamagedError
from zab.core.words import counted
from zab.core.zxid import Zxid, show
from zab.runtime.identity import NAME as IDENTITY
from zab.runtime.identity import owner_of
from zab.storage.disk import Disk
from zab.storage.look import ReadOnlyDisk, history, is_ours, log_files
from zab.storage.real import in_use
from zab.wire.disk_log import LogReader

DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


def _zxid(context: click.Context, option: click.Parameter, value: str | None) -> Zxid | None:
    try:
        return None if value is None else zxid_of(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from None


@click.group()
def log() -> None:
    """Look at a transaction log, check it, and save what can be saved of a damaged one.

    Nothing here changes the log that it looks at, and a server may run meanwhile.
    """


@log.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path), metavar="DATA")
@click.option("--from", "first", callback=_zxid, help="Not what came before: a zxid like 0x200000001, or 2/1.")
@click.option("--to", "last", callback=_zxid, help="Not what came behind.")
@click.option("-d", "--data", "with_data", is_flag=True, help="Also the data of the nodes.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object a line.")
@log_dir_option
@failing_plainly
def dump(
    path: Path, log_dir: Path | None, first: Zxid | None, last: Zxid | None, with_data: bool, as_json: bool
) -> None:
    """Every transaction: zxid, time, session, what, where.

    DATA is a data directory of ours, or one log file of ZooKeeper's.

    \b
    zab log dump data/1
    zab log dump data/1 --from 2/1 --json
    zab log dump /var/lib/zookeeper/version-2/log.1
    """
    for line in _lines(path, log_dir):
        if (first is None or line.zxid >= first) and (last is None or line.zxid <= last):
            if as_json:
                click.echo(json.dumps(line.as_json(with_data=with_data)))
            else:
                click.echo(_as_text(line, with_data))


def _as_text(line: Line, with_data: bool) -> str:
    parts = [f"{line.zxid:#x}", f"{line.time:29}", f"{line.session:#018x}", f"{line.op:15}", line.path, line.more]
    if with_data and line.data is not None:
        parts.append(repr(readable(line.data)))
    text = " ".join(part for part in parts if part)
    return text.encode("utf-8", "backslashreplace").decode()  # not all that was ever let in can be shown


def _lines(path: Path, log_dir: Path | None) -> Iterator[Line]:
    if not path.is_dir():
        yield from map(line_of_theirs, LogReader(pieces(path, unheard)))
        return
    for file in log_files(_ours(path, log_dir)):
        for batch in () if file.scan is None else file.scan.batches:
            yield from lines_of(batch)
        if file.trouble is not None:
            click.echo(f"{path}/{file.name}: {file.trouble}", err=True)


def _ours(path: Path, log_dir: Path | None) -> Disk:
    disk = our_disk(path, log_dir)
    if not is_ours(disk):
        raise Misused(f"{path}: there is no log of ours in it")
    return disk


@log.command()
@click.argument("path", type=DIRECTORY, metavar="DATA")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@log_dir_option
@failing_plainly
def verify(path: Path, log_dir: Path | None, as_json: bool) -> None:
    """Check every checksum, and say what the server would say at its next start.

    Exit status 0: the history is whole. 1: it is damaged; the server will not vote with it, and heals from
    the others when it is started. A torn tail, which a crash leaves behind, is no damage.
    """
    disk = _ours(path, log_dir)
    files: list[dict[str, Any]] = [
        {
            "file": file.name,
            "bytes": file.size,
            "transactions": 0 if file.scan is None else sum(batch.count for batch in file.scan.batches),
            "last": None if file.scan is None else show(file.scan.last),
            "trouble": file.trouble,
        }
        for file in log_files(disk)
    ]
    found = history(disk)
    found = evolve(found, damage=(*_damaged_owners(path, log_dir), *found.damage))
    if as_json:
        verdict = {"whole": not found.damage, "torn": found.torn, "last": show(found.last)}
        click.echo(json.dumps({**verdict, "damage": found.damage, "notes": found.notes, "files": files}))
    else:
        for each in files:
            trouble = each["trouble"] or "sound"
            many = counted(each["transactions"], "transaction")
            click.echo(f"{each['file']}: {many} up to {each['last']}: {trouble}")
        for note in found.notes:
            click.echo(f"note: {note}")
        for damage in found.damage:
            click.echo(f"damage: {damage}")
        click.echo(f"{'damaged' if found.damage else 'whole'}: the history ends at {show(found.last)}")
    if in_use(path):
        click.echo(f"note: a server runs on {path}; what it wrote meanwhile may look torn", err=True)
    sys.exit(1 if found.damage else 0)


def _damaged_owners(*directories: Path | None) -> list[str]:
    """Such a server would not even start."""
    damaged = []
    for path in directories:
        if path is not None and IDENTITY in (disk := ReadOnlyDisk(path)).list():
            try:
                owner_of(disk, path)
            except DamagedError as error:
                damaged.append(str(error))
    return damaged


@log.command()
@click.argument("source", type=DIRECTORY, metavar="DATA")
@click.argument("target", type=click.Path(path_type=Path), metavar="NEW")
@log_dir_option
@failing_plainly
def repair(source: Path, target: Path, log_dir: Path | None) -> None:
    """Begin a NEW directory with as much of a damaged history as hangs together. DATA stays as it is.

    A server of an ensemble does not need this: start it, and the others heal it. This is for the last copy there
    is. What came behind the damage is lost, also where it had been acknowledged. Exit status 1: nothing of it can
    be read, and there is no NEW.
    """
    state = read_ours(_ours(source, log_dir), str(source), salvage=True)
    for note in state.notes:
        click.echo(f"note: {note}", err=True)
    found_in(target, state)
    nodes = counted(len(state.store.tree), "node")
    click.echo(f"{target}: {nodes} as of {show(Zxid(state.store.zxid))}. Behind that, nothing was saved.")
