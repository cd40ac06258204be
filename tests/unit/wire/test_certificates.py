"""Subjects of certificates are written as Java writes them, and a malformed certificate is a `WireError`."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wire.der_certificates import COMMON_NAME, certificate, der, name
from tests.unit.wire.test_jks import STORE
from zab.core.errors import ConfigError, WireError
from zab.wire.certificates import require_library, subject_of, validity_of
from zab.wire.jks import decode_jks

FROM_KEYTOOL = decode_jks(STORE, "changeit").trusted[0]
SUBJECT = "CN=joe,OU=Ops\\, too,O=Acme,1.2.840.113549.1.9.1=#16036a4078"
"""The subject of that certificate, as `X500Principal.getName` printed it."""

ORGANIZATION, COUNTRY = b"\x55\x04\x0a", b"\x55\x04\x06"
EMAIL = bytes.fromhex("2a864886f70d010901")


def test_subject_of_a_certificate_made_by_keytool() -> None:
    assert subject_of(FROM_KEYTOOL) == SUBJECT


@pytest.mark.parametrize(("subject", "expected"), [
    (name((COMMON_NAME, 0x0C, b"joe"), (ORGANIZATION, 0x13, b"Acme")), "O=Acme,CN=joe"),
    (name((COMMON_NAME, 0x0C, b' #a,b+"c"=;<>\\ ')), 'CN=\\ \\#a\\,b\\+\\"c\\"\\=\\;\\<\\>\\\\\\ '),
    (name((COMMON_NAME, 0x0C, "名é".encode())), "CN=名é"),
    (name((COMMON_NAME, 0x0C, b"a\0b")), "CN=a\\00b"),
    (name((COMMON_NAME, 0x1E, b"\0a\0b")), "CN=\\00a\\00b"),  # UTF-16, decoded as UTF-8 by Java
    (name((COMMON_NAME, 0x1C, b"\0\0\0a")), "CN=\\00\\00\\00a"),
    (name((EMAIL, 0x16, b"j@x")), "1.2.840.113549.1.9.1=#16036a4078"),
    (name((COMMON_NAME, 0x12, b"12")), "CN=#12023132"),  # NumericString is no text to Java
    (name((COMMON_NAME, 0x0C, b"   ")), "CN=\\ \\ \\ "),
    (name((COMMON_NAME, 0x0C, b"x" * 200)), f"CN={'x' * 200}"),  # lengths of more than one byte
    (name((EMAIL, 0x16, b"j" * 200)), f"1.2.840.113549.1.9.1=#1681c8{'6a' * 200}"),
    (name((COUNTRY, 0x13, b"DEU")), "C=DEU"),  # longer than X.520 allows
    (name(), ""),
    (der(0x30, der(0x31, *[der(0x30, der(6, COMMON_NAME), der(12, raw)) for raw in (b"a", b"b")])), "CN=a+CN=b"),
    (name((b"\x2a" + b"\xff" * 17 + b"\x7f", 0x0C, b"a")), f"1.2.{(1 << 126) - 1}=#0c0161"),
    (name((b"\x88\x37\x01", 0x0C, b"a")), "2.999.1=#0c0161"),
])  # fmt: skip
def test_subject_is_written_as_java_writes_it(subject: bytes, expected: str) -> None:
    assert subject_of(certificate(subject)) == expected


@pytest.mark.parametrize("subject", [
    name((COMMON_NAME, 0x05, b"")),
    name((COMMON_NAME, 0x0C, b"\xff")),
    name((COMMON_NAME, 0x03, b"\0a")),
    name((b"", 0x0C, b"a")),
    name((b"\x2a\x80", 0x0C, b"a")),
    der(0x30, der(0x31)),
    der(0x30, der(0x31, der(0x30, der(6, COMMON_NAME)))),
])  # fmt: skip
def test_malformed_subject_is_refused(subject: bytes) -> None:
    with pytest.raises(WireError, match="its subject cannot be read"):
        subject_of(certificate(subject))


@pytest.mark.parametrize("raw", ["", "30", "3000", "30023000", "308000", "30850000000000", "3f8100"])
def test_bytes_that_are_no_certificate_are_refused(raw: str) -> None:
    for read in (subject_of, validity_of):
        with pytest.raises(WireError):
            read(bytes.fromhex(raw))


@given(st.integers(0, 600), st.binary(min_size=1, max_size=6))
def test_a_spoiled_certificate_raises_nothing_but_a_wire_error(at: int, noise: bytes) -> None:
    spoiled = FROM_KEYTOOL[:at] + noise + FROM_KEYTOOL[at + len(noise) :]
    for raw in (spoiled, FROM_KEYTOOL[:at], noise):
        for read in (subject_of, validity_of):
            with suppress(WireError):
                read(raw)


def test_validity_in_both_encodings_of_time() -> None:
    """Years before 2050 have two digits, later ones four."""
    assert validity_of(FROM_KEYTOOL) == (
        datetime(2026, 11, 20, 14, 53, 49, tzinfo=UTC).timestamp(),
        datetime(2126, 10, 27, 14, 53, 49, tzinfo=UTC).timestamp(),
    )


def test_a_missing_library_is_reported_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    require_library()
    monkeypatch.setitem(sys.modules, "cryptography.x509", None)
    with pytest.raises(ConfigError, match=r"pip install 'zab\[tls\]'"):
        require_library()
