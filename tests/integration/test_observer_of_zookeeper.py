"""An observer of ours among three servers of Apache ZooKeeper: `zab serve` with `peerProtocol=zookeeper`."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import Queue
from threading import Thread

import pytest

from tests.integration import apache
from tests.integration.mixed_ensemble import MixedEnsemble, check_equal, mixed_ensemble, wait_for, write
from zab.core.batch import pack
from zab.core.ready import Append
from zab.core.zxid import ServerId, Zxid
from zab.runtime.directory_owner import claim_directory
from zab.storage.real_disk import RealDisk
from zab.storage.storage import Storage
from zab.store import transactions
from zab.store.acl import OPEN
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op
from zab.wire.apache.proposals import NO_TAG

pytest.importorskip("kazoo", reason="kazoo is not installed")

from kazoo.client import KazooClient

pytestmark = [apache.needs_apache, pytest.mark.slow]

PATIENCE_S = 60
OURS = ServerId(4)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedEnsemble]:
    with mixed_ensemble(tmp_path_factory.mktemp("mixed"), observer=True) as started:
        started.start(1, 2, 3)
        yield started


def kazoo(theirs: MixedEnsemble, *sids: int, timeout: float = 10.0) -> KazooClient:
    hosts = ",".join(f"127.0.0.1:{theirs.servers[sid].port}" for sid in sids)
    client = KazooClient(hosts, timeout=timeout, randomize_hosts=False)
    client.start(PATIENCE_S)
    return client


def leave(client: KazooClient) -> None:
    client.stop()
    client.close()


def append_one(data: Path) -> None:
    """Append a transaction that was never committed to the log of our stopped server."""
    disk = RealDisk(data)
    claim_directory(disk, data, "zab", OURS, "store")
    storage, _ = Storage.open(disk)
    zxid = Zxid(storage.last + 1)
    storage.perform([Append(1, pack(zxid, [NO_TAG + transactions.error(0, 0, 0, -101)]))])
    storage.close()
    disk.close()


def test_observer_is_brought_up_to_date_by_snap_diff_and_trunc(theirs: MixedEnsemble) -> None:
    write(theirs, 1, "/a")
    log = theirs.log(OURS)
    with theirs.ours(OURS) as server:
        assert "observes" in server.joined
        assert "snapshot_received" in log.read_text()
        write(theirs, 2, "/b")
        check_equal(theirs)
        server.process.send_signal(signal.SIGKILL)
    write(theirs, 1, "/c")
    log.unlink()
    with theirs.ours(OURS) as server:
        check_equal(theirs)
        told = log.read_text()
        assert "snapshot_received" not in told
        assert "truncated" not in told
        assert server.stop() == 0
    append_one(theirs.data(OURS))
    log.unlink()
    with theirs.ours(OURS):
        assert " truncated " in log.read_text()
        write(theirs, 3, "/d")
        check_equal(theirs)


def test_clients_read_watch_and_write_through_the_observer(theirs: MixedEnsemble) -> None:
    with theirs.ours(OURS):
        other, mine = kazoo(theirs, 1), kazoo(theirs, OURS)
        other.create("/k", b"one")
        mine.sync("/k")
        seen: Queue[bytes | None] = Queue()
        mine.DataWatch("/k", lambda data, stat: seen.put(data))
        assert seen.get(timeout=PATIENCE_S) == b"one"
        other.set("/k", b"two")
        assert seen.get(timeout=PATIENCE_S) == b"two"
        assert mine.create("/k/s-", b"", ephemeral=True, sequence=True) == "/k/s-0000000000"
        transaction = mine.transaction()
        transaction.create("/k/t", b"t")
        transaction.check("/k", 0)
        assert [type(each).__name__ for each in transaction.commit()] == ["RolledBackError", "BadVersionError"]
        writes = [mine.create_async(f"/k/{number}", b"x" * number) for number in range(200)]
        assert [write.get(PATIENCE_S) for write in writes] == [f"/k/{number}" for number in range(200)]
        assert mine.get("/k/199")[0] == b"x" * 199
        lock = mine.Lock("/lock", "mine")
        with lock:
            assert other.Lock("/lock", "other").acquire(blocking=False) is False
        leave(mine)
        assert wait_for(lambda: not other.exists("/k/s-0000000000"))
        leave(other)
        check_equal(theirs)


def test_session_moves_between_servers_and_expires_at_the_leader(theirs: MixedEnsemble) -> None:
    with theirs.ours(OURS):
        theirs_client = theirs.client(2)
        theirs_client.ask(Op.CREATE, "/moves", b"", OPEN, 1)
        mine = theirs.client(OURS, resumes=theirs_client)
        assert mine.response.session == theirs_client.response.session
        assert mine.ask(Op.SET_DATA, "/moves", b"here", -1).version == 1
        back = theirs.client(1, resumes=mine)
        assert back.ask(Op.SET_DATA, "/moves", b"back", -1)
        with pytest.raises(EOFError):  # the session is elsewhere
            mine.ask(Op.SET_DATA, "/moves", b"late", -1)
        back.socket.close()

        silent = theirs.client(OURS)
        silent.ask(Op.CREATE, "/silent", b"", OPEN, 1)
        silent.socket.close()
        alive = kazoo(theirs, OURS, timeout=4.0)  # its pings are touches of the leader's session
        alive.create("/alive", b"", ephemeral=True)
        assert wait_for(lambda: not alive.exists("/silent"))
        assert alive.exists("/alive")
        assert wait_for(lambda: not alive.exists("/moves"))
        leave(alive)
        wrong = theirs.client(OURS, resumes=silent)
        assert wrong.response.session == 0
        check_equal(theirs)


def send(port: int, data: bytes) -> None:
    """Send bytes to a port, and wait until the other side has closed the connection."""
    stranger = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    with stranger, suppress(ConnectionError):
        stranger.sendall(data)
        stranger.shutdown(socket.SHUT_WR)
        while stranger.recv(1000):
            pass


def test_hostile_bytes_cost_their_connection_only(theirs: MixedEnsemble) -> None:
    _, quorum, election, _ = theirs.properties[f"server.{OURS}"].split(":")
    with theirs.ours(OURS):
        client = theirs.client(OURS)
        for port in (quorum, election):
            for data in (b"", b"\xff" * 1000, b"GET / HTTP/1.1\r\n\r\n", bytes(100)):
                send(int(port), data)
        assert client.ask(Op.CREATE, "/hostile", b"", OPEN, 0) == "/hostile"
        client.close()


def test_observer_and_its_clients_survive_the_death_of_the_leader(theirs: MixedEnsemble) -> None:
    with theirs.ours(OURS) as server:
        client, idle = theirs.client(OURS), theirs.client(OURS)
        assert client.ask(Op.CREATE, "/dead", b"", OPEN, 0) == "/dead"
        acknowledged = 0
        killing = Thread(target=theirs.kill, args=(theirs.leader,))
        try:
            for number in range(400):
                if number == 50:
                    killing.start()
                assert client.ask(Op.CREATE, f"/dead/{number}", b"", OPEN, 0) == f"/dead/{number}"
                acknowledged = number + 1
        except (EOFError, ConnectionError):
            pass  # the leader was lost before the reply: the outcome is unknown
        killing.join()
        assert acknowledged >= 50
        assert server.process.poll() is None
        again = wait_for(lambda: theirs.client(OURS))
        names = again.ask(Op.GET_CHILDREN, "/dead", False)
        assert {str(number) for number in range(acknowledged)} <= set(names)
        assert again.ask(Op.CREATE, "/dead/after", b"", OPEN, 0) == "/dead/after"
        assert idle.ask(Op.CREATE, "/dead/after", b"", OPEN, 0) == ErrorCode.NODE_EXISTS
        again.close()
        idle.close()
        check_equal(theirs)
