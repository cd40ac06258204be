"""Values as ZooKeeper's own shell prints them."""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Final

from zab.cli.shell.parsing import BadLine
from zab.session.watch import Event, WatchEvent
from zab.store.acl import ADMIN, CREATE, DELETE, READ, WRITE, Acl, AclEntry
from zab.store.znode import Stat

_LETTERS: Final = {"c": CREATE, "d": DELETE, "r": READ, "w": WRITE, "a": ADMIN}

_EVENTS: Final = {
    Event.CREATED: "NodeCreated",
    Event.DELETED: "NodeDeleted",
    Event.DATA_CHANGED: "NodeDataChanged",
    Event.CHILDREN_CHANGED: "NodeChildrenChanged",
    Event.DATA_WATCH_REMOVED: "DataWatchRemoved",
    Event.CHILD_WATCH_REMOVED: "ChildWatchRemoved",
    Event.PERSISTENT_WATCH_REMOVED: "PersistentWatchRemoved",
    Event.MAYBE_MISSED: "MaybeMissed",
}


def names(found: Iterable[str]) -> str:
    return f"[{', '.join(sorted(found))}]"


def moment(milliseconds: int) -> str:
    return time.strftime("%a %b %d %H:%M:%S %Z %Y", time.localtime(milliseconds / 1000))


def stat(found: Stat) -> list[str]:
    return [
        f"cZxid = {found.czxid:#x}",
        f"ctime = {moment(found.ctime)}",
        f"mZxid = {found.mzxid:#x}",
        f"mtime = {moment(found.mtime)}",
        f"pZxid = {found.pzxid:#x}",
        f"cversion = {found.cversion}",
        f"dataVersion = {found.version}",
        f"aclVersion = {found.aversion}",
        f"ephemeralOwner = {found.ephemeral_owner & 0xFFFF_FFFF_FFFF_FFFF:#x}",
        f"dataLength = {found.data_length}",
        f"numChildren = {found.num_children}",
    ]


# -- data ----------------------------------------------------------------------------------------------


def data(found: bytes | None) -> str:
    return "null" if found is None else found.decode("utf-8", "replace")


def base64(found: bytes | None) -> str:
    return "null" if found is None else b64encode(found).decode()


def hexadecimal(found: bytes | None) -> list[str]:
    if found is None:
        return ["null"]
    edge = f"+--------+{'-' * 49}+----------------+"
    lines = [f"         +{'-' * 49}+", f"         |{''.join(f'  {digit:x}' for digit in range(16))} |", edge]
    for start in range(0, len(found), 16):
        part = found[start : start + 16]
        digits = "".join(f" {byte:02x}" for byte in part)
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"|{start:08x}|{digits:<48} |{shown:<16}|")
    return [*lines, edge]


# -- permissions ---------------------------------------------------------------------------------------


def acl(found: Acl) -> list[str]:
    lines = []
    for perms, scheme, name in found:
        lines += [f"'{scheme},'{name}", f": {''.join(letter for letter, bit in _LETTERS.items() if perms & bit)}"]
    return lines


def parse_acl(text: str) -> Acl:
    """Parse an ACL: entries `scheme:id:letters`, separated by commas. An id may contain colons and commas."""
    entries: list[AclEntry] = []
    pending = ""
    for part in text.split(","):
        pending = f"{pending},{part}" if pending else part
        scheme, colon, rest = pending.partition(":")
        name, last, letters = rest.rpartition(":")
        if not (colon and last and letters and set(letters) <= _LETTERS.keys()):
            continue  # the comma may belong to the id
        perms = 0
        for letter in letters:
            perms |= _LETTERS[letter]
        entries.append((perms, scheme, name))
        pending = ""
    if pending or not entries:
        raise BadLine(f"{pending or text!r} is not an ACL entry: expected scheme:id:letters, with letters from cdrwa")
    return tuple(entries)


# -- events --------------------------------------------------------------------------------------------


def event(happened: WatchEvent) -> list[str]:
    what = f"type:{_EVENTS[happened.event]} path:{happened.path} zxid: {happened.zxid}"
    return ["", "WATCHER::", "", f"WatchedEvent state:SyncConnected {what}"]


def client_addresses(config: str) -> str:
    """Return the version of a configuration and its connection string for clients."""
    addresses, version = [], ""
    for line in config.splitlines():
        key, _, value = line.partition("=")
        if key == "version":
            version = value
        elif key.startswith("server.") and ";" in value:
            servers, _, client = value.partition(";")
            host, _, port = client.rpartition(":")
            addresses.append(f"{servers.split(':')[0] if host in ('', '0.0.0.0') else host}:{port}")
    return f"{version} {','.join(addresses)}"


def from_base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise BadLine(f"{text!r} is not base64") from None
