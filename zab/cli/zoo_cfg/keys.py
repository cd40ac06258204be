"""The table of all keys of ZooKeeper's configuration file, with their effect here.

A key may have the prefix `zookeeper.` or lack it, in the file and as `-D key=value`, because ZooKeeper turns keys that
it does not know into system properties with this prefix.
"""

from __future__ import annotations

import re
from typing import Final

from zab.config import values
from zab.config.key_table import KeyFamily, KeyTable, Section
from zab.config.key_table import ignored as _ignored
from zab.config.key_table import read as _read
from zab.config.key_table import sets as _sets
from zab.net.tls.tls_settings import TLS_KEYS


def _digest_algorithm(value: str) -> str:
    """Return Python's name of a hash, like sha256; the value may also have Java's spelling, SHA-256."""
    name = value.lower().replace("-", "", 1)
    if name not in ("sha1", "sha224", "sha256", "sha384", "sha512", "md5"):
        raise ValueError("one of SHA1, SHA-224, SHA-256, SHA-384, SHA-512, MD5")
    return name


def _super_digest(value: str) -> str:
    user, colon, digest = value.partition(":")
    if not user or not colon or not digest or ":" in digest:
        raise ValueError("user:HASH, where HASH is the base64 of the hash of user:password")
    return value


_THREADS: Final = "there are no such threads: one event loop does the work"
_NOT_JAVA: Final = "it concerns the Java virtual machine"
_NO_PEERS_OF_THEIRS: Final = "zab's servers use a peer protocol of their own"
_ALWAYS_BATCHED: Final = (
    "new requests wait until they are as many as the transactions in flight, or those commit; no timer delays a request"
)
_ANY_SYNCS: Final = "the number of concurrent synchronizations is not limited"
_OF_CLIENTS: Final = "it is a setting of ZooKeeper's own client"
_NO_KERBEROS: Final = "there is no Kerberos"
_NO_PROCESSORS: Final = "there is no chain of request processors"
_NO_TRACKER: Final = "messages between servers are not recorded"
_ONE_WATCH_MANAGER: Final = "there is one implementation of watches"
_NO_PATHS: Final = "requests are not counted by path"
_THEIR_TESTS: Final = "it is for ZooKeeper's own tests"
_whole = values.whole

SECTIONS: Final[tuple[Section, ...]] = (
    (
        "Files and addresses",
        (
            _read("dataDir", "required", values.text, "the directory of this server's log and snapshots, and of `myid`"),
            _read("dataLogDir", "= dataDir", values.text, "the directory of the log, if it is to be on another disk"),
            _read("clientPort", "none", values.port, "the port for clients; `server.N=...;port` sets it, too"),
            _read("clientPortAddress", "all interfaces", values.text, "the address of `clientPort`"),
            _read("dynamicConfigFile", "none", values.text,
                  "the file with the members. If they change while `reconfigEnabled` is on, a new file is written, with the version in its name. A relative name is looked up in the working directory, then in the directory of the `zoo.cfg`"),
            _read("datadir.autocreate", "true", values.flag_or_yes_no, "create missing directories; false: do not start without them"),
            _ignored("clientPortListenBacklog", "-1", "the system's maximum is used", "-1"),
        ),
    ),
    (
        "Time",
        (
            _sets("tickTime", "3000", "settings.tick_ms", _whole(10), "the length of a tick in ms: the unit of `initLimit`, `syncLimit` and the default bounds of session timeouts"),
            _sets("initLimit", "required in an ensemble", "settings.init_limit", _whole(1), "ticks to connect to the elected leader, and the most ticks without progress while its state is transferred"),
            _sets("syncLimit", "required in an ensemble", "settings.sync_limit", _whole(1), "ticks after which a peer is disconnected if it sends nothing, or does not acknowledge a transaction"),
            _sets("minSessionTimeout", "2 ticks", "client_ports.session_ms_min", _whole(-1), "the shortest session timeout that clients get, in ms; -1: the default"),
            _sets("maxSessionTimeout", "20 ticks", "client_ports.session_ms_max", _whole(-1), "the longest session timeout that clients get, in ms; -1: the default"),
            _sets("fastleader.minNotificationInterval", "200", "settings.notification_ms_min", _whole(1),
                  "the first pause before a vote is sent again, in ms; each further pause is twice as long"),
            _sets("fastleader.maxNotificationInterval", "60000", "settings.notification_ms_max", _whole(1),
                  "the longest pause before a vote is sent again, in ms"),
            _sets("observer.election.DelayMs", "200", "settings.observer_delay_ms_max", _whole(0),
                  "the longest random delay of servers without a vote, such as observers, before they look for a new leader, in ms"),
            _sets("cnxTimeout", "5000", "limits.connect_ms", _whole(1), "the timeout for connecting to another server, in ms"),
            _ignored("quorumCnxnTimeoutMs", "-1", "TCP keep-alive ends a dead connection between servers, after about syncLimit", "-1"),
            _ignored("connectToLearnerMasterLimit", "= initLimit", "initLimit includes the time to connect"),
            _ignored("leader.maxTimeToWaitForEpoch", "-1", "initLimit bounds this wait", "-1"),
            _ignored("observer.reconnectDelayMs", "0", "only `observer.election.DelayMs` delays observers", "0"),
        ),
    ),
    (
        "Clients",
        (
            _sets("maxClientCnxns", "60", "client_ports.connections_per_host_max", values.clamped(0),
                  "the most connections from one address at all client ports together; 0: no limit"),
            _sets("maxCnxns", "20000", "client_ports.connections_max", values.or_no_limit, "the most connections at all client ports together; 0: no limit"),
            _sets("globalOutstandingLimit", "10000", "client_ports.requests_total_max", _whole(1),
                  "the most outstanding requests of all clients; above it, the server reads no further request of a client that waits for replies"),
            _sets("jute.maxbuffer", "1048575", "client_ports.frame_bytes_max", _whole(1024), "the largest request, in bytes"),
            _sets("maxAclEntries", "500", "store.acl_entries_max", _whole(1), "the maximum number of entries of an ACL, with `auth` expanded; not a key of ZooKeeper's"),
            _sets("maxAclIdLength", "4096", "store.acl_id_chars_max", _whole(1), "the most characters of an id in an ACL; not a key of ZooKeeper's"),
            _sets("maxPathDepth", "100", "store.path_depth_max", _whole(1), "the most names in the path of a new node; not a key of ZooKeeper's"),
            _sets("maxIdentities", "100", "client_ports.identities_max", _whole(1), "the most identities of one client, its address included; not a key of ZooKeeper's"),
            _sets("maxMultiOps", "10000", "store.multi_ops_max", _whole(1), "the most operations of one multi; not a key of ZooKeeper's"),
            _sets("maxEphemeralBytes", "2097152", "store.ephemeral_bytes_max", _whole(1), "the most characters in the paths of one session's ephemeral nodes, where each node counts 64 more; not a key of ZooKeeper's"),
            _sets("maxWatchesPerClient", "100000", "client_ports.watches_per_client_max", _whole(1), "the most watches of one client. A persistent watch that is not recursive counts as two, and every watch once more for each 256 characters of its path; not a key of ZooKeeper's"),
            _sets("maxWatches", "1000000", "client_ports.watches_max", _whole(1), "the most watches of all clients of this server, counted in the same way; not a key of ZooKeeper's"),
            _sets("maxListedRows", "10000", "client_ports.listed_max", _whole(1), "the most rows (connections, sessions, ephemerals, watches) in one reply to a four-letter word or an admin command, because clients wait while the reply is made; a truncated reply says so; not a key of ZooKeeper's"),
            _ignored("jute.maxbuffer.extrasize", "= jute.maxbuffer", "servers have a separate allowance for the fields that they add"),
            _sets("nio.sessionlessCnxnTimeout", "10000", "client_ports.first_frame_ms", _whole(1),
                  "how long a new connection may take to send its first request, in ms"),
            _sets("4lw.commands.whitelist", "isro, mntr, ruok, srvr, stat", "client_ports.words", values.names,
                  "four-letter words that are answered; `*`: all. With `readonlymode.enabled`, `isro` is answered, too"),
            _sets("znode.container.checkIntervalMs", "60000", "client_ports.containers_ms", _whole(1),
                  "the interval of checks for empty containers and expired TTL nodes, in ms"),
            _sets("znode.container.maxPerMinute", "10000", "client_ports.containers_per_minute_max", _whole(1), "the most nodes that these checks delete in a minute; less than 60: one each second"),
            _sets("znode.container.maxNeverUsedIntervalMs", "0", "client_ports.containers_never_used_ms", _whole(0), "how long a container may stay without a first child, in ms; 0: for ever"),
            _sets("extendedTypesEnabled", "false", "store.extended_types", values.flag_or_yes_no, "allow TTL nodes"),
            _ignored("emulate353TTLNodes", "false", "no nodes of that old format exist here", "false"),
            _sets("enforceQuota", "false", "store.enforce_quota", values.flag_or_yes_no, "refuse requests that exceed a hard quota; false: only log them, like those that exceed a soft quota. With false, ZooKeeper logs neither"),
            _ignored("clientTcpKeepAlive", "false", "the pings of sessions serve this purpose", "false"),
            _ignored("serverCnxnFactory", "NIO", "there is one implementation of the client port"),
            _sets("localSessionsEnabled", "false", "client_ports.local_sessions_enabled", values.flag_or_yes_no, "give clients local sessions, which only their server knows"),
            _sets("localSessionsUpgradingEnabled", "false", "client_ports.local_sessions_upgrading_enabled", values.flag_or_yes_no, "make a local session global when it creates its first ephemeral node"),
            _sets("readonlymode.enabled", "false", "client_ports.read_only_mode_enabled", values.flag_or_yes_no, "while there is no leader, serve reads to clients that accept read-only mode"),
            _ignored("maxResponseCacheSize", "400", "making a reply is cheaper than keeping a cache"),
            _ignored("maxGetChildrenResponseCacheSize", "400", "making a reply is cheaper than keeping a cache"),
            _sets("request_throttle_max_requests", "0", "throttle.request_max_requests", _whole(0), "the most outstanding requests of all clients; further ones wait; 0: only `globalOutstandingLimit` counts"),
            _sets("request_throttle_stall_time", "100", "throttle.request_stall_ms", _whole(1), "the interval at which requests above `request_throttle_max_requests` are tried again, in ms"),
            _ignored("request_throttle_drop_stale", "true", "requests of a closed connection are always dropped if they have not begun", "true"),
            _sets("request_stale_latency_check", "false", "throttle.request_stale_latency_check", values.flag_or_yes_no, "close the connection of a client whose requests `request_throttle_max_requests` held up for longer than its session's timeout"),
            _ignored("request_stale_connection_check", "true", "requests of a closed connection are always dropped if they have not begun", "true"),
            _ignored("request_throttler.shutdownTimeout", "10000", "requests wait at their connections, so no throttler has to be shut down"),
            _sets("throttled_op_wait_time", "0", "throttle.op_wait_ms", _whole(0), "the wait in ms after which a request that `request_throttle_max_requests` holds up is answered with THROTTLEDOP, unless it closes the session, logs in or sets watches again; 0: never"),
            _sets("connection_throttle_tokens", "0", "throttle.connection_tokens", _whole(0), "the most tokens for new connections; a connection that finds too few is closed; 0: no throttle"),
            _sets("connection_throttle_fill_time", "1", "throttle.connection_fill_ms", _whole(1), "the interval of refills, in ms"),
            _sets("connection_throttle_fill_count", "1", "throttle.connection_fill_count", _whole(1), "tokens that come back with each refill"),
            _sets("connection_throttle_freeze_time", "-1", "throttle.connection_freeze_ms", _whole(-1), "the interval between changes of the drop probability, in ms; -1: connections are never dropped at random"),
            _sets("connection_throttle_drop_increase", "0.02", "throttle.connection_drop_increase", values.fraction, "how much the drop probability grows when no token is left"),
            _sets("connection_throttle_drop_decrease", "0.002", "throttle.connection_drop_decrease", values.fraction, "how much the drop probability shrinks when enough tokens are left (`connection_throttle_decrease_ratio`)"),
            _sets("connection_throttle_decrease_ratio", "0", "throttle.connection_decrease_ratio", values.fraction, "the largest share of used tokens with which the drop probability shrinks"),
            _sets("connection_throttle_weight_enabled", "false", "throttle.connection_weight_enabled", values.flag_or_yes_no, "charge a connection by the kind of its session; false: one token each"),
            _sets("connection_throttle_global_session_weight", "3", "throttle.connection_global_session_weight", _whole(1), "tokens for a new global session"),
            _sets("connection_throttle_renew_session_weight", "2", "throttle.connection_renew_session_weight", _whole(1), "tokens for a session that reconnects"),
            _sets("connection_throttle_local_session_weight", "1", "throttle.connection_local_session_weight", _whole(1), "tokens for a new local session"),
            _sets("largeRequestThreshold", "-1", "throttle.large_request_threshold", _whole(-1), "requests of more bytes are large; -1: none is"),
            _sets("largeRequestMaxBytes", "104857600", "throttle.large_request_max_bytes", _whole(1), "the most bytes of outstanding large requests; a connection whose request would exceed this is closed"),
        ),
    ),
    (
        "The ensemble",
        (
            _sets("standaloneEnabled", "true", "client_ports.standalone_enabled", values.flag_or_yes_no,
                  "allow a server without `server.N` lines, and require that a reconfiguration leaves at least two voters; false: neither"),
            _sets("reconfigEnabled", "false", "client_ports.reconfig_enabled", values.flag_or_yes_no,
                  "allow reconfigurations by clients with write permission on `/zookeeper/config`"),
            _read("peerType", "participant", values.one_of_in_any_case("participant", "observer"),
                  "the role of this server; its `server.N` line takes precedence, with a warning if the two differ"),
            _read("peerProtocol", "zab", values.one_of_in_any_case("zab", "zookeeper"),
                  "the protocol between servers, the same one on all of them. `zab`: that of this project. `zookeeper`: that of Apache ZooKeeper 3.5 to 3.9, for a member of an ensemble with servers of ZooKeeper; see [how to move without downtime](../howto/move-from-zookeeper.md). Not a key of ZooKeeper's"),
            _read("quorumListenOnAllIPs", "false", values.flag_or_yes_no, "listen for servers on all addresses, not only on the one in the `server.N` line of this server"),
            _sets("maxLeadersLost", "3", "limits.leaders_lost_max", _whole(2), "refuse a request if this many leaders in a row were lost while it was under way; not a key of ZooKeeper's"),
            _sets("db.autocreate", "true", "storage.autocreate", values.flag_or_yes_no,
                  "begin a new history in an empty directory; false: get the history from the other servers"),
            _sets("db.damagedFilesMax", "1000", "storage.damaged_files_max", _whole(1),
                  "the most files named `damaged.*` to keep; above it, new damage deletes the oldest ones, but none of its own"),
            _sets("db.damagedSizeLimitInKb", "4194304", "storage.damaged_bytes_max", values.kibibytes, "the maximum total size of files named `damaged.*`, in KiB; above it, new damage deletes the oldest ones, but none of its own"),
            _sets("db.vetoLostHistory", "true", "settings.veto_lost_history", values.flag,
                  "do not follow a leader that lacks transactions which this server knows to be committed, until another leader has them or an operator decides; false: give them up at once"),
            _ignored("observer.syncEnabled", "true", "observers always keep a log and snapshots", "true"),
            _ignored("leader.nodelay", "true", "TCP_NODELAY is always set", "true"),
            _ignored("follower.nodelay", "true", "TCP_NODELAY is always set", "true"),
            _ignored("electionAlg", "3", "there is one election algorithm", "3"),
            _ignored("syncEnabled", "true", "observers always keep a log and snapshots", "true"),
            _ignored("leaderServes", "yes", "a leader always serves clients", "yes", "true"),
            _ignored("observerMasterPort", "none", "observers follow the leader"),
            _ignored("observerMaster.sizeLimit", "33554432", "observers follow the leader"),
            _ignored("multiAddress.enabled", "false", "the first address of a server is used", "false"),
            _ignored("multiAddress.reachabilityCheckEnabled", "true", "the first address of a server is used"),
            _ignored("multiAddress.reachabilityCheckTimeoutMs", "1000", "the first address of a server is used"),
            _ignored("electionPortBindRetry", "3", "a start fails if a port is in use; after a change of the members, binding is tried again"),
            _ignored("oraclePath", "none", "an ensemble of two needs both servers"),
            _ignored("initialConfig", "none", _NO_PEERS_OF_THEIRS),
            _ignored("leaderConnectDelayDuringRetryMs", "100", "the pause before the next attempt is fixed: 100 ms"),
            _ignored("forceSnapshotSync", "false", "a snapshot is sent if the log does not reach back far enough", "false"),
            _ignored("leader.ackLoggingFrequency", "1000", "acknowledgements are not logged"),
            _ignored("learner.asyncSending", "false", "sending never blocks", "true"),
            _ignored("learner.closeSocketAsync", "false", "closing never blocks", "true"),
            _ignored("leader.closeSocketAsync", "false", "closing never blocks", "true"),
            _ignored("leader.maxConcurrentSnapSyncs", "10", _ANY_SYNCS),
            _ignored("leader.maxConcurrentDiffSyncs", "100", _ANY_SYNCS),
            _ignored("tcpKeepAlive", "false", "connections between servers always use TCP keep-alive", "true"),
            _ignored("messageTracker.BufferSize", "10", _NO_TRACKER),
            _ignored("messageTracker.Enabled", "false", _NO_TRACKER, "false"),
        ),
    ),
    (
        "Log and snapshots",
        (
            _sets("snapCount", "100000", "limits.snap_entries", values.clamped(2), "the most transactions between two snapshots"),
            _sets("snapSizeLimitInKb", "65536", "limits.snap_bytes", values.kibibytes, "the most KiB of log between two snapshots"),
            _sets("autopurge.snapRetainCount", "3", "limits.snapshots_kept", values.clamped(3),
                  "the number of snapshots to keep, with the log after the oldest"),
            _read("autopurge.purgeInterval", "0", _whole(0), "0 switches purging off in ZooKeeper; here superfluous files are always purged after a snapshot"),
            _sets("txnLogSizeLimitInKb", "16384", "storage.segment_bytes", values.kibibytes, "the size of one log file, in KiB"),
            _read("preAllocSize", "65536", _whole(0),
                  "the space in KiB that ZooKeeper reserves at a time for a log file. Here, 0: no space is reserved; any other value: the whole of each log file (`txnLogSizeLimitInKb`) is reserved when it is created"),
            _ignored("forceSync", "yes", "nothing is acknowledged before it is on the disk", "yes", "true"),
            _ignored("fsync.warningthresholdms", "1000", "the threshold is fixed: a warning if at least half of the last 10 fsyncs took over 100 ms; the metric `fsynctime` has number and durations"),
            _ignored("flushDelay", "0", _ALWAYS_BATCHED, "0"),
            _ignored("maxWriteQueuePollTime", "flushDelay/3", _ALWAYS_BATCHED),
            _ignored("maxBatchSize", "1000", _ALWAYS_BATCHED),
            _ignored("commitLogCount", "500", "learners get missing transactions from memory or from the log on disk"),
            _ignored("snapshotSizeFactor", "0.33", "the log is sent if it reaches back far enough, and at most 1,000,000 transactions must be read from the disk; otherwise a snapshot is sent"),
            _ignored("snapshot.compression.method", "none", "snapshots have a format of their own"),
            _ignored("snapshot.trust.empty", "false", "only for upgrades from ZooKeeper before 3.5", "false"),
            _ignored("serializeLastProcessedZxid.enabled", "true", "a snapshot is exactly the state at its zxid", "true"),
            _ignored("closeSessionTxn.enabled", "true", "the transaction that closes a session lists its ephemeral nodes", "true"),
            _ignored("digest.enabled", "true", "the trees' digests are always compared", "true"),
        ),
    ),
    (
        "Security",
        (
            _sets("skipACL", "no", "access.skip", values.flag_or_yes_no, "ignore all ACLs: every client may do everything"),
            _sets("DigestAuthenticationProvider.superDigest", "none", "client_ports.super_digest", _super_digest,
                  "`user:hash` of a super user with all permissions"),
            _sets("DigestAuthenticationProvider.digestAlg", "SHA1", "client_ports.digest_algorithm", _digest_algorithm,
                  "the hash of the digest scheme"),
            _read("DigestAuthenticationProvider.enabled", "true", values.flag_or_yes_no, "allow the digest scheme, in logins and in ACLs"),
            _ignored("enableEagerACLCheck", "false", "only the leader checks whether the ACLs permit a write", "false"),
            _read("superUser", "none", values.text, "the name of a super user that logs in by SASL"),
            _sets("failedLogin.pause", "100", "logins.pause_ms", _whole(0), "the pause in ms before a failed login is answered; each failure of an address doubles its next pause, and 10 s without a failure halve it; 0: no pause, and no bound on guesses. ZooKeeper has no such key"),
            _sets("failedLogin.pauseMax", "5000", "logins.pause_ms_max", _whole(1), "the longest pause before a failed login is answered, in ms"),
            _sets("failedLogin.waitingMax", "8", "logins.waiting_max", _whole(1), "the most concurrent pauses of one address; while it has so many, its further logins are refused unchecked (a client port still checks digest logins by other names than the super user's)"),
            _read("enforce.auth.enabled", "false", values.flag_or_yes_no, "serve only clients that have proved an identity of a scheme in `enforce.auth.schemes`"),
            _read("enforce.auth.schemes", "none", values.text, "schemes, with commas between them; `enforce.auth.enabled` requires an identity of one of them"),
            _read("sessionRequireClientSASLAuth", "false", values.flag_or_yes_no, "serve only clients that logged in by SASL"),
            _read("allowSaslFailedClients", "false", values.flag_or_yes_no, "keep a client whose SASL login failed, without that identity, unless an identity of SASL is required"),
            _read("ensembleAuthName", "none", values.text, "this ensemble's names, with commas between them; if an `authProvider.N` is ZooKeeper's EnsembleAuthenticationProvider, a client that names another ensemble is disconnected"),
            _read("X509AuthenticationProvider.superUser", "none", values.text, "the subject of a super user's certificate"),
            _read("secureClientPort", "none", values.port, "the port for clients over TLS, set up by the keys `ssl.*`"),
            _read("secureClientPortAddress", "= clientPortAddress", values.text, "the address of `secureClientPort`"),
            _read("client.portUnification", "false", values.flag_or_yes_no, "accept clients with TLS at `clientPort`, too"),
            _read("client.certReload", "false", values.flag_or_yes_no, "reload changed certificates, for new connections"),
            _read("quorum.admitNonMembers", "false", values.flag_or_yes_no, "admit servers that are not members to the servers' ports, so that a reconfiguration can add them. An admitted server reads everything, so switch this on only for a join. Not a key of ZooKeeper, whose servers always admit them"),
            _read("sslQuorum", "false", values.flag_or_yes_no, "use TLS between servers, set up by the keys `ssl.quorum.*`"),
            _read("portUnification", "false", values.flag_or_yes_no, "accept other servers with and without TLS at the ports between servers, while an ensemble takes up TLS; needs the keys `ssl.quorum.*`, with or without `sslQuorum`"),
            _ignored("sslQuorumReloadCertFiles", "false", "certificates between servers are read at the start only: restart one server after the other", "false"),
            _ignored("ssl.sslProvider", "JDK", "OpenSSL implements TLS here", "openssl", "openssl_refcnt"),
            _ignored("ssl.tcnative.ocsp.stapling", "false", "OCSP stapling is not supported", "false"),
            _ignored("fips-mode", "true", _NOT_JAVA),
            _read("netty.server.outstandingHandshake.limit", "250", _whole(-1), "the most concurrent TLS handshakes of clients; one more closes the oldest handshake of the address that has the most. 0 or -1: the default"),
            _read("quorum.auth.enableSasl", "false", values.flag_or_yes_no, "with `peerProtocol=zookeeper`, servers log in at each other by SASL DIGEST-MD5, with the names and passwords in the JAAS file `java.security.auth.login.config`. Kerberos is refused"),
            _read("quorum.auth.learnerRequireSasl", "false", values.flag_or_yes_no, "log in at servers that this one dials; requires `quorum.auth.enableSasl`"),
            _read("quorum.auth.serverRequireSasl", "false", values.flag_or_yes_no, "refuse servers that dial this one and do not log in; requires `quorum.auth.learnerRequireSasl`"),
            _read("quorum.auth.learner.saslLoginContext", "QuorumLearner", values.text, "the section of the JAAS file with the `username` and the `password` of this server"),
            _read("quorum.auth.server.saslLoginContext", "QuorumServer", values.text, "the section of the JAAS file with the users that may log in, as `user_NAME`"),
            _ignored("quorum.auth.kerberos.servicePrincipal", "zkquorum/localhost", _NO_KERBEROS),
            _ignored("quorum.cnxn.threads.size", "20", _THREADS),
            _ignored("kerberos.canonicalizeHostNames", "false", _NO_KERBEROS, "false"),
            _ignored("kerberos.minReLoginTimeMs", "60000", _NO_KERBEROS),
            _ignored("requireKerberosConfig", "false", _NO_KERBEROS, "false"),
            _ignored("security.auth_to_local", "none", _NO_KERBEROS),
            _ignored("kinit", "/usr/bin/kinit", _NO_KERBEROS),
            _ignored("IPAuthenticationProvider.usexforwardedfor", "false", "a client's address is the one that it connects from", "false"),
            _ignored("netty.server.earlyDropSecureConnectionHandshakes", "false", "TLS clients may connect before this server serves; they wait", "false"),
            _read("java.security.auth.login.config", "none", values.text,
                  "a JAAS file: the users of its section `Server` may log in by SASL DIGEST-MD5"),
            _read("sasl.serverconfig", "Server", values.text, "the name of the section in the JAAS file"),
            _read("SASLAuthenticationProvider.superPassword", "none", values.text, "the password of the user `super`, in place of the one in the JAAS file"),
            _read("letAnySaslUserDoX", "none", values.text, "an id of the scheme `sasl`: an ACL entry with this id applies to every client that logged in by SASL"),
            _read("kerberos.removeHostFromPrincipal", "false", values.flag_or_yes_no, "drop `host` from a principal `name/host@realm`"),
            _read("kerberos.removeRealmFromPrincipal", "false", values.flag_or_yes_no, "drop `realm` from a principal `name/host@realm`"),
            _read("audit.enable", "false", values.flag_or_yes_no, "log every change that a client of this server requests, even if it is refused, and every login that is checked; also the ephemeral nodes that the end of a session deletes, and the start and stop of the server"),
            _read("audit.file", "the log", values.text, "the file of the audit log; not a key of ZooKeeper's, which leaves this to its logger"),
            _ignored("audit.impl.class", "none", "Java classes cannot be loaded"),
        ),
    ),
    (
        "Monitoring",
        (
            _read("admin.enableServer", "false", values.flag_or_yes_no,
                  "open the admin port: commands, metrics and a status page over HTTP. Without this key, `admin.serverPort` opens it"),
            _sets("admin.serverAddress", "127.0.0.1", "admin.host", values.text,
                  "the address of the admin port. ZooKeeper listens on all interfaces; 0.0.0.0 does the same here. Every client that reaches the port can use [the commands](admin-commands.md) without a login, except `snapshot` and `give_up_history`"),
            _sets("admin.allowedHosts", "none", "admin.hosts", values.names,
                  "names, separated by commas, that a request to the admin port or the metrics port may have in its header `Host`. Addresses, `localhost` and this server's own names are always allowed. `*` allows every name, and so DNS rebinding. ZooKeeper has no such key"),
            _sets("admin.serverPort", "8080", "admin.port", values.port, "the number of the admin port"),
            _sets("admin.commandURL", "/commands", "admin.commands_path", values.text, "the path in front of the commands' names"),
            _sets("admin.idleTimeout", "30000", "admin.idle_ms", _whole(1), "how long a connection may be idle, in ms"),
            _sets("admin.rateLimiterIntervalInMS", "300000", "admin.snapshot_ms", _whole(0), "the shortest interval between snapshots on request, in ms"),
            _sets("admin.snapshot.enabled", "true", "admin.snapshot_enabled", values.flag_or_yes_no, "allow requests for snapshots"),
            _ignored("admin.restore.enabled", "true", "a running server cannot be restored; `zab import` makes a new data directory from a snapshot", "false"),
            _ignored("admin.httpVersion", "11", "the admin port speaks HTTP/1.1, and accepts 1.0", "11"),
            _ignored("admin.portUnification", "false", "the admin port speaks HTTP without TLS: put a proxy with TLS in front of it", "false"),
            _ignored("admin.forceHttps", "false", "the admin port speaks HTTP without TLS: put a proxy with TLS in front of it", "false"),
            _ignored("admin.needClientAuth", "false", "the admin port speaks HTTP without TLS: put a proxy with TLS in front of it", "false"),
            _read("metricsProvider.className", "none", values.text,
                  "Prometheus's class opens a port for metrics; the admin port serves them in any case, at `/metrics`"),
            _sets("metricsProvider.httpHost", "0.0.0.0", "metrics.host", values.text, "the address of the port for metrics, which serves nothing else"),
            _sets("metricsProvider.httpPort", "7000", "metrics.port", values.port, "the number of the port for metrics"),
            _ignored("metricsProvider.exportJvmInfo", "true", _NOT_JAVA),
            _ignored("metricsProvider.numWorkerThreads", "1", _THREADS),
            _ignored("metricsProvider.maxQueueSize", "10000", "metrics are updated directly, without a queue"),
            _ignored("metricsProvider.workerShutdownTimeoutMs", "1000", _THREADS),
            _ignored("jvm.pause.monitor", "false", _NOT_JAVA, "false"),
            _ignored("jvm.pause.sleep.time.ms", "500", _NOT_JAVA),
            _ignored("jvm.pause.warn-threshold.ms", "10000", _NOT_JAVA),
            _ignored("jvm.pause.info-threshold.ms", "1000", _NOT_JAVA),
            _ignored("jmx.log4j.disable", "false", _NOT_JAVA),
            _ignored("jmx.log4j.mbean", "log4j", _NOT_JAVA),
            _ignored("pathStats.enabled", "false", _NO_PATHS, "false"),
            _ignored("pathStats.slotCapacity", "60", _NO_PATHS),
            _ignored("pathStats.slotDuration", "15", _NO_PATHS),
            _ignored("pathStats.maxDepth", "6", _NO_PATHS),
            _ignored("pathStats.sampleRate", "0.1", _NO_PATHS),
            _ignored("pathStats.initialDelay", "5", _NO_PATHS),
            _ignored("pathStats.delay", "5", _NO_PATHS),
            _ignored("pathStats.topPathMax", "20", _NO_PATHS),
        ),
    ),
    (
        "Inside",
        (
            _ignored("commitProcessor.numWorkerThreads", "CPU cores", _THREADS),
            _ignored("commitProcessor.maxReadBatchSize", "-1", _NO_PROCESSORS),
            _ignored("commitProcessor.maxCommitBatchSize", "1", _NO_PROCESSORS),
            _ignored("commitProcessor.shutdownTimeout", "5000", _THREADS),
            _ignored("nio.numSelectorThreads", "by cores", _THREADS),
            _ignored("nio.numWorkerThreads", "2 x cores", _THREADS),
            _ignored("nio.workerShutdownTimeoutMS", "5000", _THREADS),
            _ignored("nio.shutdownTimeout", "1000", _THREADS),
            _ignored("nio.directBufferBytes", "65536", _NOT_JAVA),
            _ignored("netty.advancedFlowControl.enabled", "false", "the server always stops reading requests of a client that leaves too many replies unread", "false"),
            _ignored("watchManagerName", "WatchManager", _ONE_WATCH_MANAGER),
            _ignored("watcherCleanThreadsNum", "2", _THREADS),
            _ignored("watcherCleanThreshold", "1000", _THREADS),
            _ignored("watcherCleanIntervalInSeconds", "600", _THREADS),
            _ignored("maxInProcessingDeadWatchers", "-1", _THREADS),
            _ignored("bitHashCacheSize", "10", _ONE_WATCH_MANAGER),
            _ignored("intBufferStartingSizeBytes", "1024", "there is no such buffer"),
            _ignored("superSpeedySnapshots", "false", "snapshots never block requests"),
            _ignored("follower.skipLearnerRequestToNextProcessor", "false", _NO_PROCESSORS, "false"),
            _ignored("forward_learner_requests_to_commit_processor_disabled", "false", _NO_PROCESSORS, "false"),
            _ignored("request.timeout", "0", _OF_CLIENTS),
            _ignored("client.secure", "false", _OF_CLIENTS),
            _ignored("clientCnxnSocket", "NIO", _OF_CLIENTS),
            _ignored("disableAutoWatchReset", "false", _OF_CLIENTS),
            _ignored("controllerPort", "none", _THEIR_TESTS),
            _ignored("test.allowDiscontinuousProposals", "false", _THEIR_TESTS, "false"),
            _ignored("testingonly.initialZxid", "none", _THEIR_TESTS),
        ),
    ),
)  # fmt: skip


FAMILIES: Final = (
    KeyFamily(re.compile(r"server\.(\d+)"), "server.N",
           "`host:quorumPort:electionPort[:role][;[clientAddress:]clientPort]`: a member. Only the first of "
           "several addresses, separated by `|`, is used"),
    KeyFamily(re.compile(r"group\.(\d+)"), "group.G", "`N:N:...`: these voters are a group"),
    KeyFamily(re.compile(r"weight\.(\d+)"), "weight.N", "the weight of a voter in its group"),
    KeyFamily(re.compile(r"authProvider\.(.+)"), "authProvider.N",
           "an authentication provider: one of ZooKeeper's classes, an entry point of this Python, or `module:name`"),
    KeyFamily(re.compile(r"superUser\.(.+)"), "superUser.N", "the name of a further super user that logs in by SASL"),
    KeyFamily(re.compile("|".join(re.escape(key) for key in TLS_KEYS if key.startswith("ssl.quorum."))), "ssl.quorum.*",
           "TLS between servers, with the same names as `ssl.*`, if `sslQuorum` is on. Let `trustStore` trust an authority that signs certificates of servers only. "
           "By default, `hostnameVerification` and `clientHostnameVerification` are true: at both ends of a connection, the certificate of the other "
           "server must name the host in that server's line `server.N`. This check does not use DNS"),
    KeyFamily(re.compile("|".join(re.escape(key) for key in TLS_KEYS if key.startswith("ssl."))), "ssl.*",
           "TLS for clients: `keyStore.location`, `.password`, `.passwordPath` and `.type` (PEM, PKCS12, JKS); the same four "
           "of `trustStore`; also `clientAuth`, `enabledProtocols`, `ciphersuites`, `hostnameVerification`, `crl`, ..."),
    KeyFamily(re.compile(r"sasl\.(.+)"), "sasl.*", _NOT_JAVA, True),
    KeyFamily(re.compile(r"snapshot\.(.+)"), "snapshot.*", "snapshots have a format of their own", True),
)  # fmt: skip

MEMBERSHIP: Final = ("server.", "group.", "weight.")
PREFIX: Final = "zookeeper."


def bare(name: str) -> str:
    """Return the name without the prefix of ZooKeeper's system properties."""
    return name.removeprefix(PREFIX)


TABLE: Final = KeyTable(SECTIONS, FAMILIES, members=TLS_KEYS, canonical=bare)
