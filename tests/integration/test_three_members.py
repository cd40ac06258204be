"""Three members on real sockets: requests reach the leader, also across its failures."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
import trio
from attrs import evolve

from tests.integration.cluster import FAST, Recorder, cluster, loopback
from zab.core.ensemble import Ensemble, Role
from zab.core.errors import ConfigError, NewConfigNoQuorum, Refused, Stopped, WrongVersion
from zab.core.messages import State
from zab.core.zxid import Zxid
from zab.net.network import TcpNetwork
from zab.runtime.member import Member
from zab.service.limits import Limits
from zab.storage.memory_disk import MemoryDisk


@pytest.mark.mechanism(89, 90)
async def test_all_servers_accept_and_apply_requests(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        await made.serving()
        for sid, member in made.members.items():
            assert await member.submit(b"from %d" % sid) == sid
        assert await made.agree() == [b"from 1", b"from 2", b"from 3"]
        states = sorted(member.status().role.state for member in made.members.values())
        assert states == [State.FOLLOWING, State.FOLLOWING, State.LEADING]


async def test_requests_of_one_member_keep_their_order(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        follower = await made.follower()
        wanted = [b"%d" % number for number in range(300)]
        done = 0

        def count(result: object, error: Exception | None) -> None:
            nonlocal done
            assert error is None
            done += 1
            assert result == done

        for request in wanted:
            follower.post(request, count)
        await follower.submit(b"last")
        assert await made.agree() == [*wanted, b"last"]


async def test_damage_is_reported_until_it_is_healed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "zab")

    def healed() -> list[str]:
        return [record.message for record in caplog.records if record.message.startswith("healed ")]

    async with cluster(tmp_path) as made:
        for number in range(20):
            await made.members[1].submit(b"%d" % number)
        before = await made.agree()
        await made.stop(3)
        (log,) = (tmp_path / "3").glob("log.*")
        data = bytearray(log.read_bytes())
        data[200] ^= 0xFF
        log.write_bytes(data)
        status = (await made.start(3)).status()
        assert (status.voting, len(status.damage), healed()) == (False, 1, [])
        with trio.fail_after(120):
            while not made.members[3].status().voting or not healed():
                await trio.sleep(0.01)
        assert made.members[3].status().damage == ()
        assert await made.agree() == before
    (line,) = healed()
    assert "server=3" in line


async def test_a_refusal_finds_its_way_back(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        follower = await made.follower()
        await follower.submit(b"before")
        with pytest.raises(Refused, match="refuse this"):
            await follower.submit(b"refuse this")
        assert await follower.submit(b"after") == 2


@pytest.mark.mechanism(121)
async def test_barrier_read_at_any_member_sees_acknowledged_writes(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        await made.serving()
        for number in range(30):
            writer = made.members[number % 3 + 1]
            reader = made.members[(number + 1) % 3 + 1]
            await writer.submit(b"%d" % number)
            assert await reader.read(lambda machine: len(machine.log)) == number + 1


async def submit_in_order(member: Member, name: bytes, count: int, acknowledged: list[bytes]) -> None:
    for number in range(count):
        request = b"%s %d" % (name, number)
        await member.submit(request)
        acknowledged.append(request)


async def test_the_leader_goes_and_every_request_is_carried_out_once_and_in_order(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        leader = await made.serving()
        acknowledged: list[bytes] = []
        names = [(member, b"%d.%d" % (sid, lane)) for sid, member in made.members.items() for lane in range(5)]
        async with trio.open_nursery() as nursery:
            for member, name in names:
                if member is not leader:
                    nursery.start_soon(submit_in_order, member, name, 60, acknowledged)
            while len(acknowledged) < 200:
                await trio.sleep(0.002)
            await made.stop(leader.me)
        log = await made.agree()
        assert len(acknowledged) == 2 * 5 * 60
        assert Counter(log) == Counter(acknowledged)
        for _, name in names:
            mine = [request for request in log if request.startswith(name + b" ")]
            assert mine == [b"%s %d" % (name, number) for number in range(len(mine))]


async def test_again_and_again(tmp_path: Path) -> None:
    """Each of ten leaders in a row is stopped and started again; the last to come has everything, too."""
    async with cluster(tmp_path) as made:
        done: list[bytes] = []
        asked = 0

        async def keep_asking(sid: int) -> None:
            nonlocal asked
            while asked < 400:
                asked += 1
                request = b"%d" % asked
                while sid not in made.members:
                    await trio.sleep(0.01)
                with trio.move_on_after(0.3), suppress(Stopped):
                    await made.members[sid].submit(request)
                    done.append(request)

        async with trio.open_nursery() as nursery:
            for lane in range(6):
                nursery.start_soon(keep_asking, lane % 3 + 1)
            for _ in range(5):
                leader = (await made.serving()).me
                await made.stop(leader)
                await trio.sleep(0.05)
                await made.start(leader)
        await made.serving()
        log = await made.agree(given_up=True)
        counts = Counter(log)
        assert max(counts.values()) == 1
        assert set(done) <= set(log)


async def test_without_a_quorum_requests_wait_and_then_are_carried_out(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        leader = await made.serving()
        await leader.submit(b"before")
        others = [sid for sid in made.members if sid != leader.me]
        for sid in others:
            await made.stop(sid)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leader.submit, b"patient")
            async for role in leader.roles():
                if not role.serving:
                    break
            with trio.move_on_after(0.2):
                await leader.submit(b"gave up before anybody was asked")
            await made.start(others[0])
        await made.serving()
        assert await made.agree() == [b"before", b"patient"]


async def test_a_cancelled_request_may_be_carried_out_but_never_twice(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        follower = await made.follower()
        for number in range(40):
            with trio.move_on_after(0.0002 * number):
                await follower.submit(b"%d" % number)
        await follower.submit(b"last")
        log = await made.agree()
        assert log[-1] == b"last"
        assert max(Counter(log).values()) == 1
        assert log[:-1] == sorted(log[:-1], key=int)


@pytest.mark.mechanism(116)
async def test_returning_server_gets_missed_transactions(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        away = (await made.follower()).me
        await made.stop(away)
        leader = await made.serving()
        for number in range(50):
            await leader.submit(b"%d" % number)
        member = await made.start(away)
        await member.barrier()
        assert len(await made.agree()) == 50
        assert member.status().counters.restores == 0


@pytest.mark.mechanism(119)
async def test_long_absent_server_gets_a_snapshot(tmp_path: Path) -> None:
    limits = Limits(snap_entries=50, snapshots_kept=1)
    settings = evolve(FAST, window_entries=20)
    async with cluster(tmp_path, limits=limits, settings=settings) as made:
        away = (await made.follower()).me
        await made.stop(away)
        leader = await made.serving()
        for number in range(400):
            await leader.submit(b"%d" % number)
        while leader.status().counters.snapshots < 2:
            await trio.sleep(0.01)
        member = await made.start(away)
        await member.barrier()
        assert len(await made.agree()) == 400
        assert member.status().counters.restores == 1


@pytest.mark.mechanism(115)
async def test_old_log_is_read_from_disk_for_a_lagging_learner(tmp_path: Path) -> None:
    settings = evolve(FAST, window_entries=20)
    async with cluster(tmp_path, settings=settings) as made:
        away = (await made.follower()).me
        await made.stop(away)
        leader = await made.serving()
        for number in range(300):
            await leader.submit(b"%d" % number)
        member = await made.start(away)
        await member.barrier()
        assert len(await made.agree()) == 300
        assert member.status().counters.restores == 0


async def test_growing_from_one_to_three_without_a_pause(tmp_path: Path) -> None:
    servers = loopback(3)
    async with cluster(tmp_path, Ensemble(servers[:1]), start=False) as made:
        first = await made.start(1, ensemble=None, admit_non_members=True)
        done: list[int] = []
        stop = trio.Event()

        async def keep_going() -> None:
            number = 0
            while not stop.is_set():
                with trio.fail_after(120):
                    done.append(await first.submit(b"%d" % number))
                number += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_going)
            await first.reconfigure(joining=[servers[0]])
            observing = [evolve(server, role=Role.OBSERVER) for server in servers[1:]]
            for server in observing:
                await made.start(server.id, ensemble=Ensemble((servers[0], server)))
                await made.members[server.id].wait_serving()
            await first.reconfigure(joining=servers[1:])
            before = len(done)
            while len(done) < before + 20:
                await trio.sleep(0.01)
            stop.set()
        assert first.status().ensemble.voters == (1, 2, 3)
        await made.serving()
        assert len(await made.agree()) == len(done)
        # And now it survives without the first.
        await made.stop(1)
        leader = await made.serving()
        assert await leader.submit(b"without the first") == len(done) + 1


async def test_a_change_of_membership_through_a_follower(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        follower = await made.follower()
        version = follower.status().ensemble.version
        leader = (await made.serving()).me
        gone = next(sid for sid in made.members if sid not in (follower.me, leader))
        ensemble = await follower.reconfigure(leaving=[gone], expect_version=version)
        assert ensemble.voters == tuple(sorted({1, 2, 3} - {gone}))
        with pytest.raises(WrongVersion):
            await follower.reconfigure(leaving=[leader], expect_version=version)
        with pytest.raises(ConfigError, match="cannot leave"):
            await follower.reconfigure(leaving=[77])
        with pytest.raises(NewConfigNoQuorum):
            await follower.reconfigure(joining=loopback(3, first=11))
        assert await follower.submit(b"still here") == 1


async def test_the_leader_may_remove_itself(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        leader = await made.serving()
        await leader.submit(b"before")
        await leader.reconfigure(leaving=[leader.me])
        await made.stop(leader.me)
        successor = await made.serving()
        assert await successor.submit(b"after") == 2
        assert leader.me not in successor.status().ensemble.by_id


@pytest.mark.mechanism(90, 92)
async def test_observers_apply_and_forward(tmp_path: Path) -> None:
    voters = loopback(3)
    observer = loopback(1, role=Role.OBSERVER, first=4)
    async with cluster(tmp_path, Ensemble((*voters, *observer))) as made:
        await made.serving()
        assert made.members[4].status().role.state is State.OBSERVING
        assert await made.members[4].submit(b"from an observer") == 1
        assert await made.members[1].submit(b"from a voter") == 2
        assert await made.agree() == [b"from an observer", b"from a voter"]
        await made.stop((await made.serving()).me)
        assert await made.members[4].submit(b"after the leader went") == 3


async def test_a_failing_disk_stops_one_and_the_others_carry_on(tmp_path: Path) -> None:
    disks = {sid: MemoryDisk() for sid in (1, 2, 3)}
    async with cluster(tmp_path, start=False) as made:
        for sid, disk in disks.items():
            await made.start(sid, disk=disk)
        leader = await made.serving()
        await leader.submit(b"before")
        disks[leader.me].fail("sync")
        other = next(member for member in made.members.values() if member is not leader)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.submit, b"during")
            error = await made.ended(leader.me)
        assert type(error).__name__ == "StorageError"
        assert await made.agree() == [b"before", b"during"]


async def test_a_slow_machine_elsewhere_does_not_slow_the_rest(tmp_path: Path) -> None:
    """One of three members neither logs nor acknowledges."""
    async with cluster(tmp_path, start=False) as made:
        for sid in (1, 2):
            await made.start(sid)
        leader = await made.serving()
        assert await leader.submit(b"two are enough") == 1


@pytest.mark.mechanism(120)
async def test_the_history_is_one(tmp_path: Path) -> None:
    class Checked(Recorder):
        def __init__(self) -> None:
            super().__init__()
            self.zxids: list[Zxid] = []

        def apply(self, zxid: Zxid, txn: bytes) -> int:
            self.zxids.append(zxid)
            return super().apply(zxid, txn)

    async with cluster(tmp_path, start=False) as made:
        for sid in made.ensemble.by_id:
            await made.start(sid, Checked)
        await made.serving()
        async with trio.open_nursery() as nursery:
            for member in made.members.values():
                for number in range(50):
                    nursery.start_soon(member.submit, b"%d %d" % (member.me, number))
        await made.agree()
        histories = [machine.zxids for machine in made.machines.values() if isinstance(machine, Checked)]
        assert histories[0] == histories[1] == histories[2]
        assert histories[0] == sorted(set(histories[0]))


async def test_nothing_is_left_behind(tmp_path: Path) -> None:
    tasks = trio.lowlevel.current_statistics().tasks_living
    async with cluster(tmp_path) as made:
        await (await made.serving()).submit(b"one")
        servers = made.ensemble.servers
    assert trio.lowlevel.current_statistics().tasks_living == tasks
    # Trio keeps a thread that is idle for a while; none of them has anything to do any more.
    assert not [thread.name for thread in threading.enumerate() if "zab" in thread.name.lower()]
    for server in servers:  # the ports are free again
        for port in (server.quorum_port, server.election_port):
            for listener in await TcpNetwork().listen(server.host, port):
                await listener.aclose()
