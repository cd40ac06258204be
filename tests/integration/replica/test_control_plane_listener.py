"""The listener for controllers: its limits, and silent connections that make room for controllers."""

from __future__ import annotations

import trio

from replica.core.network.connection_limits import ConnectionLimits
from replica.runtime.authentication.listener_security import NO_SASL
from replica.runtime.configuration.broker_config import CONTROLLER, Listener
from replica.runtime.logs import Log
from replica.runtime.network.control_plane_listener import AUTHENTICATING_MAX, QUEUED_MAX, ControlPlaneListener


def test_connections_wait_for_authentication_in_a_bounded_queue() -> None:
    async def main() -> None:
        async def never(stream: trio.abc.Stream, host: str) -> None:
            raise AssertionError

        control_plane = ControlPlaneListener(
            Listener(CONTROLLER, "127.0.0.1", 0), NO_SASL, ConnectionLimits(), never, lambda *_: True, Log(1),
            trio.sleep_forever,
        )  # fmt: skip
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        number = listener.socket.getsockname()[1]
        streams = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(control_plane.run, [listener], nursery)
            with trio.fail_after(120):
                for _ in range(AUTHENTICATING_MAX + QUEUED_MAX + 1):
                    streams.append(await trio.open_tcp_stream("127.0.0.1", number))
                assert await streams[-1].receive_some() == b"", "it is closed, and all others wait"
            with trio.move_on_after(0.05) as waited:
                await streams[0].receive_some()
            assert waited.cancelled_caught
            nursery.cancel_scope.cancel()
        for each in streams:
            await trio.aclose_forcefully(each)

    trio.run(main)


def test_silent_connections_do_not_keep_a_controller_out() -> None:
    async def main() -> None:
        async def echo(stream: trio.abc.Stream, host: str) -> None:
            while data := await stream.receive_some():
                await stream.send_all(data)

        control_plane = ControlPlaneListener(
            Listener(CONTROLLER, "127.0.0.1", 0),
            NO_SASL,
            ConnectionLimits(controllers_max=3),
            echo,
            lambda *_: True,
            Log(1),
        )
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        number = listener.socket.getsockname()[1]

        async def come() -> trio.SocketStream:
            return await trio.open_tcp_stream("127.0.0.1", number)

        async def speaks(stream: trio.SocketStream) -> bool:
            try:
                await stream.send_all(b"x")
                return await stream.receive_some() == b"x"
            except trio.BrokenResourceError:
                return False

        async with trio.open_nursery() as nursery:
            nursery.start_soon(control_plane.run, [listener], nursery)
            with trio.fail_after(120):
                controller = await come()
                assert await speaks(controller)
                silent = [await come() for _ in range(2)]
                another = await come()
                assert await speaks(another)
                assert await silent[0].receive_some() == b"", "it came first and has sent nothing"
                for _ in range(5):
                    silent.append(await come())
                assert await speaks(controller)
                assert await speaks(another)
                assert await speaks(silent[-1])
                last = await come()  # all others have sent something
                assert not await speaks(last)
                assert await speaks(controller)
            nursery.cancel_scope.cancel()
        for each in (controller, another, *silent, last):
            await trio.aclose_forcefully(each)

    trio.run(main)
