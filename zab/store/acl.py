"""Who may do what: identities of connections against the ACL lists of nodes.

Lists are interned by their encoded form, so that a million nodes with one list share one, and "may anybody
do anything?" is the comparison of two addresses. The cache is bounded; what falls out of it costs memory,
not correctness.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Collection, Iterable
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Final, TypeAlias

import msgpack
from attrs import frozen

Identity: TypeAlias = tuple[str, str]
"""(scheme, id)"""

AclEntry: TypeAlias = tuple[int, str, str]
"""(perms, scheme, id)"""

Acl: TypeAlias = tuple[AclEntry, ...]

READ: Final = 1
WRITE: Final = 2
CREATE: Final = 4
DELETE: Final = 8
ADMIN: Final = 16
ALL: Final = 31

ANYONE: Final[Identity] = ("world", "anyone")
SUPER: Final = "super"

_INTERNED_MAX: Final = 1 << 16


# -- encoded and interned ------------------------------------------------------------------------------


@lru_cache(_INTERNED_MAX)
def _decoded(encoded: bytes) -> Acl:
    return tuple((perms, scheme, name) for perms, scheme, name in msgpack.unpackb(encoded, unicode_errors=_LENIENT))


@lru_cache(_INTERNED_MAX)
def _encoded(acl: Acl) -> bytes:
    encoded: bytes = msgpack.packb(acl, unicode_errors=_LENIENT)
    return encoded


_LENIENT: Final = "surrogatepass"
"""An id may hold what is no character, and still has to come out as it went in."""

OPEN: Final[Acl] = ((ALL, *ANYONE),)
READ_ONLY: Final[Acl] = ((READ, *ANYONE),)


def encode_acl(acl: Acl) -> bytes:
    """Nothing at all stands for what nearly all nodes have."""
    return b"" if acl is OPEN or acl == OPEN else _encoded(acl)


def decode_acl(encoded: bytes) -> Acl:
    """The one list of this content."""
    return _decoded(encoded) if encoded else OPEN


def intern(acl: Acl) -> Acl:
    return decode_acl(encode_acl(acl))


def encode_identities(identities: Iterable[Identity]) -> bytes:
    """Made once for a connection, and sent with each of its requests."""
    listed = tuple(identities)
    encoded: bytes = msgpack.packb(listed, unicode_errors=_LENIENT) if listed else b""
    return encoded


@lru_cache(1 << 12)
def decode_identities(encoded: bytes) -> tuple[Identity, ...]:
    if not encoded:
        return ()
    return tuple((scheme, name) for scheme, name in msgpack.unpackb(encoded, unicode_errors=_LENIENT))


# -- the question --------------------------------------------------------------------------------------


def allows(acl: Acl, wanted: int, identities: Collection[Identity]) -> bool:
    """Whether one of `wanted`'s bits is granted to somebody who is one of `identities`."""
    if acl is OPEN or not acl:
        return True
    for perms, scheme, name in acl:
        if perms & wanted and (
            (scheme == "world" and name == "anyone")
            or any(scheme == of and _matches(scheme, name, who) for of, who in identities)
        ):
            return True
    return any(scheme == SUPER for scheme, _ in identities)


def _matches(scheme: str, name: str, who: str) -> bool:
    if name == who:
        return True
    return scheme == "ip" and _in_network(name, who)


@lru_cache(1 << 12)
def _in_network(network: str, address: str) -> bool:
    try:
        return ip_address(address) in ip_network(network, strict=False)
    except ValueError:
        return False


# -- a list that a client hands in ---------------------------------------------------------------------

_NEVER_AUTHENTICATED: Final = frozenset({"ip", "world", "ensemble", SUPER})
"""Where one comes from is not who one is: `auth` does not expand to these."""

DEFAULT_SCHEMES: Final = frozenset({"digest", "ip"})

_PRINCIPAL: Final = re.compile(r"[^/@]*(/[^/@]*)?@[^/@]*|[^@]*")
_DISTINGUISHED_NAME: Final = re.compile(r"\s*[A-Za-z0-9][\w.-]*\s*=.*", re.DOTALL)


def id_is_valid(scheme: str, name: str) -> bool:
    match scheme:
        case "digest":
            return name.count(":") == 1
        case "ip":
            return _network_is_valid(name)
        case "sasl":
            return _PRINCIPAL.fullmatch(name) is not None
        case "x509":
            return _DISTINGUISHED_NAME.fullmatch(name) is not None
        case _:
            return bool(name)


def _network_is_valid(name: str) -> bool:
    address, slash, bits = name.partition("/")
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    return not slash or (bits.isascii() and bits.isdigit() and int(bits) <= parsed.max_prefixlen)


def fix_up(acl: Acl | None, identities: Collection[Identity], schemes: Collection[str]) -> Acl | None:
    """The list as it will stand on the node, or None when it makes no sense.

    `auth` becomes those that the connection has proved to be; whatever else there is must be of a scheme
    that this ensemble knows. Permissions are not looked at, as in the original.
    """
    if acl == OPEN:
        return OPEN
    if not acl:
        return None
    fixed: list[AclEntry] = []
    for perms, scheme, name in dict.fromkeys(acl):
        if (scheme, name) == ANYONE:
            fixed.append((perms, scheme, name))
        elif scheme == "auth":
            mine = [(perms, of, who) for of, who in identities if of in schemes and of not in _NEVER_AUTHENTICATED]
            if not mine:
                return None
            fixed += mine
        elif scheme in schemes and type(name) is str and id_is_valid(scheme, name):
            fixed.append((perms, scheme, name))
        else:
            return None
    return intern(tuple(fixed))


# -- what a client is shown ----------------------------------------------------------------------------


def masked(acl: Acl) -> Acl:
    """For who may read a list and not change it: a digest can be tried against a dictionary at home."""
    return tuple(
        (perms, scheme, f"{name.partition(':')[0]}:x" if scheme == "digest" else name) for perms, scheme, name in acl
    )


def user_of(identity: Identity) -> str:
    """As `whoAmI` names it."""
    scheme, name = identity
    return name.partition(":")[0] if scheme == "digest" else name


# -- the digest scheme ---------------------------------------------------------------------------------


def digest_id(credentials: bytes, algorithm: str = "sha1") -> str:
    """The id of who knows `user:password`."""
    user = credentials.partition(b":")[0].decode("utf-8", "replace")
    digest = hashlib.new(algorithm, credentials, usedforsecurity=False).digest()
    return f"{user}:{b64encode(digest).decode()}"


@frozen
class Access:
    """The rules of one server.

    skip     nobody is asked who they are (`skipACL`)
    schemes  whose ids may stand in a list
    """

    skip: bool = False
    schemes: frozenset[str] = DEFAULT_SCHEMES


DEFAULT_ACCESS: Final = Access()
