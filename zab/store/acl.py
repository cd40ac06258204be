"""Check the identities of a connection against the ACLs of nodes.

ACLs are interned by their encoded form: a million nodes with one ACL share one object, and the check for the open ACL
is an `is` comparison. The cache is bounded; an evicted ACL costs memory, not correctness.

Most ACLs with more than a few entries or with addresses are compiled when they are interned (see `_compile`). So the
cost of a permission check seldom depends on the length of the ACL. The check itself compiles nothing.
"""

from __future__ import annotations

import hashlib
import sys
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Final, Protocol, TypeAlias

import msgpack
from attrs import field, frozen

from zab.store.acl_schemes import (
    address_of,
    digest_is_valid,
    ip_is_valid,
    ip_matches,
    network_of,
    sasl_is_valid,
    sasl_matches,
    x509_is_valid,
)

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

ENTRIES_MAX: Final = 500
"""The default of `StoreSettings.acl_entries_max`."""
ID_CHARS_MAX: Final = 4_096
"""The default of `StoreSettings.acl_id_chars_max`."""

_INTERNED_MAX: Final = 1 << 13
_SMALL_BYTES: Final = 1 << 10
_SMALL_ENTRIES: Final = 8
_LARGE_BYTES_MAX: Final = 8 << 20


def is_encodable(entry: AclEntry) -> bool:
    """Return whether ZooKeeper's format can hold the entry: permissions of 32 bits, texts without lone surrogates."""
    permissions, scheme, name = entry
    return -(1 << 31) <= permissions < 1 << 31 and is_text(scheme) and is_text(name)


def is_text(text: str) -> bool:
    """Return whether the text can be encoded as UTF-8: it has no lone surrogates."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# -- encoded and interned ------------------------------------------------------------------------------


def _decoded(encoded: bytes) -> Acl:
    acl = tuple((perms, scheme, name) for perms, scheme, name in msgpack.unpackb(encoded, unicode_errors=_LENIENT))
    _compile(acl, len(encoded))
    return acl


_decoded_small = lru_cache(_INTERNED_MAX)(_decoded)
_decoded_large: Final[dict[bytes, Acl]] = {}
"""Large ACLs (more than `_SMALL_BYTES` encoded bytes), keyed by their encoding, the oldest first.

A client may send any number, so the sum of their sizes is bounded by `_LARGE_BYTES_MAX`.
"""


def _interned_large(encoded: bytes) -> Acl:
    acl = _decoded_large.get(encoded)
    if acl is None:
        acl = _decoded_large[encoded] = _decoded(encoded)
        held = sum(map(len, _decoded_large))
        for oldest in list(_decoded_large):
            if held <= _LARGE_BYTES_MAX:
                break
            held -= len(oldest)
            _decoded_large.pop(oldest, None)
    return acl


@lru_cache(_INTERNED_MAX)
def _encoded_small(acl: Acl) -> bytes:
    return _encoded(acl)


def _encoded(acl: Acl) -> bytes:
    encoded: bytes = msgpack.packb(acl, unicode_errors=_LENIENT)
    return encoded


_LENIENT: Final = "surrogatepass"
"""The handler of encoding errors: an id may contain lone surrogates, and is decoded exactly as it was encoded."""

OPEN: Final[Acl] = ((ALL, *ANYONE),)
READ_ONLY: Final[Acl] = ((READ, *ANYONE),)


def encode_acl(acl: Acl) -> bytes:
    """Encode an ACL. The open ACL, which nearly all nodes have, is encoded as empty bytes."""
    if acl is OPEN or acl == OPEN:
        return b""
    small = len(acl) <= _SMALL_ENTRIES and sum([len(name) for _, _, name in acl]) <= _SMALL_BYTES
    return _encoded_small(acl) if small else _encoded(acl)


def decode_acl(encoded: bytes) -> Acl:
    """Return the ACL, interned: equal bytes give the same object, as long as the cache holds it."""
    if not encoded:
        return OPEN
    return _decoded_small(encoded) if len(encoded) <= _SMALL_BYTES else _interned_large(encoded)


def intern(acl: Acl) -> Acl:
    return decode_acl(encode_acl(acl))


def encode_identities(identities: Iterable[Identity]) -> bytes:
    """Encode the identities of a connection, once for all of its requests."""
    listed = tuple(identities)
    encoded: bytes = msgpack.packb(listed, unicode_errors=_LENIENT) if listed else b""
    return encoded


def decode_identities(encoded: bytes) -> tuple[Identity, ...]:
    if not encoded:
        return ()
    return _identities_small(encoded) if len(encoded) <= _SMALL_BYTES // 4 else _identities(encoded)


def _identities(encoded: bytes) -> tuple[Identity, ...]:
    return tuple((scheme, name) for scheme, name in msgpack.unpackb(encoded, unicode_errors=_LENIENT))


_identities_small = lru_cache(1 << 12)(_identities)


# -- access rules of a server --------------------------------------------------------------------------


class Rules(Protocol):
    """The rules of a pluggable scheme. On every server they must give the same results for the same arguments."""

    @property
    def scheme(self) -> str:
        """Return the name of the scheme, as an ACL writes it before the id."""

    @property
    def proves(self) -> bool:
        """Return whether the entry `auth` of an ACL expands to ids of this scheme."""

    def id_is_valid(self, name: str) -> bool:
        """Return whether an ACL may contain this id."""

    def matches(self, name: str, identity: str) -> bool:
        """Return whether the id `name` of an ACL matches this identity."""


DEFAULT_SCHEMES: Final = frozenset({"digest", "ip"})

_NO_RULES: Final[Mapping[str, Rules]] = {}


@frozen
class Access:
    """The access rules of one server.

    skip      grant all permissions to every client (`skipACL`); `allows` leaves this to its callers
    schemes   the schemes whose ids an ACL may contain; other entries grant nothing, except those for world:anyone
    sasl_any  the id of the sasl scheme that matches every sasl user
    rules     the rules of pluggable schemes
    supers    the schemes of the super users that this server accepts; `super` stands for every scheme
    """

    skip: bool = False
    schemes: frozenset[str] = DEFAULT_SCHEMES
    sasl_any: str | None = None
    rules: Mapping[str, Rules] = field(default=_NO_RULES, hash=False)
    supers: frozenset[str] = frozenset()


DEFAULT_ACCESS: Final = Access()


# -- checks --------------------------------------------------------------------------------------------


def allows(acl: Acl, wanted: int, identities: Collection[Identity], access: Access = DEFAULT_ACCESS) -> bool:
    """Return True if the ACL grants one of the bits of `wanted` to one of the identities.

    ZooKeeper's rule: an entry for world:anyone grants its permissions to every client, any other entry to the
    identities that it matches by the rules of its scheme, which must be one of `access.schemes`. An empty ACL grants
    everything, and so does every ACL to a super user.
    """
    if acl is OPEN or not acl:
        return True
    grants = _COMPILED.get(id(acl))
    if grants is not None and grants.acl is acl:
        return grants.allow(wanted, identities, access) or is_super(identities, access)
    for perms, scheme, name in acl:
        if perms & wanted:
            if scheme == "world" and name == "anyone":
                return True
            if scheme in access.schemes:
                for of, identity in identities:
                    if scheme == of and _matches(scheme, name, identity, access):
                        return True
    return is_super(identities, access)


def is_super(identities: Collection[Identity], access: Access) -> bool:
    """Return True if these identities are those of a super user.

    The identities come from the server that the client is connected to. The server that decides must accept super users
    of a scheme of these identities: otherwise each server could make its clients super users of the whole ensemble.
    """
    return any(scheme == SUPER for scheme, _ in identities) and any(scheme in access.supers for scheme, _ in identities)


def _call_rule(rule: Callable[..., bool], *names: str) -> bool:
    """Return the result of a pluggable rule; False if it raises: its exception must not stop the server."""
    try:
        return bool(rule(*names))
    except Exception:
        return False


def _matches(scheme: str, name: str, identity: str, access: Access) -> bool:
    rules = access.rules.get(scheme)
    if rules is not None:
        return _call_rule(rules.matches, name, identity)
    if scheme == "ip":
        return ip_matches(name, identity)
    if scheme == "sasl":
        return sasl_matches(name, identity, access.sasl_any)
    return name == identity


# -- compiled ACLs -------------------------------------------------------------------------------------

_SCANNED_MAX: Final = 3
"""An ACL of at most this many entries, none of them an address, is not compiled: each check scans its entries."""

_Networks: TypeAlias = tuple[tuple[int, int, dict[int, int]], ...]
"""(bits of an address, bits after the prefix, prefix -> permissions), one tuple for each pair of the two numbers"""


class _Grants:
    """The permissions that an ACL grants, by scheme and id, and for networks by prefix length."""

    __slots__ = ("_names", "_networks", "_world", "acl", "size")

    def __init__(self, acl: Acl, size: int = 0) -> None:
        self.acl = acl
        """The ACL itself: while it is referenced, no other object has its `id()`."""
        self.size = size
        """The number of bytes of its encoded form."""
        self._names: dict[str, dict[str, int]] = {}
        networks: dict[tuple[int, int], dict[int, int]] = {}
        for perms, scheme, name in acl:
            names = self._names.setdefault(scheme, {})
            names[name] = names.get(name, 0) | perms
        for name, perms in self._names.get("ip", {}).items():
            network = network_of(name)
            if network is not None:
                width, shift, prefix = network
                prefixes = networks.setdefault((width, shift), {})
                prefixes[prefix] = prefixes.get(prefix, 0) | perms
        self._networks: _Networks = tuple((*key, prefixes) for key, prefixes in networks.items())
        self._world = self._names.get("world", {}).get("anyone", 0)

    def allow(self, wanted: int, identities: Iterable[Identity], access: Access) -> bool:
        if self._world & wanted:
            return True
        for scheme, identity in identities:
            names = self._names.get(scheme)
            if names is not None and scheme in access.schemes and self._grants(names, wanted, scheme, identity, access):
                return True
        return False

    def _grants(self, names: Mapping[str, int], wanted: int, scheme: str, identity: str, access: Access) -> bool:
        """Return whether an entry of the identity's scheme grants it a wanted permission.

        The result is the same as that of `_matches` for each entry. In most schemes an id matches only the identity
        that equals it, as in ZooKeeper's `DigestAuthenticationProvider`, so one look-up decides. An address matches the
        networks that contain it (`IPAuthenticationProvider`). For a pluggable scheme, and for the sasl identity
        `super`, `_matches` is called for each entry. An entry with the id `access.sasl_any` grants to every sasl
        identity.
        """
        if scheme in access.rules or (scheme == "sasl" and identity == "super"):
            return any(perms & wanted and _matches(scheme, name, identity, access) for name, perms in names.items())
        if scheme == "ip":
            address = address_of(identity)
            if address is None:
                return False
            width, value = address
            for bits, shift, prefixes in self._networks:
                if bits == width and prefixes.get(value >> shift, 0) & wanted:
                    return True
            return False
        if names.get(identity, 0) & wanted:
            return True
        return scheme == "sasl" and access.sasl_any is not None and bool(names.get(access.sasl_any, 0) & wanted)


_COMPILED: Final[dict[int, _Grants]] = {}
"""The compiled ACLs by `id()` of the ACL. `_Grants` references the ACL, so no other ACL gets its `id()` meanwhile.

ACLs stay plain tuples: if they were instances of a subclass with an attribute, the cyclic garbage collector would visit
every node in each pass.
"""
_COMPILED_BYTES_MIN: Final = 4 << 20
_compiled_bytes = 0
"""The number of encoded bytes of all compiled ACLs."""
_sweep_at = _COMPILED_BYTES_MIN


def _compile(acl: Acl, size: int) -> None:
    """Compile an ACL that is being interned. `size` is the number of its encoded bytes.

    An ACL of at most `_SCANNED_MAX` entries without an address is not compiled, nor one with entries of wrong types.
    """
    if len(acl) <= _SCANNED_MAX and all(scheme != "ip" for _, scheme, _ in acl):
        return
    if not all(type(perms) is int and type(scheme) is type(name) is str for perms, scheme, name in acl):
        return
    global _compiled_bytes, _sweep_at
    if _compiled_bytes >= _sweep_at:
        # Drop the ACLs that no node and no cache holds any more: only their `_Grants` still refer to them.
        for key, grants in list(_COMPILED.items()):
            if sys.getrefcount(grants.acl) <= 2 and _COMPILED.pop(key, None) is not None:
                _compiled_bytes -= grants.size
        _sweep_at = max(_COMPILED_BYTES_MIN, 2 * _compiled_bytes)
    _COMPILED[id(acl)] = _Grants(acl, size)
    _compiled_bytes += size


# -- ACLs from clients ---------------------------------------------------------------------------------

_NEVER_AUTHENTICATED: Final = frozenset({"ip", "world", "ensemble", SUPER})
"""The schemes to whose ids `auth` does not expand: an address, for example, authenticates no client."""

_IS_VALID: Final = {
    "digest": digest_is_valid,
    "ip": ip_is_valid,
    "sasl": sasl_is_valid,
    "x509": x509_is_valid,
}


def id_is_valid(scheme: str, name: str, access: Access) -> bool:
    rules = access.rules.get(scheme)
    if rules is not None:
        return _call_rule(rules.id_is_valid, name)
    ours = _IS_VALID.get(scheme)
    return ours is not None and ours(name)


def fix_up(
    acl: Acl | None,
    identities: Collection[Identity],
    access: Access = DEFAULT_ACCESS,
    entries_max: int = ENTRIES_MAX,
    id_chars_max: int = ID_CHARS_MAX,
) -> Acl | None:
    """Return the ACL that the node will have, or None if the ACL is invalid: ZooKeeper's fixupACL.

    An empty ACL is invalid. Duplicates are removed, before `auth` expands to the authenticated identities of the
    connection. `auth` is invalid if there are none; every other entry must be world:anyone or a valid id of one of
    `access.schemes`. As in ZooKeeper, permissions are not checked. The limits are our own: `entries_max` entries, and
    `id_chars_max` characters of an id that does not come from `auth`.
    """
    if acl == OPEN:
        return OPEN
    if not acl or len(acl) > entries_max:
        return None
    fixed: list[AclEntry] = []
    for perms, scheme, name in dict.fromkeys(acl):
        if (scheme, name) == ANYONE:
            fixed.append((perms, scheme, name))
        elif scheme == "auth":
            mine = [(perms, of, identity) for of, identity in identities if _authenticates(of, access)]
            if not mine or len(fixed) + len(mine) > entries_max:
                return None
            fixed += mine
        elif (
            scheme in access.schemes
            and type(name) is str
            and len(name) <= id_chars_max
            and id_is_valid(scheme, name, access)
        ):
            fixed.append((perms, scheme, name))
        else:
            return None
    return tuple(fixed) if len(fixed) <= entries_max else None


def _authenticates(scheme: str, access: Access) -> bool:
    rules = access.rules.get(scheme)
    return scheme in access.schemes and scheme not in _NEVER_AUTHENTICATED and (rules is None or rules.proves)


# -- replies -------------------------------------------------------------------------------------------


def masked(acl: Acl) -> Acl:
    """Mask digests, for a client that may not change the ACL: a digest is open to a dictionary attack."""
    return tuple(
        (perms, scheme, f"{name.partition(':')[0]}:x" if scheme == "digest" else name) for perms, scheme, name in acl
    )


def user_of(identity: Identity) -> str:
    """Return the user name that `whoAmI` reports."""
    scheme, name = identity
    return name.partition(":")[0] if scheme == "digest" else name


# -- the digest scheme ---------------------------------------------------------------------------------


def digest_id(credentials: bytes, algorithm: str = "sha1") -> str:
    """Return the digest id of the credentials `user:password`: the user, and the hash of both in base64."""
    text = credentials.decode("utf-8", "replace")  # as ZooKeeper decodes them before it hashes
    user = text.partition(":")[0]
    digest = hashlib.new(algorithm, text.encode(), usedforsecurity=False).digest()
    return f"{user}:{b64encode(digest).decode()}"
