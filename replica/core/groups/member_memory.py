"""The estimated memory of group members. It is limited, because a client that sends a large JoinGroup and disconnects
remains a member until its session expires.

`MemberMemory` holds the sum over all groups. Each group updates the sum when its members change.
"""

from __future__ import annotations

from typing import Final

from attrs import define

from replica.core.groups.group_messages import Join, SupportedProtocol

CHARACTER_BYTES: Final = 4
"""The bytes of one character: if a text has any character beyond the BMP, Python uses four bytes for each of its
characters."""
PROTOCOL_BYTES: Final = 256
MEMBER_BYTES: Final = 2_048
"""The bytes of a member without its names, protocols and assignment."""


@define(eq=False)
class MemberMemory:
    """The memory used by the members of all groups of a coordinator."""

    bytes: int = 0


def of_words(*words: str | None) -> int:
    return CHARACTER_BYTES * sum(len(word) for word in words if word is not None)


def of_protocols(protocols: tuple[SupportedProtocol, ...]) -> int:
    return sum(PROTOCOL_BYTES + of_words(each.name) + len(each.metadata) for each in protocols)


def of_join(ask: Join, ident: str) -> int:
    """Return the memory in bytes that the member will use under this id, without an assignment."""
    return (
        MEMBER_BYTES
        + of_words(ident, ask.identity.instance, ask.client_id, ask.client_host)
        + of_protocols(ask.protocols)
    )


def of_request(ask: Join) -> int:
    """Return the memory in bytes that a JoinGroup may take: that of the member, and of the group id and the protocol
    type, which a new group keeps."""
    return of_join(ask, ask.identity.member) + of_words(ask.identity.group, ask.protocol_type)
