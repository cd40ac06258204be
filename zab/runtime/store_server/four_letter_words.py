"""Four-letter words: commands in plain text at the client port, for people, probes and monitoring tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from zab.runtime.admin.report import VERSION
from zab.runtime.admin.rows import Rows
from zab.runtime.admin.statistics_commands import watched
from zab.runtime.admin.store_metrics import monitor
from zab.runtime.store_server import four_letter_listings
from zab.runtime.store_server.four_letter_listings import hexadecimal
from zab.wire.client.client_frames import Command

if TYPE_CHECKING:
    from zab.runtime.store_server.server_runtime import ServerRuntime

NOT_SERVING: Final = "This ZooKeeper instance is not currently serving requests\n"
_ALWAYS: Final = frozenset({"ruok", "isro", "envi", "gtmk", "stmk"})


def answer(server: ServerRuntime, command: Command) -> bytes:
    """Return the answer to a four-letter word, in ZooKeeper's format: a refusal if the settings do not allow the word.

    If this server has no leader and is not in read-only mode, it answers only the words in `_ALWAYS`; to other allowed
    words it replies with `NOT_SERVING`.
    """
    word = command.word
    handler = _HANDLERS.get(word)
    allowed = word in server.settings.words or (word == "isro" and server.settings.read_only_mode_enabled)
    if not allowed or handler is None:
        return f"{word} is not executed because it is not in the whitelist.\n".encode()
    if not _serves(server) and word not in _ALWAYS:
        return NOT_SERVING.encode()
    if word == "stmk":
        server.trace_mask = int.from_bytes(command.argument, "big", signed=True)
    return handler(server).encode()


def _serves(server: ServerRuntime) -> bool:
    return server.clients.leader.read_only or _has_leader(server)


def _has_leader(server: ServerRuntime) -> bool:
    return server.role.serving


def _isro(server: ServerRuntime) -> str:
    return "rw" if _has_leader(server) else "ro" if server.clients.leader.read_only else "null"


def _summary(server: ServerRuntime) -> str:
    received, sent = server.clients.traffic()
    low, mean, high = server.clients.totals.latency.milliseconds
    lines = [
        f"Latency min/avg/max: {low}/{round(mean, 4)}/{high}",
        f"Received: {received}",
        f"Sent: {sent}",
        f"Connections: {len(server.clients.connections)}",
        f"Outstanding: {server.clients.totals.open_requests}",
        f"Zxid: {server.machine.zxid:#x}",
        f"Mode: {server.mode}",
        f"Node count: {len(server.machine.tree)}",
    ]
    return "\n".join(lines) + "\n" + four_letter_listings.proposals(server)


def _srvr(server: ServerRuntime) -> str:
    return _head(server) + _summary(server)


def _head(server: ServerRuntime) -> str:
    only = "READ-ONLY mode; serving only read-only clients\n" if server.clients.leader.read_only else ""
    return f"Zookeeper version: {VERSION}\n{only}"


def _stat(server: ServerRuntime) -> str:
    rows = Rows(server.settings.listed_max)
    clients = "".join(
        f" /{each.peer}[1](queued={each.queued},recved={each.received},sent={each.sent})\n"
        for each in rows.take(server.clients.connections)
    )
    return f"{_head(server)}Clients:\n{clients}{rows.line}\n{_summary(server)}"


def _mntr(server: ServerRuntime) -> str:
    return "".join(f"zk_{key}\t{value}\n" for key, value in monitor(server).items())


def _wchs(server: ServerRuntime) -> str:
    watches, paths, connections = server.machine.watches.counts
    return f"{connections} connections watching {paths} paths\nTotal watches:{watches}\n"


def _wchc(server: ServerRuntime) -> str:
    """List the watched paths by session."""
    rows = Rows(server.settings.listed_max)
    lines: list[str] = []
    last: int | None = None
    for session, path in rows.take(watched(server)):
        if session != last:
            lines.append(hexadecimal(session))
            last = session
        lines.append(f"\t{path}")
    return "\n".join(lines) + "\n" + rows.line


def _wchp(server: ServerRuntime) -> str:
    """List the watching sessions by path."""
    rows = Rows(server.settings.listed_max)
    watchers: dict[str, list[str]] = {}
    for session, path in rows.take(watched(server)):
        watchers.setdefault(path, []).append(hexadecimal(session))
    return "".join(f"{path}\n" + "".join(f"\t{one}\n" for one in of) for path, of in watchers.items()) + rows.line


def _crst(server: ServerRuntime) -> str:
    for each in server.clients.connections:
        each.received = each.sent = 0
    return "Connection stats reset.\n"


def _srst(server: ServerRuntime) -> str:
    server.clients.reset_statistics()
    return "Server stats reset.\n"


def _hash(server: ServerRuntime) -> str:
    return "".join(f"{zxid:x}: {digest}\n" for zxid, digest in server.machine.digest.history)


_HANDLERS: Final[Mapping[str, Callable[[ServerRuntime], str]]] = {
    "conf": four_letter_listings.conf,
    "cons": four_letter_listings.cons,
    "crst": _crst,
    "dirs": four_letter_listings.dirs,
    "dump": four_letter_listings.dump,
    "envi": four_letter_listings.envi,
    "gtmk": lambda server: str(server.trace_mask),
    "hash": _hash,
    "isro": _isro,
    "mntr": _mntr,
    "ruok": lambda server: "imok",
    "srst": _srst,
    "srvr": _srvr,
    "stat": _stat,
    "stmk": lambda server: str(server.trace_mask),
    "wchc": _wchc,
    "wchp": _wchp,
    "wchs": _wchs,
}
