"""A client that changes the membership of the ensemble, with the rights of the super user, and judges each reply.

Its requests may be conditional. Such a request names the version of the membership that it replaces, often an old one.
The calls are not part of the history of the data. The client judges them by the committed memberships.
"""

from __future__ import annotations

from random import Random
from typing import Final

from attrs import evolve

from harness.checkers.oracle_state import Violation
from harness.history import Event, Reply, Request
from harness.protocol import error_name, refusal
from harness.worlds.cores.store.checks import RECONFIGURED
from harness.worlds.cores.store.client import Client
from harness.worlds.cores.store.client_service import SUPER
from harness.worlds.cores.store.simulator import StoreSimulator
from zab.core.ensemble import Ensemble, Server, parse_server
from zab.core.zxid import Zxid, counter_of, show
from zab.store.error_codes import ErrorCode
from zab.store.operations import ANY_VERSION, Fields, Op
from zab.wire.client.replies import decode_body

NUMBER: Final = 900
"""The number of this client. Other clients have smaller numbers."""
CLIENT_PORT: Final = 2181
"""The client port of servers that join by a request of this client."""
OPEN_MAX: Final = 3
"""The largest number of unanswered requests. Further changes of the script are skipped."""
_ALLOWED: Final = frozenset(
    {
        ErrorCode.BAD_VERSION, ErrorCode.RECONFIG_IN_PROGRESS, ErrorCode.NEW_CONFIG_NO_QUORUM, ErrorCode.BAD_ARGUMENTS,
        ErrorCode.SESSION_EXPIRED, ErrorCode.SESSION_MOVED, ErrorCode.CONNECTION_LOSS, ErrorCode.THROTTLED_OP,
        ErrorCode.NOT_READ_ONLY,
    }
)  # fmt: skip


class Reconfiguration:
    """One request for a change, in the form of a `Call`."""

    def __init__(self, client: MembershipClient, old: Ensemble, new: Ensemble, version: int) -> None:
        self.number = self.xid = 0
        self.request = Request("reconfig")
        self.op = Op.RECONFIG
        self.joining = tuple(_with_client_port(each) for each in new.servers if each not in old.servers)
        self.leaving = tuple(each.id for each in old.servers if each.id not in new.by_id)
        self.version = version
        self.members = new if new.groups else None
        """The whole membership, which a request must name if it has groups; None if it has none."""
        joining, leaving = ",".join(each.text() for each in self.joining), ",".join(map(str, self.leaving))
        named = (joining, leaving, None) if self.members is None else (None, None, new.text())
        self.fields: Fields = (*named, version)
        self._client = client
        self._asked_at = client.world.ghost.committed
        """The last committed zxid at the time of the request."""

    def reply(self, zxid: int, error: int, body: bytes) -> Reply:
        self._client.judge(self, error, body, self._asked_at)
        return refusal(zxid, error) if error else Reply(zxid=zxid)

    def is_done_by(self, made: Ensemble) -> bool:
        """Return whether this membership is one that the request demands."""
        if self.members is not None:
            return (made.servers, made.groups) == (self.members.servers, self.members.groups)
        return all(each in made.servers for each in self.joining) and not any(sid in made.by_id for sid in self.leaving)

    def __str__(self) -> str:
        return f"reconfig {self.fields}"


def _with_client_port(server: Server) -> Server:
    return parse_server(evolve(server, client_port=server.client_port or CLIENT_PORT).text())


def _replaces(condition: int, version: Zxid) -> bool:
    """Return whether a request with this condition may replace the membership of this version.

    The first membership gets a new version with the counter 0 in each epoch. The oracle does not track these versions.
    """
    return condition in (ANY_VERSION, version) or not (counter_of(Zxid(condition)) or counter_of(version))


class MembershipClient(Client):
    def __init__(self, world: StoreSimulator) -> None:
        super().__init__(world, NUMBER)
        self._user = SUPER
        self._chance = Random(f"{world.script.seed}/memberships")
        self._versions: list[int] = []
        """The versions of the memberships that the client has seen, oldest first."""

    def change(self, old: Ensemble, new: Ensemble) -> None:
        """Request the membership `new`, as a change of the membership `old`."""
        if self.vanished or len(self._sent) + len(self.queue) >= OPEN_MAX:
            return
        self._versions.append(old.version)
        draw = self._chance.random()
        version = ANY_VERSION if draw < 0.4 else old.version if draw < 0.7 else self._chance.choice(self._versions)
        self.call(Reconfiguration(self, old, new, version))  # type: ignore[arg-type]  # it has the form of a call

    def saw(self, event: Event) -> None:
        """Keep the event out of the history of the data."""

    def judge(self, request: Reconfiguration, error: int, body: bytes, asked_at: Zxid) -> None:
        ghost, version = self.world.ghost, request.version
        now = ghost.governing[ghost.committed].version
        if error:
            if error not in _ALLOWED:
                raise Violation(
                    RECONFIGURED, f"{request} fails with {error_name(error)}, which is not a permitted error"
                )
            stays = counter_of(now) > 0 and version == ghost.governing[asked_at].version == now
            if error == ErrorCode.BAD_VERSION and (version == ANY_VERSION or stays):
                raise Violation(
                    RECONFIGURED, f"{request} fails with BAD_VERSION, although the membership has version {show(now)}"
                )
            return
        text, stat = decode_body(Op.RECONFIG, body)
        shown = Ensemble.parse(text.decode())
        if shown.version != stat.mzxid or ghost.governing.get(Zxid(stat.mzxid)) != shown:
            at = show(Zxid(stat.mzxid))
            what = f"the reply to {request} shows {shown}, which is not the membership committed at {at}"
            raise Violation(RECONFIGURED, what)
        self._versions.append(stat.mzxid)
        self.world.counted("changed by a client")
        for zxid in ghost.canon[ghost.place[asked_at] + 1 : ghost.place[shown.version] + 1]:
            before = ghost.governing[ghost.parent[zxid]]
            made = ghost.governing[zxid]
            if made is not before and request.is_done_by(made) and _replaces(version, before.version):
                return
        what = f"{request} succeeds, but no change committed since then makes the requested membership"
        raise Violation(RECONFIGURED, f"{what} from a version that meets its condition")
