"""Two of three servers lose their disks and begin anew: the third keeps its history until an operator decides."""

from __future__ import annotations

import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio
from attrs import evolve
from click.testing import CliRunner

from tests.integration.cluster import FAST, Cluster, cluster
from tests.integration.http_client import get
from tests.integration.stores import PORTS, Stores, stores
from zab.admin.admin_settings import AdminSettings
from zab.cli.log_command import log
from zab.core.errors import LocalProtocolError
from zab.core.messages import State
from zab.storage.epochs import EpochsFile
from zab.storage.inspection import ReadOnlyDisk
from zab.store.acl import digest_id

OLD = [b"old %d" % number for number in range(50)]
NEW = [b"new %d" % number for number in range(80)]
PATIENT = 60
IMPATIENT = evolve(FAST, veto_retry_ms=200)


async def wiped(made: Cluster, path: Path, *sids: int) -> None:
    """Stop all servers, wipe these directories, and start only these servers again."""
    for sid in list(made.members):
        await made.stop(sid)
    for sid in sids:
        shutil.rmtree(path / str(sid))
        await made.start(sid)


async def divided(made: Cluster, path: Path, *, changed: bool = False) -> None:
    """Return an ensemble in which servers 1 and 2 have begun anew, and 3 has the acknowledged history.

    If `changed`, a client had changed the membership, and the survivor knows the newer one.
    """
    for request in OLD:
        await made.members[1].submit(request)
    if changed:
        await made.members[1].reconfigure(members=made.members[1].status().ensemble)
        await made.agree()
    await made.agree()
    await wiped(made, path, 1, 2)
    await made.serving()
    for request in NEW:
        await made.members[1].submit(request)
    await made.start(3)


async def vetoed(made: Cluster, elections: int = 0) -> None:
    with trio.fail_after(PATIENT):
        while (status := made.members[3].status()).role.veto is None or status.counters.elections < elections:
            await trio.sleep(0.01)


def logged(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir() if file.name.startswith(("log.", "snapshot."))}


async def test_survivor_keeps_its_history_and_a_leader_with_a_quorum_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(tmp_path, settings=IMPATIENT) as made:
        await divided(made, tmp_path)
        await vetoed(made)
        before = logged(tmp_path / "3")
        assert len(before) == 1
        role = made.members[3].status().role
        assert (role.state, role.serving) == (State.LOOKING, False)
        assert role.veto is not None
        assert (role.veto.count, role.veto.common) == (len(OLD), 0)
        assert role.veto.committed == role.veto.last == made.members[3].status().last
        epoch, elections = (made.members[1].status().role.epoch, made.members[1].status().counters.elections)
        await vetoed(made, made.members[3].status().counters.elections + 3)
        assert await made.members[2].submit(b"more") == len(NEW) + 1
        status = made.members[1].status()
        assert (status.role.epoch, status.counters.elections) == (epoch, elections), "no election for its sake"
        assert logged(tmp_path / "3") == before
    lines = [record.message for record in caplog.records if record.levelname == "WARNING"]
    (own, *_) = [line for line in lines if line.startswith("vetoes ")]
    assert "count=50" in own
    assert "give_up_history" in own
    (leaders, *_) = [line for line in lines if line.startswith("vetoed ")]
    assert "peer=3" in leaders


async def test_nothing_is_served_where_the_survivor_is_needed_for_a_quorum(tmp_path: Path) -> None:
    async with cluster(tmp_path, settings=IMPATIENT) as made:
        await divided(made, tmp_path)
        await vetoed(made)
        await made.stop(2)
        await vetoed(made, made.members[3].status().counters.elections + 3)
        assert [made.members[sid].status().role.serving for sid in (1, 3)] == [False, False]
        await made.members[3].give_up_history()
        await made.start(
            2
        )  # like every server without a whole history, the third one does not vote before it is healed
        with trio.fail_after(PATIENT):
            await made.serving()
            assert await made.agree() == NEW


async def test_survivor_that_gives_up_is_healed_and_its_files_are_kept(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        await divided(made, tmp_path)
        await vetoed(made)
        seen = [role.veto is None async for role in _until_serving(made)]
        assert seen[0] is False
        assert seen[-1] is True
        assert await made.agree() == NEW
        kept = [file.read_bytes() for file in (tmp_path / "3").glob("damaged.log.*")]
        assert all(request in kept[0] for request in OLD)
        with pytest.raises(LocalProtocolError, match="vetoes no leader"):
            await made.members[3].give_up_history()


@pytest.mark.parametrize("running", [True, False], ids=["while it runs", "on its directory"])
async def test_survivor_with_a_newer_membership_vetoes_and_is_healed_once_it_gives_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, running: bool
) -> None:
    async with cluster(tmp_path) as made:
        await divided(made, tmp_path, changed=True)
        assert made.members[3].status().ensemble.version > made.members[1].status().ensemble.version
        await vetoed(made)
        veto = made.members[3].status().role.veto
        assert veto is not None
        assert veto.count == len(OLD) + 1
        if running:
            await made.members[3].give_up_history()
        else:
            await made.stop(3)
            await trio.to_thread.run_sync(partial(CliRunner().invoke, log, ["give-up", str(tmp_path / "3"), "--yes"]))
            await made.start(3)
        with trio.fail_after(PATIENT):
            await made.serving()
            assert await made.agree() == NEW
        assert made.members[3].status().ensemble == made.members[1].status().ensemble
        events = {record.message.split()[0] for record in caplog.records if record.levelname == "WARNING"}
        assert {"vetoes", "vetoed", "membership_dropped"} <= events
        await made.stop(3)
        await made.start(3)
        with trio.fail_after(PATIENT):
            await made.serving()


async def _until_serving(made: Cluster):  # type: ignore[no-untyped-def]
    roles = made.members[3].roles()
    yield await anext(roles)
    assert (await made.members[3].give_up_history()).count == len(OLD)
    with trio.fail_after(PATIENT):
        async for role in roles:
            yield role
            if role.serving:
                return


async def test_killed_survivor_knows_its_committed_history(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        for request in OLD:
            await made.members[1].submit(request)
        await made.agree()
        with trio.fail_after(PATIENT):
            while True:
                record = EpochsFile.read(ReadOnlyDisk(tmp_path / "3"))[0].record
                if record.committed == made.members[3].status().committed:
                    break
                await trio.sleep(0.05)
        shutil.copytree(tmp_path / "3", tmp_path / "killed")
        await wiped(made, tmp_path, 1, 2)
        await made.serving()
        shutil.rmtree(tmp_path / "3")
        (tmp_path / "killed").rename(tmp_path / "3")
        await made.start(3)
        await vetoed(made)


async def test_the_others_begin_anew_beside_the_survivor(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        await divided(made, tmp_path)
        await vetoed(made)
        for sid in (1, 2):
            await made.stop(sid)
            shutil.rmtree(tmp_path / str(sid))
        for sid in (1, 2):
            await made.start(sid)
        with trio.fail_after(PATIENT):
            await made.serving()
            assert await made.agree() == OLD
        assert made.members[3].status().role.veto is None


async def test_server_that_is_not_to_veto_is_healed_at_once(tmp_path: Path) -> None:
    async with cluster(tmp_path, settings=evolve(FAST, veto_lost_history=False)) as made:
        await divided(made, tmp_path)
        with trio.fail_after(PATIENT):
            await made.serving()
            assert await made.agree() == NEW
        assert list((tmp_path / "3").glob("damaged.log.*"))


async def test_history_of_a_stopped_server_is_given_up_by_the_command(tmp_path: Path) -> None:
    run = CliRunner().invoke
    async with cluster(tmp_path) as made:
        await divided(made, tmp_path)
        await vetoed(made)
        command = ["give-up", str(tmp_path / "3")]
        used = await trio.to_thread.run_sync(partial(run, log, [*command, "--yes"]))
        assert (used.exit_code, "in use" in used.output) == (1, True), used.output
        await made.stop(3)
        refused = await trio.to_thread.run_sync(partial(run, log, command, input="n\n"))
        assert (refused.exit_code, "not confirmed" in refused.output) == (1, True), refused.output
        done = await trio.to_thread.run_sync(partial(run, log, [*command, "--yes"]))
        assert (done.exit_code, "up to 1/50" in done.output) == (0, True), done.output
        again = await trio.to_thread.run_sync(partial(run, log, [*command, "--yes"]))
        assert (again.exit_code, "nothing to give up" in again.output) == (2, True), again.output
        await made.start(3)
        with trio.fail_after(PATIENT):
            await made.serving()
            assert await made.agree() == NEW


async def test_the_admin_port_warns_and_the_super_user_decides(tmp_path: Path) -> None:
    admin = (AdminSettings(port=0),)
    client_ports = evolve(PORTS, super_digest=digest_id(b"root:secret"))
    async with stores(tmp_path, 3, admin=admin, client_ports=client_ports) as made:
        async with made.servers[1].session() as session:
            for number in range(30):
                await session.create(f"/old-{number}")
        await begin_anew(made, tmp_path)
        port = made.servers[3].ports.admin
        with trio.fail_after(PATIENT):
            while not any(
                each["text"].startswith("veto: this server stays out of the ensemble: the history of leader ")
                for each in (await get(port, "/status.json")).json["warnings"]
            ):
                await trio.sleep(0.05)
        assert "\nzab_veto 1.0\n" in (await get(port, "/metrics")).text
        give_up = partial(get, port, "/commands/give_up_history")
        assert (await give_up()).status == 405
        assert (await give_up("POST")).status == 401
        somebody = await give_up("POST", Authorization="digest somebody:else")
        assert (somebody.status, "superDigest" in somebody.json["error"]) == (403, True)
        given_up = (await give_up("POST", Authorization="digest root:secret")).json
        assert given_up["error"] is None
        assert given_up["transactions"] > 30
        assert given_up["directory"] == str(tmp_path / "3")
        with trio.fail_after(PATIENT):
            await made.leader()
        assert (await give_up("POST", Authorization="digest root:secret")).status == 409
        assert "/old-1" not in made.servers[3].machine.tree.nodes


async def begin_anew(made: Stores, path: Path) -> None:
    for sid in (1, 2, 3):
        await made.stop(sid)
    for sid in (1, 2):
        shutil.rmtree(path / str(sid))
        await made.start(sid)
    await made.leader()
    with suppress(KeyError):
        await made.start(3)
