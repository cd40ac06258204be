"""Leaving in an orderly way: a broker asks the controller to give what it leads to others, and goes when that is done.

Without it every partition that it leads has no leader for as long as its session takes to end.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from typing import Final

import trio
from attrs import frozen

from kraft_controller.core.events import BrokerNotAvailable, ShutdownAsked, StaleBrokerEpoch
from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition
from kraft_controller.core.state import Endpoint
from kraft_controller.runtime.controller import Controller
from kraft_controller.runtime.frames import Frames
from kraft_controller.runtime.links import Dial, dialled
from kraft_controller.runtime.queue import NotController
from kraft_controller.wire.commands import Answer, FrameError, LetGo, decode, encode

logger: Final = logging.getLogger("kraft_controller")

NONE: Final = 0
LEADER_NOT_AVAILABLE: Final = 5
BROKER_NOT_AVAILABLE: Final = 8
NOT_CONTROLLER: Final = 41
STALE_BROKER_EPOCH: Final = 77


@frozen
class LeaveSettings:
    """tries     `controlled.shutdown.max.retries`, and the first one
    pause_s   `controlled.shutdown.retry.backoff.ms`
    answer_s  for one try
    store_s   how long the store may be out of reach before a broker that leaves goes anyway
    dial      how a stream is had
    """

    tries: int = 4
    pause_s: float = 5.0
    answer_s: float = 30.0
    store_s: float = 10.0
    tls: ssl.SSLContext | None = None
    dial: Dial = dialled


async def grant(controller: Controller | None, asked: LetGo) -> Answer:
    """At whoever was asked: the controller's word, or that it is another."""
    try:
        if controller is None:
            raise NotController("this broker has no session")
        left = await controller.ask(ShutdownAsked(asked.broker, asked.epoch))
    except NotController:
        return Answer(asked.number, NOT_CONTROLLER, {})
    except BrokerNotAvailable:
        return Answer(asked.number, BROKER_NOT_AVAILABLE, {})
    except StaleBrokerEpoch:
        return Answer(asked.number, STALE_BROKER_EPOCH, {})
    return Answer(asked.number, NONE, dict.fromkeys(left, LEADER_NOT_AVAILABLE))


async def ask_to_leave(
    me: BrokerId,
    epoch: Callable[[], BrokerEpoch],
    find: Callable[[], Endpoint | None],
    settings: LeaveSettings | None,
) -> tuple[TopicPartition, ...] | None:
    """What it leads still, after all tries: empty when it may go. None: no controller has answered."""
    left: tuple[TopicPartition, ...] | None = () if settings is None else None
    for number in range(0 if settings is None else settings.tries):
        assert settings is not None
        if number:
            await trio.sleep(settings.pause_s)
        try:
            endpoint = find()
            if endpoint is None:
                raise FrameError("there is no controller")
            with trio.fail_after(settings.answer_s):
                answer = await _ask(endpoint, LetGo(number, me, epoch()), settings)
        except (OSError, trio.BrokenResourceError, trio.TooSlowError, FrameError) as error:
            logger.info("broker %d wants to leave: %s", me, str(error) or "no answer")
            continue
        if answer.error:
            logger.info("broker %d wants to leave, and hears error %d", me, answer.error)
            continue
        left = tuple(answer.errors)
        if not left:
            break
    return left


async def _ask(endpoint: Endpoint, asked: LetGo, settings: LeaveSettings) -> Answer:
    frames = Frames(await settings.dial(endpoint, settings.tls))
    try:
        await frames.send(encode(asked))
        body = await frames.receive()
        answer = None if body is None else decode(body)
        if not isinstance(answer, Answer) or answer.number != asked.number:
            raise FrameError("this is not the answer to what was said")
        return answer
    finally:
        with trio.CancelScope(shield=True):
            await frames.aclose()
