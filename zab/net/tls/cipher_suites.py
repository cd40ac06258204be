"""Translate Java's names of cipher suites and TLS versions, as in a `zoo.cfg`, for OpenSSL."""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from typing import Final

from zab.core.errors import ConfigError

VERSIONS: Final = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_NEWEST: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
"""The suites of TLS 1.3, which can only be enabled or disabled all together."""

_NOT_A_SUITE: Final = "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"
_AES: Final = re.compile(r"AES-(128|256)")


def openssl_name(name: str) -> str:
    """Translate Java's name of a suite: `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256` is `ECDHE-RSA-AES128-GCM-SHA256`.

    A name that begins with neither `TLS_` nor `SSL_` is returned unchanged.
    """
    if not name.startswith(("TLS_", "SSL_")):
        return name
    exchange, _, cipher = name[4:].partition("_WITH_")
    cipher = _AES.sub(r"AES\1", cipher.replace("_", "-")).replace("-CBC-SHA", "-SHA")
    if "CHACHA20" in cipher:
        cipher = cipher.removesuffix("-SHA256")
    return cipher if exchange == "RSA" else f"{exchange.replace('_', '-')}-{cipher}"


def restrict(context: ssl.SSLContext, versions: Sequence[str], suites: Sequence[str]) -> None:
    """Allow only these versions of TLS, by Java's names, and these cipher suites, by Java's or OpenSSL's names.

    In Java, one list of suites covers all versions. OpenSSL configures the suites of TLSv1.3 separately, and Python can
    only allow all of them or none. So TLSv1.3 is switched off if the list has none of its suites, and the older
    versions are switched off if it has none of theirs. An empty list leaves OpenSSL's default.

    Raise `ConfigError` if a name is unknown, the versions have a gap, or the list has no suite for any of them.
    """
    for version in versions:
        if version not in VERSIONS:
            raise ConfigError(f"{version!r} is not a supported version of TLS; supported are {', '.join(VERSIONS)}")
    chosen = sorted({VERSIONS[version] for version in versions})
    if chosen[-1] - chosen[0] >= len(chosen):
        raise ConfigError(f"versions of TLS must be enabled without a gap between them, not {', '.join(versions)}")
    context.minimum_version, context.maximum_version = chosen[0], chosen[-1]
    wanted = [suite for suite in suites if suite != _NOT_A_SUITE]
    older = [suite for suite in wanted if suite not in _NEWEST]
    if not wanted:
        return
    for suite in older:
        try:
            context.set_ciphers(openssl_name(suite))
        except ssl.SSLError as error:
            raise ConfigError(f"ciphersuites: {suite!r} is unknown to OpenSSL, or no longer allowed by it") from error
    if older:
        context.set_ciphers(":".join(map(openssl_name, older)))
    elif chosen[-1] >= ssl.TLSVersion.TLSv1_3:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    else:
        raise ConfigError("ciphersuites names only suites of TLSv1.3, which is not enabled")
    if len(older) == len(wanted) and chosen[-1] >= ssl.TLSVersion.TLSv1_3:
        if chosen[0] >= ssl.TLSVersion.TLSv1_3:
            raise ConfigError("ciphersuites names no suite of TLSv1.3, which is the only enabled version")
        context.maximum_version = ssl.TLSVersion.TLSv1_2
