"""Access control lists in requests, in replies and in ZooKeeper's files.

Nearly every list is the open one (`OPEN_ACL_UNSAFE`). Its encoding is recognised without decoding it, which is cheaper.
"""

from __future__ import annotations

import struct
from typing import Final

from zab.core.errors import WireError
from zab.store.acl import ALL, OPEN, Acl, AclEntry
from zab.wire.jute import INT, NULL, Reader, text, vector

_ENTRY_BYTES_MIN: Final = 12
_SAY_WHO: Final = frozenset({"world", "digest", "ip"})


def _entry(entry: AclEntry) -> bytes:
    permissions, scheme, identity = entry
    try:
        return INT.pack(permissions) + text(scheme) + text(identity)
    except (struct.error, UnicodeEncodeError):
        return _entry(carried(entry))


def carried(entry: AclEntry) -> AclEntry:
    """Return the entry in a form that can be encoded.

    A session refuses entries that cannot be encoded, but an old log or snapshot may contain some. They are sent without
    the permission bits that have no meaning, and with `?` in place of lone surrogates.
    """
    permissions, scheme, identity = entry
    return permissions & ALL, _carried(scheme), _carried(identity)


def _carried(name: str) -> str:
    return name.encode("utf-8", "replace").decode()


OPEN_BYTES: Final = vector(map(_entry, OPEN))
_OPEN_LENGTH: Final = len(OPEN_BYTES)


def encode_acl(acl: Acl | None) -> bytes:
    if acl == OPEN:
        return OPEN_BYTES
    return NULL if acl is None else vector(map(_entry, acl))


def decode_acl(data: bytes, at: int) -> tuple[Acl | None, int]:
    """Return the list at `at` and the offset of its end. A null list is None, which the store refuses."""
    end = at + _OPEN_LENGTH
    if data[at:end] == OPEN_BYTES:
        return OPEN, end
    reader = Reader(data, at)
    acl = reader.vector_or_null(lambda: _read_entry(reader), _ENTRY_BYTES_MIN)
    return acl, reader.position


def _read_entry(reader: Reader) -> AclEntry:
    """Read an entry. Some clients, kazoo among them, send null for an empty text.

    With the schemes world, digest and ip the id must not be null.
    """
    permissions, scheme, identity = reader.number(), reader.text_or_null() or "", reader.text_or_null()
    if identity is None and scheme in _SAY_WHO:
        raise WireError(f"at byte {reader.position - 4}: the id of scheme {scheme} is null")
    return permissions, scheme, identity or ""
