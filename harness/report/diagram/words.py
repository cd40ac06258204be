"""The labels and families of messages and acts in the picture."""

from __future__ import annotations

from typing import Any, Final

from harness.trace import brief
from zab.core.zxid import Zxid, show

FAMILIES: Final = {
    "election": ("Notification",),
    "discovery": ("FollowerInfo", "LeaderInfo", "AckEpoch"),
    "synchronization": (
        "Diff", "Trunc", "SnapBegin", "SnapChunk", "SnapEnd", "NewLeader", "AckNewLeader", "UpToDate",
        "SendLog", "SendSnapshot", "SendRest", "SnapHeld", "SnapResume",
    ),
    "broadcast": ("Propose", "Ack", "Commit", "CommitAndActivate", "Inform", "InformAndActivate"),
    "barrier": ("BarrierRequest", "BarrierReply"),
    "heartbeat": ("Ping", "Pong"),
    "links": ("LinkUp", "LinkDown", "Reachable"),
}  # fmt: skip
"""The messages of each phase of the protocol. Every other message belongs to a request."""

_OF: Final = {kind: family for family, kinds in FAMILIES.items() for kind in kinds}
REQUESTS: Final = "requests"
_OF_ACTS: Final = {
    "dials": "links",
    "hangs up on": "links",
    "notes": "notes",
    "applies": "state",
    "activates": "state",
    "restores": "state",
    "begins a snapshot": "disk",
    "has stored a snapshot": "disk",
    "saves": "disk",
    "saved": "disk",
    "is asked to write": REQUESTS,
    "is asked to": REQUESTS,
    "is asked for a barrier": "barrier",
    "answers": "barrier",
    "answers a barrier": "barrier",
    "refuses": REQUESTS,
    "client": "clients",
}
PROCESS: Final = "process"


def family(verb: str, what: object) -> str:
    if verb in SENDS or verb == RECEIVES:
        return _OF.get(type(what).__name__, REQUESTS)
    return _OF_ACTS.get(verb, PROCESS)


SENDS: Final = ("says to", "tells", "would say to")
RECEIVES: Final = "hears"


def label(what: object) -> str:
    """Return the two words that fit on the arrow of a message."""
    value: Any = what
    kind = type(what).__name__
    if kind in ("Propose", "Inform", "InformAndActivate"):
        return f"{kind} {brief(value.batch)}"
    if kind in ("Commit", "Ack", "CommitAndActivate", "SnapBegin", "SnapHeld", "SnapResume"):
        return f"{kind} {show(Zxid(value.zxid))}"
    if kind in ("LeaderInfo", "NewLeader", "AckNewLeader"):
        return f"{kind} {value.epoch}"
    if kind == "UpToDate":
        return f"UpToDate {show(Zxid(value.committed))}"
    if kind in ("Diff", "Trunc"):
        return f"{kind} {show(Zxid(value.common))}"
    if kind == "Notification":
        return f"vote {value.leader}" if value.leader > 0 else "no vote"
    return what if isinstance(what, str) else kind
