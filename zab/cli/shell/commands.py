"""What can be typed: each command with its usage, and what it does.

Names, options and output are those of ZooKeeper's own shell; whoever has scripts for that one need not change them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Final, TypeAlias

import trio
from attrs import frozen

from zab.cli.shell import quotas, texts
from zab.cli.shell.lines import Misused, Typed, split, typed
from zab.runtime.session.errors import StoreError
from zab.runtime.session.multi import Multi, MultiRead
from zab.runtime.session.watch import Watch
from zab.store.acl import OPEN
from zab.store.ops import ANY_VERSION
from zab.store.paths import child_of
from zab.store.quota import BYTES, BYTES_HARD, COUNT, COUNT_HARD
from zab.store.watches import WatchKind

if TYPE_CHECKING:
    from zab.cli.shell.shell import Shell

PARTS_MAX: Final = 1_000

Run: TypeAlias = Callable[["Shell", Typed], Awaitable[None]]


@frozen
class Command:
    name: str
    usage: str
    does: str
    run: Run
    flags: str = ""
    options: tuple[str, ...] = ()
    least: int = 0
    most: int = 0


COMMANDS: Final[dict[str, Command]] = {}


def command(
    usage: str, does: str, *, flags: str = "", options: tuple[str, ...] = (), least: int = 0, most: int = 0
) -> Callable[[Run], Run]:
    """Makes a command of a function; its name is the first word of its usage."""

    def listed(run: Run) -> Run:
        name = usage.split()[0]
        COMMANDS[name] = Command(name, usage, does, run, flags, options, least, most)
        return run

    return listed


# -- nodes ---------------------------------------------------------------------------------------------


@command("ls [-s] [-w] [-R] path", "children; -R: all below", flags="swR", least=1, most=1)
async def _ls(shell: Shell, typed: Typed) -> None:
    path = typed.words[0]
    session = shell.session
    if typed.has("R"):
        await _walk(shell, path)
        return
    found, stat = await session.children_with_stat(path, _watch(shell, typed))
    shell.say(texts.names(found))
    if typed.has("s"):
        shell.say(*texts.stat(stat))


async def _walk(shell: Shell, path: str) -> None:
    names = await shell.session.children(path)
    shell.say(path)
    left = [child_of(path, name) for name in sorted(names, reverse=True)]
    while left:
        node = left.pop()
        if await shell.session.exists(node) is None:
            continue  # it was there a moment ago
        shell.say(node)
        left += [child_of(node, name) for name in sorted(await shell.session.children(node), reverse=True)]


@command("get [-s] [-w] [-b] [-x] path", "data; -b: as base64, -x: in hexadecimal", flags="swbx", least=1, most=1)
async def _get(shell: Shell, typed: Typed) -> None:
    data, stat = await shell.session.get(typed.words[0], _watch(shell, typed))
    if typed.has("x"):
        shell.say(*texts.hexadecimal(data))
    else:
        shell.say(texts.base64(data) if typed.has("b") else texts.data(data))
    if typed.has("s"):
        shell.say(*texts.stat(stat))


@command("stat [-w] path", "all about a node but its data", flags="w", least=1, most=1)
async def _stat(shell: Shell, typed: Typed) -> None:
    path = typed.words[0]
    found = await shell.session.exists(path, _watch(shell, typed))
    if found is None:
        await shell.session.get(path)  # says that it is not there in the words of all others
    else:
        shell.say(*texts.stat(found))


@command(
    "create [-s] [-e] [-c] [-t ttl] path [data] [acl]",
    "-s: numbered, -e: ephemeral, -c: a container, -t: lives so many ms",
    flags="sec",
    options=("-t",),
    least=1,
    most=3,
)
async def _create(shell: Shell, typed: Typed) -> None:
    path, *rest = typed.words
    ttl = typed.number("-t")
    created = await shell.session.create(
        path,
        rest[0].encode() if rest else None,
        ephemeral=typed.has("e"),
        sequential=typed.has("s"),
        container=typed.has("c"),
        ttl_ms=ttl,
        acl=texts.parse_acl(rest[1]) if len(rest) > 1 else OPEN,
    )
    shell.say(f"Created {created}")


@command("set [-s] [-v version] [-b] path data", "-b: data is base64", flags="sb", options=("-v",), least=2, most=2)
async def _set(shell: Shell, typed: Typed) -> None:
    path, text = typed.words
    data = texts.from_base64(text) if typed.has("b") else text.encode()
    stat = await shell.session.set(path, data, _version(typed))
    if typed.has("s"):
        shell.say(*texts.stat(stat))


@command("delete [-v version] path", "one node without children", options=("-v",), least=1, most=1)
async def _delete(shell: Shell, typed: Typed) -> None:
    await shell.session.delete(typed.words[0], _version(typed))


@command("deleteall path [-b batch]", "a node and all below it", options=("-b",), least=1, most=1)
async def _delete_all(shell: Shell, typed: Typed) -> None:
    typed.number("-b")  # taken, as the other shell does; deletions here are sent as fast as they are answered
    path = typed.words[0]
    await shell.session.get(path)
    await shell.session.delete_tree(path)


@command("getAllChildrenNumber path", "how many nodes are below", least=1, most=1)
async def _count(shell: Shell, typed: Typed) -> None:
    shell.say(str(await shell.session.count_below(typed.words[0])))


@command("getEphemerals [prefix]", "this session's own", most=1)
async def _ephemerals(shell: Shell, typed: Typed) -> None:
    shell.say(texts.names(await shell.session.ephemerals(*typed.words)))


@command("sync [path]", "what is read behind it is not older than what was written before it, by anybody", most=1)
async def _sync(shell: Shell, typed: Typed) -> None:
    await shell.session.sync(*typed.words)
    shell.say("Sync is OK")


# -- several in one request ------------------------------------------------------------------------------

_PARTS: Final[Mapping[str, tuple[str, tuple[str, ...], int, int]]] = {
    "create": ("sec", ("-t",), 1, 3),
    "set": ("", ("-v",), 2, 2),
    "delete": ("", ("-v",), 1, 1),
    "check": ("", (), 2, 2),
}


@command(
    "multi 'create|set|delete ...' 'check path version' ...",
    "all of these commands, each in quotes, or none",
    least=1,
    most=PARTS_MAX,
)
async def _multi(shell: Shell, line: Typed) -> None:
    operations = Multi()
    for part in line.words:
        name, *words = split(part) or [""]
        if name not in _PARTS:
            raise Misused(f"{part!r} cannot be a part of a multi: {', '.join(_PARTS)} can")
        found = typed(words, *_PARTS[name])
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
                raise Misused(f"{part!r}: a version is a number") from None
    for part, did in zip(line.words, await shell.session.multi(operations), strict=True):
        shell.say(f"Created {did}" if isinstance(did, str) else f"Done: {part}")


def _create_part(operations: Multi, found: Typed) -> None:
    path, *rest = found.words
    operations.create(
        path,
        rest[0].encode() if rest else None,
        ephemeral=found.has("e"),
        sequential=found.has("s"),
        container=found.has("c"),
        ttl_ms=found.number("-t"),
        acl=texts.parse_acl(rest[1]) if len(rest) > 1 else OPEN,
    )


@command("multiread path ...", "data of several nodes, as they were at one moment", least=1, most=PARTS_MAX)
async def _multi_read(shell: Shell, line: Typed) -> None:
    reads = MultiRead()
    for path in line.words:
        reads.get(path)
    for path, found in zip(line.words, await shell.session.read_many(reads), strict=True):
        if isinstance(found, StoreError):
            shell.say(str(found))
        else:
            data = found[0]
            assert data is None or isinstance(data, bytes), "only data was asked for"
            shell.say(f"{path} = {texts.data(data)}")


# -- permissions ---------------------------------------------------------------------------------------


@command("getAcl [-s] path", "who may do what", flags="s", least=1, most=1)
async def _get_acl(shell: Shell, typed: Typed) -> None:
    acl, stat = await shell.session.acl(typed.words[0])
    shell.say(*texts.acl(acl))
    if typed.has("s"):
        shell.say(*texts.stat(stat))


@command(
    "setAcl [-s] [-v version] [-R] path acl",
    "acl: scheme:id:letters, out of cdrwa, with commas in between; -R: below, too",
    flags="sR",
    options=("-v",),
    least=2,
    most=2,
)
async def _set_acl(shell: Shell, typed: Typed) -> None:
    path, text = typed.words
    acl = texts.parse_acl(text)
    stat = await shell.session.set_acl(path, acl, _version(typed))
    if typed.has("s"):
        shell.say(*texts.stat(stat))
    left = [path] if typed.has("R") else []
    while left:
        node = left.pop()
        for name in await shell.session.children(node):
            below = child_of(node, name)
            await shell.session.set_acl(below, acl)
            left.append(below)


@command("addauth scheme auth", "be somebody; for the scheme digest: user:password", least=1, most=2)
async def _add_auth(shell: Shell, typed: Typed) -> None:
    scheme, *credentials = typed.words
    await shell.session.add_auth(scheme, "".join(credentials).encode())


@command("whoami", "as whom the server knows this session")
async def _who_am_i(shell: Shell, typed: Typed) -> None:
    shell.say("Auth scheme: User", *[f"{scheme}: {name}" for scheme, name in await shell.session.who_am_i()])


# -- watches -------------------------------------------------------------------------------------------

_MODES: Final = {"PERSISTENT": False, "PERSISTENT_RECURSIVE": True}


@command(
    "addWatch [-m mode] path",
    "watch until told otherwise; a mode: PERSISTENT, or with all below it PERSISTENT_RECURSIVE (the default)",
    options=("-m",),
    least=1,
    most=1,
)
async def _add_watch(shell: Shell, typed: Typed) -> None:
    mode = typed.value("-m") or "PERSISTENT_RECURSIVE"
    recursive = _MODES.get(mode.upper())
    if recursive is None:
        raise Misused(f"{mode!r} is no mode of a watch: {' or '.join(_MODES)}")
    await shell.session.add_watch(typed.words[0], shell.watch, recursive=recursive)


@command("removewatches path [-c|-d|-a] [-l]", "of children, of data, or any", flags="cdal", least=1, most=1)
async def _remove_watches(shell: Shell, typed: Typed) -> None:
    await shell.session.remove_watch(typed.words[0], _kind(typed))


@command("checkwatches path [-c|-d|-a]", "whether there is one", flags="cda", least=1, most=1)
async def _check_watches(shell: Shell, typed: Typed) -> None:
    there = await shell.session.has_watch(typed.words[0], _kind(typed))
    shell.say(f"{typed.words[0]} is {'' if there else 'not '}watched")


@command("printwatches [on|off]", "whether events are shown", most=1)
async def _print_watches(shell: Shell, typed: Typed) -> None:
    if not typed.words:
        shell.say(f"printwatches is {'on' if shell.prints_watches else 'off'}")
    elif typed.words[0] in ("on", "off"):
        shell.prints_watches = typed.words[0] == "on"
    else:
        raise Misused(f"on or off, not {typed.words[0]!r}")


def _kind(typed: Typed) -> WatchKind:
    return WatchKind.CHILDREN if typed.has("c") else WatchKind.DATA if typed.has("d") else WatchKind.ANY


def _watch(shell: Shell, typed: Typed) -> Watch | None:
    return shell.watch if typed.has("w") else None


# -- quotas --------------------------------------------------------------------------------------------


@command(
    "setquota -n|-b|-N|-B value path",
    "nodes or bytes of a subtree; capitals: enforced with enforceQuota=true",
    options=("-n", "-b", "-N", "-B"),
    least=1,
    most=1,
)
async def _set_quota(shell: Shell, typed: Typed) -> None:
    limits = {key: number for option, key in quotas.KEYS.items() if (number := typed.number(f"-{option}")) is not None}
    if not limits:
        raise Misused("which limit? -n or -N nodes, -b or -B bytes; the capitals are enforced")
    await quotas.set_quota(shell.session, typed.words[0], limits)
    if typed.value("-N") or typed.value("-B"):  # a client cannot see whether its server does
        shell.say("note: -N and -B are enforced by servers with enforceQuota=true, and by no others")


@command("listquota path", "the limits of a subtree, and what it holds", least=1, most=1)
async def _list_quota(shell: Shell, typed: Typed) -> None:
    path = typed.words[0]
    limits, stats = await quotas.quota_of(shell.session, path)

    def shown(values: dict[str, int]) -> str:
        hard = ";".join(f"{key}={values[key]}" for key in (BYTES_HARD, COUNT_HARD) if key in values)
        return f"{COUNT}={values.get(COUNT, -1)},{BYTES}={values.get(BYTES, -1)}" + (f"=;{hard}" if hard else "")

    shell.say(f"Output quota for {path} {shown(limits)}", f"Output stat for {path} {shown(stats)}")


@command("delquota [-n|-b|-N|-B] path", "one limit of a subtree, or all", flags="nbNB", least=1, most=1)
async def _delete_quota(shell: Shell, typed: Typed) -> None:
    await quotas.delete_quota(shell.session, typed.words[0], {quotas.KEYS[flag] for flag in typed.flags})


# -- the ensemble --------------------------------------------------------------------------------------


@command("config [-c] [-w] [-s]", "who takes part; -c: where clients connect to", flags="cws")
async def _config(shell: Shell, typed: Typed) -> None:
    data, stat = await shell.session.config(_watch(shell, typed))
    text = texts.data(data)
    if typed.has("c"):
        text = texts.client_addresses(text).strip()
    shell.say(text)
    if typed.has("s"):
        shell.say(*texts.stat(stat))


@command(
    "reconfig [-s] [-v version] [-file path | -members list | -add server -remove id]",
    "change who takes part; a server: 4=host:2888:3888;2181",
    flags="s",
    options=("-v", "-file", "-members", "-add", "-remove"),
)
async def _reconfig(shell: Shell, typed: Typed) -> None:
    joining, leaving = ",".join(typed.values.get("-add", ())), ",".join(typed.values.get("-remove", ()))
    members = typed.value("-members")
    file = typed.value("-file")
    if file is not None:
        if members is not None:
            raise Misused("-file and -members both name all members: give one of them")
        try:
            text = await trio.Path(file).read_text()
        except OSError as error:
            raise Misused(f"{file}: {error.strerror}") from None
        members = ",".join(line for line in text.split() if line.startswith("server."))
    if bool(joining or leaving) == (members is not None):
        raise Misused("either -add and -remove, or all members by -members or -file")
    version = typed.number("-v", 16)
    data, stat = await shell.session.reconfigure(
        joining=joining or None,
        leaving=leaving or None,
        members=members,
        version=ANY_VERSION if version is None else version,
    )
    shell.say("Committed new configuration:", texts.data(data))
    if typed.has("s"):
        shell.say(*texts.stat(stat))


# -- the shell itself ----------------------------------------------------------------------------------


@command("connect [host:port]", "begin a new session, there", most=1)
async def _connect(shell: Shell, typed: Typed) -> None:
    await shell.connect(typed.words[0] if typed.words else None)


@command("close", "end the session; its ephemeral nodes go")
async def _close(shell: Shell, typed: Typed) -> None:
    await shell.close()


@command("quit", "end")
async def _quit(shell: Shell, typed: Typed) -> None:
    shell.done = True


@command("history", "the last commands, with numbers")
async def _history(shell: Shell, typed: Typed) -> None:
    first = max(0, len(shell.history) - 11)
    shell.say(*[f"{number} - {line}" for number, line in enumerate(shell.history[first:], first)])


@command("redo number", "a command of the history once more", least=1, most=1)
async def _redo(shell: Shell, typed: Typed) -> None:
    try:
        number = int(typed.words[0])
        line = shell.history[number]
    except (ValueError, IndexError):
        raise Misused(f"there is no command {typed.words[0]}: `history` lists them") from None
    if line.split()[:1] == ["redo"] or number == len(shell.history) - 1:
        raise Misused("that is the command redo itself")
    await shell.carry_out(line)


@command("version", "of this shell")
async def _version_of_shell(shell: Shell, typed: Typed) -> None:
    shell.say(f"ZooKeeper CLI version: zab {version_of('zab')}")


@command("help [command]", "this", most=1)
async def _help(shell: Shell, typed: Typed) -> None:
    if typed.words:
        known = COMMANDS.get(typed.words[0])
        if known is None:
            raise Misused(f"there is no command {typed.words[0]!r}")
        shell.say(known.usage, f"    {known.does}")
        return
    for name in sorted(COMMANDS, key=str.lower):
        shell.say(COMMANDS[name].usage, f"    {COMMANDS[name].does}")


def _version(typed: Typed) -> int:
    version = typed.number("-v")
    return ANY_VERSION if version is None else version
