"""Connections of the command channel. Each broker has one task, which sends the commands of its queue one at a time."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import trio
from attrs import frozen

from kraft_controller.core.command_channel import (
    BrokerCommandQueue,
    CommandChannel,
    CommandReply,
    MisaddressedCommand,
    WrongReply,
)
from kraft_controller.core.commands import Command, Numbered
from kraft_controller.core.controller_events import CommandQueueOverflowed, Event
from kraft_controller.core.names import BrokerId
from kraft_controller.core.state import Broker, Endpoint
from kraft_controller.runtime.frames import Frames
from kraft_controller.wire.command_frames import FrameError, decode, encode
from zab.net.wakeup import Wakeup

logger: Final = logging.getLogger("kraft_controller")

REFUSED_SHOWN: Final = 5


async def dialled(endpoint: Endpoint, tls: ssl.SSLContext | None) -> trio.abc.Stream:
    """Open a connection to an endpoint, with TLS if a context is given."""
    stream = await trio.open_tcp_stream(endpoint.host, endpoint.port)
    if tls is None:
        return stream
    secure = trio.SSLStream(stream, tls, server_hostname=endpoint.host)
    try:
        await secure.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(secure)
        raise
    return secure


Dial: TypeAlias = Callable[[Endpoint, ssl.SSLContext | None], Awaitable[trio.abc.Stream]]


@frozen
class ConnectionSettings:
    """Times and bounds of the connections on which a controller sends commands; `tls` encrypts them."""

    backoff_s: float = 0.1
    """The pause between a failed attempt to send a command and the next attempt."""
    connect_s: float = 5.0
    """The timeout for opening a connection."""
    answer_s: float = 30.0
    """The timeout for one reply. After it the connection is closed, and the command is sent again."""
    waiting_max: int = 10_000
    """The limit of commands in the queue of one broker. A queue that would exceed it is dropped, and the broker
    receives its full state."""
    listener: str | None = None
    """The name of the brokers' listener for commands; None selects the first endpoint."""
    tls: ssl.SSLContext | None = None
    dial: Dial = dialled
    """Opens a connection."""


class _Connection:
    """Sends the commands of one queue until the queue is closed."""

    def __init__(
        self, queue: BrokerCommandQueue, settings: ConnectionSettings, on_event: Callable[[Event], None]
    ) -> None:
        self._queue = queue
        self._settings = settings
        self._on_event = on_event
        """Receives the events that replies cause."""
        self._wakeup = Wakeup()
        """Wakes `run` when a command is added to the queue."""
        self._frames: Frames | None = None
        """The open connection; None without one."""
        self._misaddressed = False
        """True once an error was logged because another broker replies at the registered endpoint."""
        self.scope = trio.CancelScope()

    def wake(self) -> None:
        self._wakeup.ring()

    async def run(self) -> None:
        with self.scope:
            try:
                while True:
                    while (numbered := self._queue.next()) is None:
                        await self._wakeup.wait()
                    await self._attempt(numbered)
            finally:
                await self._close()

    async def _attempt(self, numbered: Numbered) -> None:
        """Try to send a command and process its reply. After a failure wait for the next attempt."""
        queue = self._queue
        try:
            if self._frames is None:
                self._frames = await self._dial()
            with trio.fail_after(self._settings.answer_s):
                await self._frames.send(encode(numbered))
                body = await self._frames.receive()
            if body is None:
                raise FrameError("the broker closed the connection")
            before = queue.unreachable
            reply = queue.replied(decode(body))
            self._misaddressed = False
            if before:
                logger.info("broker %d is reachable again", queue.broker.id)
            _report_refusals(queue.broker, numbered.command, reply)
            if reply.event is not None:
                self._on_event(reply.event)
        except (OSError, trio.BrokenResourceError, trio.TooSlowError, FrameError, WrongReply) as error:
            if isinstance(error, MisaddressedCommand) and not self._misaddressed:
                self._misaddressed = True
                logger.error("broker %d registered an endpoint that belongs to another broker", queue.broker.id)
            if queue.attempt_failed():
                logger.warning(
                    "failed to send a command to broker %d: %s; the controller retries until the broker replies",
                    queue.broker.id, str(error) or "no reply",
                )  # fmt: skip
            await self._close()
            await trio.sleep(self._settings.backoff_s)

    async def _dial(self) -> Frames:
        endpoint = endpoint_of(self._queue.broker, self._settings.listener)
        with trio.fail_after(self._settings.connect_s):
            return Frames(await self._settings.dial(endpoint, self._settings.tls))

    async def _close(self) -> None:
        frames, self._frames = self._frames, None
        if frames is not None:
            with trio.CancelScope(shield=True):
                await frames.aclose()


def _report_refusals(broker: Broker, command: Command, reply: CommandReply) -> None:
    if reply.stale_controller_epoch:
        logger.warning(
            "broker %d refused a command of controller epoch %d, because the broker knows a newer controller epoch",
            broker.id, command.controller_epoch,
        )  # fmt: skip
    if reply.refused:
        shown = ", ".join(f"{tp} (error {error})" for tp, error in list(reply.refused.items())[:REFUSED_SHOWN])
        logger.warning("broker %d refused LeaderAndIsr roles (%d in total): %s", broker.id, len(reply.refused), shown)


def endpoint_of(broker: Broker, listener: str | None) -> Endpoint:
    for endpoint in broker.endpoints:
        if listener is None or endpoint.listener == listener:
            return endpoint
    raise OSError(f"broker {broker.id} has no endpoint for commands{f' (listener {listener})' if listener else ''}")


class CommandConnections:
    """The command channel over TCP. `run` runs the tasks of all connections."""

    def __init__(self, on_event: Callable[[Event], None], settings: ConnectionSettings | None = None) -> None:
        self._on_event = on_event
        self._settings = settings or ConnectionSettings()
        self._channel = CommandChannel(
            self._overflowed, self._opened, self._appended, self._closed, self._settings.waiting_max
        )
        self._connections: dict[BrokerCommandQueue, _Connection] = {}
        """The connection of each open queue."""
        self._nursery: trio.Nursery

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the tasks of all connections until cancelled."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            await trio.sleep_forever()

    def update_brokers(self, brokers: Mapping[BrokerId, Broker]) -> None:
        """Open a queue for each registration without one, and drop the queues of former registrations."""
        self._channel.update_brokers(brokers)

    def send(self, to: BrokerId, command: Command) -> None:
        """Add a command to the queue of a broker. It is dropped unless it is for the broker's present registration."""
        self._channel.send(to, command)

    def close(self) -> None:
        """Drop all queues, so that none of their commands is sent any more."""
        self._channel.close()

    def waiting(self) -> dict[BrokerId, int]:
        """Return the number of commands without a reply, by broker."""
        return self._channel.waiting()

    def queues(self) -> list[BrokerCommandQueue]:
        """Return the open queues, for metrics."""
        return self._channel.queues()

    def _opened(self, queue: BrokerCommandQueue) -> None:
        connection = self._connections[queue] = _Connection(queue, self._settings, self._on_event)
        self._nursery.start_soon(connection.run)

    def _appended(self, queue: BrokerCommandQueue) -> None:
        self._connections[queue].wake()

    def _closed(self, queue: BrokerCommandQueue) -> None:
        self._connections.pop(queue).scope.cancel()

    def _overflowed(self, event: CommandQueueOverflowed) -> None:
        logger.warning(
            "broker %d has not replied to %d commands: its queue is dropped, and it will receive its full state",
            event.broker, self._settings.waiting_max,
        )  # fmt: skip
        self._on_event(event)
