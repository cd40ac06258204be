"""The trace of a run: all its acts, in order. Equal traces mean equal runs, in any process."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, TypeAlias

import attrs

from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.ready import BarrierDone, Note, Recovered
from zab.core.zxid import Zxid, show

Act: TypeAlias = tuple[int, int, str, int, object]
"""The time in microseconds, the server, the verb, the other server that takes part (0: none), and the object."""


class Trace:
    __slots__ = ("acts",)

    def __init__(self) -> None:
        self.acts: list[Act] = []

    def hash(self) -> str:
        """Return a digest of all acts. It depends on the script alone: not on the process, and not on the hash seed."""
        digest = blake2b(digest_size=16)
        for act in self.acts:
            digest.update(line(act).encode())
        return digest.hexdigest()

    def text(self, last: int | None = None) -> str:
        acts = self.acts if last is None else self.acts[max(0, len(self.acts) - last) :]
        return "\n".join(line(act) for act in acts)


def line(act: Act) -> str:
    at, server, verb, other, what = act
    peer = f" {other}" if other else ""
    return f"{at // 1000:>6}.{at % 1000:03} {server} {verb}{peer} {brief(what)}".rstrip()


_ZXIDS = frozenset({"zxid", "last", "common", "after", "until", "committed", "first", "ensemble_version", "snapshot"})


def brief(what: object) -> str:
    """Describe a value in a few words: zxids as `2/1`, a batch by its ends, a membership by its version."""
    if what is None:
        return ""
    if isinstance(what, str):
        return what
    if isinstance(what, Batch):
        return show(what.first) if what.count == 1 else f"{show(what.first)}..{show(what.last)}"
    if isinstance(what, Ensemble):
        return f"membership {show(what.version)} {list(what.voters)}+{list(what.observers)}"
    if isinstance(what, bytes):
        return f"{len(what)} bytes"
    if isinstance(what, Note):
        return " ".join([what.event, *(f"{key}={value}" for key, value in what.fields)])
    if isinstance(what, BarrierDone):
        return f"barrier {what.token} {'failed' if what.zxid is None else show(what.zxid)}"
    if isinstance(what, Recovered):
        last = what.batches[-1].last if what.batches else what.snapshot
        votes = "" if what.voting else ", does not vote"
        return f"promised {what.accepted}, adopted {what.current}, {show(what.snapshot)}..{show(last)}{votes}"
    kind: Any = type(what)
    if attrs.has(kind):
        words = [kind.__name__]
        for attribute in attrs.fields(kind):
            value = getattr(what, attribute.name)
            if attribute.name == "ticket":
                continue
            if attribute.name in _ZXIDS and type(value) is int:
                words.append(f"{attribute.name} {show(Zxid(value))}")
            else:
                words.append(f"{attribute.name} {brief(value)}")
        return " ".join(words)
    return str(what)
