"""The log state: exactly the committed and durable transactions are applied."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from zab.core.batch import Batch, pack
from zab.core.ensemble import Ensemble, Role, Server
from zab.core.errors import RemoteProtocolError
from zab.core.log_state import LogState
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
from zab.core.zxid import NOTHING, UNKNOWN, Epoch, ServerId, Zxid, epoch_of, make

ME = ServerId(1)


def members(*voters: int, observers: tuple[int, ...] = (), version: Zxid = NOTHING) -> Ensemble:
    servers = [Server(ServerId(sid), f"host{sid}", 2888, 3888) for sid in voters]
    servers += [Server(ServerId(sid), f"host{sid}", 2888, 3888, Role.OBSERVER) for sid in observers]
    return Ensemble(tuple(servers), version)


EMPTY = Recovered(Epoch(0), Epoch(0))


def a_replica(recovered: Recovered = EMPTY, *, file: Ensemble | None = None) -> LogState:
    return LogState(ME, file or members(1, 2, 3), recovered, Settings())


def txn(epoch: int, counter: int, count: int = 1) -> Batch:
    return pack(make(epoch, counter), [b"x"] * count)


def change(zxid: Zxid, *voters: int) -> Batch:
    return pack(zxid, [members(*voters, version=zxid).text().encode()], config=True)


def applied(log_state: LogState) -> list[Zxid]:
    """The zxids that go to the machine now."""
    found = []
    for what in log_state.out.drain().apply:
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
    log_state = a_replica()
    log_state.append(txn(1, 1))
    log_state.save_epochs()
    last = log_state.append(txn(1, 2))
    log_state.append(txn(1, 3))
    assert log_state.saved(last)
    assert log_state.durable == make(1, 2)
    assert not log_state.saved(last), "nothing new"


def test_a_commit_in_the_middle_of_a_batch_applies_its_first_part() -> None:
    log_state = a_replica()
    log_state.saved(log_state.append(txn(1, 1, count=5)))
    log_state.commit(make(1, 2))
    assert applied(log_state) == [make(1, 1), make(1, 2)]
    log_state.commit(make(1, 4))
    assert applied(log_state) == [make(1, 3), make(1, 4)]


def test_unlogged_transaction_cannot_be_committed() -> None:
    log_state = a_replica()
    log_state.append(txn(1, 1))
    with pytest.raises(RemoteProtocolError):
        log_state.commit(make(1, 2))
    assert log_state.committed == NOTHING


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
    log_state = a_replica()
    tickets: list[int] = []
    machine: list[Zxid] = []
    for step, amount in script:
        last = log_state.history.last
        if step == "append":
            first = Zxid(last + 1) if amount < 3 and last else make(epoch_of(last) + 1, 1)
            tickets.append(log_state.append(pack(first, [b"x"] * amount)))
        elif step == "save" and tickets:
            log_state.saved(tickets[min(amount, len(tickets) - 1)])
            tickets = tickets[amount + 1 :]
        elif step == "commit":
            behind = [batch.last for batch in log_state.history.after(log_state.committed)]
            if behind:
                log_state.commit(behind[min(amount, len(behind) - 1)])
        elif step == "cut":
            log_state.truncate(max(log_state.committed, Zxid(last - amount) if last & 0xFFFF > amount else last))
        elif step == "snapshot" and not any(isinstance(write, AbortSnapshot) for write in log_state.out.save):
            log_state.partial.begin(Zxid(last + 5))
            log_state.install_snapshot(Zxid(last + 5 if last else make(1, 5)), 1)
            tickets.append(log_state.out.ticket)
        for what in log_state.out.drain().apply:
            if isinstance(what, Restore):
                machine = [what.zxid]
            elif isinstance(what, Apply):
                assert not machine or what.batch.first > machine[-1]
                machine += [Zxid(what.batch.first + at) for at in range(what.batch.count)]
                assert machine[-1] <= min(log_state.committed, log_state.durable)
        assert log_state.applied <= log_state.committed <= log_state.history.last
        assert log_state.durable <= log_state.history.last


# -- cutting and replacing -------------------------------------------------------------------------------------


def test_committed_transactions_are_never_truncated() -> None:
    log_state = a_replica()
    log_state.saved(log_state.append(txn(1, 1, count=3)))
    log_state.commit(make(1, 2))
    log_state.out.drain()
    with pytest.raises(RemoteProtocolError):
        log_state.truncate(make(1, 1))
    assert (log_state.history.last, log_state.out.drain().save) == (make(1, 3), ())
    log_state.truncate(make(1, 2))
    assert [type(write) for write in log_state.out.drain().save] == [Truncate]


def test_a_save_that_comes_behind_a_cut_makes_nothing_durable_that_was_cut() -> None:
    log_state = a_replica()
    first, second = log_state.append(txn(1, 1)), log_state.append(txn(1, 2))
    log_state.truncate(make(1, 1))
    third = log_state.append(txn(2, 1))
    log_state.saved(second)
    assert log_state.durable == make(1, 1)
    log_state.saved(first)
    assert log_state.durable == make(1, 1)
    log_state.saved(third)
    assert log_state.durable == make(2, 1)


def test_a_snapshot_is_the_machine_when_it_is_durable_and_not_before() -> None:
    log_state = a_replica()
    log_state.saved(log_state.append(txn(1, 1)))
    log_state.partial.begin(make(3, 7))
    log_state.install_snapshot(make(3, 7), 5)
    ticket = log_state.out.ticket
    behind = log_state.append(txn(3, 8))
    log_state.commit(make(3, 8))
    ready = log_state.out.drain()
    assert ready.apply == ()
    assert [type(write) for write in ready.save][-2:] == [InstallSnapshot, Append]
    log_state.saved(ticket)
    assert log_state.out.drain().apply == (Restore(make(3, 7)),)
    log_state.saved(behind)
    assert applied(log_state) == [make(3, 8)]


def test_a_snapshot_that_breaks_off_is_kept_once_and_dropped_once() -> None:
    log_state = a_replica()
    log_state.partial.keep()
    log_state.partial.drop()
    assert log_state.out.drain().save == ()
    log_state.partial.begin(make(1, 5))
    log_state.partial.append(b"half")
    log_state.partial.keep()
    log_state.partial.keep()
    log_state.partial.drop()
    log_state.partial.drop()
    assert [type(write).__name__ for write in log_state.out.drain().save] == [
        *("BeginSnapshot", "SnapshotChunk", "KeepSnapshot", "AbortSnapshot")
    ]
    assert log_state.history.last == NOTHING


# -- who I am --------------------------------------------------------------------------------------------------


def test_a_history_of_a_newer_epoch_than_the_one_adopted_speaks_for_itself() -> None:
    """An interrupted synchronization left transactions of epoch 2.

    A server with them has the whole initial history of epoch 2.
    """
    log_state = a_replica(Recovered(Epoch(3), Epoch(1), batches=(txn(1, 1), txn(2, 1))))
    assert (log_state.epoch, log_state.current) == (2, 1)
    assert a_replica(Recovered(Epoch(3), Epoch(3), batches=(txn(1, 1),))).epoch == 3


def test_a_damaged_history_has_no_end_and_no_vote() -> None:
    log_state = a_replica(evolve(EMPTY, voting=False, batches=(txn(1, 1),)))
    assert (log_state.last, log_state.voting, log_state.history.last) == (UNKNOWN, False, make(1, 1))


def test_promises_that_may_be_forgotten_cost_the_vote_and_not_the_history() -> None:
    log_state = a_replica(evolve(EMPTY, forgotten=True, batches=(txn(1, 1),)))
    assert (log_state.last, log_state.voting) == (make(1, 1), False)


def test_a_history_that_is_distrusted_stays_so_across_a_restart() -> None:
    log_state = a_replica()
    log_state.distrust("it differs")
    (write,) = log_state.out.drain().save
    assert isinstance(write, SaveEpochs)
    assert not write.whole
    assert not log_state.voting


# -- membership --------------------------------------------------------------------------------------------------


def test_logged_membership_counts_beside_the_active_one_until_it_is_committed() -> None:
    log_state = a_replica()
    log_state.saved(log_state.append(change(make(1, 1), 1, 4, 5)))
    assert [view.voters for view in log_state.views] == [(1, 2, 3), (1, 4, 5)]
    log_state.out.drain()
    log_state.commit(make(1, 1))
    assert [view.voters for view in log_state.views] == [(1, 4, 5)]
    ready = log_state.out.drain()
    assert isinstance(ready.apply[0], Activate)
    (write,) = ready.save
    assert isinstance(write, SaveEpochs)
    assert write.ensemble.version == make(1, 1), "a restart must not fall back"


def test_truncated_membership_change_no_longer_counts() -> None:
    log_state = a_replica()
    log_state.append(change(make(1, 1), 1, 4, 5))
    log_state.truncate(NOTHING)
    assert (log_state.pending, len(log_state.views)) == (None, 1)


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
    log_state = a_replica(evolve(EMPTY, ensemble=members(1, 2, version=make(2, 1))))
    log_state.activate(members(1, version=make(1, 9)))
    assert (log_state.ensemble.voters, log_state.out.drain().save) == ((1, 2), ())


def test_the_first_membership_gets_its_version_from_the_first_epoch_and_no_other() -> None:
    fresh: Callable[[], LogState] = a_replica
    assert fresh().ensemble_of(Epoch(4)).version == make(4, 0)
    versioned = a_replica(evolve(EMPTY, ensemble=members(1, 2, version=make(2, 1))))
    assert versioned.ensemble_of(Epoch(4)).version == make(2, 1)
    pending = a_replica(Recovered(Epoch(1), Epoch(1), batches=(change(make(1, 1), 1, 2),)))
    assert pending.ensemble_of(Epoch(4)).version == NOTHING, "a change that is logged already must not be overtaken"


def test_a_membership_has_no_first_version_if_memberships_have_none() -> None:
    """Neither from an epoch nor from the disk. A change that was made before keeps its own."""
    settings = Settings(membership_versions=False)
    log_state = LogState(ME, members(1, 2, 3), EMPTY, settings)
    assert log_state.ensemble_of(Epoch(4)) == members(1, 2, 3)
    saved = members(1, 2, version=make(4, 0))
    assert LogState(ME, members(1, 2, 3), evolve(EMPTY, ensemble=saved), settings).ensemble == members(1, 2, 3)
    assert LogState(ME, saved, EMPTY, settings).ensemble == members(1, 2)
    saved = members(1, 2, version=make(4, 7))
    assert LogState(ME, members(1, 2, 3), evolve(EMPTY, ensemble=saved), settings).ensemble == saved


def test_active_membership_names_the_observers() -> None:
    assert not a_replica().observer
    assert a_replica(file=members(2, 3, observers=(1,))).observer
    assert not a_replica(file=members(2, 3)).observer, "a stranger follows like a voter, and counts nowhere"
