"""Decide which configuration values are secret, and how a value is shown.

A key that no table knows may be a misspelt secret key, so its value is hidden, too.
"""

from __future__ import annotations

from typing import Final

HIDDEN: Final = "..."

_SECRET: Final = (
    "passw", "passphrase", "pwd", "secret", "credential", "token", "superdigest", "jaasconfig", "keystorekey",
    "privatekey", "masterkey", "apikey",
)  # fmt: skip
"""Parts of the names of configuration keys whose values are secret, without separators and in lower case."""
_ABOUT_SECRETS: Final = ("path", "location", "tokens", "ms", "iterations", "length", "algorithm", "class", "url")
"""Endings of keys that describe a secret, for example its location or lifetime. Their values are not secret."""


def is_secret(key: str) -> bool:
    """Return whether the value of this key must be hidden in all output."""
    letters = "".join(filter(str.isalnum, key)).lower()
    return any(part in letters for part in _SECRET) and not letters.endswith(_ABOUT_SECRETS)


def shown(key: str, value: str, *, known: bool = True) -> str:
    """Return the value as messages and pages show it. `known` is True if a table has this key."""
    return value if known and not is_secret(key) else HIDDEN
