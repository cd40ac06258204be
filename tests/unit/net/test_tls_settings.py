"""TLS by ZooKeeper's names: the resulting contexts, and the file named in each error."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from pathlib import Path

import pytest
import trustme
from attrs import evolve
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from hypothesis import given
from hypothesis import strategies as st

from tests.integration.certificates import PASSWORD, Authority
from tests.unit.wire.test_jks import STORE as JKS_STORE
from zab.core.errors import ConfigError
from zab.net.tls.cipher_suites import openssl_name, restrict
from zab.net.tls.handshake_errors import is_tls_error, reason_of
from zab.net.tls.key_stores import StoreFile
from zab.net.tls.quorum_tls import QuorumTls
from zab.net.tls.tls_settings import TLS_KEYS, ClientAuth, TlsPortSettings
from zab.wire.certificates import subject_of
from zab.wire.jks import MAGIC

USUAL = {"ssl.keyStore.location": "k.pem", "ssl.trustStore.location": "t.pem"}


def settings(**changed: str) -> TlsPortSettings:
    told = {**USUAL, **{name.replace("_", "."): value for name, value in changed.items()}}
    made = TlsPortSettings.from_properties({key: value for key, value in told.items() if value}, folder="/etc/zk")
    assert made is not None
    return made


def test_without_a_key_store_there_is_nothing_to_speak_with() -> None:
    assert TlsPortSettings.from_properties({"ssl.clientAuth": "need", "tickTime": "2000"}) is None


def test_the_defaults_are_the_originals() -> None:
    usual = settings()
    assert usual == TlsPortSettings(StoreFile("/etc/zk/k.pem"), StoreFile("/etc/zk/t.pem"))
    assert (usual.client_auth, usual.versions, usual.detection_ms) == (ClientAuth.NEED, ("TLSv1.2", "TLSv1.3"), 5_000)


@pytest.mark.parametrize(("key", "value", "field", "expected"), [
    ("ssl.clientAuth", "NONE", "client_auth", ClientAuth.NONE),
    ("ssl.clientAuth", "want", "client_auth", ClientAuth.WANT),
    ("zookeeper.ssl.clientAuth", "want", "client_auth", ClientAuth.WANT),
    ("ssl.protocol", "TLSv1.2", "versions", ("TLSv1.2",)),
    ("ssl.enabledProtocols", "TLSv1.3, TLSv1.2", "versions", ("TLSv1.3", "TLSv1.2")),
    ("ssl.ciphersuites", "A, B", "cipher_suites", ("A", "B")),
    ("ssl.clientHostnameVerification", "true", "verify_client_host", True),
    ("ssl.hostnameVerification", "false", "verify_server_host", False),
    ("ssl.allowReverseDnsLookup", "true", "reverse_lookup", True),
    ("ssl.crl", "true", "crl", True),
    ("ssl.crl.location", "crl.pem", "crl_file", "/etc/zk/crl.pem"),
    ("ssl.ocsp", "false", "crl", False),
    ("ssl.handshakeDetectionTimeoutMillis", "100", "detection_ms", 100),
    ("ssl.handshakeDetectionTimeoutMillis", "0", "detection_ms", 5_000),
    ("netty.server.outstandingHandshake.limit", "7", "handshakes_max", 7),
    ("netty.server.outstandingHandshake.limit", "-1", "handshakes_max", 250),
    ("client.portUnification", "true", "unify", True),
    ("client.certReload", "true", "reload", True),
])  # fmt: skip
def test_settings_of_each_key(key: str, value: str, field: str, expected: object) -> None:
    assert getattr(settings(**{key.replace(".", "_"): value}), field) == expected
    assert key.removeprefix("zookeeper.") in TLS_KEYS


@pytest.mark.parametrize(("key", "value", "why"), [
    ("ssl.clientAuth", "perhaps", "ssl.clientAuth=perhaps: expected need, want or none"),
    ("ssl.trustStore.location", "", "no trustStore.location"),
    ("ssl.protocol", "SSLv3", "ssl.protocol=SSLv3: one of TLSv1"),
    ("ssl.keyStore.type", "BCFKS", "BCFKS are not supported. .* keytool -importkeystore -srckeystore /etc/zk/k"),
    ("ssl.keyStore.type", "nonsense", "type NONSENSE are not supported"),
    ("ssl.keyStore.passwordPath", "/nowhere", "ssl.keyStore.passwordPath=/nowhere: the password cannot be read"),
    ("ssl.ocsp", "true", "ssl.ocsp=true: OCSP is not available"),
    ("ssl.context.supplier.class", "a.B", "a Java class is not available"),
    ("ssl.crl", "sure", "ssl.crl=sure: expected true or false"),
    ("ssl.handshakeDetectionTimeoutMillis", "soon", "expected a whole number"),
])  # fmt: skip
def test_invalid_arguments_are_reported(key: str, value: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        settings(**{key.replace(".", "_"): value})


def test_password_comes_from_its_file_and_is_never_shown(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("se cret\n")
    told = {**USUAL, "ssl.keyStore.passwordPath": "password", "ssl.keyStore.password": "another"}
    made = TlsPortSettings.from_properties(told, folder=tmp_path)
    assert made is not None
    assert made.key_store.password == "se cret"
    assert "se cret" not in repr(made)


def test_between_servers_the_names_have_another_beginning() -> None:
    told = {
        "ssl.quorum.keyStore.location": "k",
        "ssl.quorum.trustStore.location": "t",
        "client.portUnification": "true",
    }
    made = TlsPortSettings.from_properties({**told, "ssl.clientAuth": "none"}, quorum=True)
    assert made is not None
    assert (made.client_auth, made.unify, made.verify_client_host) == (ClientAuth.NEED, False, None)
    unified = TlsPortSettings.from_properties({**told, "portUnification": "true"}, quorum=True)
    assert unified is not None
    assert unified.unify


@pytest.mark.parametrize(("told", "dialled", "dialling"), [
    ({}, True, True),
    ({"zookeeper.fips-mode": "true"}, True, True),
    ({"ssl.quorum.clientHostnameVerification": "false"}, True, False),
    ({"ssl.quorum.hostnameVerification": "false"}, False, False),
    ({"ssl.quorum.clientHostnameVerification": "false", "ssl.quorum.clientAuth": "none"}, True, False),
])  # fmt: skip
def test_servers_check_the_hosts_of_both_ends_by_default(told: dict[str, str], dialled: bool, dialling: bool) -> None:
    usual = {"ssl.quorum.keyStore.location": "k", "ssl.quorum.trustStore.location": "t"}
    made = TlsPortSettings.from_properties({**usual, **told}, quorum=True)
    assert made is not None
    tls = QuorumTls(made)
    assert (tls.check_hostname, tls.check_client_hostname) == (dialled, dialling)
    assert QuorumTls(evolve(made, verify_client_host=None)).check_client_hostname is dialled


@pytest.mark.parametrize("auth", ["want", "none"])
def test_servers_need_certificates(auth: str) -> None:
    told = {
        "ssl.quorum.keyStore.location": "k",
        "ssl.quorum.trustStore.location": "t",
        "ssl.quorum.clientAuth": auth,
    }
    with pytest.raises(ConfigError, match=f"ssl.quorum.clientAuth={auth}: a server without a certificate"):
        TlsPortSettings.from_properties(told, quorum=True)


@given(st.dictionaries(st.sampled_from(sorted(TLS_KEYS)), st.text(max_size=12), max_size=8))
def test_any_file_is_settings_or_a_config_error(told: dict[str, str]) -> None:
    for quorum in (False, True):
        try:
            TlsPortSettings.from_properties({**USUAL, **told}, quorum=quorum)
        except ConfigError:
            continue


# -- suites and versions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("java", "openssl"), [
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384", "ECDHE-ECDSA-AES256-SHA384"),
    ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
    ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
    ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
    ("SSL_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
    ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
])  # fmt: skip
def test_suites_by_javas_names(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    restrict(context, ("TLSv1.2",), (java,))
    assert openssl in {suite["name"] for suite in context.get_ciphers()}


V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
OLDER, NEWER = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"


@pytest.mark.parametrize(("versions", "suites", "expected"), [
    (("TLSv1.3", "TLSv1.2"), (), (V12, V13)),
    (("TLSv1.3",), (), (V13, V13)),
    (("TLSv1.2", "TLSv1.3"), (OLDER,), (V12, V12)),
    (("TLSv1.2", "TLSv1.3"), (NEWER,), (V13, V13)),
    (("TLSv1.2", "TLSv1.3"), (NEWER, OLDER), (V12, V13)),
])  # fmt: skip
def test_versions_follow_the_suites(
    versions: tuple[str, ...], suites: tuple[str, ...], expected: tuple[ssl.TLSVersion, ssl.TLSVersion]
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    restrict(context, versions, suites)
    assert (context.minimum_version, context.maximum_version) == expected


@pytest.mark.parametrize(("versions", "suites", "why"), [
    (("SSLv3",), (), "'SSLv3' is not a supported version"),
    (("TLSv1.1", "TLSv1.3"), (), "without a gap"),
    (("TLSv1.2",), ("TLS_NONSENSE",), "'TLS_NONSENSE' is unknown"),
    (("TLSv1.2",), (NEWER,), "only suites of TLSv1.3"),
    (("TLSv1.3",), (OLDER,), "no suite of TLSv1.3"),
])  # fmt: skip
def test_suites_and_versions_that_do_not_go_together(
    versions: tuple[str, ...], suites: tuple[str, ...], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        restrict(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), versions, suites)


# -- files -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


def tampered(ca: Authority, name: str, content: bytes) -> StoreFile:
    path = ca.folder / name
    path.write_bytes(content)
    return StoreFile(str(path), PASSWORD)


@pytest.mark.parametrize(("name", "make", "why"), [
    ("absent.pem", lambda ca: StoreFile(str(ca.folder / "absent.pem")), "No such file"),
    ("", lambda ca: StoreFile(str(ca.folder)), "Is a directory"),
    ("n.pem", lambda ca: tampered(ca, "n.pem", b"nonsense"), "neither PEM nor PKCS#12 nor JKS"),
    ("e.pem", lambda ca: tampered(ca, "e.pem", b""), "neither PEM nor PKCS#12 nor JKS"),
    ("b.pem", lambda ca: tampered(ca, "b.pem", b"-----BEGIN nonsense"), "the key and the certificate cannot be read"),
    ("j.jks", lambda ca: tampered(ca, "j.jks", b"\xfe\xed\xfe\xed" + bytes(40)), "a wrong password, or a damaged file"),
    ("c.jks", lambda ca: tampered(ca, "c.jks", b"\xce\xce\xce\xce"), "JCEKS is not supported. .*keytool"),
    ("ca.pem", lambda ca: ca.trust, "the key and the certificate cannot be read"),
    ("one.p12", lambda ca: StoreFile(ca.as_pkcs12(ca.issue("one")).path, "wrong"), "password"),
    ("two.locked.pem", lambda ca: StoreFile(ca.as_protected_pem(ca.issue("two")).path, "wrong"), "cannot be decrypted"),
    ("two.locked.pem", lambda ca: StoreFile(ca.as_protected_pem(ca.issue("two")).path), "cannot be decrypted"),
])  # fmt: skip
def test_the_file_that_is_wrong_is_named(
    ca: Authority, name: str, make: Callable[[Authority], StoreFile], why: str
) -> None:
    with pytest.raises(ConfigError, match=f"{name}: .*{why}"):
        TlsPortSettings(make(ca), client_auth=ClientAuth.NONE).server_context()


def test_format_of_a_key_store_is_recognized(ca: Authority) -> None:
    store = ca.issue("shown")
    assert subject_of(store.certificate()).startswith("CN=shown,")
    for other in (ca.as_pkcs12(store), ca.as_protected_pem(store)):
        assert other.certificate() == store.certificate()
    for content in (b"-----BEGIN nonsense", b"-----BEGIN CERTIFICATE-----\nn\n-----END CERTIFICATE-----\n"):
        with pytest.raises(ConfigError, match="half.pem: .*certificate"):
            tampered(ca, "half.pem", content).certificate()


def test_trust_store_without_certificates(ca: Authority) -> None:
    for content, why in ((b"nonsense", "neither PEM"), (b"-----BEGIN nonsense", "no certificates in PEM format")):
        with pytest.raises(ConfigError, match=f"nobody.pem: .*{why}"):
            TlsPortSettings(ca.issue("server"), tampered(ca, "nobody.pem", content)).server_context()


def test_a_jks_trust_store_with_a_malformed_certificate(ca: Authority) -> None:
    entry = b"\0\0\0\2\0\0" + bytes(8) + b"\0\5X.509\0\0\0\4junk"
    store = StoreFile(tampered(ca, "junk.jks", MAGIC + b"\0\0\0\2\0\0\0\1" + entry + bytes(20)).path)
    with pytest.raises(ConfigError, match="junk.jks: a trusted certificate cannot be read"):
        store.load_trust(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))


def test_a_jks_key_without_a_certificate(ca: Authority) -> None:
    body = MAGIC + b"\0\0\0\2\0\0\0\1" + JKS_STORE[12:159] + b"\0\0\0\0"
    seal = sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()
    store = StoreFile(tampered(ca, "bare.jks", body + seal).path, "changeit")
    for use in (store.certificate, lambda: store.load_key(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))):
        with pytest.raises(ConfigError, match="bare.jks: its key has no certificate"):
            use()


def test_a_key_does_not_stay_on_the_disk(ca: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ca.as_pkcs12(ca.issue("volatile"))
    monkeypatch.delattr("os.memfd_create", raising=False)  # as where there are no files in memory
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    TlsPortSettings(store, client_auth=ClientAuth.NONE).server_context()
    assert list(tmp_path.iterdir()) == []


# -- revocation ------------------------------------------------------------------------------------------------


def test_revocation_needs_a_list(ca: Authority) -> None:
    with pytest.raises(ConfigError, match="no revocation list to check: .*ssl.crl.location"):
        TlsPortSettings(ca.issue("server"), ca.trust, crl=True).server_context()
    with pytest.raises(ConfigError, match="none.crl: no revocation list"):
        tampered(ca, "none.crl", b"nonsense")
        TlsPortSettings(ca.issue("server"), ca.trust, crl=True, crl_file=str(ca.folder / "none.crl")).server_context()


def shake(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Handshake without sockets. Raise the server's error about the client."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    there = server.wrap_bio(to_server, to_client, server_side=True)
    here = client.wrap_bio(to_client, to_server)
    for _ in range(6):
        for end in (here, there):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue


def test_a_revoked_certificate_is_refused(tmp_path: Path) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    stores = {}
    for name in ("server", "good", "bad"):
        issued = ca.issue_cert("localhost", common_name=name)
        issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / f"{name}.pem"))
        stores[name] = x509.load_pem_x509_certificate(issued.cert_chain_pems[0].bytes())
    now = datetime.now(UTC)
    revoked = x509.RevokedCertificateBuilder().serial_number(stores["bad"].serial_number).revocation_date(now).build()
    issuer = x509.load_pem_x509_certificate(ca.cert_pem.bytes()).subject
    key = load_pem_private_key(ca.private_key_pem.bytes(), None)
    crl = x509.CertificateRevocationListBuilder().issuer_name(issuer).last_update(now - timedelta(1))
    signed = crl.next_update(now + timedelta(1)).add_revoked_certificate(revoked).sign(key, SHA256())  # type: ignore[arg-type]
    (tmp_path / "crl.pem").write_bytes(signed.public_bytes(Encoding.PEM))
    key_store, trust_store = (StoreFile(str(tmp_path / name)) for name in ("server.pem", "ca.pem"))
    server = TlsPortSettings(key_store, trust_store, crl=True, crl_file=str(tmp_path / "crl.pem")).server_context()
    for name in ("good", "bad"):
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        client.load_cert_chain(tmp_path / f"{name}.pem")
        if name == "good":
            shake(server, client)
            continue
        with pytest.raises(ssl.SSLCertVerificationError) as refused:
            shake(server, client)
        assert reason_of(refused.value) == "certificate error: certificate revoked"


# -- words -----------------------------------------------------------------------------------------------------


def test_shrinking_finds_the_cause_behind_its_effects() -> None:
    cause = ssl.SSLError("...")
    cause.reason = "NO_SHARED_CIPHER"
    wrapped = OSError("broken")
    wrapped.__cause__ = cause
    assert (is_tls_error(wrapped), reason_of(wrapped)) == (True, "the two sides allow no common cipher suite")
    assert (is_tls_error(OSError()), reason_of(OSError())) == (False, "OSError")
    strange = ssl.SSLError("...")
    strange.reason = "SOMETHING_NEW"
    assert reason_of(strange) == "TLS: something new"
