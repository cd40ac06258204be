"""Every key of ZooKeeper's configuration, and what becomes of it here: as data.

What is read, what is warned of and what the reference page says all come from this table, so none of them can
forget a key that another one knows. A key counts with and without `zookeeper.` in front, in the file and as
`-D key=value`: the original hands to its system properties what it does not know itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from attrs import frozen

from zab.cli.zoo import values
from zab.cli.zoo.values import Convert
from zab.runtime.tls.settings import TLS_KEYS


@frozen
class Key:
    """
    sets      the setting it becomes, as `group.field`; empty: it is read by hand, or without effect
    does      what it does here; of one without effect, why it has none
    agreed    values that change nothing because they say what happens anyway: not worth a warning
    """

    name: str
    default: str
    does: str
    convert: Convert = values.text
    sets: str = ""
    ignored: bool = False
    agreed: tuple[str, ...] = ()


def _sets(name: str, default: str, sets: str, convert: Convert, does: str) -> Key:
    return Key(name, default, does, convert, sets)


def _read(name: str, default: str, convert: Convert, does: str) -> Key:
    return Key(name, default, does, convert)


def _ignored(name: str, default: str, why: str, *agreed: str) -> Key:
    return Key(name, default, why, ignored=True, agreed=agreed)


_THREADS: Final = "one event loop does it, there are no such threads"
_NOT_JAVA: Final = "it is about the Java virtual machine"
_NO_PEERS_OF_THEIRS: Final = "servers speak a protocol of their own among each other"
_ALWAYS_BATCHED: Final = (
    "whatever has gathered while the last sync ran becomes the next group, nothing waits on purpose"
)
_BOUNDED: Final = "every queue has a bound of its own instead"
_OF_CLIENTS: Final = "it is a setting of ZooKeeper's own client"
_NO_KERBEROS: Final = "there is no Kerberos"
_NO_PROCESSORS: Final = "requests do not go through a chain of processors"
_NO_PATHS: Final = "who asks how often for which path is not counted"
_THEIR_TESTS: Final = "it is for ZooKeeper's own tests"
_whole = values.whole

SECTIONS: Final[tuple[tuple[str, tuple[Key, ...]], ...]] = (
    (
        "Where things are",
        (
            _read("dataDir", "required", values.text, "the directory of this server's log and snapshots, and of `myid`"),
            _read("dataLogDir", "= dataDir", values.text, "the directory of the log, where that is to be another disk"),
            _read("clientPort", "none", values.port, "where clients are served; `server.N=...;port` says it, too"),
            _read("clientPortAddress", "all interfaces", values.text, "the address of that port"),
            _read("dynamicConfigFile", "none", values.text,
                  "the file with the membership; written anew, under a name with its version, when that changes; a relative name that is not in the directory of the start is looked for beside this file"),
            _read("datadir.autocreate", "true", values.flag, "directories that are missing are made; false: then it does not start"),
            _ignored("clientPortListenBacklog", "-1", "the system's own choice is used", "-1"),
        ),
    ),
    (
        "Time",
        (
            _sets("tickTime", "3000", "settings.tick_ms", _whole(10), "the unit of all timeouts, in milliseconds"),
            _sets("initLimit", "required", "settings.init_limit", _whole(1), "ticks to find the leader; getting its state may go without progress for as long"),
            _sets("syncLimit", "required", "settings.sync_limit", _whole(1), "ticks after which a silent peer is given up"),
            _sets("minSessionTimeout", "2 ticks", "doors.session_ms_min", _whole(-1), "the least that a session gets, in ms"),
            _sets("maxSessionTimeout", "20 ticks", "doors.session_ms_max", _whole(-1), "the most that a session gets, in ms"),
            _sets("fastleader.minNotificationInterval", "200", "settings.notification_ms_min", _whole(1),
                  "how soon votes are repeated, in ms"),
            _sets("fastleader.maxNotificationInterval", "60000", "settings.notification_ms_max", _whole(1),
                  "the longest pause between votes, in ms"),
            _sets("observer.election.DelayMs", "200", "settings.observer_delay_ms_max", _whole(0),
                  "how long observers wait, by chance, before they look for a new leader"),
            _sets("cnxTimeout", "5000", "limits.connect_ms", _whole(1), "how long reaching another server may take, in ms"),
            _ignored("quorumCnxnTimeoutMs", "-1", "a silent peer is given up after syncLimit", "-1"),
            _ignored("connectToLearnerMasterLimit", "= initLimit", "initLimit covers the connecting as well"),
            _ignored("leader.maxTimeToWaitForEpoch", "-1", "initLimit ends that wait, too", "-1"),
            _ignored("observer.reconnectDelayMs", "0", "observers come back at once", "0"),
        ),
    ),
    (
        "Clients",
        (
            _sets("maxClientCnxns", "60", "doors.connections_per_host_max", values.clamped(0),
                  "connections from one address; 0: no limit"),
            _sets("maxCnxns", "20000", "doors.connections_max", values.or_no_limit, "connections altogether; 0: no limit"),
            _sets("globalOutstandingLimit", "10000", "doors.requests_total_max", _whole(1),
                  "requests of all clients that are not answered yet; above it nothing more is read"),
            _sets("jute.maxbuffer", "1048575", "doors.frame_bytes_max", _whole(1024), "the largest request, in bytes"),
            _sets("maxAclEntries", "500", "store.acl_entries_max", _whole(1), "entries of a list of permissions that a client sets, with `auth` expanded; not a key of ZooKeeper's"),
            _sets("maxAclIdLength", "4096", "store.acl_id_chars_max", _whole(1), "characters of one id in such a list; not a key of ZooKeeper's"),
            _sets("maxPathDepth", "100", "store.path_depth_max", _whole(1), "names in the path of a node that is created; not a key of ZooKeeper's"),
            _sets("maxIdentities", "100", "doors.identities_max", _whole(1), "identities that one client may prove, its address included; not a key of ZooKeeper's"),
            _sets("maxMultiOps", "10000", "store.multi_ops_max", _whole(1), "operations of one multi; not a key of ZooKeeper's"),
            _sets("maxEphemeralBytes", "2097152", "store.ephemeral_bytes_max", _whole(1), "paths of the ephemeral nodes of one session, and 64 bytes more for each node; not a key of ZooKeeper's"),
            _sets("maxWatchesPerClient", "100000", "doors.watches_per_client_max", _whole(1), "watches of one client, each counted once more for each 256 characters of its path; not a key of ZooKeeper's"),
            _sets("maxWatches", "1000000", "doors.watches_max", _whole(1), "watches of all clients of this server; not a key of ZooKeeper's"),
            _sets("maxListedRows", "10000", "doors.listed_max", _whole(1), "connections, sessions, ephemerals or watches that one answer of a four-letter word or of the admin port lists, which holds up the clients meanwhile; what is cut says so; not a key of ZooKeeper's"),
            _ignored("jute.maxbuffer.extrasize", "= jute.maxbuffer", "what servers add has room of its own"),
            _sets("nio.sessionlessCnxnTimeout", "10000", "doors.first_frame_ms", _whole(1),
                  "how long a connection may take to say who it is, in ms"),
            _sets("4lw.commands.whitelist", "isro, mntr, ruok, srvr, stat", "doors.words", values.list_of,
                  "four-letter words that are answered; `*`: all"),
            _sets("znode.container.checkIntervalMs", "60000", "doors.containers_ms", _whole(1),
                  "between looks for empty containers and outlived TTL nodes"),
            _sets("znode.container.maxPerMinute", "10000", "doors.containers_per_minute_max", _whole(1), "how many of them go"),
            _sets("znode.container.maxNeverUsedIntervalMs", "0", "doors.containers_never_used_ms", _whole(0), "how long a container may wait for its first child; 0: for ever"),
            _sets("extendedTypesEnabled", "false", "store.extended_types", values.flag, "TTL nodes may be created"),
            _ignored("emulate353TTLNodes", "false", "nothing of that age is here", "false"),
            _sets("enforceQuota", "false", "store.enforce_quota", values.flag, "hard quotas refuse, they do not only warn"),
            _ignored("clientTcpKeepAlive", "false", "a session's pings do this", "false"),
            _ignored("serverCnxnFactory", "NIO", "there is one client port implementation"),
            _sets("localSessionsEnabled", "false", "doors.local_sessions_enabled", values.flag, "clients get sessions that only their server knows"),
            _sets("localSessionsUpgradingEnabled", "false", "doors.local_sessions_upgrading_enabled", values.flag, "such a session becomes known to all when it first makes an ephemeral node"),
            _sets("readonlymode.enabled", "false", "doors.read_only_mode_enabled", values.flag, "clients that accept it may read while there is no leader"),
            _ignored("maxResponseCacheSize", "400", "replies are put together faster than a cache could be kept"),
            _ignored("maxGetChildrenResponseCacheSize", "400", "replies are put together faster than a cache could be kept"),
            _sets("request_throttle_max_requests", "0", "throttle.request_max_requests", _whole(0), "requests of all clients that are not answered yet; 0: see globalOutstandingLimit"),
            _sets("request_throttle_stall_time", "100", "throttle.request_stall_ms", _whole(1), "how long the others wait, in ms, before they look again"),
            _ignored("request_throttle_drop_stale", "true", "what a closed connection had asked and was not looked at yet is dropped", "true"),
            _sets("request_stale_latency_check", "false", "throttle.request_stale_latency_check", values.flag, "a client is cut whose request waited for longer than its session's timeout"),
            _ignored("request_stale_connection_check", "true", "what a closed connection had asked and was not looked at yet is dropped", "true"),
            _ignored("request_throttler.shutdownTimeout", "10000", _BOUNDED),
            _sets("throttled_op_wait_time", "0", "throttle.op_wait_ms", _whole(0), "a request that waited for so many ms is answered with THROTTLEDOP; 0: never"),
            _sets("connection_throttle_tokens", "0", "throttle.connection_tokens", _whole(0), "how many connections may come at once; 0: any number"),
            _sets("connection_throttle_fill_time", "1", "throttle.connection_fill_ms", _whole(1), "every so many ms"),
            _sets("connection_throttle_fill_count", "1", "throttle.connection_fill_count", _whole(1), "so many tokens come back"),
            _sets("connection_throttle_freeze_time", "-1", "throttle.connection_freeze_ms", _whole(-1), "between two changes of the chance of being closed, in ms; -1: there is none"),
            _sets("connection_throttle_drop_increase", "0.02", "throttle.connection_drop_increase", values.fraction, "of that chance, when no token is left"),
            _sets("connection_throttle_drop_decrease", "0.002", "throttle.connection_drop_decrease", values.fraction, "of the same, when enough are"),
            _sets("connection_throttle_decrease_ratio", "0", "throttle.connection_decrease_ratio", values.fraction, "what part of the tokens may be missing then"),
            _sets("connection_throttle_weight_enabled", "false", "throttle.connection_weight_enabled", values.flag, "a connection costs tokens as its session costs work; else one"),
            _sets("connection_throttle_global_session_weight", "3", "throttle.connection_global_session_weight", _whole(1), "a new session that all know"),
            _sets("connection_throttle_renew_session_weight", "2", "throttle.connection_renew_session_weight", _whole(1), "a session that comes back"),
            _sets("connection_throttle_local_session_weight", "1", "throttle.connection_local_session_weight", _whole(1), "a session that only this server knows"),
            _sets("largeRequestThreshold", "-1", "throttle.large_request_threshold", _whole(-1), "a request of more bytes is large; -1: none is"),
            _sets("largeRequestMaxBytes", "104857600", "throttle.large_request_max_bytes", _whole(1), "bytes of all large ones that are not answered yet; whoever sends one more is cut"),
        ),
    ),
    (
        "The ensemble",
        (
            _sets("standaloneEnabled", "true", "doors.standalone_enabled", values.flag,
                  "without `server.N` lines this server is alone, and a reconfiguration leaves two voters at least; false: neither"),
            _sets("reconfigEnabled", "false", "doors.reconfig_enabled", values.flag,
                  "clients with the right to do so may change the membership"),
            _read("peerType", "participant", values.one_of("participant", "observer"),
                  "checked against this server's own line, which counts more"),
            _read("quorumListenOnAllIPs", "false", values.flag, "listen for servers on all addresses, not on the one in the line"),
            _sets("maxLeadersLost", "3", "limits.leaders_lost_max", _whole(2), "a request during which so many leaders in a row were lost is refused; not a key of ZooKeeper's"),
            _sets("db.autocreate", "true", "storage.autocreate", values.flag,
                  "an empty directory is the beginning of a history; false: it waits for the others to give it theirs"),
            _sets("db.damagedFilesMax", "1000", "storage.damaged_files_max", _whole(1),
                  "files named `damaged.*` that are kept; above it, those of earlier damage go when new ones come"),
            _sets("db.damagedSizeLimitInKb", "4194304", "storage.damaged_bytes_max", values.kibibytes, "the same in KiB"),
            _ignored("observer.syncEnabled", "true", "observers keep a log and snapshots as everybody does", "true"),
            _ignored("leader.nodelay", "true", "nothing is held back on its way", "true"),
            _ignored("follower.nodelay", "true", "nothing is held back on its way", "true"),
            _ignored("electionAlg", "3", "there is one election", "3"),
            _ignored("syncEnabled", "true", "observers keep a log and snapshots as everybody does", "true"),
            _ignored("leaderServes", "yes", "a leader serves clients", "yes", "true"),
            _ignored("observerMasterPort", "none", "observers follow the leader"),
            _ignored("observerMaster.sizeLimit", "33554432", "observers follow the leader"),
            _ignored("multiAddress.enabled", "false", "the first address of a server is used", "false"),
            _ignored("multiAddress.reachabilityCheckEnabled", "true", "the first address of a server is used"),
            _ignored("multiAddress.reachabilityCheckTimeoutMs", "1000", "the first address of a server is used"),
            _ignored("electionPortBindRetry", "3", "a taken port ends the start, and is tried again when the membership changes"),
            _ignored("oraclePath", "none", "two servers need both of them"),
            _ignored("initialConfig", "none", _NO_PEERS_OF_THEIRS),
            _ignored("leaderConnectDelayDuringRetryMs", "100", "the next attempt comes after a bounded pause"),
            _ignored("forceSnapshotSync", "false", "a snapshot is sent where the log does not reach", "false"),
            _ignored("leader.ackLoggingFrequency", "1000", "`--log-level debug` tells what servers say"),
            _ignored("learner.asyncSending", "false", "sending never blocks", "true"),
            _ignored("learner.closeSocketAsync", "false", "closing never blocks", "true"),
            _ignored("leader.closeSocketAsync", "false", "closing never blocks", "true"),
            _ignored("leader.maxConcurrentSnapSyncs", "10", _BOUNDED),
            _ignored("leader.maxConcurrentDiffSyncs", "100", _BOUNDED),
            _ignored("tcpKeepAlive", "false", "a leader's pings do this", "false"),
            _ignored("messageTracker.BufferSize", "10", "`--log-level debug` tells what servers say"),
            _ignored("messageTracker.Enabled", "false", "`--log-level debug` tells what servers say", "false"),
        ),
    ),
    (
        "Log and snapshots",
        (
            _sets("snapCount", "100000", "limits.snap_entries", values.clamped(2), "transactions between two snapshots, at most"),
            _sets("snapSizeLimitInKb", "65536", "limits.snap_bytes", values.kibibytes, "the same in KiB of log"),
            _sets("autopurge.snapRetainCount", "3", "limits.snapshots_kept", values.clamped(3),
                  "snapshots that are kept, with the log that the oldest of them needs"),
            _read("autopurge.purgeInterval", "0", _whole(0), "0, in the original, is no purging; here what is superfluous is purged after each snapshot, always"),
            _sets("txnLogSizeLimitInKb", "16384", "storage.segment_bytes", values.kibibytes, "the size of one log file, in KiB"),
            _read("preAllocSize", "65536", _whole(0), "0: log files are not allocated in advance; else they are"),
            _ignored("forceSync", "yes", "nothing is acknowledged before it is on the disk", "yes", "true"),
            _ignored("fsync.warningthresholdms", "1000", "the status counts syncs and tells the slowest"),
            _ignored("flushDelay", "0", _ALWAYS_BATCHED, "0"),
            _ignored("maxWriteQueuePollTime", "flushDelay/3", _ALWAYS_BATCHED),
            _ignored("maxBatchSize", "1000", _ALWAYS_BATCHED),
            _ignored("commitLogCount", "500", "what learners miss is read from the log on the disk"),
            _ignored("snapshotSizeFactor", "0.33", "the log is sent where it reaches back far enough, else a snapshot"),
            _ignored("snapshot.compression.method", "none", "snapshots have a format of their own"),
            _ignored("snapshot.trust.empty", "false", "it was for a move from a version of before 3.5", "false"),
            _ignored("serializeLastProcessedZxid.enabled", "true", "a snapshot is exact at one zxid", "true"),
            _ignored("closeSessionTxn.enabled", "true", "the transaction says which ephemerals went", "true"),
            _ignored("digest.enabled", "true", "the trees' digests are always compared", "true"),
        ),
    ),
    (
        "Security",
        (
            _sets("skipACL", "no", "access.skip", values.flag, "nobody is asked who they are"),
            _sets("DigestAuthenticationProvider.superDigest", "none", "doors.super_digest", values.super_digest,
                  "`user:hash` of who may do anything"),
            _sets("DigestAuthenticationProvider.digestAlg", "SHA1", "doors.digest_algorithm", values.digest_algorithm,
                  "of the digest scheme"),
            _read("DigestAuthenticationProvider.enabled", "true", values.flag, "whether `user:password` is a way to be somebody"),
            _ignored("enableEagerACLCheck", "false", "the leader checks, once", "false"),
            _read("superUser", "none", values.text, "a name that may do anything once it is proved by SASL"),
            _sets("failedLogin.pause", "100", "logins.pause_ms", _whole(0), "ms before a failed login is answered; each failure of an address doubles it for the next one; 0: no pause, and no bound on guesses. ZooKeeper has no such key"),
            _sets("failedLogin.pauseMax", "5000", "logins.pause_ms_max", _whole(1), "the longest such pause, in ms"),
            _sets("failedLogin.waitingMax", "8", "logins.waiting_max", _whole(1), "such pauses of one address at one time; while there are as many, further logins from it are cut off"),
            _read("enforce.auth.enabled", "false", values.flag, "only who is somebody of a scheme in `enforce.auth.schemes` may ask anything"),
            _read("enforce.auth.schemes", "none", values.text, "these schemes, with commas between them"),
            _read("sessionRequireClientSASLAuth", "false", values.flag, "the same with `sasl`"),
            _read("allowSaslFailedClients", "false", values.flag, "who fails at SASL may stay, as nobody"),
            _read("ensembleAuthName", "none", values.text, "who names another ensemble than these is sent away, with the scheme `ensemble`"),
            _read("X509AuthenticationProvider.superUser", "none", values.text, "the subject of the certificate that may do anything"),
            _read("secureClientPort", "none", values.port, "where clients are served over TLS, as the keys `ssl.*` say"),
            _read("secureClientPortAddress", "all interfaces", values.text, "the address of that port"),
            _read("client.portUnification", "false", values.flag, "`clientPort` takes clients that speak TLS, too"),
            _read("client.certReload", "false", values.flag, "certificates that have changed are read again, for connections from then on"),
            _read("quorum.admitNonMembers", "false", values.flag, "servers that are in no membership may connect to the servers' ports, before a reconfiguration adds them: for the time of a join, because such a server reads everything. Not a key of ZooKeeper, whose servers always admit them"),
            _read("sslQuorum", "false", values.flag, "servers speak TLS among each other, as the keys `ssl.quorum.*` say"),
            _ignored("portUnification", "false", "the servers' ports speak TLS or they do not", "false"),
            _ignored("sslQuorumReloadCertFiles", "false", "certificates between servers are read at the start: restart one server after the other", "false"),
            _ignored("ssl.sslProvider", "JDK", "TLS is done by OpenSSL", "openssl", "openssl_refcnt"),
            _ignored("ssl.tcnative.ocsp.stapling", "false", "no OCSP answers are handed out", "false"),
            _ignored("fips-mode", "true", _NOT_JAVA),
            _read("netty.server.outstandingHandshake.limit", "250", _whole(-1), "handshakes that may be under way; one more ends the oldest of the address that has most of them. 0 and less: the default"),
            _read("quorum.auth.enableSasl", "false", values.flag, "true is refused: servers know each other by TLS certificates, see `sslQuorum`"),
            _read("quorum.auth.learnerRequireSasl", "false", values.flag, "true is refused: servers know each other by TLS certificates, see `sslQuorum`"),
            _read("quorum.auth.serverRequireSasl", "false", values.flag, "true is refused: servers know each other by TLS certificates, see `sslQuorum`"),
            _ignored("quorum.auth.learner.saslLoginContext", "QuorumLearner", "servers know each other by TLS certificates"),
            _ignored("quorum.auth.server.saslLoginContext", "QuorumServer", "servers know each other by TLS certificates"),
            _ignored("quorum.auth.kerberos.servicePrincipal", "zkquorum/localhost", "servers know each other by TLS certificates"),
            _ignored("quorum.cnxn.threads.size", "20", _THREADS),
            _ignored("kerberos.canonicalizeHostNames", "false", _NO_KERBEROS, "false"),
            _ignored("kerberos.minReLoginTimeMs", "60000", _NO_KERBEROS),
            _ignored("requireKerberosConfig", "false", _NO_KERBEROS, "false"),
            _ignored("security.auth_to_local", "none", _NO_KERBEROS),
            _ignored("kinit", "/usr/bin/kinit", _NO_KERBEROS),
            _ignored("IPAuthenticationProvider.usexforwardedfor", "false", "a client's address is the one that it connects from", "false"),
            _ignored("netty.server.earlyDropSecureConnectionHandshakes", "false", "who comes over TLS before this server serves may wait", "false"),
            _read("java.security.auth.login.config", "none", values.text,
                  "a JAAS file: the users of its section `Server` may prove by SASL DIGEST-MD5 who they are"),
            _read("sasl.serverconfig", "Server", values.text, "the name of that section"),
            _read("SASLAuthenticationProvider.superPassword", "none", values.text, "the password of its user `super`"),
            _read("letAnySaslUserDoX", "none", values.text, "an id of the sasl scheme that stands for everybody with a name"),
            _read("kerberos.removeHostFromPrincipal", "false", values.flag, "`host` of a principal `name/host@realm` is left out"),
            _read("kerberos.removeRealmFromPrincipal", "false", values.flag, "`realm` of it is left out"),
            _read("audit.enable", "false", values.flag, "a line for whatever a client changes, or may not, and for every proof of who it is"),
            _read("audit.file", "the log", values.text, "the file for these lines; not a key of ZooKeeper's, which leaves this to its logger"),
            _ignored("audit.impl.class", "none", "a class of Java's cannot be loaded"),
        ),
    ),
    (
        "Looking at it",
        (
            _read("admin.enableServer", "false", values.flag,
                  "commands, metrics and a page over HTTP; without this key, `admin.serverPort` switches it on"),
            _sets("admin.serverAddress", "127.0.0.1", "admin.host", values.text,
                  "the address of that port, on all interfaces in the original: 0.0.0.0 asks for that. Whoever reaches the port reads without login what [the commands](admin-commands.md) show"),
            _sets("admin.allowedHosts", "none", "admin.hosts", values.list_of,
                  "names, with commas between, that the header `Host` of a request to the admin port or the metrics' port may have, beside addresses, `localhost` and this server's own names; `*`: any, which opens them to DNS rebinding. The original has no such key"),
            _sets("admin.serverPort", "8080", "admin.port", values.port, "the port itself"),
            _sets("admin.commandURL", "/commands", "admin.commands_path", values.text, "in front of the commands' names"),
            _sets("admin.idleTimeout", "30000", "admin.idle_ms", _whole(1), "between requests of one connection, in ms"),
            _sets("admin.rateLimiterIntervalInMS", "300000", "admin.snapshot_ms", _whole(0), "between two snapshots that are asked for"),
            _sets("admin.snapshot.enabled", "true", "admin.snapshot_enabled", values.flag, "whether a snapshot may be asked for"),
            _ignored("admin.restore.enabled", "true", "a directory is restored by `zab import`, while its server is stopped", "false"),
            _ignored("admin.httpVersion", "11", "that port speaks HTTP/1.1, and takes 1.0", "11"),
            _ignored("admin.portUnification", "false", "that port speaks HTTP without TLS: put it behind something that does", "false"),
            _ignored("admin.forceHttps", "false", "that port speaks HTTP without TLS: put it behind something that does", "false"),
            _ignored("admin.needClientAuth", "false", "that port speaks HTTP without TLS: put it behind something that does", "false"),
            _read("metricsProvider.className", "none", values.text,
                  "Prometheus's class opens a port of its own for metrics; the admin port has them anyway, at `/metrics`"),
            _sets("metricsProvider.httpHost", "0.0.0.0", "metrics.host", values.text, "the address of the metrics' own port, which shows nothing else"),
            _sets("metricsProvider.httpPort", "7000", "metrics.port", values.port, "that port"),
            _ignored("metricsProvider.exportJvmInfo", "true", _NOT_JAVA),
            _ignored("metricsProvider.numWorkerThreads", "1", _THREADS),
            _ignored("metricsProvider.maxQueueSize", "10000", _BOUNDED),
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
            _ignored("commitProcessor.maxReadBatchSize", "-1", _THREADS),
            _ignored("commitProcessor.maxCommitBatchSize", "1", _THREADS),
            _ignored("commitProcessor.shutdownTimeout", "5000", _THREADS),
            _ignored("nio.numSelectorThreads", "by cores", _THREADS),
            _ignored("nio.numWorkerThreads", "2 x cores", _THREADS),
            _ignored("nio.workerShutdownTimeoutMS", "5000", _THREADS),
            _ignored("nio.shutdownTimeout", "1000", _THREADS),
            _ignored("nio.directBufferBytes", "65536", _NOT_JAVA),
            _ignored("netty.advancedFlowControl.enabled", "false", "a client that does not read is not read from", "false"),
            _ignored("watchManagerName", "WatchManager", "there is one way of keeping watches"),
            _ignored("watcherCleanThreadsNum", "2", _THREADS),
            _ignored("watcherCleanThreshold", "1000", _THREADS),
            _ignored("watcherCleanIntervalInSeconds", "600", _THREADS),
            _ignored("maxInProcessingDeadWatchers", "-1", _THREADS),
            _ignored("bitHashCacheSize", "10", _THREADS),
            _ignored("intBufferStartingSizeBytes", "1024", _BOUNDED),
            _ignored("superSpeedySnapshots", "false", "snapshots do not hold up anything"),
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


@frozen
class Family:
    """Keys with a number or a name in them."""

    pattern: re.Pattern[str]
    shown: str
    does: str
    ignored: bool = False


FAMILIES: Final = (
    Family(re.compile(r"server\.(\d+)"), "server.N",
           "`host:quorumPort:electionPort[:role][;[clientAddress:]clientPort]`: a member. Of addresses with `|` between them, "
           "the first is used"),
    Family(re.compile(r"group\.(\d+)"), "group.G", "`N:N:...`: these voters are a group"),
    Family(re.compile(r"weight\.(\d+)"), "weight.N", "the weight of a voter in its group"),
    Family(re.compile(r"authProvider\.(.+)"), "authProvider.N",
           "one of ZooKeeper's classes, an entry point of this Python, or `module:name`: a way to be somebody"),
    Family(re.compile(r"superUser\.(.+)"), "superUser.N", "another name like that of `superUser`"),
    Family(re.compile("|".join(re.escape(key) for key in TLS_KEYS if key.startswith("ssl.quorum."))), "ssl.quorum.*",
           "the same between servers, where `sslQuorum` is on; let their `trustStore` be an authority that signs nothing but servers. "
           "`hostnameVerification` and `clientHostnameVerification` (both true): at either end, the other server's certificate must name the host "
           "that `server.N` gives it, without a look at the name service"),
    Family(re.compile("|".join(re.escape(key) for key in TLS_KEYS if key.startswith("ssl."))), "ssl.*",
           "TLS for clients: `keyStore.location`, `.password`, `.passwordPath` and `.type` (PEM, PKCS12, JKS), the same of "
           "`trustStore`, `clientAuth`, `enabledProtocols`, `ciphersuites`, `hostnameVerification`, `crl`, ..."),
    Family(re.compile(r"sasl\.(.+)"), "sasl.*", _NOT_JAVA, True),
    Family(re.compile(r"snapshot\.(.+)"), "snapshot.*", "snapshots have a format of their own", True),
)  # fmt: skip

MEMBERSHIP: Final = ("server.", "group.", "weight.")
PREFIX: Final = "zookeeper."

BY_NAME: Final[dict[str, Key]] = {key.name: key for _, keys in SECTIONS for key in keys}


def bare(name: str) -> str:
    """Without the prefix of the original's system properties."""
    return name.removeprefix(PREFIX)


def family_of(name: str) -> Family | None:
    return next((family for family in FAMILIES if family.pattern.fullmatch(name)), None)


def is_known(name: str) -> bool:
    family = family_of(name)
    return name in BY_NAME or (family is not None and not family.ignored)


def known_names() -> Iterable[str]:
    return [*BY_NAME, *TLS_KEYS, *(family.shown for family in FAMILIES)]
