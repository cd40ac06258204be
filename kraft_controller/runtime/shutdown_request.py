"""Controlled shutdown over the network: a broker's requests, and the controller's reply."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from typing import Final

import trio
from attrs import frozen

from kraft_controller.core.commands import Answer, ShutdownRequest
from kraft_controller.core.controlled_shutdown import ControlledShutdown, shutdown_granted, shutdown_refused
from kraft_controller.core.controller_events import BrokerNotAvailable, ControlledShutdownRequested, StaleBrokerEpoch
from kraft_controller.core.event_queue import NotController
from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition
from kraft_controller.core.state import Endpoint
from kraft_controller.runtime.command_connections import Dial, dialled
from kraft_controller.runtime.controller import Controller
from kraft_controller.runtime.frames import Frames
from kraft_controller.wire.command_frames import FrameError, decode, encode

logger: Final = logging.getLogger("kraft_controller")


@frozen
class ShutdownSettings:
    tries: int = 4
    """`controlled.shutdown.max.retries`, plus the first attempt."""
    pause_s: float = 5.0
    """`controlled.shutdown.retry.backoff.ms`."""
    answer_s: float = 30.0
    """The time limit for one attempt."""
    store_s: float = 10.0
    """The time for which a controlled shutdown waits for an unreachable store. Then the broker stops without moving its
    leaderships."""
    tls: ssl.SSLContext | None = None
    dial: Dial = dialled
    """Opens a connection."""


async def grant_shutdown(controller: Controller | None, request: ShutdownRequest) -> Answer:
    """Process a request for a controlled shutdown at the broker that received it."""
    try:
        if controller is None:
            raise NotController("this broker has no session")
        remaining = await controller.ask(ControlledShutdownRequested(request.broker, request.epoch))
    except (NotController, BrokerNotAvailable, StaleBrokerEpoch) as error:
        return shutdown_refused(request, error)
    return shutdown_granted(request, remaining)


async def request_shutdown(
    me: BrokerId,
    epoch: Callable[[], BrokerEpoch],
    find_controller: Callable[[], Endpoint | None],
    settings: ShutdownSettings | None,
) -> tuple[TopicPartition, ...] | None:
    """Request a controlled shutdown until it is complete or all attempts are used. Return the partitions that the
    broker still leads.

    Return None if every attempt failed. Without settings, request nothing and return an empty tuple.
    """
    if settings is None:
        return ()
    shutdown = ControlledShutdown(me, settings.tries)
    while True:
        try:
            endpoint = find_controller()
            if endpoint is None:
                raise NotController("the controller or its address is not known")
            with trio.fail_after(settings.answer_s):
                reply = await _send(endpoint, shutdown.request(epoch()), settings)
        except (NotController, OSError, trio.BrokenResourceError, trio.TooSlowError, FrameError) as error:
            shutdown.failed()
            why: str | None = str(error) or "no reply"
        else:
            why = shutdown.replied(reply)
        if why is not None:
            logger.info("controlled shutdown of broker %d: attempt failed: %s", me, why)
        if shutdown.finished:
            return shutdown.remaining
        await trio.sleep(settings.pause_s)


async def _send(endpoint: Endpoint, request: ShutdownRequest, settings: ShutdownSettings) -> object:
    frames = Frames(await settings.dial(endpoint, settings.tls))
    try:
        await frames.send(encode(request))
        body = await frames.receive()
        return None if body is None else decode(body)
    finally:
        with trio.CancelScope(shield=True):
            await frames.aclose()
