"""Load key stores and trust stores, in PEM, JKS or PKCS#12, into contexts of Python's `ssl`.

The content determines the format, not the name: since Java 9 a `.jks` file usually contains PKCS#12. An error names the
file. A key that was encrypted in its store is not written to a disk in clear text, if the system supports files
in memory.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from zab.core.argument_names import checks_arguments
from zab.core.errors import ConfigError, WireError
from zab.wire.jks import MAGIC, Jks, decode_jks

STORE_BYTES_MAX: Final = 16 << 20
TYPES: Final = frozenset({"JKS", "PEM", "PKCS12"})

_BEGIN: Final = b"-----BEGIN "
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_CERTIFICATE_ENDS: Final = b"-----END CERTIFICATE-----"
_JCEKS: Final = b"\xce\xce\xce\xce"
_NO_PASSWORD: Final = "the key is encrypted, and cannot be decrypted without a password"
_CONVERT: Final = "keytool -importkeystore -srckeystore {path} -destkeystore store.p12 -deststoretype PKCS12"


@checks_arguments
@frozen
class StoreFile:
    """A file with a key and its certificates, or with the certificates that are trusted, in PEM, JKS or PKCS#12.

    The file's content determines its format; `type` is only checked to be one of these, in upper or lower case. All
    methods raise `ConfigError`, which names the file, if it cannot be used.

    path      the file
    password  decrypts the key, or the whole file; None: nothing is encrypted
    """

    path: str
    password: str | None = field(default=None, repr=False)
    type: str | None = None

    def __attrs_post_init__(self) -> None:
        if self.type is not None and self.type.upper() not in TYPES:
            raise ConfigError(f"{self.path}: key stores of type {self.type} are not supported. {self._convert}")

    @property
    def _convert(self) -> str:
        return f"Convert it with: {_CONVERT.format(path=self.path)}"

    def load_key(self, context: ssl.SSLContext) -> None:
        """Load the key and the certificates that the context will present. A JKS file's first key is used."""
        data = self.read()
        if _BEGIN in data:
            self._load_chain(context, self.path)
            return
        key, chain = self._jks_key(data) if data.startswith(MAGIC) else self._pkcs12_key(data)
        with _secret_file(_pem("PRIVATE KEY", key) + b"".join(_pem("CERTIFICATE", one) for one in chain)) as path:
            self._load_chain(context, path)

    def certificate(self) -> bytes:
        """Return the certificate of the key, in DER: in a PEM file the first certificate."""
        data = self.read()
        if _BEGIN not in data:
            return (self._jks_key(data) if data.startswith(MAGIC) else self._pkcs12_key(data))[1][0]
        begin, stop = data.find(_CERTIFICATE), data.find(_CERTIFICATE_ENDS)
        if not 0 <= begin < stop:
            raise ConfigError(f"{self.path}: it contains no certificate in PEM format")
        try:
            return ssl.PEM_cert_to_DER_cert(data[begin : stop + len(_CERTIFICATE_ENDS)].decode("ascii"))
        except ValueError as error:
            raise ConfigError(f"{self.path}: its certificate cannot be read: {error}") from error

    def load_trust(self, context: ssl.SSLContext) -> None:
        """Load the certificates that the context will trust. A PEM file may hold revocation lists, too."""
        data = self.read()
        if _BEGIN in data:
            try:
                context.load_verify_locations(self.path)
            except (ssl.SSLError, OSError) as error:
                raise ConfigError(f"{self.path}: no certificates in PEM format can be read: {error}") from error
        else:
            trusted = self._jks(data).trusted if data.startswith(MAGIC) else self._pkcs12_trusted(data)
            if trusted:
                try:
                    context.load_verify_locations(cadata="".join(_pem("CERTIFICATE", one).decode() for one in trusted))
                except ssl.SSLError as error:
                    raise ConfigError(f"{self.path}: a trusted certificate cannot be read: {error}") from error
        if not context.cert_store_stats()["x509"]:
            raise ConfigError(f"{self.path}: it contains no trusted certificate")

    # -- the file, and PEM -------------------------------------------------------------------------

    def read(self) -> bytes:
        """Return the bytes of the file, unless it is too large or has the unsupported format JCEKS."""
        try:
            with Path(self.path).open("rb") as file:
                data = file.read(STORE_BYTES_MAX + 1)
        except OSError as error:
            raise ConfigError(f"{self.path}: {error.strerror or error}") from error
        if len(data) > STORE_BYTES_MAX:
            raise ConfigError(f"{self.path}: too large for a key store: at most {STORE_BYTES_MAX} bytes are read")
        if data.startswith(_JCEKS):
            raise ConfigError(f"{self.path}: a key store of type JCEKS is not supported. {self._convert}")
        return data

    def _load_chain(self, context: ssl.SSLContext, path: str) -> None:
        _load_chain(context, path, None, self.password, self.path)

    # -- JKS ---------------------------------------------------------------------------------------

    def _jks(self, data: bytes) -> Jks:
        try:
            return decode_jks(data, self.password or "")
        except WireError as error:
            raise ConfigError(f"{self.path}: {error}") from error

    def _jks_key(self, data: bytes) -> tuple[bytes, tuple[bytes, ...]]:
        keys = self._jks(data).keys
        if not keys:
            raise ConfigError(f"{self.path}: it contains no key")
        if not keys[0].chain:
            raise ConfigError(f"{self.path}: its key has no certificate")
        return keys[0].key, keys[0].chain

    # -- PKCS#12 -----------------------------------------------------------------------------------

    def _pkcs12(self, data: bytes) -> Any:
        try:
            from cryptography.hazmat.primitives.serialization import pkcs12
        except ImportError as error:
            hint = "reading PKCS#12 needs the package `cryptography`: pip install 'zab[tls]', or use PEM files"
            raise ConfigError(f"{self.path}: {hint}") from error
        try:
            return pkcs12.load_pkcs12(data, (self.password or "").encode() or None)
        except ValueError as error:
            if data[:1] != b"\x30":
                raise ConfigError(f"{self.path}: this is neither PEM nor PKCS#12 nor JKS. {self._convert}") from error
            raise ConfigError(f"{self.path}: {error}") from error

    def _pkcs12_key(self, data: bytes) -> tuple[bytes, tuple[bytes, ...]]:
        held = self._pkcs12(data)  # raises if the package is missing
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        if held.key is None or held.cert is None:
            raise ConfigError(f"{self.path}: it contains no key with a certificate")
        key = held.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        certificates = [held.cert, *held.additional_certs]
        return key, tuple(each.certificate.public_bytes(Encoding.DER) for each in certificates)

    def _pkcs12_trusted(self, data: bytes) -> list[bytes]:
        held = self._pkcs12(data)
        from cryptography.hazmat.primitives.serialization import Encoding

        return [each.certificate.public_bytes(Encoding.DER) for each in held.additional_certs]


def load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load a certificate and its key, which must not be encrypted, from two files in PEM format.

    Raise `ConfigError`, which names the wrong file or both, if they cannot be used.
    """
    for path, what, mark in ((certificate, "certificate", b"CERTIFICATE-----"), (key, "key", b"PRIVATE KEY-----")):
        if mark not in StoreFile(path).read():
            raise ConfigError(f"{path}: it contains no {what} in PEM format")
    _load_chain(context, certificate, key, None, f"{key} with {certificate}")


def _load_chain(context: ssl.SSLContext, path: str, key: str | None, password: str | None, named: str) -> None:
    asked = False

    def answer() -> str:
        """Return the password at once. Without this, OpenSSL would ask at the terminal, and the server would hang."""
        nonlocal asked
        asked = True
        return password or ""

    try:
        context.load_cert_chain(path, key, password=answer)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            why = "the key does not belong to the certificate"
        elif asked:
            why = "the key cannot be decrypted with this password" if password else _NO_PASSWORD
        else:
            why = f"the key and the certificate cannot be read: {error.reason or error}"
        raise ConfigError(f"{named}: {why}") from error
    except OSError as error:
        raise ConfigError(f"{named}: {error.strerror or error}") from error


def _pem(kind: str, der: bytes) -> bytes:
    text = b64encode(der).decode()
    lines = "\n".join(text[at : at + 64] for at in range(0, len(text), 64))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----\n".encode()


@contextmanager
def _secret_file(content: bytes) -> Iterator[str]:
    """Yield the path of a file with this content: `ssl` takes a key from a file only.

    The file is in memory if the system has such files. Otherwise it is on the disk, and only this user may read it.
    """
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        with os.fdopen(os.memfd_create("key"), "wb", buffering=0) as memory:
            memory.write(content)
            yield f"/proc/self/fd/{memory.fileno()}"
        return
    with tempfile.NamedTemporaryFile() as file:  # mode 0600, and gone at the end of the block
        file.write(content)
        file.flush()
        yield file.name
