"""Bound the passwords that one address may guess: a pause before each failure is reported, and few pauses at a time.

Each failure of an address doubles the pause that the next one costs, up to a bound, and time halves it again. The pause
belongs to the address and not to the connection: a client that hangs up without waiting for the report still occupies
one of the few places of its address until the pause ends. While all places are occupied, no credentials from that
address are checked. So an address makes `waiting_max` guesses in `pause_ms_max`, however many connections it opens.

A right password never waits: only failures cost a pause, and connections that are logged in are not affected. A new
login from an address whose places are all occupied is cut off unchecked, which clients take for a network error and
try again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from ipaddress import IPv6Address
from math import log2
from typing import Final

from attrs import define, frozen

from zab.core.addresses import address_of
from zab.core.settings_checks import check_settings

_NETWORK_BITS: Final = 64
"""The bits of an IPv6 address that name its network: one host may choose the rest."""


@frozen
class FailedLoginSettings:
    """
    pause_ms, pause_ms_max  between a failed login and its report: for the first failure of an address, and for its
                            later ones at most; `pause_ms` 0: no pause, and no bound on guesses
    forget_ms               time that undoes one doubling of the pause
    waiting_max             pauses of one address at one time
    addresses_max           addresses that are remembered; the one that has not failed for longest is forgotten first
    """

    pause_ms: int = 100
    pause_ms_max: int = 5_000
    forget_ms: int = 10_000
    waiting_max: int = 8
    addresses_max: int = 10_000

    def __attrs_post_init__(self) -> None:
        check_settings(self, {"pause_ms": 0, "pause_ms_max": 0})


@define
class _Failures:
    """places     when each running pause ends
    doublings  of the pause at `at_ms`
    """

    places: deque[float]
    at_ms: float
    doublings: float = 0.0


class FailedLogins:
    """The failures of all addresses; times are milliseconds of any clock that never goes back."""

    def __init__(self, settings: FailedLoginSettings | None = None) -> None:
        self._settings = settings = settings or FailedLoginSettings()
        self._doublings_max = log2(max(settings.pause_ms_max / settings.pause_ms, 1)) if settings.pause_ms else 0.0
        self._of: OrderedDict[str, _Failures] = OrderedDict()
        """The address that has not failed for longest is first."""

    def __len__(self) -> int:
        return len(self._of)

    def may_try(self, host: str, now_ms: float) -> bool:
        """Return whether credentials from `host` may be checked now; if not, cut the connection."""
        failures = self._of.get(network_of(host))
        if failures is None:
            return True
        while failures.places and failures.places[0] <= now_ms:
            failures.places.popleft()
        return len(failures.places) < self._settings.waiting_max

    def failed(self, host: str, now_ms: float) -> float:
        """Count a failure; return the milliseconds to wait before it is reported."""
        settings, network = self._settings, network_of(host)
        if not settings.pause_ms:
            return 0.0
        failures = self._of.get(network)
        if failures is None:
            failures = self._of[network] = _Failures(deque(maxlen=settings.waiting_max), now_ms)
            while len(self._of) > settings.addresses_max:
                self._of.popitem(last=False)
        self._of.move_to_end(network)
        forgotten = (now_ms - failures.at_ms) / settings.forget_ms
        doublings = max(failures.doublings - forgotten, 0.0)
        pause_ms: float = settings.pause_ms * 2.0**doublings
        failures.at_ms, failures.doublings = now_ms, min(doublings + 1, self._doublings_max)
        ends = now_ms + pause_ms
        if failures.places:  # the pauses of an address end in the order in which they began
            ends = max(ends, failures.places[-1])
        failures.places.append(ends)
        return ends - now_ms


def network_of(host: str) -> str:
    """Return the network that counts as one client: an IPv4 address, or the first 64 bits of an IPv6 address."""
    address = address_of(host.partition("%")[0])
    if address is None:
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Address(int(address) >> (128 - _NETWORK_BITS) << (128 - _NETWORK_BITS))) + f"/{_NETWORK_BITS}"
