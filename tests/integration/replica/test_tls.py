"""Who is turned away by TLS hears why."""

from __future__ import annotations

import ssl
from functools import partial

import pytest
import trio
import trustme

from kraft_controller.core.state import Endpoint
from replica.core.security.principals import Principals
from replica.runtime.configuration.broker_config import Peers
from replica.runtime.network.broker_client import connect
from replica.runtime.network.broker_connection import ClientSettings, Unreachable
from replica.runtime.network.inter_broker_clients import InterBrokerClients
from replica.runtime.network.tls_handshake import accept_tls, dial
from replica.runtime.requests import ANONYMOUS


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("shown", [None, "stranger", "friend"])
def test_client_without_valid_certificate_gets_an_alert(version: ssl.TLSVersion, shown: str | None) -> None:
    ours, theirs = trustme.CA(), trustme.CA()
    at_broker = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    at_broker.verify_mode = ssl.CERT_REQUIRED
    ours.configure_trust(at_broker)
    ours.issue_cert("127.0.0.1").configure_cert(at_broker)
    at_client = ssl.create_default_context()
    at_client.minimum_version = at_client.maximum_version = version
    ours.configure_trust(at_client)
    if shown is not None:
        (ours if shown == "friend" else theirs).issue_cert("127.0.0.1", common_name=shown).configure_cert(at_client)
    heard: list[str] = []

    async def hear(stream: trio.SocketStream) -> None:
        try:
            known, principal = await accept_tls(stream, at_broker, Principals())
            heard.append(principal)
            await known.send_all(await known.receive_some())
        except ssl.SSLError as error:
            heard.append(error.reason or "")
        finally:
            await trio.aclose_forcefully(stream)

    async def ask(port: int) -> bytes:
        stream = await dial("127.0.0.1", port, at_client)
        try:
            await stream.send_all(b"a question" * 1000)  # which nobody reads who turns it away
            return bytes(await stream.receive_some())
        finally:
            await trio.aclose_forcefully(stream)

    async def main() -> bytes | BaseException | None:
        async with trio.open_nursery() as nursery:
            [listener] = await nursery.start(partial(trio.serve_tcp, hear, 0, host="127.0.0.1"))
            answer: bytes | BaseException | None = None
            try:
                with trio.fail_after(120):
                    answer = await ask(listener.socket.getsockname()[1])
            except trio.BrokenResourceError as error:
                answer = error.__cause__
            except ssl.SSLError as error:
                answer = error
            nursery.cancel_scope.cancel()
        return answer

    answer = trio.run(main)
    if shown == "friend":
        assert isinstance(answer, bytes)
        assert answer.startswith(b"a question")
        assert "friend" in heard[0] != ANONYMOUS
        return
    assert isinstance(answer, ssl.SSLError), answer
    assert "ALERT" in (answer.reason or "").upper(), answer
    assert heard in (["PEER_DID_NOT_RETURN_A_CERTIFICATE"], ["CERTIFICATE_VERIFY_FAILED"])


@pytest.mark.parametrize("named", ["127.0.0.1", "broker.example"])
def test_failed_tls_handshake_is_explained_at_both_ends(named: str) -> None:
    """Brokers that do not come together over TLS say at both ends what is wrong with the certificate: here one of
    another authority, or of another host."""
    ours, theirs = trustme.CA(), trustme.CA()
    at_broker = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    (theirs if named == "127.0.0.1" else ours).issue_cert(named).configure_cert(at_broker)
    peers = Peers(ssl.create_default_context())
    assert peers.tls is not None
    ours.configure_trust(peers.tls)
    heard: list[str] = []
    all_heard = trio.Event()

    async def hear(stream: trio.SocketStream) -> None:
        try:
            await accept_tls(stream, at_broker, Principals())
        except ssl.SSLError as error:
            heard.append(error.reason or "")
        finally:
            await trio.aclose_forcefully(stream)
        if len(heard) == 2:
            all_heard.set()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            [listener] = await nursery.start(partial(trio.serve_tcp, hear, 0, host="127.0.0.1"))
            port = listener.socket.getsockname()[1]
            why = "unable to get local issuer" if named == "127.0.0.1" else "IP address mismatch"
            with trio.fail_after(120):
                with pytest.raises(OSError, match=f"127.0.0.1:{port}: .*certificate verify failed: .*{why}"):
                    await InterBrokerClients(peers).stream(Endpoint("CONTROLLER", "127.0.0.1", port))
                with pytest.raises(OSError, match=f"certificate verify failed: .*{why}"):
                    await InterBrokerClients(peers).connection(("127.0.0.1", port), ClientSettings())
                await all_heard.wait()
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert all("ALERT" in each.upper() for each in heard), heard


@pytest.mark.parametrize("ignores_eof", [True, False])
async def test_connection_that_ends_in_the_handshake_is_named(ignores_eof: bool) -> None:
    tls = ssl.create_default_context()
    if ignores_eof:  # as in Python before 3.11.4
        tls.options |= getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)

    async def close(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()

    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, close, 0, host="127.0.0.1"))
        async with connect([("127.0.0.1", listener.socket.getsockname()[1])], tls=tls) as client:
            with trio.fail_after(120), pytest.raises(Unreachable, match="the broker closed the connection"):
                await client.metadata(None)
        nursery.cancel_scope.cancel()
