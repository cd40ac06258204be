"""The keys of `server.properties`, and the setting that each one becomes.

The parser, the warnings and the reference page use this table. `sets` names the broker setting of a key as
`group.field`. A key of the group `log` is the broker's default of the topic setting with the name after `log.`.
"""

from __future__ import annotations

from typing import Final

from replica.cli.properties.idle import IDLE
from replica.cli.properties.values import idle, is_rack_aware, topic_setting
from zab.config.key_table import ConfigKey, KeyTable, Section
from zab.config.key_table import read as _read
from zab.config.key_table import sets as _sets
from zab.config.values import (
    INT_MAX,
    LONG_MAX,
    SHORT_MAX,
    any_long,
    flag,
    in_ms,
    names,
    one_more,
    one_of,
    optional,
    or_default,
    seconds,
    seconds_of_ms,
    text,
    whole,
)

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PRINCIPALS: Final = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"


def _log(name: str, default: str, topic_key: str, does: str) -> ConfigKey:
    """Declare a key that is the default of the topic setting `topic_key`."""
    return ConfigKey(name, default, does, topic_setting(name), f"log.{topic_key}")


_WITH_EFFECT: Final[tuple[Section, ...]] = (
    (
        "Identity and addresses",
        (
            _read("broker.id", "-1", whole(-1), "the number of this broker; -1: the store assigns one, which is saved in the log directories"),
            _read("broker.id.generation.enable", "true", flag, "let the store assign a number if `broker.id` is not set; false: `broker.id` is required, and may be any number"),
            _sets("reserved.broker.max.id", "1000", "plan.reserved_max", whole(0), "the store assigns numbers above this one"),
            _read("log.dirs", "/tmp/kafka-logs", text, "the log directories, separated by commas"),
            _read("log.dir", "/tmp/kafka-logs", text, "the log directory if `log.dirs` is not set"),
            _read("listeners", "PLAINTEXT://:9092", text, "the listeners for clients and other brokers; one named CONTROLLER is for controllers"),
            _read("advertised.listeners", "= listeners", text, "the addresses to which clients and other brokers connect"),
            _read("listener.security.protocol.map", "name = protocol", text, "the security protocol of each listener: `NAME:PROTOCOL,...`"),
            _read("inter.broker.listener.name", "the first", text, "the listener to which other brokers connect"),
            _read("security.inter.broker.protocol", "PLAINTEXT", one_of(*PROTOCOLS), "select the inter-broker listener by its security protocol, instead of by `inter.broker.listener.name`"),
            _sets("zab.operators.hosts", "none", "plan.operators_hosts", names, "host names that the header `Host` of a request to the port of `--operators` may have, in addition to IP addresses, `localhost`, this machine's name and those of the listeners; `*`: any, which allows DNS rebinding attacks. Not a key of Kafka"),
            _sets("broker.rack", "none", "config.rack", optional, "the rack of this broker; replicas of a partition are spread over racks"),
        ),
    ),
    (
        "TLS, authentication and authorization",
        (
            _read("ssl.keystore.location", "none", text, "the file with the broker's certificate and private key"),
            _read("ssl.keystore.type", "detected", text, "PEM, PKCS12 or JKS"),
            _read("ssl.keystore.password", "none", text, "the password of the keystore file"),
            _read("ssl.key.password", "none", text, "the password of the private key in a PEM file; for other types the password of the keystore file"),
            _read("ssl.truststore.location", "the system's", text, "the file with the authorities that sign certificates of clients and other brokers"),
            _read("ssl.truststore.type", "detected", text, "PEM, PKCS12 or JKS"),
            _read("ssl.truststore.password", "none", text, "the password of the truststore file"),
            _read("ssl.client.auth", "none", text, "whether clients present a certificate: none, requested (it is optional), required"),
            _read("ssl.principal.mapping.rules", "DEFAULT", text, "the principal of a certificate: `RULE:pattern/replacement/[LU]`, the first rule that matches. Rules accept subjects of up to 1,024 characters; a pattern with nested repetitions, like `(a+)+`, lets the holder of a certificate stall the broker"),
            _read("ssl.enabled.protocols", "TLSv1.2,TLSv1.3", text, "the versions of TLS"),
            _read("ssl.cipher.suites", "secure ones", text, "the cipher suites, by Java's names or OpenSSL's"),
            _read("ssl.endpoint.identification.algorithm", "https", text, "https: another broker's certificate must name its host; empty: not checked"),
            _read("sasl.enabled.mechanisms", "PLAIN", text, "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; the users of PLAIN are in `listener.name.NAME.plain.sasl.jaas.config`, those of SCRAM in the store"),
            _read("sasl.mechanism.inter.broker.protocol", "none", text, "the mechanism by which brokers authenticate to each other, with `username` and `password` in `listener.name.NAME.MECHANISM.sasl.jaas.config`"),
            _read("authorizer.class.name", "none", text, "`kafka.security.authorizer.AclAuthorizer`: ACLs in the store authorize requests; without it every client may do everything"),
            _read("super.users", "none", text, "principals that may do everything regardless of ACLs: `User:ann;User:bob`. Brokers must be among them, or have the permission ClusterAction"),
            _read("allow.everyone.if.no.acl.found", "false", flag, "allow all operations on resources without an ACL"),
            _read("principal.builder.class", "Kafka's own", one_of(_PRINCIPALS), "the class that derives principals; only Kafka's own is supported"),
            _sets("connection.failed.authentication.delay.ms", "100", "logins.pause_ms", whole(0), "the pause before the response to a failed login, in ms. It doubles with each further failure from the same address, up to `zab.failed.authentication.delay.max.ms`; 0: no pause, and no limit of guesses"),
            _sets("zab.failed.authentication.delay.max.ms", "5000", "logins.pause_ms_max", whole(1), "the longest pause after a failed login, in ms. Not a key of Kafka"),
            _sets("zab.failed.authentication.waiting.max", "8", "logins.waiting_max", whole(1), "the maximum number of concurrent pauses for one address. While there are that many, logins from the address are refused unchecked. Not a key of Kafka"),
            _read("connections.max.reauth.ms", "0", any_long, "the time after which a client must re-authenticate; 0: never"),
        ),
    ),
    (
        "The store",
        (
            _read("zookeeper.connect", "required", text, "the servers of the store, and the path of this cluster: `host:2181,host:2181/path`"),
            _sets("zookeeper.session.timeout.ms", "18000", "config.session_timeout_ms", whole(1), "how long this broker is considered alive after the store has lost contact with it"),
            _read("zookeeper.ssl.client.enable", "false", flag, "use TLS to connect to the store"),
            _read("zookeeper.ssl.keystore.location", "none", text, "the file with the certificate and private key that this broker presents to the store"),
            _read("zookeeper.ssl.keystore.type", "detected", text, "PEM, PKCS12 or JKS"),
            _read("zookeeper.ssl.keystore.password", "none", text, "the password of the keystore file"),
            _read("zookeeper.ssl.truststore.location", "the system's", text, "the file with the authorities that sign the certificates of the store's servers"),
            _read("zookeeper.ssl.truststore.type", "detected", text, "PEM, PKCS12 or JKS"),
            _read("zookeeper.ssl.truststore.password", "none", text, "the password of the truststore file"),
            _read("zookeeper.ssl.enabled.protocols", "TLSv1.2,TLSv1.3", text, "the versions of TLS"),
            _read("zookeeper.ssl.cipher.suites", "secure ones", text, "the cipher suites, by Java's names or OpenSSL's"),
            _read("zookeeper.ssl.endpoint.identification.algorithm", "https", text, "https: a server's certificate must name its host; empty: not checked"),
            _read("zookeeper.ssl.crl.enable", "false", flag, "true is refused: revoked certificates are not checked"),
            _read("zookeeper.ssl.ocsp.enable", "false", flag, "true is refused: revoked certificates are not checked"),
            _read("java.security.auth.login.config", "none", text, "the JAAS file with the user name and password that authenticate this broker to the store (SASL DIGEST-MD5)"),
            _read("zookeeper.sasl.clientconfig", "Client", text, "the section of the JAAS file to use"),
            _read("zookeeper.set.acl", "false", flag, "true: only the identity of the brokers may change the nodes that this broker creates in the store, and read those that may hold secrets"),
        ),
    ),
    (
        "Topics",
        (
            _sets("num.partitions", "1", "config.partitions", whole(1), "the default number of partitions of a new topic"),
            _sets("default.replication.factor", "1", "config.replication_factor", whole(1, SHORT_MAX), "the default number of replicas of a new topic"),
            _sets("auto.create.topics.enable", "true", "config.auto_create", flag, "create a missing topic when a client requests its metadata, unless the request forbids it"),
            _sets("delete.topic.enable", "true", "config.deletion", flag, "allow deletion of topics"),
            _log("min.insync.replicas", "1", "min.insync.replicas", "how many in-sync replicas acks=all requires; a partition with fewer replicas requires all of them"),
            _log("unclean.leader.election.enable", "false", "unclean.leader.election.enable", "elect a replica outside the ISR if no ISR member is alive: records may be lost"),
            _log("compression.type", "producer", "compression.type", "the compression of stored batches; producer: as the producer sends them"),
            _log("message.max.bytes", "1048588", "max.message.bytes", "the largest batch, in bytes"),
            _sets("zab.message.max.unpacked.bytes", "67108864", "examining.batch_bytes_max", whole(1024, 1 << 30), "the largest batch after decompression, in bytes: a few kilobytes can expand to gigabytes. Not a key of Kafka"),
            _sets("zab.message.max.records", "1000000", "examining.batch_records_max", whole(1), "the maximum number of records and record headers in one batch. Not a key of Kafka"),
        ),
    ),
    (
        "Logs",
        (
            _read("log.retention.ms", "7 days", in_ms(1, unbounded=True, most=LONG_MAX), "how long records are kept with cleanup.policy=delete; -1: no limit"),
            _read("log.retention.minutes", "7 days", in_ms(60_000, unbounded=True), "the same as `log.retention.ms`, in minutes"),
            _read("log.retention.hours", "168", in_ms(3_600_000, unbounded=True), "the same as `log.retention.ms`, in hours"),
            _log("log.retention.bytes", "-1", "retention.bytes", "the size of a partition's log, in bytes, above which old segments are deleted with cleanup.policy=delete; -1: no limit"),
            _log("log.segment.bytes", "1073741824", "segment.bytes", "the maximum size of a segment file, in bytes"),
            _read("log.roll.ms", "7 days", in_ms(1, most=LONG_MAX), "the age of a segment at which a new one is begun"),
            _read("log.roll.hours", "168", in_ms(3_600_000), "the same as `log.roll.ms`, in hours"),
            _read("log.roll.jitter.hours", "0", in_ms(3_600_000, least=0), "the same as `log.roll.jitter.ms`, in hours"),
            _log("log.roll.jitter.ms", "0", "segment.jitter.ms", "the maximum random reduction of the age in `log.roll.ms`"),
            _log("log.cleanup.policy", "delete", "cleanup.policy", "delete: old records are deleted; compact: the last record of each key is kept"),
            _log("log.index.interval.bytes", "4096", "index.interval.bytes", "the bytes of records between two index entries"),
            _log("log.index.size.max.bytes", "10485760", "segment.index.bytes", "the maximum size of an index file, in bytes"),
            _log("log.flush.interval.messages", "none", "flush.messages", "records after which a log is synced to the disk"),
            _log("log.flush.interval.ms", "none", "flush.ms", "ms after which a log is synced to the disk"),
            _log("log.message.timestamp.type", "CreateTime", "message.timestamp.type", "the clock that sets timestamps: the client's (CreateTime) or the broker's (LogAppendTime)"),
            _log("log.message.timestamp.before.max.ms", "none", "message.timestamp.before.max.ms", "how far a timestamp may be in the past"),
            _read("log.message.timestamp.difference.max.ms", "none", whole(0, LONG_MAX), "the deprecated key for both `log.message.timestamp.before.max.ms` and `log.message.timestamp.after.max.ms`"),
            _log("log.message.timestamp.after.max.ms", "3600000", "message.timestamp.after.max.ms", "how far a timestamp may be in the future"),
            _sets("log.cleaner.enable", "true", "config.cleans", flag, "compact the logs of topics with cleanup.policy=compact"),
            _log("log.cleaner.delete.retention.ms", "86400000", "delete.retention.ms", "how long a tombstone, a record that deletes its key, is kept in a compacted log"),
            _log("log.cleaner.min.cleanable.ratio", "0.5", "min.cleanable.dirty.ratio", "the fraction of a log that must be dirty before it is compacted"),
            _log("log.cleaner.min.compaction.lag.ms", "0", "min.compaction.lag.ms", "the minimum age at which a record may be compacted"),
            _log("log.cleaner.max.compaction.lag.ms", "none", "max.compaction.lag.ms", "the age at which records are compacted regardless of the dirty ratio"),
            _log("log.segment.delete.delay.ms", "60000", "file.delete.delay.ms", "the delay before the files of deleted segments are removed"),
            _sets("log.retention.check.interval.ms", "300000", "disk.retention_check_s", seconds_of_ms(1, LONG_MAX), "the interval of checks for old segments"),
            _sets("log.cleaner.backoff.ms", "15000", "disk.clean_pause_s", seconds_of_ms(0, LONG_MAX), "the interval of checks for logs to compact"),
            _sets("producer.id.expiration.ms", "86400000", "logs.producer_id_expiration_ms", whole(1), "how long an idempotent producer is remembered after its last write"),
            _sets("log.flush.offset.checkpoint.interval.ms", "60000", "disk.checkpoint_s", seconds_of_ms(), "the interval between checkpoints of the recovery points"),
        ),
    ),
    (
        "Groups",
        (
            _sets("offsets.topic.num.partitions", "50", "offsets.partitions", whole(1), "the number of partitions of `__consumer_offsets`; used only when the topic is created"),
            _sets("offsets.topic.replication.factor", "3", "offsets.factor", whole(1, SHORT_MAX), "the replication factor of `__consumer_offsets`. Creating the topic takes that many running brokers, and groups have no coordinator before"),
            _sets("offsets.topic.segment.bytes", "104857600", "offsets.segment_bytes", whole(1024), "the maximum size of a segment file of `__consumer_offsets`, in bytes; used only when the topic is created"),
            _sets("group.min.session.timeout.ms", "6000", "groups.group_min_session_timeout_ms", whole(1), "the shortest session timeout that a member may request"),
            _sets("group.max.session.timeout.ms", "1800000", "groups.group_max_session_timeout_ms", whole(1), "the longest session timeout that a member may request"),
            _sets("group.initial.rebalance.delay.ms", "3000", "groups.group_initial_rebalance_delay_ms", whole(0), "how long an empty group waits for more members when one joins. It waits again while more join, up to their rebalance timeout"),
            _sets("group.max.size", "none", "groups.group_max_size", whole(1), "the maximum number of members of a group"),
            _sets("offset.metadata.max.bytes", "4096", "groups.offset_metadata_max_bytes", whole(0), "the maximum length of the metadata of a committed offset, in characters, as in Kafka"),
            _sets("offsets.commit.timeout.ms", "5000", "config.commit_timeout_ms", whole(1), "how long a commit waits for its replication"),
            _sets("offsets.retention.minutes", "10080", "groups.offsets_retention_ms", in_ms(60_000), "how long committed offsets are kept after their group became empty; after the commit if no member subscribes to the topic"),
            _sets("offsets.retention.check.interval.ms", "600000", "groups.offsets_retention_check_interval_ms", whole(1, LONG_MAX), "the interval of checks for expired offsets"),
        ),
    ),
    (
        "Transactions",
        (
            _sets("transaction.state.log.num.partitions", "50", "transactions_topic.partitions", whole(1), "the number of partitions of `__transaction_state`; used only when the topic is created"),
            _sets("transaction.state.log.replication.factor", "3", "transactions_topic.factor", whole(1, SHORT_MAX), "the replication factor of `__transaction_state`. Creating the topic takes that many running brokers, and transactions do not work before"),
            _sets("transaction.state.log.min.isr", "2", "transactions_topic.min_insync", whole(1), "`min.insync.replicas` of `__transaction_state`: a transaction does not proceed while the ISR of its partition there is smaller; used only when the topic is created"),
            _sets("transaction.state.log.segment.bytes", "104857600", "transactions_topic.segment_bytes", whole(1024), "the maximum size of a segment file of `__transaction_state`, in bytes; used only when the topic is created"),
            _sets("transaction.max.timeout.ms", "900000", "transactions.max_timeout_ms", whole(1), "the longest transaction timeout that a producer may set"),
            _sets("transaction.abort.timed.out.transaction.cleanup.interval.ms", "10000", "transactions.abort_check_ms", whole(1), "the interval of checks for transactions to abort after their timeout"),
            _sets("transactional.id.expiration.ms", "604800000", "transactions.id_expiration_ms", whole(1), "how long an unused transactional id is remembered"),
            _sets("transaction.remove.expired.transaction.cleanup.interval.ms", "3600000", "transactions.expiry_check_ms", whole(1), "the interval of checks for expired ids"),
        ),
    ),
    (
        "Connections",
        (
            _sets("socket.request.max.bytes", "104857600", "port.request_bytes_max", whole(4096), "the largest request, in bytes"),
            _sets("max.connections", "10000", "port.connections_max", whole(1), "the maximum number of connections of one listener"),
            _sets("max.connections.per.ip", str(INT_MAX), "port.connections_per_host_max", whole(1), "the maximum number of connections from one address to one listener"),
            _sets("connections.max.idle.ms", "600000", "port.idle_s", idle, "ms without a request after which a connection is closed; -1: never"),
            _sets("queued.max.request.bytes", "536870912", "port.waiting_bytes_total_max", or_default, "the total size, in bytes, of requests that are queued or in progress, above which the broker stops reading requests; at least `socket.request.max.bytes`; 0 or less: the default"),
        ),
    ),
    (
        "Replication",
        (
            _sets("replica.lag.time.max.ms", "30000", "replication.lag_time_max_ms", whole(1, LONG_MAX), "ms without catching up with the leader after which a follower leaves the ISR"),
            _sets("replica.lag.max.messages", "none", "replication.lag_messages_max", whole(1), "the number of missing records above which a follower leaves the ISR, as in early Kafka versions. `replica.lag.time.max.ms` applies, too"),
            _sets("replica.selector.class", "none", "replication.follower_reads", is_rack_aware, "`org.apache.kafka.common.replica.RackAwareReplicaSelector`: a consumer that names its rack reads from an in-sync replica in that rack, if there is one"),
            _sets("replica.high.watermark.checkpoint.interval.ms", "5000", "config.watermark_checkpoint_s", seconds_of_ms(1, LONG_MAX), "the interval between checkpoints of the high watermarks"),
            _sets("replica.socket.timeout.ms", "30000", "config.fetch_answer_ms", whole(1), "how long a follower waits for a leader's reply, in addition to `replica.fetch.wait.max.ms`"),
            _sets("zab.sync.writes", "false", "replication.sync_writes", flag, "count a replica's records as written only when they are synced to its disk: acks=1 waits for the leader's sync, acks=all and the high watermark also for that of each in-sync follower that sets this key. One sync covers many records. Not a key of Kafka"),
            _sets("replica.fetch.wait.max.ms", "500", "replication.fetch_wait_ms", whole(0), "how long a leader may wait for new records before it replies to a follower"),
            _sets("replica.fetch.max.bytes", "1048576", "replication.partition_bytes_max", whole(1), "the maximum size of one partition's records in a reply, in bytes"),
            _sets("replica.fetch.response.max.bytes", "10485760", "replication.fetch_bytes_max", whole(1), "the maximum size of all records in a reply, in bytes"),
            _sets("replica.fetch.backoff.ms", "1000", "replication.fetch_backoff_ms", whole(0), "the pause before a failed fetch of a partition is repeated"),
            _sets("max.incremental.fetch.session.cache.slots", "1000", "config.fetch_sessions", whole(0), "the maximum number of consumers' fetch sessions, whose requests name only changes; 0: no sessions"),
            _sets("fetch.max.bytes", "57671680", "replication.answer_bytes_max", whole(1024), "the maximum size of the records in a reply to a fetch, in bytes; the first batch may be larger"),
        ),
    ),
    (
        "The controller",
        (
            _read("auto.leader.rebalance.enable", "true", flag, "return leadership to the preferred replicas periodically"),
            _sets("leader.imbalance.check.interval.seconds", "300", "pace.balance_s", seconds(1, LONG_MAX), "the interval of checks for imbalanced leadership"),
            _sets("leader.imbalance.per.broker.percentage", "10", "control.imbalance_percent", whole(0, 100), "return leadership to a broker if other brokers lead more than this percentage of the partitions whose preferred replica is on it"),
            _read("controlled.shutdown.enable", "true", flag, "move leadership to other brokers before this one stops"),
            _sets("controlled.shutdown.max.retries", "3", "leaving.tries", one_more, "the number of retries of a failed controlled shutdown, after which the broker stops anyway"),
            _sets("controlled.shutdown.retry.backoff.ms", "5000", "leaving.pause_s", seconds_of_ms(0, LONG_MAX), "the pause before each retry"),
            _sets("zab.controlled.shutdown.store.timeout.ms", "10000", "leaving.store_s", seconds_of_ms(0), "how long a controlled shutdown waits for an unreachable store, before the broker stops without moving leadership. Not a key of Kafka"),
        ),
    ),
)  # fmt: skip

SECTIONS: Final[tuple[Section, ...]] = tuple(
    (title, (*keys, *IDLE.get(title, ()))) for title, keys in _WITH_EFFECT
) + tuple((title, keys) for title, keys in IDLE.items() if title not in dict(_WITH_EFFECT))

_LISTENER: Final = "listener.name."


def _of_one_listener(name: str) -> str:
    """Return the key that `listener.name.NAME.KEY` or `listener.name.NAME.MECHANISM.KEY` sets for one listener. Return
    any other name unchanged."""
    if not name.startswith(_LISTENER):
        return name
    key = name.removeprefix(_LISTENER).partition(".")[2]
    return key if key in KEYS else key.partition(".")[2]


TABLE: Final = KeyTable(SECTIONS, base=_of_one_listener)
KEYS: Final = TABLE.keys
