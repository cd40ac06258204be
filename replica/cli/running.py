"""Expected errors of a running broker, such as a port in use, printed as one line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import zab
from kraft_controller.runtime.registration import BrokerIdTaken
from kraft_controller.wire.broker_identity import WrongIdentity
from kraft_controller.wire.znodes import DamagedNode
from replica.core.errors import KafkaError
from zab.cli.kit.failures import run_in_trio

EXPECTED: Final = (zab.ZabError, OSError, WrongIdentity, BrokerIdTaken, DamagedNode, KafkaError)


def run(function: Callable[..., Awaitable[object]], *arguments: Any) -> None:
    run_in_trio(function, *arguments, expected=EXPECTED, describe=_described)


def _described(error: BaseException) -> str:
    if isinstance(error, KafkaError):
        return error.text or error.code.name
    if isinstance(error, OSError) and error.strerror and error.filename is None:
        return error.strerror  # without the error number
    return str(error)
