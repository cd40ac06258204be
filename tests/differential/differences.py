"""The deliberate differences from the original. Every other difference that a script shows is a bug.

Each has the smallest script that shows it. A test checks that it still does, and that docs/reference/differences.md
lists it. Random scripts avoid them.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from tests.differential.script import START, Ask, Connect, Script
from zab.store.acl import OPEN
from zab.store.operations import Op

_PRIVATE: Final = ((31, "digest", "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ="),)


@frozen
class Difference:
    what: str
    theirs: str
    """The reply of the original at the first difference."""
    ours: str
    """Our reply there."""
    why: str
    script: Script


DIFFERENCES: Final = (
    Difference(
        "A wrong password has no effect on others",
        "connection closed",
        "reply to PING",
        (
            "A client that guesses at a password must not cut the connection of the session's owner, so the "
            "server checks the password first."
        ),
        (Connect(1), Connect(2, session=1, password="wrong"), Ask(1, Op.PING)),
    ),
    Difference(
        "A returning client gets no events of nodes that it may not read",
        "event 3",
        "reply to SET_WATCHES",
        "Events that are generated for a returning client are checked against the node's ACL, as all others are.",
        (
            Connect(1),
            Ask(1, Op.CREATE, ("/a", b"", _PRIVATE, 0)),
            Ask(1, Op.SET_WATCHES, (START, ("/a",), (), ())),
        ),
    ),
    Difference(
        "A session keeps its timeout",
        "timeout_ms=30000",
        "timeout_ms=20000",
        (
            "It is negotiated once, when the session begins, and is the same on every server. A returning client "
            "receives the same timeout."
        ),
        (Connect(1, timeout_ms=20_000), Connect(1, session=1)),
    ),
    Difference(
        "Clients cannot delete containers",
        "reply to DELETE_CONTAINER zxid=2 None",
        "reply to DELETE_CONTAINER zxid=-1 error=-6",
        ("The operation by which servers delete empty containers checks no permission, so the client port refuses it."),
        (Connect(1), Ask(1, Op.CREATE, ("/a", b"", OPEN, 0)), Ask(1, Op.DELETE_CONTAINER, b"\0\0\0\2/a")),
    ),
    Difference(
        "A client cannot send createSession on an open session",
        "reply to NOTIFICATION",
        "reply to CREATE_SESSION zxid=-1 error=-6",
        (
            "Only servers may. The original answers with the frame that opens a "
            "connection, which no client can read at that point."
        ),
        (Connect(1), Ask(1, Op.CREATE_SESSION, b"\0\0\0\0")),
    ),
    Difference(
        "The empty path is no node",
        "reply to GET_DATA zxid=0 (b''",
        "error=-101",
        "In the original it is another name of the root, for reads only. Client libraries never send it.",
        (Connect(1), Ask(1, Op.GET_DATA, ("", False))),
    ),
    Difference(
        "A missing path is an error, for `sync` too",
        "reply to SYNC zxid=0 None",
        "reply to SYNC zxid=0 error=-5",
        "Like every other operation with a path, `sync` refuses a missing one.",
        (Connect(1), Ask(1, Op.SYNC, b"\xff\xff\xff\xff")),
    ),
    Difference(
        "A count below -1 is an error, not an empty list",
        "error=-114",
        "error=-5",
        "It means that the bytes are damaged, and gets the error for damaged bytes.",
        (Connect(1), Ask(1, Op.CREATE, b"\0\0\0\2/a\0\0\0\0\xff\xff\xff\xf0\0\0\0\0")),
    ),
    Difference(
        "Text is UTF-8",
        "extra=b'",
        "reply to SYNC zxid=0 '/\U0001f600'",
        (
            "We write characters beyond the basic plane as four bytes; the original writes them as two times "
            "three, which only Java reads. Both forms are understood."
        ),
        (Connect(1), Ask(1, Op.SYNC, ("/\U0001f600",))),
    ),
    Difference(
        "Unreadable credentials get a reply",
        "connection closed",
        "reply to AUTH zxid=0 error=-115",
        "The reply reports the failed authentication before the connection is closed.",
        (Connect(1), Ask(1, Op.AUTH, b"\0")),
    ),
)


UNSEEN: Final = {
    "zxids": (
        "A single server has epochs, too, and the re-attachment of a session is a transaction; so the numbers "
        "differ, but not their order."
    ),
    "The date after the version": (
        "It begins with the month, as in ZooKeeper until 3.5, because go-zookeeper accepts nothing else."
    ),
    "Session passwords": "They cannot be computed from the session's id.",
    "Pings": (
        "They are answered at once, not after a pending write, and also while a close is pending: a client whose "
        "write waits for an election keeps its connection."
    ),
    "Elections": "Clients whose server stays up keep their connection; requests wait, for a bounded time.",
    "sync": "A read after it sees everything that was committed anywhere before it, under any leader.",
    "A new ACL": (
        "It is in force for all later requests, also for those sent before its reply; the original may check "
        "them against the old one."
    ),
    "What a client has seen": (
        "`zab.connect` names the newest zxid of replies and of watch events when it connects; a server that "
        "lacks that transaction refuses it. The original's client names that of replies alone, so after an "
        "event it may read an older state at a read-only server."
    ),
    "Order within sets": (
        "Children, ephemeral nodes, identities and the deletions of a closed session may come in another order."
    ),
    "A multiRead": (
        "The reply has a bound, since it can be thousands of times as large as the request. A reply larger than "
        "`multi_read_bytes_max` (16 MiB) is not built, and the client gets `MARSHALLING_ERROR`."
    ),
    "Bounds on the work of one request": (
        "These requests fail: an ACL of more than 500 entries, with `auth` expanded (`INVALIDACL`); a multi "
        "of more than 10,000 operations (`BADARGUMENTS`, for the whole multi); a path of more than 100 names "
        "(`BADARGUMENTS`); an ephemeral node if the paths of its session, with 64 bytes more for each, take "
        "more than 2 MiB (`QUOTAEXCEEDED`); the 101st identity of a connection (`AUTHFAILED`). The original "
        "bounds only the size of the request. Each bound is a [setting](zoo-cfg.md)."
    ),
    "Bounds on watches": (
        "A request that would add a watch beyond 100,000 of a client, or 1,000,000 of a server, gets "
        "`QUOTAEXCEEDED` and adds none. A refused `setWatches` also ends the connection, because clients "
        "ignore the error; then they try another server. The original has no bound."
    ),
    "Bounds on quotas": (
        "A node of limits or statistics with more than 1,024 bytes is ignored, and a multi that creates the "
        "statistics of more than one quota is `BADARGUMENTS`. Every change below a limited path parses these "
        "nodes, and the creation of statistics walks the limited subtree: after a walk over 100,000 nodes "
        "the next creation gets `THROTTLEDOP` for a second. The original has no bound."
    ),
}
"""Differences that scripts cannot show, because they vary from run to run or need a failure at the right moment."""


def bullets() -> list[str]:
    """Return the bullets of docs/reference/differences.md."""
    seen = [f"- **{each.what}.** {each.why}" for each in DIFFERENCES]
    return seen + [f"- **{name}.** {text}" for name, text in UNSEEN.items()]
