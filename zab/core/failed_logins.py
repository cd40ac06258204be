"""Limit password guessing per client address: delay each report of a failure, and limit the delays that run at once.

Each failed login from an address doubles the pause after its next failure, up to a bound; each `forget_ms` without a
failure halves it again. The pause belongs to the address and not to the connection: if the client hangs up before the
pause ends, the pause still occupies one of the `waiting_max` places of its address. While all places are occupied, the
server refuses further logins from that address without checking them. So once the pause of an address has grown to
`pause_ms_max`, the address makes hardly more than `waiting_max` guesses per `pause_ms_max`, however many connections it
opens.

The client port refuses such a login by closing the connection; the client takes this for a network error and tries
again. The admin port replies with the status 429. There is one exception: the client port always checks digest
credentials without the super user's name, because the digest scheme accepts any other name with any password.

A successful login costs no pause, and connections that are logged in are not affected. The admin port counts a caller
without the required permission as a failed login, even if the password is correct.

IPv6 addresses with the same first 64 bits count as one address.
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
"""The length of the network prefix of an IPv6 address: one host can choose all other bits."""


@frozen
class FailedLoginSettings:
    """The pauses after failed logins, and their bounds.

    pause_ms       the delay of the reply to an address's first failed login; 0: no delay, no bound on guesses
    pause_ms_max   the longest pause; without effect if it is less than `pause_ms`
    forget_ms      the time without a failure that halves the pause of an address
    waiting_max    the number of pauses that one address may have at the same time
    addresses_max  the number of remembered addresses; the address with the oldest last failure is forgotten first
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
    """The failures of one address.

    places     the end times of the last pauses, ascending; ended pauses stay until `may_try` removes them
    at_ms      the time of the last failure
    doublings  the number of doublings of the next pause, before any are forgotten; it may be a fraction
    """

    places: deque[float]
    at_ms: float
    doublings: float = 0.0


class FailedLogins:
    """The failures of all addresses. Times are milliseconds of a monotonic clock."""

    def __init__(self, settings: FailedLoginSettings | None = None) -> None:
        self._settings = settings = settings or FailedLoginSettings()
        self._doublings_max = log2(max(settings.pause_ms_max / settings.pause_ms, 1)) if settings.pause_ms else 0.0
        self._of: OrderedDict[str, _Failures] = OrderedDict()
        """The failures of each address. The address with the oldest last failure is first."""

    def __len__(self) -> int:
        return len(self._of)

    def may_try(self, host: str, now_ms: float) -> bool:
        """Return whether credentials from `host` may be checked now. If not, refuse the login unchecked."""
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
    """Return the network that counts as one client: an IPv4 address, an IPv6 prefix of 64 bits, or else `host`.

    An IPv4 address that is mapped into IPv6 counts as the IPv4 address.
    """
    address = address_of(host.partition("%")[0])
    if address is None:
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Address(int(address) >> (128 - _NETWORK_BITS) << (128 - _NETWORK_BITS))) + f"/{_NETWORK_BITS}"
