"""The memory that members hold: a client that sends much and disconnects stays a member for a whole session.

Each group counts what its members hold at the moment in which it changes, so the sum of all groups is always known.
"""

from __future__ import annotations

from typing import Final

from attrs import define

from replica.core.groups.group_messages import Join, SupportedProtocol

CHARACTER_BYTES: Final = 4
"""A text with one character beyond the basic plane needs this much for each character."""
PROTOCOL_BYTES: Final = 256
MEMBER_BYTES: Final = 2_048
"""The bytes of a member besides its metadata, so that members without metadata count as well."""


@define(eq=False)
class MemberMemory:
    """The sum of what the members of all groups of a coordinator hold."""

    bytes: int = 0


def of_words(*words: str | None) -> int:
    return CHARACTER_BYTES * sum(len(word) for word in words if word is not None)


def of_protocols(protocols: tuple[SupportedProtocol, ...]) -> int:
    return sum(PROTOCOL_BYTES + of_words(each.name) + len(each.metadata) for each in protocols)


def of_join(ask: Join, ident: str) -> int:
    """Return what the member will hold under this id, without an assignment."""
    return (
        MEMBER_BYTES + of_words(ident, ask.who.instance, ask.client_id, ask.client_host) + of_protocols(ask.protocols)
    )


def of_request(ask: Join) -> int:
    """Return what the whole request holds; the group may keep its name and the protocol type."""
    return of_join(ask, ask.who.member) + of_words(ask.who.group, ask.protocol_type)
