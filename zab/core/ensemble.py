"""The members, their votes, and the sets of servers that are a quorum.

An `Ensemble` is one version of the membership. Its text has the format of ZooKeeper's dynamic configuration, in
configuration files, in the log and in `/zookeeper/config`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from functools import cached_property, lru_cache
from typing import Final

from attrs import evolve, field, frozen

from zab.core.addresses import bracketed, with_port
from zab.core.errors import ConfigError
from zab.core.zxid import NOTHING, ServerId, Zxid

NO_HOST: Final = "embedded.invalid"
"""The host of a member without an address: no other server dials it, and it listens for none."""


class Role(Enum):
    """The voting right of a server: a participant votes, an observer does not."""

    PARTICIPANT = "participant"
    OBSERVER = "observer"


@frozen
class Server:
    """One `server.N=host:quorumPort:electionPort[:role][;[clientHost:]clientPort]` line.

    id             N
    host           the name or address that other servers dial
    quorum_port    where it listens for learners while it leads
    election_port  where it listens for votes
    role           whether it votes
    client_host    the address of its client port; None: all addresses
    client_port    None: not in the line
    """

    id: ServerId
    host: str
    quorum_port: int
    election_port: int
    role: Role = Role.PARTICIPANT
    client_host: str | None = None
    client_port: int | None = None

    def text(self) -> str:
        """Return the line of a configuration file for this server."""
        line = f"server.{self.id}={bracketed(self.host)}:{self.quorum_port}:{self.election_port}:{self.role.value}"
        if self.client_port is None:
            return line
        return f"{line};{with_port(self.client_host or '0.0.0.0', self.client_port)}"


@frozen
class Group:
    """One `group.G=sid:sid:...` line; its members are voters, each in exactly one group."""

    id: int
    members: tuple[ServerId, ...]


def _by_ascending_id(servers: Iterable[Server]) -> tuple[Server, ...]:
    return tuple(sorted(servers, key=lambda server: server.id))


def _by_ascending_number(groups: Iterable[Group]) -> tuple[Group, ...]:
    return tuple(sorted(groups, key=lambda group: group.id))


def _own_copy(weights: Mapping[ServerId, int]) -> dict[ServerId, int]:
    return dict(weights)


def faults(servers: Collection[Server], groups: Collection[Group], weights: Mapping[ServerId, int]) -> Iterator[str]:
    """Yield the reasons why these parts are not a valid ensemble.

    As in ZooKeeper's dynamic configuration (`QuorumPeerConfig`), each server has one entry, and weights are meaningful
    only with groups.
    """
    ids = Counter(server.id for server in servers)
    for sid, count in ids.items():
        if count > 1:
            yield f"server.{sid} is listed twice"
    for server in servers:
        if server.quorum_port == server.election_port:
            yield f"server.{server.id}: quorum port and election port are both {server.quorum_port}"
    for sid, weight in weights.items():
        if sid not in ids:
            yield f"weight.{sid}: there is no server.{sid}"
        if weight < 0:
            yield f"weight.{sid}={weight}: a weight must not be negative"
    if groups:
        yield from _group_faults(
            dict.fromkeys(server.id for server in servers if server.role is Role.PARTICIPANT), groups, weights
        )
    elif weights:
        yield "there are weights but no groups; a weight counts only inside a group"


def _group_faults(
    voters: Collection[ServerId], groups: Collection[Group], weights: Mapping[ServerId, int]
) -> Iterator[str]:
    """Yield the reasons why these groups do not define hierarchical quorums of the voters.

    As in ZooKeeper's `QuorumHierarchical`, each voter is in exactly one group, and groups have no other members. A
    quorum ignores the groups of weight 0, so at least one group needs a positive weight.
    """
    for number, count in Counter(group.id for group in groups).items():
        if count > 1:
            yield f"group.{number} is listed twice"
    grouped = Counter(sid for group in groups for sid in group.members)
    for sid, count in grouped.items():
        if count > 1:
            yield f"server {sid} is in more than one group"
    for sid in voters:
        if sid not in grouped:
            yield f"server {sid} votes but is in no group"
    for sid in grouped:
        if sid not in voters:
            yield f"server {sid} is in a group but is not a participant"
    if not any(weights.get(sid, 1) for sid in grouped if sid in voters):
        yield "every group has weight 0: no server could ever lead"


def shared_addresses(servers: Iterable[Server]) -> Iterator[str]:
    """Yield a message for each quorum or election address that two servers share."""
    taken: dict[tuple[str, int], ServerId] = {}
    for server in servers:
        for port in (server.quorum_port, server.election_port):
            other = taken.setdefault((server.host, port), server.id)
            if other != server.id:
                yield f"servers {other} and {server.id} have the same address, {with_port(server.host, port)}"


@frozen(slots=False)
class Ensemble:
    """One version of the membership.

    `version` is the zxid of the change that made the membership, a zxid with counter 0 if no change made it, or NOTHING
    if it has no version yet. The first leader replaces NOTHING by the zxid with counter 0 of its epoch, unless a change
    of the membership is already logged. The constructor raises ConfigError unless the parts are valid.

    servers  all members, by ascending id
    groups   a quorum needs a majority of the weight in a majority of these groups; empty: a majority of all voters
    weights  the weights that differ from 1, by server
    """

    servers: tuple[Server, ...] = field(converter=_by_ascending_id)
    version: Zxid = NOTHING
    groups: tuple[Group, ...] = field(default=(), converter=_by_ascending_number)
    weights: Mapping[ServerId, int] = field(factory=dict, converter=_own_copy, hash=False)

    def __attrs_post_init__(self) -> None:
        for fault in faults(self.servers, self.groups, self.weights):
            raise ConfigError(fault)

    # -- members ---------------------------------------------------------------------------------

    @cached_property
    def by_id(self) -> dict[ServerId, Server]:
        return {server.id: server for server in self.servers}

    @cached_property
    def voters(self) -> tuple[ServerId, ...]:
        return tuple(server.id for server in self.servers if server.role is Role.PARTICIPANT)

    @cached_property
    def _voter_set(self) -> frozenset[ServerId]:
        return frozenset(self.voters)

    @cached_property
    def _half(self) -> int:
        return len(self.voters) // 2

    @cached_property
    def observers(self) -> tuple[ServerId, ...]:
        return tuple(server.id for server in self.servers if server.role is Role.OBSERVER)

    def weight(self, sid: ServerId) -> int:
        """Return the weight of the server's vote; 0 if the server has no vote."""
        if sid not in self.voters:
            return 0
        return self.weights.get(sid, 1)

    def same_members(self, other: Ensemble) -> bool:
        """Return whether `other` differs at most in its version."""
        return evolve(self, version=NOTHING) == evolve(other, version=NOTHING)

    # -- quorums ---------------------------------------------------------------------------------

    def is_quorum(self, acks: Collection[ServerId]) -> bool:
        """Return whether these servers include a quorum. Any two quorums have a server in common."""
        if not self.groups:
            return len(self._voter_set.intersection(acks)) > self._half
        won = counted = 0
        for group in self.groups:
            total = self._group_weight(group)
            if not total:
                continue
            counted += 1
            won += sum(self.weight(sid) for sid in group.members if sid in acks) > total // 2
        return won > counted // 2

    def meets_every_quorum(self, acks: Collection[ServerId]) -> bool:
        """Return whether every quorum contains at least one of these servers."""
        return not self.is_quorum([sid for sid in self.voters if sid not in acks])

    def quorum_zxid(self, acked: Mapping[ServerId, Zxid]) -> Zxid:
        """Return the newest zxid that a quorum has acknowledged, or NOTHING.

        `acked` has the last zxid that each server has acknowledged.
        """
        if not self.groups:
            reached = sorted([acked.get(sid, NOTHING) for sid in self.voters], reverse=True)
            return reached[len(reached) // 2] if reached else NOTHING
        for zxid in sorted({acked.get(sid, NOTHING) for sid in self.voters}, reverse=True):
            if self.is_quorum([sid for sid in self.voters if acked.get(sid, NOTHING) >= zxid]):
                return zxid
        return NOTHING

    def _group_weight(self, group: Group) -> int:
        return sum(self.weight(sid) for sid in group.members)

    # -- text ------------------------------------------------------------------------------------

    def text(self) -> str:
        """Return the membership as `parse` reads it: a line for each server, group and weight, then the version."""
        return self._text

    @cached_property
    def _text(self) -> str:
        lines = [server.text() for server in self.servers]
        lines += [f"group.{group.id}={':'.join(str(sid) for sid in group.members)}" for group in self.groups]
        lines += [f"weight.{sid}={weight}" for sid, weight in sorted(self.weights.items())]
        lines.append(f"version={self.version:x}")
        return "\n".join(lines)

    @classmethod
    def parse(cls, text: str) -> Ensemble:
        """Parse a membership in the format of `text`. Raise ConfigError if it is invalid.

        Entries may be in any order, separated by newlines or commas.
        """
        return _parsed(text)

    # -- change ----------------------------------------------------------------------------------

    def changed(
        self, joining: Collection[Server] = (), leaving: Collection[ServerId] = (), *, version: Zxid = NOTHING
    ) -> Ensemble:
        """Return this membership without `leaving` and with `joining`, which also replace members with the same ids.

        Raise ConfigError if the membership has groups, if a leaving server is not a member, or if the result is
        invalid.
        """
        if self.groups:
            raise ConfigError("an ensemble with groups can only be replaced as a whole: give all its members")
        for sid in leaving:
            if sid not in self.by_id:
                raise ConfigError(f"server {sid} cannot leave: it is not a member")
        kept = {server.id: server for server in self.servers if server.id not in leaving}
        kept.update((server.id, server) for server in joining)
        return evolve(self, servers=tuple(kept.values()), version=version)

    def check_addresses(self) -> None:
        """Raise ConfigError if two members share a quorum or election address."""
        for fault in shared_addresses(self.servers):
            raise ConfigError(fault)


@lru_cache(64)
def _parsed(text: str) -> Ensemble:
    """Parse a membership text. Cached, because logs, disks and messages repeat the same few texts."""
    return Ensemble(*parts(text))


def parts(text: str) -> tuple[tuple[Server, ...], Zxid, tuple[Group, ...], dict[ServerId, int]]:
    """Parse an ensemble's text into servers, version, groups and weights.

    Raise ConfigError if an entry is invalid. Whether the entries fit together is not checked.
    """
    servers: list[Server] = []
    groups: list[Group] = []
    weights: dict[ServerId, int] = {}
    version = NOTHING
    for line in re.split(r"[\n,]", text):
        key, equals, value = line.strip().partition("=")
        if not key and not equals:
            continue
        kind, _, number = key.partition(".")
        if key == "version":
            version = Zxid(_number(value, line, 16))
        elif kind == "server" and equals:
            servers.append(parse_server(line.strip()))
        elif kind == "group" and equals:
            members = tuple(ServerId(_number(sid, line)) for sid in value.split(":"))
            groups.append(Group(_number(number, line), members))
        elif kind == "weight" and equals:
            weights[ServerId(_number(number, line))] = _number(value, line)
        else:
            raise _wrong(line.strip(), "expected server.N=, group.N=, weight.N= or version=")
    return tuple(servers), version, tuple(groups), weights


def parse_server(line: str) -> Server:
    """Parse a line like `server.1=host:2888:3888:participant;0.0.0.0:2181`. Raise ConfigError if it is invalid.

    An IPv6 address is written in brackets.
    """
    key, equals, value = line.partition("=")
    kind, dot, number = key.strip().partition(".")
    if not equals or kind != "server" or not dot:
        raise _wrong(line, "expected a line like server.1=host:2888:3888")
    quorum_side, semicolon, client_side = value.strip().partition(";")
    sid = _number(number, line)
    if not 0 < sid < 1 << 63:
        raise _wrong(line, f"{sid} is not a server id; ids are 1 to {(1 << 63) - 1}")
    host, ports = _split_host(quorum_side, line)
    parts = ports.split(":") if ports else []
    if len(parts) not in (2, 3):
        raise _wrong(line, "expected host:quorumPort:electionPort[:role]")
    role = Role.PARTICIPANT
    if len(parts) == 3:
        try:
            role = Role(parts[2].strip().lower())
        except ValueError:
            raise _wrong(line, f"the role must be participant or observer, not {parts[2]!r}") from None
    client_host: str | None = None
    client_port: int | None = None
    if semicolon:
        if ":" in client_side:
            client_host, rest = _split_host(client_side, line)
        else:
            client_host, rest = "0.0.0.0", client_side
        client_port = _port(rest, line)
    return Server(
        ServerId(sid),
        host,
        _port(parts[0], line),
        _port(parts[1], line),
        role,
        client_host,
        client_port,
    )


def _split_host(text: str, line: str) -> tuple[str, str]:
    text = text.strip()
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or not rest.startswith(":"):
            raise _wrong(line, "expected [address]:port")
        rest = rest[1:]
    else:
        host, _, rest = text.partition(":")
    if not host:
        raise _wrong(line, "the host is empty")
    if any(letter.isspace() for letter in host):
        raise _wrong(line, f"there is whitespace in the host {host!r}")
    return host, rest


def _wrong(line: str, why: str) -> ConfigError:
    return ConfigError(f"{line!r}: {why}", why=why)


def _number(text: str, line: str, base: int = 10) -> int:
    try:
        return int(text.strip(), base)
    except ValueError:
        raise _wrong(line.strip(), f"{text!r} is not a number") from None


def _port(text: str, line: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()):
        raise _wrong(line, f"{text!r} is not a port: use 1 to 65535")
    port = _number(digits, line)
    if not 0 < port < 65536:
        raise _wrong(line, f"{port} is not a port: use 1 to 65535")
    return port
