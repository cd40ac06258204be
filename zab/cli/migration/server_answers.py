"""The state of one server of an ensemble, from its answers to four-letter words or at its admin port."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import evolve, frozen

from zab.cli.status.server_software import Software, software_of
from zab.core.ensemble import Role, Server, parse_server
from zab.core.errors import ConfigError
from zab.core.zxid import Zxid, counter_of, epoch_of

REFUSED: Final = "is not executed because it is not in the whitelist"
NOT_SERVING: Final = "not currently serving requests"
SETTING: Final = "4lw.commands.whitelist=srvr,mntr,conf"
UNREACHABLE: Final = "unreachable"
LOOKING: Final = "looking"
SERVING: Final = frozenset({"leader", "follower", "observer"})
_MODES: Final = SERVING | {"standalone", "read-only"}


@frozen
class Answers:
    """The answers of one server. A text is empty, and a mapping is None, if the question was not asked or failed.

    srvr, mntr, conf        the replies to the four-letter words at the client port
    monitor, statistics     the replies of the admin port to `monitor` and `server_stats`
    configuration           the reply of the admin port to `configuration`
    failure, admin_failure  the reasons why the client port and the admin port did not answer
    """

    srvr: str = ""
    mntr: str = ""
    conf: str = ""
    monitor: Mapping[str, Any] | None = None
    statistics: Mapping[str, Any] | None = None
    configuration: Mapping[str, Any] | None = None
    failure: str = ""
    admin_failure: str = ""

    @property
    def lacks_state(self) -> bool:
        """True if the client port does not tell the state, so that the admin port must be asked."""
        return not self.srvr or REFUSED in self.srvr

    @property
    def lacks_numbers(self) -> bool:
        return not self.mntr or REFUSED in self.mntr


@frozen
class ServerState:
    """The known state of one member. A number is None if the server does not report it.

    id, where          the member and its client address
    votes              whether it is a participant
    mode               the role that it reports, `looking`, or `unreachable`
    zxid               the last transaction that it has applied
    behind             its distance from the newest transaction; None in an older epoch
    digest_mismatches  comparisons in which its tree differed from that of the leader
    synced_followers   the number of followers in sync with it; only at a leader
    learners           the number of all servers in sync with it, observers included; only at a leader
    speaks_zookeeper   whether a server of zab reports `peerProtocol=zookeeper`
    reported_id        the number that the server itself reports
    members            the membership that it reports
    problem, remedy    the reason why it does not take part, and what to do
    """

    id: int
    where: str
    votes: bool = True
    software: Software | None = None
    mode: str = UNREACHABLE
    zxid: int | None = None
    behind: int | None = None
    digest_mismatches: int | None = None
    synced_followers: int | None = None
    learners: int | None = None
    speaks_zookeeper: bool = False
    reported_id: int | None = None
    members: frozenset[tuple[int, int, int, str]] | None = None
    problem: str = ""
    remedy: str = ""

    @property
    def serves(self) -> bool:
        return self.mode in SERVING

    @property
    def is_ours(self) -> bool | None:
        """None if the software is unknown."""
        return None if self.software is None else self.software.is_ours


def members_of(servers: Iterable[Server]) -> frozenset[tuple[int, int, int, str]]:
    """Return the members without their hosts: servers may write the same host as a name or as an address."""
    return frozenset((each.id, each.quorum_port, each.election_port, each.role.value) for each in servers)


def state_of(member: Server, where: str, answers: Answers) -> ServerState:
    """Return the state of a member. Answers that cannot be read make it a server with a problem."""
    state = ServerState(member.id, where, member.role is Role.PARTICIPANT)
    answers = _without_others(member.id, answers)
    if not answers.lacks_state:
        state = _from_words(state, answers)
    elif answers.monitor is not None:
        state = _from_admin(state, answers.monitor, answers.statistics or {})
    elif REFUSED in answers.srvr:
        return evolve(
            state,
            problem=f"it does not allow the four-letter word srvr, and its admin port does not answer "
            f"({answers.admin_failure or 'not asked'})",
            remedy=f"set {SETTING} in its zoo.cfg and restart it, or open its admin port (admin.enableServer=true)",
        )
    else:
        return evolve(
            state,
            problem=answers.failure or "no answer",
            remedy="start it, or repair it. If it uses another client port, name that with --server N=HOST:PORT",
        )
    numbers = {f"zk_{key}": value for key, value in (answers.monitor or {}).items()}
    if not answers.lacks_numbers:
        numbers = _pairs(answers.mntr, "\t")
    state = _with_numbers(state, numbers)
    conf = _pairs(answers.conf, "=")
    reported = conf.get("serverId") if conf else (answers.configuration or {}).get("server_id")
    return evolve(state, reported_id=_whole(reported), members=_membership(answers.conf))


def _without_others(sid: int, answers: Answers) -> Answers:
    """Drop the answers of an admin port that belongs to another server on the same machine."""
    number = (answers.configuration or {}).get("server_id", sid)
    if number == sid:
        return answers
    why = f"server {number} uses that admin port"
    return evolve(answers, monitor=None, statistics=None, configuration=None, admin_failure=why)


def _from_words(state: ServerState, answers: Answers) -> ServerState:
    if NOT_SERVING in answers.srvr:
        return _not_serving(state)
    lines = _pairs(answers.srvr, ": ")
    zxid, mode = lines.get("Zxid", ""), lines.get("Mode", "")
    try:
        applied = int(zxid, 16)
    except ValueError:
        applied = None
    software = software_of(lines.get("Zookeeper version", ""))
    if mode not in _MODES or applied is None:
        return evolve(
            state,
            problem=f"the reply to srvr is {answers.srvr[:60]!r}",
            remedy="name the client port of this server with --server N=HOST:PORT",
        )
    return _in_mode(evolve(state, software=software, zxid=applied), mode)


def _from_admin(state: ServerState, monitor: Mapping[str, Any], statistics: Mapping[str, Any]) -> ServerState:
    if monitor.get("error"):
        return _not_serving(state)
    inner = statistics.get("server_stats")
    zxid = inner.get("last_processed_zxid") if isinstance(inner, Mapping) else None
    mode = str(monitor.get("server_state", ""))
    if mode not in _MODES:
        return evolve(
            state,
            problem=f"the reply to the admin command monitor has the server_state {mode!r}",
            remedy="check that the port belongs to this server",
        )
    return _in_mode(evolve(state, software=software_of(str(monitor.get("version", ""))), zxid=_whole(zxid)), mode)


def _in_mode(state: ServerState, mode: str) -> ServerState:
    problems = {
        "standalone": (
            "it is standalone: it belongs to no ensemble",
            "start it with the server.N lines of this zoo.cfg, or remove it from them",
        ),
        "read-only": ("it has no leader and serves only reads", "wait for a quorum, or repair the other servers"),
    }
    problem, remedy = problems.get(mode, ("", ""))
    return evolve(state, mode=mode, problem=problem, remedy=remedy)


def _not_serving(state: ServerState) -> ServerState:
    return evolve(
        state,
        mode=LOOKING,
        problem="it runs, but does not serve: it has no leader, or is still synchronizing",
        remedy="wait and run this command again; if it stays so, read the log of the server",
    )


def _with_numbers(state: ServerState, numbers: Mapping[str, Any]) -> ServerState:
    return evolve(
        state,
        software=state.software or software_of(str(numbers.get("zk_version", ""))),
        digest_mismatches=_whole(numbers.get("zk_digest_mismatches_count")),
        synced_followers=_whole(numbers.get("zk_synced_followers")),
        learners=_whole(numbers.get("zk_learners")),
        speaks_zookeeper=numbers.get("zk_peer_protocol") == "zookeeper",
    )


def _membership(conf: str) -> frozenset[tuple[int, int, int, str]] | None:
    """Return the members in the reply to `conf`; None if it has none, as before ZooKeeper 3.5, or cannot be read."""
    try:
        found = [
            parse_server(line.partition("|")[0] if "|" in line else line)
            for line in conf.splitlines()
            if line.startswith("server.")
        ]
    except ConfigError:
        return None
    return members_of(found) or None


def _pairs(text: str, separator: str) -> dict[str, str]:
    return dict(line.split(separator, 1) for line in text.splitlines() if separator in line)


def _whole(value: object) -> int | None:
    try:
        return int(str(value))
    except ValueError:
        return None


def newest_zxid(states: Iterable[ServerState]) -> int:
    """Return the newest transaction of all servers.

    A zxid with counter 0 is the beginning of an epoch: a leader that has proposed nothing reports it, and its followers
    report their last transaction.
    """
    return max((each.zxid for each in states if each.zxid is not None and counter_of(Zxid(each.zxid))), default=0)


def with_distances(states: Iterable[ServerState], newest: int) -> tuple[ServerState, ...]:
    """Set `behind` of each server, measured from `newest`. It stays None for a server in an older epoch."""
    return tuple(evolve(each, behind=_distance(each.zxid, newest)) for each in states)


def _distance(zxid: int | None, newest: int) -> int | None:
    if zxid is None:
        return None
    if zxid >= newest:
        return 0
    return newest - zxid if epoch_of(Zxid(zxid)) == epoch_of(Zxid(newest)) else None
