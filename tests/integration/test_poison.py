"""Requests that bring out a bug in the machine: the ensemble lives on, and whoever asked is told."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

import zab
from tests.integration.cluster import Recorder, cluster
from zab.cli import commands
from zab.runtime.errors import Refused
from zab.runtime.limits import Limits
from zab.runtime.machine import View
from zab.store.ops import Op


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
async def test_a_poisonous_request_is_refused_and_nobody_dies(
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


def test_lists_of_permissions_that_nobody_can_send_break_nothing(tmp_path: Path) -> None:
    """No door lets them in. A store that has them from before answers, and is moved out of."""
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
        result = CliRunner().invoke(commands.zab, [*words, str(tmp_path / "data"), *target], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        for path in lists:
            assert path in result.output
