"""A process that is commanded by JSON lines: the other end of `bench.workers`."""

from __future__ import annotations

import cProfile
import io
import json
import logging
import os
import pstats
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import trio

Answer = dict[str, Any]


async def answer_commands(bench: object) -> None:
    """Execute lines of stdin until it is closed: `do` names a method of `bench`, and its result is printed."""
    async for command in commands():
        do = getattr(bench, command.pop("do"))
        try:
            answer = await partial(do, **command)()
        except Exception as error:
            answer = {"error": repr(error)}
            logging.exception("command failed")
        print(json.dumps(answer), flush=True)


async def commands() -> AsyncIterator[Answer]:
    async with trio.lowlevel.FdStream(os.dup(0)) as stdin:
        held = b""
        async for data in stdin:
            *lines, held = (held + data).split(b"\n")
            for line in lines:
                yield json.loads(line)


class Profiled:
    """A process that can report its use of time."""

    def __init__(self) -> None:
        self._profile: cProfile.Profile | None = None

    async def profile(self, path: str | None = None, lines: int = 60) -> Answer:
        """Start the profile at the first call; stop it at the second, and write the result."""
        if self._profile is None:
            self._profile = cProfile.Profile()
            self._profile.enable()
            return {}
        self._profile.disable()
        text = io.StringIO()
        pstats.Stats(self._profile, stream=text).sort_stats("tottime").print_stats(lines)
        self._profile = None
        if path:
            Path(path).write_text(text.getvalue())
        return {"profile": text.getvalue()}


def log_to_stderr() -> None:
    form = "%(asctime)s.%(msecs)03d %(message)s"
    logging.basicConfig(level=os.environ.get("ZAB_LOG", "INFO"), format=form, datefmt="%H:%M:%S")
