"""The commands of ZooKeeper's admin server, under all their names, with the names and kinds of values that it gives.

Tools read these answers by key, so a key is never left out: where there is nothing behind it here, its value
says so in the original's own way (-1, 0, null).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeAlias

from attrs import field, frozen

from zab.runtime.admin import ensemble, environment, statistics
from zab.runtime.admin.metrics import monitor

if TYPE_CHECKING:
    from zab.runtime.coordination.server import StoreServer

Values: TypeAlias = Mapping[str, object]
NOT_SERVING: Final = "This ZooKeeper instance is not currently serving requests"


@frozen
class Outcome:
    command: str
    values: Values = field(factory=dict)
    error: str | None = None
    status: HTTPStatus = HTTPStatus.OK
    headers: tuple[tuple[str, str], ...] = ()


@frozen
class Command:
    """`names`: the first is the one that it is listed by. `always`: also while there is no leader."""

    names: tuple[str, ...]
    answer: Callable[[StoreServer], Values]
    always: bool = False


def _nothing(server: StoreServer) -> Values:
    return {}


def _get_trace_mask(server: StoreServer) -> Values:
    return {"tracemask": server.trace_mask}


_ALL: Final = (
    Command(("connection_stat_reset", "crst"), statistics.reset_connections),
    Command(("configuration", "conf", "config"), ensemble.configuration),
    Command(("connections", "cons"), statistics.connections),
    Command(("dirs",), statistics.dirs),
    Command(("dump",), statistics.dump),
    Command(("environment", "env", "envi"), environment.environment, always=True),
    Command(("get_trace_mask", "gtmk"), _get_trace_mask, always=True),
    Command(("hash",), statistics.hashes),
    Command(("initial_configuration", "icfg"), ensemble.initial_configuration),
    Command(("is_read_only", "isro"), ensemble.is_read_only),
    Command(("last_snapshot", "lsnp"), statistics.last_snapshot),
    Command(("leader", "lead"), ensemble.leader),
    Command(("monitor", "mntr"), monitor, always=True),
    Command(("observer_connection_stat_reset", "orst"), _nothing),
    Command(("observers", "obsr"), ensemble.observers),
    Command(("ruok",), _nothing),
    Command(("server_stats", "srvr"), statistics.server_stats),
    Command(("stat_reset", "srst"), statistics.reset),
    Command(("stats", "stat"), statistics.stats),
    Command(("system_properties", "sysp"), environment.system_properties, always=True),
    Command(("voting_view",), ensemble.voting_view),
    Command(("watch_summary", "wchs"), statistics.watch_summary),
    Command(("watches", "wchc"), statistics.watches),
    Command(("watches_by_path", "wchp"), statistics.watches_by_path),
    Command(("zabstate",), ensemble.zabstate),
)
_BY_NAME: Final = {name: command for command in _ALL for name in command.names}
SET_TRACE_MASK: Final = ("set_trace_mask", "stmk")
SNAPSHOT: Final = ("snapshot", "snap")
RESTORE: Final = ("restore", "rest")
NAMES: Final = tuple(sorted([*(each.names[0] for each in _ALL), SET_TRACE_MASK[0], SNAPSHOT[0], RESTORE[0]]))
ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    names[0]: names[1:] for names in (*(each.names for each in _ALL), SET_TRACE_MASK, SNAPSHOT, RESTORE)
}


def run(name: str, parameters: Mapping[str, str], server: StoreServer) -> Outcome:
    """All but snapshot and restore, which are more than an answer."""
    if name in SET_TRACE_MASK:
        return _set_trace_mask(parameters, server)
    command = _BY_NAME.get(name)
    if command is None:
        return Outcome(name, error=f"Unknown command: {name}")
    serves = server.role is not None and server.role.serving
    if not command.always and not serves and not server.read_only:
        return Outcome(command.names[0], error=NOT_SERVING)
    return Outcome(command.names[0], command.answer(server))


def _set_trace_mask(parameters: Mapping[str, str], server: StoreServer) -> Outcome:
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
