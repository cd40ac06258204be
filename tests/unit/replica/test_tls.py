"""Who is turned away by TLS hears why."""

from __future__ import annotations

import ssl
from functools import partial

import pytest
import trio
import trustme

from replica.core.principals import Principals
from replica.runtime.requests import ANONYMOUS
from replica.runtime.tls import dialled, secured


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("shown", [None, "stranger", "friend"])
def test_who_shows_no_good_certificate_is_told_so_and_not_cut_off(version: ssl.TLSVersion, shown: str | None) -> None:
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
            known, principal = await secured(stream, at_broker, Principals())
            heard.append(principal)
            await known.send_all(await known.receive_some())
        except ssl.SSLError as error:
            heard.append(error.reason or "")
        finally:
            await trio.aclose_forcefully(stream)

    async def ask(port: int) -> bytes:
        stream = await dialled("127.0.0.1", port, at_client)
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
