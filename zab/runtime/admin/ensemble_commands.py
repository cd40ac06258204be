"""Commands about this server's settings and role, and about the leader, the voters and the observers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zab.core.addresses import with_port
from zab.core.ensemble import NO_HOST, Role, Server
from zab.core.messages import State
from zab.core.zxid import Zxid, counter_of, epoch_of

if TYPE_CHECKING:
    from zab.runtime.store_server.server_runtime import ServerRuntime


def configuration(server: ServerRuntime) -> Mapping[str, object]:
    settings = server.settings
    disk = server.member.disk_status()
    values: dict[str, object] = {
        "client_port": server.ports.client or -1,
        "data_dir": disk.path,
        "data_log_dir": disk.log_path,
        "tick_time": settings.tick_ms,
        "max_client_cnxns": settings.connections_per_host_max,
        "min_session_timeout": settings.timeout_ms(0),
        "max_session_timeout": settings.timeout_ms((1 << 31) - 1),
        "server_id": server.me if len(server.member.status().ensemble.servers) > 1 else 0,
        "client_port_listen_backlog": -1,
    }
    return values


def initial_configuration(server: ServerRuntime) -> Mapping[str, object]:
    """Return null, because a configuration may contain passwords."""
    return {"initial_configuration": None}


def is_read_only(server: ServerRuntime) -> Mapping[str, object]:
    return {"read_only": server.clients.leader.read_only}


def leader(server: ServerRuntime) -> Mapping[str, object]:
    status = server.member.status()
    if server.mode == "standalone":
        return {"error": "server is not initialized"}  # as ZooKeeper answers for a server without an ensemble
    found = status.ensemble.by_id.get(status.role.leader) if status.role.leader is not None else None
    return {
        "is_leader": server.role.leading,
        "leader_id": -1 if status.role.leader is None else status.role.leader,
        "leader_ip": "" if found is None or found.host == NO_HOST else found.host,
    }


def observers(server: ServerRuntime) -> Mapping[str, object]:
    """List the synchronized observers of a leader. A follower has none: zab's observers connect to the leader."""
    status = server.member.status()
    found = []
    if server.role.leading:
        for link in status.links:
            if not link.dialled and link.peer in status.synced and link.peer not in status.ensemble.voters:
                member = status.ensemble.by_id.get(link.peer)
                found.append({
                    "remote_socket_address": "" if member is None else _address(member, member.quorum_port),
                    "sid": link.peer,
                    "established": 0,
                    "queued_packets": -1,
                    "queued_packets_size": link.queued_bytes,
                    "packets_received": -1,
                    "packets_sent": -1,
                    "requests": -1,
                })  # fmt: skip
    return {"synced_observers": len(found), "observers": found}


def voting_view(server: ServerRuntime) -> Mapping[str, object]:
    status = server.member.status()
    if len(status.ensemble.servers) == 1 and status.ensemble.servers[0].host == NO_HOST:
        return {"current_config": {}}
    return {
        "current_config": {
            str(member.id): {
                "server_addresses": [_address(member, member.quorum_port)],
                "election_addresses": [_address(member, member.election_port)],
                "client_address": _client_address(member),
                "learner_type": "participant" if member.role is Role.PARTICIPANT else "observer",
            }
            for member in status.ensemble.servers
            if member.id in status.ensemble.voters
        }
    }


def zabstate(server: ServerRuntime) -> Mapping[str, object]:
    status = server.member.status()
    member = status.ensemble.by_id.get(server.me)
    voting = server.me in status.ensemble.voters
    phase = "broadcast" if status.role.serving else ("election" if status.role.state is State.LOOKING else "discovery")
    if len(status.ensemble.servers) == 1 or member is None:
        return {"voting": voting, "zabstate": phase}
    zxid = Zxid(server.machine.zxid)
    return {
        "myid": server.me,
        "is_leader": server.role.leading,
        "quorum_address": _addresses(member, member.quorum_port),
        "election_address": _addresses(member, member.election_port),
        "client_address": _client_address(member),
        "voting": voting,
        "last_zxid": f"{zxid:#x}",
        "zab_epoch": epoch_of(zxid),
        "zab_counter": counter_of(zxid),
        "zabstate": phase,
    }


def _address(member: Server, port: int) -> str:
    return with_port(member.host, port)


def _client_address(member: Server) -> str:
    return "" if member.client_port is None else with_port(member.client_host or "0.0.0.0", member.client_port)


def _addresses(member: Server, port: int) -> Mapping[str, object]:
    """Return the one address of a server in each of the forms in which ZooKeeper shows a set of addresses."""
    address = _address(member, port)
    return {
        "empty": False,
        "all_addresses": [address],
        "wildcard_addresses": [f"0.0.0.0:{port}"],
        "all_ports": [port],
        "all_host_strings": [member.host],
        "reachable_address": address,
        "all_reachable_addresses": [address],
        "all_reachable_addresses_or_all": [address],
        "reachable_or_one": address,
        "one": address,
    }
