"""Faults of a network: malice, mistakes and age."""

from __future__ import annotations

import logging
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import pytest
import trio
import trustme
from attrs import evolve

import zab
from bench.ports import free_ports
from tests.integration.certificates import Authority
from tests.integration.cluster import FAST, Cluster, Recorder, cluster, loopback
from tests.integration.faults import FaultyNetwork
from zab.core.ensemble import Ensemble, Server
from zab.core.errors import ConfigError, OutcomeUnknown
from zab.core.zxid import ServerId
from zab.net.cannot_listen import PortTaken
from zab.net.network import TlsConfig
from zab.net.tls.quorum_tls import QuorumTls
from zab.net.tls.tls_settings import TlsPortSettings
from zab.runtime.member import open_member
from zab.runtime.peer_handshake import described
from zab.service.limits import Limits
from zab.wire.frames import frame
from zab.wire.greeting import VERSION, Hello, Unwelcome
from zab.wire.peer import Channel, decode, encode

# -- strangers --------------------------------------------------------------------------------------------


def hello(server: int = 9, ensemble: str = "zab", purpose: str = "learner", version: int = VERSION) -> bytes:
    return encode(Hello(version, ensemble, ServerId(server), purpose, "127.0.0.1", 1))


async def answer_to(server: Server, port: int, data: bytes) -> bytes:
    """Return the received bytes until the connection is closed."""
    stream = await trio.open_tcp_stream(server.host, port)
    reply = b""
    async with stream:
        await stream.send_all(data)
        with trio.fail_after(120):
            try:
                while part := await stream.receive_some():
                    reply += part
            except trio.BrokenResourceError:
                pass
    return reply


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (hello(ensemble="other"), "it belongs to the ensemble 'other', this server to 'zab'"),
        (
            hello(version=VERSION + 1),
            f"it speaks version {VERSION + 1} of the peer protocol, and this server version {VERSION}",
        ),
        (hello(purpose="election"), "it connects for 'election', and this port is for 'learner'"),
        (hello(server=1), "it claims to be server 1, which is this server"),
    ],
)
async def test_both_sides_log_the_reason_of_a_refused_stranger(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, data: bytes, says: str
) -> None:
    async with cluster(tmp_path, 1) as made:
        server = made.ensemble.servers[0]
        reply = await answer_to(server, server.quorum_port, data)
        refusal = decode(Channel.GREETING, reply[4:])
        assert isinstance(refusal, Unwelcome)
        assert says in refusal.reason
        while "peer_refused" not in caplog.text:
            await trio.sleep(0.001)
        (told,) = [record.message for record in caplog.records if record.message.startswith("peer_refused")]
        assert "server=1" in told
        assert "port=learner peer=127.0.0.1:" in told
        assert says in told
        assert await made.members[1].submit(b"undisturbed") == 1


async def test_two_ensembles_with_mixed_up_addresses_stay_apart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(tmp_path / "one") as one:
        await (await one.serving()).submit(b"of one")
        mixed = Ensemble((*one.ensemble.servers[:2], *loopback(1, first=3)))
        async with cluster(tmp_path / "two", mixed, start=False, name="two") as two:
            await two.start(3)
            says = "it belongs to the ensemble 'two', this server to 'zab'", "it refused this server"
            while not all(each in caplog.text for each in says):
                await trio.sleep(0.01)
            assert not two.members[3].status().role.serving
        assert await one.agree() == [b"of one"]


@pytest.mark.parametrize("which", ["quorum_port", "election_port"])
async def test_garbage_closes_only_its_own_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, which: str
) -> None:
    random = Random(7)
    noise = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\0",
        b"\xff" * 100,
        frame(b"\x93\x01\x02\x03"),
        frame(random.randbytes(50)),
        *(random.randbytes(random.randrange(1, 200)) for _ in range(30)),
    ]
    async with cluster(tmp_path) as made:
        await made.serving()
        server = made.ensemble.servers[0]
        port = getattr(server, which)
        before = len(caplog.records)
        async with trio.open_nursery() as nursery:
            for data in noise:
                nursery.start_soon(send_and_close, server.host, port, data)
        assert await made.members[1].submit(b"undisturbed") == 1

        def told() -> int:
            return sum(record.levelno >= logging.WARNING for record in caplog.records[before:])

        while not told():  # somebody should be told
            await trio.sleep(0.01)
        assert told() < len(noise) / 2, "but not every time"


async def send_and_close(host: str, port: int, data: bytes) -> None:
    stream = await trio.open_tcp_stream(host, port)
    async with stream:
        await stream.send_all(data)


async def test_garbage_behind_a_proper_hello(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        await made.serving()
        leader = made.ensemble.by_id[(await made.serving()).me]
        for data in (b"\xff" * 50, frame(b"garbage"), frame(b"\x92\x30\xc0"), frame(b"\x92\x1c\xc0")):
            assert await answer_to(leader, leader.quorum_port, hello() + data)  # it was welcome, and then closed
            await send_and_close(leader.host, leader.election_port, hello(purpose="election") + data)
        assert await made.members[1].submit(b"undisturbed") == 1


async def test_silent_connection_is_not_waited_for(tmp_path: Path) -> None:
    limits = Limits(handshake_ms=6_000, handshakes_max=5)
    async with cluster(tmp_path, 1, limits=limits) as made:
        server = made.ensemble.servers[0]
        silent = [await trio.open_tcp_stream(server.host, server.quorum_port) for _ in range(5)]
        # One more, and the first of these has had its time. It is not the sixth who has to wait.
        assert await answer_to(server, server.quorum_port, hello(ensemble="other")) != b""
        with trio.fail_after(120):
            assert await silent[0].receive_some() == b""
        with trio.move_on_after(0.1) as still_waited_for:
            await silent[1].receive_some()
        assert still_waited_for.cancelled_caught
        for stream in silent:
            with trio.fail_after(120):
                assert await stream.receive_some() == b""
            await stream.aclose()
        assert await answer_to(server, server.quorum_port, hello(ensemble="other")) != b""


@pytest.mark.mechanism(97)
async def test_members_connect_despite_many_silent_connections(tmp_path: Path) -> None:
    """Hundreds of connections on both ports of all servers, repeatedly, during an election."""
    limits = Limits(handshakes_max=5)
    async with cluster(tmp_path, start=False, limits=limits) as made, trio.open_nursery() as nursery:
        crowd: list[trio.SocketStream] = []

        async def press(server: Server, port: int) -> None:
            while True:
                with suppress(OSError):
                    crowd.append(await trio.open_tcp_stream(server.host, port))
                await trio.sleep(0.02)

        for server in made.ensemble.servers:
            await made.start(server.id)
            nursery.start_soon(press, server, server.election_port)
            nursery.start_soon(press, server, server.quorum_port)
        with trio.fail_after(120):
            leader = await made.serving()
            for number in range(20):
                assert await leader.submit(b"%d" % number) == number + 1
            await made.stop(leader.me)
            await (await made.serving()).submit(b"another one leads")
        nursery.cancel_scope.cancel()
    for stream in crowd:
        await trio.aclose_forcefully(stream)


async def test_half_a_hello_is_not_waited_for_either(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, limits=Limits(handshake_ms=100)) as made:
        server = made.ensemble.servers[0]
        for length in (1, 3, 4, 5, len(hello()) - 1):
            assert await answer_to(server, server.election_port, hello()[:length]) == b""


async def test_taken_port_is_reported(tmp_path: Path) -> None:
    (server,) = loopback(1)
    async with open_member(Recorder(), tmp_path / "a", server_id=1, ensemble=Ensemble((server,)), settings=FAST):
        with pytest.raises(PortTaken, match=f"cannot listen on 127.0.0.1:{server.election_port}"):
            async with open_member(
                Recorder(), tmp_path / "b", server_id=1, ensemble=Ensemble((server,)), settings=FAST
            ):
                pass


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("server.1=10.99.99.99:{free}:{other}", "This machine has no such address. Use listen_host= "),
        ("server.1=no-such-host.invalid:{free}:{other}", "The name has no address. Use listen_host= "),
        ("server.1=127.0.0.1:{taken}:{free}", "for the learner port"),
        ("server.1=127.0.0.1:{free}:{taken}", "for the election port"),
        ("server.1=127.0.0.1:{free}:{other};{taken}", "for clients"),
    ],
)
async def test_first_start_without_a_port_to_listen_at_leaves_no_files(tmp_path: Path, line: str, why: str) -> None:
    (server,) = loopback(1)
    path = tmp_path / "new"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = line.format(taken=port, free=server.quorum_port, other=server.election_port)
        client_port = port if ";" in line else None
        ensemble = Ensemble.parse(text)
        with pytest.raises(zab.CannotListen, match=why):
            async with zab.open_store(path, ensemble=ensemble, server_id=1, client_port=client_port):
                pass
    assert not path.exists()


async def test_reason_of_a_refused_connection_does_not_repeat_the_address() -> None:
    (port,) = free_ports(1)
    with pytest.raises(OSError, match="failed") as refused:
        await trio.open_tcp_stream("127.0.0.1", port)
    assert described(refused.value) == "Connection refused"
    with pytest.raises(socket.gaierror) as unknown:
        await trio.open_tcp_stream("no-such-host.invalid", port)
    assert "not known" in described(unknown.value)


# -- addresses ----------------------------------------------------------------------------------------------


async def test_ipv6(tmp_path: Path) -> None:
    try:
        ensemble = Ensemble(loopback(3, "::1"))
    except OSError:
        pytest.skip("this machine has no IPv6")
    async with cluster(tmp_path, ensemble) as made:
        await made.serving()
        for member in made.members.values():
            await member.submit(b"six")
        assert await made.agree() == [b"six"] * 3


async def test_names_are_resolved(tmp_path: Path) -> None:
    ensemble = Ensemble(tuple(evolve(server, host="localhost") for server in loopback(3)))
    async with cluster(tmp_path, ensemble) as made:
        assert await (await made.serving()).submit(b"by name") == 1


async def test_a_server_that_moved_is_found_at_its_new_address(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        leader = await made.serving()
        moving = next(sid for sid in made.members if sid != leader.me)
        quorum_port, election_port = free_ports(2)
        moved = evolve(made.ensemble.by_id[ServerId(moving)], quorum_port=quorum_port, election_port=election_port)
        await leader.reconfigure(joining=[moved])
        await made.members[moving].barrier()
        await made.stop(leader.me)
        successor = await made.serving()
        assert await successor.submit(b"found") == 1
        for port in (quorum_port, election_port):
            while True:
                try:
                    await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
                    break
                except OSError:
                    await trio.sleep(0.01)


# -- TLS ----------------------------------------------------------------------------------------------------


class Certificates:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.authority = trustme.CA()
        path.mkdir(exist_ok=True)
        self._ca = str(path / "ca.pem")
        self.authority.cert_pem.write_to_path(self._ca)

    def config(self, name: str, signed_by: trustme.CA | None = None, check_hostname: bool = False) -> TlsConfig:
        certificate = (signed_by or self.authority).issue_cert("127.0.0.1")
        cert, key = str(self._path / f"{name}.pem"), str(self._path / f"{name}.key")
        with open(cert, "wb") as file:
            file.write(b"".join(part.bytes() for part in certificate.cert_chain_pems))
        certificate.private_key_pem.write_to_path(key)
        return TlsConfig(cert, key, self._ca, check_hostname)


@pytest.mark.parametrize("check_hostname", [False, True])
async def test_members_speak_tls(tmp_path: Path, check_hostname: bool) -> None:
    certificates = Certificates(tmp_path / "tls")
    async with cluster(tmp_path, start=False) as made:
        for sid in made.ensemble.by_id:
            await made.start(sid, tls=certificates.config(str(sid), check_hostname=check_hostname))
        leader = await made.serving()
        for member in made.members.values():
            await member.submit(b"secret")
        assert await made.agree() == [b"secret"] * 3
        await made.stop(leader.me)
        assert await (await made.serving()).submit(b"still") == 4


async def test_server_without_a_trusted_certificate_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificates = Certificates(tmp_path / "tls")
    async with cluster(tmp_path, start=False) as made:
        for sid in (1, 2):
            await made.start(sid, tls=certificates.config(str(sid)))
        await made.serving()
        await made.start(3, tls=certificates.config("3", signed_by=trustme.CA()))
        server = made.ensemble.by_id[ServerId(1)]
        for port in (server.quorum_port, server.election_port):
            assert b"zab" not in await answer_to(server, port, hello()), "plain text"
            context = ssl.create_default_context()
            certificates.authority.configure_trust(context)
            stream = trio.SSLStream(await trio.open_tcp_stream(server.host, port), context, server_hostname="127.0.0.1")
            with pytest.raises(trio.BrokenResourceError):  # TLS, but nothing to show
                await stream.send_all(hello())
                await stream.receive_some()
            await trio.aclose_forcefully(stream)
        assert not made.members[3].status().role.serving
        assert await made.members[1].submit(b"two are enough") == 1

        def said(event: str, what: str, *more: str) -> bool:
            lines = [record.getMessage() for record in caplog.records]
            return any(line.startswith(event) and all(each in line for each in (what, *more)) for line in lines)

        for event, *words in (
            (
                "election_link_refused",
                "server=3",
                "certificate error: the other side does not trust the signer of this side's certificate",
            ),
            ("peer_refused", "one side uses TLS, the other plain text"),
            ("peer_refused", "certificate error: unable to get local issuer certificate"),
        ):
            while not said(event, *words):
                await trio.sleep(0.01)


async def test_connecting_server_logs_the_certificate_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    certificates, others = Certificates(tmp_path / "tls"), Certificates(tmp_path / "others")
    async with cluster(tmp_path, start=False) as made:
        await made.start(1, tls=certificates.config("1"))
        await made.start(2, tls=others.config("2"))
        while "certificate error: self-signed certificate" not in caplog.text:
            await trio.sleep(0.05)


async def test_a_peer_with_a_certificate_for_another_host(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ca = Authority(tmp_path / "tls")
    async with cluster(tmp_path, start=False) as made:
        for sid, host in ((1, "127.0.0.1"), (2, "127.0.0.1"), (3, "10.0.0.3")):
            settings = TlsPortSettings(
                ca.issue(str(sid), host), ca.trust, verify_client_host=True, verify_server_host=False
            )
            await made.start(sid, tls=QuorumTls(settings))
        with trio.fail_after(120):
            while (
                "certificate error: it claims to be server 3, at 127.0.0.1, but its certificate names 10.0.0.3"
                not in caplog.text
            ):
                await trio.sleep(0.05)
        assert await made.members[1].submit(b"two are enough") == 1
        assert not made.members[3].status().role.serving


async def test_peers_with_key_stores(tmp_path: Path) -> None:
    """Key stores as in `ssl.quorum.*`, with host names checked at both ends."""
    ca = Authority(tmp_path / "tls")
    async with cluster(tmp_path, start=False) as made:
        for sid in made.ensemble.by_id:
            store = ca.as_pkcs12(ca.issue(str(sid), "127.0.0.1"))
            properties = {
                "ssl.quorum.keyStore.location": store.path,
                "ssl.quorum.keyStore.password": store.password or "",
                "ssl.quorum.trustStore.location": ca.path.name,
            }
            tls = TlsPortSettings.from_properties(properties, quorum=True, folder=ca.folder)
            assert tls is not None
            await made.start(sid, tls=QuorumTls(tls))
        assert await (await made.serving()).submit(b"secret") == 1


async def test_servers_with_and_without_tls_meet_at_ports_that_accept_both(tmp_path: Path) -> None:
    ca = Authority(tmp_path / "tls")
    settings = TlsPortSettings(ca.issue("server", "127.0.0.1"), ca.trust, unify=True)
    plain, tls = QuorumTls(settings, dials=False), QuorumTls(settings)
    async with cluster(tmp_path, start=False) as made:
        for sid, how in ((1, plain), (2, tls), (3, plain)):
            await made.start(sid, tls=how)
        for member in made.members.values():
            await member.barrier()
        for sid, how in ((1, tls), (3, tls), (3, QuorumTls(evolve(settings, unify=False)))):
            await made.stop(sid)
            await made.start(sid, tls=how)
            assert await made.members[sid].submit(b"both") > 0


async def test_invalid_certificate_file_is_reported_at_the_start(tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("no certificate")
    with pytest.raises(ConfigError, match="bad.pem: it contains no certificate in PEM format"):
        open_member(Recorder(), tmp_path, server_id=1, ensemble=Ensemble(loopback(1)), tls=TlsConfig(bad, bad, bad))
        async with open_member(
            Recorder(), tmp_path / "data", server_id=1, ensemble=Ensemble(loopback(1)), tls=TlsConfig(bad, bad, bad)
        ):
            pass


# -- slow, deaf, and cut --------------------------------------------------------------------------------------


async def faulty(made: Cluster) -> dict[int, FaultyNetwork]:
    networks = {sid: FaultyNetwork() for sid in made.ensemble.by_id}
    for sid, network in networks.items():
        await made.start(sid, network=network)
    return {int(sid): network for sid, network in networks.items()}


@contextmanager
def healed(network: FaultyNetwork) -> Iterator[None]:
    try:
        yield
    finally:
        network.heal()


async def test_a_peer_that_does_not_read_is_cut_and_comes_back(tmp_path: Path) -> None:
    limits = Limits(link_bytes_max=1 << 20, inbox_bytes_max=64 << 10)
    async with cluster(tmp_path, start=False, limits=limits) as made:
        networks = await faulty(made)
        leader = await made.serving()
        slow = next(sid for sid in made.members if sid != leader.me)
        networks[slow].deafen()
        with healed(networks[slow]):
            for number in range(200):  # far more than the link's queue and the kernel's buffers hold
                with trio.fail_after(120):
                    await leader.submit(b"%d " % number + os.urandom(50_000))
            assert all(link.peer != slow or link.queued_bytes <= 1 << 20 for link in leader.status().links)
        await made.members[slow].barrier()
        assert len(await made.agree()) == 200


@pytest.mark.mechanism(99)
async def test_a_leader_that_is_cut_off_steps_down_and_its_requests_are_carried_out_once(tmp_path: Path) -> None:
    async with cluster(tmp_path, start=False) as made:
        networks = await faulty(made)
        old = await made.serving()
        await old.submit(b"before")
        await networks[old.me].cut()
        others = [member for member in made.members.values() if member is not old]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(old.submit, b"from the one cut off")
            assert await others[0].submit(b"from the others") == 2
            async for role in old.roles():
                if not role.serving:
                    break
            networks[old.me].heal()
        assert await made.agree() == [b"before", b"from the others", b"from the one cut off"]


async def test_a_link_that_bounces_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """The leader stays, the follower's links break again and again, with requests under way on them."""
    async with cluster(tmp_path, start=False) as made:
        networks = await faulty(made)
        leader = await made.serving()
        follower = next(member for member in made.members.values() if member is not leader)
        done: list[bytes] = []

        async def ask(lane: int) -> None:
            for number in range(60):
                request = b"%d.%d" % (lane, number)
                await follower.submit(request)
                done.append(request)

        async with trio.open_nursery() as nursery:
            for lane in range(10):
                nursery.start_soon(ask, lane)
            for bounce in range(1, 8):
                while len(done) < bounce * 60:
                    await trio.sleep(0.001)
                await networks[follower.me].cut()
                networks[follower.me].heal()
        log = await made.agree()
        assert sorted(log) == sorted(done)
        assert len(log) == 600
        assert leader.status().counters.elections == 1


async def test_a_request_that_a_snapshot_may_contain_has_an_unknown_end(tmp_path: Path) -> None:
    limits = Limits(snap_entries=50, snapshots_kept=1)
    settings = evolve(FAST, window_entries=20)
    async with cluster(tmp_path, start=False, limits=limits, settings=settings) as made:
        networks = await faulty(made)
        leader = await made.serving()
        follower = next(member for member in made.members.values() if member is not leader)
        await follower.submit(b"fine")
        network = networks[follower.me]
        outcome: list[object] = []

        async def submit(request: bytes) -> None:
            try:
                outcome.append((request, await follower.submit(request)))
            except OutcomeUnknown:
                outcome.append((request, "unknown"))

        with healed(network):
            async with trio.open_nursery() as nursery:
                network.deafen()
                nursery.start_soon(submit, b"doubtful")
                while b"doubtful" not in made.machines[leader.me].log:
                    await trio.sleep(0.001)
                await network.cut()
                network.hearing.set()
                async for role in follower.roles():
                    if not role.serving:
                        break
                nursery.start_soon(submit, b"never sent")
                for number in range(400):
                    await leader.submit(b"%d" % number)
                while leader.status().counters.snapshots < 3:
                    await trio.sleep(0.001)
                network.heal()
        assert follower.status().counters.restores == 1
        assert outcome == [(b"doubtful", "unknown"), (b"never sent", 403)]
        assert (await made.agree()).count(b"doubtful") == 1


async def test_both_ends_report_a_synchronization_that_the_network_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "zab")
    network = FaultyNetwork()

    def reported(event: str, **fields: object) -> list[dict[str, object]]:
        lines = [getattr(record, "fields", {}) for record in caplog.records if getattr(record, "event", "") == event]
        return [line for line in lines if fields.items() <= line.items()]

    def deafen_in_synchronization(record: logging.LogRecord) -> bool:
        if getattr(record, "event", "") == "synchronize" and getattr(record, "fields", {}).get("peer") == 3:
            network.deafen()
        return True

    async with cluster(tmp_path, start=False) as made:
        for sid in (1, 2):
            await made.start(sid)
        leader = (await made.serving()).me
        await made.members[leader].submit(bytes(1000))
        logging.getLogger("zab").addFilter(deafen_in_synchronization)
        try:
            await made.start(3, network=network)
            with trio.fail_after(30):
                while network.hearing.is_set():
                    await trio.sleep(0.01)
                await network.cut()
                network.hearing.set()
                ends = {"server": leader, "peer": 3}, {"server": 3, "peer": leader}
                while not all(reported("synchronization_cut", **end) for end in ends):
                    await trio.sleep(0.01)
        finally:
            logging.getLogger("zab").removeFilter(deafen_in_synchronization)
        for end in ends:
            line = reported("synchronization_cut", **end)[0]
            assert (line["init_ms"], line["sync_ms"]) == (FAST.init_ms, FAST.sync_ms)
            assert line["why"]
            assert {"bytes", "took_ms", "bytes_per_s"} <= line.keys()
