"""Followers and leaders of ours among servers of Apache ZooKeeper: `zab serve` with `peerProtocol=zookeeper`."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integration import apache
from tests.integration.migration_steps import Load, becomes_ours, becomes_theirs
from tests.integration.mixed_ensemble import check_equal, mismatches, mixed_ensemble, wait_for, write
from zab.store.acl import OPEN
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op

pytestmark = [apache.needs_apache, pytest.mark.slow]


def test_our_voter_follows_and_leads(tmp_path: Path) -> None:
    with mixed_ensemble(tmp_path) as mixed:
        mixed.start(1, 2)
        former = mixed.leader
        other = 3 - former
        write(mixed, 1, "/a")
        assert "follows" in mixed.start_ours(3).joined
        for sid in (1, 2, 3):
            write(mixed, sid, f"/b{sid}")
        check_equal(mixed)

        mixed.kill(other)
        write(mixed, 3, "/quorum")
        mixed.start(other)
        check_equal(mixed)

        mixed.kill(former)
        assert mixed.leader == 3
        for sid in (other, 3):
            write(mixed, sid, f"/c{sid}")
        first = mixed.client(other)
        first.ask(Op.CREATE, "/ephemeral", b"", OPEN, 1)
        mine = mixed.client(3, resumes=first)
        assert mine.ask(Op.SET_DATA, "/ephemeral", b"mine", -1).version == 1
        with pytest.raises(EOFError):  # the session is elsewhere
            first.ask(Op.SET_DATA, "/ephemeral", b"late", -1)
        back = mixed.client(other, resumes=mine)
        assert back.ask(Op.SET_DATA, "/ephemeral", b"back", -1).version == 2
        back.socket.close()
        mixed.start(former)
        check_equal(mixed)
        alive = mixed.client(former)
        alive.ask(Op.CREATE, "/alive", b"", OPEN, 1)

        def expired() -> bool:
            assert not isinstance(alive.ask(Op.EXISTS, "/alive", False), int)  # its server reports it to our leader
            found: bool = alive.ask(Op.EXISTS, "/ephemeral", False) == ErrorCode.NO_NODE
            return found

        wait_for(expired)
        alive.close()
        mixed.stop(other)
        shutil.rmtree(mixed.servers[other].files)
        mixed.start(other)
        assert f"peer={other} form=snap" in mixed.log(3).read_text()
        write(mixed, other, "/d")
        check_equal(mixed)


WRONG_DIGESTS = """
from zab.store.store import Store
predicted = Store.predicted_digest
Store.predicted_digest = lambda store, zxid: predicted(store, zxid) ^ 1
"""


@pytest.mark.parametrize("planted", ["", WRONG_DIGESTS])
def test_all_servers_compare_the_digests_of_our_leader(tmp_path: Path, planted: str) -> None:
    with mixed_ensemble(tmp_path, observer=True) as mixed:
        mixed.start(1, 4, wait=False)
        mixed.start_ours(3, planted)
        mixed.start_ours(2)
        assert mixed.leader == 3
        for sid in mixed.running:
            write(mixed, sid, f"/a{sid}")
        mixed.wait_until_equal(*mixed.running)
        for sid in (1, 2, 4):
            assert (mismatches(mixed, sid) > 0) == bool(planted)
        if not planted:
            check_equal(mixed)


def test_servers_become_ours_one_by_one_and_back_without_losing_a_write(tmp_path: Path) -> None:
    with mixed_ensemble(tmp_path) as mixed:
        mixed.start(1, 2, 3)
        with Load(lambda: mixed.client(1)) as load:
            load.goes_on()
            for sid in (3, 2):
                becomes_ours(mixed, sid)
                load.goes_on()
            leader = wait_for(lambda: mixed.leader)
            assert leader in (2, 3), "a server with more transactions, or a larger id, leads"
            mixed.kill_ours(leader)
            load.goes_on()
            mixed.start_ours(leader)
            load.goes_on()
            for sid in (3, 2):
                becomes_theirs(mixed, sid)
                load.goes_on()
            load.stop()
        check_equal(mixed)
        client = mixed.client(2)
        names = set(client.ask(Op.GET_CHILDREN, "/", False))
        assert [each for each in load.acknowledged if each not in names] == []


def test_writes_and_syncs_at_a_follower_of_zookeeper_are_answered_in_order(tmp_path: Path) -> None:
    """It answers none of its clients any more if the commit of a write and the reply to a sync change places."""
    with mixed_ensemble(tmp_path) as mixed, ThreadPoolExecutor() as pool:
        starting = pool.submit(mixed.start, 1)
        mixed.start_ours(3)
        starting.result()
        assert mixed.leader == 3
        write(mixed, 1, "/a")
        client = mixed.client(1)
        for _ in range(300):
            client.send(Op.SET_DATA, ("/a", b"", -1))
            client.send(Op.SYNC, ("/a",))
        assert [client.next()[0] for _ in range(600)] == list(range(1, 601))
        client.close()
