"""How much who may produce or fetch in a second, and how long whoever took more has to wait before he is served again.

A rate is configured for a user, for a client id, or for both together, by name or for all that have none of their own.
The first of `LEVELS` at which something is said is the one that counts, and whoever it names shares it: a user's rate
is for all of his clients together.

What is taken in one go is never refused, since it cannot be taken apart; it is made up for by waiting. Whoever has
taken nothing for a while may take as much at once as in `burst_ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from attrs import define, frozen

DEFAULT: Final = "<default>"


class Kind(Enum):
    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"


@frozen
class Who:
    user: str
    client: str


Entity = tuple[str | None, str | None]
"""User and client id; None: whichever it is."""

LEVELS: Final[tuple[Callable[[Who], Entity], ...]] = (
    lambda who: (who.user, who.client),
    lambda who: (who.user, DEFAULT),
    lambda who: (who.user, None),
    lambda who: (DEFAULT, who.client),
    lambda who: (DEFAULT, DEFAULT),
    lambda who: (DEFAULT, None),
    lambda who: (None, who.client),
    lambda who: (None, DEFAULT),
)
"""In Kafka's order."""


@frozen
class Limits:
    """burst_ms      what may be taken at once by who has taken nothing
    wait_ms_max   the longest that anybody waits for one request; what is left is added to his next one
    sharers_max   of whom it is remembered what they took
    """

    burst_ms: int = 1_000
    wait_ms_max: int = 30_000
    sharers_max: int = 10_000


@define
class _Debt:
    """What was taken and is not made up for yet, as of a moment."""

    owed: float = 0.0
    at_ms: int = 0

    def left(self, rate: float, now: int) -> float:
        return max(0.0, self.owed - rate * max(now - self.at_ms, 0) / 1000)


class Quotas:
    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._rates: dict[Entity, Mapping[Kind, float]] = {}
        self._debts: dict[tuple[Kind, Entity], _Debt] = {}

    def heard(self, user: str | None, client: str | None, rates: Mapping[Kind, float]) -> None:
        """What is configured from now on; nothing: no rates any more. What was taken before is not forgotten."""
        if rates:
            self._rates[user, client] = dict(rates)
        else:
            self._rates.pop((user, client), None)

    def rate(self, kind: Kind, who: Who) -> float | None:
        found = self._applies(kind, who)
        return None if found is None else found[0]

    def at_once(self, kind: Kind, who: Who) -> int | None:
        """So much at most, or he would wait for longer than need be. None: as much as he likes."""
        rate = self.rate(kind, who)
        return None if rate is None else max(int(rate * self.limits.burst_ms / 1000), 1)

    def took(self, kind: Kind, who: Who, size: int, now: int) -> int:
        """How many milliseconds he has to wait now."""
        found = self._applies(kind, who)
        if found is None:
            return 0
        rate, sharer = found
        debt = self._debts.pop((kind, sharer), None) or _Debt()
        if len(self._debts) >= self.limits.sharers_max:
            # Client ids are made up by clients. Whoever has not taken anything for longest is forgotten.
            del self._debts[next(iter(self._debts))]
        self._debts[kind, sharer] = debt
        debt.owed, debt.at_ms = debt.left(rate, now) + size, max(now, debt.at_ms)
        return self._wait(debt.owed, rate)

    def waits(self, kind: Kind, who: Who, now: int) -> int:
        """The same of who takes nothing more."""
        found = self._applies(kind, who)
        debt = None if found is None else self._debts.get((kind, found[1]))
        return 0 if found is None or debt is None else self._wait(debt.left(found[0], now), found[0])

    def _wait(self, owed: float, rate: float) -> int:
        allowed = rate * self.limits.burst_ms / 1000
        if owed <= allowed:
            return 0
        return min(int((owed - allowed) * 1000 / rate) + 1, self.limits.wait_ms_max)

    def _applies(self, kind: Kind, who: Who) -> tuple[float, Entity] | None:
        """The rate, and who shares it."""
        if not self._rates:
            return None
        for level in LEVELS:
            entity = level(who)
            rate = self._rates.get(entity, {}).get(kind)
            if rate is not None and rate > 0:
                user, client = entity
                return rate, (None if user is None else who.user, None if client is None else who.client)
        return None
