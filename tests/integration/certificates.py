"""Certificates for tests, in files of every format that is read."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate

from zab.net.tls.key_stores import StoreFile

PASSWORD = "changeit"
needs_keytool = pytest.mark.skipif(shutil.which("keytool") is None, reason="there is no keytool here")


class Authority:
    """An authority that signs certificates and writes them into `folder`."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._ca = trustme.CA()
        self.path = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(str(self.path))

    @property
    def trust(self) -> StoreFile:
        return StoreFile(str(self.path))

    def issue(self, name: str, *hosts: str, **more: Any) -> StoreFile:
        """Key and chain in one file, as ZooKeeper has it with PEM."""
        issued = self._ca.issue_cert(*(hosts or ("localhost", "127.0.0.1")), common_name=name, **more)
        path = self.folder / f"{name}.pem"
        issued.private_key_and_cert_chain_pem.write_to_path(str(path))
        return StoreFile(str(path))

    def as_pkcs12(self, store: StoreFile, password: str = PASSWORD) -> StoreFile:
        pem = Path(store.path).read_bytes()
        key, certificate = load_pem_private_key(pem, None), load_pem_x509_certificate(pem)
        protection = BestAvailableEncryption(password.encode())
        data = pkcs12.serialize_key_and_certificates(b"it", key, certificate, None, protection)  # type: ignore[arg-type]
        path = Path(store.path).with_suffix(".p12")
        path.write_bytes(data)
        return StoreFile(str(path), password)

    def as_protected_pem(self, store: StoreFile, password: str = PASSWORD) -> StoreFile:
        pem = Path(store.path).read_bytes()
        key, certificate = load_pem_private_key(pem, None), load_pem_x509_certificate(pem)
        path = Path(store.path).with_suffix(".locked.pem")
        locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode()))
        path.write_bytes(locked + certificate.public_bytes(Encoding.PEM))
        return StoreFile(str(path), password)

    def as_jks(self, store: StoreFile, password: str = PASSWORD) -> StoreFile:
        """Convert a store to JKS with Java's own tool."""
        source, path = self.as_pkcs12(store, password), Path(store.path).with_suffix(".jks")
        _keytool("-importkeystore", "-srckeystore", source.path, "-srcstorepass", password, "-destkeystore", str(path),
                 "-deststoretype", "JKS", "-deststorepass", password)  # fmt: skip
        return StoreFile(str(path), password)

    def trust_as(self, kind: str, password: str = PASSWORD) -> StoreFile:
        path = self.folder / f"trust.{kind.lower()}"
        _keytool("-importcert", "-noprompt", "-alias", "ca", "-file", str(self.path), "-keystore", str(path),
                 "-storetype", kind, "-storepass", password)  # fmt: skip
        return StoreFile(str(path), password)


def _keytool(*arguments: str) -> None:
    done = subprocess.run(["keytool", *arguments], capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
