"""The codec of ZooKeeper's server-to-server protocol on a fresh capture of real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration import apache
from tests.integration.apache_peers import ensemble, run
from tests.unit.wire.apache_conversations import applied, check_election, check_quorum, follow
from zab.core.messages import Diff, SnapBegin, Trunc
from zab.store.store import Store
from zab.wire.apache.quorum_packets import PacketType

pytestmark = [apache.needs_apache, pytest.mark.slow, pytest.mark.nightly]


def test_every_byte_between_three_servers_and_an_observer(tmp_path: Path) -> None:
    with ensemble(tmp_path) as started:
        run(started)
        conversations = started.conversations()
    seen: set[PacketType] = set()
    compared, ops = 0, set()
    for each in conversations:
        if each.channel == "election":
            check_election(each)
            continue
        found = check_quorum(each)
        seen |= found
        if PacketType.UP_TO_DATE in found:
            followed = follow(each)
            ops |= {type(message) for message in followed.from_leader}
            if each.stage == "start":
                compared += applied(followed, Store())
    assert seen == set(PacketType)
    assert {Diff, Trunc, SnapBegin} <= ops
    assert compared > 30, "the digests of the leader were not compared"
