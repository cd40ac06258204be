"""Access control lists as text, as scripts and histories contain them.

    u1:rwcda, world:r      user 1 has all permissions, and every client may read
    auth:rwcda             the user that sets the list has all permissions, and no other user has any

Users have names, but no passwords or digests, so that a history is the same in every world. A list with any other
identity is `UNKNOWN`, and the checkers ignore it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from zab.store.acl import ADMIN, ALL, ANYONE, CREATE, DELETE, OPEN, READ, WRITE, Acl, AclEntry, digest_id

UNKNOWN: Final = "?"
USERS_MAX: Final = 9
_USERS: Final = frozenset(f"u{number}" for number in range(1, USERS_MAX + 1))
_BITS: Final = {"r": READ, "w": WRITE, "c": CREATE, "d": DELETE, "a": ADMIN}
_ENTRY: Final = r"(?:auth|world|u[1-9]):(?=[rwcda])r?w?c?d?a?"
_WORDS: Final = re.compile(rf"{_ENTRY}(?:, {_ENTRY})*")


def trouble(words: str) -> str | None:
    """Return the mistake in a written list, or None. The empty list is open to all."""
    if not words or _WORDS.fullmatch(words):
        return None
    return f"{words!r} is no list: expected something like 'u1:rwcda, world:r', with auth, world or u1 to u{USERS_MAX}"


def user_name(number: int) -> str:
    return f"u{number}" if number else ""


def credentials_of(user: str) -> bytes:
    """Return the credentials of the scheme digest."""
    return f"{user}:{user}".encode()


@cache
def _digest(user: str) -> str:
    return digest_id(credentials_of(user))


def acl_of(words: str) -> Acl:
    return tuple(_entry(*each.split(":")) for each in words.split(", ")) if words else OPEN


def _entry(identity: str, letters: str) -> AclEntry:
    permissions = sum(_BITS[letter] for letter in letters)
    if identity == "world":
        return permissions, *ANYONE
    return (permissions, "auth", "") if identity == "auth" else (permissions, "digest", _digest(identity))


def words_of(acl: Acl | None) -> str:
    """Return a list as text, the inverse of `acl_of`. The server may have hidden the digests."""
    if acl == OPEN:
        return ""
    if not acl:
        return UNKNOWN
    found = []
    for permissions, scheme, name in acl:
        if not 0 <= permissions <= ALL:
            return UNKNOWN
        letters = "".join(letter for letter, bit in _BITS.items() if permissions & bit)
        identity = "world" if (scheme, name) == ANYONE else scheme if scheme == "auth" else name.partition(":")[0]
        known = scheme in ("world", "auth")
        if scheme == "digest" and identity in _USERS:
            known = name in (_digest(identity), f"{identity}:x")
        found.append(f"{identity}:{letters}" if known else UNKNOWN)
    words = ", ".join(found)
    return words if _WORDS.fullmatch(words) else UNKNOWN
