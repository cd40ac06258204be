from __future__ import annotations

import pytest

from tests.cost.meter import steps
from tests.unit.store.support import ALICE, BOB, Client, Leader, dump, follower_of, leader
from zab.store.acl import OPEN
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op
from zab.store.quota import PARSED_BYTES_MAX, ExceededLimit, parse, render, size_of
from zab.store.store import Store
from zab.store.store_settings import StoreSettings

FULL = ErrorCode.QUOTA_EXCEEDED
ENFORCED = StoreSettings(enforce_quota=True)


def limited(limits: bytes, settings: StoreSettings = ENFORCED, store: Store | None = None) -> Leader:
    """/q, where /q/a holds three bytes."""
    it = Leader(settings, store)
    it.open_sessions(ALICE, BOB)
    it.create("/q")
    it.create("/q/a", b"xxx")
    it.create("/zookeeper/quota/q")
    it.create("/zookeeper/quota/q/zookeeper_limits", limits)
    it.create("/zookeeper/quota/q/zookeeper_stats", b"count=77,bytes=77")
    return it


def stats(it: Leader, path: str = "/q") -> dict[str, int]:
    return parse(it.store.tree.nodes[f"/zookeeper/quota{path}/zookeeper_stats"][0])


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (b"count=5,bytes=10", {"count": 5, "bytes": 10}),
        (b"count=5,bytes=10=;byteHardLimit=7;countHardLimit=-1",
         {"count": 5, "bytes": 10, "byteHardLimit": 7, "countHardLimit": -1}),
    ],
)  # fmt: skip
def test_the_text(text: bytes, values: dict[str, int]) -> None:
    assert parse(text) == values
    assert render(values) == text


@pytest.mark.parametrize("text", [None, b"", b"garbage", b"count=x", b"\xff\xfe", b"=;,=", b"count"])
def test_text_that_makes_no_sense_limits_nothing(text: bytes | None) -> None:
    assert all(value == -1 for value in parse(text).values())
    it = limited(text or b"")
    it.create("/q/b", bytes(100))


def test_quota_statistics_count_existing_nodes_and_changes() -> None:
    it = limited(b"count=-1,bytes=-1")
    assert stats(it) == {"count": 2, "bytes": 3}
    it.create("/q/a/deep", b"1234")
    it.create("/q/null", None)
    it.create("/elsewhere", b"12345")
    assert stats(it) == {"count": 4, "bytes": 7}
    it.set("/q/a/deep", b"1")
    it.set("/q/null", b"123")
    it.set("/q", None)
    assert stats(it) == {"count": 4, "bytes": 7}
    it.delete("/q/a/deep")
    assert stats(it) == {"count": 3, "bytes": 6}
    it.create("/q/e", b"!", flags=1, session=BOB)
    it.ask(Op.CLOSE_SESSION, session=BOB)
    assert stats(it) == {"count": 3, "bytes": 6}
    assert dump(follower_of(it, ENFORCED)) == dump(it.store), "the same everywhere"


def test_the_statistics_are_no_change() -> None:
    it, client = limited(b""), Client()
    path = "/zookeeper/quota/q/zookeeper_stats"
    it.store.reads.get_data(client, path, True)
    before, digest = it.stat(path), it.store.digest.value
    it.create("/q/x", b"")
    it.delete("/q/x")
    assert client.heard == []
    assert it.stat(path).mzxid == before.mzxid
    assert it.store.digest.value != digest
    it.create("/q/x", b"")
    assert it.stat(path).version == before.version


def test_hard_limits() -> None:
    it = limited(b"count=-1,bytes=-1=;byteHardLimit=5;countHardLimit=3")
    assert it.error(Op.CREATE, "/q/b", b"xxx", OPEN, 0) == FULL
    it.create("/q/b", b"xx")
    assert it.error(Op.CREATE, "/q/c", b"", OPEN, 0) == FULL
    assert it.error(Op.SET_DATA, "/q/b", b"xxx", -1) == FULL
    it.set("/q/b", b"x")
    it.set("/q/a", b"xxxx")
    it.delete("/q/b")
    assert it.error(Op.CREATE, "/q/", b"xx", OPEN, 2) == FULL
    assert it.error(Op.CREATE2, "/q/b", b"x", OPEN, 0) == 0
    assert it.codes((Op.DELETE, ("/q/b", -1)), (Op.CREATE, ("/q/b", b"", OPEN, 0))) == [0, FULL], (
        "counts what is applied"
    )


@pytest.mark.parametrize("enforced", [False, True])
def test_exceeded_limits_are_reported(enforced: bool) -> None:
    reported: list[tuple[ExceededLimit, bool]] = []

    class Reporting(Store):
        def limit_exceeded(self, exceeded: ExceededLimit, refused: bool) -> None:
            reported.append((exceeded, refused))

    settings = StoreSettings(enforce_quota=enforced)
    it = limited(b"count=2,bytes=0=;byteHardLimit=9", settings, Reporting(settings))
    it.set("/q/a", b"12345")
    assert reported == [], "a hard limit takes the place of the soft one"
    assert it.error(Op.CREATE, "/q/b", b"54321", OPEN, 0) == (FULL if enforced else 0)
    assert reported == [
        (ExceededLimit("/q", "count", 2, 3), False),
        (ExceededLimit("/q", "byteHardLimit", 9, 10), enforced),
    ]


def test_only_below_and_only_the_nearest() -> None:
    it = limited(b"count=-1,bytes=-1=;byteHardLimit=3;countHardLimit=2")
    it.create("/qq", bytes(10))
    it.create("/other", bytes(10))
    for path in ("/zookeeper/quota/q/a",):
        it.create(path)
        it.create(f"{path}/zookeeper_limits", b"count=-1,bytes=-1=;countHardLimit=2")
        it.create(f"{path}/zookeeper_stats", b"")
    it.create("/q/a/b", bytes(10))
    assert it.error(Op.CREATE, "/q/a/c", b"", OPEN, 0) == FULL
    assert stats(it, "/q/a") == {"count": 2, "bytes": 13}
    assert stats(it) == {"count": 2, "bytes": 3}


def test_a_quota_that_is_gone() -> None:
    it = limited(b"count=-1,bytes=-1=;countHardLimit=2")
    assert it.error(Op.CREATE, "/q/b", b"", OPEN, 0) == FULL
    it.delete("/zookeeper/quota/q/zookeeper_limits")
    it.create("/q/b", b"")
    it.create("/zookeeper/quota/q/zookeeper_limits", b"count=-1,bytes=-1=;countHardLimit=2")
    it.delete("/zookeeper/quota/q/zookeeper_stats")
    it.create("/q/c", b"")


def test_neither_the_root_nor_nowhere_can_be_limited() -> None:
    it = leader(ENFORCED)
    it.create("/zookeeper/quota/zookeeper_limits", b"count=-1,bytes=-1=;countHardLimit=0")
    it.create("/zookeeper/quota/zookeeper_stats", b"")
    it.create("/zookeeper/quotas")
    it.create("/zookeeper/quotas/zookeeper_limits", b"")
    it.create("/a")
    assert not it.store.quotas.limited
    it.delete("/zookeeper/quota/zookeeper_limits")


def test_quotas_survive_a_snapshot() -> None:
    it = limited(b"count=-1,bytes=-1=;countHardLimit=2")
    store = Store(ENFORCED)
    store.restore(it.store.snapshot())
    again = Leader(store=store)
    assert again.error(Op.CREATE, "/q/b", b"", OPEN, 0) == FULL


def test_oversized_limits_and_statistics_cost_a_change_nothing() -> None:
    """All clients may write these nodes, and each change below the limited path parses them."""
    found = []
    for text in (b"count=1,bytes=1", b",".join(b"%d=1" % number for number in range(100_000))):
        it = limited(text)
        it.set("/zookeeper/quota/q/zookeeper_stats", text)
        found.append(steps(lambda: it.set("/q/a", b"x")))  # noqa: B023
    assert found[1] <= found[0]


def test_text_is_parsed_up_to_its_bound() -> None:
    text = b"count=".ljust(PARSED_BYTES_MAX - 1) + b"5"
    assert parse(text) == {"count": 5}
    assert parse(text + b"0") == {}


def test_multi_creates_the_statistics_of_one_quota_only() -> None:
    """Each makes every server walk the limited subtree."""
    it = limited(b"count=9,bytes=9")
    path = "/zookeeper/quota/q/zookeeper_stats"
    delete, create = (Op.DELETE, (path, -1)), (Op.CREATE, (path, b"", OPEN, 0))
    assert it.error(Op.MULTI, delete, create) == 0
    assert stats(it) == {"count": 2, "bytes": 3}
    assert it.error(Op.MULTI, delete, create, delete, create) == ErrorCode.BAD_ARGUMENTS
    assert stats(it) == {"count": 2, "bytes": 3}


def test_leader_pays_for_the_walk_that_statistics_begin_with() -> None:
    """The leader prepares for a limited time in one turn, so no batch contains many of these walks."""
    it = limited(b"")
    it.delete("/zookeeper/quota/q/zookeeper_stats")

    def cost() -> int:
        return steps(lambda: it.prepare(Op.CREATE, "/zookeeper/quota/q/zookeeper_stats", b"", OPEN, 0))

    before = cost()
    it.settle()
    it.delete("/zookeeper/quota/q/zookeeper_stats")
    for number in range(1_000):
        it.create(f"/q/a/{number}")
    assert cost() > before + 1_000


@pytest.mark.parametrize("path", ["/", "/q", "/q/a", "/nothing", "/zookeeper"])
def test_measure_agrees_with_a_walk(path: str) -> None:
    it = limited(b"count=9,bytes=9")
    it.create("/q/b", None)
    for name in ("x", "y"):
        it.create(f"/q/a/{name}", name.encode() * 7)
        it.create(f"/q/a/{name}/z", b"12")
    tree = it.store.tree
    walked = [size_of(node[0]) for _, node in tree.walk(path)] if path in tree.nodes else []
    assert tree.measure(path) == (len(walked), sum(walked))


def test_walks_over_large_subtrees_are_paced() -> None:
    """The creation of a quota's statistics walks the subtree at every server, and may be repeated at will."""
    it = leader()
    it.create("/t")
    for number in range(1_000):
        it.create(f"/t/{number}")
    it.create("/zookeeper/quota/t")
    path = "/zookeeper/quota/t/zookeeper_stats"
    it.create(path)
    it.delete(path)
    assert it.error(Op.CREATE, path, b"", OPEN, 0) == ErrorCode.THROTTLED_OP
    it.now_ms += 11
    it.create(path)
