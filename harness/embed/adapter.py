"""The adapter around a user's machine. It reports to the checkers, and passes requests and transactions on.

The adapter puts the number of the call in front of each request and transaction, so that equal requests differ, and
each transaction leads to its call. The user's machine does not see these numbers.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, overload

from harness.checkers import Violation
from harness.embed.state import States
from harness.worlds.stack.checked_machine import CheckedMachine
from zab.core.errors import Refused
from zab.core.zxid import ServerId, Zxid
from zab.service.replicated_machine import Machine, View

if TYPE_CHECKING:
    from harness.worlds.stack.server import Life

RAISES = "the machine raises no exception"
Applied: TypeAlias = Callable[[ServerId, Zxid, int, object], None]
"""A callback with the server, the zxid, the number of the request and its result."""


class Answer(NamedTuple):
    zxid: Zxid
    result: object


def numbered(number: int, body: bytes) -> bytes:
    return b"%d/" % number + body


def number_of(numbered: bytes) -> int:
    return int(numbered.partition(b"/")[0])


def body_of(numbered: bytes) -> bytes:
    return numbered.partition(b"/")[2]


class Outstanding(Sequence[tuple[Zxid, bytes]]):
    """The transactions that are prepared and not applied, without the numbers of calls."""

    def __init__(self, numbered: Sequence[tuple[Zxid, bytes]]) -> None:
        self._numbered = numbered

    def __len__(self) -> int:
        return len(self._numbered)

    @overload
    def __getitem__(self, place: int) -> tuple[Zxid, bytes]: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[tuple[Zxid, bytes]]: ...
    def __getitem__(self, place: int | slice) -> tuple[Zxid, bytes] | Sequence[tuple[Zxid, bytes]]:
        if isinstance(place, slice):
            return Outstanding(self._numbered[place])
        zxid, txn = self._numbered[place]
        return zxid, body_of(txn)

    def __iter__(self) -> Iterator[tuple[Zxid, bytes]]:
        return ((zxid, body_of(txn)) for zxid, txn in self._numbered)


class UserMachine(CheckedMachine):
    def __init__(self, life: Life, machine: Machine, states: States, applied: Applied) -> None:
        super().__init__(life)
        self._states = states
        self._applied = applied
        self._machine = machine
        self.last: Zxid | None = None
        """The zxid of the last transaction that the user's machine applied; None after a restore."""

    def compare(self) -> None:
        """Compare the final state with that of the other servers."""
        if self.last is not None:
            self._states.compare(self._life.server.id, self.last, self._machine)

    def prepare(self, request: bytes, view: View) -> bytes:
        number, body = number_of(request), body_of(request)
        try:
            txn: object = self._machine.prepare(body, view._replace(outstanding=Outstanding(view.outstanding)))
        except Refused:
            raise
        except Exception as error:
            raise self._raised("prepare", body, error) from error
        if not isinstance(txn, bytes):
            raise Violation(RAISES, f"prepare({body!r}) returns {txn!r}; a transaction must be bytes")
        return numbered(number, txn)

    def apply(self, zxid: Zxid, txn: bytes) -> object:
        if self._life.dead:
            return zxid
        super().apply(zxid, txn)
        number, body = number_of(txn), body_of(txn)
        try:
            result = self._machine.apply(zxid, body)
        except Exception as error:
            raise self._raised("apply", body, error) from error
        self._applied(self._life.server.id, zxid, number, result)
        self._states.applied(self._life.server.id, zxid, self._machine)
        self.last = zxid
        return Answer(zxid, result)

    def snapshot(self) -> Iterable[bytes]:
        """Return the chunks of the harness, then those of the user's machine.

        The latter are read later, as by a real member, so that a snapshot of changing data is detected.
        """
        held = self.machine_state.snapshot()
        return chain([b"%d" % len(held)], held, self._machine.snapshot())

    def restore(self, chunks: Iterable[bytes]) -> None:
        left = iter(chunks)
        count = int(next(left))
        self.machine_state.restore(islice(left, count))
        self.last = None
        try:
            self._machine.restore(left)
        except Exception as error:
            raise self._raised("restore", b"", error) from error
        self._life.restored()

    def _raised(self, what: str, body: bytes, error: Exception) -> Violation:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"in {place.name} ({Path(place.filename).name}:{place.lineno})"
        return Violation(
            RAISES,
            f"{what}({repr(body) if body else 'chunks'}) at server {self._life.server.id} raises {error!r} {where}",
        )
