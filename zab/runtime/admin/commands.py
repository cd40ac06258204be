"""The commands of ZooKeeper's admin server, under all their names, with the keys and the types of ZooKeeper's answers.

Tools read these answers by key, so no key is left out. A key without a value here has a value that ZooKeeper uses for a
missing one, such as -1, 0 or null. `give_up_history` is our own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeAlias

from attrs import field, frozen

from zab.runtime.admin import ensemble_commands, environment_commands, statistics_commands
from zab.runtime.admin.store_metrics import monitor
from zab.service.admin_access import NOT_SERVING

if TYPE_CHECKING:
    from zab.runtime.store_server.server_runtime import ServerRuntime

Values: TypeAlias = Mapping[str, object]


@frozen
class Outcome:
    command: str
    values: Values = field(factory=dict)
    error: str | None = None
    status: HTTPStatus = HTTPStatus.OK
    headers: tuple[tuple[str, str], ...] = ()


@frozen
class AdminCommand:
    """One command.

    names     all its names; the list of commands shows the first
    says      the result or effect, for the docs
    always    the command is answered even if the server does not serve
    changes   the command changes state and takes a POST, because any web page can make a browser send a GET
    """

    names: tuple[str, ...]
    answer: Callable[[ServerRuntime], Values]
    says: str
    always: bool = False
    changes: bool = False


def _nothing(server: ServerRuntime) -> Values:
    return {}


def _get_trace_mask(server: ServerRuntime) -> Values:
    return {"tracemask": server.trace_mask}


_ALL: Final = (
    AdminCommand(
        ("connection_stat_reset", "crst"),
        statistics_commands.reset_connections,
        "set the packet counters of all open connections to 0",
        changes=True,
    ),
    AdminCommand(
        ("configuration", "conf", "config"),
        ensemble_commands.configuration,
        "client port, directories, tick time, limits of session timeouts and of connections per host, server id",
    ),
    AdminCommand(("connections", "cons"), statistics_commands.connections, "the clients' connections"),
    AdminCommand(
        ("dirs",), statistics_commands.dirs, "the sizes of the data directory and of the log's directory, in bytes"
    ),
    AdminCommand(
        ("dump",),
        statistics_commands.dump,
        "expiry times of sessions (only at the leader), and the ephemeral nodes of each session",
    ),
    AdminCommand(
        ("environment", "env", "envi"),
        environment_commands.environment,
        "host, operating system, memory and versions",
        always=True,
    ),
    AdminCommand(("get_trace_mask", "gtmk"), _get_trace_mask, "the mask that `set_trace_mask` has stored", always=True),
    AdminCommand(("hash",), statistics_commands.hashes, "the last digests of the tree, for comparison between servers"),
    AdminCommand(
        ("initial_configuration", "icfg"),
        ensemble_commands.initial_configuration,
        "always null, because a configuration may contain passwords",
    ),
    AdminCommand(
        ("is_read_only", "isro"),
        ensemble_commands.is_read_only,
        "whether the server has no leader and serves reads only",
    ),
    AdminCommand(
        ("last_snapshot", "lsnp"),
        statistics_commands.last_snapshot,
        "zxid and time of the server's last snapshot; the time is 0 if it was taken before the server's start",
    ),
    AdminCommand(
        ("leader", "lead"), ensemble_commands.leader, "whether the server leads, and the leader's id and host"
    ),
    AdminCommand(("monitor", "mntr"), monitor, "[the metrics](metrics.md)", always=True),
    AdminCommand(
        ("observer_connection_stat_reset", "orst"),
        _nothing,
        "no effect: an observer's connection has no counters",
        changes=True,
    ),
    AdminCommand(("observers", "obsr"), ensemble_commands.observers, "the synchronized observers of this leader"),
    AdminCommand(("ruok",), _nothing, "an error if the server does not serve, else nothing"),
    AdminCommand(("server_stats", "srvr"), statistics_commands.server_stats, "version, counters and latency"),
    AdminCommand(
        ("stat_reset", "srst"),
        statistics_commands.reset,
        "set the latency of the server, and the packet counters of closed connections, to 0",
        changes=True,
    ),
    AdminCommand(("stats", "stat"), statistics_commands.stats, "`server_stats`, and a few values of each connection"),
    AdminCommand(
        ("system_properties", "sysp"),
        environment_commands.system_properties,
        "properties of the operating system and Python; no zab settings",
        always=True,
    ),
    AdminCommand(("voting_view",), ensemble_commands.voting_view, "the voters with their addresses"),
    AdminCommand(
        ("watch_summary", "wchs"),
        statistics_commands.watch_summary,
        "the numbers of watches, of watched paths and of connections with watches",
    ),
    AdminCommand(("watches", "wchc"), statistics_commands.watches, "the watched paths, by session"),
    AdminCommand(
        ("watches_by_path", "wchp"), statistics_commands.watches_by_path, "the sessions with watches, by path"
    ),
    AdminCommand(
        ("zabstate",), ensemble_commands.zabstate, "this server's addresses, last zxid and phase of the protocol"
    ),
)
_BY_NAME: Final = {name: command for command in _ALL for name in command.names}
SET_TRACE_MASK: Final = ("set_trace_mask", "stmk")
SNAPSHOT: Final = ("snapshot", "snap")
RESTORE: Final = ("restore", "rest")
GIVE_UP_HISTORY: Final = ("give_up_history",)
_OTHERS: Final = (SET_TRACE_MASK, SNAPSHOT, RESTORE, GIVE_UP_HISTORY)
NAMES: Final = tuple(sorted(names[0] for names in (*(each.names for each in _ALL), *_OTHERS)))
_MORE: Final = (
    (SET_TRACE_MASK, "store the number `traceMask`; no other effect", True, True),
    (SNAPSHOT, "take a snapshot, or stream one; see below", False, False),
    (RESTORE, "refused; see below", True, True),
    (
        GIVE_UP_HISTORY,
        "give up committed history that the leader lacks; see below; not a command of ZooKeeper's",
        True,
        True,
    ),
)
ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    names[0]: names[1:] for names in (*(each.names for each in _ALL), *_OTHERS)
}

CHANGING: Final = frozenset(
    {*SET_TRACE_MASK, *GIVE_UP_HISTORY, *(name for each in _ALL if each.changes for name in each.names)}
)
"""The names of all commands that take a POST, without `restore`, which is refused with any method."""


def run(name: str, parameters: Mapping[str, str], server: ServerRuntime) -> Outcome:
    """Carry out a command, other than `snapshot`, `restore` and `give_up_history`.

    The outcome has an error if the command or its argument is invalid, or if the command is not answered `always` and
    this server serves neither with a leader nor in read-only mode.
    """
    if name in SET_TRACE_MASK:
        return _set_trace_mask(parameters, server)
    command = _BY_NAME.get(name)
    if command is None:
        return Outcome(name, error=f"Unknown command: {name}")
    serves = server.role.serving
    if not command.always and not serves and not server.clients.leader.read_only:
        return Outcome(command.names[0], error=NOT_SERVING)
    return Outcome(command.names[0], command.answer(server))


def _set_trace_mask(parameters: Mapping[str, str], server: ServerRuntime) -> Outcome:
    text = parameters.get("traceMask")
    if text is None:
        return Outcome(SET_TRACE_MASK[0], error="setTraceMask requires long traceMask argument")
    try:
        mask = int(text)
        if not -(1 << 63) <= mask < 1 << 63:
            raise ValueError("too many bits")
    except ValueError:
        return Outcome(SET_TRACE_MASK[0], error=f"setTraceMask requires long traceMask argument, got {text[:100]}")
    server.trace_mask = mask
    return Outcome(SET_TRACE_MASK[0], {"tracemask": mask})


def table() -> str:
    """Return the table of commands for the docs."""
    all_ = sorted([*((each.names, each.says, each.always, each.changes) for each in _ALL), *_MORE])
    rows = [
        f"| `{names[0]}`{'*' if always else ''} | {', '.join(f'`{name}`' for name in names[1:])} "
        f"| {'POST' if changes else 'GET'} | {says} |"
        for names, says, always, changes in all_
    ]
    return "\n".join(["| Command | Alias | Method | Result or effect |", "|---|---|---|---|", *rows])
