"""Access to a broker: the authentication of users, and the authorization of clients and other brokers."""

from __future__ import annotations

import os
from collections.abc import Callable

import trio

import zab
from replica.core.security.acl_authorization import AclSettings
from replica.runtime.authentication.listener_security import NO_SASL, ListenerSecurity
from replica.runtime.authentication.sasl_authenticator import SaslSettings, sasl_security
from replica.runtime.authentication.user_credentials import UserCredentials, sasl_secret
from replica.runtime.authorization.authorizer import Authorizer
from replica.runtime.logs import Log
from zab.core.failed_logins import FailedLogins, FailedLoginSettings
from zab.host.clocks import wall_ms


class BrokerAccess:
    """Keeps the users' credentials, the failed logins of each client address, and the ACLs. The last known credentials
    and ACLs stay in force while the store is unreachable."""

    def __init__(
        self,
        log: Log,
        session: Callable[[], zab.Session | None],
        acls: AclSettings | None,
        failed_logins: FailedLoginSettings,
    ) -> None:
        self.users = UserCredentials(log, session)
        self.authorizer = None if acls is None else Authorizer(acls, log, session, wall_ms)
        """The authorizer; None if none is configured."""
        self.known = trio.Event()
        """Set when users and ACLs have been read for the first time."""
        self._failed_logins = FailedLogins(failed_logins)
        self._secret = b""
        """Determines the salts of unknown users. `load` sets it before the first login."""

    async def load(self, session: zab.Session) -> None:
        self._secret = await sasl_secret(session, os.urandom)

    async def follow(
        self, session: zab.Session, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Follow changes of users and ACLs while the session lasts. Reports the start when both have been read."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.users.feed.run, session)
            if self.authorizer is not None:
                await nursery.start(self.authorizer.run, session)
            self.known.set()
            task_status.started()

    def security(self, sasl: SaslSettings | None) -> ListenerSecurity:
        """Return the authentication for a listener with these SASL settings."""
        if sasl is None:
            return NO_SASL
        users = self.users
        return sasl_security(sasl, users.find, self._secret, self._failed_logins, users.usual_iterations)

    def allows_brokers(self, principal: str, host: str) -> bool:
        """Return whether a peer may send requests that are reserved for brokers."""
        return self.authorizer is None or self.authorizer.allows_brokers(principal, host)
