"""Reading from plain sockets: one task for all of them, and the member has its turn in the same breath.

With a task for each socket, whatever arrives costs two rounds of Trio's loop: one in which somebody reads it and rings,
another in which the driver has its turn. And each socket is told to the system anew before each wait. Here the system
keeps all of them in one `epoll`: one round takes all that has arrived, by calls and not by tasks, and turns the member
before it ends. Where the loop waits for that is told in `idle`.

Whoever owns a socket stays a task of its own: it sleeps in `hear`, is cancelled there, and is told there what went
wrong. So nothing but the reading is shared.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol, TypeAlias

import trio

from zab.runtime.doorbell import Doorbell
from zab.runtime.idle import Ready, attend
from zab.runtime.reading import read

Heard: TypeAlias = Callable[[bytes], bool]
"""Told what arrived, and at the end of the stream b"". False: no more for now, the one who waits goes on.

In the midst of the reading of others: it is quick. What it raises is raised where its owner waits.
"""

Turn: TypeAlias = Callable[[], bool]
"""As far as it goes without waiting. True: it is all done."""


class Ears(Protocol):
    async def hear(self, socket: int, bytes_max: int, heard: Heard) -> None:
        """Until `heard` says that it is enough. Raises `trio.BrokenResourceError`, too."""
        ...

    @property
    def stops(self) -> bool:
        """Whether `stop` does anything."""
        ...

    def stop(self, socket: int) -> bool:
        """It is enough, says somebody else. False, and nothing happens, where nobody hears just now."""
        ...


class OwnEars:
    """Everybody reads for himself."""

    async def hear(self, socket: int, bytes_max: int, heard: Heard) -> None:
        while heard(await read(socket, bytes_max)):
            pass

    stops = False

    def stop(self, socket: int) -> bool:
        """Only cancelling ends it."""
        return False


OWN_EARS: Final = OwnEars()


class _Hearer:
    __slots__ = ("bytes_max", "error", "heard", "task")

    def __init__(self, task: trio.lowlevel.Task, bytes_max: int, heard: Heard) -> None:
        self.task = task
        self.bytes_max = bytes_max
        self.heard = heard
        self.error: Exception | None = None


class SharedEars:
    """Between `open` and the end of its nursery, where the system has `epoll`; else everybody reads for himself.

    `turn` is what a ring of `bell` asks for.
    """

    def __init__(self, bell: Doorbell) -> None:
        self._bell = bell
        self._turn: Turn
        self._nursery: trio.Nursery | None = None
        self._epoll: select.epoll | None = None
        self._hearers: dict[int, _Hearer] = {}

    def open(self, nursery: trio.Nursery, turn: Turn) -> None:
        """The task begins with the first socket."""
        self._turn = turn
        if hasattr(select, "epoll"):
            self._nursery = nursery

    def close(self) -> None:
        self._nursery = None

    async def hear(self, socket: int, bytes_max: int, heard: Heard) -> None:
        if self._nursery is None:
            await OWN_EARS.hear(socket, bytes_max, heard)
            return
        if self._epoll is None:
            self._epoll = select.epoll()
            self._nursery.start_soon(self._run, self._epoll)
        self._epoll.register(socket, select.EPOLLIN)
        hearer = self._hearers[socket] = _Hearer(trio.lowlevel.current_task(), bytes_max, heard)

        def give_up(_: object) -> trio.lowlevel.Abort:
            self._forget(socket)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(give_up)
        if hearer.error is not None:
            raise hearer.error

    @property
    def stops(self) -> bool:
        return self._nursery is not None

    def stop(self, socket: int) -> bool:
        hearer = self._hearers.get(socket)
        if hearer is None:
            return False
        self._wake(socket, hearer)
        return True

    def _forget(self, socket: int) -> None:
        del self._hearers[socket]
        if self._epoll is not None:
            with suppress(OSError):  # whoever closed it behind our back has taken it out
                self._epoll.unregister(socket)

    async def _run(self, epoll: select.epoll) -> None:
        try:
            await attend(epoll, self._round)
        finally:
            self._nursery = self._epoll = None
            epoll.close()
            for socket, hearer in list(self._hearers.items()):
                self._wake(socket, hearer, trio.ClosedResourceError("nobody reads for this server any more"))

    def _round(self, ready: Ready) -> None:
        """While its driver does something else, perhaps a turn that has to wait, it is told as by anybody."""
        bell, hearers = self._bell, self._hearers
        held = bell.hold()
        try:
            for socket, _ in ready:
                hearer = hearers.get(socket)
                if hearer is None:
                    continue  # somebody else in this round has ended it, or it is none of ours
                try:
                    data = os.read(socket, hearer.bytes_max)
                except BlockingIOError:
                    continue
                except OSError as error:
                    broken = trio.BrokenResourceError()
                    broken.__cause__ = error
                    self._wake(socket, hearer, broken)
                    continue
                try:
                    goes_on = hearer.heard(data)
                except Exception as error:
                    self._wake(socket, hearer, error)
                    continue
                if not goes_on:
                    self._wake(socket, hearer)
            if held and bell.answer() and not self._turn():
                bell.ring()
        finally:
            if held:
                bell.release()

    def _wake(self, socket: int, hearer: _Hearer, error: Exception | None = None) -> None:
        """Unless it was cancelled by what it heard."""
        if self._hearers.get(socket) is hearer:
            self._forget(socket)
            hearer.error = error
            trio.lowlevel.reschedule(hearer.task)
