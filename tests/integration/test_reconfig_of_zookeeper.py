"""Changes of the membership in ensembles of servers of Apache ZooKeeper and of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration import apache
from tests.integration.migration_steps import Load
from tests.integration.mixed_ensemble import MixedEnsemble, check_equal, mixed_ensemble, wait_for
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op

pytestmark = [apache.needs_apache, pytest.mark.slow]

CONFIG = "/zookeeper/config"


@contextmanager
def reconfigurable(folder: Path, spares: tuple[int, ...] = ()) -> Iterator[MixedEnsemble]:
    admits: dict[str, Any] = {"quorum.admitNonMembers": "true"}
    with mixed_ensemble(
        folder, spares=spares, reconfigEnabled="true", standaloneEnabled="false", skipACL="yes", **admits
    ) as mixed:
        yield mixed


def reconfig(
    mixed: MixedEnsemble, at: int, joining: str | None = None, leaving: str | None = None,
    members: str | None = None, version: int = -1,
) -> Any:  # fmt: skip
    """Return the error code, or the new membership with the stat of the node."""
    client = mixed.client(at)
    try:
        return client.ask(Op.RECONFIG, joining, leaving, members, version)
    finally:
        client.socket.close()


def changes(mixed: MixedEnsemble, at: int, **change: Any) -> None:
    """Change the membership, and wait until all servers that run have it.

    The server `at` must not change its role, because its client could lose the connection before the reply.
    """
    answer = reconfig(mixed, at, **change)
    assert not isinstance(answer, int), answer
    wait_for(lambda: all(config_at(mixed, sid)[0] == answer[0] for sid in mixed.running))


def leader_leaves(mixed: MixedEnsemble, at: int) -> None:
    """Remove the leader, and wait until another server leads all servers that run.

    The server at which the client is leaves its role with the change, perhaps before it has replied.
    """
    leader = mixed.leader
    try:
        answer = reconfig(mixed, at, leaving=f"{leader}")
        assert not isinstance(answer, int), answer
    except (OSError, EOFError):
        pass
    wait_for(lambda: mixed.leader != leader)
    wait_for(lambda: all(leader not in members_of(mixed, sid) for sid in mixed.running))


def config_at(mixed: MixedEnsemble, sid: int) -> Any:
    client = mixed.client(sid)
    try:
        return client.ask(Op.GET_DATA, CONFIG, False)
    finally:
        client.socket.close()


def members_of(mixed: MixedEnsemble, sid: int) -> dict[int, str]:
    text = config_at(mixed, sid)[0].decode()
    servers = [line.split("=", 1) for line in text.splitlines() if line.startswith("server.")]
    return {int(key.removeprefix("server.")): value for key, value in servers}


def check_same_config(mixed: MixedEnsemble) -> None:
    """Compare text and stat of the node at all servers, which all have applied the last change while they served."""
    found = {sid: config_at(mixed, sid) for sid in mixed.running}
    assert len({repr(each) for each in found.values()}) == 1, found
    ((_, stat), *_) = found.values()
    assert (stat.version, stat.czxid) == (-1, 0)
    assert stat.mtime > 0


def line(mixed: MixedEnsemble, sid: int, role: str = "participant") -> str:
    return f"server.{sid}={mixed.entry(sid, role)}"


def test_membership_changes_under_our_leader(tmp_path: Path) -> None:
    with ExitStack() as stack:
        mixed = stack.enter_context(reconfigurable(tmp_path, (4, 5)))
        mixed.start(1, wait=False)
        mixed.start_ours(3)
        mixed.start(2)
        assert mixed.leader == 3
        wait_for(lambda: all(members_of(mixed, sid) for sid in mixed.running))
        load = stack.enter_context(Load(lambda: mixed.client(1)))
        load.goes_on()

        mixed.start(4)
        changes(mixed, 1, joining=line(mixed, 4))
        load.goes_on()
        mixed.start_ours(5)
        changes(mixed, 3, joining=line(mixed, 5))
        load.goes_on()
        assert sorted(members_of(mixed, 4)) == [1, 2, 3, 4, 5]
        check_same_config(mixed)

        changes(mixed, 4, leaving="2")
        load.goes_on()
        check_same_config(mixed)
        mixed.stop(2)
        assert mixed.leader == 3

        load.stop()
        check_equal(mixed)


def founders(mixed: MixedEnsemble) -> None:
    """Let a server of ours lead, and follow it with one of ZooKeeper and another one of ours."""
    mixed.start(1, wait=False)
    mixed.start_ours(3)
    mixed.start_ours(2)
    assert mixed.leader == 3
    wait_for(lambda: all(members_of(mixed, sid) for sid in mixed.running))


def check_all_written(mixed: MixedEnsemble, load: Load) -> None:
    load.stop()
    check_equal(mixed)
    client = mixed.client(mixed.running[0])
    names = set(client.ask(Op.GET_CHILDREN, "/", False))
    client.close()
    assert [each for each in load.acknowledged if each not in names] == []


def test_our_leader_changes_while_a_follower_is_down_and_hands_over_when_it_leaves(tmp_path: Path) -> None:
    with ExitStack() as stack:
        mixed = stack.enter_context(reconfigurable(tmp_path, (4,)))
        founders(mixed)
        load = stack.enter_context(Load(lambda: mixed.client(2)))
        load.goes_on()
        mixed.stop(1)
        assert reconfig(mixed, 2, line(mixed, 2, "observer")) == ErrorCode.NEW_CONFIG_NO_QUORUM
        mixed.start(4)
        changes(mixed, 4, joining=line(mixed, 4))
        load.goes_on()
        mixed.start(1)
        wait_for(lambda: sorted(members_of(mixed, 1)) == [1, 2, 3, 4])

        changes(mixed, 1, joining=line(mixed, 4, "observer"))
        load.goes_on()
        every = ",".join(line(mixed, sid) for sid in (1, 2, 3, 4))
        wait_for(lambda: "Mode: observer" in apache.ask(mixed.servers[4].port, "srvr"))
        assert reconfig(mixed, 1, members=every.replace("server.3", "server.2")) == ErrorCode.BAD_ARGUMENTS
        changes(mixed, 1, members=every)
        load.goes_on()
        wait_for(lambda: "Mode: follower" in apache.ask(mixed.servers[4].port, "srvr"))
        assert mixed.leader == 3

        leader_leaves(mixed, 1)
        load.goes_on()
        assert all(sorted(members_of(mixed, sid)) == [1, 2, 4] for sid in mixed.running)
        mixed.stop_ours(3)
        load.goes_on()
        check_all_written(mixed, load)


def test_change_is_made_or_not_if_our_leader_is_killed(tmp_path: Path) -> None:
    with ExitStack() as stack:
        mixed = stack.enter_context(reconfigurable(tmp_path, (4,)))
        founders(mixed)
        mixed.start(4)
        load = stack.enter_context(Load(lambda: mixed.client(2)))
        for attempt in range(3):
            load.goes_on()
            leader = wait_for(lambda: mixed.leader)
            client = mixed.client(1)
            wanted = None if attempt % 2 else "4", line(mixed, 4) if attempt % 2 else None
            client.send(Op.RECONFIG, (wanted[1], wanted[0], None, -1))
            if leader in (1, 4):
                mixed.kill(leader)
                mixed.start(leader)
            else:
                mixed.kill_ours(leader)
                mixed.start_ours(leader)
            client.socket.close()
            wait_for(lambda: len({config_at(mixed, sid)[0] for sid in mixed.running}) == 1)
            load.goes_on()
        changes(mixed, 2, joining=line(mixed, 4))
        assert sorted(members_of(mixed, 1)) == [1, 2, 3, 4]
        check_all_written(mixed, load)


WRONG = (
    ("server.4=127.0.0.1:1:2", None, None, -1),
    ("server.4=127.0.0.1:1:2:king;3", None, None, -1),
    ("nonsense", None, None, -1),
    (None, "1,2,3", None, -1),
    (None, "1", None, 5),
    (None, None, "server.7=127.0.0.1:1:2:participant;3", -1),
    ("server.7=127.0.0.1:1:2;3,server.8=127.0.0.1:4:5;6,server.9=127.0.0.1:7:8;9", "1,2", None, -1),
)  # fmt: skip


def test_wrong_requests_get_the_errors_of_zookeeper(tmp_path: Path) -> None:
    """The same requests, of a leader of ours and of a leader of ZooKeeper."""
    with reconfigurable(tmp_path) as mixed:
        founders(mixed)
        ours = [reconfig(mixed, 1, *fields) for fields in WRONG]
        mixed.stop_ours(2)
        mixed.start(2)
        mixed.stop_ours(3)
        mixed.start_ours(3)
        wait_for(lambda: mixed.leader == 2)
        theirs = [reconfig(mixed, 1, *fields) for fields in WRONG]
        assert all(isinstance(each, int) for each in theirs), theirs
        assert [ErrorCode(each) for each in ours] == [ErrorCode(each) for each in theirs]


def test_our_servers_follow_the_changes_of_a_leader_of_zookeeper(tmp_path: Path) -> None:
    with ExitStack() as stack:
        mixed = stack.enter_context(reconfigurable(tmp_path, (4,)))
        mixed.start(2, 3)
        mixed.start_ours(1)
        other = 5 - mixed.leader
        load = stack.enter_context(Load(lambda: mixed.client(1)))
        mixed.start_ours(4)
        changes(mixed, 1, joining=line(mixed, 4))
        load.goes_on()
        check_same_config(mixed)
        changes(mixed, 4, joining=line(mixed, 1, "observer"))
        load.goes_on()
        wait_for(lambda: "Mode: observer" in apache.ask(mixed.servers[1].port, "srvr"))
        changes(mixed, 4, joining=line(mixed, 1), leaving=f"{other}")
        wait_for(lambda: "Mode: follower" in apache.ask(mixed.servers[1].port, "srvr"))
        load.goes_on()
        leader_leaves(mixed, 4)
        load.goes_on()
        assert all(sorted(members_of(mixed, sid)) == [1, 4] for sid in mixed.running)
        check_all_written(mixed, load)
