"""Java's key stores and certificates: one that `keytool` made, and what is left of it when it is spoiled."""

from __future__ import annotations

from base64 import b64decode
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.core.errors import WireError
from zab.wire.der import Value, dotted, parse
from zab.wire.jks import WrongPassword, decode_jks
from zab.wire.x509 import name_of, subject_of, validity_of

STORE = b64decode("""
/u3+7QAAAAIAAAACAAAAAQACbWUAAAGh+XMOWQAAAH8wfTAOBgorBgEEASoCEQEBBQAEa7/ueorXIpzUR9wp3tSNrEQhBePGilP0
vjT62M1PGLWSki1MJatnreG3K/6mUEWqaz4sKdTH0rJ0q0nccsM+9NCoaeeI6PomfUmvTcdhAEaWdiYL7H8nHYC3/otB4uUlOHNS
BGWMqXPwSSQAAAAAAQAFWC41MDkAAAGmMIIBojCCAUigAwIBAgIJANphTIk8RoETMAoGCCqGSM49BAMCMEQxEjAQBgkqhkiG9w0B
CQEWA2pAeDENMAsGA1UEChMEQWNtZTERMA8GA1UECxMIT3BzLCB0b28xDDAKBgNVBAMTA2pvZTAgFw0yNjExMjAxNDUzNDlaGA8y
MTI2MTAyNzE0NTM0OVowRDESMBAGCSqGSIb3DQEJARYDakB4MQ0wCwYDVQQKEwRBY21lMREwDwYDVQQLEwhPcHMsIHRvbzEMMAoG
A1UEAxMDam9lMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEAuse+lYO6kQqoZrJdXPZAhMN9Ds0sB6LPlSUcn6YxgQOgFaXx4A0
B6K1GtSSmrKZqcaoqHNj2PXMcfKZNHNyU6MhMB8wHQYDVR0OBBYEFOe4jPM3z0J91FykKFYw9Nhyc0a7MAoGCCqGSM49BAMCA0gA
MEUCIQCHOJhCwlYLY4gE761vIiSUJqnFPoDA/dKJM5H18vYGgwIgUfU8f7m0Wt8joupWSML4zKtYgNlm3NUn1NezBUn60YcAAAAC
AAR0aGVtAAABoflzEX4ABVguNTA5AAABpjCCAaIwggFIoAMCAQICCQDaYUyJPEaBEzAKBggqhkjOPQQDAjBEMRIwEAYJKoZIhvcN
AQkBFgNqQHgxDTALBgNVBAoTBEFjbWUxETAPBgNVBAsTCE9wcywgdG9vMQwwCgYDVQQDEwNqb2UwIBcNMjYxMTIwMTQ1MzQ5WhgP
MjEyNjEwMjcxNDUzNDlaMEQxEjAQBgkqhkiG9w0BCQEWA2pAeDENMAsGA1UEChMEQWNtZTERMA8GA1UECxMIT3BzLCB0b28xDDAK
BgNVBAMTA2pvZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABALrHvpWDupEKqGayXVz2QITDfQ7NLAeiz5UlHJ+mMYEDoBWl8eA
NAeitRrUkpqymanGqKhzY9j1zHHymTRzclOjITAfMB0GA1UdDgQWBBTnuIzzN89CfdRcpChWMPTYcnNGuzAKBggqhkjOPQQDAgNI
ADBFAiEAhziYQsJWC2OIBO+tbyIklCapxT6AwP3SiTOR9fL2BoMCIFH1PH+5tFrfI6LqVkjC+MyrWIDZZtzVJ9TXswVJ+tGHydS0
X8s8rp6Bbfs5CxIfu9AfRt0=
""")
SUBJECT = "CN=joe,OU=Ops\\, too,O=Acme,1.2.840.113549.1.9.1=#16036a4078"
"""As Java says it: a key and its certificate, and the same certificate as one that is trusted."""


def test_what_keytool_made() -> None:
    store = decode_jks(STORE, "changeit")
    (key,) = store.keys
    assert key.alias == "me"
    assert store.trusted == key.chain
    assert [part.tag for part in parse(key.key).parts()] == [0x02, 0x30, 0x04]  # PKCS#8: version, algorithm, key
    assert subject_of(key.chain[0]) == SUBJECT


@pytest.mark.parametrize(("store", "password", "why"), [
    (STORE, "changeIt", "a wrong password, or a damaged file"),
    (STORE, "", "a key does not open"),
    (STORE[:500] + b"?" + STORE[501:], "changeit", "a wrong password, or a damaged file"),
    (STORE[:-30], "changeit", "a wrong password, or a damaged file"),
    (b"", "changeit", "no JKS"),
    (b"PK\3\4" + STORE, "changeit", "no JKS"),
])  # fmt: skip
def test_what_does_not_open(store: bytes, password: str, why: str) -> None:
    with pytest.raises(WireError, match=why):
        decode_jks(store, password)
    assert issubclass(WrongPassword, WireError)


@given(st.integers(0, len(STORE) - 1), st.binary(min_size=1, max_size=6))
def test_a_store_gone_wrong_is_nothing_but_a_wire_error(at: int, bytes_: bytes) -> None:
    spoiled = STORE[:at] + bytes_ + STORE[at + len(bytes_) :]
    for password in ("", "changeit"):
        try:
            decode_jks(spoiled, password)
        except WireError:
            continue


@given(st.integers(0, 600), st.binary(min_size=1, max_size=6))
def test_a_certificate_gone_wrong_is_nothing_but_a_wire_error(at: int, bytes_: bytes) -> None:
    whole = decode_jks(STORE, "changeit").trusted[0]
    spoiled = whole[:at] + bytes_ + whole[at + len(bytes_) :]
    for certificate in (spoiled, whole[:at], bytes_):
        for read in (subject_of, validity_of):
            with suppress(WireError):
                read(certificate)


def test_since_when_and_until_when_a_certificate_counts() -> None:
    """In both of the forms in which a time is written: years before 2050 have two digits."""
    since, until = validity_of(decode_jks(STORE, "changeit").trusted[0])
    assert (since, until) == (
        datetime(2026, 11, 20, 14, 53, 49, tzinfo=UTC).timestamp(),
        datetime(2126, 10, 27, 14, 53, 49, tzinfo=UTC).timestamp(),
    )


# -- names -----------------------------------------------------------------------------------------------------


def der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return bytes((tag, len(content))) + content


def name(*pairs: tuple[bytes, int, bytes]) -> Value:
    return parse(der(0x30, *[der(0x31, der(0x30, der(6, oid), der(tag, raw))) for oid, tag, raw in pairs]))


CN, EMAIL = b"\x55\x04\x03", bytes.fromhex("2a864886f70d010901")


@pytest.mark.parametrize(("written", "expected"), [
    (name((CN, 0x0C, b"joe"), (b"\x55\x04\x0a", 0x13, b"Acme")), "O=Acme,CN=joe"),
    (name((CN, 0x0C, b' #a,b+"c"=;<>\\ ')), 'CN=\\ \\#a\\,b\\+\\"c\\"\\=\\;\\<\\>\\\\\\ '),
    (name((CN, 0x0C, "名é".encode())), "CN=名é"),
    (name((CN, 0x0C, b"a\0b")), "CN=a\\00b"),
    (name((EMAIL, 0x16, b"j@x")), "1.2.840.113549.1.9.1=#16036a4078"),
    (name((CN, 0x05, b"")), "CN=#0500"),
    (name((CN, 0x0C, b"   ")), "CN=\\ \\ \\ "),
    (name(), ""),
    (
        parse(der(0x30, der(0x31, der(0x30, der(6, CN), der(12, b"a")), der(0x30, der(6, CN), der(12, b"b"))))),
        "CN=a+CN=b",
    ),
])  # fmt: skip
def test_a_name_as_java_writes_it(written: Value, expected: str) -> None:
    assert name_of(written) == expected


@pytest.mark.parametrize(("raw", "number"), [
    ("550403", "2.5.4.3"), ("2a864886f70d010901", "1.2.840.113549.1.9.1"), ("8837", "2.999"), ("00", "0.0"),
])  # fmt: skip
def test_numbers_of_things(raw: str, number: str) -> None:
    assert dotted(bytes.fromhex(raw)) == number


@pytest.mark.parametrize(
    "raw", ["", "30", "3081", "308000", "30850000000000", "300501", "3f8100", "3000ff", "3003020500"]
)
def test_what_is_no_value(raw: str) -> None:
    with pytest.raises(WireError):
        list(parse(bytes.fromhex(raw)).parts())


@pytest.mark.parametrize("raw", ["3000", "30023000"])
def test_a_certificate_of_nothing(raw: str) -> None:
    with pytest.raises(WireError):
        subject_of(bytes.fromhex(raw))
