"""Random scripts: a function of a seed. Few names and few values, so that things meet."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from tests.differential.script import SEEN, START, Ask, Connect, Drop, Say, Script, Step, Together
from zab.store.acl import OPEN
from zab.store.operations import Fields, Op
from zab.wire.client import requests
from zab.wire.jute import INT

CLIENTS: Final = (1, 2, 3)
NAMES: Final = ("a", "b", "c")
BAD_PATHS: Final = (
    "", "a", "//", "/a/", "/a//b", "/a/.", "/a/../b", "/./a", "/a/\x01", "/\x7fa", "/a\x9f", "/a\0b", "/\uf8ff",
    "/\ufff0", "/\U0001f600", "a/b", "/a/b/", "/\ue000", "/ü",
)  # fmt: skip
SYSTEM_PATHS: Final = ("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", "/zookeeper/nope")
DATA: Final = (None, b"", b"x", b"hello", b"0123456789" * 3, b"\0\xff")
VERSIONS: Final = (-1, -1, -1, -1, 0, 0, 1, 1, 2, 3, -2, 1 << 30, -(1 << 31))
USERS: Final = (b"u:p", b"v:q", b"u:p2", b"nocolon", b"", b":", b"a:b:c", b"\xff:x", b"super:secret", None)
U: Final = "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ="
ACLS: Final = (
    OPEN, OPEN, OPEN, OPEN, OPEN, OPEN,
    ((1, "world", "anyone"),),
    ((31, "auth", ""),),
    ((31, "auth", "ignored"), (1, "world", "anyone")),
    ((31, "digest", U),),
    ((31, "digest", U), (1, "world", "anyone")),
    ((30, "digest", U),),
    ((16, "world", "anyone"),),
    ((15, "world", "anyone"),),
    ((31, "ip", "127.0.0.1"),),
    ((31, "ip", "10.0.0.0/8"), (1, "world", "anyone")),
    ((31, "ip", "127.0.0.0/8"),),
    ((1, "world", "anyone"), (1, "world", "anyone"), (2, "world", "anyone")),
    ((0, "world", "anyone"),),
    ((255, "world", "anyone"),),
    ((-1, "world", "anyone"),),
)  # fmt: skip
READABLE: Final = tuple(acl for acl in ACLS if any(entry[0] & 1 and entry[1] == "world" for entry in acl))
BAD_ACLS: Final = (
    None,
    (),
    ((31, "world", "other"),),
    ((31, "nope", "x"),),
    ((31, "digest", "no-colon"),),
    ((31, "digest", "a:b:c"),),
    ((31, "digest", "a:"),),
    ((31, "digest", ":a"),),
    ((31, "digest", ":"),),
    ((31, "ip", "300.1.1.1"),),
    ((31, "ip", "127.0.0.1/33"),),
    ((31, "ip", "127.0.0.1/"),),
    ((31, "ip", "127.0.0.1/0"),),
    ((31, "ip", "127.0.0.1/-1"),),
    ((31, "ip", ""),),
    ((31, "", ""),),
    ((31, "", "anyone"),),
    ((31, "super", "x"),),
    ((31, "sasl", "x"),),
    ((31, "world", ""),),
)
CREATE_OPS: Final = (Op.CREATE, Op.CREATE, Op.CREATE2, Op.CREATE2)
LIMITS: Final = (
    b"count=3,bytes=-1",
    b"count=-1,bytes=10",
    b"count=-1,bytes=-1=;byteHardLimit=20;countHardLimit=3",
    b"count=1,bytes=5=;byteHardLimit=-1;countHardLimit=2",
    b"count=-1,bytes=-1=;byteHardLimit=5;countHardLimit=-1",
)


class Writer:
    def __init__(self, random: Random, *, quotas: bool, hidden: bool) -> None:
        self._random = random
        self._hidden = hidden
        """Whether there are nodes that not everybody may read. What the original tells of them to who comes back, we
        do not: so it is either these or `set_watches`."""
        self.quotas = quotas

    # -- values ------------------------------------------------------------------------------------

    def path(self) -> str:
        random = self._random
        dice = random.random()
        if dice < 0.03:
            return random.choice(BAD_PATHS)
        if dice < 0.08:
            return random.choice(SYSTEM_PATHS)
        if dice < 0.12:
            return f"/{random.choice(NAMES)}/s-{random.randrange(4):010d}"
        return "/" + "/".join(random.choice(NAMES) for _ in range(random.choice((1, 1, 1, 2, 2, 2, 3))))

    def prefix(self) -> str | None:
        return self._random.choice(("/", "", None, "/a", "/a/", "/a/s", " ", "nope", "/b"))

    def acl(self) -> Any:
        if self._random.random() < 0.05:
            bad: Any = self._random.choice(BAD_ACLS)
            return (*bad, (1, "world", "anyone")) if bad and not self._hidden else bad  # some are good in the end
        return self._random.choice(ACLS if self._hidden else READABLE)

    def data(self) -> bytes | None:
        return self._random.choice(DATA)

    def version(self) -> int:
        return self._random.choice(VERSIONS)

    def create(self) -> tuple[int, Fields]:
        random = self._random
        dice = random.random()
        path = self.path()
        if random.random() < 0.3:
            path = path.rstrip("/") + random.choice(("/s-", "/s-", "/"))
        if dice < 0.06:
            flags, ttl = (
                random.choice((5, 6, 5, 6, 0, 4, 7)),
                random.choice((1 << 39, (1 << 40) - 1, 600_000, 0, -1, 1 << 40)),
            )
            if flags not in (5, 6):
                ttl = 1_000  # any that makes no sense either would end the original
            return Op.CREATE_TTL, (path, self.data(), self.acl(), flags, ttl)
        if dice < 0.12:
            return Op.CREATE_CONTAINER, (path, self.data(), self.acl(), random.choice((4, 4, 4, 0, 2, 7)))
        flags = random.choice((0, 0, 0, 0, 1, 1, 2, 2, 3, 3)) if dice < 0.95 else random.choice((4, 5, 6, 7, -1, 8))
        return random.choice(CREATE_OPS), (path, self.data(), self.acl(), flags)

    # -- operations --------------------------------------------------------------------------------

    def write(self) -> tuple[int, Fields]:
        random = self._random
        dice = random.random()
        if dice < 0.5:
            return self.create()
        if dice < 0.68:
            return Op.SET_DATA, (self.path(), self.data(), self.version())
        if dice < 0.86:
            return Op.DELETE, (self.path(), self.version())
        return Op.SET_ACL, (self.path(), self.acl(), self.version())

    def read(self) -> tuple[int, Fields]:
        random = self._random
        path = self.path() or "/"
        kind = random.choice((Op.EXISTS, Op.GET_DATA, Op.GET_CHILDREN, Op.GET_CHILDREN2, Op.GET_ACL))
        if kind == Op.GET_ACL:
            return kind, (path,)
        return kind, (path, random.random() < 0.4)

    def part(self) -> tuple[int, Fields]:
        if self._random.random() < 0.2:
            return Op.CHECK, (self.path(), self.version())
        while True:
            op, fields = self.write()
            if op != Op.SET_ACL:
                return op, fields

    def multi(self) -> tuple[int, Fields]:
        random = self._random
        count = random.choice((0, 1, 1, 2, 2, 3, 4, 6))
        if random.random() < 0.5:
            # Most would fail otherwise: one that builds upon itself.
            root = f"/{random.choice(NAMES)}"
            child = f"{root}/{random.choice(NAMES)}"
            chain: list[tuple[int, Fields]] = [
                (Op.CREATE, (child, self.data(), OPEN, 0)),
                (random.choice(CREATE_OPS), (root + "/s-", b"", OPEN, random.choice((2, 3)))),
                (Op.SET_DATA, (child, self.data(), -1)),
                (Op.CHECK, (child, random.choice((0, 1, -1)))),
                (Op.DELETE, (child, random.choice((-1, 1)))),
            ]
            if random.random() < 0.5:
                chain.insert(0, (Op.CREATE2, (root, b"", OPEN, 0)))
            return Op.MULTI, tuple(chain[: random.randrange(1, 7)])
        return Op.MULTI, tuple(self.part() for _ in range(count))

    def multi_read(self) -> tuple[int, Fields]:
        random = self._random
        kinds = (Op.GET_DATA, Op.GET_CHILDREN)
        return Op.MULTI_READ, tuple(
            (random.choice(kinds), (self.path() or "/", random.random() < 0.3)) for _ in range(random.randrange(5))
        )

    def watching(self) -> tuple[int, Fields]:
        random = self._random
        dice = random.random()
        if dice < 0.45:
            return Op.ADD_WATCH, (self.path(), random.choice((0, 1, 0, 1, 0, 1, 2, -1)))
        if dice < 0.75 or self._hidden:
            return random.choice((Op.REMOVE_WATCHES, Op.CHECK_WATCHES)), (
                self.path(),
                random.choice((1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 0, 6, -1)),
            )
        return self.set_watches()

    def set_watches(self) -> tuple[int, Fields]:
        random = self._random
        lists = random.choice((3, 5))
        since = random.choice((SEEN, SEEN, START, 0))
        fields = tuple(tuple(self.path() or "/" for _ in range(random.choice((0, 0, 1, 2)))) for _ in range(lists))
        return (Op.SET_WATCHES if lists == 3 else Op.SET_WATCHES2), (since, *fields)

    def seldom(self) -> tuple[int, Fields]:
        random = self._random
        kind = random.choice(
            (
                Op.SYNC, Op.SYNC, Op.GET_EPHEMERALS, Op.GET_EPHEMERALS, Op.GET_ALL_CHILDREN_NUMBER,
                Op.GET_ALL_CHILDREN_NUMBER, Op.WHO_AM_I, Op.RECONFIG, Op.PING,
            )
        )  # fmt: skip
        match kind:
            case Op.GET_EPHEMERALS:
                return kind, (self.prefix(),)
            case Op.SYNC | Op.GET_ALL_CHILDREN_NUMBER:
                return kind, (self.path().replace("\U0001f600", "") or "/",)
            case Op.RECONFIG:
                return kind, random.choice(
                    (("server.9=127.0.0.1:1:2;3", None, None, -1), (None, "1", None, -1), (None, None, "x", 7))
                )
            case _:
                return kind, ()

    def quota(self) -> tuple[int, Fields]:
        random = self._random
        base = f"/zookeeper/quota/{random.choice(NAMES)}"
        leaf = random.choice(("", "", "/zookeeper_limits", "/zookeeper_limits", "/zookeeper_stats"))
        dice = random.random()
        data = random.choice(LIMITS) if leaf == "/zookeeper_limits" else b"count=0,bytes=0" if leaf else b""
        if dice < 0.6:
            return Op.CREATE, (base + leaf, data, OPEN, 0)
        if dice < 0.75 and leaf == "/zookeeper_limits":
            return Op.SET_DATA, (base + leaf, data, -1)
        if dice < 0.82:
            return Op.DELETE, (base + leaf, -1)
        return Op.GET_DATA, (base + leaf, False)

    def request(self) -> tuple[int, Fields]:
        dice = self._random.random()
        if self.quotas and dice < 0.12:
            return self.quota()
        if dice < 0.42:
            return self.write()
        if dice < 0.66:
            return self.read()
        if dice < 0.76:
            return self.multi()
        if dice < 0.8:
            return self.multi_read()
        if dice < 0.92:
            return self.watching()
        return self.seldom()

    # -- wrong ones --------------------------------------------------------------------------------

    def damaged(self) -> tuple[int, bytes]:
        """Return a slightly damaged body."""
        random = self._random
        op, fields = self.request()
        while op in (Op.SET_WATCHES, Op.SET_WATCHES2):  # a zxid that came about by damage means nothing to either
            op, fields = self.request()
        body = bytearray(requests.encode_request(op, 0, fields)[12:])
        dice = random.random()
        if dice < 0.4:
            del body[random.randrange(len(body) + 1) :]
        elif dice < 0.6:
            body += random.choice((b"\0", b"extra", bytes(16)))
        elif len(body) >= 4:
            at = 0 if random.random() < 0.6 else random.randrange(len(body) - 3)
            wrong = random.choice((-1, -2, 1 << 30, len(body), -(1 << 31)))
            body[at : at + 4] = INT.pack(wrong)
        if body.startswith(bytes(4)):
            body[3] = 1  # an empty path: it is the root to the original
        return op, bytes(body)

    def unanswerable(self, client: int) -> Step:
        """After this there is no connection."""
        random = self._random
        frames = (
            INT.pack(-1),
            INT.pack(-(1 << 31)) + bytes(8),
            INT.pack(1 << 20),
            INT.pack(0x7FFFFFFF) + b"much",
            INT.pack(0),
            INT.pack(3) + b"abc",
            INT.pack(4) + INT.pack(1),
            INT.pack(7) + bytes(7),
        )
        if random.random() < 0.5:
            return Say(client, random.choice(frames))
        return Ask(client, random.choice((10, 23, 99, 108, 0, -2, 1000, 1 << 30, -100)), b"whatever")


def drawn(seed: int, steps: int = 60) -> Script:
    random = Random(seed)
    writer = Writer(random, quotas=random.random() < 0.3, hidden=random.random() < 0.6)
    script: list[Step] = [Connect(client, read_only=random.choice((None, False, True))) for client in CLIENTS]
    connected, taken = set(CLIENTS), False
    while len(script) < steps:
        client = random.choice(CLIENTS)
        if client not in connected and random.random() < 0.05:
            odd = random.choice((0, -1, 1, 15_000, 1 << 30))
            script += Connect(client, timeout_ms=odd, seen="zero"), Ask(client, Op.CLOSE_SESSION)
        step = _step(random, writer, client) if client in connected else _back(random, client, wrong=not taken)
        script.append(step)
        match step:
            case Connect(session=session, password=password, seen=seen):
                refused = session is not None and password != "right"
                (connected.discard if refused or seen == "future" else connected.add)(client)
                if not refused and session is not None and session != client:
                    connected.discard(session)
                    taken = True
            case Drop() | Say() | Ask(op=Op.CLOSE_SESSION):
                connected.discard(client)
            case Ask(op=op) if op not in requests.SHAPES:
                connected.discard(client)
    return tuple(script)


def _back(random: Random, client: int, *, wrong: bool) -> Connect:
    dice = random.random()
    if dice < 0.55:
        return Connect(client, session=client)
    if dice < 0.85:
        return Connect(client, seen=random.choice(("zero", "seen")))
    if dice < 0.93 and wrong:
        return Connect(client, session=client, password=random.choice(("wrong", "short", "null")))
    return Connect(client, session=client, seen="future")


def _step(random: Random, writer: Writer, client: int) -> Step:
    dice = random.random()
    ask: Callable[[tuple[int, Any]], Ask] = lambda request: Ask(client, *request)  # noqa: E731
    if dice < 0.02:
        return Drop(client)
    if dice < 0.03:
        return Ask(client, Op.CLOSE_SESSION)
    if dice < 0.04:
        return Connect(client, session=random.choice(CLIENTS))
    if dice < 0.045:
        return writer.unanswerable(client)
    if dice < 0.07:
        return ask(writer.damaged())
    if dice < 0.11:
        credentials = random.choice(USERS if random.random() < 0.3 else USERS[:3])
        scheme = "digest" if random.random() < 0.93 else random.choice(("ip", "world", "auth", "nope", "", "super"))
        return Ask(client, Op.AUTH, (random.choice((0, 0, 7)), scheme, credentials))
    if dice < 0.2 and not writer.quotas:  # which looks at what is applied, and not at what is on its way
        asks = [ask(writer.request()) for _ in range(random.randrange(2, 9))]
        # The original answers pings in line, and judges what follows a change of an ACL by the old one.
        asks = [each for each in asks if each.op not in (Op.PING, Op.SET_ACL)]
        return Together(tuple(asks)) if asks else Drop(client)
    return ask(writer.request())
