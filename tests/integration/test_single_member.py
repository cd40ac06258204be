"""A single member, the embedded default."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tests.integration.cluster import Recorder, loopback
from zab.core.ensemble import Ensemble
from zab.core.errors import ConfigError, DamagedError, LocalProtocolError, Overloaded, Refused, Stopped, StorageError
from zab.core.messages import State
from zab.core.ready import Settings
from zab.core.zxid import Zxid
from zab.runtime.member import Member, open_member
from zab.service.health.status import RoleChange
from zab.service.limits import Limits
from zab.service.replicated_machine import Passive, View
from zab.storage.memory_disk import MemoryDisk
from zab.storage.storage import StorageSettings


class NoNetwork:
    """A network that fails the test on any use."""

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        raise AssertionError("a member alone dials nobody")

    async def listen(self, host: str, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        raise AssertionError("a member alone listens nowhere")


def test_object_that_is_no_machine_is_refused_when_the_member_is_made(tmp_path: Path) -> None:
    class Half(Passive):
        def snapshot(self) -> list[bytes]:
            return []

    wrong: Any = Half()
    with pytest.raises(TypeError, match=r"^Half is not a zab\.Machine: it lacks apply, restore;"):
        Member(wrong, tmp_path)
    wrong = object()
    with pytest.raises(TypeError, match="it lacks prepare, apply, snapshot, restore"):
        Member(wrong, tmp_path)
    wrong = Recorder
    with pytest.raises(TypeError, match=r"the class Recorder: give an object of it, Recorder\(\)"):
        Member(wrong, tmp_path)


@pytest.mark.parametrize("path", [None, 5, b"data"])
def test_path_of_another_type_is_refused(path: Any) -> None:
    with pytest.raises(TypeError, match=r"^path must be a directory, as text or a pathlib\.Path, not "):
        Member(Recorder(), path)


async def test_it_serves_at_once_and_remembers(tmp_path: Path) -> None:
    async with open_member(Recorder(), tmp_path, network=NoNetwork()) as member:
        assert await member.submit(b"one") == 1
        assert await member.submit(b"two") == 2
        assert await member.read(lambda machine: machine.log) == [b"one", b"two"]
    async with open_member(Recorder(), tmp_path, network=NoNetwork()) as member:
        assert await member.submit(b"three") == 3
        assert await member.read(lambda machine: machine.log) == [b"one", b"two", b"three"]
        assert member.status().role.epoch == 2


async def test_requests_that_gather_share_an_fsync(tmp_path: Path) -> None:
    async with open_member(Recorder(), tmp_path) as member:
        await member.wait_serving()
        async with trio.open_nursery() as nursery:
            for number in range(500):
                nursery.start_soon(member.submit, b"%d" % number)
        status = member.status()
        assert status.counters.applied == 500
        assert status.counters.fsyncs < 50
        assert status.outstanding == 0


async def test_a_refusal_reaches_the_submitter_and_leaves_no_trace(tmp_path: Path) -> None:
    async with open_member(Recorder(), tmp_path) as member:
        assert await member.submit(b"yes") == 1
        with pytest.raises(Refused, match="refuse me"):
            await member.submit(b"refuse me")
        assert await member.submit(b"yes again") == 2
        assert member.status().last & 0xFFFF_FFFF == 2
        assert member.status().counters.refusals == 1


async def test_prepare_sees_outstanding_transactions(tmp_path: Path) -> None:
    class Seats(Recorder):
        """A machine of three seats. Without the outstanding transactions, requests of one turn would overbook."""

        views: list[View]

        def prepare(self, request: bytes, view: View) -> bytes:
            self.views = [*getattr(self, "views", []), view]
            if len(self.log) + len(view.outstanding) >= 3:
                raise Refused("sold out")
            return request

    machine = Seats()
    refused = 0

    async def book(number: int) -> None:
        nonlocal refused
        try:
            await member.submit(b"%d" % number)
        except Refused:
            refused += 1

    async with open_member(machine, tmp_path) as member:
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(book, number)
        assert len(machine.log) == 3
        assert refused == 7
        zxids = [view.zxid for view in machine.views[:3]]
        assert zxids == [zxids[0], zxids[0] + 1, zxids[0] + 2]
        assert {view.epoch for view in machine.views} == {1}


async def test_prepare_is_not_needed(tmp_path: Path) -> None:
    class Plain(Passive):
        seen = b""

        def apply(self, zxid: Zxid, txn: bytes) -> bytes:
            self.seen = txn
            return txn.upper()

        def snapshot(self) -> list[bytes]:
            return [self.seen]

        def restore(self, chunks: Any) -> None:
            (self.seen,) = chunks

    async with open_member(Plain(), tmp_path) as member:
        assert await member.submit(b"as it is") == b"AS IT IS"


async def test_snapshots_are_taken_and_the_next_start_uses_one(tmp_path: Path) -> None:
    limits = Limits(snap_entries=100)

    async def settled(member: Member, snapshots: int) -> None:
        while member.status().counters.snapshots < snapshots:
            await trio.sleep(0.01)

    async with open_member(Recorder(), tmp_path, limits=limits) as member:
        for start in range(5):
            async with trio.open_nursery() as nursery:
                for number in range(100):
                    nursery.start_soon(member.submit, b"%d/%d" % (start, number))
            await settled(member, start + 1)
        log = await member.read(lambda machine: list(machine.log))
    restored: list[int] = []

    class Watched(Recorder):
        def restore(self, chunks: Iterable[bytes]) -> None:
            super().restore(chunks)
            restored.append(len(self.log))

    async with open_member(Watched(), tmp_path, limits=limits) as member:
        assert await member.read(lambda machine: machine.log) == log
        assert restored
        assert restored[0] >= 400


async def test_roles_yields_changes_and_ends_with_the_member(tmp_path: Path) -> None:
    seen: list[RoleChange] = []
    member = Member(Recorder(), tmp_path)
    ended = trio.Event()

    async def watch() -> None:
        async for role in member.roles():
            seen.append(role)
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as inner:
                await inner.start(member.run)
                await member.wait_serving()
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        await ended.wait()
    assert seen[-1] == RoleChange(State.LEADING, seen[-1].epoch, member.me, True)
    assert len(seen) == len(set(seen))


async def test_member_raises_stopped_after_its_end(tmp_path: Path) -> None:
    async with open_member(Recorder(), tmp_path) as member:
        await member.submit(b"one")
    for call in (member.submit(b"two"), member.barrier(), member.read(len), member.wait_serving()):
        with pytest.raises(Stopped):
            await call
    with pytest.raises(Stopped):
        member.status()
    with pytest.raises(LocalProtocolError, match="runs only once"):
        await member.run()


async def test_pending_requests_fail_when_the_member_ends(tmp_path: Path) -> None:
    """Alone of three, it never serves."""
    told: list[str] = []

    async def tell(what: str, call: Awaitable[object]) -> None:
        with pytest.raises(Stopped):
            await call
        told.append(what)

    member = Member(Recorder(), tmp_path, server_id=1, ensemble=Ensemble(loopback(3)))
    async with trio.open_nursery() as outer, trio.open_nursery() as nursery:
        await nursery.start(member.run)
        outer.start_soon(tell, "submit", member.submit(b"one"))
        outer.start_soon(tell, "barrier", member.barrier())
        outer.start_soon(tell, "serving", member.wait_serving())
        outer.start_soon(tell, "change", member.reconfigure(leaving=[3]))
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert told == []
        nursery.cancel_scope.cancel()
    assert sorted(told) == ["barrier", "change", "serving", "submit"]


@pytest.mark.parametrize("steps", range(8))
async def test_giving_up_the_history_ends_with_the_member(steps: int, tmp_path: Path) -> None:
    """Also if the member ends before a turn can answer the call."""
    member = Member(Recorder(), tmp_path)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            await nursery.start(member.run)
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                with pytest.raises((Stopped, LocalProtocolError)):
                    await member.give_up_history()


class NotRestored(Recorder):
    def restore(self, chunks: Iterable[bytes]) -> None:
        trio.from_thread.run(trio.sleep, 0.05)
        raise ValueError("a bug in restore")


async def test_reader_does_not_wait_for_a_restore_that_has_failed(tmp_path: Path) -> None:
    async with open_member(Recorder(), tmp_path) as member:
        await member.submit(b"one")
        await member.take_snapshot()
    member = Member(NotRestored(), tmp_path)
    with trio.fail_after(60), pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="a bug in restore")):
        async with trio.open_nursery() as nursery:
            await nursery.start(member.run)
            with trio.CancelScope(shield=True), pytest.raises(Stopped, match="a bug in restore"):
                await member.read(len, linearizable=False)


class NeverWritten(Recorder):
    def snapshot(self) -> Iterator[bytes]:  # type: ignore[override]
        yield b""
        trio.from_thread.run(trio.sleep_forever)


async def test_pending_snapshot_fails_when_the_member_ends(tmp_path: Path) -> None:
    told: list[str] = []

    async def take(member: Member) -> None:
        with pytest.raises(Stopped, match="this member was stopped"):
            await member.take_snapshot()
        told.append("stopped")

    member = Member(NeverWritten(), tmp_path)
    with trio.fail_after(120):
        async with trio.open_nursery() as outer, trio.open_nursery() as nursery:
            await nursery.start(member.run)
            outer.start_soon(take, member)
            await trio.testing.wait_all_tasks_blocked(0.01)
            outer.start_soon(take, member)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert told == []
            nursery.cancel_scope.cancel()
    assert told == ["stopped", "stopped"]


async def test_too_large_a_request_is_the_callers_mistake(tmp_path: Path) -> None:
    async with open_member(Recorder(), tmp_path, limits=Limits(request_bytes_max=10)) as member:
        with pytest.raises(LocalProtocolError, match="request_bytes_max is 10"):
            await member.submit(b"eleven byte")
        assert await member.submit(b"ten bytes.") == 1


@pytest.mark.parametrize("text", ["", "version=1", "server.1=a:1:2:observer\nserver.2=b:1:2:observer"])
def test_ensemble_without_voters_is_refused_before_the_start(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least one server has to vote"):
        Member(Recorder(), tmp_path / "data", ensemble=Ensemble.parse(text))
    assert not (tmp_path / "data").exists()


def test_a_batch_that_no_epoch_has_room_for_is_refused_before_anything_begins(tmp_path: Path) -> None:
    """Such a batch would end one leader after the other."""
    with pytest.raises(ConfigError, match="Limits.batch_entries_max = 4096: at most Settings.counter_max = 40"):
        Member(Recorder(), tmp_path / "data", settings=Settings(counter_max=40))
    Member(Recorder(), tmp_path / "data", settings=Settings(counter_max=40), limits=Limits(batch_entries_max=40))
    assert not (tmp_path / "data").exists()


async def test_overload_waits_and_stays_within_its_bounds(tmp_path: Path) -> None:
    limits = Limits(submits_max=10)
    most = 0

    async def submit(number: int) -> None:
        nonlocal most
        await member.submit(b"%d" % number)
        most = max(most, member.status().outstanding)

    async with open_member(Recorder(), tmp_path, limits=limits) as member:
        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(submit, number)
        assert most <= 10
        assert len(await member.read(lambda machine: machine.log)) == 100


async def test_post_calls_back_and_raises_when_overloaded(tmp_path: Path) -> None:
    results: list[object] = []
    async with open_member(Recorder(), tmp_path, limits=Limits(submits_max=10)) as member:
        for number in range(10):
            member.post(b"%d" % number, lambda result, error: results.append(error or result))
        with pytest.raises(Overloaded):
            member.post(b"one too many", lambda result, error: None)
        await member.submit(b"last")
    assert results == list(range(1, 11))


async def test_submissions_posted_together_are_answered_before_the_turn_ends(tmp_path: Path) -> None:
    results: list[object] = []
    turns: list[tuple[int, bool]] = []
    member = Member(Recorder(), tmp_path, limits=Limits(submits_max=10))
    member.on_turn(lambda: turns.append((len(results), member.turning)))

    def done(result: object, error: Exception | None) -> None:
        assert member.turning
        results.append(error or result)

    async with trio.open_nursery() as nursery:
        await nursery.start(member.run)
        assert member.post_many([b"%d" % number for number in range(12)], done) == 10
        while len(results) < 10:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert results == list(range(1, 11))
    assert (10, False) in turns
    assert not any(turning for _, turning in turns)


async def test_cancelling_a_submit_is_safe(tmp_path: Path) -> None:
    async with open_member(Recorder(), tmp_path) as member:
        await member.wait_serving()
        for number in range(20):
            with trio.move_on_after(0.0001 * number):
                await member.submit(b"maybe %d" % number)
        assert await member.submit(b"surely") == len(await member.read(lambda machine: machine.log))
        assert member.status().outstanding == 0


async def test_a_failing_disk_stops_the_member(tmp_path: Path) -> None:
    disk = MemoryDisk()
    acknowledged = 0

    async def fail() -> None:
        nonlocal acknowledged
        async with open_member(Recorder(), tmp_path, disk=disk) as member:
            acknowledged = await member.submit(b"fine")
            disk.fail("sync")
            acknowledged = await member.submit(b"not acknowledged")

    with pytest.raises(StorageError, match="sync"):
        await fail()
    assert acknowledged == 1


async def test_a_failing_machine_stops_the_member(tmp_path: Path) -> None:
    class Broken(Recorder):
        def apply(self, zxid: Zxid, txn: bytes) -> int:
            raise ZeroDivisionError("a bug of the user's")

    async def fail() -> None:
        async with open_member(Broken(), tmp_path) as member:
            await member.submit(b"one")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        await fail()


async def test_an_error_in_the_block_comes_out_plain(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        async with open_member(Recorder(), tmp_path):
            raise KeyError("mine")


async def test_two_members_cannot_share_a_directory(tmp_path: Path) -> None:
    async with open_member(Recorder(), tmp_path):
        with pytest.raises(StorageError):
            async with open_member(Recorder(), tmp_path):
                pass


def _flip_a_byte_of_the_log(path: Path) -> str:
    log = next(file for file in path.iterdir() if file.name.startswith("log."))
    data = bytearray(log.read_bytes())
    data[200] ^= 1
    log.write_bytes(data)
    return log.name


async def test_damage_without_other_servers_fails_the_start(tmp_path: Path) -> None:
    """Alone, a member that may not vote would wait for ever."""
    async with open_member(Recorder(), tmp_path) as member:
        for number in range(20):
            await member.submit(b"%d" % number)
    name = _flip_a_byte_of_the_log(tmp_path)
    with pytest.raises(
        DamagedError, match=rf"{name}.*no other server can send it a snapshot.*zab log repair"
    ) as caught:
        async with open_member(Recorder(), tmp_path):
            raise AssertionError("it must not open")
    assert "snapshot from the leader" not in str(caught.value)


async def test_lost_directory_of_a_single_member_is_reported_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="autocreate is False"):
        async with open_member(Recorder(), tmp_path, storage=StorageSettings(autocreate=False)):
            raise AssertionError("it must not open")


async def test_payload_that_is_not_bytes_is_refused_at_the_call(tmp_path: Path) -> None:
    async with open_member(Recorder(), tmp_path) as member:
        with pytest.raises(TypeError, match="a request must be bytes, not str"):
            await member.submit("text")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"joining takes zab\.Server"):
            await member.reconfigure(joining=["server.2=h:1:2"])  # type: ignore[list-item]
        assert await member.submit(b"still here") == 1


class Broken(Recorder):
    def apply(self, zxid: Zxid, txn: bytes) -> int:
        raise ValueError("a bug in apply")


async def test_the_reason_of_a_failure_reaches_every_caller(tmp_path: Path) -> None:
    member = Member(Broken(), tmp_path)
    seen: list[Stopped] = []

    async def ask() -> None:
        with pytest.raises(Stopped, match="this member failed: ValueError: a bug in apply") as caught:
            await member.submit(b"x")
        seen.append(caught.value)

    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="a bug in apply")):
        async with trio.open_nursery() as nursery:
            await nursery.start(member.run)
            with trio.CancelScope(shield=True):
                await ask()
    assert isinstance(seen[0].__cause__, ValueError)
    with pytest.raises(Stopped, match="ValueError: a bug in apply"):
        member.status()


async def test_roles_end_with_a_recovery_that_fails(tmp_path: Path) -> None:
    """Also for an iterator that began to wait before the recovery."""
    (tmp_path / "data").write_text("no directory")
    member = Member(Recorder(), tmp_path / "data")
    ended = 0

    async def iterate() -> None:
        nonlocal ended
        async for role in member.roles():
            raise AssertionError(role)
        ended += 1

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(iterate)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(StorageError, match="must be a directory"):
                await member.run()
            with pytest.raises(LocalProtocolError, match="runs only once"):
                await member.run()
            nursery.start_soon(iterate)
        with pytest.raises(Stopped, match="this member failed: StorageError"):
            await member.wait_serving()
    assert ended == 2
