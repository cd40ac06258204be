"""The replicated machine: the part that a user of this library provides.

The leader turns a request into a transaction; every server applies the transaction. So `apply` receives the same
transactions in the same order everywhere and must be deterministic. `prepare` runs at the leader only: clocks, random
values and checks belong there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

from zab.core.zxid import Epoch, Zxid


class View(NamedTuple):
    """The input of `prepare` in addition to the request.

    zxid         the zxid of the transaction that is being prepared
    epoch        the epoch of this leader; transactions prepared in another epoch are no longer outstanding
    now_ms       the leader's wall clock, in milliseconds since 1970
    outstanding  transactions prepared before this one and not applied yet, with their zxids, in order. The
                 sequence changes later: copy the entries that you keep
    """

    zxid: Zxid
    epoch: Epoch
    now_ms: int
    outstanding: Sequence[tuple[Zxid, bytes]]


class Machine(Protocol):
    """The state to replicate.

    Its methods should be quick, because they are called in the event loop. The exceptions are `restore` and the
    iteration over the chunks of `snapshot`: they run in another thread.

    A machine may have an attribute `kind`, one word, like "store". The directory of a member records the kind of its
    machine, and no member with a machine of another kind opens it.
    """

    def prepare(self, request: bytes, view: View) -> bytes:
        """Return the transaction for this request, or raise `Refused`. Called at the leader.

        Decide from the applied *and* the outstanding transactions: the latter are applied before this one.

        Any other exception, a result that is not bytes, or a transaction that does not fit into a frame
        (`Limits.frame_bytes_max`) is a bug. It is logged, and the submitter gets `Refused`. The leader continues: if it
        stopped, the request would move to the next leader and stop that leader, too.
        """
        ...

    def apply(self, zxid: Zxid, txn: bytes) -> object:
        """Apply a transaction, and return the result for its submitter.

        Every server calls this in zxid order, once for each transaction that the state does not contain yet.

        It must be deterministic: the same state and the same transaction always give the same state.
        An exception is a bug and stops the member.
        """
        ...

    def snapshot(self) -> Iterable[bytes]:
        """Return the state as chunks. Called in the event loop; the chunks are taken later, in another thread.

        So the chunks must not change when the machine changes: return a copy, or share only parts that are replaced and
        never mutated. A chunk may have up to `Limits.snapshot_chunk_bytes_max` bytes. As each is in memory as a whole,
        some hundred KiB are a good size.
        """
        ...

    def restore(self, chunks: Iterable[bytes]) -> None:
        """Replace the state by the state in a snapshot's chunks. Called in a thread, without concurrent calls."""
        ...


class Passive:
    """A base class for machines that use each request as its own transaction."""

    def prepare(self, request: bytes, view: View) -> bytes:
        """Return the request as its own transaction."""
        return request


@runtime_checkable
class KeepsAccount(Protocol):
    """A machine that records the outstanding transactions itself, and so needs no `View`."""

    def prepare_at(self, request: bytes, zxid: Zxid, epoch: Epoch, now_ms: int) -> bytes:
        """Prepare a request, as `prepare` does. The arguments are the fields of a `View` without `outstanding`."""
        ...


@runtime_checkable
class Describes(Protocol):
    """A machine that describes requests and transactions, so that the log can name one that has held up the server."""

    def describe(self, request: bytes) -> str:
        """Describe a request in a few words, such as "multi of session 0x10000". Must not fail for any bytes."""
        ...

    def describe_transaction(self, txn: bytes) -> str:
        """Describe a transaction in a few words. It was applied, so it can be decoded."""
        ...


_METHODS: Final = ("prepare", "apply", "snapshot", "restore")


def check_machine(machine: object) -> None:
    """Raise TypeError for a class, and for an object that lacks one of the four methods."""
    if isinstance(machine, type):
        raise TypeError(f"the machine is the class {machine.__name__}: give an object of it, {machine.__name__}()")
    missing = [name for name in _METHODS if not callable(getattr(machine, name, None))]
    if missing:
        raise TypeError(
            f"{type(machine).__name__} is not a zab.Machine: it lacks {', '.join(missing)}; "
            "a subclass of zab.Passive has a prepare"
        )


def kind_of(machine: Machine) -> str:
    """Return the `kind` of the machine, or "" if it has none."""
    return str(getattr(machine, "kind", ""))


def passes_through(machine: Machine) -> bool:
    """Return whether `prepare` is that of `Passive` and need not be called."""
    return getattr(type(machine), "prepare", None) is Passive.prepare
