"""Conversations of three real servers and an observer: see `tests.integration.apache_peers`, which records them."""

from __future__ import annotations

import pytest

from tests.unit.wire.apache_conversations import (
    Conversation,
    applied,
    check_election,
    check_quorum,
    follow,
    stored,
    zxids,
)
from zab.core.messages import (
    Ack,
    AckEpoch,
    AckNewLeader,
    Commit,
    CommitAndActivate,
    Diff,
    FollowerInfo,
    InformAndActivate,
    LeaderInfo,
    NewLeader,
    SnapBegin,
    SnapEnd,
    Trunc,
    UpToDate,
)
from zab.core.zxid import Epoch, Zxid
from zab.store.store import Store
from zab.wire.apache.packet_bodies import LearnerRequest, RevalidateReply, RevalidateRequest, SessionTouches
from zab.wire.apache.quorum_packets import PacketType

ELECTIONS = stored("election")
QUORUMS = {f"{each.stage}-{len(each.from_dialler)}": each for each in stored("quorum")}
quorums = pytest.mark.parametrize("conversation", QUORUMS.values(), ids=QUORUMS)


def staged(stage: str) -> Conversation:
    return next(each for each in QUORUMS.values() if each.stage == stage)


@pytest.mark.parametrize("conversation", ELECTIONS, ids=lambda each: f"{each.stage}-{len(each.from_dialler)}")
def test_election_link_has_the_same_bytes_again(conversation: Conversation) -> None:
    check_election(conversation)


@quorums
def test_learner_link_has_the_same_bytes_again(conversation: Conversation) -> None:
    check_quorum(conversation)


def test_captures_have_every_type_of_packet() -> None:
    seen = set().union(*map(check_quorum, QUORUMS.values()))
    assert seen == set(PacketType)


@quorums
@pytest.mark.parametrize("size", [1, 13, 100_000])
def test_messages_do_not_depend_on_how_the_bytes_arrive(conversation: Conversation, size: int) -> None:
    followed, other = follow(conversation, size), follow(conversation)
    assert zxids(followed.from_leader) == zxids(other.from_leader)
    kinds = [
        [type(each) for each in each.from_leader if not hasattr(each, "batch") and not isinstance(each, Commit)]
        for each in (followed, other)
    ]
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize("name", [name for name in QUORUMS if name.startswith("start")])
def test_a_store_that_follows_from_the_beginning_has_the_digests_of_the_leader(name: str) -> None:
    store = Store()
    followed = follow(QUORUMS[name])
    assert applied(followed, store) >= 13  # errors have no digest
    assert store.tree.nodes["/a"][0] == b"moved"
    store.tree.check()


def test_snapshot_becomes_the_state_of_a_store() -> None:
    store = Store()
    followed = follow(staged("snap"))
    kinds = [type(each) for each in followed.from_leader]
    assert kinds[:2] == [LeaderInfo, SnapBegin]
    assert kinds.index(SnapEnd) < kinds.index(NewLeader) < kinds.index(UpToDate)
    assert applied(followed, store) >= 1
    assert store.tree.nodes["/a"][0] == b"moved"
    assert store.tree.nodes["/b/c"][9] == -(1 << 63)


def test_diff_begins_at_the_end_of_the_learners_history() -> None:
    followed = follow(staged("diff"))
    _, ack, *_ = followed.from_learner
    assert isinstance(ack, AckEpoch)
    assert followed.from_leader[1] == Diff(ack.last)
    assert zxids(followed.from_leader) == list(range(ack.last + 1, ack.last + 15))
    (up,) = [each for each in followed.from_leader if isinstance(each, UpToDate)]
    assert up.committed == ack.last + 14
    assert not any(isinstance(each, Commit) for each in followed.from_leader)


def test_trunc_names_the_common_zxid() -> None:
    followed = follow(staged("trunc"))
    _, ack, *_ = followed.from_learner
    assert isinstance(ack, AckEpoch)
    assert followed.from_leader[1] == Trunc(Zxid(ack.last - 1))
    assert not ack.counts


def test_follower_reports_what_we_expect() -> None:
    followed = follow(next(each for name, each in QUORUMS.items() if name.startswith("start-929")))
    learner = followed.from_learner
    assert isinstance(learner[0], FollowerInfo)
    assert not learner[0].observer
    assert learner[2] == AckNewLeader(Epoch(1))
    acks = [each.zxid for each in learner if isinstance(each, Ack)]
    assert acks == sorted(acks)
    assert acks[-1] == zxids(followed.from_leader)[-1]
    assert {RevalidateRequest, LearnerRequest, SessionTouches} <= set(map(type, learner))
    assert any(isinstance(each, RevalidateReply) and each.valid for each in followed.from_leader)


def test_observer_is_told_of_its_removal() -> None:
    observer = next(each for each in QUORUMS.values() if each.from_dialler[:4] == b"\0\0\0\x10")
    followed = follow(observer)
    (removed,) = [each for each in followed.from_leader if isinstance(each, InformAndActivate)]
    assert removed.batch.config
    assert b"server.4" not in removed.batch.payloads()[0]
    assert removed.designated == observer.listener
    assert not any(isinstance(each, Ack | CommitAndActivate) for each in followed.from_learner)
