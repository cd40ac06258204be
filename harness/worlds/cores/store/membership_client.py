"""A client that changes the membership of the ensemble, with the rights of the super user, and judges each reply.

Its requests may be conditional. Such a request names the version of the membership that it replaces, often an old one.
The calls are not part of the history of the data. The client judges them by the committed memberships.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from attrs import evolve

from harness.checkers.oracle_state import Violation
from harness.history import Event
from harness.protocol import error_name
from harness.worlds.cores.store.checks import RECONFIGURED
from harness.worlds.cores.store.client import Client
from harness.worlds.cores.store.client_service import SUPER
from harness.worlds.cores.store.simulator import StoreSimulator
from zab.client.calls import Call
from zab.core.ensemble import Ensemble, Server, parse_server
from zab.core.zxid import Zxid, counter_of, show
from zab.session.session_errors import StoreError
from zab.store.error_codes import ErrorCode
from zab.store.operations import ANY_VERSION, Op

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


class Reconfiguration(Call):
    """One request for a change."""

    def __init__(self, client: MembershipClient, old: Ensemble, new: Ensemble, version: int) -> None:
        joining = tuple(_with_client_port(each) for each in new.servers if each not in old.servers)
        leaving = tuple(each.id for each in old.servers if each.id not in new.by_id)
        joins, leaves = ",".join(each.text() for each in joining), ",".join(map(str, leaving))
        named = (None, None, new.text()) if new.groups else (joins, leaves, None)
        super().__init__(Op.RECONFIG, (*named, version), "reconfig", self._done)
        self.joining, self.leaving, self.version = joining, leaving, version
        self.members = new if new.groups else None
        """The whole membership, which a request must name if it has groups; None if it has none."""
        self._client = client
        self._asked_at = client.world.ghost.committed
        """The last committed zxid at the time of the request."""

    def _done(self, value: Any, error: Exception | None) -> None:
        """Judge the reply. A lost request has none."""
        if error is None or isinstance(error, StoreError):
            self._client.judge(self, 0 if error is None else error.code, value, self._asked_at)

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
        if self.vanished or self.protocol.open_calls >= OPEN_MAX:
            return
        self._versions.append(old.version)
        draw = self._chance.random()
        version = ANY_VERSION if draw < 0.4 else old.version if draw < 0.7 else self._chance.choice(self._versions)
        self.call(Reconfiguration(self, old, new, version))

    def saw(self, event: Event) -> None:
        """Keep the event out of the history of the data."""

    def judge(self, request: Reconfiguration, error: int, value: Any, asked_at: Zxid) -> None:
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
        text, stat = value
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
