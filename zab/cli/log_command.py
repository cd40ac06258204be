"""`zab log`: print, verify and repair a transaction log."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click
from attrs import evolve

from zab.cli.data_files.log_lines import (
    LogLine,
    first_foreign,
    line_of_theirs,
    lines_of,
    readable,
    transactions_of,
    zxid_of,
)
from zab.cli.data_files.state_reader import no_progress, our_disk, pieces, read_ours, their_files
from zab.cli.data_files.state_writer import found_in
from zab.cli.kit.failures import Failed, Misused, report_failures
from zab.cli.kit.options import log_dir_option
from zab.core.batch import Batch
from zab.core.errors import StorageError
from zab.core.plurals import counted
from zab.core.zxid import Zxid, show
from zab.runtime.directory_owner import NAME as IDENTITY
from zab.runtime.directory_owner import owner_of_directory
from zab.storage.disk import Disk
from zab.storage.inspection import ReadOnlyDisk, history, is_ours, log_files
from zab.storage.offline import give_up_history
from zab.storage.real_disk import RealDisk, in_use
from zab.storage.split_disk import SplitDisk
from zab.store.store import Store
from zab.wire.disk_log import LogReader

DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


def _zxid(context: click.Context, option: click.Parameter, value: str | None) -> Zxid | None:
    try:
        return None if value is None else zxid_of(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from None


@click.group()
def log() -> None:
    """Print a transaction log, verify it, save the part before the damage, or give the history up.

    Only `give-up` changes the data directory. The other commands may run while the server runs.
    """


@log.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path), metavar="DATA")
@click.option("--from", "first", callback=_zxid, help="The first zxid to print, like 0x200000001 or 2/1.")
@click.option("--to", "last", callback=_zxid, help="The last zxid to print.")
@click.option("-d", "--data", "with_data", is_flag=True, help="Print the data of the nodes, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@log_dir_option
@report_failures
def dump(
    path: Path, log_dir: Path | None, first: Zxid | None, last: Zxid | None, with_data: bool, as_json: bool
) -> None:
    """Print every transaction: zxid, time, session, operation, path and details.

    DATA is a data directory of `zab serve`, or a log file of ZooKeeper. Damage ends the output of a file,
    and is reported on stderr.

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


def _as_text(line: LogLine, with_data: bool) -> str:
    parts = [f"{line.zxid:#x}", f"{line.time:29}", f"{line.session:#018x}", f"{line.op:15}", line.path, line.more]
    if with_data and line.data is not None:
        parts.append(repr(readable(line.data)))
    text = " ".join(part for part in parts if part)
    return text.encode("utf-8", "backslashreplace").decode()  # old logs may hold paths that are not valid UTF-8


def _lines(path: Path, log_dir: Path | None) -> Iterator[LogLine]:
    if not path.is_dir():
        yield from map(line_of_theirs, LogReader(pieces(path, no_progress)))
        return
    for file in log_files(_ours(path, log_dir)):
        for batch in () if file.scan is None else file.scan.batches:
            yield from lines_of(batch)
        if file.trouble is not None:
            click.echo(f"{path}/{file.name}: {file.trouble}", err=True)


def _ours(path: Path, log_dir: Path | None) -> Disk:
    if their_files(path) == path:
        raise Misused(
            f"{path}: these are files of Apache ZooKeeper: `zab log dump` prints a log file, `zab import` converts all"
        )
    disk = our_disk(path, log_dir)
    if not is_ours(disk):
        raise Misused(f"{path}: this is not a data directory of zab: it has neither a log nor a snapshot")
    return disk


@log.command()
@click.argument("path", type=DIRECTORY, metavar="DATA")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@log_dir_option
@report_failures
def verify(path: Path, log_dir: Path | None, as_json: bool) -> None:
    """Verify the checksums of the whole log and of the newest snapshot, and print what the next start would report.

    Exit status 0: a server would start with this history and vote, unless it has lost its promises. 1: it would not,
    and the lines that begin with "damage" say why. A server with a damaged history does not vote before the leader has
    sent it the history; if it is the only voter, it does not start. A torn tail, the usual trace of a crash, is not
    damage.
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
    if found.damage:  # the server would not use this history, but its sound part can be saved
        sound = history(disk, salvage=True)
        found = evolve(found, last=sound.last, batches=sound.batches)
    foreign = _first_foreign(disk, path, found.batches)
    if foreign is not None:
        line = f"transaction {show(foreign)} was not written by a store, but by another kind of state machine"
        found = evolve(found, damage=(*found.damage, line), last=Zxid(foreign - 1))
    damages = *_damaged_owners(path, log_dir), *found.damage
    if as_json:
        outcome = {"whole": not found.damage, "torn": found.torn, "last": show(found.last)}
        click.echo(json.dumps({**outcome, "damage": damages, "notes": found.notes, "files": files}))
    else:
        for each in files:
            trouble = each["trouble"] or "sound"
            many = counted(each["transactions"], "transaction")
            reach = "" if each["last"] is None else f" up to {each['last']}"
            click.echo(f"{each['file']}: {many}{reach}: {trouble}")
        for note in found.notes:
            click.echo(f"note: {note}")
        for damage in damages:
            click.echo(f"damage: {damage}")
        verdict = "damaged: the sound history" if found.damage else "whole: the history"
        click.echo(f"{verdict} ends at {show(found.last)}")
    if in_use(path):
        click.echo(f"note: a server runs on {path}; a record that it is writing may look torn", err=True)
    sys.exit(1 if damages else 0)


def _first_foreign(disk: Disk, path: Path, batches: Sequence[Batch]) -> Zxid | None:
    """Return the zxid of the first transaction in a store's directory that a store cannot have written, or None.

    The `identity` file names the kind of state machine that the directory belongs to. Without that kind, one
    transaction that a store can have written shows that the directory belongs to a store.
    """
    kind = None
    if IDENTITY in disk.list():
        try:
            kind = owner_of_directory(disk, path).machine_kind
        except StorageError:  # reported by _damaged_owners
            pass
    if kind not in (None, Store.kind):
        return None
    return first_foreign(transactions_of(batches), mixed=kind is None)


def _damaged_owners(*directories: Path | None) -> list[str]:
    """Return an error for each directory whose file `identity` cannot be read: a server would not start on it."""
    damaged = []
    for path in directories:
        if path is not None and IDENTITY in (disk := ReadOnlyDisk(path)).list():
            try:
                owner_of_directory(disk, path)
            except StorageError as error:
                damaged.append(str(error))
    return damaged


@log.command()
@click.argument("source", type=DIRECTORY, metavar="DATA")
@click.argument("target", type=click.Path(path_type=Path), metavar="NEW")
@log_dir_option
@report_failures
def repair(source: Path, target: Path, log_dir: Path | None) -> None:
    """Make a NEW directory from the part of a history before the damage. DATA is not changed.

    Use this only for the last copy of a history. A damaged member of an ensemble does not need this command: start it,
    and it receives the history from the leader. All transactions after the damage are lost, acknowledged ones included.
    If nothing can be read, NEW is not made, and the exit status is 1.
    """
    state = read_ours(_ours(source, log_dir), str(source), salvage=True)
    for note in state.notes:
        click.echo(f"note: {note}", err=True)
    found_in(target, state)
    nodes = counted(len(state.store.tree), "node")
    click.echo(f"{target}: {nodes} as of {show(Zxid(state.store.zxid))}. Later transactions, if any, were not saved.")


@log.command(name="give-up")
@click.argument("path", type=DIRECTORY, metavar="DATA")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@log_dir_option
@report_failures
def give_up(path: Path, log_dir: Path | None, yes: bool) -> None:
    """Give up the history of a stopped server that vetoes its leader, in favour of the leader's history.

    A server vetoes its leader if the leader lacks committed transactions that the server has. This happens only after a
    majority of the servers has lost data. Then the server logs the event `vetoes`, and `zab status` prints a warning.
    This command gives these transactions up, without checking that the server vetoes. After its next start the server
    does not vote until a leader has sent it a snapshot; then its old files are renamed to damaged.*.
    """
    _ours(path, log_dir)
    ask = f"{path}: give up this history, with the transactions that only this server has?"
    if not yes and not click.confirm(ask):
        raise Failed(f"{path}: not confirmed, so nothing was given up")
    with closing(_writable(path, log_dir)) as disk:
        given_up = give_up_history(disk)
    if given_up is None:
        raise Misused(f"{path}: nothing to give up: this server does not vote with this history, or has no membership")
    click.echo(
        f"{path}: the history up to {show(given_up.last)}, committed at least up to {show(given_up.committed)}, is "
        "given up; at the next start a snapshot of the leader takes its place, and its files become damaged.*"
    )


def _writable(path: Path, log_dir: Path | None) -> Disk:
    main = RealDisk(path)
    if log_dir is None:
        return main
    try:
        return SplitDisk(main, RealDisk(log_dir))
    except BaseException:
        main.close()
        raise
