"""Waiting for what takes time, with a line whenever what is left has changed."""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from typing import Final

import trio

import zab
from kraft_controller.cli.common import Failed, progress
from kraft_controller.runtime.admin.picture import read_acting

LOOK_S: Final = 0.25
WAIT_S: Final = 120.0
ANSWER_S: Final = 5.0


class Waiting(ABC):
    def __init__(self, session: zab.Session) -> None:
        self._session = session

    @abstractmethod
    async def left(self) -> str | None:
        """What is waited for still; None: it has come about."""

    async def controller(self) -> str:
        acting = await read_acting(self._session)
        return "there is no controller" if acting is None else f"broker {acting.id} is the controller"


def add_waiting(parser: argparse.ArgumentParser, until: str) -> None:
    parser.add_argument("--wait", action="store_true", help=f"until {until}")
    parser.add_argument(
        "--wait-s", type=float, default=WAIT_S, metavar="SECONDS", help=f"at most so long (default {WAIT_S:g})"
    )


async def waited(arguments: argparse.Namespace, waiting: Waiting) -> None:
    """`Failed` when it takes too long, with what was left."""
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
