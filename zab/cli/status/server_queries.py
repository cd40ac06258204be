"""Query the state of servers of zab and of ZooKeeper, at their admin ports or client ports.

HTTP is tried first. The admin port of zab reports all members; ZooKeeper's reports its own server. A client port reads
HTTP as a frame that is too long, and closes the connection; then four-letter words are tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import trio
from attrs import evolve, frozen

from zab.admin.admin_query import ask_word, check_form, http_get, json_object
from zab.cli.shell.formatting import client_addresses
from zab.client.remote_session import connect
from zab.core.addresses import with_port
from zab.core.errors import ZabError
from zab.runtime.admin.overview import read_overview
from zab.runtime.peer_handshake import described
from zab.service.health.ensemble_health import UNKNOWN, VETOING

_MODES: Final = frozenset({"leader", "follower", "observer", "standalone", "read-only"})
_MISSING: Final = "it is not in the running ensemble"
_NO_LEADER: Final = (
    "it does not serve: it has no leader, is still synchronizing, or vetoes the leader; zab's admin port shows which"
)
_VETOING: Final = "it vetoes its leader, and cannot see whether the others serve: query them, too"
SERVING: Final = frozenset({"leader", "follower", "observer", "standalone"})


@frozen
class ServerRow:
    """The known state of one server. `problem` is None if no problem of the server is known."""

    where: str
    id: int | None = None
    mode: str = "unreachable"
    zxid: int | None = None
    lag: int | None = None
    sessions: int | None = None
    connections: int | None = None
    requests_per_s: int | None = None
    latency_ms: float | None = None
    outstanding: int | None = None
    version: str = ""
    problem: str | None = None
    epoch: int | None = None
    """The epoch of its leader. Only the admin port of zab reports it."""

    @property
    def serving(self) -> bool:
        return self.mode in SERVING


@frozen
class Followers:
    """The numbers of voters and observers, and of the followers and observers in sync with their leader.

    A number is None if it is unknown. No leader reports the number of observers; `with_members` adds it.
    """

    voters: int | None = None
    synced_followers: int | None = None
    observers: int | None = None
    synced_observers: int | None = None

    @property
    def missing(self) -> int | None:
        """The number of members that do not follow the leader; None if the voters or the synced followers are unknown.

        Observers are left out if their number is unknown.
        """
        if self.voters is None or self.synced_followers is None:
            return None
        return max(0, self.voters - 1 - self.synced_followers) + max(
            0, (self.observers or 0) - (self.synced_observers or 0)
        )


@frozen
class Membership:
    """The members that a server's configuration names."""

    addresses: tuple[str, ...]
    """The client addresses in the configuration. A member may have none."""
    voters: int
    observers: int


@frozen
class ServerReport:
    """The answer at one address: rows of servers, and warnings."""

    rows: tuple[ServerRow, ...]
    warnings: tuple[str, ...] = ()
    by_words: bool = False
    """True if the report came from a client port, which reports one server only."""
    followers: Followers | None = None
    """The counts of followers and observers, from a leader that reports only its own row; None in all other reports."""

    def with_members(self, members: Membership) -> ServerReport:
        """Add the number of observers to a leader's counts, and the number of voters if it is unknown."""
        if self.followers is None:
            return self
        voters = self.followers.voters or members.voters
        return evolve(self, followers=evolve(self.followers, voters=voters, observers=members.observers))


async def ask(where: str, host: str, port: int, timeout_s: float) -> ServerReport:
    """Return a report in any case: an unreachable server is a row with a problem."""
    why = f"no answer in {timeout_s:g} s"
    with trio.move_on_after(timeout_s):
        try:
            return await _ask(where, host, port)
        except (OSError, trio.BrokenResourceError) as error:
            why = f"it cannot be reached: {described(error)}"
        except ValueError as error:
            why = f"no state of a server can be read there: {error}"
    return ServerReport((ServerRow(where, problem=why),))


async def _ask(where: str, host: str, port: int) -> ServerReport:
    status, body = await http_get(host, port, "/status.json")
    if status == 200:
        return _from_overview(read_overview(body), host)
    if status is not None:
        status, body = await http_get(host, port, "/commands/monitor")
        if status != 200:
            raise ValueError(f"HTTP status {status}: {body.decode('utf-8', 'replace').strip()[:500]}")
        monitor = json_object(body)
        _, stats = await http_get(host, port, "/commands/server_stats")
        check_form(found := json_object(stats), {"server_stats": Mapping})
        zxid = found["server_stats"].get("last_processed_zxid")
        _, configuration = await http_get(host, port, "/commands/configuration")
        client_port = json_object(configuration).get("client_port")
        if isinstance(client_port, int) and client_port > 0:  # so that `judge` recognizes the server at both ports
            where = with_port(host, client_port)
        row = _from_monitor(where, monitor, zxid if isinstance(zxid, int) else None)
        return ServerReport((row,), followers=_followers(row, monitor))
    return await _words(where, host, port)


async def membership(host: str, port: int, timeout_s: float) -> Membership | None:
    """Return the members that this server's `/zookeeper/config` names; None if it names none or cannot be read."""
    with trio.move_on_after(timeout_s):
        try:
            async with connect(with_port(host, port), read_only=True, wait_ms=max(1, int(timeout_s * 1000))) as session:
                data, _ = await session.config()
        except ZabError:
            return None
        return read_membership((data or b"").decode("utf-8", "replace"))
    return None


def read_membership(config: str) -> Membership | None:
    """Return the members that the text of a configuration names; None if it names none."""
    _, _, addresses = client_addresses(config).partition(" ")
    servers = [line.partition(";")[0] for line in config.splitlines() if line.startswith("server.")]
    observers = sum(server.endswith(":observer") for server in servers)
    if not servers:
        return None
    return Membership(tuple(filter(None, addresses.split(","))), len(servers) - observers, observers)


# -- our admin port --------------------------------------------------------------------------------------


def _from_overview(found: Mapping[str, Any], asked: str) -> ServerReport:
    rows = []
    # The row of a missing member has the warning as its problem, so the warning is not listed again.
    missing = {each["server"]: each["text"] for each in found["warnings"] if each["text"].startswith(_MISSING)}
    for each in found["members"]:
        port = each["client_port"] or each.get("quorum_port")
        host = each["host"] or asked
        where = with_port(host, port) if port else host
        if not each["connected"]:
            problem = None if each["mode"] == UNKNOWN else missing.get(each["id"], _MISSING)
            rows.append(ServerRow(where, each["id"], each["mode"], problem=problem))
            continue
        rows.append(
            ServerRow(
                where,
                each["id"],
                each["mode"],
                int(each["zxid"], 16),
                each["lag"],
                each["sessions"],
                each["connections"],
                each["requests_per_s"],
                each["latency_us"] / 1000,
                each["outstanding"],
                each["version"].partition(",")[0],
                None if each["serving"] else _VETOING if each["mode"] == VETOING else "it does not serve",
                each["epoch"],
            )
        )
    warnings = [
        f"server {each['server']}: {each['text']}" for each in found["warnings"] if each["text"] not in missing.values()
    ]
    return ServerReport(tuple(rows), tuple(warnings))


# -- ZooKeeper's admin server, and four-letter words -----------------------------------------------------


def _from_monitor(where: str, values: Mapping[str, Any], zxid: int | None) -> ServerRow:
    mode = str(values.get("server_state", "looking"))
    if values.get("error"):
        return ServerRow(where, mode="looking", problem=str(values["error"]))
    check_form(values, {"avg_latency": int | float})
    return ServerRow(
        where,
        None,
        mode,
        zxid,
        None,
        _whole(values.get("global_sessions")),
        _whole(values.get("num_alive_connections")),
        None,
        float(values["avg_latency"]),
        _whole(values.get("outstanding_requests")),
        str(values.get("version", "")).partition(",")[0],
        None if mode in SERVING else "it does not serve",
    )


def _followers(row: ServerRow, values: Mapping[str, Any], prefix: str = "") -> Followers | None:
    if row.mode != "leader":
        return None
    names = "synced_followers", "synced_observers"
    synced_followers, synced_observers = (_whole(values.get(prefix + name)) for name in names)
    return Followers(_whole(values.get(f"{prefix}quorum_size")), synced_followers, None, synced_observers)


async def _words(where: str, host: str, port: int) -> ServerReport:
    summary = await ask_word(host, port, "srvr")
    if "not currently serving" in summary:
        return ServerReport((ServerRow(where, mode="looking", problem=_NO_LEADER),), by_words=True)
    lines = dict(line.split(": ", 1) for line in summary.splitlines() if ": " in line)
    if lines.get("Mode") not in _MODES:
        raise ValueError(f"the reply to `srvr` is {summary[:60]!r}")
    check_form(lines, dict.fromkeys(("Zxid", "Latency min/avg/max"), str), "the reply to `srvr`")
    row = ServerRow(
        where,
        None,
        lines["Mode"],
        int(lines["Zxid"], 16),
        None,
        None,
        _whole(lines.get("Connections")),
        None,
        float(lines["Latency min/avg/max"].partition("/")[2].partition("/")[0]),
        _whole(lines.get("Outstanding")),
        lines.get("Zookeeper version", "").partition(",")[0],
        None if lines["Mode"] in SERVING else "it only serves reads",
    )
    more = dict(line.split("\t", 1) for line in (await ask_word(host, port, "mntr")).splitlines() if "\t" in line)
    conf = dict(line.split("=", 1) for line in (await ask_word(host, port, "conf")).splitlines() if "=" in line)
    sid = _whole(conf.get("serverId"))
    row = evolve(row, id=sid or None, sessions=_whole(more.get("zk_global_sessions")))
    return ServerReport((row,), by_words=True, followers=_followers(row, more, "zk_"))


def _whole(value: object) -> int | None:
    try:
        return int(str(value))
    except ValueError:
        return None
