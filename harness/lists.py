"""Access lists in words, as scripts and histories have them: who may do what with a node.

    u1:rwcda, world:r      user 1 may do all, and everybody may read
    auth:rwcda             whoever hands it in, and nobody else

Users have names, and neither passwords nor digests: a history says the same in every world. A list that names somebody
else is `UNKNOWN`, and nothing is judged by it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from zab.store.acl import ADMIN, ALL, ANYONE, CREATE, DELETE, OPEN, READ, WRITE, Acl, AclEntry, Identity, digest_id

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


def identities_of(user: str) -> tuple[Identity, ...]:
    """Return the identities of a connection that has authenticated as this user; "" has not authenticated."""
    return (ANYONE, ("digest", _digest(user))) if user else (ANYONE,)


def credentials_of(user: str) -> bytes:
    """Return the credentials of the scheme digest."""
    return f"{user}:{user}".encode()


@cache
def _digest(user: str) -> str:
    return digest_id(credentials_of(user))


def acl_of(words: str) -> Acl:
    return tuple(_entry(*each.split(":")) for each in words.split(", ")) if words else OPEN


def _entry(who: str, letters: str) -> AclEntry:
    permissions = sum(_BITS[letter] for letter in letters)
    if who == "world":
        return permissions, *ANYONE
    return (permissions, "auth", "") if who == "auth" else (permissions, "digest", _digest(who))


def words_of(acl: Acl | None) -> str:
    """The other way round, also of a list in which digests are hidden."""
    if acl == OPEN:
        return ""
    if not acl:
        return UNKNOWN
    found = []
    for permissions, scheme, name in acl:
        if not 0 <= permissions <= ALL:
            return UNKNOWN
        letters = "".join(letter for letter, bit in _BITS.items() if permissions & bit)
        who = "world" if (scheme, name) == ANYONE else scheme if scheme == "auth" else name.partition(":")[0]
        known = scheme in ("world", "auth")
        if scheme == "digest" and who in _USERS:
            known = name in (_digest(who), f"{who}:x")
        found.append(f"{who}:{letters}" if known else UNKNOWN)
    words = ", ".join(found)
    return words if _WORDS.fullmatch(words) else UNKNOWN
