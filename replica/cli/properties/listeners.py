"""The listeners of a broker: addresses, protocols, and the addresses to which clients and brokers connect."""

from __future__ import annotations

from typing import Final

from attrs import evolve, frozen

from replica.cli.properties.keys import PROTOCOLS
from replica.cli.properties.properties_source import PropertiesSource
from replica.cli.properties.security_properties import client_tls, identity_of, principals_of, sasl_of, tls_of
from replica.core.security.principals import Principals
from replica.runtime.configuration.broker_config import CONTROLLER, EVERYWHERE, PLAINTEXT, Listener, Peers
from zab.core.addresses import with_port

LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
PROTOCOL_MAP: Final = "listener.security.protocol.map"
PROTOCOL_MAP_DEFAULT: Final = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"
"""The default, as in Kafka: a listener that is named like a protocol uses it."""
DEFAULT: Final = "PLAINTEXT://:9092"
_FORM: Final = "NAME://host:port"


@frozen
class Address:
    name: str
    host: str
    """The address to bind; empty for all interfaces."""
    port: int


def listeners_of(source: PropertiesSource) -> tuple[tuple[Listener, ...], Listener]:
    """Return the listeners for clients and brokers, and the one for controllers."""
    protocols = _protocols(source)
    bound = _addresses(source, LISTENERS, source.text(LISTENERS, DEFAULT))
    advertised = _addresses(source, ADVERTISED, source.text(ADVERTISED))
    _check_ports(source, list(bound.values()))
    _check_advertised(source, bound, advertised)
    made = [
        _listener(source, each, protocols.get(each.name, each.name), advertised.get(each.name))
        for each in bound.values()
    ]
    clients = tuple(each for each in made if each.name != CONTROLLER)
    if not clients:
        if bound or not source.is_wrong(LISTENERS):
            source.problem(LISTENERS, f"no listener for clients; expected for example {DEFAULT}")
        clients = (Listener(PLAINTEXT, None, 0),)
    for each in made:
        if each.name == CONTROLLER:
            return clients, evolve(each, protocol=PLAINTEXT)
    first = clients[0]
    return clients, Listener(CONTROLLER, first.host, 0, PLAINTEXT, first.advertised_host)


def _listener(source: PropertiesSource, address: Address, protocol: str, advertised: Address | None) -> Listener:
    name = address.name
    if name != CONTROLLER and protocol not in PROTOCOLS:
        source.problem(
            LISTENERS,
            f"the protocol of {name} is unknown; add {name}:PROTOCOL to {PROTOCOL_MAP}: one of {', '.join(PROTOCOLS)}",
        )
    tls = source.attempt(tls_of, name) if protocol.endswith("SSL") else None
    sasl = source.attempt(sasl_of, name) if protocol.startswith("SASL") else None
    principals = source.attempt(principals_of, name) or Principals()
    advertised_host, advertised_port = (None, None) if advertised is None else (advertised.host, advertised.port)
    return Listener(
        name, address.host or None, address.port, protocol, advertised_host, advertised_port, tls, sasl, principals
    )


def _check_ports(source: PropertiesSource, bound: list[Address]) -> None:
    for at, one in enumerate(bound):
        for other in bound[:at]:
            everywhere = one.host in EVERYWHERE or other.host in EVERYWHERE
            if one.port and one.port == other.port and (everywhere or one.host == other.host):
                source.problem(LISTENERS, f"{other.name} and {one.name} both use port {one.port}; each needs its own")


def _check_advertised(source: PropertiesSource, bound: dict[str, Address], advertised: dict[str, Address]) -> None:
    for one in advertised.values():
        if one.host in EVERYWHERE:
            source.problem(
                ADVERTISED,
                f"{one.name}://{with_port(one.host, one.port)} is not an address to connect to; use an address of "
                "this host",
            )
        elif not one.port:
            source.problem(
                ADVERTISED, f"{one.name}: port 0 is not a port to connect to; use the port that clients reach"
            )
    stray = sorted(set(advertised) - set(bound))
    if stray and bound:
        source.problem(ADVERTISED, f"no such listener: {', '.join(stray)}; expected {', '.join(bound)}")
    for at, one in enumerate(listed := list(advertised.values())):
        for other in listed[:at]:
            if (one.host, one.port) == (other.host, other.port):
                source.problem(
                    ADVERTISED,
                    f"{other.name} and {one.name} are both at {with_port(one.host, one.port)}; use different addresses",
                )


def _protocols(source: PropertiesSource) -> dict[str, str]:
    made: dict[str, str] = {}
    for pair in _listed(source.text(PROTOCOL_MAP)):
        name, colon, protocol = (part.strip().upper() for part in pair.partition(":"))
        if not colon or not name or protocol not in PROTOCOLS:
            source.problem(PROTOCOL_MAP, f"{pair!r}: expected NAME:PROTOCOL, with one of {', '.join(PROTOCOLS)}")
        elif made.setdefault(name, protocol) != protocol:
            source.problem(PROTOCOL_MAP, f"{name} is listed twice, as {made[name]} and as {protocol}; remove one")
    return made


def _addresses(source: PropertiesSource, key: str, text: str) -> dict[str, Address]:
    """Parse `NAME://host:port,...`. Listener names are case-insensitive, as in Kafka."""
    made: dict[str, Address] = {}
    if key in source and not _listed(text):
        source.problem(key, f"expected {_FORM}, or several, separated by commas")
    for one in _listed(text):
        name, separator, address = one.partition("://")
        host, colon, port = address.rpartition(":")
        name = name.strip().upper()
        if not name or not separator or not colon or not _is_port(port) or not _is_host(host):
            source.problem(key, f"{one!r}: expected {_FORM}, with a port from 0 to 65535; IPv6 is written [::1]")
        elif name in made:
            source.problem(key, f"listener {name} is listed twice; use different names")
        else:
            made[name] = Address(name, host.strip("[]"), int(port))
    return made


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= 65_535


def _is_host(text: str) -> bool:
    if text.startswith("["):
        return text.endswith("]") and ":" in text
    return ":" not in text and not any(letter.isspace() or letter in "/[]" for letter in text)


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def inter_broker_of(source: PropertiesSource, listeners: tuple[Listener, ...]) -> str | None:
    """Return the name of the listener at which brokers fetch from each other; None if a problem with the settings was
    recorded."""
    by_name, by_protocol = "inter.broker.listener.name", "security.inter.broker.protocol"
    key = by_name if by_name in source or by_protocol not in source else by_protocol
    if by_name in source and by_protocol in source:
        source.problem(by_protocol, f"{by_name} sets the same; remove one of them")
        return None
    if key in source:
        source.value(key, "")
        if source.is_wrong(key):
            return None
    wanted = source.text(key).upper()
    named = [each for each in listeners if wanted in ("", each.name if key == by_name else each.protocol)]
    if not named:
        there = (f"{each.name} with protocol {each.protocol}" for each in listeners)
        if not source.is_wrong(LISTENERS):
            source.problem(key, f"no such listener; expected {'; '.join(there)}")
        return None
    return named[0].name


def between_of(
    source: PropertiesSource, clients: tuple[Listener, ...], inter_broker: str | None, controller: Listener
) -> tuple[Peers, Listener, Peers]:
    """Return how brokers connect to each other, the listener for controllers, and how controllers connect.

    Without settings of its own, the listener for controllers has those of the inter-broker listener.
    """
    found = next((each for each in clients if each.name == inter_broker), None)
    if found is None:
        return Peers(), controller, Peers()
    peers = source.attempt(_peers, found) or Peers()
    own = _protocols(source).get(CONTROLLER)
    if own is None:
        closed = evolve(
            controller, protocol=found.protocol, tls=found.tls, sasl=found.sasl, principals=found.principals
        )
        return peers, closed, peers
    closed = _listener(source, Address(CONTROLLER, controller.host or "", controller.port), own, None)
    closed = evolve(closed, advertised_host=controller.advertised_host, advertised_port=controller.advertised_port)
    return peers, closed, source.attempt(_peers, closed) or Peers()


def _peers(source: PropertiesSource, listener: Listener) -> Peers:
    return Peers(
        client_tls(source.at(listener.name)) if listener.protocol.endswith("SSL") else None,
        identity_of(source, listener.name) if listener.protocol.startswith("SASL") else None,
    )
