"""The ports between servers against servers that should not be there, over real sockets."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trio
from attrs import evolve

import zab
from tests.integration.certificates import Authority
from tests.integration.cluster import cluster, loopback
from tests.integration.stores import PORTS, Stores
from zab.core.ensemble import Ensemble, Role, Server
from zab.core.zxid import NOTHING, ServerId
from zab.net.network import TlsConfig
from zab.net.tls.tls_stream import TlsStream
from zab.service.limits import Limits
from zab.store.acl import digest_id
from zab.wire.greeting import VERSION, Hello, Purpose, Unwelcome, Welcome
from zab.wire.peer import Channel, decode, encode

ROOT = b"super:secret"


@pytest.mark.parametrize("agreed", [False, True])
async def test_a_super_user_of_one_server_is_one_where_all_have_it(tmp_path: Path, agreed: bool) -> None:
    """The follower proves its client's identity; the leader decides whether a super user exists."""
    with_root = evolve(PORTS, super_digest=digest_id(ROOT))
    async with trio.open_nursery() as nursery:
        running = Stores(nursery, tmp_path, 3, {})
        for sid in running.ports:
            await running.start(sid, client_ports=with_root if agreed or sid == 1 else PORTS)
        assert await running.leader() != 1
        async with running.servers[2].session() as owner, running.servers[1].session() as root:
            await owner.add_auth("digest", b"joe:joe")
            await owner.create("/mine", b"1", acl=zab.CREATOR_ACL)
            await root.sync("/mine")
            await root.add_auth("digest", ROOT)
            if agreed:
                await root.set("/mine", b"2")
            else:
                with pytest.raises(zab.NoAuth):
                    await root.set("/mine", b"2")
        nursery.cancel_scope.cancel()


# -- servers that are no members ---------------------------------------------------------------------------


def observing(ensemble: Ensemble, server: Server) -> Ensemble:
    """The ensemble for a server that is to join: the members, and itself as an observer."""
    return evolve(ensemble.changed([evolve(server, role=Role.OBSERVER)]), version=NOTHING)


async def until(text: str, caplog: pytest.LogCaptureFixture) -> None:
    with trio.fail_after(60):
        while text not in caplog.text:
            await trio.sleep(0.01)


async def answer(server: Server, purpose: Purpose, sid: int, tls: ssl.SSLContext | None = None) -> object:
    """Greet a port of a server as server `sid`, and return its answer."""
    port = server.quorum_port if purpose is Purpose.LEARNER else server.election_port
    plain = await trio.open_tcp_stream(server.host, port)
    async with (
        plain if tls is None else TlsStream(plain, tls, server_side=False, server_hostname=server.host) as stream
    ):
        await stream.send_all(encode(Hello(VERSION, "zab", ServerId(sid), purpose.value, "127.0.0.1", 1)))
        with trio.fail_after(60):
            reply = await stream.receive_some()
    return decode(Channel.GREETING, reply[4:])


@pytest.mark.parametrize("purpose", list(Purpose))
async def test_a_server_in_no_membership_is_refused_at_both_ports(tmp_path: Path, purpose: Purpose) -> None:
    async with cluster(tmp_path, 2) as made:
        await made.serving()
        server = made.ensemble.servers[0]
        refusal = await answer(server, purpose, 9)
        assert isinstance(refusal, Unwelcome)
        assert "server 9 is not a member" in refusal.reason
        assert isinstance(await answer(server, purpose, 2), Welcome)


@pytest.mark.parametrize("admitted", [False, True])
async def test_server_outside_the_membership_reads_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, admitted: bool
) -> None:
    async with cluster(tmp_path, admit_non_members=admitted) as made:
        leader = await made.serving()
        await leader.submit(b"secret")
        (spare,) = loopback(1, first=9)
        stranger = await made.start(9, ensemble=observing(made.ensemble, spare))
        if admitted:
            with trio.fail_after(60):
                await stranger.wait_serving()
                await stranger.barrier()
            assert made.machines[9].log == [b"secret"]
        else:
            await until("election_link_refused", caplog)
            await until("it refused this server: server 9 is not a member", caplog)
            assert not stranger.status().role.serving
            assert 9 not in {link.peer for link in leader.status().links}
            assert made.machines[9].log == []


async def test_a_server_that_was_added_as_an_observer_joins_and_gets_a_vote(tmp_path: Path) -> None:
    """The order that needs no open peer port: add it, start it, give it a vote."""
    async with cluster(tmp_path) as made:
        leader = await made.serving()
        await leader.submit(b"before")
        (spare,) = loopback(1, first=4)
        with trio.fail_after(60):
            added = await leader.reconfigure(joining=[evolve(spare, role=Role.OBSERVER)])
            assert added.observers == (4,)
            joined = await made.start(4, ensemble=observing(made.ensemble, spare))
            await joined.wait_serving()
            assert (await leader.reconfigure(joining=[spare])).voters == (1, 2, 3, 4)
            await made.serving()
            assert await made.agree() == [b"before"]


async def test_removed_server_applies_its_removal_and_is_disconnected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(tmp_path, limits=Limits(parting_ms=1_000)) as made:
        leader = await made.serving()
        gone = await made.follower()
        await gone.reconfigure(leaving=[gone.me])
        assert gone.me not in gone.status().ensemble.by_id, "it learns of its removal"
        assert await gone.submit(b"a last one") == 1, "and may finish what it was asked"
        with trio.fail_after(60):
            while gone.status().role.serving:
                await trio.sleep(0.01)
        await until(f"it refused this server: server {gone.me} is not a member", caplog)
        assert gone.me not in {link.peer for link in leader.status().links}
        assert await leader.submit(b"undisturbed") == 2
        assert made.machines[gone.me].log == [b"a last one"]


async def test_a_server_that_missed_a_change_catches_up(tmp_path: Path) -> None:
    """The leader is unknown to it: members of both memberships send it the change."""
    async with cluster(tmp_path, 5) as made:
        await made.serving()
        await made.stop(1)
        leader = await made.serving()
        (spare,) = loopback(1, first=6)
        with trio.fail_after(120):
            await leader.reconfigure(joining=[spare])
            await made.start(6, ensemble=observing(made.ensemble, spare))
            await made.serving()
            await made.stop(leader.me)
            assert (await made.serving()).me == 6, "of those with the same history the one with the highest id"
            await made.members[6].submit(b"missed")
            first = await made.start(1)
            await first.wait_serving()
            await first.barrier()
            assert first.status().ensemble.voters == (1, 2, 3, 4, 5, 6)
            assert made.machines[1].log == [b"missed"]


# -- certificates ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("purpose", list(Purpose))
async def test_a_certificate_speaks_for_its_own_server_only(tmp_path: Path, purpose: Purpose) -> None:
    """All certificates are signed by the servers' trusted authority."""
    ca = Authority(tmp_path / "tls")
    servers = [*loopback(1, "127.0.0.1"), *loopback(1, "127.0.0.2", first=2), *loopback(1, "127.0.0.3", first=3)]
    files = {int(server.id): ca.issue(str(server.id), server.host).path for server in servers}
    tls = {sid: TlsConfig(path, path, ca.path) for sid, path in files.items()}
    client = ca.issue("joe", "client.example").path
    async with cluster(tmp_path, Ensemble(tuple(servers)), start=False) as made:
        for sid in (1, 2):
            await made.start(sid, tls=tls[sid])
        await made.serving()
        second = tls[2].client_context
        assert isinstance(await answer(servers[0], purpose, 2, second), Welcome)
        for sid, context in ((3, second), (2, TlsConfig(client, client, ca.path).client_context)):
            refusal = await answer(servers[0], purpose, sid, context)
            assert isinstance(refusal, Unwelcome)
            assert f"certificate error: it claims to be server {sid}, at 127.0.0.{sid}" in refusal.reason


@pytest.mark.parametrize("named", [True, False])
async def test_open_port_admits_certificates_that_name_their_host(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, named: bool
) -> None:
    ca = Authority(tmp_path / "tls")
    good, bad = ca.issue("good", "127.0.0.1").path, ca.issue("bad", "127.0.0.2").path
    async with cluster(tmp_path, 2, admit_non_members=True, tls=TlsConfig(good, good, ca.path)) as made:
        await made.serving()
        (spare,) = loopback(1, first=9)
        path = good if named else bad
        tls = TlsConfig(path, path, ca.path)
        joining = await made.start(9, ensemble=observing(made.ensemble, spare), tls=tls)
        if named:
            with trio.fail_after(60):
                await joining.wait_serving()
        else:
            await until("certificate error: it claims to be server 9, at 127.0.0.1", caplog)
            assert not joining.status().role.serving


async def test_a_write_behind_the_end_of_a_tls_stream_is_a_broken_stream(tmp_path: Path) -> None:
    """OpenSSL has an error of its own for it. Any other exception than Trio's would end the server.

    Python before 3.11.4 disables that error. Then the closed socket refuses the data.
    """
    ca = Authority(tmp_path / "tls")
    path = ca.issue("server").path
    tls = TlsConfig(path, path, ca.path)
    ours, theirs = trio.socket.socketpair()
    server = TlsStream(trio.SocketStream(ours), tls.server_context)
    client = TlsStream(trio.SocketStream(theirs), tls.client_context, server_side=False, server_hostname="localhost")
    async with server, client, trio.open_nursery() as nursery:
        nursery.start_soon(client.send_all, b"hello")
        assert await server.receive_some() == b"hello"
        await client.transport_stream.send_eof()  # without close_notify
        assert await server.receive_some() == b""
        await client.transport_stream.aclose()
        with pytest.raises(trio.BrokenResourceError):
            await server.send_all(b"anybody?")
