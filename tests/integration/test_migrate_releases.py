"""Ensembles of each supported release of Apache ZooKeeper become ours, server by server, and go back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.migration_steps import Load, becomes_ours, becomes_theirs, settled
from tests.integration.mixed_ensemble import check_equal, mixed_ensemble, write
from tests.integration.peers import ZOOKEEPER_RELEASES, needs_zookeeper, zookeeper_jars

pytest.importorskip("kazoo", reason="kazoo is not installed")

from kazoo.client import KazooClient

pytestmark = pytest.mark.slow

OLDEST = "3.5.10"
"""This release differs most: it has no digests, and no list of nodes in the end of a session."""
OBSERVER = 4
PATIENCE_S = 60


@pytest.mark.parametrize(
    "release",
    [
        pytest.param(each, marks=[needs_zookeeper(each), *([] if each == OLDEST else [pytest.mark.nightly])])
        for each in ZOOKEEPER_RELEASES
    ],
)
def test_ensemble_becomes_ours_and_goes_back_without_losing_a_write(tmp_path: Path, release: str) -> None:
    """The observer has an empty directory in both directions, so each side sends a snapshot to the other one."""
    with mixed_ensemble(tmp_path, observer=True, jars=zookeeper_jars(release)) as mixed:
        mixed.start(1, 2, 3)
        client = KazooClient(",".join(f"127.0.0.1:{each.port}" for each in mixed.servers.values()), timeout=20)
        client.start(PATIENCE_S)
        try:
            session, _ = client.client_id
            client.create("/ephemeral", ephemeral=True)
            write(mixed, 1, "/before")
            mixed.start_ours(OBSERVER)
            assert "snapshot_received" in mixed.log(OBSERVER).read_text()
            with Load(lambda: mixed.client(1, 2, 3)) as load:
                for options, become in (((), becomes_ours), (("--back",), becomes_theirs)):
                    while not (made := settled(mixed, *options))["done"]:
                        sid = made["next"]["server"]
                        if sid == OBSERVER:
                            mixed.stop_ours(sid)
                            mixed.start(sid)
                        else:
                            become(mixed, sid)
                        write(mixed, sid, f"/{become.__name__}-{sid}")
                        load.goes_on()
            check_equal(mixed)
            names = set(client.retry(client.get_children, "/"))
            assert [each for each in load.acknowledged if each not in names] == []
            _, stat = client.retry(client.get, "/ephemeral")
            assert client.client_id[0] == stat.ephemeralOwner == session
        finally:
            client.stop()
            client.close()
