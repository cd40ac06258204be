"""The node `/zookeeper/config`, which shows the membership to clients, and the operation that changes the membership.

A client's request is carried out in two steps. First it goes to the leader like any write, in the order of the client's
requests. The leader checks whether the change is valid and whether the client may make it. Then the client's server
asks the consensus for the change, and replies once it has applied the history up to the new membership.

The module is pure: its owner reports memberships, and carries out the steps of `ConfigNode.change`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from typing import Final, Protocol, TypeAlias

from attrs import evolve

from zab.core.ensemble import NO_HOST, Ensemble, Server, parse_server
from zab.core.errors import (
    ChangeLost,
    ConfigError,
    NewConfigNoQuorum,
    NotLeader,
    Overloaded,
    ReconfigInProgress,
    WrongVersion,
    ZabError,
)
from zab.core.zxid import ServerId, Zxid, counter_of
from zab.service.client_sessions import BARRIER, SessionStep
from zab.store.error_codes import ErrorCode, RequestFailed
from zab.store.operations import ANY_VERSION, Fields
from zab.store.paths import CONFIG
from zab.store.store import Store
from zab.store.znode import MZXID, Znode

Answer: TypeAlias = tuple[int, Znode | None]
"""(error, the configuration node as it is now; None after an error)"""
ReconfigurationSteps: TypeAlias = Generator[Ensemble | SessionStep, None, Answer]

ATTEMPTS_MAX: Final = 10
"""The number of failed attempts, each with an error of `_RETRY`, after which `ConfigNode.change` raises."""
MEMBERSHIP_CHARS_MAX: Final = 64 << 10
"""The largest number of characters of a list of servers. Lists are parsed before the client's permission is checked."""
JOINING_MAX: Final = 256
"""The largest number of servers in the list of joining servers of one request.

The addresses of each are compared with those of all other servers.
"""
EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,100}")
_RETRY: Final = (NotLeader, Overloaded, ChangeLost, WrongVersion)
"""Errors after which the request is tried again with the membership that is then in force."""


class MembershipStatus(Protocol):
    """The state of the membership, as the member reports it."""

    @property
    def server(self) -> ServerId: ...
    @property
    def ensemble(self) -> Ensemble: ...
    @property
    def pending(self) -> Ensemble | None: ...
    @property
    def synced(self) -> Sequence[ServerId]: ...


class ReconfigurationSettings(Protocol):
    """The settings of `ClientPortSettings` that decide about reconfigurations."""

    @property
    def reconfig_enabled(self) -> bool: ...
    @property
    def standalone_enabled(self) -> bool: ...


def check_request(fields: Fields, status: MembershipStatus, settings: ReconfigurationSettings) -> Ensemble:
    """Check a request at the leader, in ZooKeeper's order. The store checks the permission afterwards.

    Return the membership that the client asks for, with the version of the present one. Raise `RequestFailed` with the
    error of the first check that fails.
    """
    if not settings.reconfig_enabled:
        raise RequestFailed(ErrorCode.RECONFIG_DISABLED)
    ensemble = status.ensemble
    if all(server.host == NO_HOST for server in ensemble.servers):
        raise RequestFailed(ErrorCode.UNIMPLEMENTED)
    if status.pending is not None:
        raise RequestFailed(ErrorCode.RECONFIG_IN_PROGRESS)
    version = fields[3]
    if version not in (ANY_VERSION, ensemble.version):
        raise RequestFailed(ErrorCode.BAD_VERSION)
    new = ensemble_asked_for(fields, ensemble, two_voters=settings.standalone_enabled)
    if not new.is_quorum([*status.synced, status.server]):
        raise RequestFailed(ErrorCode.NEW_CONFIG_NO_QUORUM)
    return new


class ConfigNode:
    """Keeps `/zookeeper/config` equal to the membership, and decides the steps of a reconfiguration."""

    def __init__(self, me: ServerId, machine: Store, settings: ReconfigurationSettings) -> None:
        self._me = me
        self._machine = machine
        self._settings = settings
        self._ensemble: Ensemble | None = None
        """The membership in force; None before the first one."""

    # -- the node ----------------------------------------------------------------------------------

    def on_membership(self, ensemble: Ensemble, zxid: Zxid | None) -> bool:
        """Handle a membership. Return True if it gives this server another address for clients.

        Called without a zxid when the membership comes into force. Called with the membership's zxid when everything
        before the membership is applied here: then show it in the node, and return False. There is no call with a zxid
        for a membership from a configuration file, or for one that arrives in a snapshot.
        """
        if zxid is not None:
            # A transaction that was attached to the change has set the node already.
            if self._machine.tree.nodes[CONFIG][MZXID] != zxid:
                self._machine.configure(zxid, text_of(ensemble), applied=True)
            return False
        before, had_one = self.client_address, self._ensemble is not None
        self._ensemble = ensemble
        self.restored()
        return had_one and self.client_address not in (None, before)

    @property
    def client_address(self) -> tuple[str | None, int] | None:
        """This server's address for clients in the membership; None if the membership has none."""
        mine = None if self._ensemble is None else self._ensemble.by_id.get(self._me)
        return None if mine is None or mine.client_port is None else (mine.client_host, mine.client_port)

    def restored(self) -> None:
        """Correct the node after a new membership came into force, or after the whole state was replaced.

        The text in the new state may come from another server's configuration file.
        """
        ensemble, machine = self._ensemble, self._machine
        if ensemble is None:
            return
        # A membership from a configuration file has no zxid. Any other is shown only when everything before it is
        # applied.
        version, known = ensemble.version, machine.tree.nodes[CONFIG][MZXID]
        if known < version <= machine.zxid or (known <= version and not counter_of(version)):
            machine.configure(version, text_of(ensemble))

    def changed(self) -> Answer:
        """Return the answer for a client whose reconfiguration is in force."""
        return ErrorCode.OK, self._machine.tree.nodes[CONFIG]

    # -- the change ---------------------------------------------------------------------------------

    def change(self, fields: Fields, current: Callable[[], Ensemble]) -> ReconfigurationSteps:
        """Change the membership, after `check_request`, and return the answer for the client.

        `current` returns the membership in force. A step is a barrier, or a new membership to request from the
        consensus, with the version that the membership in force must still have. The driver throws the error of a
        failed step into the generator. Raise a `ZabError` after `ATTEMPTS_MAX` attempts. An error without an error code
        for clients, such as `OutcomeUnknown`, is raised unchanged.
        """
        version = fields[3]
        for _ in range(ATTEMPTS_MAX):
            ensemble = current()
            if version not in (ANY_VERSION, ensemble.version):
                return ErrorCode.BAD_VERSION, None
            try:
                yield ensemble_asked_for(fields, ensemble, two_voters=self._settings.standalone_enabled)
            except RequestFailed as failure:
                return failure.code, None
            except _RETRY:
                yield BARRIER
            except ReconfigInProgress:
                return ErrorCode.RECONFIG_IN_PROGRESS, None
            except NewConfigNoQuorum:
                return ErrorCode.NEW_CONFIG_NO_QUORUM, None
            except ConfigError:
                return ErrorCode.BAD_ARGUMENTS, None
            else:
                yield BARRIER  # in force already; after the barrier it is applied here
                return self.changed()
        raise ZabError(
            f"{ATTEMPTS_MAX} attempts to change the membership failed: there was no leader, the leader was busy or was "
            "lost, or other changes came first; try again"
        )


def text_of(ensemble: Ensemble) -> bytes:
    """Return the text of the node: empty if no server has an address, as in an embedded store."""
    if all(server.host == NO_HOST for server in ensemble.servers):
        return b""
    return ensemble.text().encode()


def ensemble_asked_for(fields: Fields, current: Ensemble, *, two_voters: bool) -> Ensemble:
    """Return the whole membership that a client asks for, or raise `RequestFailed`."""
    joining, leaving, members, _ = fields
    if any(len(text or "") > MEMBERSHIP_CHARS_MAX for text in (joining, leaving, members)):
        raise RequestFailed(ErrorCode.BAD_ARGUMENTS)
    try:
        new = _replaced(members) if members is not None else _changed(joining or "", leaving or "", current)
    except ConfigError:
        raise RequestFailed(ErrorCode.BAD_ARGUMENTS) from None
    if len(new.voters) < (2 if two_voters else 1):
        raise RequestFailed(ErrorCode.BAD_ARGUMENTS)
    return evolve(new, version=current.version)


def _replaced(members: str) -> Ensemble:
    ensemble = Ensemble.parse(members)
    ensemble.check_addresses()
    return ensemble


def _changed(joining: str, leaving: str, current: Ensemble) -> Ensemble:
    gone = [ServerId(_number(each)) for each in _listed(leaving)]
    kept = current.changed(leaving=[sid for sid in gone if sid in current.by_id], version=current.version)
    joiners = _listed(joining)
    if len(joiners) > JOINING_MAX:
        raise ConfigError(f"{len(joiners)} servers join, but at most {JOINING_MAX} may join at once")
    for each in joiners:
        server = _joiner(each)
        for other in kept.servers:
            if other.id != server.id and _addresses(other) & _addresses(server):
                raise ConfigError(f"servers {other.id} and {server.id} have a common address")
        kept = kept.changed(joining=[server], version=current.version)
    kept.check_addresses()
    return kept


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _joiner(text: str) -> Server:
    key, equals, value = text.partition("=")
    if not equals or not value.strip() or "=" in value:
        raise ConfigError(f"{text!r}: expected a line like server.1=host:2888:3888;2181")
    _number(key.rpartition(".")[2])
    server = parse_server(text)
    if server.client_port is None:
        raise ConfigError(f"{text!r}: a joining server must name all of its three ports")
    return server


def _number(text: str) -> int:
    """Return a server id. Text that is not a number is a marshalling error, as in ZooKeeper, not a bad argument."""
    if not _NUMBER.fullmatch(text.strip()):
        raise RequestFailed(ErrorCode.MARSHALLING_ERROR)
    return int(text)


def _addresses(server: Server) -> set[tuple[str, int]]:
    found = {(server.host, server.quorum_port), (server.host, server.election_port)}
    if server.client_port is not None and server.client_host not in EVERYWHERE:
        found.add((server.client_host or server.host, server.client_port))
    return found
