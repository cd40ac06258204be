"""Java's own format of key stores, JKS: keys with their certificates, and trusted certificates.

Operators of ZooKeeper have such files, and the library `cryptography` does not read them. JKS protects keys weakly;
PKCS#12 protects them better. Since Java 9, `keytool` writes PKCS#12 by default, even into files named `.jks`.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from attrs import frozen

from zab.core.errors import WireError
from zab.wire.jute import INT, LONG

MAGIC: Final = b"\xfe\xed\xfe\xed"
ENTRIES_MAX: Final = 10_000

_WHITENER: Final = b"Mighty Aphrodite"
_KEY: Final = 1
_CERTIFICATE: Final = 2
_SEQUENCE: Final = 0x30
_OCTET_STRING: Final = 0x04
_SUNS_PROTECTION: Final = bytes.fromhex("300e060a2b060104012a021101010500")
"""DER of the only algorithm that protects keys in JKS: 1.3.6.1.4.1.42.2.17.1.1, with null parameters."""


@frozen
class KeyEntry:
    """A key in the clear (PKCS#8, DER), and its chain, which begins with the key's own certificate."""

    alias: str
    key: bytes
    chain: tuple[bytes, ...]


@frozen
class Jks:
    """The content of a key store. Certificates are in DER."""

    keys: tuple[KeyEntry, ...]
    trusted: tuple[bytes, ...]


class WrongPassword(WireError):
    """The password is wrong or the file is damaged: the two cannot be told apart."""


class _JksReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self._data) - self._at:
            left = len(self._data) - self._at
            raise WireError(f"at byte {self._at} of the key store: a length of {count}, but {left} bytes remain")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self) -> int:
        (number,) = INT.unpack(self.take(4))
        return int(number)

    def text(self) -> str:
        return self.take(int.from_bytes(self.take(2), "big")).decode("utf-8", "replace")

    def certificate(self, version: int) -> bytes:
        if version == 2 and (kind := self.text()) != "X.509":
            raise WireError(f"a certificate is of kind {kind!r}, not X.509")
        return self.take(self.number())

    @property
    def done(self) -> bool:
        return self._at == len(self._data)


def decode_jks(data: bytes, password: str) -> Jks:
    """Decode a key store: magic, version, entries, and a SHA-1 digest of the password and the preceding bytes.

    Raise `WireError` if the key store is malformed, and `WrongPassword` if the digest or a key does not fit the
    password. With an empty password the digest is not checked. Every length is checked against the bytes present.
    """
    secret = password.encode("utf-16-be", "surrogatepass")
    body, seal = data[:-20], data[-20:]
    if len(data) < 32 or not body.startswith(MAGIC):
        raise WireError("this is not a JKS key store")
    if password and not hmac.compare_digest(hashlib.sha1(secret + _WHITENER + body).digest(), seal):
        raise WrongPassword("the key store does not match its checksum: a wrong password, or a damaged file")
    reader = _JksReader(body)
    reader.take(4)
    version, count = reader.number(), reader.number()
    if version not in (1, 2) or not 0 <= count <= ENTRIES_MAX:
        raise WireError(
            f"the key store has version {version} and {count} entries: version 1 or 2, and 0 to {ENTRIES_MAX} entries, "
            "can be read"
        )
    keys: list[KeyEntry] = []
    trusted: list[bytes] = []
    for _ in range(count):
        kind, alias = reader.number(), reader.text()
        reader.take(LONG.size)  # time of creation
        if kind == _KEY:
            protected = reader.take(reader.number())
            certificates = reader.number()
            if not 0 <= certificates <= ENTRIES_MAX:
                raise WireError(f"a chain has {certificates} certificates; 0 to {ENTRIES_MAX} are allowed")
            chain = tuple(reader.certificate(version) for _ in range(certificates))
            keys.append(KeyEntry(alias, _decrypt_key(protected, secret), chain))
        elif kind == _CERTIFICATE:
            trusted.append(reader.certificate(version))
        else:
            raise WireError(f"an entry has the unknown kind {kind}")
    if not reader.done:
        raise WireError("there are bytes after the last entry")
    return Jks(tuple(keys), tuple(trusted))


def _decrypt_key(protected: bytes, secret: bytes) -> bytes:
    """Return the decrypted key.

    The key is XORed with a stream of SHA-1 digests. Each is made from the password and the digest before it, the first
    from the password and a salt. A SHA-1 digest of the password and the key follows: it reveals a wrong password or a
    change.
    """
    content = _der_content(protected, _SEQUENCE)
    if not content.startswith(_SUNS_PROTECTION):
        raise WireError("a key is protected by an algorithm that JKS does not have")
    content = _der_content(content[len(_SUNS_PROTECTION) :], _OCTET_STRING)
    if len(content) < 40:
        raise WireError("a protected key is cut off")
    link, hidden, seal = content[:20], content[20:-20], content[-20:]
    stream = bytearray()
    while len(stream) < len(hidden):
        link = hashlib.sha1(secret + link).digest()
        stream += link
    key = bytes(a ^ b for a, b in zip(hidden, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), seal):
        raise WrongPassword("a key cannot be decrypted: a wrong password, or a damaged file")
    return key


def _der_content(data: bytes, tag: int) -> bytes:
    """Return the content of `data`, which must be exactly one DER value."""
    if len(data) < 2 or data[0] != tag:
        raise WireError(f"a protected key lacks a value of tag {tag:#x}")
    start, length = 2, data[1]
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(data[2:start], "big")
    if start + length != len(data):
        raise WireError(f"a protected key has a value of {len(data) - start} bytes, but its header announces {length}")
    return data[start:]
