"""Running something to its end. What is expected to go wrong, like a port that is taken, is one line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

import zab
from kraft_controller.cli.common import Failed
from kraft_controller.runtime.identity import WrongIdentity
from kraft_controller.runtime.registration import BrokerIdTaken
from kraft_controller.runtime.together import sole
from replica.core.errors import KafkaError

EXPECTED: Final = (zab.ZabError, OSError, WrongIdentity, BrokerIdTaken, KafkaError)


def run(function: Callable[..., Awaitable[object]], *arguments: Any) -> None:
    try:
        trio.run(function, *arguments)
    except BaseExceptionGroup as group:
        raise _plain(sole(group)) from None
    except EXPECTED as error:
        raise _plain(error) from None


def _plain(error: BaseException) -> BaseException:
    if isinstance(error, KafkaError):
        return Failed(error.text or error.code.name)
    if isinstance(error, OSError) and error.strerror and error.filename is None:
        return Failed(error.strerror)  # the number in front of it says nothing more
    return Failed(str(error)) if isinstance(error, EXPECTED) else error
