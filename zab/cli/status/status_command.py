"""`zab status`: the servers of an ensemble in a table or as JSON, with the health as exit status."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

import click
import trio
from attrs import asdict, evolve, frozen
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from zab.cli.status.server_queries import Membership, ServerReport, ServerRow, ask, membership
from zab.cli.status.server_software import software_of
from zab.service.health.ensemble_health import VETOING

HEALTHY, DEGRADED, DOWN = 0, 1, 2
WORDS: Final = {HEALTHY: "healthy", DEGRADED: "degraded", DOWN: "down"}
_STYLES: Final = {HEALTHY: "bold green", DEGRADED: "bold yellow", DOWN: "bold red"}
_SIGNS: Final = {HEALTHY: "●", DEGRADED: "▲", DOWN: "■"}
SCRIPT_WIDTH: Final = 200
SERVERS_MAX: Final = 64
DEFAULT_SERVER: Final = "127.0.0.1:2181"
LEFT_OUT_FIRST: Final = ("version", "latency", "req/s", "clients", "sessions", "behind")
"""The columns that are left out on a narrow terminal, in this order."""
GAP: Final = 2
"""The number of blanks between two columns."""
WAIT_EVERY_S: Final = 0.5


@frozen
class Health:
    rows: tuple[ServerRow, ...]
    problems: tuple[str, ...]
    status: int


def judge(reports: Sequence[ServerReport], newest: int | None = None) -> Health:
    """Merge reports into one row per server, and name the problems.

    A row without a lag gets its distance from `newest`, or from the newest zxid of these reports if `newest` is None.
    """
    best: dict[object, ServerRow] = {}
    by_words: dict[object, ServerRow] = {}
    twice = []
    for each in reports:
        for row in each.rows:
            key: object = row.id or row.where
            other = by_words.setdefault(key, row) if each.by_words else row
            if row.id is not None and _port(other) != _port(row):
                key = row.where
                twice.append(
                    f"{other.where} and {row.where} both report the id {row.id}: they belong to different ensembles, "
                    "or one of them has a wrong myid"
                )
            if key not in best or (best[key].problem is not None and row.problem is None):
                best[key] = row
    identified = {row.where for row in best.values() if row.id is not None}
    found = [row for row in best.values() if row.id is not None or row.problem or row.where not in identified]
    rows = _with_lags(sorted(found, key=lambda row: (row.id is None, row.id or 0, row.where)), newest)
    problems = [f"{_named(row)}: {row.problem}" for row in rows if row.problem is not None]
    problems += dict.fromkeys(text for each in reports for text in each.warnings)
    problems += filter(None, (_unnamed(each, rows) for each in reports))
    problems += twice
    leaders = [row for row in rows if row.mode in ("leader", "standalone")]
    if len([row for row in leaders if row.mode == "leader"]) > 1:
        problems.append(
            "more than one server reports that it leads: they belong to different ensembles, or one has not learned of "
            "its successor yet"
        )
    elif not leaders and any(row.serving for row in rows):
        only = len(reports) == 1 and reports[0].by_words
        problems.append(
            "this server does not lead, and the client ports of the others are unknown: name the others, too, or an "
            "admin port"
            if only
            else "none of the servers that answered leads: the leader may be one of those that did not"
            if any(row.mode == "unreachable" for row in rows)
            else "none of these servers leads: name all servers of the ensemble to see which one does"
        )
    # One standalone server may have been asked at two addresses: then both rows have its mode, zxid and client port.
    if len({(row.mode, row.zxid, _port(row)) for row in rows if row.serving}) > 1:
        problems += [
            f"{row.where}: it is standalone: the others belong to a different ensemble and have a different history"
            for row in leaders
            if row.mode == "standalone"
        ]
    if not any(row.serving for row in rows):
        return Health(rows, tuple(problems), DOWN)
    return Health(rows, tuple(problems), DEGRADED if problems else HEALTHY)


def _unnamed(report: ServerReport, rows: Sequence[ServerRow]) -> str | None:
    """Return a problem if members that were not asked do not follow the leader, or if that is not known.

    Members that were asked are judged by their own rows, so only the others are counted.
    """
    followers = report.followers
    if followers is None:
        return None
    where, remedy = _named(report.rows[0]), "name all servers, or an admin port of zab"
    if followers.voters is None:
        unknown = f"{where}: it leads, but its membership cannot be read, so a missing server is not noticed; {remedy}"
        return unknown if len(rows) == 1 else None
    members = followers.voters + (followers.observers or 0)
    if len(rows) >= members:
        return None
    missing = followers.missing
    if missing is None:
        return f"{where}: it does not report how many of {members} servers follow (`mntr` is not allowed); {remedy}"
    missing -= sum(not row.serving for row in rows)
    if missing <= 0:
        return None
    do = "does" if missing == 1 else "do"
    return f"{where}: {missing} of {members} servers {do} not follow this leader; {remedy}, to see which"


def _named(row: ServerRow) -> str:
    return row.where if row.id is None else f"server {row.id} at {row.where}"


def _port(row: ServerRow) -> str:
    return row.where.rpartition(":")[2]


def _newest(rows: Iterable[ServerRow]) -> int:
    return max((row.zxid for row in rows if row.zxid is not None), default=0)


def _with_lags(rows: Sequence[ServerRow], newest: int | None) -> tuple[ServerRow, ...]:
    """Compute the lag of rows without one, such as those from client ports: their distance from `newest`.

    A row of another epoch than `newest` gets no lag, because zxids of different epochs cannot be subtracted.
    """
    newest = _newest(rows) if newest is None else newest
    return tuple(
        evolve(row, lag=max(0, newest - row.zxid))
        if row.lag is None and row.zxid is not None and row.zxid >> 32 == newest >> 32
        else row
        for row in rows
    )


async def look(servers: Sequence[tuple[str, str, int]], timeout_s: float) -> Health:
    reports: dict[str, ServerReport] = {}

    async def one(where: str, host: str, port: int) -> None:
        reports[where] = await ask(where, host, port, timeout_s)

    async def all_of(servers: Sequence[tuple[str, str, int]]) -> None:
        async with trio.open_nursery() as nursery:
            for server in servers:
                nursery.start_soon(one, *server)

    await all_of(servers)
    memberships: dict[str, Membership] = {}
    for where, host, port in servers:
        report = reports[where]
        row, followers = report.rows[0], report.followers
        is_alone = len(servers) == 1 and row.serving and row.mode != "standalone"
        is_unknown = followers is not None and followers.voters is None
        if report.by_words and (is_alone or is_unknown) and (found := await membership(host, port, timeout_s)):
            memberships[where] = found
            if is_alone:
                await all_of([each for each in addresses(found.addresses) if each[1:] != (host, port)])
    # The ensemble may have committed between two replies. A server is behind only if it lacks the newest zxid when
    # it is asked again; any other lag is only the time between two replies.
    newest = _newest(row for each in reports.values() for row in each.rows)
    await all_of(
        [
            server
            for server in addresses(list(reports))
            if any(row.lag is None and row.zxid is not None and row.zxid < newest for row in reports[server[0]].rows)
        ]
    )
    for where, found in memberships.items():
        reports[where] = reports[where].with_members(found)
    return judge(list(reports.values()), newest)


# -- the table -------------------------------------------------------------------------------------------


def as_json(health: Health) -> str:
    rows = [
        {**asdict(row), "zxid": None if row.zxid is None else f"{row.zxid:#x}", "software": _software(row)}
        for row in health.rows
    ]
    values: dict[str, Any] = {"health": WORDS[health.status], "servers": rows, "problems": list(health.problems)}
    return json.dumps(values, indent=2)


def as_table(health: Health, width: int = SCRIPT_WIDTH) -> Group:
    leader = next((row for row in health.rows if row.mode in ("leader", "standalone")), None)
    text = Text(f"{_SIGNS[health.status]} {WORDS[health.status]}", style=_STYLES[health.status])
    if leader is not None:
        who = leader.where if leader.id is None else f"server {leader.id}"
        what = "serves alone" if leader.mode == "standalone" else "leads"
        epoch = "" if leader.epoch is None else f", epoch {leader.epoch}"
        text.append(f"   {who} {what}{epoch}", style="default")
    elif any(row.mode == VETOING for row in health.rows) and not any(row.serving for row in health.rows):
        text.append("   as seen by a server that stays out of the ensemble", style="default")
    names, lines = _fitting([_cells(row) for row in health.rows], width)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in names:
        table.add_column(name, no_wrap=True, overflow="fold")
    for row, line in zip(health.rows, lines, strict=True):
        style = "red" if not row.serving else "bold" if row.mode in ("leader", "standalone") else ""
        table.add_row(*line, style=style)
    problems = [Text(f"▲ {problem}", style="yellow") for problem in health.problems]
    return Group(text, table, *problems)


def _cells(row: ServerRow) -> dict[str, str]:
    """Return the columns of one server, by their headings."""
    return {
        "": "★" if row.mode in ("leader", "standalone") else "●" if row.serving else "✕",
        "server": _shown(row.id),
        "at": row.where,
        "mode": row.mode,
        "zxid": "-" if row.zxid is None else f"{row.zxid:#x}",
        "behind": _shown(row.lag),
        "sessions": _shown(row.sessions),
        "clients": _shown(row.connections),
        "req/s": _shown(row.requests_per_s),
        "latency": "-" if row.latency_ms is None else f"{row.latency_ms:.1f} ms",
        "version": _software(row) or "-",
    }


def _software(row: ServerRow) -> str:
    """Return the program and its release, like `ZooKeeper 3.9.5`; the reported version if it has an unknown form."""
    return str(software_of(row.version) or row.version)


def _fitting(rows: Sequence[dict[str, str]], width: int) -> tuple[list[str], list[list[str]]]:
    """Return the headings and lines. Leave out columns of LEFT_OUT_FIRST until the rest fits; cut no value.

    The column with the software is the last to go in an ensemble with servers of zab and of ZooKeeper.
    """
    names = list(rows[0]) if rows else []
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    first, *others = LEFT_OUT_FIRST
    is_mixed = len({row[first].partition(" ")[0] for row in rows} - {"-"}) > 1
    for name in [*others, first] if is_mixed else LEFT_OUT_FIRST:
        if sum(widths[each] + GAP for each in names) - GAP <= width:
            break
        names.remove(name)
    return names, [[row[name] for name in names] for row in rows]


def _shown(value: int | None) -> str:
    return "-" if value is None else str(value)


# -- the command -----------------------------------------------------------------------------------------


def addresses(values: Sequence[str]) -> list[tuple[str, str, int]]:
    """Return name, host and port of each server; a value may hold several servers, with commas between them."""
    found = []
    for where in (part.strip() for value in values for part in value.split(",")):
        if "://" in where:
            raise click.UsageError(f"{where!r}: give HOST:PORT alone, without http:// and path, also for an admin port")
        host, colon, port = where.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise click.UsageError(
                f"{where!r} is not HOST:PORT, as in 127.0.0.1:2181; a port is a number from 1 to 65535"
            )
        found.append((where, host.strip("[]"), int(port)))
    if len(found) > SERVERS_MAX:
        raise click.UsageError(f"{len(found)} servers; at most {SERVERS_MAX} are asked at one time")
    return list(dict.fromkeys(found))


@click.command()
@click.argument("places", nargs=-1, metavar="[HOST:PORT[,...]]...")
@click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="HOST:PORT",
    help="The same as an argument: an admin port or a client port, of zab or of ZooKeeper. May be repeated.  "
    f"[default: {DEFAULT_SERVER}]",
)
@click.option("--json", "wants_json", is_flag=True, help="Print JSON, for programs.")
@click.option("--watch", is_flag=True, help="Refresh until Ctrl-C.")
@click.option(
    "--wait",
    "wanted",
    type=click.Choice([WORDS[HEALTHY], WORDS[DEGRADED]]),
    help="Wait until the ensemble is healthy or, with `degraded`, until it serves.",
)
@click.option(
    "--within-s",
    type=click.FloatRange(0),
    default=300.0,
    show_default=True,
    help="The longest time that --wait waits.",
)
@click.option(
    "--every-s", type=click.FloatRange(0.2, 3600), default=2.0, show_default=True, help="The pause of --watch."
)
@click.option(
    "--timeout-s",
    type=click.FloatRange(0.05, 600),
    default=5.0,
    show_default=True,
    help="How long to wait for a server's reply.",
)
def status(
    places: tuple[str, ...],
    servers: tuple[str, ...],
    wants_json: bool,
    watch: bool,
    wanted: str | None,
    within_s: float,
    every_s: float,
    timeout_s: float,
) -> None:
    """Show which server leads, how far the others are behind, and what is wrong.

    An admin port of zab reports all members. From a single client port, of zab or of ZooKeeper, the command finds the
    other members if the membership names their client ports, as in server.1=...;2181. Otherwise, name all servers. Name
    several servers in any case to get an answer even if one of them is down. The column `version` shows whether a
    server is zab or ZooKeeper.

    \b
    zab status 10.0.0.1:2181,10.0.0.2:2181,10.0.0.3:2181
    zab status 10.0.0.1:8080 --wait healthy

    \b
    Exit status:  0  healthy
                  1  degraded: it serves, but a server is missing or something is wrong
                  2  down: no server serves, or none answers; also wrong usage
                 74  stdout cannot be written: the health is unknown to the reader
                130  interrupted by Ctrl-C
    """
    if wanted is not None and watch:
        raise click.UsageError("--wait ends, and --watch does not: give one of them")
    where = addresses((*places, *servers) or (DEFAULT_SERVER,))
    try:
        if wanted is not None:
            trio.run(_wait, where, wanted, within_s, timeout_s)
        found = trio.run(_watch if watch else _once, where, wants_json, every_s, timeout_s)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(found)


def _console() -> Console:
    # Without a terminal the width is fixed: a script may split the lines into columns.
    return Console(width=None if sys.stdout.isatty() else SCRIPT_WIDTH)


async def _once(servers: list[tuple[str, str, int]], wants_json: bool, every_s: float, timeout_s: float) -> int:
    health = await look(servers, timeout_s)
    if wants_json:
        click.echo(as_json(health))
    else:
        console = _console()
        console.print(as_table(health, console.width))
    return health.status


async def _wait(servers: list[tuple[str, str, int]], wanted: str, within_s: float, timeout_s: float) -> None:
    """Wait until the servers are in the wanted state, or a better one, but at most `within_s`.

    On a terminal, show the status table meanwhile.
    """
    enough = next(status for status, word in WORDS.items() if word == wanted)
    console = Console(stderr=True)
    with trio.move_on_after(within_s), Live(console=console, auto_refresh=False, transient=True) as live:
        while (health := await look(servers, timeout_s)).status > enough:
            if console.is_terminal:
                live.update(as_table(health, console.width), refresh=True)
            await trio.sleep(WAIT_EVERY_S)


async def _watch(servers: list[tuple[str, str, int]], wants_json: bool, every_s: float, timeout_s: float) -> int:
    """Refresh until cancelled. As JSON, print one line each time."""
    if wants_json:
        while True:
            health = await look(servers, timeout_s)
            click.echo(json.dumps(json.loads(as_json(health))))
            await trio.sleep(every_s)
    console = _console()
    with Live(console=console, auto_refresh=False, screen=False) as live:
        while True:
            live.update(as_table(await look(servers, timeout_s), console.width), refresh=True)
            await trio.sleep(every_s)
