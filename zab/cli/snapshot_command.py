"""`zab snapshot`: print, verify and take snapshots."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click

from zab.cli.data_files.log_lines import moment, readable, show_acl
from zab.cli.data_files.snapshot_download import streamed
from zab.cli.data_files.state_reader import StoreState, read_state
from zab.cli.data_files.state_writer import write_file
from zab.cli.kit.failures import Misused, report_failures
from zab.cli.kit.options import log_dir_option
from zab.cli.kit.progress import byte_progress
from zab.core.plurals import counted
from zab.core.zxid import Zxid, show
from zab.storage.real_disk import in_use
from zab.store.paths import ROOT
from zab.store.znode import CONTAINER, Znode, is_session, ttl_of
from zab.wire.disk_files import parse_name, snapshot_name
from zab.wire.disk_store import departure

SOURCE = click.Path(exists=True, path_type=Path)


@click.group()
def snapshot() -> None:
    """Print a snapshot, verify it, or take one.

    SNAPSHOT is a snapshot file or a data directory, of zab or of ZooKeeper. For a directory, the log after its
    newest sound snapshot is replayed, too.
    """


@snapshot.command()
@click.argument("path", type=SOURCE, metavar="SNAPSHOT")
@click.option("-d", "--data", "with_data", is_flag=True, help="Print the data of the nodes, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@click.option("--under", default=ROOT, show_default=True, metavar="PATH", help="Print only this node and those below.")
@click.option(
    "--summary", is_flag=True, help="Print the number of nodes and bytes of each subtree instead of the nodes."
)
@click.option(
    "--depth",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="With --summary: list subtrees down to this depth below --under.",
)
@log_dir_option
@report_failures
def dump(
    path: Path, log_dir: Path | None, with_data: bool, as_json: bool, under: str, summary: bool, depth: int
) -> None:
    """Print every node, or with --summary the size of each subtree.

    \b
    zab snapshot dump data/1 --under /app -d
    zab snapshot dump data/1 --summary --depth 2
    zab snapshot dump /var/lib/zookeeper/version-2/snapshot.1a2b --json
    """
    state = _read(path, log_dir)
    if under not in state.store.tree.nodes:
        raise Misused(f"{path}: there is no node {under}")
    if summary:
        for line in _summary(state, under, depth):
            click.echo(json.dumps(line) if as_json else f"{line['nodes']:>10} {line['bytes']:>14} {line['path']}")
        return
    for each, node in state.store.tree.walk(under):
        fields = _node(each, node)
        if with_data:
            fields["data"] = readable(node[0])
        click.echo(json.dumps(fields) if as_json else _as_text(fields))


def _node(path: str, node: Znode) -> dict[str, object]:
    data, acl, czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid, children = node
    kind: dict[str, object] = {}
    if is_session(owner):
        kind["session"] = f"{owner & (1 << 64) - 1:#x}"
    elif owner == CONTAINER:
        kind["container"] = True
    elif (ttl := ttl_of(owner)) is not None:
        kind["ttl_ms"] = ttl
    return {
        "path": path,
        "bytes": None if data is None else len(data),
        "children": children,
        "version": version,
        "cversion": cversion,
        "aversion": aversion,
        "czxid": f"{czxid:#x}",
        "mzxid": f"{mzxid:#x}",
        "pzxid": f"{pzxid:#x}",
        "ctime": moment(ctime),
        "mtime": moment(mtime),
        "acl": show_acl(acl),
        **kind,
    }


def _as_text(fields: dict[str, object]) -> str:
    size = "null" if fields["bytes"] is None else f"{fields['bytes']} bytes"
    said = [f"{fields['path']} {size}"]
    hidden = ("path", "bytes", "ctime", "czxid", "pzxid", "cversion", "aversion")
    said += [f"{name}={value}" for name, value in fields.items() if name not in hidden and value not in (0, "")]
    return " ".join(said)


def _summary(state: StoreState, under: str, depth: int) -> Iterator[dict[str, object]]:
    """Yield the numbers of nodes and bytes of each subtree whose root is at most `depth` levels below `under`."""
    nodes: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    base = 0 if under == ROOT else under.count("/")
    for path, node in state.store.tree.walk(under):
        parts = [] if path == ROOT else path[1:].split("/")
        for count in range(base, min(len(parts), base + depth) + 1):
            above = "/" + "/".join(parts[:count])
            nodes[above] += 1
            sizes[above] += len(node[0] or b"")
    for above in sorted(nodes):
        yield {"path": above, "nodes": nodes[above], "bytes": sizes[above]}


@snapshot.command()
@click.argument("path", type=SOURCE, metavar="SNAPSHOT")
@log_dir_option
@report_failures
def verify(path: Path, log_dir: Path | None) -> None:
    """Read the whole state and verify all checksums on the way. Exit status 0: no file that the state needs is damaged.

    A note on stderr names damage that was found in files that the state does not need, such as a newer snapshot. Older
    snapshots are not read. Another note warns of a snapshot file that was written while the state changed, because it
    is complete only with the log after it.
    """
    state = _read(path, log_dir)
    nodes, sessions = counted(len(state.store.tree), "node"), counted(len(state.store.sessions.table), "session")
    click.echo(
        f"{path}: sound: {nodes}, {sessions}, "
        f"as of {show(Zxid(state.store.zxid))} ({state.store.zxid:#x}), digest {state.store.digest.value:#x}"
    )


@snapshot.command()
@click.argument("source", metavar="SOURCE")
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
@click.option(
    "--auth",
    metavar="SCHEME:CREDENTIALS",
    envvar="ZAB_AUTH",
    help="Credentials for a running server, like digest:user:password; or set ZAB_AUTH in the environment.",
)
@log_dir_option
@report_failures
def take(source: str, target: Path, log_dir: Path | None, auth: str | None) -> None:
    """Write the whole state to a FILE, in ZooKeeper's format.

    SOURCE is the admin port of a running server, as http://HOST:PORT, or the data directory of a stopped server.
    Keep backups in this format: `zab import` makes a data directory from such a file. ZooKeeper also reads the file
    if its name is snapshot.<zxid>. A running server requires --auth: the credentials of the super user, or of an
    identity to which the ACL of / grants all permissions by name. Grants to world:anyone do not count.

    \b
    zab snapshot take http://127.0.0.1:8080 backup/snapshot.today --auth digest:backup:secret
    zab snapshot take /var/lib/zab backup/snapshot.today
    zab import backup/snapshot.today /var/lib/zab-new
    """
    if target.exists():
        raise Misused(f"{target} exists already, and files are not overwritten")
    if not target.absolute().parent.is_dir():
        raise Misused(f"{target.absolute().parent}: there is no such directory")
    if source.startswith(("http://", "https://")):
        with byte_progress("receiving", None) as progress:
            write_file(target, _counted(streamed(source, auth), progress))
        state = _read(target)  # reads it back: a backup that cannot be read must fail now
    else:
        folder = Path(source)
        if not folder.is_dir():
            raise Misused(f"{source} is neither a directory nor an admin port, like http://127.0.0.1:8080")
        if in_use(folder):
            raise Misused(
                f"{source}: a server uses this directory: stop the server, or name its admin port, as http://HOST:PORT"
            )
        state = _read(folder, log_dir)
        write_file(target, departure(state.store))
    named = parse_name(target.name)
    if named is not None and named.zxid != state.store.zxid:
        right = snapshot_name(state.store.zxid, named.compression)
        click.echo(
            f"warning: {target}: the name stands for zxid {named.zxid:#x}, but the snapshot has zxid "
            f"{state.store.zxid:#x}: rename it to {right}, or to a name that does not end in hexadecimal digits",
            err=True,
        )
    click.echo(f"{target}: {counted(len(state.store.tree), 'node')} as of {state.store.zxid:#x}")


def _counted(pieces: Iterable[bytes], progress: Callable[[int], object]) -> Iterator[bytes]:
    for piece in pieces:
        progress(len(piece))
        yield piece


def _read(path: Path, log_dir: Path | None = None) -> StoreState:
    with byte_progress("reading", path.stat().st_size if path.is_file() else None) as progress:
        state = read_state(path, log_dir, progress)
    for note in state.notes:
        click.echo(f"note: {note}", err=True)
    return state
