"""The history: whatever it is asked, it answers like a plain list of transactions would."""

from __future__ import annotations

import pytest
from attrs import define, evolve, field
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from zab.core.batch import Batch, digest_of, pack
from zab.core.ensemble import Ensemble, Server
from zab.core.errors import LocalProtocolError, RemoteProtocolError
from zab.core.history import History, config_of
from zab.core.ready import Recovered, Settings
from zab.core.zxid import NOTHING, Epoch, ServerId, Zxid, counter_of, epoch_of, make

WINDOW = Settings(window_entries=6, window_bytes=200)


def a_history(*batches: Batch, snapshot: Zxid = NOTHING, log_start: Zxid = NOTHING) -> History:
    return History(Recovered(Epoch(0), Epoch(0), snapshot=snapshot, digest=9, log_start=log_start, batches=batches))


def txns(epoch: int, first: int, last: int) -> Batch:
    return pack(make(epoch, first), [b"%d/%d" % (epoch, counter) for counter in range(first, last + 1)])


def config(zxid: Zxid, version: Zxid | None = None) -> Batch:
    servers = (Server(ServerId(1), "host", 2888, 3888),)
    return pack(zxid, [Ensemble(servers, zxid if version is None else version).text().encode()], config=True)


def flat(batches: list[Batch]) -> list[tuple[Zxid, bytes]]:
    return [(Zxid(each.first + at), payload) for each in batches for at, payload in enumerate(each.payloads())]


@define
class Naive:
    """A simple model of a history: all transactions ever, and the part in memory."""

    entries: list[tuple[Zxid, bytes]] = field(factory=list)
    gone: Zxid = NOTHING
    """What lies up to here cannot be read again."""
    digests: dict[Zxid, int] = field(factory=dict)

    @property
    def last(self) -> Zxid:
        return self.entries[-1][0] if self.entries else self.gone

    def forget(self, until: Zxid) -> None:
        self.gone = max(self.gone, until)
        self.entries = [entry for entry in self.entries if entry[0] > self.gone]

    def known(self) -> list[Zxid]:
        """Every zxid at which a cut would be possible."""
        return [self.gone, *(zxid for zxid, _ in self.entries)]


class HistoryMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.naive = Naive(digests={NOTHING: 0})
        self.history = History(Recovered(Epoch(0), Epoch(0)))
        self.applied = self.disk_start = NOTHING
        self.outline = [NOTHING]
        """Every zxid since the start of the process or the last snapshot: purging the log leaves it as it is."""

    @initialize(restart=st.booleans())
    def begin(self, restart: bool) -> None:
        if restart:
            self.history = a_history(snapshot=make(1, 4), log_start=make(1, 4))
            self.naive = Naive(gone=make(1, 4), digests={make(1, 4): 9})
            self.applied = self.disk_start = make(1, 4)
            self.outline = [make(1, 4)]

    @rule(epochs=st.integers(0, 2), payloads=st.lists(st.binary(max_size=30), min_size=1, max_size=4))
    def append(self, epochs: int, payloads: list[bytes]) -> None:
        last = self.naive.last
        epoch = epoch_of(last) + epochs
        first = Zxid(last + 1) if epoch == epoch_of(last) and epoch else make(max(epoch, 1), 1)
        self.history.append(pack(first, payloads))
        digest = self.naive.digests[last]
        for at, payload in enumerate(payloads):
            digest = digest_of([payload], digest)
            self.naive.entries.append((Zxid(first + at), payload))
            self.naive.digests[Zxid(first + at)] = digest
            self.outline.append(Zxid(first + at))

    @rule(data=st.data())
    def apply(self, data: st.DataObject) -> None:
        behind = [zxid for zxid in self.naive.known() if zxid >= self.applied]
        self.applied = data.draw(st.sampled_from(behind), label="applied")
        self.history.trim(self.applied, WINDOW)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        cut = data.draw(st.sampled_from([each for each in self.naive.known() if each >= self.applied]), label="cut")
        self.history.truncate(cut)
        self.naive.entries = [entry for entry in self.naive.entries if entry[0] <= cut]
        self.outline = [zxid for zxid in self.outline if zxid <= cut]

    @rule(epoch=st.integers(1, 3), counter=st.integers(0, 5), digest=st.integers(0, 9))
    def snapshot_arrives(self, epoch: int, counter: int, digest: int) -> None:
        zxid = make(epoch, counter)
        self.history.reset(zxid, digest)
        self.naive = Naive(gone=zxid, digests={zxid: digest})
        self.applied = self.disk_start = zxid
        self.outline = [zxid]

    @rule(data=st.data())
    def purge(self, data: st.DataObject) -> None:
        """Purge the disk up to some snapshot of the applied state."""
        applied = [zxid for zxid in self.naive.known() if zxid <= self.applied]
        start = data.draw(st.sampled_from(applied), label="log start")
        self.history.purged(start)
        self.disk_start = max(self.disk_start, start)

    def now(self) -> Naive:
        """Return the transactions that are in memory or on the disk."""
        self.naive.forget(min(self.disk_start, self.history.base))
        return self.naive

    def teardown(self) -> None:
        self.digests_are_carried_on()

    @invariant()
    def what_is_in_memory_is_there_all_the_same(self) -> None:
        assert self.history.log_start == self.now().gone

    @invariant()
    def the_end_is_the_end(self) -> None:
        assert self.history.last == self.now().last
        assert self.now().gone <= self.history.base <= max(self.applied, self.now().gone)

    @invariant()
    def memory_is_the_end_of_the_list(self) -> None:
        expected = [entry for entry in self.now().entries if entry[0] > self.history.base]
        assert flat(self.history.after(self.history.base)) == expected
        in_memory = [self.history.base, *(zxid for zxid, _ in expected)]
        start, stop = in_memory[len(in_memory) // 3], in_memory[2 * len(in_memory) // 3]
        assert flat(self.history.after(start, stop)) == [entry for entry in expected if start < entry[0] <= stop]

    def digests_are_carried_on(self) -> None:
        for zxid in self.now().known():
            mine = self.history.digest_at(zxid)
            assert mine == (self.now().digests[zxid] if zxid >= self.history.base else None)

    @invariant()
    def floors_are_the_newest_not_behind(self) -> None:
        known = self.now().known()
        corners = {known[0], known[-1], known[len(known) // 2], *self.history._ends}
        probes = {Zxid(zxid + step) for zxid in corners for step in (-1, 0, 1, 3, 1 << 32)} | {make(2, 0), make(9, 9)}
        for probe in sorted(each for each in probes if each >= 0):
            expected = max((zxid for zxid in self.outline if zxid <= probe), default=None)
            assert self.history.floor(probe) == expected, f"floor of {probe:x}"

    @invariant()
    def distances_are_counts(self) -> None:
        known = self.now().known()
        for start in known[:: max(1, len(known) // 3)]:
            between = sum(start < zxid <= self.history.last for zxid in known)
            assert self.history.entries_between(start, self.history.last) == between


HistoryMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None, derandomize=True)
test_like_a_list = HistoryMachine.TestCase


# -- growing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "batch",
    [txns(1, 2, 2), txns(1, 4, 4), txns(1, 3, 3).until(make(1, 3)), txns(2, 2, 2), pack(make(0, 9), [b""])],
    ids=["again", "a hole", "right", "a hole at the start of an epoch", "an older epoch"],
)
def test_a_history_has_no_holes(batch: Batch) -> None:
    history = a_history(txns(1, 1, 2))
    if batch.first == make(1, 3):
        history.append(batch)
        assert history.last == make(1, 3)
        return
    with pytest.raises(RemoteProtocolError, match="there is a gap"):
        history.append(batch)
    assert (history.last, flat(history.after(NOTHING))) == (make(1, 2), flat([txns(1, 1, 2)]))


@pytest.mark.parametrize("zxid", [make(1, 3), make(1, 7), NOTHING], ids=["before memory", "behind the end", "nothing"])
def test_a_history_is_cut_only_where_memory_reaches(zxid: Zxid) -> None:
    history = a_history(txns(1, 5, 6), snapshot=make(1, 4))
    with pytest.raises(LocalProtocolError):
        history.truncate(zxid)
    assert history.last == make(1, 6)


def test_a_batch_is_cut_in_the_middle() -> None:
    history = a_history(txns(1, 1, 4))
    history.truncate(make(1, 2))
    assert flat(history.after(NOTHING)) == flat([txns(1, 1, 2)])
    history.append(txns(2, 1, 1))
    assert history.floor(make(1, 4)) == make(1, 2)


# -- letting go ---------------------------------------------------------------------------------------------


def test_unapplied_history_stays_in_memory() -> None:
    history = a_history(*(txns(1, counter, counter) for counter in range(1, 21)))
    history.trim(NOTHING, WINDOW)
    assert history.base == NOTHING
    history.trim(make(1, 3), WINDOW)
    assert history.base == make(1, 3)
    history.trim(make(1, 20), WINDOW)
    assert counter_of(history.base) == 17, "half of the window remains"


def test_many_bytes_count_like_many_transactions() -> None:
    history = a_history(*(pack(make(1, counter), [bytes(90)]) for counter in (1, 2, 3)))
    history.trim(make(1, 3), WINDOW)
    assert history.base == make(1, 2)


def test_within_its_bounds_nothing_is_let_go() -> None:
    history = a_history(txns(1, 1, 6))
    history.trim(make(1, 6), WINDOW)
    assert history.base == NOTHING


# -- membership changes -----------------------------------------------------------------------------------------


def test_membership_changes_are_known_as_long_as_they_are_in_memory() -> None:
    history = a_history(txns(1, 1, 1), config(make(1, 2)), txns(1, 3, 8), config(make(1, 9)))
    assert [each.version for each in history.configs] == [make(1, 2), make(1, 9)]
    history.trim(make(1, 8), WINDOW)
    assert [each.version for each in history.configs] == [make(1, 9)]
    history.truncate(make(1, 8))
    assert history.configs == []


def test_a_snapshot_takes_the_place_of_every_change() -> None:
    history = a_history(config(make(1, 1)))
    history.reset(make(1, 5), 3)
    assert (history.configs, history.last, history.base, history.log_start) == ([], *[make(1, 5)] * 3)


@pytest.mark.parametrize(
    "batch",
    [
        pack(make(1, 1), [b"server.1=nonsense"], config=True),
        pack(make(1, 1), [b"\xff"], config=True),
        pack(make(1, 1), [b"", b""], config=True),
        config(make(1, 1), version=make(1, 2)),
    ],
    ids=["no membership", "no text", "two at once", "another version"],
)
def test_other_transactions_are_no_membership_change(batch: Batch) -> None:
    with pytest.raises(RemoteProtocolError):
        config_of(batch)
    history = a_history()
    with pytest.raises(RemoteProtocolError):
        history.append(batch)
    assert (history.last, history.configs, history.after(NOTHING)) == (NOTHING, [], [])


# -- the outline ------------------------------------------------------------------------------------------------


@given(st.integers(0, 7), st.integers(0, 4))
def test_outline_covers_history_that_is_only_on_disk(counter: int, epoch: int) -> None:
    """Epochs 1 and 2 are on disk alone; 3 begins there and goes on in memory."""
    ends = make(1, 3), make(2, 2), make(3, 1)
    recovered = Recovered(
        Epoch(3), Epoch(3), snapshot=make(3, 1), epoch_ends=ends, batches=(txns(3, 2, 4),), log_start=make(1, 1)
    )
    history = History(recovered)
    known = [make(1, 1), make(1, 2), make(1, 3), make(2, 1), make(2, 2), *(make(3, each) for each in (1, 2, 3, 4))]
    probe = make(epoch, counter)
    assert history.floor(probe) == max((zxid for zxid in known if zxid <= probe), default=None)
    for zxid in known:
        assert history.entries_between(zxid, history.last) == sum(each > zxid for each in known)


def test_a_purge_never_goes_back() -> None:
    history = a_history(txns(1, 5, 6), snapshot=make(1, 4), log_start=make(1, 2))
    history.purged(make(1, 1))
    assert history.log_start == make(1, 2)
    history.purged(make(1, 3))
    assert history.log_start == make(1, 3)
    assert history.floor(make(1, 2)) == make(1, 2), "where epochs end is not forgotten"
    assert history.floor(make(1, 1)) is None


# -- digests that are not known -----------------------------------------------------------------------------


def test_nothing_after_a_base_without_a_digest_has_one() -> None:
    history = History(
        Recovered(Epoch(0), Epoch(0), snapshot=make(1, 4), digest=None, log_start=make(1, 4), batches=(txns(1, 5, 6),))
    )
    assert [history.digest_at(make(1, counter)) for counter in (4, 5, 6)] == [None, None, None]
    history.trim(make(1, 6), evolve(Settings(), window_entries=1))
    assert (history.base, history.digest_at(make(1, 6))) == (make(1, 6), None)
    history.reset(make(2, 3), 7)
    assert history.digest_at(make(2, 3)) == 7, "a leader's snapshot brings one"
    history.reset(make(2, 4), None)
    assert history.digest_at(make(2, 4)) is None
