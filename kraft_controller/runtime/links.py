"""The controller's links to brokers: to each one queue, one connection, and one command on its way.

The order is what makes the epochs sufficient, so none is ever left out: a command whose answer does not come is said
again, on a new connection, until the broker has answered, or is not there any more, or this is not the controller any
more. A broker that is slow or away holds up nobody else.
"""

from __future__ import annotations

import logging
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import count
from typing import Final, TypeAlias

import trio
from attrs import frozen

from kraft_controller.core import events
from kraft_controller.core.commands import Command, LeaderAndIsr, StopReplica
from kraft_controller.core.events import Event
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.core.state import Broker, Endpoint
from kraft_controller.runtime.frames import Frames
from kraft_controller.runtime.orders import ANOTHER_BROKER, STALE_CONTROLLER_EPOCH
from kraft_controller.wire.commands import Answer, FrameError, Numbered, decode, encode

logger: Final = logging.getLogger("kraft_controller")

STORAGE_ERROR: Final = 56
"""The replica is on a disk that failed."""
INCONSISTENT_TOPIC_ID: Final = 103
"""The log says that it is another topic's. It may be this one's, with a file that has rotted."""
REFUSED_SHOWN: Final = 5


async def dialled(endpoint: Endpoint, tls: ssl.SSLContext | None) -> trio.abc.Stream:
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
class LinkSettings:
    """backoff_s    before a broker is dialled again
    answer_s     for one answer; then the connection is given up, and the command said again
    waiting_max  commands to one broker; when there would be more all of them are dropped, and it is told everything
                 anew, as if it had just come
    listener     the name of the brokers' endpoint for controllers; None: their first one
    tls          to speak it on that endpoint
    dial         how a stream is had
    """

    backoff_s: float = 0.1
    connect_s: float = 5.0
    answer_s: float = 30.0
    waiting_max: int = 10_000
    listener: str | None = None
    tls: ssl.SSLContext | None = None
    dial: Dial = dialled


class Link:
    """To one life of one broker. `numbers` are those of all links: a command that is said later has a greater one."""

    def __init__(
        self, broker: Broker, settings: LinkSettings, numbers: Iterator[int], answered: Callable[[Event], None]
    ) -> None:
        self.broker = broker
        self._settings = settings
        self._numbers = numbers
        self._answered = answered
        self._waiting: deque[Command] = deque()
        self._bell = trio.Event()
        self._number = 0
        self._frames: Frames | None = None
        self._elsewhere = False
        self._unheard = False
        self.scope = trio.CancelScope()
        self.resent = 0
        self.refused = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def send(self, command: Command) -> None:
        self._waiting.append(command)
        self._bell.set()

    async def run(self) -> None:
        with self.scope:
            try:
                while True:
                    while not self._waiting:
                        self._bell = trio.Event()
                        await self._bell.wait()
                    command = self._waiting[0]
                    answer = await self._said(command)
                    self._waiting.popleft()
                    self.refused += _tell_refused(self.broker, command, answer)
                    event = meaning_of(self.broker, command, answer)
                    if event is not None:
                        self._answered(event)
            finally:
                if self._frames is not None:
                    with trio.CancelScope(shield=True):
                        await self._frames.aclose()

    async def _said(self, command: Command) -> Answer:
        """As often as it takes."""
        self._number = next(self._numbers)
        frame = encode(Numbered(self._number, command, self.broker.id))
        while True:
            try:
                if self._frames is None:
                    self._frames = await self._dial()
                with trio.fail_after(self._settings.answer_s):
                    await self._frames.send(frame)
                    body = await self._frames.receive()
                if body is None:
                    raise FrameError("it hung up")
                answer = decode(body)
                if not isinstance(answer, Answer) or answer.number != self._number:
                    raise FrameError("this is not the answer to what was said")
                if answer.error == ANOTHER_BROKER:
                    self._not_there()
                    raise FrameError("another broker answers there")
                self._heard(None)
                return answer
            except (OSError, trio.BrokenResourceError, trio.TooSlowError, FrameError) as error:
                self._heard(error)
                if self._frames is not None:
                    await self._frames.aclose()
                    self._frames = None
                self.resent += 1
                await trio.sleep(self._settings.backoff_s)

    def _heard(self, error: Exception | None) -> None:
        """Said when it changes, not at each of a thousand tries."""
        if error is not None and not self._unheard:
            why = str(error) or "no answer"
            logger.warning(
                "broker %d does not hear its controller: %s; it is dialled until it does", self.broker.id, why
            )
        elif error is None and self._unheard:
            logger.info("broker %d hears its controller again", self.broker.id)
        self._unheard = error is not None

    def _not_there(self) -> None:
        """Said once. It hears nothing until it is registered with another address."""
        if not self._elsewhere:
            self._elsewhere = True
            logger.error("broker %d is registered with an address at which another broker answers", self.broker.id)

    async def _dial(self) -> Frames:
        endpoint = endpoint_of(self.broker, self._settings.listener)
        with trio.fail_after(self._settings.connect_s):
            return Frames(await self._settings.dial(endpoint, self._settings.tls))


def meaning_of(broker: Broker, command: Command, answer: Answer) -> Event | None:
    """What the controller has to know of an answer. That it is old, it hears from the store."""
    if isinstance(command, LeaderAndIsr):
        # Neither can lead nor follow before a person has looked. Others in sync can, though nobody is dead.
        unusable = (STORAGE_ERROR, INCONSISTENT_TOPIC_ID)
        offline = tuple(where for where, error in answer.errors.items() if error in unusable)
        return events.RolesAnswered(broker.id, broker.epoch, offline) if offline else None
    if isinstance(command, StopReplica):
        deleted = [stop.where for stop in command.stops if stop.delete]
        failed = tuple(where for where in deleted if answer.error or answer.errors.get(where))
        done: tuple[TopicPartition, ...] = tuple(where for where in deleted if where not in failed)
        return events.DeletionAnswered(broker.id, broker.epoch, done, failed) if deleted else None
    return None


def _tell_refused(broker: Broker, command: Command, answer: Answer) -> bool:
    """What a broker does not do, or roles that it does not take up. What its disk has against it is an event of its
    own."""
    if answer.error == STALE_CONTROLLER_EPOCH:
        logger.warning(
            "broker %d refuses commands of epoch %d: it has heard a controller of a later one",
            broker.id, command.controller_epoch,
        )  # fmt: skip
    if not isinstance(command, LeaderAndIsr):
        return bool(answer.error)
    refused = {where: error for where, error in answer.errors.items() if error not in (0, STORAGE_ERROR)}
    if refused:
        some = ", ".join(f"{where} (error {error})" for where, error in list(refused.items())[:REFUSED_SHOWN])
        logger.warning("broker %d refuses %d roles: %s", broker.id, len(refused), some)
    return bool(refused or answer.error)


def endpoint_of(broker: Broker, listener: str | None) -> Endpoint:
    for endpoint in broker.endpoints:
        if listener is None or endpoint.listener == listener:
            return endpoint
    raise OSError(f"broker {broker.id} has no endpoint{f' {listener}' if listener else ''} to be told things at")


class BrokerLinks:
    """`Links` of the controller, over TCP. Runs in a nursery of its broker."""

    def __init__(self, answered: Callable[[Event], None], settings: LinkSettings | None = None) -> None:
        self._answered = answered
        self._settings = settings or LinkSettings()
        self._links: dict[BrokerId, Link] = {}
        self._numbers = count(1)
        self._nursery: trio.Nursery

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            await trio.sleep_forever()

    def know(self, brokers: Mapping[BrokerId, Broker]) -> None:
        for ident, link in list(self._links.items()):
            broker = brokers.get(ident)
            if broker is None or broker.epoch != link.broker.epoch:
                self._end(ident)
            elif broker.endpoints != link.broker.endpoints:
                link.broker = broker  # dialled there when the connection that stands breaks
        for ident, broker in brokers.items():
            if ident not in self._links:
                link = self._links[ident] = Link(broker, self._settings, self._numbers, self._answered)
                self._nursery.start_soon(link.run)

    def send(self, to: BrokerId, command: Command) -> None:
        link = self._links.get(to)
        if link is None or command.broker_epoch != link.broker.epoch:
            return
        if len(link) < self._settings.waiting_max:
            link.send(command)
            return
        logger.warning("broker %d has not answered %d commands: it is told everything anew", to, len(link))
        self._end(to)
        self._answered(events.LinkOverflowed(to, link.broker.epoch))

    def close(self) -> None:
        for ident in list(self._links):
            self._end(ident)

    def waiting(self) -> dict[BrokerId, int]:
        """Commands that no answer has come to, by broker."""
        return {ident: len(link) for ident, link in self._links.items()}

    def counts(self) -> dict[BrokerId, tuple[int, int, int]]:
        """Of each broker: commands that no answer has come to, how often one was said again, and how many it refused,
        in whole or in part."""
        return {ident: (len(link), link.resent, link.refused) for ident, link in self._links.items()}

    def _end(self, ident: BrokerId) -> None:
        self._links.pop(ident).scope.cancel()
