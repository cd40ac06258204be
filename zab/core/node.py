"""Stub, being written: the interface is fixed."""
from __future__ import annotations

from collections.abc import Callable, Sequence

from zab.core.ensemble import Ensemble
from zab.core.messages import LinkEvent, Message, State
from zab.core.ready import Ready, Recovered, Settings
from zab.core.zxid import Epoch, Millis, ServerId, Ticket, Zxid


class Node:
    me: ServerId
    state: State
    leader: ServerId | None        # whom I follow or observe, or me; None while LOOKING
    serving: bool                  # broadcast phase, and everything the leader called committed is applied
    epoch: Epoch                   # current epoch
    ensemble: Ensemble             # active membership
    committed: Zxid
    applied: Zxid                  # last zxid handed out in Ready.apply
    last: Zxid                     # last zxid logged (perhaps not yet durable)
    deadline: Millis               # call tick() at or after this; always finite

    def __init__(self, me: ServerId, ensemble: Ensemble, recovered: Recovered, settings: Settings,
                 jitter: Callable[[Millis], Millis], now: Millis) -> None: ...
    def step(self, source: ServerId, message: Message | LinkEvent, now: Millis) -> None: ...
    def saved(self, ticket: Ticket, now: Millis) -> None: ...
    def tick(self, now: Millis) -> None: ...
    def ready(self) -> Ready: ...
    def propose(self, payloads: Sequence[bytes], now: Millis) -> Zxid: ...   # first zxid; NotLeader, Overloaded
    def reconfigure(self, ensemble: Ensemble, expect: Zxid | None, now: Millis) -> Zxid: ...
    def barrier(self, token: int, now: Millis) -> None: ...                  # answer in Ready.barriers
    def log_starts(self, zxid: Zxid) -> None: ...   # the driver purged: the log on disk now begins behind zxid
    def digest(self) -> int: ...                    # of the history up to `applied`
