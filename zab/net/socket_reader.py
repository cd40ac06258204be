"""Reading from plain sockets: one task reads for all of them, and the member takes its turn in the same round.

With a task for each socket, incoming data costs two passes of Trio's loop: in the first a task reads the data and rings
the wakeup, in the second the driver takes its turn. And Trio registers each socket with the system again before each
wait. Here one `epoll` holds all sockets. One round reads all ready sockets, by calls instead of tasks, and then takes
the member's turn. `loop_wait` describes how the loop waits.

The owner of a socket is still a task of its own: it sleeps in `receive`, where it can be cancelled and gets errors.
Only the reading is shared.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol, TypeAlias

import trio

from zab.net.loop_wait import ReadyDescriptors, wait_for_epoll
from zab.net.wakeup import Wakeup

OnData: TypeAlias = Callable[[bytes], bool]
"""Called with the received bytes, and with b"" at the end of the stream. If it returns False, `receive` ends.

It runs between the reads from other sockets, so it must be quick. `receive` passes its exceptions on.
"""

Turn: TypeAlias = Callable[[], bool]
"""Does the member's work that needs no waiting. Returns True if nothing is left."""


class SocketReader(Protocol):
    """A reader of sockets for their owners."""

    async def receive(self, socket: int, bytes_max: int, on_data: OnData) -> None:
        """Pass received bytes to `on_data` until it returns False, or until `interrupt`.

        Raise `trio.BrokenResourceError` if the socket fails, and `trio.ClosedResourceError` if the reader ends.
        """
        ...

    @property
    def interruptible(self) -> bool:
        """True if `interrupt` has an effect."""
        ...

    def interrupt(self, socket: int) -> bool:
        """End the `receive` of this socket. Return False if none is under way."""
        ...


class TaskReader:
    """A reader that reads in the task of each owner."""

    interruptible = False

    async def receive(self, socket: int, bytes_max: int, on_data: OnData) -> None:
        while on_data(await read_socket(socket, bytes_max)):
            pass

    def interrupt(self, socket: int) -> bool:
        """Return False: this reader cannot be interrupted; cancel the owner's task instead."""
        return False


TASK_READER: Final = TaskReader()


async def read_socket(socket: int, bytes_max: int) -> bytes:
    """Wait until the socket has data, then read.

    Trio's streams read first and wait if nothing has arrived. Usually nothing has arrived, so the first read would cost
    a system call and an exception.
    """
    while True:
        await trio.lowlevel.wait_readable(socket)
        try:
            return os.read(socket, bytes_max)
        except BlockingIOError:
            continue
        except OSError as error:
            raise trio.BrokenResourceError from error


class _Receiver:
    """The owner of one socket, asleep in `receive`."""

    __slots__ = ("bytes_max", "error", "on_data", "task")

    def __init__(self, task: trio.lowlevel.Task, bytes_max: int, on_data: OnData) -> None:
        self.task = task
        self.bytes_max = bytes_max
        self.on_data = on_data
        self.error: Exception | None = None


class EpollReader:
    """One reader for all sockets, from `open` until `close` or the end of the nursery.

    At other times, and if the system has no `epoll`, each owner reads its own socket. `wakeup` wakes the task that
    takes the member's turns, and `turn` runs such a turn.
    """

    def __init__(self, wakeup: Wakeup, turn: Turn) -> None:
        self._wakeup = wakeup
        self._turn = turn
        self._nursery: trio.Nursery | None = None
        """Runs the reading task. None before `open`, after `close` or the end, or if the system has no `epoll`."""
        self._epoll: select.epoll | None = None
        """The system's `epoll`, created with the first socket. None before, after the end, or if there is none."""
        self._receivers: dict[int, _Receiver] = {}
        """The owner of each descriptor. All these descriptors are registered with `_epoll`."""

    def open(self, nursery: trio.Nursery) -> None:
        """Read in one task from now on. `nursery` runs it, from the first `receive` on."""
        if hasattr(select, "epoll"):
            self._nursery = nursery

    def close(self) -> None:
        """Let later calls of `receive` read in their own tasks. Calls under way are not affected."""
        self._nursery = None

    async def receive(self, socket: int, bytes_max: int, on_data: OnData) -> None:
        if self._nursery is None:
            await TASK_READER.receive(socket, bytes_max, on_data)
            return
        if self._epoll is None:
            self._epoll = select.epoll()
            self._nursery.start_soon(self._run, self._epoll)
        self._epoll.register(socket, select.EPOLLIN)
        receiver = self._receivers[socket] = _Receiver(trio.lowlevel.current_task(), bytes_max, on_data)

        def give_up(_: object) -> trio.lowlevel.Abort:
            self._forget(socket)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(give_up)
        if receiver.error is not None:
            raise receiver.error

    @property
    def interruptible(self) -> bool:
        return self._nursery is not None

    def interrupt(self, socket: int) -> bool:
        receiver = self._receivers.get(socket)
        if receiver is None:
            return False
        self._wake(socket, receiver)
        return True

    def _forget(self, socket: int) -> None:
        del self._receivers[socket]
        if self._epoll is not None:
            with suppress(OSError):  # closing a socket removes it from the epoll
                self._epoll.unregister(socket)

    async def _run(self, epoll: select.epoll) -> None:
        try:
            await wait_for_epoll(epoll, self._round)
        finally:
            self._nursery = self._epoll = None
            epoll.close()
            for socket, receiver in list(self._receivers.items()):
                self._wake(socket, receiver, trio.ClosedResourceError("the socket reader of this server has ended"))

    def _round(self, ready: ReadyDescriptors) -> None:
        """Read from all ready sockets, then take the member's turn if its wakeup was rung.

        If the driver does not wait for its wakeup, it is awake already: then `ring` works as usual, and the driver
        takes the turn.
        """
        wakeup, receivers = self._wakeup, self._receivers
        held = wakeup.hold()
        try:
            for socket, _ in ready:
                receiver = receivers.get(socket)
                if receiver is None:
                    continue  # ended by another socket of this round, or Trio's own epoll
                try:
                    data = os.read(socket, receiver.bytes_max)
                except BlockingIOError:
                    continue
                except OSError as error:
                    broken = trio.BrokenResourceError()
                    broken.__cause__ = error
                    self._wake(socket, receiver, broken)
                    continue
                try:
                    goes_on = receiver.on_data(data)
                except Exception as error:
                    self._wake(socket, receiver, error)
                    continue
                if not goes_on:
                    self._wake(socket, receiver)
            if held and wakeup.answer() and not self._turn():
                wakeup.ring()
        finally:
            if held:
                wakeup.release()

    def _wake(self, socket: int, receiver: _Receiver, error: Exception | None = None) -> None:
        """End the owner's `receive`, unless it has ended already."""
        if self._receivers.get(socket) is receiver:
            self._forget(socket)
            receiver.error = error
            trio.lowlevel.reschedule(receiver.task)
