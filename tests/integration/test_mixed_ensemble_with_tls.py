"""TLS between servers of Apache ZooKeeper and of ours: `sslQuorum`, and `portUnification` while they take it up."""

from __future__ import annotations

import socket
import ssl
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.integration import apache
from tests.integration.certificates import Authority
from tests.integration.mixed_ensemble import MixedEnsemble, check_equal, mixed_ensemble, write
from zab.core.zxid import ServerId
from zab.wire.apache.election_messages import ElectionOpening, encode_opening

pytestmark = [apache.needs_apache, pytest.mark.slow]

OURS = 3


def keys(folder: Path, **more: str) -> dict[str, str]:
    """Return the keys `ssl.quorum.*`, with a certificate that is valid for every server on loopback."""
    authority = Authority(folder / "tls")
    store = authority.as_pkcs12(authority.issue("server", "127.0.0.1", "localhost"))
    found = {
        "keyStore.location": store.path,
        "keyStore.password": store.password or "",
        "keyStore.type": "PKCS12",
        "trustStore.location": str(authority.path),
        "trustStore.type": "PEM",
        **more,
    }
    return {f"ssl.quorum.{name}": value for name, value in found.items()}


def dial(mixed: MixedEnsemble, port: int, *, with_tls: bool) -> None:
    """Claim to be server 2 in plain text, or in TLS without a certificate, and wait until the connection is closed."""
    with ExitStack() as stack:
        stream = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
        stack.enter_context(suppress(ssl.SSLError, ConnectionError))
        if with_tls:
            context = ssl.create_default_context(cafile=mixed.properties["ssl.quorum.trustStore.location"])
            stream = stack.enter_context(context.wrap_socket(stream, server_hostname="127.0.0.1"))
        stream.sendall(encode_opening(ElectionOpening(ServerId(2), (("127.0.0.1", 1),))))
        assert stream.recv(1) == b""


def check_refusals(mixed: MixedEnsemble) -> None:
    """Dial both ports of our server as a foreign server does, and find the reasons in its log."""
    learners, elections = (int(port) for port in mixed.properties[f"server.{OURS}"].split(":")[1:3])
    dial(mixed, learners, with_tls=True)
    dial(mixed, elections, with_tls=False)
    refused = [line for line in mixed.log(OURS).read_text().splitlines() if " peer_refused " in line]
    no_certificate, no_tls = "the other side sent no certificate", "the received bytes are not TLS"
    for port, why in (("learner", no_certificate), ("election", no_tls)):
        assert any(f"port={port} " in line and why in line for line in refused), refused


def test_our_voter_follows_and_leads_over_tls(tmp_path: Path) -> None:
    with mixed_ensemble(tmp_path, sslQuorum="true") as mixed:
        mixed.properties |= keys(tmp_path)
        mixed.start(1, 2)
        former = mixed.leader
        assert "follows" in mixed.start_ours(OURS).joined
        for sid in (1, 2, OURS):
            write(mixed, sid, f"/a{sid}")
        check_equal(mixed)

        mixed.kill(former)
        assert mixed.leader == OURS
        check_refusals(mixed)
        write(mixed, 3 - former, "/b")
        mixed.start(former)
        write(mixed, former, "/c")
        check_equal(mixed)


def test_ensemble_takes_up_tls_in_rolling_restarts(tmp_path: Path) -> None:
    """Every port accepts both, then every server dials with TLS, then ours accepts no plain text any more."""
    with mixed_ensemble(tmp_path) as mixed:
        mixed.start(1, 2)
        mixed.start_ours(OURS)
        write(mixed, 1, "/plain")
        unified = {**keys(tmp_path, enabledProtocols="TLSv1.3"), "portUnification": "true"}
        for step, servers in (
            (unified, (OURS, 1, 2)),
            ({"sslQuorum": "true"}, (1, OURS, 2)),
            ({"portUnification": "false"}, (OURS,)),
        ):
            mixed.properties |= step
            for sid in servers:
                if sid == OURS:
                    mixed.stop_ours(sid)
                    mixed.start_ours(sid)
                else:
                    mixed.stop(sid)
                    mixed.start(sid)
                write(mixed, 2, f"/{'-'.join(step)[-9:]}-{sid}")
            check_equal(mixed)
        check_refusals(mixed)
