"""Who reaches whom, by which address: every way leads through a proxy of its own.

To the fabric of the proxies a broker is a number behind those of the servers, and another one where it hears and gives
orders. So it can be cut off from other brokers, from controllers, from clients and from the store, each by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from harness.worlds.processes.places import CLIENT_PORT, Places
from harness.worlds.processes.proxy import Address, Fabric, Proxy

if TYPE_CHECKING:
    import trio

BROKERS: Final = 100
"""Where the numbers of brokers begin."""
ORDERS: Final = 500
"""Where their numbers begin as those who give orders and hear them."""
CLIENTS: Final = 250
CLIENTS_PORT: Final = 22_092
BROKERS_PORT: Final = 22_093
ORDERS_PORT: Final = 22_094

Way = tuple[int, int]


def name_of(broker: int) -> str:
    return f"b{broker}"


def both(one: int, others: Iterable[int]) -> list[Way]:
    return [way for other in others if other != one for way in ((one, other), (other, one))]


class Wires:
    def __init__(self, places: Places, network: Fabric, brokers: int, servers: range) -> None:
        self.brokers = range(1, brokers + 1)
        self.servers = servers
        self._places = places
        self._network = network

    # -- addresses -----------------------------------------------------------------------------------

    def own(self, broker: int) -> str:
        return self._places.own(BROKERS + broker)

    def _seen(self, by: int, sid: int) -> str:
        found = self._places.seen(by, sid)
        assert found is not None, "proxies are on loopback"
        return found

    def for_clients(self, broker: int) -> str:
        return self._seen(CLIENTS, BROKERS + broker)

    def store(self, broker: int) -> str:
        """As this broker reaches it."""
        return ",".join(f"{self._seen(BROKERS + broker, sid)}:{CLIENT_PORT}" for sid in self.servers)

    def names(self, broker: int) -> dict[str, str]:
        """As this broker is to find the others, and itself."""
        return {
            name_of(each): self.own(each) if each == broker else self._seen(BROKERS + broker, BROKERS + each)
            for each in self.brokers
        }

    @property
    def bootstrap(self) -> list[Address]:
        return [(self.for_clients(broker), CLIENTS_PORT) for broker in self.brokers]

    # -- proxies -------------------------------------------------------------------------------------

    async def open(self, nursery: trio.Nursery) -> None:
        for proxy, host, port in self._proxies():
            await proxy.listen(host, port)
            nursery.start_soon(proxy.run)

    def _proxies(self) -> Iterator[tuple[Proxy, str, int]]:
        network = self._network
        for one in self.brokers:
            address = (self.own(one), CLIENTS_PORT)
            yield Proxy(network, CLIENTS, BROKERS + one, address), self.for_clients(one), CLIENTS_PORT
            for other in self.brokers:
                if other != one:
                    host = self._seen(BROKERS + one, BROKERS + other)
                    for base, port in ((BROKERS, BROKERS_PORT), (ORDERS, ORDERS_PORT)):
                        yield Proxy(network, base + one, base + other, (self.own(other), port)), host, port
            for sid in self.servers:
                address = (self._places.own(sid), CLIENT_PORT)
                yield Proxy(network, BROKERS + one, sid, address), self._seen(BROKERS + one, sid), CLIENT_PORT

    # -- ways that a fault closes --------------------------------------------------------------------

    def to_store(self, broker: int) -> list[Way]:
        return both(BROKERS + broker, self.servers)

    def to_orders(self, broker: int) -> list[Way]:
        return both(ORDERS + broker, (ORDERS + each for each in self.brokers))

    def to_data(self, broker: int) -> list[Way]:
        return both(BROKERS + broker, (CLIENTS, *(BROKERS + each for each in self.brokers)))

    def between(self, one: int, other: int) -> list[Way]:
        return [*both(BROKERS + one, [BROKERS + other]), *both(ORDERS + one, [ORDERS + other])]

    def said_by(self, broker: int) -> list[Way]:
        return [way for way in self.to_data(broker) if way[0] == BROKERS + broker]
