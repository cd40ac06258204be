"""SCRAM credentials (RFC 5802), which suffice to check a password but not to log in.

The text format is Kafka's, as in `/config/users/<name>`: `salt=..,stored_key=..,server_key=..,iterations=..`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from attrs import field, frozen

from kraft_controller.core.configuration.config_keys import ConfigError

ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
SALT_BYTES: Final = 20
_BRACKETS: Final = re.compile(r"\[(.*)\]", re.DOTALL)


class Mechanism(Enum):
    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def hash(self) -> str:
        return "sha256" if self is Mechanism.SHA_256 else "sha512"

    def hmac(self, key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, self.hash)

    def h(self, text: bytes) -> bytes:
        return hashlib.new(self.hash, text).digest()

    def salted(self, password: bytes, salt: bytes, iterations: int) -> bytes:
        """Derive the salted password. The derivation is slow on purpose, so that guessing passwords from a stolen store
        is expensive."""
        return hashlib.pbkdf2_hmac(self.hash, password, salt, iterations)


@frozen
class Credential:
    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @property
    def text(self) -> str:
        def shown(data: bytes) -> str:
            return base64.b64encode(data).decode()

        return (
            f"salt={shown(self.salt)},stored_key={shown(self.stored_key)},"
            f"server_key={shown(self.server_key)},iterations={self.iterations}"
        )


def of_salted(mechanism: Mechanism, salted: bytes, salt: bytes, iterations: int) -> Credential:
    stored_key = mechanism.h(mechanism.hmac(salted, b"Client Key"))
    return Credential(salt, stored_key, mechanism.hmac(salted, b"Server Key"), iterations)


def of_password(mechanism: Mechanism, password: str, salt: bytes, iterations: int = ITERATIONS_MIN) -> Credential:
    return of_salted(mechanism, mechanism.salted(password.encode(), salt, iterations), salt, iterations)


def read_credential(mechanism: Mechanism, text: str) -> Credential:
    """Parse a credential. Raise `ConfigError` if it is malformed or has too few iterations. The message does not reveal
    the salt or the keys."""
    parts = dict(part.strip().partition("=")[::2] for part in text.split(","))
    missing = [name for name in ("salt", "stored_key", "server_key", "iterations") if not parts.get(name)]
    if missing:
        raise ConfigError(f"{mechanism.value}: not a credential: missing {', '.join(missing)}")
    try:
        salt, stored_key, server_key = (
            base64.b64decode(parts[name], validate=True) for name in ("salt", "stored_key", "server_key")
        )
        iterations = int(parts["iterations"])
    except (binascii.Error, ValueError):
        raise ConfigError(f"{mechanism.value}: not a credential: expected base64 and a number of iterations") from None
    size = hashlib.new(mechanism.hash).digest_size
    if len(stored_key) != size or len(server_key) != size:
        raise ConfigError(f"{mechanism.value}: not a credential: stored_key and server_key must have {size} bytes each")
    if iterations < ITERATIONS_MIN:
        raise ConfigError(f"{mechanism.value}: {iterations} iterations are too few; the minimum is {ITERATIONS_MIN}")
    return Credential(salt, stored_key, server_key, iterations)


def credentials_in(configs: Mapping[str, str]) -> tuple[dict[Mechanism, Credential], tuple[str, ...]]:
    """Return the credentials in a user's configuration, and an error for each malformed one."""
    found: dict[Mechanism, Credential] = {}
    wrong = []
    for mechanism in Mechanism:
        if mechanism.value in configs:
            try:
                found[mechanism] = read_credential(mechanism, configs[mechanism.value])
            except ConfigError as error:
                wrong.append(str(error))
    return found, tuple(wrong)


def asked_for(mechanism: Mechanism, text: str, random_bytes: Callable[[int], bytes]) -> Credential:
    """Make a credential from `[password=...]` or `[iterations=8192,password=...]`, or parse one in the text format. The
    brackets are optional.

    Raise `ConfigError` if the text is none of these, the password is empty, or there are too few iterations; with a
    password, also if there are too many.
    """
    bracketed = _BRACKETS.fullmatch(text.strip())
    inner = bracketed[1] if bracketed is not None else text.strip()
    if not re.match(r"(?:iterations=\d+,)?password=", inner):
        return read_credential(mechanism, inner)
    head, _, password = inner.partition("password=")
    iterations = int(head.removeprefix("iterations=").rstrip(",") or ITERATIONS_MIN)
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ConfigError(
            f"{mechanism.value}: {iterations} iterations are not allowed: use {ITERATIONS_MIN} to {ITERATIONS_MAX}"
        )
    if not password:
        raise ConfigError(f"{mechanism.value}: the password is empty")
    return of_password(mechanism, password, random_bytes(SALT_BYTES), iterations)
