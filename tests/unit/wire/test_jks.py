"""Java's key stores: one made by `keytool`, and the same one spoiled."""

from __future__ import annotations

from base64 import b64decode

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_der_private_key
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wire.der_certificates import der
from zab.core.errors import WireError
from zab.wire.jks import MAGIC, WrongPassword, decode_jks

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
"""A key with its certificate, and the same certificate as a trusted one."""


def test_a_store_made_by_keytool_is_decoded() -> None:
    store = decode_jks(STORE, "changeit")
    (key,) = store.keys
    assert key.alias == "me"
    assert store.trusted == key.chain
    assert isinstance(load_der_private_key(key.key, None), EllipticCurvePrivateKey)


@pytest.mark.parametrize(("store", "password", "why"), [
    (STORE, "changeIt", "a wrong password, or a damaged file"),
    (STORE, "", "a key cannot be decrypted"),
    (STORE[:500] + b"?" + STORE[501:], "changeit", "a wrong password, or a damaged file"),
    (STORE[:-30], "changeit", "a wrong password, or a damaged file"),
    (b"", "changeit", "not a JKS"),
    (b"PK\3\4" + STORE, "changeit", "not a JKS"),
])  # fmt: skip
def test_a_store_that_does_not_open_is_refused(store: bytes, password: str, why: str) -> None:
    with pytest.raises(WireError, match=why):
        decode_jks(store, password)
    assert issubclass(WrongPassword, WireError)


@given(st.integers(0, len(STORE) - 1), st.binary(min_size=1, max_size=6))
def test_a_spoiled_store_raises_nothing_but_a_wire_error(at: int, noise: bytes) -> None:
    spoiled = STORE[:at] + noise + STORE[at + len(noise) :]
    for password in ("", "changeit"):
        try:
            decode_jks(spoiled, password)
        except WireError:
            continue


ALGORITHM = bytes.fromhex("300e060a2b060104012a021101010500")


@pytest.mark.parametrize("protected", [
    b"",
    b"\x30",
    b"\x30\x84",
    b"\x30\x80",
    der(0x31, ALGORITHM, der(4, bytes(40))),
    der(0x30, ALGORITHM),
    der(0x30, ALGORITHM, der(5, bytes(40))),
    der(0x30, ALGORITHM, der(4, bytes(40)), b"more"),
    der(0x30, ALGORITHM, der(4, bytes(40))) + b"more",
    der(0x30, ALGORITHM, der(4, bytes(40)))[:-1],
    der(0x30, ALGORITHM, der(4, bytes(39))),
    der(0x30, bytes.fromhex("300e060a2b060104012a021101020500"), der(4, bytes(40))),
])  # fmt: skip
def test_a_malformed_protected_key_is_refused(protected: bytes) -> None:
    size = len(protected).to_bytes(4, "big")
    store = MAGIC + bytes.fromhex("00000002 00000001 00000001 0001 61 0000000000000000") + size + protected
    with pytest.raises(WireError, match="a protected key|a key is protected"):
        decode_jks(store + bytes(4) + bytes(20), "")
