"""The status of servers, from the admin ports that the console was started with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import trio
from attrs import field, frozen

from zab.admin.admin_query import http_get, json_object
from zab.core.addresses import with_port
from zab.core.errors import ConfigError
from zab.runtime.admin.overview import read_overview
from zab.runtime.peer_handshake import described

ASK_S: Final = 3.0
"""The time limit of one query."""


@frozen
class AdminUrl:
    """The address of an admin port, such as http://10.0.0.1:8080/."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"http://{with_port(self.host, self.port)}/"


def admin_url(text: str) -> AdminUrl:
    """Parse an address. Raise `ConfigError` if it is invalid."""
    try:
        parts = urlsplit(text if "//" in text else f"http://{text}")
        port = parts.port or 8080
    except ValueError:
        raise ConfigError(f"{text!r} is not a URL like http://HOST:8080") from None
    if parts.scheme != "http" or not parts.hostname or parts.path not in ("", "/") or parts.query:
        raise ConfigError(f"{text!r} is not the URL of an admin port: expected http://HOST:PORT")
    return AdminUrl(parts.hostname, port)


@frozen
class Reports:
    """views     the status of servers, as `/status.json` at their admin ports reports it
    problems  one sentence for each port that did not report
    """

    views: tuple[tuple[AdminUrl, Mapping[str, Any]], ...] = ()
    problems: tuple[str, ...] = field(default=())

    @property
    def best(self) -> Mapping[str, Any] | None:
        """The view of the leader, which gets the reports of all others first; without it, of any server that serves."""
        views = [view for _, view in self.views]
        views.sort(key=lambda view: (view["server"] != view["leader"], not view["serving"]))
        return views[0] if views else None

    def of(self, server: int) -> tuple[AdminUrl, Mapping[str, Any]] | None:
        return next(((at, view) for at, view in self.views if view["server"] == server), None)


async def reports(urls: Sequence[AdminUrl]) -> Reports:
    """Query all ports at the same time. A port that does not answer is a problem in the result, not an error."""
    views: dict[AdminUrl, Mapping[str, Any]] = {}
    problems: dict[AdminUrl, str] = {}

    async def ask(at: AdminUrl) -> None:
        try:
            view = await _status(at)
            views[at] = view
        except trio.TooSlowError:
            problems[at] = f"{at}: no answer in {ASK_S:g} s"
        except (OSError, trio.BrokenResourceError) as error:
            problems[at] = f"{at}: it cannot be reached: {described(error)}"
        except ValueError as error:
            problems[at] = f"{at}: no store's server answers there: {error}"

    async with trio.open_nursery() as nursery:
        for each in urls:
            nursery.start_soon(ask, each)
    return Reports(
        tuple((at, views[at]) for at in urls if at in views), tuple(problems[at] for at in urls if at in problems)
    )


async def watching_sessions(at: AdminUrl, path: str) -> list[int]:
    """Return the sessions that watch a path at one server. Raise `ValueError` if the server does not list them."""
    with trio.fail_after(ASK_S):
        _, body = await http_get(at.host, at.port, "/commands/watches_by_path")
    found = json_object(body)
    if found.get("error"):
        raise ValueError(str(found["error"]))
    return [int(each) for each in found["path_to_session_ids"].get(path, ())]


async def _status(at: AdminUrl) -> Mapping[str, Any]:
    with trio.fail_after(ASK_S):
        status, body = await http_get(at.host, at.port, "/status.json")
    if status != 200:
        raise ValueError(f"it replied with the status {status}")
    return read_overview(body)
