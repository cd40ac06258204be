"""The addresses of brokers. Each link between brokers, from clients or to the store has a proxy of its own.

In the fabric of the proxies, a broker has one number for its data links, and another for the commands of controllers.
So a fault can cut it off from other brokers, controllers, clients or the store separately.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import trio

from harness.worlds.processes.addresses import CLIENT_PORT, Addresses
from harness.worlds.processes.nemesis import Way, both_ways
from harness.worlds.processes.proxy import Address, Fabric, Proxy

BROKERS: Final = 100
"""The base of broker numbers in the fabric."""
CONTROL: Final = 500
"""The base of the numbers that brokers have for commands of controllers."""
CLIENTS: Final = 250
CLIENTS_PORT: Final = 22_092
BROKERS_PORT: Final = 22_093
CONTROL_PORT: Final = 22_094


def name_of(broker: int) -> str:
    return f"b{broker}"


class Links:
    def __init__(self, addresses: Addresses, network: Fabric, brokers: int, servers: range) -> None:
        self.brokers = range(1, brokers + 1)
        self.servers = servers
        self._addresses = addresses
        self._network = network

    # -- addresses -----------------------------------------------------------------------------------

    def own(self, broker: int) -> str:
        return self._addresses.own(BROKERS + broker)

    def _proxy_address(self, by: int, sid: int) -> str:
        found = self._addresses.proxy_address(by, sid)
        assert found is not None, "proxies are on loopback"
        return found

    def for_clients(self, broker: int) -> str:
        return self._proxy_address(CLIENTS, BROKERS + broker)

    def store(self, broker: int) -> str:
        """Return the connection string of the store for this broker."""
        return ",".join(f"{self._proxy_address(BROKERS + broker, sid)}:{CLIENT_PORT}" for sid in self.servers)

    def names(self, broker: int) -> dict[str, str]:
        """Return the addresses of all brokers, itself included, for this broker."""
        return {
            name_of(each): self.own(each) if each == broker else self._proxy_address(BROKERS + broker, BROKERS + each)
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
                    host = self._proxy_address(BROKERS + one, BROKERS + other)
                    for base, port in ((BROKERS, BROKERS_PORT), (CONTROL, CONTROL_PORT)):
                        yield Proxy(network, base + one, base + other, (self.own(other), port)), host, port
            for sid in self.servers:
                address = (self._addresses.own(sid), CLIENT_PORT)
                yield Proxy(network, BROKERS + one, sid, address), self._proxy_address(BROKERS + one, sid), CLIENT_PORT

    # -- links that a fault blocks -------------------------------------------------------------------

    def to_store(self, broker: int) -> list[Way]:
        return both_ways(BROKERS + broker, self.servers)

    def to_control(self, broker: int) -> list[Way]:
        return both_ways(CONTROL + broker, (CONTROL + each for each in self.brokers))

    def to_data(self, broker: int) -> list[Way]:
        return both_ways(BROKERS + broker, (CLIENTS, *(BROKERS + each for each in self.brokers)))

    def between(self, one: int, other: int) -> list[Way]:
        return [*both_ways(BROKERS + one, [BROKERS + other]), *both_ways(CONTROL + one, [CONTROL + other])]

    def sent_by(self, broker: int) -> list[Way]:
        return [way for way in self.to_data(broker) if way[0] == BROKERS + broker]
