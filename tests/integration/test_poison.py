"""Requests that trigger a bug in the machine: the ensemble survives, and the caller gets an error."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from click.testing import CliRunner

import zab
from tests.integration.cluster import Cluster, Recorder, cluster, loopback
from zab.cli import root
from zab.core.ensemble import Ensemble, Role
from zab.core.errors import LeadersLost, Refused
from zab.runtime.member import Member
from zab.service.limits import Limits
from zab.service.replicated_machine import View
from zab.store.operations import Op


class Buggy(Recorder):
    def prepare(self, request: bytes, view: View) -> bytes:
        match request:
            case b"raise":
                raise ValueError("an oversight")
            case b"forget":
                return None  # type: ignore[return-value]
            case b"swell":
                return bytes(view.now_ms and 5_000)
            case _:
                return request


@pytest.mark.parametrize("at", ["leader", "follower"])
async def test_poisonous_request_is_refused_and_no_member_stops(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, at: str
) -> None:
    async with cluster(tmp_path, start=False, limits=Limits(frame_bytes_max=4096)) as made:
        for sid in made.ensemble.by_id:
            await made.start(sid, Buggy)
        member = await made.serving() if at == "leader" else await made.follower()
        epoch = member.status().role.epoch
        assert await member.submit(b"before") == 1
        with pytest.raises(Refused, match="^prepare raised ValueError: an oversight$"):
            await member.submit(b"raise")
        with pytest.raises(Refused, match="^prepare returned NoneType, not bytes$"):
            await member.submit(b"forget")
        with pytest.raises(Refused, match=r"5000 bytes; at most 4011 fit into a frame \(Limits.frame_bytes_max\)"):
            await member.submit(b"swell")
        with pytest.raises(Refused, match=r"6000 bytes; at most \d+ fit into a frame"):
            await member.submit(bytes(6000))
        for number in range(10):
            await member.submit(bytes((number,)) * 4000)
        assert len(await made.agree()) == 11
        assert made.failures == {}
        assert {each.status().role.epoch for each in made.members.values()} == {epoch}
    (raised,) = [record for record in caplog.records if record.levelno == logging.ERROR and record.exc_info]
    assert "prepare_failed" in raised.message


class Supervised(Cluster):
    """A request `poison` ends each leader that prepares it. A member that died is started again."""

    def __init__(self, nursery: trio.Nursery, path: Path, ensemble: Ensemble, options: dict[str, Any]) -> None:
        super().__init__(nursery, path, ensemble, options)
        self.deaths = 0
        self._dead: set[int] = set()

    async def begin(self, sid: int) -> None:
        await self.start(sid, lambda: Mortal(partial(self._die, sid)))

    def _die(self, sid: int) -> None:
        self.deaths += 1
        self._dead.add(sid)
        self._scopes[sid].cancel()

    async def _run(self, sid: int, member: Member, task_status: trio.TaskStatus[None]) -> None:
        await super()._run(sid, member, task_status)
        if sid in self._dead:
            self._dead.remove(sid)
            await self.begin(sid)


class Mortal(Recorder):
    def __init__(self, die: Callable[[], None]) -> None:
        super().__init__()
        self._die = die
        self._dead = False

    def prepare(self, request: bytes, view: View) -> bytes:
        if request == b"poison" and not self._dead:
            self._dead = True
            self._die()
        if self._dead:
            raise RuntimeError("no member receives this refusal, because the leader is gone before it is sent")
        return request


@pytest.mark.parametrize("leaders_lost_max", [2, 3])
async def test_a_request_that_ends_every_leader_is_refused_and_service_comes_back(
    tmp_path: Path, leaders_lost_max: int
) -> None:
    """The caller is at an observer, which never leads, so it survives to the end."""
    ends: list[tuple[bytes, object]] = []
    ensemble = Ensemble((*loopback(3), *loopback(1, role=Role.OBSERVER, first=4)))
    async with trio.open_nursery() as nursery:
        made = Supervised(nursery, tmp_path, ensemble, {"limits": Limits(leaders_lost_max=leaders_lost_max)})
        for sid in ensemble.by_id:
            await made.begin(sid)
        await made.serving()
        observer = made.members[4]

        ended = trio.Event()

        def done(request: bytes, result: object, error: Exception | None) -> None:
            ends.append((request, error or result))
            if len(ends) == 4:
                ended.set()

        with trio.fail_after(60):
            for request in (b"before", b"poison", b"behind", b"last"):
                observer.post(request, partial(done, request))
            await ended.wait()
            assert await observer.submit(b"after") == 4
            assert await made.agree() == [b"before", b"behind", b"last", b"after"]
        nursery.cancel_scope.cancel()
    assert made.deaths == leaders_lost_max
    assert [request for request, _ in ends] == [b"before", b"poison", b"behind", b"last"]
    refused = dict(ends)[b"poison"]
    assert isinstance(refused, LeadersLost)
    assert str(refused).startswith(f"{leaders_lost_max} leaders in a row were lost while this request was under way")


def test_stored_acls_beyond_the_bounds_break_nothing(tmp_path: Path) -> None:
    """Clients cannot create them. A store with old ones answers, and can be exported."""
    lists = {
        "/wide": ((1 << 40 | 31, "world", "anyone"),),
        "/torn": ((31, "world", "anyone"), (1, "digest", "a\ud800:b")),
    }

    async def fill() -> None:
        async with zab.open_store(tmp_path / "data", client_port=0) as store, store.session() as session:
            for path, acl in lists.items():
                await session._ask(Op.CREATE, (path, b"", acl, 0), path)
            async with zab.connect(f"127.0.0.1:{store.client_port}") as client:
                assert (await client.acl("/wide"))[0] == zab.OPEN_ACL
                assert (await client.acl("/torn"))[0] == ((31, "world", "anyone"), (1, "digest", "a?:b"))

    trio.run(fill)
    for words in (["log", "dump"], ["log", "dump", "--json"], ["export"]):
        target = [str(tmp_path / "theirs")] if words == ["export"] else []
        result = CliRunner().invoke(root.zab, [*words, str(tmp_path / "data"), *target], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        for path in lists:
            assert path in result.output
