"""The limits and the behaviour of a store's client ports, in counts, bytes and milliseconds as each name says."""

from __future__ import annotations

from typing import Final

from attrs import field, frozen

from zab.core.argument_names import checks_arguments
from zab.core.errors import ConfigError
from zab.core.failed_logins import FailedLoginSettings
from zab.core.settings_checks import check_ordered, check_settings
from zab.net.tls.tls_settings import TlsPortSettings
from zab.runtime.store_server.audit import AuditSettings
from zab.runtime.store_server.security_settings import DEFAULT_SECURITY, SecuritySettings
from zab.service.throttle import ThrottleSettings
from zab.wire.client.client_frames import FOUR_LETTER_WORDS, FRAME_BYTES_MAX

NO_THROTTLE: Final = ThrottleSettings()
DEFAULT_FAILED_LOGINS: Final = FailedLoginSettings()
DEFAULT_WORDS: Final = frozenset({"isro", "mntr", "ruok", "srvr", "stat"})


@checks_arguments
@frozen
class ClientPortSettings:
    """Limits and behaviour of the client ports.

    tick_ms                   sessions expire at multiples of this; learners report active sessions twice as often
    timeout_ticks_min, _max   bounds of a session's timeout, in ticks
    session_ms_min, _max      the same in milliseconds; None: the bound in ticks applies
    frame_bytes_max           one request (`jute.maxbuffer`)
    connections_max           connections at all client ports (`maxCnxns`); one more replaces one that has sent no first
                              frame yet, or is closed at once if there is none
    connections_per_host_max  connections from one address at all client ports (`maxClientCnxns`); one more is closed at
                              once; 0: no limit
    descriptors_kept          descriptors of the process that are reserved for links to other servers, the log and the
                              snapshots (at most half of all); a connection that would need one of them is treated as
                              above `connections_max`
    requests_max              unanswered requests of one connection; above this, no more are read from it
    requests_total_max        unanswered requests of all connections; above this, no more are read from connections
                              with an open request
    identities_max            identities of one client, its address included
    watches_per_client_max    watches of one client; above this, a request for one more is refused. A path counts once
                              more for each full 256 characters
    watches_max               watches of all clients of this server
    listed_max                rows of one reply to a command or word that lists connections, sessions, paths or watches
    multi_read_bytes_max      the reply to one multiRead, which may be thousands of times larger than its request; a
                              request with a larger reply is refused
    unsent_bytes_max          replies and events that a client does not read; above this, no more of its requests are
                              read
    unsent_bytes_cut          replies and events that a client does not read; above this, its connection is closed
    unsent_total_bytes_max    replies, events and incomplete requests of all clients; above this, connections without
                              progress are closed, and above twice this the largest ones as well
    first_frame_ms            how long a connection may take to send its first frame
    linger_ms                 how long a client may take to read its last reply
    events_max                unread events of one watch in this process; one more ends it with `EventsLost`
    containers_ms             from the last deletion of one check for containers and TTL nodes to the next check
                              (`znode.container.checkIntervalMs`)
    containers_per_minute_max deletions of such nodes in a minute (`znode.container.maxPerMinute`); below 60: one each
                              second
    containers_never_used_ms  how long a container may wait for its first child
                              (`znode.container.maxNeverUsedIntervalMs`); 0: for ever
    nodes_spared_min          from this number of nodes on, Python's cyclic garbage collector skips the tree (and
                              everything else that exists then: `gc.freeze`)
    throttle                  see `ThrottleSettings`; off by default
    words                     four-letter words that are answered; `isro` always is if `read_only_mode_enabled`
    local_sessions_enabled    give clients sessions that only their server knows (`localSessionsEnabled`)
    local_sessions_upgrading_enabled
                              turn such a session into a global one when it first creates an ephemeral node
                              (`localSessionsUpgradingEnabled`); False: refuse that
    read_only_mode_enabled    let clients that accept read-only mode read while there is no leader
                              (`readonlymode.enabled`)
    read_only_after_ms        how long there must be no leader before such reads
    reconfig_enabled          let clients with the permission change the membership (`reconfigEnabled`)
    standalone_enabled        True: a change of the membership must leave at least two voters (`standaloneEnabled`)
    super_digest              `user:hash` of the super user
    digest_algorithm          hash of the digest scheme
    security                  authentication of the clients: see `SecuritySettings`
    failed_logins             how fast one address may guess passwords
    tls                       for the secure client port and, with `unify`, for the plain one; None: no TLS
    audit                     the audit log; None: off
    """

    tick_ms: int = 2_000
    timeout_ticks_min: int = 2
    timeout_ticks_max: int = 20
    session_ms_min: int | None = None
    session_ms_max: int | None = None
    frame_bytes_max: int = FRAME_BYTES_MAX
    connections_max: int = 20_000
    connections_per_host_max: int = 60
    descriptors_kept: int = 256
    requests_max: int = 1_000
    requests_total_max: int = 10_000
    identities_max: int = 100
    watches_per_client_max: int = 100_000
    watches_max: int = 1_000_000
    listed_max: int = 10_000
    multi_read_bytes_max: int = 16 << 20
    unsent_bytes_max: int = 4 << 20
    unsent_bytes_cut: int = 64 << 20
    unsent_total_bytes_max: int = 256 << 20
    first_frame_ms: int = 10_000
    linger_ms: int = 1_000
    events_max: int = 10_000
    containers_ms: int = 60_000
    containers_per_minute_max: int = 10_000
    containers_never_used_ms: int = 0
    nodes_spared_min: int = 50_000
    throttle: ThrottleSettings = NO_THROTTLE
    words: frozenset[str] = DEFAULT_WORDS
    local_sessions_enabled: bool = False
    local_sessions_upgrading_enabled: bool = False
    read_only_mode_enabled: bool = False
    read_only_after_ms: int = 2_000
    reconfig_enabled: bool = False
    standalone_enabled: bool = True
    super_digest: str | None = field(default=None, repr=False)
    digest_algorithm: str = "sha1"
    security: SecuritySettings = DEFAULT_SECURITY
    failed_logins: FailedLoginSettings = DEFAULT_FAILED_LOGINS
    tls: TlsPortSettings | None = None
    audit: AuditSettings | None = None

    def __attrs_post_init__(self) -> None:
        off = (
            "connections_per_host_max",
            "descriptors_kept",
            "linger_ms",
            "containers_never_used_ms",
            "read_only_after_ms",
        )
        optional = {
            "session_ms_min": int,
            "session_ms_max": int,
            "super_digest": str,
            "tls": TlsPortSettings,
            "audit": AuditSettings,
        }
        check_settings(self, {**dict.fromkeys(off, 0), "nodes_spared_min": 0}, optional=optional)
        check_ordered(self, "timeout_ticks_min", "timeout_ticks_max")
        if self.session_ms_min is not None and self.session_ms_max is not None:
            check_ordered(self, "session_ms_min", "session_ms_max")
        check_ordered(self, "unsent_bytes_max", "unsent_bytes_cut")
        unknown = self.words - frozenset(FOUR_LETTER_WORDS.values())
        if unknown:
            raise ConfigError(
                f"ClientPortSettings.words: unknown words {sorted(map(str, unknown))}; "
                f"the known words are {sorted(FOUR_LETTER_WORDS.values())}"
            )

    def timeout_ms(self, asked_ms: int) -> int:
        """Return the session timeout that a client gets if it asks for this one."""
        least = self.timeout_ticks_min * self.tick_ms if self.session_ms_min is None else self.session_ms_min
        most = self.timeout_ticks_max * self.tick_ms if self.session_ms_max is None else self.session_ms_max
        return max(least, min(asked_ms, most))


DEFAULT_CLIENT_PORTS: Final = ClientPortSettings()
