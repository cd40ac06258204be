"""The valid ids of each ACL scheme, and the identities that they match: exactly as in ZooKeeper's Java code.

If this store and ZooKeeper disagreed about an ACL, a client could not move between them. This module therefore follows
the oddities of Java's parsers: `a:b:` is a digest id, `+8` is a number of bits, and an X.500 name may be empty but may
not contain an attribute name that Java does not know.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

# -- digest and sasl -----------------------------------------------------------------------------------

_PRINCIPAL: Final = re.compile(r"[^/@]*(/[^/@]*)?@[^/@]*|[^@]*")


def digest_is_valid(name: str) -> bool:
    """Return whether the id has two parts, with a colon between them. Empty parts at the end do not count."""
    return len(name.rstrip(":").split(":")) == 2


def sasl_is_valid(name: str) -> bool:
    """Return whether this is a Kerberos name, or any name without an @."""
    return _PRINCIPAL.fullmatch(name) is not None


def sasl_matches(name: str, identity: str, any_user: str | None) -> bool:
    return identity in (name, "super") or (any_user is not None and name == any_user)


# -- addresses -----------------------------------------------------------------------------------------

_NUMBER: Final = re.compile(r"[+-]?\d{1,100}")
_HEXADECIMAL: Final = re.compile(r"[+-]?[\da-fA-F]+")


def _number(text: str) -> int:
    """Parse as `Integer.parseInt` does, but accept up to 100 digits; return -1 if the text is not such a number."""
    if not _NUMBER.fullmatch(text):
        return -1
    return int(text)


def _v4(address: str) -> bytes | None:
    parts = [_number(part) for part in address.split(".")]
    return bytes(parts) if len(parts) == 4 and all(0 <= part <= 255 for part in parts) else None


def _v6(address: str) -> bytes | None:
    halves = address.split("::")
    if len(halves) > 2:
        return None
    head, tail = ([] if len(halves) == 2 and not half else half.split(":") for half in (halves[0], halves[-1]))
    if len(halves) == 1:
        tail = []
    count = len(head) + len(tail)
    if count != 8 if len(halves) == 1 else count >= 8:
        return None
    if not all(len(part) <= 4 and _HEXADECIMAL.fullmatch(part) for part in (*head, *tail)):
        return None
    words = [int(part, 16) & 0xFFFF for part in (*head, *["0"] * (8 - count), *tail)]
    return b"".join(word.to_bytes(2, "big") for word in words)


def _address(text: str) -> bytes | None:
    return _v6(text) if ":" in text else _v4(text)


def _network(name: str) -> tuple[bytes, int] | None:
    text, slash, bits = name.partition("/")
    address = _address(text)
    if address is None:
        return None
    most = len(address) * 8
    count = _number(bits) if slash else most
    return (address, count) if 0 <= count <= most else None


def ip_is_valid(name: str) -> bool:
    return _network(name) is not None


@lru_cache(1 << 12)
def ip_matches(name: str, identity: str) -> bool:
    network, address = _network(name), _address(identity)
    if network is None or address is None or len(network[0]) != len(address):
        return False
    shift = len(address) * 8 - network[1]
    return int.from_bytes(network[0], "big") >> shift == int.from_bytes(address, "big") >> shift


def network_of(name: str) -> tuple[int, int, int] | None:
    """Return (bits of an address, bits after the prefix, the prefix); None if this is no address and no network."""
    network = _network(name)
    if network is None:
        return None
    address, count = network
    width = len(address) * 8
    return width, width - count, int.from_bytes(address, "big") >> (width - count)


@lru_cache(1 << 12)
def address_of(identity: str) -> tuple[int, int] | None:
    """Return (bits, value) of an address, or None if this is not an address."""
    address = _address(identity)
    return None if address is None else (len(address) * 8, int.from_bytes(address, "big"))


def host_id(host: str) -> str:
    """Return an address as Java writes it, because ACLs made by ZooKeeper and replies to `whoAmI` use that form.

    Return any other text unchanged.
    """
    address = _v6(host.partition("%")[0])
    if address is None:
        mapped = host.removeprefix("::ffff:")
        return mapped if _v4(mapped) is not None else host
    return ":".join(f"{int.from_bytes(address[at : at + 2], 'big'):x}" for at in range(0, 16, 2))


# -- X.500 names ---------------------------------------------------------------------------------------

_ATTRIBUTES: Final = frozenset({
    "C", "CN", "DC", "DNQ", "DNQUALIFIER", "EMAIL", "EMAILADDRESS", "GENERATION", "GIVENNAME",
    "INITIALS", "IP", "L", "O", "OU", "S", "SERIALNUMBER", "ST", "STREET", "SURNAME", "T", "UID",
})  # fmt: skip
_OID: Final = re.compile(r"([01]\.[1-3]?\d|2\.(0|[1-9]\d*))(\.(0|[1-9]\d*))*", re.ASCII)
_AVA: Final = re.compile(
    r"""
    (?P<type> [^=]*+ ) =
    [ \n]*+
    (?: \#(?P<hex> ([0-9a-fA-F]{2})++)
      | "(?: [^"\\] | \\[0-9a-fA-F]{2} | \\[,=+<>\#;\\"\ \n] )*+" [ \n]*+
      | (?!\#) (?: [^,;+"\\<>] | \\[0-9a-fA-F]{2} | \\[,=+<>\#;\\"\ \n] )*+
    )
    (?P<end> [,;+] | \Z )
    """,
    re.VERBOSE | re.DOTALL,
)


def x509_is_valid(name: str) -> bool:
    """Return whether the name is empty, or a list of `attribute=value` whose attributes Java knows."""
    if not name:
        return True
    at = 0
    while True:
        match = _AVA.match(name, at)
        if match is None or not _attribute_is_known(match["type"].strip()):
            return False
        if match["hex"] is not None and not _is_der(bytes.fromhex(match["hex"])):
            return False
        at = match.end()
        if not match["end"]:
            return True


def _is_der(value: bytes) -> bool:
    """Return whether this is exactly one DER value: a tag, a length, and content of that length.

    Java's `X500Principal` makes the same check for a value in hexadecimal, and does not decode the content.
    """
    if len(value) < 2:
        return False
    length, start = value[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(value[2:start], "big")
    return len(value) == start + length


def _attribute_is_known(text: str) -> bool:
    text = text.upper()
    return text in _ATTRIBUTES or _OID.fullmatch(text.removeprefix("OID.")) is not None
