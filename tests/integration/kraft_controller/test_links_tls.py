"""Commands over TLS: both ends show who they are, and who shows nothing, or somebody else's name, is told nothing."""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
import trio
import trustme

from kraft_controller.core.command_handler import ControllerCommandHandler
from kraft_controller.core.commands import Command, UpdateMetadata
from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition
from kraft_controller.core.state import Broker, Endpoint
from kraft_controller.runtime.command_connections import CommandConnections, ConnectionSettings
from kraft_controller.runtime.command_server import CommandServer

ONE = BrokerId(1)


class Ear:
    def __init__(self) -> None:
        self.heard: list[Command] = []
        self.refused = 0
        self.server = CommandServer(ControllerCommandHandler(lambda: BrokerEpoch(5), self.apply))

    def apply(self, command: Command) -> Mapping[TopicPartition, int]:
        self.heard.append(command)
        return {}


def server_side(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*names).configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_side(authority: trustme.CA, *, known: bool = True) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if known:
        authority.issue_cert("controller.example").configure_cert(context)
    return context


@asynccontextmanager
async def linked(ear: Ear, there: ssl.SSLContext, here: ssl.SSLContext | None) -> AsyncIterator[CommandConnections]:
    async def serve(stream: trio.SocketStream) -> None:
        secure = trio.SSLStream(stream, there, server_side=True)
        try:
            await secure.do_handshake()
        except trio.BrokenResourceError:
            ear.refused += 1
            await trio.aclose_forcefully(secure)
            return
        await ear.server.serve(secure)

    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        links = CommandConnections(
            lambda event: None, ConnectionSettings(backoff_s=0.01, listener="CONTROLLER", tls=here)
        )
        await nursery.start(links.run)
        ends = (Endpoint("CLIENTS", "127.0.0.1", 1), Endpoint("CONTROLLER", "127.0.0.1", _port(listener)))
        links.update_brokers({ONE: Broker(ONE, BrokerEpoch(5), ends)})
        for epoch in range(1, 20):
            links.send(ONE, UpdateMetadata(BrokerId(9), ControllerEpoch(epoch), BrokerEpoch(5), (), ()))
        yield links
        nursery.cancel_scope.cancel()


def _port(listener: trio.SocketListener) -> int:
    port: int = listener.socket.getsockname()[1]
    return port


def run(ear: Ear, there: ssl.SSLContext, here: ssl.SSLContext | None, *, arrives: bool) -> None:
    async def main() -> None:
        with trio.fail_after(120):
            async with linked(ear, there, here) as links:
                while (len(ear.heard) < 19) if arrives else (links.queues()[0].resent < 3):
                    await trio.sleep(0.01)
                if not arrives:
                    assert links.waiting() == {ONE: 19}  # and none is ever left out

    trio.run(main)


def test_mutual_tls() -> None:
    ear, authority = Ear(), trustme.CA()
    run(ear, server_side(authority, "127.0.0.1"), client_side(authority), arrives=True)
    assert [command.controller_epoch for command in ear.heard] == list(range(1, 20))


@pytest.mark.parametrize("why", ["plain", "stranger", "nobody", "another-name"])
def test_wrong_certificate_receives_no_command(why: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    ear, authority = Ear(), trustme.CA()
    there = server_side(authority, "elsewhere.example" if why == "another-name" else "127.0.0.1")
    here: dict[str, ssl.SSLContext | None] = {
        "plain": None,
        "stranger": client_side(trustme.CA()),
        "nobody": client_side(authority, known=False),
        "another-name": client_side(authority),
    }
    run(ear, there, here[why], arrives=False)
    assert ear.heard == []
