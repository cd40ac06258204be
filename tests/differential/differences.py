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
            "A client that guesses at a password must not cut the connection of the session's owner. So the server "
            "checks the password before it closes that connection."
        ),
        (Connect(1), Connect(2, session=1, password="wrong"), Ask(1, Op.PING)),
    ),
    Difference(
        "A returning client gets no events of nodes that it may not read",
        "event 3",
        "reply to SET_WATCHES",
        "Events that are generated for a returning client are checked against the node's ACL, as all others are. The "
        "one exception is an event of a node that no longer exists.",
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
            "The timeout is negotiated once, when the session begins, and is the same on every server. A returning "
            "client receives the same timeout; the original negotiates it again."
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
            "Only servers may send `createSession`, so the client gets the error `UNIMPLEMENTED`. The original answers "
            "with the frame that opens a connection, which no client can read at that point."
        ),
        (Connect(1), Ask(1, Op.CREATE_SESSION, b"\0\0\0\0")),
    ),
    Difference(
        "The empty path is no node",
        "reply to GET_DATA zxid=0 (b''",
        "error=-101",
        "In the original the empty path is another name of the root, for reads only. Client libraries never send it.",
        (Connect(1), Ask(1, Op.GET_DATA, ("", False))),
    ),
    Difference(
        "A missing path is an error, for `sync` too",
        "reply to SYNC zxid=0 None",
        "reply to SYNC zxid=0 error=-5",
        "A request with a null path gets an error from every operation that takes a path. In the original, `sync` "
        "accepts it.",
        (Connect(1), Ask(1, Op.SYNC, b"\xff\xff\xff\xff")),
    ),
    Difference(
        "A list with a count below -1 is an error, not an empty list",
        "error=-114",
        "error=-5",
        (
            "Such a count shows that the request is damaged, so the error is `MARSHALLINGERROR`. The original reads "
            "it as an empty list."
        ),
        (Connect(1), Ask(1, Op.CREATE, b"\0\0\0\2/a\0\0\0\0\xff\xff\xff\xf0\0\0\0\0")),
    ),
    Difference(
        "Text is UTF-8",
        "extra=b'",
        "reply to SYNC zxid=0 '/\U0001f600'",
        (
            "A character beyond the basic plane is written as four bytes; the original writes it as two groups of "
            "three bytes, which only Java reads. Both forms are understood."
        ),
        (Connect(1), Ask(1, Op.SYNC, ("/\U0001f600",))),
    ),
    Difference(
        "Credentials that cannot be decoded get a reply",
        "connection closed",
        "reply to AUTH zxid=0 error=-115",
        (
            "The reply reports the failed authentication, and then the connection is closed. The original only closes "
            "the connection."
        ),
        (Connect(1), Ask(1, Op.AUTH, b"\0")),
    ),
)


UNSEEN: Final = {
    "zxids": (
        "A single server has epochs, too, and the re-attachment of a session is a transaction. So the numbers differ, "
        "but not their order."
    ),
    "The date after the version": (
        "In the version that servers report, the date begins with the month, as in ZooKeeper until 3.5, because "
        "go-zookeeper accepts no other form. The version itself ends with the release of zab, as in `3.9.5-zab-1.0.0`."
    ),
    "Session passwords": "They cannot be computed from the session's id, as they can in the original.",
    "Pings": (
        "Pings are answered at once, not after a pending write, and also while a close is pending. So a client does "
        "not give up its connection while its write waits for an election."
    ),
    "Elections": (
        "A client whose server loses its leader keeps its connection, and its requests wait. The server closes the "
        "connection if no leader comes within a third of the session's timeout, or within two ticks if the server "
        "reaches no quorum."
    ),
    "sync": (
        "A read after a `sync` sees everything that was committed before the `sync`, even if the server's leader was "
        "deposed and has not noticed it. The original's leader asks no quorum when it answers a `sync`."
    ),
    "A new ACL": (
        "A new ACL applies to every write that the leader receives after the `setACL`. Until the `setACL` is applied, "
        "the original checks such writes against the old ACL."
    ),
    "What a client has seen": (
        "When `zab.connect` reconnects, it sends the newest zxid that it has received in a reply or a watch event. A "
        "server that lacks that transaction obtains it before it serves the client, or refuses the client. The "
        "original's client sends the newest zxid of replies alone. So after an event it may read an older state at "
        "the next server."
    ),
    "Order within sets": (
        "Children, ephemeral nodes, identities, and the events of the ephemeral nodes of a closed session may come in "
        "another order."
    ),
    "A multiRead": (
        "The reply has a bound, because it can be thousands of times as large as the request. A reply larger than "
        "`multi_read_bytes_max` (16 MiB) is not built, and the client gets `MARSHALLINGERROR`."
    ),
    "Bounds on the work of one request": (
        "A request gets `INVALIDACL` if its ACL has more than 500 entries, before or after `auth` is expanded, or an "
        "id of more than 4,096 characters. A multi of more than 10,000 operations is refused as a whole with "
        "`BADARGUMENTS`. The creation of a node whose path has more than 100 names gets `BADARGUMENTS`. The creation "
        "of an ephemeral node gets `QUOTAEXCEEDED` if the paths of its session's ephemeral nodes would have more than "
        "2,097,152 characters, with 64 added for each node. Credentials that give a connection more than 100 "
        "identities, its address included, get `AUTHFAILED`. The original bounds only the size of the request. Each "
        "bound is a [setting](zoo-cfg.md)."
    ),
    "Bounds on watches": (
        "A client may have 100,000 watches, and all clients of a server 1,000,000; a persistent watch that is not "
        "recursive counts twice, and a watch with a long path counts more than once. A request that would exceed a "
        "bound gets `QUOTAEXCEEDED` and adds no watch. A refused `setWatches` also ends the connection, because "
        "clients ignore its error; without the connection they try another server. The original has no such bounds."
    ),
    "Bounds on quotas": (
        "Data of more than 1,024 bytes in `zookeeper_limits` or `zookeeper_stats` is ignored, because every change "
        "below a limited path parses this data. A multi that creates more than one `zookeeper_stats` gets "
        "`BADARGUMENTS`. When a `zookeeper_stats` is created, every server walks the subtree of the quota. So for one "
        "second for each 100,000 nodes of the subtree, and at most for a minute, the creation of another one gets "
        "`THROTTLEDOP`. The original has no such bounds."
    ),
}
"""Differences that scripts cannot show, because they vary from run to run or need a failure at the right moment."""


def bullets() -> list[str]:
    """Return the bullets of docs/reference/differences.md."""
    seen = [f"- **{each.what}.** {each.why}" for each in DIFFERENCES]
    return seen + [f"- **{name}.** {text}" for name, text in UNSEEN.items()]
