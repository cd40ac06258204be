"""What a leader sends to bring a learner's history to its own, case by case.

The cases are those that ZooKeeper's documentation of its synchronization works through. Where knowing the
newest common zxid gives something better than its table, the case says so.
"""

from __future__ import annotations

import pytest
from attrs import frozen

from tests.scenario import words
from zab.core.batch import pack
from zab.core.ensemble import Ensemble, Server
from zab.core.history import History
from zab.core.messages import AckEpoch, AckNewLeader, FollowerInfo, LinkUp, Notification, State
from zab.core.node import Node
from zab.core.ready import Envelope, Recovered, SendLog, SendSnapshot, Settings
from zab.core.synchronization import Form, Plan, plan
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
    """A server whose log on disk holds `log`, behind `log_start`, and in memory what is behind `memory`."""
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
    assert digest is not None
    node.step(TWO, LinkUp(dialled=False), 0)
    node.step(TWO, FollowerInfo(Epoch(2), NOTHING), 0)
    drain(node)
    node.step(TWO, AckEpoch(Epoch(2), last, digest), 0)
    drain(node)
    node.step(TWO, AckNewLeader(Epoch(3)), 0)
    drain(node)
    assert (node.serving, node.epoch) == (True, 3)
    return node


def drain(node: Node) -> list[Envelope]:
    sent: list[Envelope] = []
    while ready := node.ready():
        sent += ready.send
        if ready.save:
            node.saved(ready.save[-1].ticket, 0)
    return sent


def sync(leader: Node, peer: Zxid, digest: int = 0) -> list[str]:
    """What server 1, whose history ends at `peer`, is sent up to NEWLEADER."""
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
            said.append(words.of_message(message).replace("Propose ", ""))
    assert said.pop() == "NewLeader 3"
    return said


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
    "the start of an epoch": Case("1/1-1/5 2/1-2/2", "2/0", "Diff 1/5, 2/1, 2/2", "1/2"),
    "from the disk": Case("1/6-1/8 2/1-2/4", "1/8", "Diff 1/8, Log 1/8-2/2, 2/3, 2/4", "2/2", "1/5"),
    "cut, and then from the disk": Case("1/6-1/8 2/1-2/4", "1/9", "Trunc 1/8, Log 1/8-2/2, 2/3, 2/4", "2/2", "1/5"),
    "the disk reaches back just so far": Case("1/6-1/8 2/1", "1/5", "Diff 1/5, Log 1/5-1/8, 2/1", "1/8", "1/5"),
    "and no further": Case("1/6-1/8 2/1", "1/4", "Snap 2/1", "1/8", "1/5"),
    "an empty one, and the log is purged": Case("1/6-1/8", "0/0", "Snap 1/8", "1/8", "1/5"),
    # ZooKeeper keeps nothing in memory across a restart of the leader, and sends everything anew.
    "an empty one, and the log is whole": Case("2/1-2/2", "0/0", "Diff 0/0, Log 0/0-2/2", "2/2"),
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
def test_what_is_sent(case: Case) -> None:
    behind_log_start = [zxid for zxid in zxids(case.log) if zxid > parse(case.log_start)]
    text = " ".join(show(zxid) for zxid in behind_log_start)
    leader = a_leader(recovered(text, case.memory, case.log_start))
    for number in range(case.proposed):
        leader.propose([f"outstanding {number}".encode()], 0)
        drain(leader)
    assert sync(leader, parse(case.peer)) == case.sent.split(", ")


def test_reading_too_much_from_the_disk_takes_longer_than_a_snapshot() -> None:
    disk = recovered("1/1-1/5 2/1", "1/5")
    for most, sent in ((5, ["Diff 0/0", "Log 0/0-1/5", "2/1"]), (4, ["Snap 2/1"])):
        assert sync(a_leader(disk, Settings(log_sync_entries_max=most)), NOTHING) == sent


def test_the_point_in_common_comes_with_its_digest_where_memory_has_it() -> None:
    """So that a learner finds out when only the numbers agree."""
    leader = a_leader(recovered("1/1-1/3", "1/1", "1/0"))
    leader.step(ONE, LinkUp(dialled=False), 0)
    leader.step(ONE, FollowerInfo(Epoch(2), NOTHING), 0)
    drain(leader)
    leader.step(ONE, AckEpoch(Epoch(2), parse("1/2"), 0), 0)
    (diff, *_) = [envelope.message for envelope in drain(leader) if envelope.to == ONE]
    expected = History(recovered("1/1-1/3", "1/1", "1/0")).digest_at(parse("1/2"))
    assert getattr(diff, "digest", None) == expected is not None


def test_a_snapshot_is_of_what_is_applied_and_nothing_more() -> None:
    history = History(recovered("1/1-1/5", "1/2", "1/2"))
    assert plan(history, parse("1/3"), UNKNOWN, Settings()) == Plan(Form.SNAP, parse("1/3"))
    assert plan(history, parse("1/3"), parse("1/1"), Settings()) == Plan(Form.SNAP, parse("1/3"))
