"""The replica: applied is what is committed and durable, and nothing else ever."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from zab.core.batch import Batch, pack
from zab.core.ensemble import Ensemble, Role, Server
from zab.core.errors import RemoteProtocolError
from zab.core.ready import (
    AbortSnapshot,
    Activate,
    Append,
    Apply,
    InstallSnapshot,
    Recovered,
    Restore,
    SaveEpochs,
    Settings,
    Truncate,
)
from zab.core.replica import Replica
from zab.core.zxid import NOTHING, UNKNOWN, Epoch, ServerId, Zxid, epoch_of, make

ME = ServerId(1)


def members(*voters: int, observers: tuple[int, ...] = (), version: Zxid = NOTHING) -> Ensemble:
    servers = [Server(ServerId(sid), f"host{sid}", 2888, 3888) for sid in voters]
    servers += [Server(ServerId(sid), f"host{sid}", 2888, 3888, Role.OBSERVER) for sid in observers]
    return Ensemble(tuple(servers), version)


EMPTY = Recovered(Epoch(0), Epoch(0))


def a_replica(recovered: Recovered = EMPTY, *, file: Ensemble | None = None) -> Replica:
    return Replica(ME, file or members(1, 2, 3), recovered, Settings())


def txn(epoch: int, counter: int, count: int = 1) -> Batch:
    return pack(make(epoch, counter), [b"x"] * count)


def change(zxid: Zxid, *voters: int) -> Batch:
    return pack(zxid, [members(*voters, version=zxid).text().encode()], config=True)


def applied(replica: Replica) -> list[Zxid]:
    """The zxids that go to the machine now."""
    found = []
    for what in replica.out.drain().apply:
        if isinstance(what, Apply):
            found += [Zxid(what.batch.first + at) for at in range(what.batch.count)]
    return found


# -- applying -----------------------------------------------------------------------------------------------


def test_a_transaction_waits_for_the_commit_and_for_the_disk() -> None:
    commit_first, disk_first = a_replica(), a_replica()
    ticket = commit_first.append(txn(1, 1))
    commit_first.commit(make(1, 1))
    assert applied(commit_first) == []
    assert commit_first.saved(ticket)
    assert applied(commit_first) == [make(1, 1)]

    ticket = disk_first.append(txn(1, 1))
    assert disk_first.saved(ticket)
    assert applied(disk_first) == []
    disk_first.commit(make(1, 1))
    assert applied(disk_first) == [make(1, 1)]


def test_a_ticket_covers_everything_before_it() -> None:
    replica = a_replica()
    replica.append(txn(1, 1))
    replica.save_epochs()
    last = replica.append(txn(1, 2))
    replica.append(txn(1, 3))
    assert replica.saved(last)
    assert replica.durable == make(1, 2)
    assert not replica.saved(last), "nothing new"


def test_a_commit_in_the_middle_of_a_batch_applies_its_first_part() -> None:
    replica = a_replica()
    replica.saved(replica.append(txn(1, 1, count=5)))
    replica.commit(make(1, 2))
    assert applied(replica) == [make(1, 1), make(1, 2)]
    replica.commit(make(1, 4))
    assert applied(replica) == [make(1, 3), make(1, 4)]


def test_what_is_not_logged_cannot_be_committed() -> None:
    replica = a_replica()
    replica.append(txn(1, 1))
    with pytest.raises(RemoteProtocolError):
        replica.commit(make(1, 2))
    assert replica.committed == NOTHING


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3)),
        st.tuples(st.just("save"), st.integers(0, 3)),
        st.tuples(st.just("commit"), st.integers(0, 3)),
        st.tuples(st.just("cut"), st.integers(0, 3)),
        st.tuples(st.just("snapshot"), st.integers(0, 3)),
    ),
    max_size=40,
)


@given(steps)
def test_in_whatever_order_things_happen_the_machine_gets_a_prefix_in_order(script: list[tuple[str, int]]) -> None:
    """Appends, fsyncs, commits, cuts and snapshots in any order that the protocol allows."""
    replica = a_replica()
    tickets: list[int] = []
    machine: list[Zxid] = []
    for step, amount in script:
        last = replica.history.last
        if step == "append":
            first = Zxid(last + 1) if amount < 3 and last else make(epoch_of(last) + 1, 1)
            tickets.append(replica.append(pack(first, [b"x"] * amount)))
        elif step == "save" and tickets:
            replica.saved(tickets[min(amount, len(tickets) - 1)])
            tickets = tickets[amount + 1 :]
        elif step == "commit":
            behind = [batch.last for batch in replica.history.after(replica.committed)]
            if behind:
                replica.commit(behind[min(amount, len(behind) - 1)])
        elif step == "cut":
            replica.truncate(max(replica.committed, Zxid(last - amount) if last & 0xFFFF > amount else last))
        elif step == "snapshot" and not any(isinstance(write, AbortSnapshot) for write in replica.out.save):
            replica.begin_snapshot(Zxid(last + 5))
            replica.install_snapshot(Zxid(last + 5 if last else make(1, 5)), 1)
            tickets.append(replica.out.ticket)
        for what in replica.out.drain().apply:
            if isinstance(what, Restore):
                machine = [what.zxid]
            elif isinstance(what, Apply):
                assert not machine or what.batch.first > machine[-1]
                machine += [Zxid(what.batch.first + at) for at in range(what.batch.count)]
                assert machine[-1] <= min(replica.committed, replica.durable)
        assert replica.applied <= replica.committed <= replica.history.last
        assert replica.durable <= replica.history.last


# -- cutting and replacing -------------------------------------------------------------------------------------


def test_what_is_committed_is_never_cut() -> None:
    replica = a_replica()
    replica.saved(replica.append(txn(1, 1, count=3)))
    replica.commit(make(1, 2))
    replica.out.drain()
    with pytest.raises(RemoteProtocolError):
        replica.truncate(make(1, 1))
    assert (replica.history.last, replica.out.drain().save) == (make(1, 3), ())
    replica.truncate(make(1, 2))
    assert [type(write) for write in replica.out.drain().save] == [Truncate]


def test_a_save_that_comes_behind_a_cut_makes_nothing_durable_that_was_cut() -> None:
    replica = a_replica()
    first, second = replica.append(txn(1, 1)), replica.append(txn(1, 2))
    replica.truncate(make(1, 1))
    third = replica.append(txn(2, 1))
    replica.saved(second)
    assert replica.durable == make(1, 1)
    replica.saved(first)
    assert replica.durable == make(1, 1)
    replica.saved(third)
    assert replica.durable == make(2, 1)


def test_a_snapshot_is_the_machine_when_it_is_durable_and_not_before() -> None:
    replica = a_replica()
    replica.saved(replica.append(txn(1, 1)))
    replica.begin_snapshot(make(3, 7))
    replica.install_snapshot(make(3, 7), 5)
    ticket = replica.out.ticket
    behind = replica.append(txn(3, 8))
    replica.commit(make(3, 8))
    ready = replica.out.drain()
    assert ready.apply == ()
    assert [type(write) for write in ready.save][-2:] == [InstallSnapshot, Append]
    replica.saved(ticket)
    assert replica.out.drain().apply == (Restore(make(3, 7)),)
    replica.saved(behind)
    assert applied(replica) == [make(3, 8)]


def test_a_snapshot_that_breaks_off_is_kept_once_and_dropped_once() -> None:
    replica = a_replica()
    replica.keep_snapshot()
    replica.drop_held()
    assert replica.out.drain().save == ()
    replica.begin_snapshot(make(1, 5))
    replica.snapshot_chunk(b"half")
    replica.keep_snapshot()
    replica.keep_snapshot()
    replica.drop_held()
    replica.drop_held()
    assert [type(write).__name__ for write in replica.out.drain().save] == [
        *("BeginSnapshot", "SnapshotChunk", "KeepSnapshot", "AbortSnapshot")
    ]
    assert replica.history.last == NOTHING


# -- who I am --------------------------------------------------------------------------------------------------


def test_a_history_of_a_newer_epoch_than_the_one_adopted_speaks_for_itself() -> None:
    """A sync that broke off left transactions of epoch 2; whoever holds these holds all that epoch 2 began with."""
    replica = a_replica(Recovered(Epoch(3), Epoch(1), batches=(txn(1, 1), txn(2, 1))))
    assert (replica.epoch, replica.current) == (2, 1)
    assert a_replica(Recovered(Epoch(3), Epoch(3), batches=(txn(1, 1),))).epoch == 3


def test_a_damaged_history_has_no_end_and_no_vote() -> None:
    replica = a_replica(evolve(EMPTY, voting=False, batches=(txn(1, 1),)))
    assert (replica.last, replica.voting, replica.history.last) == (UNKNOWN, False, make(1, 1))


def test_promises_that_may_be_forgotten_cost_the_vote_and_not_the_history() -> None:
    replica = a_replica(evolve(EMPTY, forgotten=True, batches=(txn(1, 1),)))
    assert (replica.last, replica.voting) == (make(1, 1), False)


def test_a_history_that_is_distrusted_stays_so_across_a_restart() -> None:
    replica = a_replica()
    replica.distrust("it differs")
    (write,) = replica.out.drain().save
    assert isinstance(write, SaveEpochs)
    assert not write.whole
    assert not replica.voting


# -- membership --------------------------------------------------------------------------------------------------


def test_a_change_has_a_say_from_the_moment_it_is_logged_and_alone_when_it_is_decided() -> None:
    replica = a_replica()
    replica.saved(replica.append(change(make(1, 1), 1, 4, 5)))
    assert [view.voters for view in replica.views] == [(1, 2, 3), (1, 4, 5)]
    replica.out.drain()
    replica.commit(make(1, 1))
    assert [view.voters for view in replica.views] == [(1, 4, 5)]
    ready = replica.out.drain()
    assert isinstance(ready.apply[0], Activate)
    (write,) = ready.save
    assert isinstance(write, SaveEpochs)
    assert write.ensemble.version == make(1, 1), "a restart must not fall back"


def test_a_change_that_is_cut_has_no_say_any_more() -> None:
    replica = a_replica()
    replica.append(change(make(1, 1), 1, 4, 5))
    replica.truncate(NOTHING)
    assert (replica.pending, len(replica.views)) == (None, 1)


def test_a_change_is_logged_again_after_a_restart() -> None:
    disk = Recovered(Epoch(1), Epoch(1), batches=(change(make(1, 1), 1, 4, 5),))
    assert len(a_replica(disk).views) == 2
    decided = evolve(disk, ensemble=members(1, 4, 5, version=make(1, 1)))
    assert [view.voters for view in a_replica(decided).views] == [(1, 4, 5)]


@pytest.mark.parametrize(
    ("saved", "file", "voters"),
    [
        (members(1, 2, version=make(1, 1)), members(1, 2, 3), (1, 2)),
        (members(1, 2, version=make(1, 1)), members(1, 2, 3, version=make(1, 2)), (1, 2, 3)),
        (None, members(1, 2, 3), (1, 2, 3)),
    ],
    ids=["the disk is newer", "the file is newer", "the disk knows none"],
)
def test_the_newest_membership_known_at_the_start_counts(
    saved: Ensemble | None, file: Ensemble, voters: tuple[int, ...]
) -> None:
    assert a_replica(evolve(EMPTY, ensemble=saved), file=file).ensemble.voters == voters


def test_an_older_membership_is_never_activated() -> None:
    replica = a_replica(evolve(EMPTY, ensemble=members(1, 2, version=make(2, 1))))
    replica.activate(members(1, version=make(1, 9)))
    assert (replica.ensemble.voters, replica.out.drain().save) == ((1, 2), ())


def test_the_first_membership_gets_its_version_from_the_first_epoch_and_no_other() -> None:
    fresh: Callable[[], Replica] = a_replica
    assert fresh().ensemble_of(Epoch(4)).version == make(4, 0)
    versioned = a_replica(evolve(EMPTY, ensemble=members(1, 2, version=make(2, 1))))
    assert versioned.ensemble_of(Epoch(4)).version == make(2, 1)
    pending = a_replica(Recovered(Epoch(1), Epoch(1), batches=(change(make(1, 1), 1, 2),)))
    assert pending.ensemble_of(Epoch(4)).version == NOTHING, "a change that is logged already must not be overtaken"


def test_who_observes_is_said_by_the_membership_in_force() -> None:
    assert not a_replica().observer
    assert a_replica(file=members(2, 3, observers=(1,))).observer
    assert not a_replica(file=members(2, 3)).observer, "a stranger follows like a voter, and counts nowhere"
