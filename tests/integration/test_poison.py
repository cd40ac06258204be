"""Requests that bring out a bug in the machine: the ensemble lives on, and whoever asked is told."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.integration.cluster import Recorder, cluster
from zab.runtime.errors import Refused
from zab.runtime.limits import Limits
from zab.runtime.machine import View


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
