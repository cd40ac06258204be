"""SASL DIGEST-MD5 between servers of Apache ZooKeeper and of ours: `quorum.auth.*`."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

import pytest

from tests.integration import apache
from tests.integration.mixed_ensemble import MixedEnsemble, check_equal, mixed_ensemble, write
from zab.core.zxid import ServerId
from zab.wire.apache.election_messages import ElectionOpening, encode_opening
from zab.wire.apache.quorum_auth import FIRST_PACKET, AuthPacket, AuthReader, AuthStatus, DiallerAuth, encode_auth

pytestmark = [apache.needs_apache, pytest.mark.slow]

OURS = 3
JAAS = """
QuorumServer { org.apache.zookeeper.server.auth.DigestLoginModule required user_zk="secret"; };
QuorumLearner { org.apache.zookeeper.server.auth.DigestLoginModule required username="zk" password="secret"; };
"""


def receive(stream: socket.socket) -> AuthPacket:
    reader = AuthReader()
    while (packet := reader.feed(stream.recv(reader.missing_bytes))) is None:
        pass
    return packet


def log_in(port: int, password: str, opening: bytes = b"") -> bool:
    """Log in as a dialling server does. Return False if the server refuses the password and ends the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as stream:
        stream.sendall(opening + encode_auth(FIRST_PACKET))
        exchange = DiallerAuth("zk", password, b"cnonce")
        response = exchange.step(receive(stream))
        assert response is not None
        stream.sendall(encode_auth(response))
        packet = receive(stream)
        if packet.status is AuthStatus.ERROR:
            assert stream.recv(1) == b""
            return False
        return exchange.step(packet) is None


def check_logins(mixed: MixedEnsemble) -> None:
    """Log in at both ports of our server with a wrong and the right password, then send something else."""
    learners, elections = (int(port) for port in mixed.properties[f"server.{OURS}"].split(":")[1:3])
    opening = encode_opening(ElectionOpening(ServerId(9), (("127.0.0.1", 1),)))
    for port, first in ((learners, b""), (elections, opening)):
        assert not log_in(port, "wrong", first)
        assert log_in(port, "secret", first)
        with socket.create_connection(("127.0.0.1", port), timeout=60) as stream, suppress(ConnectionResetError):
            stream.sendall(opening + bytes(8))
            assert stream.recv(1) == b""


def test_our_voter_follows_and_leads_with_sasl(tmp_path: Path) -> None:
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(JAAS)
    with mixed_ensemble(tmp_path) as mixed:
        mixed.system = (f"java.security.auth.login.config={jaas}",)
        mixed.properties |= {
            "quorum.auth.enableSasl": "true",
            "quorum.auth.learnerRequireSasl": "true",
            "quorum.auth.serverRequireSasl": "true",
            "java.security.auth.login.config": str(jaas),
            "fips-mode": "false",
        }
        mixed.start(1, 2)
        former = mixed.leader
        assert "follows" in mixed.start_ours(OURS).joined
        for sid in (1, 2, OURS):
            write(mixed, sid, f"/a{sid}")
        check_logins(mixed)
        check_equal(mixed)

        mixed.kill(former)
        assert mixed.leader == OURS
        write(mixed, 3 - former, "/b")
        check_logins(mixed)
        mixed.start(former)
        write(mixed, former, "/c")
        check_equal(mixed)
