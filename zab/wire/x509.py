"""Whom a certificate is for, in the words of ZooKeeper's Java: ids of the scheme x509 are compared letter by letter.

RFC 2253 leaves a choice in how a name is written. Java's `X500Principal.getName` has made it: a handful of
attributes by their names, all others by number and in hexadecimal; the last comes first.
"""

from __future__ import annotations

import re
from calendar import monthrange, timegm
from typing import Final

from zab.core.errors import WireError
from zab.wire.der import OID, SEQUENCE, SET, TIME, UTC_TIME, Value, dotted, expect, parse

_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_TIME: Final = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})Z")
_TEXT: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E})
"""The kinds of text that there are. Whatever kind it is, Java reads it as UTF-8, even where it is not."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_VERSION: Final = 0xA0


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER."""
    return name_of(_fields(certificate)[4])


def validity_of(certificate: bytes) -> tuple[int, int]:
    """Since when and until when it counts, in seconds since 1970."""
    begins, ends = _two(_fields(certificate)[3])
    return _time(begins), _time(ends)


def _fields(certificate: bytes) -> list[Value]:
    """Serial number, algorithm, issuer, validity, subject, and what comes behind them."""
    signed = next(expect(parse(certificate), SEQUENCE).parts(), None)
    if signed is None:
        raise WireError("a certificate of nothing")
    fields = [field for field in expect(signed, SEQUENCE).parts() if field.tag != _VERSION]
    if len(fields) < 5:
        raise WireError("a certificate without a subject")
    return fields


def _time(value: Value) -> int:
    """A year of two digits is one of 1950 to 2049."""
    text = value.content.decode("ascii", "replace")
    if value.tag == UTC_TIME:
        text = ("19" if text >= "50" else "20") + text
    elif value.tag != TIME:
        raise WireError(f"a time of kind {value.tag:#x}")
    found = _TIME.fullmatch(text)
    if found is not None:
        year, month, day, hour, minute, second = map(int, found.groups())
        if year and 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1] and hour < 24 and minute < 60:
            return timegm((year, month, day, hour, minute, second))
    raise WireError(f"{text!r} is no time of a certificate")


def name_of(name: Value) -> str:
    relative = ["+".join(map(_attribute, expect(one, SET).parts())) for one in expect(name, SEQUENCE).parts()]
    return ",".join(reversed(relative))


def _attribute(pair: Value) -> str:
    kind, value = _two(pair)
    number = dotted(expect(kind, OID).content)
    word = _NAMES.get(number)
    if word is None or value.tag not in _TEXT:
        return f"{word or number}=#{value.whole.hex()}"
    return f"{word}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _two(pair: Value) -> tuple[Value, Value]:
    parts = list(expect(pair, SEQUENCE).parts())
    if len(parts) != 2:
        raise WireError(f"an attribute of {len(parts)} parts")
    return parts[0], parts[1]


def _escaped(text: str) -> str:
    inner = text.strip(" \r")
    lead = text[: len(text) - len(text.lstrip(" \r"))] if inner else text
    trail = text[len(lead) + len(inner) :]
    middle = "".join(f"\\{char}" if char in _ESCAPED else "\\00" if char == "\0" else char for char in inner)
    return "".join(f"\\{char}" for char in lead) + middle + "".join(f"\\{char}" for char in trail)
