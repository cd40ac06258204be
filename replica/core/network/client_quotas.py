"""Client quotas: the rates of producers and consumers, and the waiting time of a client that exceeds its rate.

A rate is configured for a user, for a client id, or for both, by name or as a default. The rate of the first matching
level in `LEVELS` applies. A user's rate limits all clients of that user together; a client id's rate limits all clients
with that id together. A default gives each user or client id a rate of its own.

A request is executed even if it exceeds the rate; the client waits afterwards. A client that was idle may use as much
at once as its rate allows in `burst_ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from attrs import define, frozen


class _Default(Enum):
    DEFAULT = "<default>"


DEFAULT: Final = _Default.DEFAULT
"""Stands for each user or client id without a quota of its own. It is no string: a user may have any name."""


class QuotaType(Enum):
    """The types of client quotas, by configuration key."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"


@frozen
class QuotaClient:
    """The user and client id of a request."""

    user: str
    client: str


Name = str | _Default | None
Entity = tuple[Name, Name]
"""User and client id of a quota. None: all users or client ids share the rate. `DEFAULT`: each has the rate for
itself."""

LEVELS: Final[tuple[Callable[[QuotaClient], Entity], ...]] = (
    lambda client: (client.user, client.client),
    lambda client: (client.user, DEFAULT),
    lambda client: (client.user, None),
    lambda client: (DEFAULT, client.client),
    lambda client: (DEFAULT, DEFAULT),
    lambda client: (DEFAULT, None),
    lambda client: (None, client.client),
    lambda client: (None, DEFAULT),
)
"""The levels of quotas, in Kafka's order of precedence."""


@frozen
class ClientQuotaLimits:
    """The limits of bursts, waits and tracked entities."""

    burst_ms: int = 1_000
    """An idle client may use as much at once as its rate allows in this time."""
    wait_ms_max: int = 30_000
    """The longest wait after one request. The remainder is added to the next wait."""
    sharers_max: int = 10_000
    """The maximum number of entities whose use is tracked. An entity counts once for each type of quota."""


@define
class _Debt:
    """The bytes that an entity has used beyond its rate, as of `at_ms`."""

    owed: float = 0.0
    at_ms: int = 0

    def left(self, rate: float, now: int) -> float:
        return max(0.0, self.owed - rate * max(now - self.at_ms, 0) / 1000)


class ClientQuotaManager:
    """Applies the configured rates to clients, as Kafka's class of this name."""

    def __init__(self, limits: ClientQuotaLimits | None = None) -> None:
        self.limits = limits or ClientQuotaLimits()
        self._rates: dict[Entity, Mapping[QuotaType, float]] = {}
        self._debts: dict[tuple[QuotaType, Entity], _Debt] = {}

    def update(self, user: Name, client: Name, rates: Mapping[QuotaType, float]) -> None:
        """Set the rates of an entity; an empty mapping removes them. The recorded use is kept."""
        if rates:
            self._rates[user, client] = dict(rates)
        else:
            self._rates.pop((user, client), None)

    def rate(self, kind: QuotaType, client: QuotaClient) -> float | None:
        found = self._applies(kind, client)
        return None if found is None else found[0]

    def request_bytes_max(self, kind: QuotaType, client: QuotaClient) -> int | None:
        """Return the size of the largest request that causes no wait for an idle client; None: unlimited."""
        rate = self.rate(kind, client)
        return None if rate is None else max(int(rate * self.limits.burst_ms / 1000), 1)

    def record(self, kind: QuotaType, client: QuotaClient, size: int, now: int) -> int:
        """Record the use of `size` bytes. Return how many milliseconds the client must wait."""
        found = self._applies(kind, client)
        if found is None:
            return 0
        rate, sharer = found
        debt = self._debts.pop((kind, sharer), None) or _Debt()
        if len(self._debts) >= self.limits.sharers_max:
            # Clients may invent client ids, so the number of entities is limited: drop the one that was idle longest.
            del self._debts[next(iter(self._debts))]
        self._debts[kind, sharer] = debt
        debt.owed, debt.at_ms = debt.left(rate, now) + size, max(now, debt.at_ms)
        return self._wait(debt.owed, rate)

    def throttle_ms(self, kind: QuotaType, client: QuotaClient, now: int) -> int:
        """Return how many milliseconds the client must wait for its earlier use."""
        found = self._applies(kind, client)
        debt = None if found is None else self._debts.get((kind, found[1]))
        return 0 if found is None or debt is None else self._wait(debt.left(found[0], now), found[0])

    def _wait(self, owed: float, rate: float) -> int:
        allowed = rate * self.limits.burst_ms / 1000
        if owed <= allowed:
            return 0
        return min(int((owed - allowed) * 1000 / rate) + 1, self.limits.wait_ms_max)

    def _applies(self, kind: QuotaType, client: QuotaClient) -> tuple[float, Entity] | None:
        """Return the rate, and the entity that shares it; None if no rate applies."""
        if not self._rates:
            return None
        for level in LEVELS:
            entity = level(client)
            rate = self._rates.get(entity, {}).get(kind)
            if rate is not None and rate > 0:
                user, client_id = entity
                return rate, (None if user is None else client.user, None if client_id is None else client.client)
        return None
