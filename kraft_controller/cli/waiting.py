"""Waiting for slow changes, with a line on stderr whenever the remaining work changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click
import trio

import zab
from kraft_controller.runtime.admin.picture import read_acting
from zab.cli.kit.failures import Failed
from zab.cli.kit.output import progress
from zab.cli.kit.verb_group import Arguments

F = TypeVar("F", bound=Callable[..., Any])

LOOK_S: Final = 0.25
WAIT_S: Final = 120.0
ANSWER_S: Final = 5.0


class Waiting(ABC):
    def __init__(self, session: zab.Session) -> None:
        self._session = session

    @abstractmethod
    async def left(self) -> str | None:
        """Return what is missing still, or None when nothing is."""

    async def controller(self) -> str:
        acting = await read_acting(self._session)
        return "there is no controller" if acting is None else f"broker {acting.id} is the controller"


def wait_options(until: str) -> Callable[[F], F]:
    def add(function: F) -> F:
        function = click.option(
            "--wait-s", type=float, default=WAIT_S, show_default=True, metavar="SECONDS", help="Wait no longer."
        )(function)
        return click.option("--wait", is_flag=True, help=f"Wait until {until}.")(function)

    return add


async def waited(arguments: Arguments, waiting: Waiting) -> None:
    """Wait until nothing is left; raise `Failed` with what is left if that takes too long."""
    said = None
    with trio.move_on_after(arguments.wait_s):
        while (left := await waiting.left()) is not None:
            if left != said:
                progress(f"waiting: {left}")
                said = left
            await trio.sleep(LOOK_S)
        return
    who = "the store does not answer"
    with trio.move_on_after(ANSWER_S):
        who = await waiting.controller()
    raise Failed(f"not done in {arguments.wait_s:g} s{f': {said}' if said else ''}; {who}")
