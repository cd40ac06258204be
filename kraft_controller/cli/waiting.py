"""Waiting for slow changes, with a line on stderr when the remaining work changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click
import trio

import zab
from kraft_controller.runtime.admin.cluster_description import read_acting
from zab.cli.kit.failures import Failed
from zab.cli.kit.output import progress
from zab.cli.kit.verb_group import Arguments

F = TypeVar("F", bound=Callable[..., Any])

LOOK_S: Final = 0.25
WAIT_S: Final = 120.0
ANSWER_S: Final = 5.0


class Waiting(ABC):
    """A change in progress that a command waits for."""

    def __init__(self, session: zab.Session) -> None:
        self._session = session

    @abstractmethod
    async def left(self) -> str | None:
        """Return a description of the remaining work; None if there is none."""

    async def controller(self) -> str:
        acting = await read_acting(self._session)
        return "there is no controller" if acting is None else f"broker {acting.id} is the controller"


def wait_options(until: str) -> Callable[[F], F]:
    def add(function: F) -> F:
        function = click.option(
            "--wait-s",
            type=float,
            default=WAIT_S,
            show_default=True,
            metavar="SECONDS",
            help="The timeout of --wait.",
        )(function)
        return click.option("--wait", is_flag=True, help=f"Wait until {until}.")(function)

    return add


async def waited(arguments: Arguments, waiting: Waiting) -> None:
    """Wait until no work remains. Raise `Failed`, with the remaining work, after the timeout."""
    shown = None
    with trio.move_on_after(arguments.wait_s):
        while (left := await waiting.left()) is not None:
            if left != shown:
                progress(f"waiting: {left}")
                shown = left
            await trio.sleep(LOOK_S)
        return
    state = "the store does not reply"
    with trio.move_on_after(ANSWER_S):
        state = await waiting.controller()
    raise Failed(f"not done after {arguments.wait_s:g} s{f': {shown}' if shown else ''}; {state}")
