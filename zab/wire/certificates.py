"""The subject and the validity of a certificate, read by the library `cryptography`.

ZooKeeper compares identities of the scheme x509 letter by letter, so a subject must be written exactly as Java's
`X500Principal.getName` writes it: the last RDN comes first; nine attribute types have names; the other types are
numbers, with the value in hexadecimal; text of every kind is decoded as UTF-8.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

from zab.core.errors import ConfigError, WireError

if TYPE_CHECKING:
    from cryptography import x509

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
_TEXT_TAGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1C, 0x1E})
"""The DER tags that Java takes for text. Java decodes all of them as UTF-8, even BMPString, which is UTF-16."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')


def require_library() -> None:
    """Raise `ConfigError` if `cryptography` is missing. Call this before the first client can show a certificate."""
    try:
        import cryptography.x509  # noqa: F401
    except ImportError as error:
        raise ConfigError("reading certificates needs the package `cryptography`: pip install 'zab[tls]'") from error


def subject_of(certificate: bytes) -> str:
    """Return the subject of a DER certificate, written as in Java. Raise `WireError` if it cannot be read."""
    try:
        with warnings.catch_warnings():  # the library warns of lengths that Java and OpenSSL accept
            warnings.simplefilter("ignore")
            return ",".join("+".join(map(_attribute, rdn)) for rdn in reversed(_load(certificate).subject.rdns))
    except Exception as error:  # the library has no common class for its errors
        raise WireError(f"its subject cannot be read: {error}") from error


def validity_of(certificate: bytes) -> tuple[int, int]:
    """Return the start and the end of a certificate's validity, in seconds since 1970.

    Raise `WireError` if they cannot be read.
    """
    try:
        loaded = _load(certificate)
        return int(loaded.not_valid_before_utc.timestamp()), int(loaded.not_valid_after_utc.timestamp())
    except Exception as error:
        raise WireError(f"its validity cannot be read: {error}") from error


def _load(certificate: bytes) -> x509.Certificate:
    from cryptography import x509

    return x509.load_der_x509_certificate(certificate)


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    number = attribute.oid.dotted_string
    name = _NAMES.get(number)
    encoding = _value_encoding(attribute)
    if name is None or encoding[0] not in _TEXT_TAGS:
        return f"{name or number}=#{encoding.hex()}"
    return f"{name}={_escaped(encoding[_header_bytes(encoding) :].decode('utf-8', 'replace'))}"


def _value_encoding(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    """Return the DER encoding of an attribute's value.

    The library can encode only a whole name: three headers, the attribute's type, and the value. Everything before the
    value is cut off.
    """
    from cryptography import x509

    rest = x509.Name([attribute]).public_bytes()
    for _ in ("name", "set", "attribute"):
        rest = rest[_header_bytes(rest) :]
    return rest[2 + rest[1] :]


def _header_bytes(encoding: bytes) -> int:
    """Return the size of a DER value's tag and length."""
    return 2 + (encoding[1] & 0x7F if encoding[1] & 0x80 else 0)


def _escaped(text: str) -> str:
    inner = text.strip(" \r")
    lead = text[: len(text) - len(text.lstrip(" \r"))] if inner else text
    trail = text[len(lead) + len(inner) :]
    middle = "".join(f"\\{char}" if char in _ESCAPED else "\\00" if char == "\0" else char for char in inner)
    return "".join(f"\\{char}" for char in lead) + middle + "".join(f"\\{char}" for char in trail)
