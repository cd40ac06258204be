"""Pages of the console as values: what a visitor asks for, and the replies of handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final, Protocol, TypeAlias
from urllib.parse import urlencode

from attrs import field, frozen

ROWS_MAX: Final = 200
"""The maximum number of rows of a table on one page."""


class Refusal(Exception):
    """A request that gets a page with a reason in place of its content."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


@frozen
class Visit:
    """A request for a page.

    form      the fields of a POST, whose token is valid; empty for a GET
    token     the value of the field `token` that every form needs; empty if this visitor cannot send forms
    writable  True if this visitor may change the store
    """

    path: str
    parameters: Mapping[str, str] = field(factory=dict)
    form: Mapping[str, str] = field(factory=dict)
    token: str = ""
    writable: bool = False

    def parameter(self, name: str) -> str:
        """Return a parameter. Raise `Refusal` if it is missing."""
        value = self.parameters.get(name)
        if value is None:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"the address of this page needs the parameter {name}")
        return value

    def number(self, name: str, otherwise: int, least: int = 0, most: int = (1 << 63) - 1) -> int:
        """Return a parameter as a number; `otherwise` if it is missing or empty. Raise `Refusal` if it is invalid."""
        text = self.parameters.get(name, "").strip()
        if not text:
            return otherwise
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20 and least <= int(text) <= most):
            raise Refusal(HTTPStatus.BAD_REQUEST, f"{name} must be a number from {least} to {most}, not {text[:40]!r}")
        return int(text)

    def url(self, **changes: object) -> str:
        """Return the address of this page with other parameters. A parameter that becomes None is left out."""
        return url(self.path, **{**self.parameters, **changes})


def url(path: str, /, **parameters: object) -> str:
    """Return an address within the console. Parameters that are None are left out."""
    query = urlencode({name: str(value) for name, value in parameters.items() if value is not None}, errors="replace")
    return f"{path}?{query}" if query else path


@frozen
class Page:
    """A page. `body` is HTML, `title` is text.

    refreshes  True if the content may be fetched again every few seconds: it has no forms, and is cheap
    """

    title: str
    body: str
    status: HTTPStatus = HTTPStatus.OK
    refreshes: bool = False


@frozen
class Redirect:
    """The reply to a form that was carried out: the visitor's browser fetches another page."""

    target: str


Handler: TypeAlias = Callable[[Visit], Awaitable[Page | Redirect]]


class ConsolePart(Protocol):
    """The pages about one system.

    menu     the entries for the navigation: name and path
    pages    the handlers by path
    forms    the handlers of POST requests by path; they are called only for visitors that may change the store
    """

    menu: Sequence[tuple[str, str]]
    pages: Mapping[str, Handler]
    forms: Mapping[str, Handler]

    async def overview(self) -> str:
        """Return the section for the first page, as HTML. Unreachable servers are part of it, not an error."""

    def explain(self, error: Exception, *, changing: bool = False) -> Refusal | None:
        """Return the page for an expected error of a handler; None if the error is not expected.

        `changing` is true if the handler was that of a form, which may have changed something.
        """

    async def run(self) -> None:
        """Run the tasks in the background, for example the connection, until cancelled."""
