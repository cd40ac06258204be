"""The plan of a synchronization, case by case.

The cases are those of ZooKeeper's documentation of its synchronization. A comment marks each case with a better result
due to the newest common zxid.
"""

from __future__ import annotations

import pytest
from attrs import evolve, frozen

from tests.scenario import words
from zab.core.batch import pack
from zab.core.ensemble import Ensemble, Server
from zab.core.history import History
from zab.core.messages import (
    ALIVE,
    RESUMES,
    AckEpoch,
    AckNewLeader,
    Diff,
    FollowerInfo,
    LeaderInfo,
    LinkUp,
    Message,
    Notification,
    Propose,
    SnapHeld,
    State,
    Trunc,
)
from zab.core.node import Node
from zab.core.ready import (
    Envelope,
    FindSnapshot,
    FoundSnapshot,
    HangUp,
    Recovered,
    SendLog,
    SendRest,
    SendSnapshot,
    Settings,
)
from zab.core.sync_plan import Form, SyncPlan, plan
from zab.core.zxid import NOTHING, UNKNOWN, Epoch, ServerId, Zxid, epoch_of, parse, show

ONE, TWO, THREE = map(ServerId, (1, 2, 3))
MEMBERS = Ensemble(tuple(Server(ServerId(sid), f"host{sid}", 2888, 3888) for sid in (1, 2, 3)))


def zxids(text: str) -> list[Zxid]:
    """`1/1-1/3 2/1` is four of them."""
    found: list[Zxid] = []
    for part in text.split():
        first, _, last = part.partition("-")
        found += [Zxid(zxid) for zxid in range(parse(first), parse(last or first) + 1)]
    return found


def recovered(log: str, memory: str | None = None, log_start: str = "0/0") -> Recovered:
    """Return a server with `log` on disk after `log_start`, and the part after `memory` in memory."""
    base, start = parse(memory or "0/0"), parse(log_start)
    logged = zxids(log)
    ends = {epoch_of(zxid): zxid for zxid in logged if zxid <= base}
    batches = tuple(pack(zxid, [show(zxid).encode()]) for zxid in logged if zxid > base)
    return Recovered(
        Epoch(2), Epoch(2), snapshot=base, digest=7, batches=batches, log_start=start, epoch_ends=tuple(ends.values())
    )


def a_leader(disk: Recovered, settings: Settings | None = None) -> Node:
    """Server 3 of three leads epoch 3, followed by 2, which had everything."""
    node = Node(THREE, MEMBERS, disk, settings or Settings(), lambda limit: limit, 0)
    last = node.last
    for sid in (ONE, TWO):
        node.step(sid, Notification(State.LOOKING, THREE, last, Epoch(2), 1, MEMBERS), 0)
    drain(node)
    digest = History(disk).digest_at(last)
    node.step(TWO, LinkUp(dialled=False), 0)
    node.step(TWO, FollowerInfo(Epoch(2), NOTHING), 0)
    drain(node)
    node.step(TWO, AckEpoch(Epoch(2), last, digest), 0)
    drain(node)
    node.step(TWO, AckNewLeader(Epoch(3)), 0)
    drain(node)
    assert (node.serving, node.epoch) == (True, 3)
    return node


def drain(node: Node, found: FoundSnapshot | None = None, asked: list[FindSnapshot] | None = None) -> list[Envelope]:
    """Return the sent messages. `found` is the disk's answer to the search for a snapshot file."""
    sent: list[Envelope] = []
    while ready := node.ready():
        sent += ready.send
        for question in ready.finds:
            assert asked is not None, "nobody holds part of a snapshot"
            asked.append(question)
            node.found(question, found, 0)
        if ready.save:
            node.saved(ready.save[-1].ticket, 0)
    return sent


def sync(leader: Node, peer: Zxid, digest: int | None = 0) -> list[str]:
    """Return the messages to server 1, with a history up to `peer`, up to NEWLEADER."""
    leader.step(ONE, LinkUp(dialled=False), 0)
    leader.step(ONE, FollowerInfo(Epoch(2), NOTHING), 0)
    drain(leader)
    leader.step(ONE, AckEpoch(Epoch(2), peer, digest), 0)
    said = []
    for envelope in drain(leader):
        message = envelope.message
        if envelope.to != ONE:
            continue
        if isinstance(message, SendSnapshot):
            said.append(f"Snap {show(message.zxid)}")
        elif isinstance(message, SendLog):
            said.append(f"Log {show(message.after)}-{show(message.until)}")
        else:
            assert not isinstance(message, SendRest)
            said.append(words.of_message(message).replace("Propose ", ""))
    return said[: said.index("NewLeader 3")]


@frozen
class Case:
    log: str
    peer: str
    sent: str
    memory: str = "0/0"
    log_start: str = "0/0"
    proposed: int = 0
    """How many transactions of the new epoch there are by then; none of them is committed."""


CASES = {
    "the same": Case("2/1-2/9", "2/9", "Diff 2/9", "2/2"),
    "one ahead of the leader is cut": Case("2/1-2/9", "2/11", "Trunc 2/9", "2/2"),
    "one behind gets the rest": Case("2/1-2/9", "2/5", "Diff 2/5, 2/6, 2/7, 2/8, 2/9", "2/2"),
    # ZooKeeper's case with 2/5 missing from the leader's memory has no counterpart: a history of ours has no hole.
    # It does not cut across an epoch and sends everything anew. We know that 1/5 is the newest that both have.
    "a dead epoch's tail is cut": Case("1/1-1/5 2/1-2/3", "1/7", "Trunc 1/5, 2/1, 2/2, 2/3", "1/2"),
    "a dead epoch is cut whole": Case("1/1-1/5", "2/4", "Trunc 1/5, 3/1", "1/2", proposed=1),
    "everything is cut": Case("2/1-2/2", "1/3", "Trunc 0/0, 2/1, 2/2"),
    # ZooKeeper: "epoch 2 is established, and nothing proposed yet". Our histories end at a transaction; were there
    # one that did not, it would have nothing to cut.
    "the start of an epoch": Case("1/1-1/5 2/1-2/2", "2/0", "Diff 2/0, 2/1, 2/2", "1/2"),
    "the leader began with a snapshot at the start of an epoch": Case(
        "2/1-2/2", "2/0", "Diff 2/0, 2/1, 2/2", "2/0", "2/0"
    ),
    "it began there, and the learner has a tail": Case("", "2/2", "Trunc 2/0", "2/0", "2/0"),
    "it began there, and the learner is a little behind": Case("2/1-2/2", "1/5", "Snap 2/2", "2/0", "2/0"),
    "from the disk": Case("1/6-1/8 2/1-2/4", "1/8", "Diff 1/8, Log 1/8-2/2, Diff 2/2, 2/3, 2/4", "2/2", "1/5"),
    "cut, and then from the disk": Case(
        "1/6-1/8 2/1-2/4", "1/9", "Trunc 1/8, Log 1/8-2/2, Diff 2/2, 2/3, 2/4", "2/2", "1/5"
    ),
    "the disk reaches back just so far": Case(
        "1/6-1/8 2/1", "1/5", "Diff 1/5, Log 1/5-1/8, Diff 1/8, 2/1", "1/8", "1/5"
    ),
    "and no further": Case("1/6-1/8 2/1", "1/4", "Snap 2/1", "1/8", "1/5"),
    "an empty one, and the log is purged": Case("1/6-1/8", "0/0", "Snap 1/8", "1/8", "1/5"),
    # ZooKeeper keeps nothing in memory across a restart of the leader, and sends everything anew.
    "an empty one, and the log is whole": Case("2/1-2/2", "0/0", "Diff 0/0, Log 0/0-2/2, Diff 2/2", "2/2"),
    "nothing in memory, the same": Case("2/1-2/9", "2/9", "Diff 2/9", "2/9", "2/9"),
    "nothing in memory, one ahead": Case("2/1-2/9", "2/10", "Trunc 2/9", "2/9", "2/9"),
    "nothing in memory, an empty one": Case("2/1-2/9", "0/0", "Snap 2/9", "2/9", "2/9"),
    "nothing anywhere": Case("", "0/0", "Diff 0/0"),
    "a history that may be incomplete": Case("2/1-2/9", "unknown", "Snap 2/9", "2/2"),
    "what is outstanding comes along": Case("2/1-2/2", "2/1", "Diff 2/1, 2/2, 3/1, 3/2", proposed=2),
    "a dead tail before what is outstanding": Case("2/1-2/2", "2/5", "Trunc 2/2, 3/1", proposed=1),
    "a snapshot and what is outstanding": Case("2/1-2/9", "0/0", "Snap 2/9, 3/1", "2/9", "2/9", proposed=1),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_sent_messages(case: Case) -> None:
    behind_log_start = [zxid for zxid in zxids(case.log) if zxid > parse(case.log_start)]
    text = " ".join(show(zxid) for zxid in behind_log_start)
    leader = a_leader(recovered(text, case.memory, case.log_start))
    for number in range(case.proposed):
        leader.propose([f"outstanding {number}".encode()], 0)
        drain(leader)
    assert sync(leader, parse(case.peer)) == case.sent.split(", ")


# -- learners of ZooKeeper ---------------------------------------------------------------------------------------

TRUNC_ALONE = Settings(diff_after_trunc=False, open_before_new_leader=False)
TRUNCATED: dict[str, Case] = {
    "a dead tail, and nothing follows": Case("2/1-2/9", "2/11", "Trunc 2/9"),
    "a dead tail, and only open proposals follow": Case("2/1-2/2", "2/5", "Trunc 2/2", proposed=1),
    "a dead tail of an earlier epoch": Case("1/1-1/5 2/1-2/2", "1/7", "Trunc 1/5, Snap 2/2"),
    "a dead epoch, and nothing follows": Case("1/1-1/5", "2/2", "Trunc 1/5"),
    "a dead tail after the beginning of an epoch": Case("", "2/2", "Trunc 2/0, Snap 2/0", "2/0", "2/0"),
    "a dead tail after nothing": Case("", "1/2", "Trunc 0/0, Snap 0/0"),
    "a little behind": Case("2/1-2/9", "2/5", "Diff 2/5, 2/6, 2/7, 2/8, 2/9"),
    "behind by an epoch": Case("1/1-1/5 2/1-2/2", "1/5", "Diff 1/5, 2/1, 2/2"),
    "a little behind, and open proposals": Case("2/1-2/2", "2/1", "Diff 2/1, 2/2", proposed=2),
}


@pytest.mark.parametrize("case", TRUNCATED.values(), ids=TRUNCATED)
def test_a_snapshot_replaces_a_trunc_before_a_diff(case: Case) -> None:
    """The link leaves out the TRUNC before a snapshot. It lets a learner of ours veto."""
    behind_log_start = [zxid for zxid in zxids(case.log) if zxid > parse(case.log_start)]
    leader = a_leader(recovered(" ".join(map(show, behind_log_start)), case.memory, case.log_start), TRUNC_ALONE)
    for number in range(case.proposed):
        leader.propose([f"outstanding {number}".encode()], 0)
        drain(leader)
    assert sync(leader, parse(case.peer)) == case.sent.split(", ")


# -- the rest of a snapshot --------------------------------------------------------------------------------------

FILE = FoundSnapshot(digest=9, size=900)


def held(zxid: str, size: int = 500) -> SnapHeld:
    return SnapHeld(parse(zxid), size, b"sum of 16 bytes.")


def resume(leader: Node, what: SnapHeld, found: FoundSnapshot | None, peer: Zxid = UNKNOWN) -> tuple[list[str], int]:
    """Return the messages to server 1 with a partial snapshot up to NEWLEADER, and the number of searches on disk."""
    leader.step(ONE, LinkUp(dialled=False), 0)
    leader.step(ONE, ALIVE, 0)
    leader.step(ONE, FollowerInfo(Epoch(2), NOTHING), 0)
    told = [envelope.message for envelope in drain(leader) if envelope.to == ONE]
    assert told == [RESUMES, LeaderInfo(Epoch(3))]
    leader.step(ONE, what, 0)
    leader.step(ONE, AckEpoch(Epoch(2), peer, 0), 0)
    asked: list[FindSnapshot] = []
    said = []
    for envelope in drain(leader, found, asked):
        message = envelope.message
        if envelope.to != ONE:
            continue
        if isinstance(message, SendSnapshot):
            said.append(f"Snap {show(message.zxid)}")
        elif isinstance(message, SendRest):
            assert (message.held, message.found) == (what, found)
            said.append(f"Rest {show(message.held.zxid)}")
        elif isinstance(message, SendLog):
            said.append(f"Log {show(message.after)}-{show(message.until)}")
        else:
            said.append(words.of_message(message).replace("Propose ", ""))
    assert said.pop() == "NewLeader 3"
    assert all(question == FindSnapshot(ONE, what) for question in asked)
    return said, len(asked)


def test_the_rest_of_a_snapshot_and_the_log_behind_it() -> None:
    leader = a_leader(recovered("2/5-2/9", "2/7", "2/4"))
    sent = (["Rest 2/6", "Log 2/6-2/7", "2/8", "2/9"], 1)
    assert resume(leader, held("2/6"), FILE) == sent


def test_a_leader_without_that_file_sends_its_state_from_the_beginning() -> None:
    assert resume(a_leader(recovered("2/5-2/9", "2/7", "2/4")), held("2/6"), None) == (["Snap 2/9"], 1)


def test_a_file_of_another_history_is_no_source() -> None:
    """The digest of the file is compared if memory has the history's digest there."""
    disk = recovered("2/5-2/9", "2/6", "2/4")
    assert resume(a_leader(disk), held("2/6"), FoundSnapshot(7, 900))[0][0] == "Rest 2/6"
    assert resume(a_leader(disk), held("2/6"), FoundSnapshot(8, 900)) == (["Snap 2/9"], 1)


def test_a_digest_that_is_not_known_does_not_keep_a_snapshot_from_being_resumed() -> None:
    disk = recovered("2/5-2/9", "2/6", "2/4")
    assert resume(a_leader(disk), held("2/6"), FoundSnapshot(None, 900))[0][0] == "Rest 2/6"
    assert resume(a_leader(evolve(disk, digest=None)), held("2/6"), FoundSnapshot(8, 900))[0][0] == "Rest 2/6"


def test_learners_own_tail_is_truncated_before_a_resumed_snapshot() -> None:
    leader = a_leader(recovered("1/1-1/5 2/1", "2/1"), Settings(log_sync_entries_max=0))
    assert resume(leader, held("2/1"), FoundSnapshot(7, 900), parse("1/7")) == (["Trunc 1/5", "Rest 2/1"], 1)


def test_a_snapshot_is_not_resumed_where_the_log_leads_from_the_learners_history() -> None:
    """The disk is not even asked."""
    leader = a_leader(recovered("2/5-2/9", "2/7", "2/4"))
    assert resume(leader, held("2/6"), FILE, parse("2/8")) == (["Diff 2/8", "2/9"], 0)


@pytest.mark.parametrize(
    ("zxid", "size", "why"),
    [
        ("2/4", 500, "the log does not reach back there"),
        ("1/9", 500, "it is of a history that is not this one"),
        ("2/10", 500, "it lies behind the end of this history"),
        ("3/0", 500, "no state is that of the start of an epoch"),
        ("2/6", 10, "the log behind it is longer than what need not be sent again"),
    ],
)
def test_a_snapshot_that_is_not_worth_resuming_begins_anew(zxid: str, size: int, why: str) -> None:
    leader = a_leader(recovered("2/6-2/9", "2/7", "2/5"))
    assert resume(leader, held(zxid, size), FILE) == (["Snap 2/9"], 0), why


def test_reading_too_much_log_behind_a_snapshot_takes_longer_than_a_new_one() -> None:
    disk = recovered("2/5-2/9", "2/7", "2/4")
    assert resume(a_leader(disk, Settings(log_sync_entries_max=3)), held("2/6"), FILE)[0][0] == "Rest 2/6"
    assert resume(a_leader(disk, Settings(log_sync_entries_max=2)), held("2/6"), FILE) == (["Snap 2/9"], 0)


def asking(leader: Node) -> FindSnapshot:
    """Return a leader with a pending search for the rest of server 1's snapshot."""
    leader.step(ONE, LinkUp(dialled=False), 0)
    for message in (ALIVE, FollowerInfo(Epoch(2), NOTHING)):
        leader.step(ONE, message, 0)
    drain(leader)
    for answer in (held("2/6"), AckEpoch(Epoch(2), UNKNOWN, 0)):
        leader.step(ONE, answer, 0)
    (question,) = leader.ready().finds
    return question


def test_nothing_is_sent_before_the_disk_has_answered() -> None:
    leader = a_leader(recovered("2/5-2/9", "2/7", "2/4"))
    asking(leader)
    leader.propose([b"meanwhile"], 0)
    assert [envelope for envelope in drain(leader) if envelope.to == ONE] == []


def test_proposals_before_ack_new_leader_are_part_of_the_synchronization() -> None:
    leader = a_leader(recovered("2/5-2/9", "2/7", "2/4"))
    question = asking(leader)
    leader.propose([b"meanwhile"], 0)
    drain(leader)
    leader.found(question, FILE, 0)
    sent = [envelope.message for envelope in drain(leader) if envelope.to == ONE]
    assert [message.batch.first for message in sent if isinstance(message, Propose)] == zxids("2/8-2/9 3/1")


def test_an_answer_for_an_earlier_link_is_nobodys() -> None:
    leader = a_leader(recovered("2/5-2/9", "2/7", "2/4"))
    late = asking(leader)
    in_time = asking(leader)
    leader.found(late, FILE, 0)
    assert drain(leader) == []
    leader.found(in_time, None, 0)
    assert any(isinstance(envelope.message, SendSnapshot) for envelope in drain(leader))


def test_snap_held_is_accepted_once_and_only_if_requested() -> None:
    """A learner that does not say ahead that it holds something is of an earlier version, or breaks the rules."""
    unasked: list[Message] = [FollowerInfo(Epoch(2), NOTHING), held("2/6")]
    too_early: list[Message] = [ALIVE, held("2/6")]
    for said in (unasked, too_early):
        leader = a_leader(recovered("2/5-2/9", "2/7", "2/4"))
        leader.step(ONE, LinkUp(dialled=False), 0)
        for each in said:
            leader.step(ONE, each, 0)
        assert HangUp(ONE, dialled=False) in leader.ready().links


def test_learner_of_an_earlier_version_gets_no_new_messages() -> None:
    leader = a_leader(recovered("2/5-2/9", "2/7", "2/4"))
    leader.step(ONE, LinkUp(dialled=False), 0)
    leader.step(ONE, FollowerInfo(Epoch(2), NOTHING), 0)
    assert [envelope.message for envelope in drain(leader)] == [LeaderInfo(Epoch(3))]


def test_early_learner_is_asked_for_its_partial_snapshot() -> None:
    node = Node(THREE, MEMBERS, recovered("2/5-2/9", "2/7", "2/4"), Settings(), lambda limit: limit, 0)
    drain(node)
    for sid in (ONE, TWO):
        node.step(sid, LinkUp(dialled=False), 0)
        for message in (ALIVE, ALIVE, FollowerInfo(Epoch(2), NOTHING)):
            node.step(sid, message, 0)
    for sid in (ONE, TWO):
        node.step(sid, Notification(State.LOOKING, THREE, node.last, Epoch(2), 1, MEMBERS), 0)
    told = [envelope.message for envelope in drain(node) if envelope.to == ONE]
    assert told[-2:] == [RESUMES, LeaderInfo(Epoch(3))]


def test_reading_too_much_from_the_disk_takes_longer_than_a_snapshot() -> None:
    disk = recovered("1/1-1/5 2/1", "1/5")
    for most, sent in ((5, ["Diff 0/0", "Log 0/0-1/5", "Diff 1/5", "2/1"]), (4, ["Snap 2/1"])):
        assert sync(a_leader(disk, Settings(log_sync_entries_max=most)), NOTHING) == sent


def test_leader_sends_trunc_before_a_snapshot_if_the_learner_has_more() -> None:
    disk = recovered("1/1-1/5 2/1-2/9", "2/9")
    assert sync(a_leader(disk, Settings(log_sync_entries_max=4)), parse("1/9")) == ["Trunc 1/5", "Snap 2/9"]
    purged = a_leader(recovered("1/1-1/5 2/1-2/9", "2/9"))
    purged.log_starts(parse("2/9"))
    assert sync(purged, parse("1/9")) == ["Trunc 1/5", "Snap 2/9"]
    purged = a_leader(recovered("1/1-1/5 2/1-2/9", "2/9"))
    purged.log_starts(parse("2/9"))
    assert sync(purged, parse("1/5")) == ["Snap 2/9"], "it has nothing that the leader lacks"


@pytest.mark.parametrize("peer", ["1/1", "1/2", "1/4", "2/9"])
def test_a_leader_without_digests_sends_none_and_compares_none(peer: str) -> None:
    leader = a_leader(evolve(recovered("1/1-1/3", "1/2"), digest=None))
    for digest in (None, 5):
        leader.step(ONE, LinkUp(dialled=False), 0)
        leader.step(ONE, FollowerInfo(Epoch(2), NOTHING), 0)
        leader.step(ONE, AckEpoch(Epoch(2), parse(peer), digest), 0)
        ready = leader.ready()
        sent = [envelope.message for envelope in ready.send if envelope.to == ONE]
        digests = [message.digest for message in sent if isinstance(message, Diff | Trunc | SendSnapshot)]
        assert digests == [None]
        assert [note.event for note in ready.notes if note.event == "diverged"] == []


def test_a_leader_does_not_compare_its_digest_with_none() -> None:
    leader = a_leader(recovered("1/1-1/3"))
    leader.step(ONE, LinkUp(dialled=False), 0)
    leader.step(ONE, FollowerInfo(Epoch(2), NOTHING), 0)
    leader.step(ONE, AckEpoch(Epoch(2), parse("1/3"), None), 0)
    assert [note.event for note in leader.ready().notes if note.event == "diverged"] == []


def test_the_point_in_common_comes_with_its_digest_where_memory_has_it() -> None:
    """The digest shows a learner that only the zxids agree."""
    leader = a_leader(recovered("1/1-1/3", "1/1", "1/0"))
    leader.step(ONE, LinkUp(dialled=False), 0)
    leader.step(ONE, FollowerInfo(Epoch(2), NOTHING), 0)
    drain(leader)
    leader.step(ONE, AckEpoch(Epoch(2), parse("1/2"), 0), 0)
    (diff, *_) = [envelope.message for envelope in drain(leader) if envelope.to == ONE]
    expected = History(recovered("1/1-1/3", "1/1", "1/0")).digest_at(parse("1/2"))
    assert getattr(diff, "digest", None) == expected is not None


def test_snapshot_contains_exactly_the_applied_state() -> None:
    history = History(recovered("1/1-1/5", "1/2", "1/2"))
    assert plan(history, parse("1/3"), UNKNOWN, Settings()) == SyncPlan(Form.SNAP, parse("1/3"))
    assert plan(history, parse("1/3"), parse("1/1"), Settings()) == SyncPlan(Form.SNAP, parse("1/3"))
