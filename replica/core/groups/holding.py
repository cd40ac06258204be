"""What members keep in memory here, counted: whoever says much and hangs up stays a member for a whole session.

Each group counts what its members hold into one ledger, at the moment in which it changes: so the sum of all of
them is there when it is asked for.
"""

from __future__ import annotations

from typing import Final

from attrs import define

from replica.core.groups.messages import Join, Offer

CHARACTER_BYTES: Final = 4
"""A text with one rare character in it needs so much for each of them."""
OFFER_BYTES: Final = 256
MEMBER_BYTES: Final = 2_048
"""What one needs beside what it says: else millions of empty ones would be free."""


@define(eq=False)
class Ledger:
    """What all members of all groups that count into it hold."""

    bytes: int = 0


def of_words(*words: str | None) -> int:
    return CHARACTER_BYTES * sum(len(word) for word in words if word is not None)


def of_offers(offers: tuple[Offer, ...]) -> int:
    return sum(OFFER_BYTES + of_words(offer.name) + len(offer.metadata) for offer in offers)


def of_join(ask: Join, ident: str) -> int:
    """What there will be of it, once it is a member under this id and nothing is assigned to it."""
    return MEMBER_BYTES + of_words(ident, ask.who.instance, ask.client_id, ask.client_host) + of_offers(ask.offers)


def of_request(ask: Join) -> int:
    """All that it says, of which its group may keep the name and the protocol type."""
    return of_join(ask, ask.who.member) + of_words(ask.who.group, ask.protocol_type)
