"""The order of one turn of a member: first the requests, then each Ready of the node with its effects.

The owner carries out the effects, and decides nothing. It takes all input before a turn; after the turn it reports the
role and sets the timer. In production the owner is `Driver`, in simulation a server on virtual time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.node import Node
from zab.core.outbox import EMPTY_READY
from zab.core.ready import Activate, Append, Apply, Ready, Restore
from zab.core.zxid import Millis
from zab.service.forwarding.request_path import RequestPath

Wait = TypeVar("Wait", covariant=True)
"""A reason for a turn to wait."""


class TurnEffects(Protocol[Wait]):
    """The effects that the owner of a turn carries out. Iterators yield a reason whenever the turn has to wait."""

    def begin(self, ready: Ready) -> None:
        """Prepare for a Ready that the fast path cannot carry out, and log its notes. Its other effects follow."""

    def send_and_save(self, ready: Ready) -> None:
        """Send the messages, change the links, and hand over the writes, which the messages need not wait for."""

    def find_snapshots(self, ready: Ready) -> None:
        """Begin to look for snapshot files that learners hold in part, and to write a file of a state that is sent."""

    def apply_batch(self, batch: Batch) -> Iterable[Wait]:
        """Apply committed transactions to the machine."""

    def restore(self, restore: Restore) -> Iterable[Wait]:
        """Replace the machine's state by a snapshot."""

    def activate(self, ensemble: Ensemble) -> None:
        """Use the addresses of a membership that has come into force."""

    def carried_out(self, ready: Ready, now: Millis) -> None:
        """Report to the node which writes have become durable. Called after all other effects of the Ready."""


def _is_common(ready: Ready) -> bool:
    """Return whether the fast path can carry out this Ready: it changes no role, deadline or link.

    A synchronization with a snapshot has a note. So in a Ready without notes, no message has to wait for `apply`.
    """
    if ready.notes or ready.links or ready.barriers or ready.finds:
        return False
    for write in ready.save:
        if type(write) is not Append:
            return False
    apply = ready.apply
    return not apply or (len(apply) == 1 and type(apply[0]) is Apply)


class MemberTurn(Generic[Wait]):
    """Runs the turns of one node and its request path, with the effects that the owner carries out."""

    def __init__(self, node: Node, requests: RequestPath, effects: TurnEffects[Wait]) -> None:
        self._node = node
        self._requests = requests
        self._effects = effects

    def steps(self, now: Millis, *, steady: bool) -> Generator[Wait, None, bool]:
        """Carry out one turn. Return True if `steady` and every Ready was common: then the role has not changed.

        `steady`: whether the role that was reported last serves.

        Waiting requests are sent or proposed first. Each Ready sends and saves before it applies, so that the network
        and the disk work in the meantime; `_carry_out` has the exception. Requests are tried again after an apply,
        which makes room for them.
        """
        node, requests, effects = self._node, self._requests, self._effects
        requests.turn(now)
        if requests.barriers.waiting:
            requests.ask_barrier(now)
        while node.has_ready:
            ready = node.ready()
            if ready is EMPTY_READY:
                break
            apply = ready.apply
            if steady and _is_common(ready):
                effects.send_and_save(ready)
                if apply:
                    batch = apply[0].batch  # type: ignore[union-attr]
                    yield from effects.apply_batch(batch)
                    requests.reached(batch.last)
            else:
                steady = False
                yield from self._carry_out(ready)
            effects.carried_out(ready, now)
            if apply or not steady:
                requests.turn(now)
        return steady

    def _carry_out(self, ready: Ready) -> Iterator[Wait]:
        """Carry out any Ready: send and save, then apply, then complete the barriers.

        The peers and the disk take longest, so they come first. `apply` precedes them only if `Ready.wants_state`.
        """
        effects, apply = self._effects, self._apply(ready)
        effects.begin(ready)
        if ready.wants_state:
            yield from apply
        effects.send_and_save(ready)
        effects.find_snapshots(ready)
        yield from apply
        for barrier in ready.barriers:
            self._requests.on_barrier(barrier.token, barrier.zxid)

    def _apply(self, ready: Ready) -> Iterator[Wait]:
        """Carry out the items of `Ready.apply` in their order. An item is a batch, a membership or a snapshot."""
        requests, effects = self._requests, self._effects
        zxid = None
        for item in ready.apply:
            if isinstance(item, Apply):
                yield from effects.apply_batch(item.batch)
                zxid = item.batch.last
            elif isinstance(item, Activate):
                requests.changes.activated(item.ensemble.version)
                effects.activate(item.ensemble)
            else:
                yield from effects.restore(item)
                requests.restored(item.zxid)
                zxid = item.zxid
        if zxid is not None:
            requests.reached(zxid)
