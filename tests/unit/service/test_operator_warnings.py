"""Warnings for operators: the sentences, their order, and the line about a missing quorum."""

from __future__ import annotations

from typing import Any

import pytest

from zab.core.ensemble import Ensemble
from zab.core.messages import State
from zab.core.zxid import Epoch, ServerId, make
from zab.service.health.operator_warnings import (
    QUORUM_MISSED_MS,
    SLOW_FSYNCS,
    missing_voters,
    operator_warnings,
    quorum_loss,
)
from zab.service.health.status import Counters, DiskStatus, LinkStatus, RoleChange, SnapshotStatus, Status
from zab.store.store import Mismatch

ZERO = make(0, 0)
HEALTHY = DiskStatus("/data", "/data", (100,) * SLOW_FSYNCS, 0, 0, SnapshotStatus(), ())


def status(*, serving: bool = False, **changed: Any) -> Status:
    """Server 1 of three, which looks for a leader and has received nothing, unless `changed` says otherwise."""
    state = State.FOLLOWING if serving else State.LOOKING
    values: dict[str, Any] = {
        "server": ServerId(1),
        "role": RoleChange(state, Epoch(3), ServerId(2) if serving else None, serving),
        "ensemble": Ensemble.parse("\n".join(f"server.{sid}=h{sid}:1:2:participant" for sid in (1, 2, 3))),
        "pending": None,
        "last": ZERO,
        "durable": ZERO,
        "committed": ZERO,
        "applied": ZERO,
        "synced": (),
        "voting": True,
        "damage": (),
        "cut_off_since": None,
        "responsive": frozenset({ServerId(1)}),
        "outstanding": 0,
        "links": (),
        "election_links": (),
        "election_failures": {},
        "counters": Counters(),
        **changed,
    }
    return Status(**values)


def test_healthy_server_has_no_warnings() -> None:
    assert operator_warnings(status(serving=True), HEALTHY, None, ()) == []


def test_follower_that_is_not_synchronized_has_a_leader() -> None:
    role = RoleChange(State.FOLLOWING, Epoch(3), ServerId(2), serving=False)
    assert operator_warnings(status(role=role), HEALTHY, None, ()) == [
        "not serving yet: this server follows leader 2, and is still being synchronized"
    ]


def test_each_missing_voter_has_its_reason() -> None:
    seen = status(election_links=(ServerId(2),), election_failures={ServerId(3): "h3:2: Connection refused"})
    assert missing_voters(seen) == {2: "connected, but it sends no votes", 3: "h3:2: Connection refused"}
    assert missing_voters(status(responsive=frozenset({1, 2}))) == {3: "not reached yet"}


@pytest.mark.parametrize(("late_ms", "due"), [(-1, False), (0, True), (2_000, True)])
def test_quorum_loss_is_logged_after_some_seconds_without_a_quorum(late_ms: int, due: bool) -> None:
    fields = quorum_loss(status(cut_off_since=10_000), 10_000 + QUORUM_MISSED_MS + late_ms)
    assert (fields is not None) is due
    if fields is not None:
        for_s = (QUORUM_MISSED_MS + late_ms) // 1_000
        assert fields == {"for_s": for_s, "server_2": "not reached yet", "server_3": "not reached yet"}


def test_election_with_a_quorum_is_not_logged_as_a_loss() -> None:
    assert quorum_loss(status(), 1_000_000) is None


def test_missing_voters_are_warned_about_only_without_a_quorum() -> None:
    (only,) = operator_warnings(status(), HEALTHY, None, ())
    assert only.startswith("no leader")
    _, *missing = operator_warnings(status(cut_off_since=0), HEALTHY, None, ())
    assert missing == ["server 2 is missing: not reached yet", "server 3 is missing: not reached yet"]


def test_disk_is_slow_if_half_of_the_last_fsyncs_were() -> None:
    half = SLOW_FSYNCS // 2
    quick, slow = (1_000,) * half, (250_000,) * half

    def warned(*fsyncs_us: int) -> list[str]:
        disk = DiskStatus(None, None, fsyncs_us, 0, 0, SnapshotStatus(), ())
        return operator_warnings(status(serving=True), disk, None, ())

    assert warned(*quick, *slow) == ["the disk is slow: half of the last 10 fsyncs took 250 ms or more"]
    assert warned(*quick, 1_000, *slow[1:]) == []
    assert warned(*slow) == [], "too few to judge"


def test_warnings_come_in_the_order_of_urgency() -> None:
    links = tuple(LinkStatus(ServerId(sid), False, size, 0, 0) for sid, size in ((2, 8 << 20), (3, (9 << 20) + 1)))
    disk = DiskStatus(
        None,
        None,
        (),
        0,
        0,
        SnapshotStatus(),
        ("the disk is failing: log.3 does not read", "9 files named damaged.* are kept"),
    )
    seen = status(voting=False, damage=("log.1 is cut off",), links=links)
    assert operator_warnings(seen, disk, Mismatch(0x20, 1, 2), ["the loop driver is dead"]) == [
        "no leader yet: this server does not serve, and writes wait",
        "this server does not vote: history or promises may be missing until a leader has healed it",
        "the loop driver is dead",
        "damaged: log.1 is cut off",
        "the disk is failing: log.3 does not read",
        "9 files named damaged.* are kept",
        (
            "the tree differs from the leader's at zxid 0x20: one of the two is wrong; "
            "compare /commands/hash of the servers"
        ),
        "the link to server 3 is slow: 9 MiB wait to be sent",
    ]
