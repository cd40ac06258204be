"""The browser of the store's nodes: children, data, stat, ACL and watches; and the forms that change a node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from http import HTTPStatus
from typing import Final

import trio

from zab.admin.markup import NONE, number, pairs, size
from zab.console.admin_reports import AdminUrl, watching_sessions
from zab.console.byte_views import SHOWN_BYTES_MAX, as_text, data_view, too_large
from zab.console.layout import crumbs, field, form, hidden, link, moment, page_of, search, section, shown, shown_whole
from zab.console.page import Page, Redirect, Refusal, Visit, url
from zab.console.store_link import StoreLink
from zab.session.api import Session
from zab.session.session_errors import NoAuth
from zab.store.acl import ADMIN, CREATE, DELETE, OPEN, READ, WRITE, Acl
from zab.store.paths import ROOT, ancestors_of, child_of, parent_of, why_invalid
from zab.store.znode import Stat

CHILDREN_MAX: Final = 20_000
"""The children of a node with more are not listed: the store sends them in one reply, which may be very large."""
SESSIONS_MAX: Final = 100
"""The maximum number of listed sessions that watch a node, of each server."""
READ_S: Final = 5.0
_LETTERS: Final = ((CREATE, "create"), (READ, "read"), (WRITE, "write"), (DELETE, "delete"), (ADMIN, "change the ACL"))
_ACLS: Final = (("parent", "the ACL of the parent"), ("open", "open to every client"))


class NodePages:
    """`root` is the node that the session uses as `/`, or empty. `related` are those of `StorePart`."""

    def __init__(
        self,
        store: StoreLink,
        root: str,
        admin: Sequence[AdminUrl],
        related: Sequence[Callable[[str], Iterable[str]]],
    ) -> None:
        self._link = store
        self._root = root
        self._admin = admin
        self._related = related

    # -- reading -----------------------------------------------------------------------------------

    async def node(self, visit: Visit) -> Page:
        path = checked_path(visit.parameters.get("path", ROOT))
        session = await self._link.session()
        with trio.fail_after(READ_S):
            stat = await session.exists(path)
            if stat is None:
                raise Refusal(HTTPStatus.NOT_FOUND, f"there is no node {path}; it may have been deleted")
            data = await _data(session, path, stat)
            children = await _children(session, path, stat)
            acl = await _acl(session, path)
        links = [each for related in self._related for each in related(path)]
        body = crumbs(_way(path)) + (f"<p>See also {', '.join(links)}</p>" if links else "")
        body += _data_section(visit, data, stat)
        body += _children_section(visit, path, children, stat)
        body += pairs("Stat", _stat_rows(stat)) + pairs("ACL", _acl_rows(acl))
        body += section("Watches", await self._watches(visit, path))
        if visit.writable:
            body += _forms(visit, path, data, stat)
        return Page(f"Node {path}", body)

    async def _watches(self, visit: Visit, path: str) -> str:
        """Return the sessions that watch a node. They are queried on demand, because a server lists all its watches."""
        if not self._admin:
            return "<p class=none>Admin ports list the watches: name them with --admin.</p>"
        if visit.parameters.get("watches") != "1":
            return f'<p><a href="{escape(visit.url(watches=1))}">Query the servers for watches</a></p>'
        lines: dict[AdminUrl, str] = {}

        async def ask(at: AdminUrl) -> None:
            try:
                found = await watching_sessions(at, (self._root + path).rstrip("/") or ROOT)
            except trio.TooSlowError:
                lines[at] = "no answer in time"
            except (OSError, trio.BrokenResourceError, ValueError, LookupError, TypeError, AttributeError) as error:
                lines[at] = f"it does not list its watches: {error}"
            else:
                named = ", ".join(f"{each & 0xFFFF_FFFF_FFFF_FFFF:#x}" for each in found[:SESSIONS_MAX])
                more = f", and {number(len(found) - SESSIONS_MAX)} more" if len(found) > SESSIONS_MAX else ""
                lines[at] = f"{named}{more}" or "no session"

        async with trio.open_nursery() as nursery:
            for each in self._admin:
                nursery.start_soon(ask, each)
        items = "".join(f"<li>{shown(str(at))} {shown(lines[at])}</li>" for at in self._admin)
        return f"<p>Sessions that watch this node, by server:</p><ul>{items}</ul>"

    # -- changing ----------------------------------------------------------------------------------

    async def set(self, visit: Visit) -> Redirect:
        """Replace the data of a node if it still has the version that the page showed."""
        path, session = checked_path(visit.form.get("path", "")), await self._link.session()
        with trio.fail_after(READ_S):
            await session.set(path, _sent_data(visit), _sent_version(visit))
        return Redirect(url("/node", path=path))

    async def create(self, visit: Visit) -> Redirect:
        parent, session = checked_path(visit.form.get("path", "")), await self._link.session()
        path = checked_path(child_of(parent, visit.form.get("name", "")))
        with trio.fail_after(READ_S):
            acl = OPEN
            if visit.form.get("acl") != "open":
                acl = (await session.acl(parent))[0]
                if any(scheme == "digest" and name.endswith(":x") for _, scheme, name in acl):
                    why = "the ACL of the parent has digests that this console may not read, so it cannot be copied"
                    raise Refusal(HTTPStatus.FORBIDDEN, why)
            await session.create(path, _sent_data(visit), acl=acl)
        return Redirect(url("/node", path=path))

    async def delete(self, visit: Visit) -> Redirect:
        """Delete a node without children if it still has the version that the page showed."""
        path, session = checked_path(visit.form.get("path", "")), await self._link.session()
        if visit.form.get("sure") != "yes":
            raise Refusal(HTTPStatus.BAD_REQUEST, "tick the box to confirm the deletion")
        with trio.fail_after(READ_S):
            await session.delete(path, _sent_version(visit))
        return Redirect(url("/node", path=parent_of(path)))


def checked_path(path: str) -> str:
    why = why_invalid(path)
    if why:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"{path[:200]!r} is not the path of a node: {why}")
    return path


# -- reading -------------------------------------------------------------------------------------------


async def _data(session: Session, path: str, stat: Stat) -> bytes | str | None:
    """Return the data, or the reason why it is not shown."""
    refusal = too_large(stat.data_length)
    if refusal is not None:
        return refusal
    try:
        data, _ = await session.get(path)
    except NoAuth:
        return "The ACL does not permit this console to read the data."
    return data if data is None else too_large(len(data)) or data  # it may have grown in between


async def _children(session: Session, path: str, stat: Stat) -> list[str] | str:
    """Return the sorted names of the children, or the reason why they are not listed."""
    if stat.num_children > CHILDREN_MAX:
        return (
            f"This node has {number(stat.num_children)} children. The console lists at most {number(CHILDREN_MAX)}, "
            "because the store sends all names in one reply. Open a child by its path."
        )
    try:
        return sorted(await session.children(path))
    except NoAuth:
        return "The ACL does not permit this console to list the children."


async def _acl(session: Session, path: str) -> Acl | str:
    try:
        return (await session.acl(path))[0]
    except NoAuth:
        return "The ACL does not permit this console to read it."


# -- markup --------------------------------------------------------------------------------------------


def _way(path: str) -> list[str]:
    """Return a link to each node above, and the name of the node itself."""
    links = [link(each.rpartition("/")[2] or "root", "/node", path=each) for each in reversed(ancestors_of(path))]
    return [*links, f"<b>{shown(path.rpartition('/')[2] or 'root')}</b>"]


def _data_section(visit: Visit, data: bytes | str | None, stat: Stat) -> str:
    title = f"Data, {number(stat.data_length)} bytes"
    if isinstance(data, str):
        return section(title, f"<p>{shown_whole(data)}</p>")
    return section(title, data_view(visit, "as", data))


def _children_section(visit: Visit, path: str, children: list[str] | str, stat: Stat) -> str:
    title = f"Children, {number(stat.num_children)}"
    if isinstance(children, str):
        return section(title, f"<p>{shown_whole(children)}</p>")
    wanted = visit.parameters.get("filter", "")
    names = [each for each in children if wanted in each]
    part, pages = page_of(visit, len(names))
    items = "".join(f"<li>{link(each, '/node', path=child_of(path, each))}</li>" for each in names[part])
    listed = f'<ul class="names">{items}</ul>' if items else "<p class=none>none</p>"
    box = search(visit, "Name contains", "filter", ("path",)) if len(children) > 20 or wanted else ""
    return section(title, f"{box}{pages}{listed}")


def _stat_rows(stat: Stat) -> list[tuple[str, str]]:
    owner = stat.ephemeral_owner & 0xFFFF_FFFF_FFFF_FFFF
    rows = (
        ("created", f"{moment(stat.ctime)}, zxid <code>{stat.czxid:#x}</code>"),
        ("data changed", f"{moment(stat.mtime)}, zxid <code>{stat.mzxid:#x}</code>"),
        ("children changed", f"zxid <code>{stat.pzxid:#x}</code>"),
        ("version of the data", number(stat.version)),
        ("version of the children", number(stat.cversion)),
        ("version of the ACL", number(stat.aversion)),
        ("owner, if ephemeral", f"session <code>{owner:#x}</code>" if owner else NONE),
        ("size of the data", size(stat.data_length)),
        ("children", number(stat.num_children)),
    )
    return list(rows)


def _acl_rows(acl: Acl | str) -> list[tuple[str, str]]:
    if isinstance(acl, str):
        return [("not shown", escape(acl))]
    return [
        (shown(f"{scheme}:{name}"), ", ".join(word for bit, word in _LETTERS if perms & bit) or "nothing")
        for perms, scheme, name in acl
    ]


def _forms(visit: Visit, path: str, data: bytes | str | None, stat: Stat) -> str:
    """Return the forms that set the data, create a child and delete the node."""
    here = hidden("path", path)
    at_version = here + hidden("version", stat.version)
    made = ""
    if not isinstance(data, str):
        text = as_text(data or b"")
        plain = text is not None and "\r" not in text  # a browser sends each end of a line as CR LF
        value = text if plain else (data or b"").hex(" ")
        box = _area("data", value or "") + hidden("as", "text" if plain else "hex")
        label = "Data" if plain else "Data, in hexadecimal digits"
        fields = at_version + field(label, box) + f"<button>Set the data, if still at version {stat.version}</button>"
        made += f"<h3>Set</h3>{form('/node/set', visit.token, fields)}"
    options = "".join(f'<option value="{value}">{label}</option>' for value, label in _ACLS)
    name = '<input name="name" required autocomplete="off">'
    fields = here + field("Name of the child", name) + field("Data", _area("data", "")) + hidden("as", "text")
    fields += field("ACL", f'<select name="acl">{options}</select>') + "<button>Create a child</button>"
    made += f"<h3>Create</h3>{form('/node/create', visit.token, fields)}"
    if path != ROOT and not stat.num_children:
        sure = f'<input type="checkbox" name="sure" value="yes" required> delete {shown(path)}'
        fields = f"{at_version}<label>{sure}</label><button>Delete, if still at version {stat.version}</button>"
        made += f"<h3>Delete</h3>{form('/node/delete', visit.token, fields)}"
    return section("Change", made)


def _area(name: str, value: str) -> str:
    # HTML drops a line break at the beginning.
    return f'<textarea name="{name}" rows="6" maxlength="{SHOWN_BYTES_MAX * 3}">\n{escape(value)}</textarea>'


# -- forms ---------------------------------------------------------------------------------------------


def _sent_data(visit: Visit) -> bytes:
    text = visit.form.get("data", "")
    try:
        data = bytes.fromhex(text) if visit.form.get("as") == "hex" else text.replace("\r\n", "\n").encode()
    except ValueError as error:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"the data must be hexadecimal digits: {error}") from None
    if len(data) > SHOWN_BYTES_MAX:
        why = f"the data has {number(len(data))} bytes; the console sets at most {number(SHOWN_BYTES_MAX)}"
        raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)
    return data


def _sent_version(visit: Visit) -> int:
    """Return the version that the page showed. A form without one changes nothing."""
    text = visit.form.get("version", "")
    if not (text.isascii() and text.isdigit() and len(text) < 11):
        raise Refusal(HTTPStatus.BAD_REQUEST, "the form lacks the version that its page showed")
    return int(text)
