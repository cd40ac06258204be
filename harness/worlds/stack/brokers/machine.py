"""What a process finds beneath it, as the script decides it: threads, the time of day, chance, directories, network.

The broker is the one that is shipped, and asks the machine where it likes; so for the time of a run the machine itself
answers otherwise. There are no threads: a job runs in the loop, after a delay by chance.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any, Final
from unittest.mock import patch

import trio

from harness.worlds.stack.brokers.sockets import Sockets
from replica.storage import log_manager
from zab.storage.disk import FolderDisk

DAY_S: Final = 1_700_000_000
"""The time of day when a run begins."""


@contextmanager
def arranged(seed: str, thread_us: tuple[int, int], files: Callable[[str], FolderDisk]) -> Iterator[None]:
    """`files`: what is in a directory. Within it, tasks know their process by `sockets.PROCESS`."""
    random = Random(f"{seed}/machine")

    async def in_loop(job: Callable[..., Any], *arguments: Any, **_: Any) -> Any:
        await trio.sleep(random.randint(*thread_us) / 1e6)
        return job(*arguments)

    def now() -> float:
        return DAY_S + trio.current_time()

    with ExitStack() as stack:
        for where, name, instead in (
            (trio.to_thread, "run_sync", in_loop),
            (time, "time", now),
            (time, "time_ns", lambda: int(now() * 1e9)),
            (os, "urandom", random.randbytes),
            (log_manager, "log_directory", files),
        ):
            stack.enter_context(patch.object(where, name, instead))
        yield


def use_sockets() -> None:
    """In a run of Trio, from now on."""
    sockets = Sockets()
    trio.socket.set_custom_socket_factory(sockets)
    trio.socket.set_custom_hostname_resolver(sockets)
