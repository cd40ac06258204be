"""The store against its model: random operations in random order with outstanding transactions.

Requests are prepared early and applied late, by several servers, some restored from a snapshot
in between. The result must be as if every operation had been carried out at once and alone.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.store.model import Model
from tests.unit.store.support import ALICE, BOB, CAROL, SECRET, Client, Leader, deliver, dump
from zab.store.acl import OPEN
from zab.store.operations import Op
from zab.store.request_format import INTERNAL
from zab.store.store import Store
from zab.store.store_settings import StoreSettings
from zab.store.transactions import decode
from zab.store.znode import stat_of

SETTINGS = StoreSettings(extended_types=True)

JOE = ("digest", "joe:secret")
MINE: Any = ((31, *JOE), (1, "world", "anyone"))
HIDDEN: Any = ((30, "world", "anyone"), (1, *JOE))

NAMES = st.sampled_from(["a", "b"])
GOOD_PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda names: "/" + "/".join(names))
ODD_PATHS = st.sampled_from([
    "/", "/é", "/a/0000000000", "/a/0000000001", "/a/b0000000002", "/zookeeper", "/zookeeper/config",
    "", "a", "/a/", "/a//b", "/a/..", "/.", "/a\0b", "/a/\x01", "/\U0001f600",
])  # fmt: skip
PATHS = st.one_of(*[GOOD_PATHS] * 7, ODD_PATHS)
DATA = st.one_of(st.none(), st.binary(max_size=3))
ACLS = st.sampled_from([OPEN, OPEN, OPEN, OPEN, MINE, HIDDEN, (), None])
VERSIONS = st.sampled_from([-1, -1, -1, 0, 1, 2])
SEQUENTIAL_OR_NOT = st.sampled_from([0, 0, 0, 1, 2, 3, 3, 4, 7])


def _ops(*strategies: Any) -> st.SearchStrategy[tuple[Op, tuple[Any, ...]]]:
    return st.one_of(*strategies)


CREATES = _ops(
    st.tuples(st.sampled_from([Op.CREATE, Op.CREATE2]), st.tuples(PATHS, DATA, ACLS, SEQUENTIAL_OR_NOT)),
    st.tuples(st.just(Op.CREATE_CONTAINER), st.tuples(PATHS, DATA, ACLS, st.sampled_from([4, 4, 4, 0]))),
    st.tuples(
        st.just(Op.CREATE_TTL), st.tuples(PATHS, DATA, ACLS, st.sampled_from([5, 6, 6]), st.sampled_from([1, 5000, 0]))
    ),
)
SMALL = _ops(
    CREATES,
    CREATES,
    st.tuples(st.just(Op.DELETE), st.tuples(PATHS, VERSIONS)),
    st.tuples(st.just(Op.SET_DATA), st.tuples(PATHS, DATA, VERSIONS)),
)
CHECKS = st.tuples(st.just(Op.CHECK), st.tuples(PATHS, VERSIONS))
WRITES = _ops(
    SMALL,
    SMALL,
    SMALL,
    st.tuples(st.just(Op.SET_ACL), st.tuples(PATHS, ACLS, VERSIONS)),
    st.tuples(st.just(Op.MULTI), st.lists(st.one_of(SMALL, SMALL, CHECKS), max_size=4).map(tuple)),
    st.tuples(st.just(Op.MULTI), st.lists(st.one_of(SMALL, SMALL, CHECKS), max_size=4).map(tuple)),
    st.tuples(st.just(Op.CLOSE_SESSION), st.just(())),
)
WHO = st.sampled_from([(), (), (JOE,)])
SESSIONS = st.sampled_from([ALICE, BOB, CAROL])

STEPS = st.one_of(
    st.tuples(st.just("write"), SESSIONS, WHO, WRITES),
    st.tuples(st.just("write"), SESSIONS, WHO, WRITES),
    st.tuples(st.just("write"), SESSIONS, WHO, WRITES),
    st.tuples(st.just("write"), SESSIONS, WHO, WRITES),
    st.tuples(st.just("apply"), st.integers(1, 5)),
    st.tuples(st.just("watch"), st.integers(0, 2), st.sampled_from(["data", "child", "stay", "tree", "exists"]), PATHS),
    st.tuples(st.just("unwatch"), st.integers(0, 2), st.integers(1, 5), PATHS),
    st.tuples(st.just("leave"), st.integers(0, 2)),
    st.tuples(st.just("open"), SESSIONS),
    st.tuples(st.just("snapshot")),
    st.tuples(st.just("pass"), st.integers(1, 5000)),
)


class Both:
    """The leader's store and the model, turned by the same steps."""

    def __init__(self) -> None:
        self.leader = Leader(SETTINGS)
        self.leader.open_sessions(ALICE, BOB)
        self.model = Model(sessions={ALICE, BOB}, now=self.leader.now_ms)
        self.follower = Store(SETTINGS, deliver)
        self.fed = 0
        self.clients = [Client(ALICE), Client(BOB, (JOE,)), Client(CAROL)]
        self.waiting: list[tuple[int, Any, int]] = []
        """(error, value, events so far) of what the model has done, and the store is still to apply."""
        self.told = 0

    def run(self, step: Any) -> None:
        kind, *rest = step
        getattr(self, kind)(*rest)

    # -- steps -------------------------------------------------------------------------------------

    def write(self, session: int, who: Any, write: Any) -> None:
        op, fields = write
        # An operation knows its fields as they come out of a frame: nested ones, too.
        args = fields
        zxid = self.leader.prepare(op, *args, session=session, identities=who)
        error, value = self.model.write(zxid, session, who, op, fields)
        self.waiting.append((error, (op, value), len(self.model.events)))

    def open(self, session: int) -> None:
        if session not in self.model.sessions:
            self.model.sessions.add(session)
            self.leader.prepare(Op.CREATE_SESSION, 5000, session=session, flags=INTERNAL)
            self.waiting.append((0, (Op.CREATE_SESSION, None), len(self.model.events)))

    def apply(self, count: int) -> None:
        for _ in range(min(count, len(self.waiting))):
            error, (op, value), events = self.waiting.pop(0)
            result = self.leader.apply_one()
            assert result[1] == error, f"{op.name}: the store says {result[1]}, the model {error}"
            assert shown(op, result) == value
            for client in self.clients:
                expected = [event[1:] for event in self.model.events[self.told : events] if event[0] is client]
                assert sorted(client.heard) == sorted(expected), op
            self.told = events

    def settle(self) -> None:
        self.apply(len(self.waiting))

    def watch(self, number: int, kind: str, path: str) -> None:
        self.settle()
        client, reads, model = self.clients[number], self.leader.store.reads, self.model
        node = model.nodes.get(path)
        readable = node is not None and model.may(client.identities, path, 1)
        missing = -101 if node is None else -102
        match kind:
            case "data":
                error, found = reads.get_data(client, path, True)
                assert error == (0 if readable else missing)
                if readable:
                    assert node is not None
                    assert (found[0], stat_of(found)) == (node.data, model.stat(path))
                    model.watch("data", "standard", path, client)
            case "exists":
                error, found = reads.exists(client, path, True)
                if "\0" in path:
                    assert error == -8
                    return
                assert error == (0 if readable else missing)
                if readable or node is None:
                    model.watch("data", "standard", path, client)
            case "child":
                error, found = reads.get_children(client, path, True)
                assert error == (0 if readable else missing)
                if readable:
                    assert sorted(found[0]) == sorted(each[each.rindex("/") + 1 :] for each in model.below(path))
                    assert reads.count_below(client, path)[1] == sum(
                        1 for each in model.nodes if each.startswith(path.rstrip("/") + "/") and each != "/"
                    )
                    model.watch("child", "standard", path, client)
            case "stay":
                reads.add_watch(client, path, 0)
                model.watch("data", "persistent", path, client)
                model.watch("child", "persistent", path, client)
            case "tree":
                reads.add_watch(client, path, 1)
                model.watch("data", "recursive", path, client)
            case _:
                raise AssertionError(kind)

    def unwatch(self, number: int, kind: int, path: str) -> None:
        self.settle()
        client, model = self.clients[number], self.model
        wanted = {
            1: [("child", "standard")], 2: [("data", "standard")],
            3: [(table, mode) for table in ("data", "child") for mode in ("standard", "persistent", "recursive")],
            4: [("data", "persistent"), ("child", "persistent")], 5: [("data", "recursive")],
        }[kind]  # fmt: skip
        kept = [each for each in model.watches if not (each[:2] in wanted and each[2:] == (path, client))]
        code = 0 if len(kept) < len(model.watches) else -121
        assert self.leader.store.reads.check_watches(client, path, kind)[0] == code
        assert self.leader.store.reads.remove_watches(client, path, kind)[0] == code
        model.watches = kept

    def leave(self, number: int) -> None:
        self.settle()
        client = self.clients[number]
        self.leader.store.watches.drop(client)
        self.model.watches = [each for each in self.model.watches if each[3] is not client]
        assert not self.leader.store.watches.paths_of(client)

    def snapshot(self) -> None:
        """Take a snapshot of the applied state, also with outstanding transactions. Consume it later."""
        chunks = self.leader.store.snapshot()
        before = dump(self.leader.store)
        before["nodes"], before["ephemerals"] = (
            dict(before["nodes"]),
            {owner: dict(paths) for owner, paths in before["ephemerals"].items()},
        )
        before["sessions"] = dict(before["sessions"])
        self.apply(3)
        self.follower = Store(SETTINGS, deliver)
        self.follower.restore(chunks)
        assert dump(self.follower) == before
        self.fed = sum(1 for zxid, _ in self.leader.log if zxid <= self.follower.zxid)

    def pass_(self, ms: int) -> None:
        self.leader.now_ms += ms
        self.model.now = self.leader.now_ms

    # -- the end -----------------------------------------------------------------------------------

    def finish(self) -> None:
        self.settle()
        store, model = self.leader.store, self.model
        for zxid, txn in self.leader.log[self.fed :]:
            self.follower.apply(zxid, txn)
        assert dump(self.follower) == dump(store)
        assert set(store.tree.nodes) == set(model.nodes)
        for path, node in store.tree.nodes.items():
            assert node[:2] == (model.nodes[path].data, model.nodes[path].acl), path
            assert stat_of(node) == model.stat(path), path
        assert set(store.sessions.table) == model.sessions
        assert store.tree.ephemerals.keys() <= model.sessions, "no ephemeral outlives its session"
        assert store.watches.counts[0] == len(set(with_modes(model.watches)))
        assert not store._outstanding.records
        assert store.sessions.secret == SECRET
        for _, txn in self.leader.log:
            decode(txn)


setattr(Both, "pass", Both.pass_)


def with_modes(watches: list[Any]) -> list[Any]:
    """Entries of the tables: one for a watcher and a path, however many modes."""
    return [(table, path, id(watcher)) for table, _, path, watcher in watches]


def shown(op: int, result: Any) -> Any:
    """A result of the store as the model puts it."""
    _, error, path, node, results = result
    if op == Op.MULTI and not error:
        return [(code, None if code else shown(kind, (0, 0, at, of, ()))) for kind, code, at, of in results]
    if error:
        return None
    if op == Op.CREATE:
        return path
    if op in (Op.CREATE2, Op.CREATE_CONTAINER, Op.CREATE_TTL):
        return path, stat_of(node)
    return stat_of(node) if node is not None else None


@settings(max_examples=150)
@given(st.lists(STEPS, max_size=60))
def test_store_matches_the_model(steps: list[Any]) -> None:
    """Short histories, which shrink to the shortest failure."""
    both = Both()
    for step in steps:
        both.run(step)
    both.finish()


# -- long histories ------------------------------------------------------------------------------------


class Chance:
    """Mostly valid steps, for behaviour that needs a grown tree."""

    def __init__(self, seed: int, model: Model) -> None:
        self.random = Random(seed)
        self.model = model

    def path(self) -> str:
        """Return the path of an existing or possible node."""
        random = self.random
        known = [path for path in self.model.nodes if not path.startswith("/zookeeper")]
        if random.random() < 0.6:
            return random.choice(known)
        parent = random.choice([path for path in known if path.count("/") < 4])
        return parent.rstrip("/") + "/" + random.choice("abc")

    def data(self) -> bytes | None:
        return self.random.choice([None, b"", b"x", b"yy"])

    def acl(self) -> Any:
        return self.random.choice([OPEN] * 6 + [MINE, HIDDEN, ()])

    def version(self, path: str, aversion: bool = False) -> int:
        node = self.model.nodes.get(path)
        real = -1 if node is None else node.aversion if aversion else node.version
        return self.random.choice([-1, -1, -1, real, real, 7])

    def small(self) -> tuple[Op, tuple[Any, ...]]:
        random, path = self.random, self.path()
        match random.choice("cccceeesssddddtwwwwk"):
            case "c":
                return random.choice([Op.CREATE, Op.CREATE2]), (path, self.data(), self.acl(), 0)
            case "e":
                return Op.CREATE, (path, self.data(), self.acl(), random.choice([1, 1, 3]))
            case "s":
                return Op.CREATE2, (path, self.data(), self.acl(), 2)
            case "t":
                return Op.CREATE_TTL, (path, self.data(), OPEN, random.choice([5, 6]), 1000)
            case "k":
                return Op.CREATE_CONTAINER, (path, self.data(), OPEN, 4)
            case "d":
                leaves = [path for path in self.model.nodes if not self.model.below(path)]
                path = random.choice([path, *leaves])
                return Op.DELETE, (path, self.version(path))
            case _:
                return Op.SET_DATA, (path, self.data(), self.version(path))

    def step(self) -> Any:
        random, path = self.random, self.path()
        match random.choice("w" * 40 + "m" * 8 + "a" * 16 + "A" * 12 + "x" * 2 + "W" * 16 + "Uuoopp" + "sl"):
            case "w":
                write = self.small()
            case "a":
                write = Op.SET_ACL, (path, self.acl(), self.version(path, aversion=True))
            case "m":
                ops = [self.small() for _ in range(random.randrange(1, 5))]
                if random.random() < 0.5:
                    at = random.randrange(len(ops) + 1)
                    ops[at:at] = [(Op.CHECK, (path, self.version(path)))]
                write = Op.MULTI, tuple(ops)
            case "x":
                write = Op.CLOSE_SESSION, ()
            case "A":
                return "apply", random.randrange(1, 12)
            case "W":
                return "watch", random.randrange(3), random.choice(["data", "child", "stay", "tree", "exists"]), path
            case "U" | "u":
                return "unwatch", random.randrange(3), random.randrange(1, 6), path
            case "o":
                return "open", random.choice([ALICE, BOB, CAROL])
            case "p":
                return "pass", random.randrange(1, 5000)
            case "s":
                return ("snapshot",)
            case _:
                return "leave", random.randrange(3)
        return "write", random.choice([ALICE, BOB, CAROL]), random.choice([(), (JOE,)]), write


@pytest.mark.parametrize("seed", range(20))
def test_so_it_does_in_the_long_run(seed: int) -> None:
    both = Both()
    chance = Chance(seed, both.model)
    for _ in range(400):
        both.run(chance.step())
    both.finish()
