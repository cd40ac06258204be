"""`zab import` and `zab export`: convert data directories from ZooKeeper's format, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from zab.cli.data_files.state_reader import NoSnapshotError, StoreState, read_state, their_files
from zab.cli.data_files.state_writer import check_new, export_to, found_in, write_file
from zab.cli.kit.failures import Misused, report_failures
from zab.cli.kit.options import log_dir_option
from zab.cli.kit.progress import byte_progress
from zab.core.errors import DamagedError
from zab.core.plurals import counted
from zab.core.zxid import Zxid, show
from zab.runtime.directory_owner import NAME as IDENTITY
from zab.runtime.directory_owner import owner_of_directory
from zab.storage.inspection import ReadOnlyDisk
from zab.storage.real_disk import in_use
from zab.storage.snapshot_files import MisnamedError
from zab.store.acl import OPEN, is_encodable
from zab.wire.disk_files import MYID

_OTHER_SERVER: Final = "Import the directory of another server of the ensemble"
SOURCE = click.Path(exists=True, path_type=Path)


@click.command("import")
@click.argument("source", type=SOURCE, metavar="SRC")
@click.argument("target", type=click.Path(path_type=Path), metavar="DST")
@log_dir_option
@report_failures
def import_(source: Path, target: Path, log_dir: Path | None) -> None:
    """Make a data directory DST for `zab serve` from SRC: a data directory of ZooKeeper, or a snapshot file.

    Stop the server of SRC first; SRC is not changed. DST must not exist, or must be empty; a `myid` and a `lost+found`
    may be in it. If DST has no `myid`, that of SRC is copied. From a directory, the command reads the newest sound
    snapshot and replays the log after it. If the log has digests, the last one is compared with that of the tree, and
    nothing is written if they differ. For an ensemble, import the same SRC for every server, so that the servers agree,
    and set each `myid`.

    \b
    zab import /var/lib/zookeeper /var/lib/zab
    zab import /var/lib/zookeeper /var/lib/zab --log-dir /log/zookeeper
    zab import backup/snapshot.today /var/lib/zab
    """
    check_new(target)
    if source.is_dir() and in_use(source):
        raise Misused(f"{source}: a server uses this directory: stop it first")
    with byte_progress("reading", _bytes_of(source, log_dir)) as progress:
        try:
            state = read_state(source, log_dir, progress)
        except MisnamedError:
            raise
        except NoSnapshotError as error:
            raise NoSnapshotError(f"{error}. {_OTHER_SERVER}") from error
        except DamagedError as error:
            raise DamagedError(f"{error}. {_advice(source, log_dir)}") from error
    _tell_notes(state)
    found_in(target, state)
    if (source / MYID).is_file() and not (target / MYID).exists():
        write_file(target / MYID, [(source / MYID).read_bytes()])
    click.echo(f"{target}: {_summary(state)}")


@click.command()
@click.argument("source", type=SOURCE, metavar="SRC")
@click.argument("target", type=click.Path(path_type=Path), metavar="DST")
@log_dir_option
@report_failures
def export(source: Path, target: Path, log_dir: Path | None) -> None:
    """Make a data directory DST for ZooKeeper from SRC: a data directory of `zab serve`, or a snapshot file.

    Stop the server of SRC first; SRC is not changed. DST must not exist, or must be empty; a `myid` and a `lost+found`
    may be in it. The command writes one snapshot of the whole state, and the epochs. If SRC belongs to a server and DST
    has no `myid`, it also writes the id of that server as `myid`. For an ensemble, export the same SRC for every
    server, so that the servers agree, and set each `myid`.

    \b
    zab export /var/lib/zab /var/lib/zookeeper
    """
    check_new(target)
    if source.is_dir() and in_use(source):
        raise Misused(f"{source}: a server uses this directory: stop it first")
    state = read_state(source, log_dir)
    _tell_notes(state)
    _tell_changed_lists(state)
    file = export_to(target, state, _owner(source))
    click.echo(f"{file}: {_summary(state)}")


def _advice(source: Path, log_dir: Path | None) -> str:
    """Return the advice after an error about damage.

    An import does not skip the damaged part, because that would lose acknowledged transactions.
    """
    if source.is_dir() and their_files(source) is None:
        with_log = f" --log-dir {log_dir}" if log_dir else ""
        return f"`zab log repair {source} NEW{with_log}` saves the part before the damage"
    return (
        f"{_OTHER_SERVER}. If this is the only copy, import its newest undamaged "
        "snapshot file alone; the transactions after it are lost then"
    )


def _owner(source: Path) -> int | None:
    """Return the number of the server that the directory belongs to, or None if it has no `identity` file."""
    if not (source / IDENTITY).is_file():
        return None
    return owner_of_directory(ReadOnlyDisk(source), source).sid


def _summary(state: StoreState) -> str:
    store = state.store
    nodes, sessions = counted(len(store.tree), "node"), counted(len(store.sessions.table), "session")
    return f"{nodes}, {sessions}, as of {show(Zxid(store.zxid))} ({store.zxid:#x})"


def _tell_changed_lists(state: StoreState) -> None:
    """Report the ACLs that the export changes, because ZooKeeper's format cannot hold them."""
    for path, node in state.store.tree.nodes.items():
        if node[1] is not OPEN and any(not is_encodable(entry) for entry in node[1]):
            shown = path.encode("utf-8", "backslashreplace").decode()
            click.echo(f"note: {shown}: its ACL is not valid in ZooKeeper, and is changed in the copy", err=True)


def _tell_notes(state: StoreState) -> None:
    for note in state.notes:
        click.echo(f"note: {note}", err=True)


def _bytes_of(source: Path, log_dir: Path | None) -> int:
    """Return the size of all files that may be read, for the progress bar."""
    folders = [folder for each in (source, log_dir) if each is not None and (folder := their_files(each))]
    files = [file for folder in folders for file in folder.iterdir()] or [source]
    return sum(file.stat().st_size for file in files if file.is_file())
