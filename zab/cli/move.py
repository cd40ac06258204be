"""`zab import` and `zab export`: from ZooKeeper's data directory to ours, and back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from zab.cli.history import states
from zab.cli.history.options import log_dir_option
from zab.cli.history.states import State, read_state
from zab.cli.history.writing import check_new, export_to, found_in, write_file
from zab.cli.running import Misused, failing_plainly
from zab.core.errors import DamagedError
from zab.core.words import counted
from zab.core.zxid import Zxid, show
from zab.runtime.identity import NAME as IDENTITY
from zab.runtime.identity import owner_of
from zab.storage.look import ReadOnlyDisk
from zab.storage.real import in_use
from zab.store.acl import OPEN, can_be_carried
from zab.wire.disk_files import MYID

SOURCE = click.Path(exists=True, path_type=Path)


@click.command("import")
@click.argument("source", type=SOURCE, metavar="SRC")
@click.argument("target", type=click.Path(path_type=Path), metavar="DST")
@log_dir_option
@failing_plainly
def import_(source: Path, target: Path, log_dir: Path | None) -> None:
    """Make a data directory DST out of SRC: a data directory of ZooKeeper's, or a snapshot file.

    SRC is only read; stop its server first. DST has to be empty, or not there yet; a `myid` may be in it, else
    that of SRC is taken. The newest snapshot is read and the log behind it replayed, and what comes out is
    compared with the digest in the log. Every server of an ensemble is given the same import.

    \b
    zab import /var/lib/zookeeper /var/lib/zab
    zab import /var/lib/zookeeper /var/lib/zab --log-dir /log/zookeeper
    zab import backup/snapshot.today /var/lib/zab
    """
    check_new(target)
    if source.is_dir() and in_use(source):
        raise Misused(f"{source}: a server runs on it: stop it first")
    with _progress(source, log_dir) as progress:
        try:
            state = read_state(source, log_dir, progress)
        except DamagedError as error:
            raise DamagedError(f"{error}. {_advice(source)}") from error
    _tell_notes(state)
    found_in(target, state)
    if (source / MYID).is_file() and not (target / MYID).exists():
        write_file(target / MYID, [(source / MYID).read_bytes()])
    click.echo(f"{target}: {_summary(state)}")


@click.command()
@click.argument("source", type=SOURCE, metavar="SRC")
@click.argument("target", type=click.Path(path_type=Path), metavar="DST")
@log_dir_option
@failing_plainly
def export(source: Path, target: Path, log_dir: Path | None) -> None:
    """Make a data directory DST of ZooKeeper's out of SRC: a data directory of ours, or a snapshot file.

    The server of SRC has to be stopped. DST has to be empty, or not there yet. It gets one snapshot, which says
    everything, the epochs, and `myid`. Every server of an ensemble is given the same export.

    \b
    zab export /var/lib/zab /var/lib/zookeeper
    """
    check_new(target)
    if source.is_dir() and in_use(source):
        raise Misused(f"{source}: a server runs on it: stop it first")
    state = read_state(source, log_dir)
    _tell_notes(state)
    _tell_changed_lists(state)
    file = export_to(target, state, _owner(source))
    click.echo(f"{file}: {_summary(state)}")


def _advice(source: Path) -> str:
    """Damage is not passed over: what came behind it may have been acknowledged to somebody."""
    if source.is_dir() and states.their_files(source) is None:
        return f"`zab log repair {source} NEW` saves what hangs together"
    return (
        "Each server of an ensemble has all of it: import that of another one. From the only copy there is, import "
        "the newest sound snapshot file by itself; what the log has behind it is lost then"
    )


def _owner(source: Path) -> int | None:
    """Whose directory it is, as it says itself."""
    if not (source / IDENTITY).is_file():
        return None
    return owner_of(ReadOnlyDisk(source), source)[1]


def _summary(state: State) -> str:
    store = state.store
    nodes, sessions = counted(len(store.tree), "node"), counted(len(store.sessions.table), "session")
    return f"{nodes}, {sessions}, as of {show(Zxid(store.zxid))} ({store.zxid:#x})"


def _tell_changed_lists(state: State) -> None:
    """Lists of permissions that were let in once, and that their format cannot hold as they are."""
    for path, node in state.store.tree.nodes.items():
        if node[1] is not OPEN and any(not can_be_carried(entry) for entry in node[1]):
            shown = path.encode("utf-8", "backslashreplace").decode()
            click.echo(f"note: {shown}: its list of permissions is not one for ZooKeeper, and is mended", err=True)


def _tell_notes(state: State) -> None:
    for note in state.notes:
        click.echo(f"note: {note}", err=True)


@contextmanager
def _progress(source: Path, log_dir: Path | None) -> Iterator[states.Progress]:
    """A bar where somebody looks; else nothing."""
    if not sys.stderr.isatty():
        yield states.unheard
        return
    folders = [folder for each in (source, log_dir) if each is not None and (folder := states.their_files(each))]
    files = [file for folder in folders for file in folder.iterdir()] or [source]
    total = sum(file.stat().st_size for file in files if file.is_file())
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=total)
        yield lambda count: bar.advance(task, count)
