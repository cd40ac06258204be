"""The pages about the store: its servers, their elections and latencies, and its nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from html import escape
from http import HTTPStatus
from typing import Any, Final

import trio

from zab.admin.markup import NONE, number, size, table, time_us
from zab.client.hosts import parse_hosts
from zab.console.admin_reports import AdminUrl, Reports, reports
from zab.console.charts import Points, chart
from zab.console.layout import facts, link, problems, section, shown
from zab.console.node_pages import NodePages
from zab.console.page import Handler, Page, Refusal, Visit
from zab.console.server_tables import details, election_table, head, member_table, warned
from zab.console.shared_value import SharedValue
from zab.console.store_link import StoreLink
from zab.core.addresses import with_port
from zab.core.ensemble import Server, parse_server
from zab.core.errors import ConfigError, OutcomeUnknown, ZabError
from zab.session.api import Session
from zab.session.session_errors import BadArguments, BadVersion, NoAuth, NodeExists, NoNode, NotEmpty

SAMPLE_MS: Final = 1_000
"""The distance between the values of a server's report."""
SHARED_S: Final = 1.0
"""How long visitors share one set of reports."""
CONFIG_S: Final = 4.0

_STATUSES: Final[Mapping[type[ZabError], HTTPStatus]] = {
    NoNode: HTTPStatus.NOT_FOUND,
    NoAuth: HTTPStatus.FORBIDDEN,
    BadVersion: HTTPStatus.CONFLICT,
    NodeExists: HTTPStatus.CONFLICT,
    NotEmpty: HTTPStatus.CONFLICT,
    BadArguments: HTTPStatus.BAD_REQUEST,
}


class StorePart:
    """Shows one store. `opens` returns a session of `hosts` as a block; `admin` are the admin ports to query.

    `related`: functions that return links, as HTML, from a node to pages of other parts.
    """

    menu: Sequence[tuple[str, str]] = (("Servers", "/servers"), ("Nodes", "/node"))

    def __init__(
        self,
        hosts: str,
        opens: Callable[[], AbstractAsyncContextManager[Session]],
        admin: Sequence[AdminUrl] = (),
        related: Iterable[Callable[[str], Iterable[str]]] = (),
    ) -> None:
        self._hosts = hosts
        self._admin = tuple(admin)
        self._link = StoreLink(opens)
        self._reports = SharedValue(lambda: reports(self._admin), SHARED_S)
        nodes = NodePages(self._link, parse_hosts(hosts).root, self._admin, tuple(related))
        self.pages: Mapping[str, Handler] = {
            "/servers": self._servers,
            "/server": self._server,
            "/node": nodes.node,
        }
        self.forms: Mapping[str, Handler] = {
            "/node/create": nodes.create,
            "/node/set": nodes.set,
            "/node/delete": nodes.delete,
        }

    async def run(self) -> None:
        await self._link.run()

    def explain(self, error: Exception, *, changing: bool = False) -> Refusal | None:
        if isinstance(error, OutcomeUnknown):
            why = f"{error}. The change may have been made: look at the node before you repeat it"
            return Refusal(HTTPStatus.GATEWAY_TIMEOUT, why)
        if isinstance(error, trio.TooSlowError):
            done = ". A change may have been made: look at the node before you repeat it" if changing else ""
            return Refusal(HTTPStatus.GATEWAY_TIMEOUT, f"the store did not answer in time{done}")
        if not isinstance(error, ZabError):
            return None
        status = next((_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES), None)
        hint = ": the ACL does not permit this to the identity of the console" if isinstance(error, NoAuth) else ""
        return Refusal(status or HTTPStatus.BAD_GATEWAY, f"the store: {error}{hint}")

    # -- pages -------------------------------------------------------------------------------------

    async def overview(self) -> str:
        found, (members, problem) = await self._state()
        best = found.best
        note = problems([*found.problems, *([problem] if problem else [])])
        more = f"<p>{link('servers', '/servers')}, {link('nodes', '/node', path='/')}</p>"
        if best is None:
            counted = number(len(members)) if members else NONE
            return facts("Store", [("servers", counted)], f"{note}{self._hint()}{more}")
        alive = [each for each in best["members"] if each["connected"]]
        pairs = [
            ("servers present", f"{len(alive)} of {len(best['members'])}"),
            ("leader", NONE if best["leader"] is None else link(str(best["leader"]), "/server", id=best["leader"])),
            ("epoch", str(best["epoch"])),
            ("zxid", f"<code>{shown(best['zxid'])}</code>"),
            ("requests/s", number(sum(each["requests_per_s"] for each in alive))),
            ("slowest mean latency", time_us(max((each["latency_us"] for each in alive), default=0))),
            ("sessions", number(best["store"]["sessions"])),
            ("nodes", number(best["store"]["znodes"])),
            ("data", size(best["store"]["data_bytes"])),
        ]
        return facts("Store", pairs, f"{note}{warned(best)}{more}")

    async def _servers(self, visit: Visit) -> Page:
        found, (members, problem) = await self._state()
        body = problems([*found.problems, *([problem] if problem else [])])
        best = found.best
        if best is None:
            return Page("Servers", body + self._hint() + _configured(members), refreshes=True)
        body += head(best) + warned(best)
        body += member_table(best, lambda sid: link(str(sid), "/server", id=sid))
        body += section("The last two minutes", f'<div class="cards">{_compared(found)}</div>')
        return Page("Servers", body + election_table(best) + _configured(members), refreshes=True)

    async def _server(self, visit: Visit) -> Page:
        visit.parameter("id")
        sid = visit.number("id", 0)
        found = await self._reports.get()
        own = found.of(sid)
        body = problems(found.problems)
        if own is None:
            members, problem = await self._members()
            known = {each.id for each in members}
            if found.best is not None:
                known |= {each["id"] for each in found.best["members"]}
            if known and sid not in known and problem is None:
                raise Refusal(HTTPStatus.NOT_FOUND, f"there is no server {sid} in the ensemble")
            why = f"No admin port of server {sid} has reported: name it with --admin http://HOST:PORT."
            return Page(f"Server {sid}", f"{body}<p>{why} {link('All servers', '/servers')}</p>", refreshes=True)
        at, view = own
        cards = "".join(chart(title, unit, _points(view, name), form) for name, title, unit, form in _BEATS)
        body += f'<p>{link("All servers", "/servers")}, <a href="{escape(str(at))}">its admin port</a></p>'
        body += warned(view) + section("The last two minutes", f'<div class="cards">{cards}</div>')
        return Page(f"Server {sid}", body + details(view), refreshes=True)

    # -- data --------------------------------------------------------------------------------------

    async def _state(self) -> tuple[Reports, tuple[list[Server], str | None]]:
        """Query the admin ports and the store at the same time."""
        found = Reports()

        async def ask_reports() -> None:
            nonlocal found
            found = await self._reports.get()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_reports)
            configured = await self._members()
        return found, configured

    async def _members(self) -> tuple[list[Server], str | None]:
        """Return the members that the ensemble's configuration names, and a problem if it cannot be read."""
        try:
            with trio.fail_after(CONFIG_S):
                text, _ = await (await self._link.session()).config()
            lines = (text or b"").decode("utf-8", "replace").splitlines()
            return [parse_server(line) for line in lines if line.startswith("server.")], None
        except trio.TooSlowError:
            return [], f"the store at {self._hosts} has not answered in {CONFIG_S:g} s"
        except (Refusal, ZabError, ConfigError) as error:
            return [], f"the configuration of the ensemble cannot be read: {error}"

    def _hint(self) -> str:
        """Return why states and latencies are missing, if no admin port was named."""
        if self._admin:
            return ""
        return "<p class=none>States, elections and latencies come from admin ports: name them with --admin.</p>"


_BEATS: Final[Sequence[tuple[str, str, str, Callable[[float], str]]]] = (
    ("requests", "Client requests", "requests/s", number),
    ("commits", "Commits", "transactions/s", number),
    ("latency_us", "Latency", "mean of each second", time_us),
    ("fsync_us", "fsync", "last of each second", time_us),
)


def _compared(found: Reports) -> str:
    """Return the latency of each server that has reported itself, and the commits of the first one."""
    cards = [
        chart(f"Latency, server {view['server']}", "mean of each second", _points(view, "latency_us"), time_us)
        for _, view in found.views
    ]
    if found.best is not None:
        cards.insert(0, chart("Commits", "transactions/s", _points(found.best, "commits"), number))
    return "".join(cards)


def _points(view: Mapping[str, Any], name: str) -> Points:
    values, now = view["beats"][name], view["now_ms"]
    return [(now - (len(values) - 1 - index) * SAMPLE_MS, value) for index, value in enumerate(values)]


def _configured(members: Sequence[Server]) -> str:
    if not members:
        return ""
    head_cells = ("Server", "Role", "Quorum", "Election", "Clients")
    rows = [
        (
            link(str(each.id), "/server", id=each.id),
            each.role.value,
            shown(with_port(each.host, each.quorum_port)),
            shown(with_port(each.host, each.election_port)),
            NONE if each.client_port is None else shown(with_port(each.client_host or each.host, each.client_port)),
        )
        for each in members
    ]
    return table("Configuration of the ensemble", head_cells, rows, "")
