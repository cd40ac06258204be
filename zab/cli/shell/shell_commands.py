"""The commands of the shell, each with its usage and one line of help.

Names, options and output are those of ZooKeeper's own shell, so that scripts written for it keep working. That shell
has no `checkwatches`, no `multi` and no `multiread`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from importlib.metadata import version as version_of
from typing import Final, TypeAlias

import trio
from attrs import frozen

from zab.cli.shell import formatting, quotas
from zab.cli.shell.parsing import BadLine, ParsedLine, parse_words, split
from zab.cli.shell.shell_context import ShellContext
from zab.session.multi import Multi, MultiRead
from zab.session.session_errors import NoNode, StoreError
from zab.session.watch import Watch
from zab.store.acl import OPEN
from zab.store.operations import ANY_VERSION
from zab.store.paths import child_of
from zab.store.quota import BYTES, BYTES_HARD, COUNT, COUNT_HARD
from zab.store.server_watches import WatchKind

PARTS_MAX: Final = 1_000

Run: TypeAlias = Callable[[ShellContext, ParsedLine], Awaitable[None]]


@frozen
class ShellCommand:
    name: str
    usage: str
    does: str
    run: Run
    flags: str = ""
    options: tuple[str, ...] = ()
    least: int = 0
    most: int = 0


COMMANDS: Final[dict[str, ShellCommand]] = {}


def command(
    usage: str, does: str, *, flags: str = "", options: tuple[str, ...] = (), least: int = 0, most: int = 0
) -> Callable[[Run], Run]:
    """Register a function as a command, named by the first word of its usage."""

    def listed(run: Run) -> Run:
        name = usage.split()[0]
        COMMANDS[name] = ShellCommand(name, usage, does, run, flags, options, least, most)
        return run

    return listed


# -- nodes ---------------------------------------------------------------------------------------------


@command("ls [-s] [-w] [-R] path", "list children; -R: the node and all nodes below it", flags="swR", least=1, most=1)
async def _ls(shell: ShellContext, line: ParsedLine) -> None:
    path = line.words[0]
    session = shell.session
    if line.has("R"):
        await _walk(shell, path)
        return
    found, stat = await session.children_with_stat(path, _watch(shell, line))
    shell.say(formatting.names(found))
    if line.has("s"):
        shell.say(*formatting.stat(stat))


async def _walk(shell: ShellContext, path: str) -> None:
    names = await shell.session.children(path)
    shell.say(path)
    left = [child_of(path, name) for name in sorted(names, reverse=True)]
    while left:
        node = left.pop()
        try:
            names = await shell.session.children(node)
        except NoNode:
            continue  # deleted since the listing
        shell.say(node)
        left += [child_of(node, name) for name in sorted(names, reverse=True)]


@command(
    "get [-s] [-w] [-b] [-x] path", "print the data; -b: as base64, -x: in hexadecimal", flags="swbx", least=1, most=1
)
async def _get(shell: ShellContext, line: ParsedLine) -> None:
    data, stat = await shell.session.get(line.words[0], _watch(shell, line))
    if line.has("x"):
        shell.say(*formatting.hexadecimal(data))
    else:
        shell.say(formatting.base64(data) if line.has("b") else formatting.data(data))
    if line.has("s"):
        shell.say(*formatting.stat(stat))


@command("stat [-w] path", "print the metadata of a node", flags="w", least=1, most=1)
async def _stat(shell: ShellContext, line: ParsedLine) -> None:
    path = line.words[0]
    found = await shell.session.exists(path, _watch(shell, line))
    if found is None:
        await shell.session.get(path)  # raises NoNode for a missing node, as other commands do
    else:
        shell.say(*formatting.stat(found))


@command(
    "create [-s] [-e] [-c] [-t ttl] path [data] [acl]",
    "create a node; -s: sequential, -e: ephemeral, -c: container, -t: with a time to live in ms",
    flags="sec",
    options=("-t",),
    least=1,
    most=3,
)
async def _create(shell: ShellContext, line: ParsedLine) -> None:
    path, *rest = line.words
    ttl = line.number("-t")
    created = await shell.session.create(
        path,
        rest[0].encode() if rest else None,
        ephemeral=line.has("e"),
        sequential=line.has("s"),
        container=line.has("c"),
        ttl_ms=ttl,
        acl=formatting.parse_acl(rest[1]) if len(rest) > 1 else OPEN,
    )
    shell.say(f"Created {created}")


@command(
    "set [-s] [-v version] [-b] path data",
    "write the data; -b: `data` is base64",
    flags="sb",
    options=("-v",),
    least=2,
    most=2,
)
async def _set(shell: ShellContext, line: ParsedLine) -> None:
    path, text = line.words
    data = formatting.from_base64(text) if line.has("b") else text.encode()
    stat = await shell.session.set(path, data, _version(line))
    if line.has("s"):
        shell.say(*formatting.stat(stat))


@command("delete [-v version] path", "delete a node that has no children", options=("-v",), least=1, most=1)
async def _delete(shell: ShellContext, line: ParsedLine) -> None:
    await shell.session.delete(line.words[0], _version(line))


@command(
    "deleteall path [-b batch]",
    "delete a node and all nodes below it; -b has no effect",
    options=("-b",),
    least=1,
    most=1,
)
async def _delete_all(shell: ShellContext, line: ParsedLine) -> None:
    line.number("-b")  # accepted as in ZooKeeper's shell, but not needed: deletions are pipelined
    path = line.words[0]
    await shell.session.get(path)
    await shell.session.delete_tree(path)


@command("getAllChildrenNumber path", "count all nodes below a node", least=1, most=1)
async def _count(shell: ShellContext, line: ParsedLine) -> None:
    shell.say(str(await shell.session.count_below(line.words[0])))


@command(
    "getEphemerals [prefix]", "list the ephemeral nodes of this session; prefix: only paths that begin with it", most=1
)
async def _ephemerals(shell: ShellContext, line: ParsedLine) -> None:
    shell.say(formatting.names(await shell.session.ephemerals(*line.words)))


@command("sync [path]", "wait until this server has applied every write that was committed before", most=1)
async def _sync(shell: ShellContext, line: ParsedLine) -> None:
    await shell.session.sync(*line.words)
    shell.say("Sync is OK")


# -- multi -----------------------------------------------------------------------------------------------

_PARTS: Final[Mapping[str, tuple[str, tuple[str, ...], int, int]]] = {
    "create": ("sec", ("-t",), 1, 3),
    "set": ("", ("-v",), 2, 2),
    "delete": ("", ("-v",), 1, 1),
    "check": ("", (), 2, 2),
}


@command(
    "multi 'create|set|delete ...' 'check path version' ...",
    "run all of these commands or none; put each in quotes",
    least=1,
    most=PARTS_MAX,
)
async def _multi(shell: ShellContext, line: ParsedLine) -> None:
    operations = Multi()
    for part in line.words:
        name, *words = split(part) or [""]
        if name not in _PARTS:
            raise BadLine(f"{part!r} cannot be a part of a multi: {', '.join(_PARTS)} can")
        found = parse_words(words, *_PARTS[name])
        if name == "create":
            _create_part(operations, found)
        elif name == "set":
            operations.set(found.words[0], found.words[1].encode(), _version(found))
        elif name == "delete":
            operations.delete(found.words[0], _version(found))
        else:
            try:
                operations.check(found.words[0], int(found.words[1]))
            except ValueError:
                raise BadLine(f"{part!r}: a version must be a number") from None
    for part, did in zip(line.words, await shell.session.multi(operations), strict=True):
        shell.say(f"Created {did}" if isinstance(did, str) else f"Done: {part}")


def _create_part(operations: Multi, found: ParsedLine) -> None:
    path, *rest = found.words
    operations.create(
        path,
        rest[0].encode() if rest else None,
        ephemeral=found.has("e"),
        sequential=found.has("s"),
        container=found.has("c"),
        ttl_ms=found.number("-t"),
        acl=formatting.parse_acl(rest[1]) if len(rest) > 1 else OPEN,
    )


@command("multiread path ...", "print the data of several nodes as of one moment", least=1, most=PARTS_MAX)
async def _multi_read(shell: ShellContext, line: ParsedLine) -> None:
    reads = MultiRead()
    for path in line.words:
        reads.get(path)
    for path, found in zip(line.words, await shell.session.read_many(reads), strict=True):
        if isinstance(found, StoreError):
            shell.say(str(found))
        else:
            data = found[0]
            assert data is None or isinstance(data, bytes), "the reply to reads of data must hold data"
            shell.say(f"{path} = {formatting.data(data)}")


# -- permissions ---------------------------------------------------------------------------------------


@command("getAcl [-s] path", "print the ACL of a node", flags="s", least=1, most=1)
async def _get_acl(shell: ShellContext, line: ParsedLine) -> None:
    acl, stat = await shell.session.acl(line.words[0])
    shell.say(*formatting.acl(acl))
    if line.has("s"):
        shell.say(*formatting.stat(stat))


@command(
    "setAcl [-s] [-v version] [-R] path acl",
    "set the ACL: one or more scheme:id:letters, with commas between, letters from cdrwa; -R: of all nodes below, too",
    flags="sR",
    options=("-v",),
    least=2,
    most=2,
)
async def _set_acl(shell: ShellContext, line: ParsedLine) -> None:
    path, text = line.words
    acl = formatting.parse_acl(text)
    stat = await shell.session.set_acl(path, acl, _version(line))
    if line.has("s"):
        shell.say(*formatting.stat(stat))
    left = [path] if line.has("R") else []
    while left:
        node = left.pop()
        with suppress(NoNode):  # deleted since the listing
            below = [child_of(node, name) for name in await shell.session.children(node)]
            left += below
            for each in below:
                with suppress(NoNode):
                    await shell.session.set_acl(each, acl)


@command(
    "addauth scheme auth",
    "prove an identity to the server; with the scheme digest, auth is user:password",
    least=1,
    most=2,
)
async def _add_auth(shell: ShellContext, line: ParsedLine) -> None:
    scheme, *credentials = line.words
    await shell.session.add_auth(scheme, "".join(credentials).encode())


@command("whoami", "list the identities of this session")
async def _who_am_i(shell: ShellContext, line: ParsedLine) -> None:
    shell.say("Auth scheme: User", *[f"{scheme}: {name}" for scheme, name in await shell.session.who_am_i()])


# -- watches -------------------------------------------------------------------------------------------

_MODES: Final = {"PERSISTENT": False, "PERSISTENT_RECURSIVE": True}


@command(
    "addWatch [-m mode] path",
    "watch until removewatches; -m PERSISTENT: this node; -m PERSISTENT_RECURSIVE (default): all below, too",
    options=("-m",),
    least=1,
    most=1,
)
async def _add_watch(shell: ShellContext, line: ParsedLine) -> None:
    mode = line.value("-m") or "PERSISTENT_RECURSIVE"
    recursive = _MODES.get(mode.upper())
    if recursive is None:
        raise BadLine(f"{mode!r} is not a mode of watches: use {' or '.join(_MODES)}")
    await shell.session.add_watch(line.words[0], shell.watch, recursive=recursive)


@command(
    "removewatches path [-c|-d|-a] [-l]",
    "remove watches at path; -c: one-shot, of children; -d: one-shot, of data; -a: all (default); -l has no effect",
    flags="cdal",
    least=1,
    most=1,
)
async def _remove_watches(shell: ShellContext, line: ParsedLine) -> None:
    await shell.session.remove_watch(line.words[0], _kind(line))


@command(
    "checkwatches path [-c|-d|-a]",
    "tell whether the session has a watch at path; -c: one-shot, of children; -d: one-shot, of data; -a: any (default)",
    flags="cda",
    least=1,
    most=1,
)
async def _check_watches(shell: ShellContext, line: ParsedLine) -> None:
    there = await shell.session.has_watch(line.words[0], _kind(line))
    shell.say(f"{line.words[0]} is {'' if there else 'not '}watched")


@command(
    "printwatches [on|off]",
    "print watch events, or stop printing them; without an argument: show the present setting",
    most=1,
)
async def _print_watches(shell: ShellContext, line: ParsedLine) -> None:
    if not line.words:
        shell.say(f"printwatches is {'on' if shell.prints_watches else 'off'}")
    elif line.words[0] in ("on", "off"):
        shell.prints_watches = line.words[0] == "on"
    else:
        raise BadLine(f"expected on or off, not {line.words[0]!r}")


def _kind(line: ParsedLine) -> WatchKind:
    return WatchKind.CHILDREN if line.has("c") else WatchKind.DATA if line.has("d") else WatchKind.ANY


def _watch(shell: ShellContext, line: ParsedLine) -> Watch | None:
    return shell.watch if line.has("w") else None


# -- quotas --------------------------------------------------------------------------------------------


@command(
    "setquota -n|-b|-N|-B value path",
    "limit nodes (-n soft, -N hard) or bytes (-b soft, -B hard) of a subtree; hard limits need enforceQuota=true",
    options=("-n", "-b", "-N", "-B"),
    least=1,
    most=1,
)
async def _set_quota(shell: ShellContext, line: ParsedLine) -> None:
    limits = {key: number for option, key in quotas.KEYS.items() if (number := line.number(f"-{option}")) is not None}
    if not limits:
        raise BadLine("give a limit: -n or -N for nodes, -b or -B for bytes; -N and -B are hard limits")
    await quotas.set_quota(shell.session, line.words[0], limits)
    if line.value("-N") or line.value("-B"):  # a client cannot see whether quotas are enforced
        shell.say("note: -N and -B are enforced only if the leader has enforceQuota=true")


@command("listquota path", "print the limits and the usage of a subtree", least=1, most=1)
async def _list_quota(shell: ShellContext, line: ParsedLine) -> None:
    path = line.words[0]
    limits, stats = await quotas.quota_of(shell.session, path)

    def shown(values: dict[str, int]) -> str:
        hard = ";".join(f"{key}={values[key]}" for key in (BYTES_HARD, COUNT_HARD) if key in values)
        return f"{COUNT}={values.get(COUNT, -1)},{BYTES}={values.get(BYTES, -1)}" + (f"=;{hard}" if hard else "")

    shell.say(f"Output quota for {path} {shown(limits)}", f"Output stat for {path} {shown(stats)}")


@command(
    "delquota [-n|-b|-N|-B] path",
    "remove the named limits of a subtree; without an option: all",
    flags="nbNB",
    least=1,
    most=1,
)
async def _delete_quota(shell: ShellContext, line: ParsedLine) -> None:
    await quotas.delete_quota(shell.session, line.words[0], {quotas.KEYS[flag] for flag in line.flags})


# -- the ensemble --------------------------------------------------------------------------------------


@command(
    "config [-c] [-w] [-s]",
    "print the members of the ensemble; -c: only the version and the addresses for clients",
    flags="cws",
)
async def _config(shell: ShellContext, line: ParsedLine) -> None:
    data, stat = await shell.session.config(_watch(shell, line))
    text = formatting.data(data)
    if line.has("c"):
        text = formatting.client_addresses(text).strip()
    shell.say(text)
    if line.has("s"):
        shell.say(*formatting.stat(stat))


@command(
    "reconfig [-s] [-v version] [-file path | -members list | -add server -remove id]",
    "change the members of the ensemble; a server: server.4=host:2888:3888;2181",
    flags="s",
    options=("-v", "-file", "-members", "-add", "-remove"),
)
async def _reconfig(shell: ShellContext, line: ParsedLine) -> None:
    joining, leaving = ",".join(line.values.get("-add", ())), ",".join(line.values.get("-remove", ()))
    members = line.value("-members")
    file = line.value("-file")
    if file is not None:
        if members is not None:
            raise BadLine("-file and -members both name all members: give one of them")
        try:
            text = await trio.Path(file).read_text()
        except OSError as error:
            raise BadLine(f"{file}: {error.strerror}") from None
        members = ",".join(line for line in text.split() if line.startswith(("server.", "group.", "weight.")))
    if bool(joining or leaving) == (members is not None):
        raise BadLine("give either changes (-add, -remove) or all members (-members, -file), not both")
    version = line.number("-v", 16)
    data, stat = await shell.session.reconfigure(
        joining=joining or None,
        leaving=leaving or None,
        members=members,
        version=ANY_VERSION if version is None else version,
    )
    shell.say("Committed new configuration:", formatting.data(data))
    if line.has("s"):
        shell.say(*formatting.stat(stat))


# -- the shell itself ----------------------------------------------------------------------------------


@command(
    "connect [host:port]",
    "end the session and open a new one, with these servers; without an argument: with the same as before",
    most=1,
)
async def _connect(shell: ShellContext, line: ParsedLine) -> None:
    await shell.connect(line.words[0] if line.words else None)


@command("close", "close the session; its ephemeral nodes are deleted")
async def _close(shell: ShellContext, line: ParsedLine) -> None:
    await shell.close()


@command("quit", "leave the shell")
async def _quit(shell: ShellContext, line: ParsedLine) -> None:
    shell.done = True


@command("history", "list the last 11 commands, with their numbers")
async def _history(shell: ShellContext, line: ParsedLine) -> None:
    shell.say(*[f"{number} - {line}" for number, line in [*shell.history.items()][-11:]])


@command("redo number", "repeat a command, by its number in `history`", least=1, most=1)
async def _redo(shell: ShellContext, line: ParsedLine) -> None:
    try:
        number = int(line.words[0])
        again = shell.history[number]
    except (ValueError, KeyError):
        raise BadLine(f"there is no command {line.words[0]} in the history: `history` lists the last ones") from None
    if again.split()[:1] == ["redo"] or number == max(shell.history):
        raise BadLine("redo cannot repeat itself")
    await shell.execute(again)


@command("version", "print the version of this shell")
async def _version_of_shell(shell: ShellContext, line: ParsedLine) -> None:
    shell.say(f"ZooKeeper CLI version: zab {version_of('zab')}")


@command("help [command]", "list all commands, or explain one", most=1)
async def _help(shell: ShellContext, line: ParsedLine) -> None:
    if line.words:
        known = COMMANDS.get(line.words[0])
        if known is None:
            raise BadLine(f"there is no command {line.words[0]!r}")
        shell.say(known.usage, f"    {known.does}")
        return
    for name in sorted(COMMANDS, key=str.lower):
        shell.say(COMMANDS[name].usage, f"    {COMMANDS[name].does}")


def _version(line: ParsedLine) -> int:
    version = line.number("-v")
    return ANY_VERSION if version is None else version
