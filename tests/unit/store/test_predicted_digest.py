"""The leader predicts the digest of the tree after each transaction that it prepares, before any server applies it."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from tests.unit.store.support import ALICE, BOB, Leader
from zab.store import predicted_digest
from zab.store.acl import OPEN
from zab.store.apply import Result
from zab.store.operations import NO_TTL, Op
from zab.store.request_format import INTERNAL
from zab.store.store_settings import StoreSettings

PATHS: Final = ("/a", "/b", "/a/x", "/a/y", "/b/x", "/zookeeper/quota/q")


class Predicting(Leader):
    """Compares each predicted digest with that of the tree, when the transaction is applied."""

    def __init__(self) -> None:
        super().__init__(StoreSettings(checkpoints=False, extended_types=True))
        self.predicted: dict[int, int] = {}
        self.seen: set[int] = set()

    def prepare_raw(self, request: bytes) -> int:
        zxid = super().prepare_raw(request)
        self.predicted[zxid] = self.store.predicted_digest(zxid)
        return zxid

    def apply_one(self) -> Result:
        result = super().apply_one()
        digest = self.store.tree_digest()
        assert self.predicted[result[0]] == digest, f"the digest after {self.log[-1]}"
        self.seen.add(digest)
        return result

    def begin_epoch(self) -> None:
        """Lead in another epoch, whose leader drops what was prepared and is not applied."""
        del self.log[self._applied :]
        self.epoch += 1
        self.zxid = self.epoch << 32


def draw(it: Predicting, chance: Random) -> None:
    """Prepare one request, which may fail."""
    path, version, session = chance.choice(PATHS), chance.choice((-1, -1, 0, 1)), chance.choice((ALICE, BOB))
    data = chance.choice((None, b"", b"data", b"other"))
    create = (Op.CREATE, (path, data, OPEN, chance.choice((0, 0, 1, 2))))
    set_data, delete = (Op.SET_DATA, (path, data, version)), (Op.DELETE, (path, version))
    match chance.randrange(8):
        case 0 | 1:
            it.prepare(create[0], *create[1], session=session)
        case 2:
            it.prepare(delete[0], *delete[1])
        case 3 | 4:
            it.prepare(set_data[0], *set_data[1])
        case 5:
            it.prepare(Op.SET_ACL, path, ((31, "ip", "10.0.0.1"), *OPEN), version)
        case 6:
            parts = [create, set_data, set_data, delete, create, (Op.CHECK, (path, version))]
            it.prepare(Op.MULTI, *parts[: chance.randrange(1, 7)])
        case _:
            it.prepare(Op.CREATE_TTL, f"{path}t", data, OPEN, 5, 1)
            it.prepare(Op.DELETE_CONTAINER, f"{path}t", flags=INTERNAL)


@pytest.mark.parametrize("known_max", [0, 2, predicted_digest.KNOWN_MAX])
@pytest.mark.parametrize("seed", range(20))
def test_predicted_digest_is_that_of_the_tree(monkeypatch: pytest.MonkeyPatch, seed: int, known_max: int) -> None:
    monkeypatch.setattr(predicted_digest, "KNOWN_MAX", known_max)
    it, chance = Predicting(), Random(seed)
    it.open_sessions(ALICE, BOB)
    for _ in range(3):
        for _ in range(100):
            draw(it, chance)
            while it._applied < len(it.log) and chance.random() < 0.5:
                it.apply_one()
        it.prepare(Op.CLOSE_SESSION, session=BOB)
        if chance.random() < 0.5:
            it.settle()
        it.begin_epoch()
        it.prepare(Op.CREATE_SESSION, 30_000, session=BOB, flags=INTERNAL)
    it.settle()
    assert len(it.seen) > 50
    assert len(it.store._predicted._known) <= 3 * len(PATHS) + known_max


def test_nodes_that_no_longer_change_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicted_digest, "KNOWN_MAX", 10)
    it = Predicting()
    it.open_sessions(ALICE)
    for number in range(100):
        it.create(f"/{number}")
    assert len(it.store._predicted._known) <= 14
    for number in range(100):
        it.set(f"/{number}", b"again")


def test_failed_request_leaves_the_digest_as_it_is() -> None:
    it = Predicting()
    it.open_sessions(ALICE)
    it.create("/a")
    before = it.predicted[it.zxid]
    assert it.error(Op.CREATE_TTL, "/a", b"", OPEN, 0, NO_TTL)
    assert it.predicted[it.zxid] == before
