"""Refuse the requests that a web page of another site can make an operator's browser send.

A browser can reach ports that its user can reach and a stranger cannot. A page of any site may send requests to such a
port. If the DNS name of the site is made to point to the port's address (DNS rebinding), the page may read the replies,
too. Three rules prevent this:

- `Host`, if present, must be an address, `localhost`, or a name of this server or of the settings. Rebinding needs a
  name that the attacker chose.
- A POST must not come from another origin. A request with another method either changes nothing or needs credentials.
- A request that the browser marks as one from another origin (`Sec-Fetch-Site`) is refused unless it is a GET that
  opens a document in a window, which the user sees. So no page can cause costly replies unnoticed.

Programs other than browsers send neither `Origin` nor `Sec-Fetch-Site`, and their user chose the `Host`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Final

import trio

from zab.admin.http import AdminRequest, HttpError
from zab.core.addresses import address_of

ANY: Final = "*"
SETTINGS: Final = (
    "the setting for allowed hosts: admin.allowedHosts in a zoo.cfg, zab.operators.hosts in a server.properties, "
    "`hosts` of AdminSettings"
)


class BrowserGuard:
    """The guard of one port.

    `allowed`: host names that the settings permit, or `*` for all; `own` returns this server's own names. `setting`
    is the name of the setting for messages.
    """

    def __init__(
        self, allowed: Iterable[str], own: Callable[[], Iterable[str | None]] = tuple, setting: str = SETTINGS
    ) -> None:
        self._allowed = frozenset(map(str.lower, allowed))
        self._own = own
        self._setting = setting
        self._machine: frozenset[str] | None = None
        self._lookup = trio.Lock()

    async def check(self, request: AdminRequest) -> None:
        """Raise `HttpError` if the request breaks one of the three rules of this module."""
        await self._check_host(request)
        headers = request.headers
        site = headers.get("sec-fetch-site", "none")
        followed = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        navigates = followed and request.method != "POST"
        if site not in ("none", "same-origin") and not navigates:
            raise HttpError(HTTPStatus.FORBIDDEN, "a web page of another origin sent this request")
        origin = headers.get("origin")
        if request.method == "POST" and origin is not None and origin.partition("://")[2] != headers.get("host"):
            raise HttpError(HTTPStatus.FORBIDDEN, "a web page of another origin sent this request")

    async def _check_host(self, request: AdminRequest) -> None:
        host = request.headers.get("host")
        if host is None or ANY in self._allowed:
            return
        name = _name_of(host)
        if address_of(name) is not None or name == "localhost" or name in self._allowed:
            return
        if name in {each.lower() for each in self._own() if each is not None}:
            return
        if name not in await self._names_of_machine():
            raise HttpError(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"{name[:100]!r} is not a name of this server. Use its address, or list the name in {self._setting}",
            )

    async def _names_of_machine(self) -> frozenset[str]:
        async with self._lookup:
            if self._machine is None:
                self._machine = await trio.to_thread.run_sync(_names_of_machine, abandon_on_cancel=True)
            return self._machine


def _name_of(host: str) -> str:
    """Return the name or address in `name:port`, `address:port` or `[address]:port`."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.lower().rstrip(".")


def _names_of_machine() -> frozenset[str]:
    """Return the host names of this machine. Blocks during a query to DNS."""
    name = socket.gethostname()
    return frozenset({name.lower(), socket.getfqdn(name).lower()})
