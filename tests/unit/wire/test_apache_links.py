"""The translators of both ends of a learner link, against each other and against what ZooKeeper's servers do."""

from __future__ import annotations

import pytest
from attrs import evolve

from zab.core.batch import Batch, pack
from zab.core.ensemble import Ensemble
from zab.core.errors import LocalProtocolError, WireError
from zab.core.messages import (
    ALIVE,
    RESUMES,
    Ack,
    AckEpoch,
    AckNewLeader,
    BarrierReply,
    BarrierRequest,
    Commit,
    CommitAndActivate,
    Diff,
    FollowerInfo,
    Inform,
    InformAndActivate,
    LeaderInfo,
    NewLeader,
    Ping,
    Pong,
    Propose,
    SnapBegin,
    SnapChunk,
    SnapEnd,
    SnapHeld,
    Trunc,
    UpToDate,
    Veto,
)
from zab.core.zxid import NOTHING, UNKNOWN, Epoch, ServerId, Zxid, make
from zab.store import transactions
from zab.store.operations import Op
from zab.store.store import Store
from zab.wire.apache import link_to_learner
from zab.wire.apache.link_to_leader import BATCH_ENTRIES_MAX, LinkToLeader
from zab.wire.apache.link_to_learner import LinkToLearner
from zab.wire.apache.packet_bodies import (
    LearnerRequest,
    RevalidateReply,
    RevalidateRequest,
    SessionTouches,
    encode_epoch,
)
from zab.wire.apache.proposals import NO_TAG
from zab.wire.apache.quorum_packets import PacketReader, PacketType, QuorumPacket, encode_packet
from zab.wire.apache.snapshot_stream import encode_state
from zab.wire.relay_messages import CatchUpPoint, CatchUpRequest, Forward

ENSEMBLE = Ensemble.parse("server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2:observer\nversion=400000000")
LAST = make(4, 9)
EPOCH = Epoch(5)
INFO = FollowerInfo(Epoch(4), make(4, 0))
ACK_EPOCH = AckEpoch(Epoch(4), LAST, None)


def batch(first: Zxid, count: int = 1) -> Batch:
    return pack(first, [NO_TAG + transactions.delete(1, number, 2, "/a") for number in range(count)])


def changed(zxid: Zxid) -> Batch:
    return pack(zxid, [evolve(ENSEMBLE, version=zxid).text().encode()], config=True)


def packets(data: bytes) -> list[tuple[str, int]]:
    reader, found = PacketReader(), []
    reader.feed(data)
    while (packet := reader.next()) is not None:
        found.append((packet.type.name, packet.zxid))
    assert reader.held_bytes == 0
    return found


class Pair:
    """A learner and a leader of ours that speak ZooKeeper's protocol."""

    def __init__(self, info: FollowerInfo = INFO, ack: AckEpoch = ACK_EPOCH) -> None:
        self.learner, self.leader = LinkToLeader(ServerId(2)), LinkToLearner()
        assert self.up(info) == [info]
        assert self.leader.sid == 2
        assert self.down(LeaderInfo(EPOCH)) == [LeaderInfo(EPOCH)]
        assert self.up(ack) == [ack]

    def up(self, message: object) -> list[object]:
        return list(self.leader.feed(self.learner.encode(message)))

    def down(self, *messages: object) -> list[object]:
        return list(self.learner.feed(b"".join(map(self.leader.encode, messages))))

    def to_broadcast(self) -> None:
        assert self.down(Diff(LAST), NewLeader(EPOCH, ENSEMBLE)) == [Diff(LAST), NewLeader(EPOCH, ENSEMBLE)]
        assert self.up(AckNewLeader(EPOCH)) == [AckNewLeader(EPOCH)]
        assert self.down(UpToDate(LAST)) == [UpToDate(LAST)]


# -- the history ---------------------------------------------------------------------------------------


def test_a_diff_brings_the_history_and_its_commits_with_up_to_date() -> None:
    pair = Pair()
    history = batch(make(4, 10), 3)
    assert pair.down(Diff(LAST, 77), Propose(history)) == [Diff(LAST), Propose(history)]
    assert pair.down(NewLeader(EPOCH, ENSEMBLE)) == [NewLeader(EPOCH, ENSEMBLE)]
    assert pair.up(AckNewLeader(EPOCH)) == [AckNewLeader(EPOCH)]
    assert pair.down(UpToDate(history.last)) == [UpToDate(history.last)]


def test_everything_before_newleader_is_committed_one_by_one() -> None:
    link = Pair().leader
    link.encode(Diff(LAST))
    assert packets(link.encode(Propose(batch(make(4, 10), 2)))) == [
        ("PROPOSAL", make(4, 10)), ("COMMIT", make(4, 10)), ("PROPOSAL", make(4, 11)), ("COMMIT", make(4, 11)),
    ]  # fmt: skip


def test_open_proposals_after_newleader_are_committed_later() -> None:
    """This is the order of a leader with `open_before_new_leader` off."""
    pair = Pair()
    pair.down(Diff(LAST), Propose(batch(make(4, 10))), NewLeader(EPOCH, ENSEMBLE))
    link = pair.leader
    opened = link.encode(Propose(batch(make(5, 1), 2)))
    assert packets(opened) == [("PROPOSAL", make(5, 1)), ("PROPOSAL", make(5, 2))]
    assert pair.learner.feed(opened) == [Propose(batch(make(5, 1), 2))]
    assert pair.up(AckNewLeader(EPOCH)) == [AckNewLeader(EPOCH)]
    assert packets(link.encode(UpToDate(make(4, 10)))) == [("UP_TO_DATE", -1)]
    assert pair.up(Ack(make(5, 2))) == [Ack(make(5, 2))]
    assert packets(link.encode(Commit(make(5, 1)))) == [("COMMIT", make(5, 1))]


def test_up_to_date_waits_until_the_history_is_committed() -> None:
    pair = Pair()
    pair.down(Diff(LAST), Propose(batch(make(5, 1), 3)), NewLeader(EPOCH, ENSEMBLE))
    link = pair.leader
    assert link.encode(UpToDate(make(5, 1))) == b""
    assert packets(link.encode(Propose(batch(make(5, 4))))) == [("PROPOSAL", make(5, 4))]
    assert link.encode(Commit(make(5, 2))) == b""
    assert packets(link.encode(Commit(make(5, 4)))) == [("UP_TO_DATE", -1), ("COMMIT", make(5, 4))]
    assert link.encode(Commit(make(5, 4))) == b""


def test_no_commit_comes_between_newleader_and_uptodate() -> None:
    """There a learner of ZooKeeper overlooks a change of the membership behind another open proposal."""
    link = Pair().leader
    link.encode(Diff(LAST))
    link.encode(NewLeader(EPOCH, ENSEMBLE))
    link.encode(Propose(batch(make(5, 1))))
    link.encode(Propose(changed(make(5, 2))))
    assert link.encode(Commit(make(5, 1))) == b""
    assert link.encode(CommitAndActivate(make(5, 2), ServerId(3))) == b""
    assert packets(link.encode(UpToDate(make(5, 2)))) == [
        ("UP_TO_DATE", -1), ("COMMIT", make(5, 1)), ("COMMIT_AND_ACTIVATE", make(5, 2))
    ]  # fmt: skip


def test_up_to_date_waits_for_the_common_zxid() -> None:
    """The learner has a proposal of an earlier link that is not committed yet, and would serve it."""
    link = Pair().leader
    link.encode(Diff(make(5, 4)))
    link.encode(NewLeader(EPOCH, ENSEMBLE))
    assert link.encode(UpToDate(make(5, 3))) == b""
    assert packets(link.encode(Commit(make(5, 4)))) == [("UP_TO_DATE", -1)]


def test_a_trunc_before_a_snapshot_is_left_out() -> None:
    link = Pair().leader
    assert link.encode(Trunc(make(4, 5))) == b""
    assert packets(link.encode(SnapBegin(make(5, 1), 3))) == [("SNAP", make(5, 1))]


def test_a_trunc_comes_before_the_history_and_a_second_diff_not_at_all() -> None:
    link = Pair().leader
    assert link.encode(Trunc(make(4, 5))) == b""
    assert packets(link.encode(Propose(batch(make(4, 6)))))[:2] == [("TRUNC", make(4, 5)), ("PROPOSAL", make(4, 6))]
    assert link.encode(Diff(make(4, 6), 3)) == b""
    link = Pair().leader
    assert link.encode(Trunc(make(4, 5))) == b""
    assert [name for name, _ in packets(link.encode(NewLeader(EPOCH, ENSEMBLE)))] == ["TRUNC", "NEW_LEADER"]


def test_a_snapshot_arrives_in_chunks_of_a_store() -> None:
    store, zxid = Store(), make(4, 12)
    store.apply(zxid, transactions.create_session(9, 0, 2, 4000, 1))
    chunks = list(store.snapshot())
    pair = Pair()
    found = pair.down(
        SnapBegin(zxid, 5), *map(SnapChunk, encode_state(lambda: chunks)), SnapEnd(), Propose(batch(make(4, 13)))
    )
    again = Store()
    again.restore([each.data for each in found if isinstance(each, SnapChunk)])
    assert again.tree.nodes == store.tree.nodes
    assert again.sessions.table == {9: (4000, 0)}
    assert [each for each in found if not isinstance(each, SnapChunk)] == [
        SnapBegin(zxid, None), SnapEnd(), Propose(batch(make(4, 13))),
    ]  # fmt: skip


def test_a_learner_that_knows_nothing_needs_a_snapshot() -> None:
    pair = Pair(ack=AckEpoch(Epoch(0), UNKNOWN, None))
    with pytest.raises(WireError, match="may be incomplete"):
        pair.down(Diff(LAST))


def test_informs_before_newleader_are_a_part_of_the_history() -> None:
    pair = Pair(info=evolve(INFO, observer=True))
    membership = changed(make(4, 11))
    found = pair.down(
        Diff(LAST), Inform(batch(make(4, 10))), InformAndActivate(membership, ServerId(1)), NewLeader(EPOCH, ENSEMBLE)
    )
    assert found == [Diff(LAST), Propose(batch(make(4, 10))), Propose(membership), NewLeader(EPOCH, ENSEMBLE)]
    assert pair.up(AckNewLeader(EPOCH)) == [AckNewLeader(EPOCH)]
    assert pair.down(UpToDate(NOTHING)) == [UpToDate(make(4, 11))]


# -- acknowledgements ----------------------------------------------------------------------------------


def test_one_ack_of_ours_is_one_for_each_proposal() -> None:
    pair = Pair()
    pair.to_broadcast()
    pair.down(Propose(batch(make(5, 1), 3)))
    assert packets(pair.learner.encode(Ack(make(5, 2)))) == [("ACK", make(5, 1)), ("ACK", make(5, 2))]
    assert packets(pair.learner.encode(Ack(make(5, 3)))) == [("ACK", make(5, 3))]
    assert pair.learner.encode(Ack(make(5, 3))) == b""


def test_acks_that_arrive_together_become_one() -> None:
    pair = Pair()
    pair.to_broadcast()
    pair.down(Propose(batch(make(5, 1), 3)))
    assert pair.up(Ack(make(5, 3))) == [Ack(make(5, 3))]


def test_open_proposals_before_newleader_are_acknowledged_with_later_ones() -> None:
    learner = Pair().learner
    head = [QuorumPacket(PacketType.DIFF, LAST), *map(proposal, (make(5, 1), make(5, 2)))]
    head.insert(2, QuorumPacket(PacketType.COMMIT, make(5, 1)))
    tail = QuorumPacket(PacketType.NEW_LEADER, make(5, 0), ENSEMBLE.text().encode()), proposal(make(5, 3))
    learner.feed(b"".join(map(encode_packet, (*head, *tail))))
    assert packets(learner.encode(AckNewLeader(EPOCH))) == [("ACK", make(5, 0))]
    assert packets(learner.encode(Ack(make(5, 3)))) == [("ACK", make(5, 2)), ("ACK", make(5, 3))]


def proposal(zxid: Zxid) -> QuorumPacket:
    reader = PacketReader()
    link = LinkToLearner()
    link._epoch = EPOCH
    reader.feed(link.encode(Propose(batch(zxid))))
    packet = reader.next()
    assert packet is not None
    return packet


def test_an_observer_acknowledges_no_proposal() -> None:
    pair = Pair(info=evolve(INFO, observer=True))
    pair.down(Diff(LAST), Propose(batch(make(4, 10))), NewLeader(EPOCH, ENSEMBLE))
    assert packets(pair.learner.encode(AckNewLeader(EPOCH))) == [("ACK", make(5, 0))]
    assert pair.learner.encode(Ack(make(4, 10))) == b""


def test_the_acknowledgement_of_uptodate_is_dropped() -> None:
    pair = Pair()
    pair.to_broadcast()
    assert pair.leader.feed(encode_packet(QuorumPacket(PacketType.ACK, make(5, 0)))) == []


# -- broadcast -----------------------------------------------------------------------------------------


def test_proposals_and_commits_that_arrive_together_become_batches() -> None:
    pair = Pair()
    pair.to_broadcast()
    messages = [each for counter in (1, 2, 3) for each in (Propose(batch(make(5, counter))), Commit(make(5, counter)))]
    (proposed, committed) = pair.down(*messages)
    assert isinstance(proposed, Propose)
    assert (proposed.batch.first, proposed.batch.count) == (make(5, 1), 3)
    assert committed == Commit(make(5, 3))


def test_a_batch_has_a_limit() -> None:
    pair = Pair()
    pair.to_broadcast()
    found = pair.down(Propose(batch(make(5, 1), BATCH_ENTRIES_MAX + 1)))
    assert [each.batch.count for each in found if isinstance(each, Propose)] == [BATCH_ENTRIES_MAX, 1]


def test_a_change_of_the_membership_is_activated() -> None:
    pair = Pair()
    pair.to_broadcast()
    membership = changed(make(5, 2))
    found = pair.down(
        Propose(batch(make(5, 1))), Propose(membership), Propose(batch(make(5, 3))),
        CommitAndActivate(make(5, 2), ServerId(1)), Commit(make(5, 3)),
    )  # fmt: skip
    assert found == [
        Propose(batch(make(5, 1))), Propose(membership), Propose(batch(make(5, 3))),
        CommitAndActivate(make(5, 2), ServerId(1)), Commit(make(5, 3)),
    ]  # fmt: skip


def test_an_observer_receives_informs() -> None:
    pair = Pair(info=evolve(INFO, observer=True))
    pair.to_broadcast()
    membership = changed(make(5, 3))
    found = pair.down(Inform(batch(make(5, 1), 2)), InformAndActivate(membership, ServerId(1)))
    assert found == [Inform(batch(make(5, 1), 2)), InformAndActivate(membership, ServerId(1))]


def test_a_ping_keeps_its_number_at_a_learner_of_zookeeper() -> None:
    pair = Pair()
    pair.to_broadcast()
    pair.learner.touch(7, 4000)
    assert pair.down(Ping(41, LAST)) == [Ping(1, LAST)]
    assert pair.up(Pong(1)) == [SessionTouches(((7, 4000),)), Pong(41)]
    pair.down(Ping(42, LAST))
    assert pair.up(Pong(2)) == [Pong(42)]


def test_a_ping_is_not_answered_before_the_epoch_is_adopted() -> None:
    pair = Pair()
    assert pair.down(Diff(LAST), Ping(3, LAST)) == [Diff(LAST), Ping(1, NOTHING)]
    assert pair.learner.encode(Pong(1)) == b""


def test_a_barrier_is_a_sync() -> None:
    pair = Pair()
    pair.to_broadcast()
    assert pair.up(BarrierRequest(17)) == [BarrierRequest(1)]
    assert pair.up(CatchUpRequest(18)) == [BarrierRequest(2)]
    pair.down(Propose(batch(make(5, 1))), Commit(make(5, 1)))
    replies = pair.down(BarrierReply(1, LAST), BarrierReply(2, LAST))
    assert replies == [BarrierReply(17, make(5, 1)), CatchUpPoint(18, make(5, 1))]


class Learner:
    """A learner in the broadcast phase whose requests have the sessions and numbers of `batch`."""

    def __init__(self) -> None:
        self.pair = Pair()
        self.pair.to_broadcast()

    def asks(self, cxid: int) -> None:
        request = LearnerRequest(1, cxid, Op.DELETE, b"", ())
        assert self.pair.up(request) == [request]

    def syncs(self, number: int) -> None:
        assert self.pair.up(BarrierRequest(number)) == [BarrierRequest(number)]

    def gets(self, message: object) -> list[tuple[str, int]]:
        """Return the commits and the replies to syncs."""
        return [each for each in packets(self.pair.leader.encode(message)) if each[0] not in ("PROPOSAL", "PING")]


def test_sync_waits_for_the_commit_of_an_earlier_request_of_its_learner() -> None:
    learner, (first, second, third) = Learner(), batch(make(5, 1), 3).zxids
    learner.asks(1)
    learner.syncs(1)
    assert learner.gets(Propose(batch(first, 3))) == []
    assert learner.gets(BarrierReply(1, LAST)) == []
    assert learner.gets(Commit(first)) == [("COMMIT", first)], "the request of another server"
    assert learner.gets(Commit(third)) == [("COMMIT", second), ("SYNC", 0), ("COMMIT", third)]


def test_commit_of_a_request_waits_for_the_reply_to_an_earlier_sync_of_its_learner() -> None:
    learner, (first, second, third) = Learner(), batch(make(5, 1), 3).zxids
    learner.syncs(1)
    learner.asks(1)
    learner.syncs(2)
    learner.gets(Propose(batch(first, 3)))
    assert learner.gets(Commit(second)) == [("COMMIT", first)]
    assert learner.gets(Ping(7, third)) == []
    assert learner.gets(BarrierReply(1, LAST)) == [("SYNC", 0), ("COMMIT", second), ("COMMIT", third)]
    assert learner.gets(BarrierReply(2, third)) == [("SYNC", 0)]


def test_sync_comes_after_all_that_its_barrier_covers() -> None:
    learner, (first, second, third) = Learner(), batch(make(5, 1), 3).zxids
    learner.syncs(1)
    learner.asks(0)
    learner.gets(Propose(batch(first, 3)))
    assert learner.gets(Commit(second)) == []
    learner.syncs(2)
    assert learner.gets(BarrierReply(1, LAST)) == [("SYNC", 0), ("COMMIT", first), ("COMMIT", second)]
    assert learner.gets(BarrierReply(2, second)) == [("SYNC", 0)]
    learner.syncs(3)
    learner.asks(2)
    learner.syncs(4)
    learner.gets(Commit(third))
    both = learner.gets(BarrierReply(3, second)) + learner.gets(BarrierReply(4, third))
    assert both == [("SYNC", 0), ("COMMIT", third), ("SYNC", 0)]


def test_informs_of_an_observer_and_its_syncs_are_in_the_order_of_its_requests() -> None:
    learner, (first, second) = Learner(), batch(make(5, 1), 2).zxids
    learner.syncs(1)
    learner.asks(0)
    assert learner.gets(Inform(batch(first, 2))) == []
    assert learner.gets(BarrierReply(1, LAST)) == [("SYNC", 0), ("INFORM", first), ("INFORM", second)]


def test_link_with_too_many_requests_without_a_reply_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_to_learner, "ASKED_MAX", 2)
    learner = Learner()
    learner.asks(1)
    learner.syncs(1)
    with pytest.raises(WireError, match="2 requests of one learner without a reply"):
        learner.asks(2)


def test_sessions_and_requests_pass() -> None:
    pair = Pair()
    pair.to_broadcast()
    request = LearnerRequest(7, 3, Op.DELETE, b"body", (("ip", "::1"),))
    assert pair.up(request) == [request]
    assert pair.up(RevalidateRequest(7, 4000)) == [RevalidateRequest(7, 4000)]
    assert pair.down(RevalidateReply(7, True)) == [RevalidateReply(7, True)]


def test_what_the_other_side_does_not_know_is_not_sent() -> None:
    pair = Pair()
    veto = Veto(ServerId(1), EPOCH, NOTHING, LAST, LAST, 3)
    assert [pair.learner.encode(each) for each in (ALIVE, veto, SnapHeld(LAST, 1, b""))] == [b""] * 3
    assert pair.leader.encode(RESUMES) == b""
    for encode, message in (
        (pair.learner.encode, Forward(EPOCH, b"", 1, ())),
        (pair.leader.encode, CatchUpPoint(1, LAST)),
    ):
        with pytest.raises(LocalProtocolError, match="no equal"):
            encode(message)


def test_a_server_that_may_have_lost_promises_does_not_join_as_a_voter() -> None:
    lost = evolve(ACK_EPOCH, forgotten=True, counts=False)
    with pytest.raises(LocalProtocolError, match="may have lost promises"):
        Pair(ack=lost)
    learner = LinkToLeader(ServerId(2))
    learner.encode(evolve(INFO, observer=True))
    assert learner.encode(lost) == encode_packet(QuorumPacket(PacketType.ACK_EPOCH, LAST, encode_epoch(-1)))


def test_a_promise_that_does_not_count_names_the_epoch_of_the_last_transaction() -> None:
    leader = LinkToLearner()
    leader.feed(LinkToLeader(ServerId(2)).encode(INFO))
    (ack,) = leader.feed(encode_packet(QuorumPacket(PacketType.ACK_EPOCH, LAST, encode_epoch(-1))))
    assert ack == AckEpoch(Epoch(4), LAST, None, counts=False)


# -- what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("packet", "why"),
    [
        (QuorumPacket(PacketType.ACK, LAST), "a leader does not send ACK"),
        (QuorumPacket(PacketType.LEADER_INFO, make(5, 0), b"\0\1\0\0"), "LEADER_INFO in phase PROMISED"),
        (proposal(make(5, 1)), "PROPOSAL in phase PROMISED"),
        (QuorumPacket(PacketType.COMMIT, make(5, 1)), "COMMIT in phase PROMISED"),
        (QuorumPacket(PacketType.UP_TO_DATE, -1), "UP_TO_DATE in phase PROMISED"),
        (QuorumPacket(PacketType.NEW_LEADER, make(5, 0), b"version=0"), "NEW_LEADER in phase PROMISED"),
        (QuorumPacket(PacketType.SYNC, 0), "SYNC in phase PROMISED"),
        (QuorumPacket(PacketType.TRUNC, -7), "no zxid"),
        (QuorumPacket(PacketType.TRUNC, -1), "without a zxid"),
        (QuorumPacket(PacketType.SNAP, -1), "without a zxid"),
    ],
)
def test_a_leader_that_breaks_the_protocol(packet: QuorumPacket, why: str) -> None:
    with pytest.raises(WireError, match=why):
        Pair().learner.feed(encode_packet(packet))


def test_a_sync_must_have_been_asked_for() -> None:
    pair = Pair()
    pair.to_broadcast()
    with pytest.raises(WireError, match="not asked for"):
        pair.learner.feed(encode_packet(QuorumPacket(PacketType.SYNC, 0)))


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ([QuorumPacket(PacketType.ACK_EPOCH, LAST, bytes(4))], "must be the first packet"),
        ([QuorumPacket(PacketType.PROPOSAL, LAST)], "a learner does not send PROPOSAL"),
    ],
)
def test_a_learner_that_breaks_the_protocol(sent: list[QuorumPacket], why: str) -> None:
    with pytest.raises(WireError, match=why):
        LinkToLearner().feed(b"".join(map(encode_packet, sent)))


@pytest.mark.parametrize(
    ("packet", "why"),
    [
        (QuorumPacket(PacketType.ACK, make(5, 1)), "ACK before NEWLEADER"),
        (QuorumPacket(PacketType.ACK_EPOCH, LAST, bytes(4)), "second ACKEPOCH"),
        (QuorumPacket(PacketType.PING, -1), "number -1"),
    ],
)
def test_a_learner_that_breaks_the_protocol_later(packet: QuorumPacket, why: str) -> None:
    with pytest.raises(WireError, match=why):
        Pair().leader.feed(encode_packet(packet))


def test_an_ack_must_have_a_zxid() -> None:
    pair = Pair()
    pair.to_broadcast()
    with pytest.raises(WireError, match="without a zxid"):
        pair.leader.feed(encode_packet(QuorumPacket(PacketType.ACK, -1)))


def test_the_first_ack_must_be_that_of_newleader() -> None:
    pair = Pair()
    pair.down(Diff(LAST), NewLeader(EPOCH, ENSEMBLE))
    with pytest.raises(WireError, match="before that of NEWLEADER"):
        pair.leader.feed(encode_packet(QuorumPacket(PacketType.ACK, make(4, 9))))


def test_without_reconfiguration_the_version_of_the_membership_is_not_reported() -> None:
    leader = LinkToLearner()
    (info,) = leader.feed(LinkToLeader(ServerId(2), reconfig_enabled=False).encode(INFO))
    assert info == evolve(INFO, ensemble_version=NOTHING)
