"""The keys of `server.properties`, and what becomes of each here: as data.

What is read, what is warned of and what the reference page says come from this table. `sets` names the setting that a key
becomes, as `group.field`; a key of `log` becomes the topic setting of that name, for topics that say nothing themselves.
"""

from __future__ import annotations

from typing import Final

from replica.cli.properties.idle import IDLE
from replica.cli.properties.rows import Key
from replica.cli.properties.rows import log as _log
from replica.cli.properties.rows import read as _read
from replica.cli.properties.rows import sets as _sets
from replica.cli.properties.values import (
    INT_MAX,
    LONG_MAX,
    SHORT_MAX,
    any_long,
    bounded,
    flag,
    idle,
    in_ms,
    is_rack_aware,
    names,
    one_more,
    one_of,
    optional,
    seconds,
    seconds_of_ms,
    whole,
)

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PRINCIPALS: Final = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"

_WITH_EFFECT: Final[tuple[tuple[str, tuple[Key, ...]], ...]] = (
    (
        "Who and where",
        (
            _read("broker.id", "-1", whole(-1), "the number of this broker; -1: one that the store gives out, kept in the log directory"),
            _read("broker.id.generation.enable", "true", flag, "the store gives a number to a broker that has none; false: `broker.id` has to be said, and may be any"),
            _sets("reserved.broker.max.id", "1000", "plan.reserved_max", whole(0), "numbers that the store gives out are greater"),
            _read("log.dirs", "/tmp/kafka-logs", str, "where the logs are: one directory or several"),
            _read("log.dir", "/tmp/kafka-logs", str, "the same, when `log.dirs` is not said"),
            _read("listeners", "PLAINTEXT://:9092", str, "where clients and other brokers come in; a listener called CONTROLLER is where controllers do"),
            _read("advertised.listeners", "= listeners", str, "what clients and other brokers are told to dial"),
            _read("listener.security.protocol.map", "each its own name", str, "what each listener speaks"),
            _read("inter.broker.listener.name", "the first", str, "at which listener other brokers fetch"),
            _read("security.inter.broker.protocol", "PLAINTEXT", one_of(*PROTOCOLS), "the same, by what it speaks"),
            _sets("zab.operators.hosts", "none", "plan.operators_hosts", names, "names that the header `Host` of a request to the port of `--operators` may have, beside addresses, `localhost`, this machine's name and those of the listeners; `*`: any, which opens it to DNS rebinding. Kafka has no such key"),
            _sets("broker.rack", "none", "config.rack", optional, "the rack of this broker: replicas of a partition stand in different ones"),
        ),
    ),
    (
        "Listeners that are not for everybody",
        (
            _read("ssl.keystore.location", "none", str, "the certificate and its key, in one file"),
            _read("ssl.keystore.type", "as it is", str, "PEM, PKCS12 or JKS: what it is, is seen"),
            _read("ssl.keystore.password", "none", str, "of the file"),
            _read("ssl.key.password", "none", str, "of the key: in PEM, or the same as that of the file"),
            _read("ssl.truststore.location", "the system's", str, "who signs the certificates of clients and of other brokers"),
            _read("ssl.truststore.type", "as it is", str, "PEM, PKCS12 or JKS"),
            _read("ssl.truststore.password", "none", str, "of the file"),
            _read("ssl.client.auth", "none", str, "whether clients have to show a certificate: none, requested, required"),
            _read("ssl.principal.mapping.rules", "DEFAULT", str, "who somebody with a certificate is: `RULE:pattern/replacement/[LU]`, the first that fits. Rules take subjects of up to 1,024 characters; a pattern with nested repetitions, like `(a+)+`, lets the holder of a certificate stall the broker"),
            _read("ssl.enabled.protocols", "TLSv1.2,TLSv1.3", str, "versions of TLS"),
            _read("ssl.cipher.suites", "those that are good", str, "by Java's names or OpenSSL's"),
            _read("ssl.endpoint.identification.algorithm", "https", str, "empty: another broker's certificate need not name the host that was dialled"),
            _read("sasl.enabled.mechanisms", "PLAIN", str, "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; the users of PLAIN are in `listener.name.NAME.plain.sasl.jaas.config`, those of SCRAM in the store"),
            _read("sasl.mechanism.inter.broker.protocol", "none", str, "how brokers log in at each other where they have to: with `username` and `password` in `listener.name.NAME.MECHANISM.sasl.jaas.config`"),
            _read("authorizer.class.name", "none", str, "`kafka.security.authorizer.AclAuthorizer`: who may do what is said by ACLs in the store; without it whoever is in may do everything"),
            _read("super.users", "none", str, "who may do everything, whatever ACLs say: `User:ann;User:bob`; brokers have to be among them, or be allowed ClusterAction"),
            _read("allow.everyone.if.no.acl.found", "false", flag, "everybody may do everything with what no ACL is about"),
            _read("principal.builder.class", "Kafka's own", one_of(_PRINCIPALS), "there is no other one here"),
            _sets("connection.failed.authentication.delay.ms", "100", "logins.pause_ms", whole(0), "before a failed login is answered; each failure of an address doubles it for the next one; 0: no pause, and no bound on guesses"),
            _sets("zab.failed.authentication.delay.max.ms", "5000", "logins.pause_ms_max", whole(1), "the longest such pause. Kafka has no such key"),
            _sets("zab.failed.authentication.waiting.max", "8", "logins.waiting_max", whole(1), "such pauses of one address at one time; while there are as many, further logins from it are cut off. Kafka has no such key"),
            _read("connections.max.reauth.ms", "0", any_long, "after which a client has to log in anew on its connection; 0: never"),
        ),
    ),
    (
        "The store",
        (
            _read("zookeeper.connect", "required", str, "its servers, and the path under which this cluster is: `host:2181,host:2181/path`"),
            _sets("zookeeper.session.timeout.ms", "18000", "config.session_timeout_ms", whole(1), "how long this broker counts as alive while nothing is heard of it"),
            _read("zookeeper.ssl.client.enable", "false", flag, "to speak TLS with it"),
            _read("zookeeper.ssl.keystore.location", "none", str, "who this broker is there: certificate and key, in one file"),
            _read("zookeeper.ssl.keystore.type", "as it is", str, "PEM, PKCS12 or JKS"),
            _read("zookeeper.ssl.keystore.password", "none", str, "of the file"),
            _read("zookeeper.ssl.truststore.location", "the system's", str, "who signs the certificates of its servers"),
            _read("zookeeper.ssl.truststore.type", "as it is", str, "PEM, PKCS12 or JKS"),
            _read("zookeeper.ssl.truststore.password", "none", str, "of the file"),
            _read("zookeeper.ssl.enabled.protocols", "TLSv1.2,TLSv1.3", str, "versions of TLS"),
            _read("zookeeper.ssl.cipher.suites", "those that are good", str, "by Java's names or OpenSSL's"),
            _read("zookeeper.ssl.endpoint.identification.algorithm", "https", str, "empty: a server's certificate need not name the host that was dialled"),
            _read("zookeeper.ssl.crl.enable", "false", flag, "true ends the start: revoked certificates are not looked for"),
            _read("zookeeper.ssl.ocsp.enable", "false", flag, "the same"),
            _read("java.security.auth.login.config", "none", str, "a file of Java's, with name and password for SASL DIGEST-MD5 at the store"),
            _read("zookeeper.sasl.clientconfig", "Client", str, "the section of that file"),
            _read("zookeeper.set.acl", "false", flag, "what this broker writes can be changed by none but who comes as it does, and passwords cannot be read"),
        ),
    ),
    (
        "Topics",
        (
            _sets("num.partitions", "1", "config.partitions", whole(1), "of a topic that does not say how many"),
            _sets("default.replication.factor", "1", "config.replication_factor", whole(1, SHORT_MAX), "of a topic that does not say how many replicas"),
            _sets("auto.create.topics.enable", "true", "config.auto_create", flag, "a topic is made when somebody asks for it"),
            _sets("delete.topic.enable", "true", "config.deletion", flag, "topics can be deleted"),
            _log("min.insync.replicas", "1", "min.insync.replicas", "how many must have a record before acks=all is answered"),
            _log("unclean.leader.election.enable", "false", "unclean.leader.election.enable", "somebody who lacks records may lead when nobody else is left"),
            _log("compression.type", "producer", "compression.type", "how batches are kept"),
            _log("message.max.bytes", "1048588", "max.message.bytes", "the greatest batch"),
            _sets("zab.message.max.unpacked.bytes", "67108864", "examining.batch_bytes_max", whole(1024, 1 << 30), "the greatest batch when it is unpacked: a few kilobytes may come to gigabytes. Kafka has no such key"),
            _sets("zab.message.max.records", "1000000", "examining.batch_records_max", whole(1), "records of one batch, with their headers. Kafka has no such key"),
        ),
    ),
    (
        "Logs",
        (
            _read("log.retention.ms", "7 days", in_ms(1, unbounded=True, most=LONG_MAX), "how long records are kept"),
            _read("log.retention.minutes", "7 days", in_ms(60_000, unbounded=True), "the same"),
            _read("log.retention.hours", "168", in_ms(3_600_000, unbounded=True), "the same"),
            _log("log.retention.bytes", "-1", "retention.bytes", "how much of a partition is kept"),
            _log("log.segment.bytes", "1073741824", "segment.bytes", "how large a file of a log becomes"),
            _read("log.roll.ms", "7 days", in_ms(1, most=LONG_MAX), "how old a file becomes before the next is begun"),
            _read("log.roll.hours", "168", in_ms(3_600_000), "the same"),
            _read("log.roll.jitter.hours", "0", in_ms(3_600_000, least=0), "the same as `log.roll.jitter.ms`"),
            _log("log.roll.jitter.ms", "0", "segment.jitter.ms", "so much less, by lot"),
            _log("log.cleanup.policy", "delete", "cleanup.policy", "old records go, or all but the last of each key"),
            _log("log.index.interval.bytes", "4096", "index.interval.bytes", "how far apart entries of an index are"),
            _log("log.index.size.max.bytes", "10485760", "segment.index.bytes", "how large an index becomes"),
            _log("log.flush.interval.messages", "none", "flush.messages", "after so many records a log is synced to the disk"),
            _log("log.flush.interval.ms", "none", "flush.ms", "after so long"),
            _log("log.message.timestamp.type", "CreateTime", "message.timestamp.type", "whose clock stamps records"),
            _log("log.message.timestamp.before.max.ms", "none", "message.timestamp.before.max.ms", "how old a stamp may be"),
            _read("log.message.timestamp.difference.max.ms", "none", whole(0, LONG_MAX), "both of these, as it was called before"),
            _log("log.message.timestamp.after.max.ms", "3600000", "message.timestamp.after.max.ms", "how far ahead"),
            _sets("log.cleaner.enable", "true", "config.cleans", flag, "whether logs that are to be compacted are"),
            _log("log.cleaner.delete.retention.ms", "86400000", "delete.retention.ms", "how long it can be seen that a key was deleted"),
            _log("log.cleaner.min.cleanable.ratio", "0.5", "min.cleanable.dirty.ratio", "how much must be dirty before it is cleaned"),
            _log("log.cleaner.min.compaction.lag.ms", "0", "min.compaction.lag.ms", "how long everything is kept"),
            _log("log.cleaner.max.compaction.lag.ms", "none", "max.compaction.lag.ms", "after how long it is cleaned in any case"),
            _log("log.segment.delete.delay.ms", "60000", "file.delete.delay.ms", "how long a file that is not needed stays"),
            _log("log.preallocate", "false", "preallocate", "a new file has its size from the start"),
            _sets("log.retention.check.interval.ms", "300000", "disk.retention_check_s", seconds_of_ms(1, LONG_MAX), "how often it is looked what may go"),
            _sets("log.cleaner.backoff.ms", "15000", "disk.clean_pause_s", seconds_of_ms(0, LONG_MAX), "how often it is looked what is to be cleaned"),
            _sets("producer.id.expiration.ms", "86400000", "logs.producer_id_expiration_ms", whole(1), "how long an idempotent producer is remembered that writes nothing"),
            _sets("log.flush.offset.checkpoint.interval.ms", "60000", "disk.checkpoint_s", seconds_of_ms(), "how often it is written down what is durable"),
        ),
    ),
    (
        "Groups",
        (
            _sets("offsets.topic.num.partitions", "50", "offsets.partitions", whole(1), "of the topic that remembers groups"),
            _sets("offsets.topic.replication.factor", "3", "offsets.factor", whole(1, SHORT_MAX), "its replicas: until there are so many brokers, no group is coordinated"),
            _sets("offsets.topic.segment.bytes", "104857600", "offsets.segment_bytes", whole(1024), "how large its files become"),
            _sets("group.min.session.timeout.ms", "6000", "groups.group_min_session_timeout_ms", whole(1), "what members may ask for at least"),
            _sets("group.max.session.timeout.ms", "1800000", "groups.group_max_session_timeout_ms", whole(1), "and at most"),
            _sets("group.initial.rebalance.delay.ms", "3000", "groups.group_initial_rebalance_delay_ms", whole(0), "how long a new group waits for more members"),
            _sets("group.max.size", "none", "groups.group_max_size", whole(1), "how many members a group may have"),
            _sets("offset.metadata.max.bytes", "4096", "groups.offset_metadata_max_bytes", whole(0), "what may be said beside a commit"),
            _sets("offsets.commit.timeout.ms", "5000", "config.commit_timeout_ms", whole(1), "how long a commit waits for the replicas of the topic that remembers it"),
            _sets("offsets.retention.minutes", "10080", "groups.offsets_retention_ms", in_ms(60_000), "how long commits of a group without members are kept"),
            _sets("offsets.retention.check.interval.ms", "600000", "groups.offsets_retention_check_interval_ms", whole(1, LONG_MAX), "how often that is looked at"),
        ),
    ),
    (
        "Transactions",
        (
            _sets("transaction.state.log.num.partitions", "50", "transactions_topic.partitions", whole(1), "of the topic that remembers transactions"),
            _sets("transaction.state.log.replication.factor", "3", "transactions_topic.factor", whole(1, SHORT_MAX), "its replicas: until there are so many brokers, there are no transactions"),
            _sets("transaction.state.log.min.isr", "2", "transactions_topic.min_insync", whole(1), "so many of them have to have what a producer is told; all, where there are fewer"),
            _sets("transaction.state.log.segment.bytes", "104857600", "transactions_topic.segment_bytes", whole(1024), "how large its files become"),
            _sets("transaction.max.timeout.ms", "900000", "transactions.max_timeout_ms", whole(1), "how long a producer may ask to have a transaction open"),
            _sets("transaction.abort.timed.out.transaction.cleanup.interval.ms", "10000", "transactions.abort_check_ms", whole(1), "how often it is looked whether one was open for longer, and is aborted"),
            _sets("transactional.id.expiration.ms", "604800000", "transactions.id_expiration_ms", whole(1), "how long an id is remembered that nobody uses"),
            _sets("transaction.remove.expired.transaction.cleanup.interval.ms", "3600000", "transactions.expiry_check_ms", whole(1), "how often that is looked at"),
        ),
    ),
    (
        "Connections",
        (
            _sets("socket.request.max.bytes", "104857600", "port.request_bytes_max", whole(4096), "the greatest request"),
            _sets("max.connections", "10000", "port.connections_max", whole(1), "of one listener"),
            _sets("max.connections.per.ip", str(INT_MAX), "port.connections_per_host_max", whole(1), "from one address"),
            _sets("connections.max.idle.ms", "600000", "port.idle_s", idle, "after which a connection that asks nothing is closed; -1: never"),
            _sets("queued.max.request.bytes", "536870912", "port.waiting_bytes_total_max", bounded, "of all requests that wait for their turn, and no less than the greatest of them; -1: as many as by default"),
        ),
    ),
    (
        "Replication",
        (
            _sets("replica.lag.time.max.ms", "30000", "replication.lag_time_max_ms", whole(1, LONG_MAX), "who has not had everything for so long is not in sync"),
            _sets("replica.lag.max.messages", "none", "replication.lag_messages_max", whole(1), "the rule of old, beside the one before: who lacks more records is not in sync"),
            _sets("replica.selector.class", "none", "replication.follower_reads", is_rack_aware, "`org.apache.kafka.common.replica.RackAwareReplicaSelector`: a consumer that says its rack reads from the replica in it"),
            _sets("replica.high.watermark.checkpoint.interval.ms", "5000", "config.watermark_checkpoint_s", seconds_of_ms(1, LONG_MAX), "how often high watermarks are written down"),
            _sets("replica.socket.timeout.ms", "30000", "config.fetch_answer_ms", whole(1), "how long a leader's answer is waited for, beside what it may wait itself"),
            _sets("zab.sync.writes", "false", "replication.sync_writes", flag, "nothing counts, at the leader or at a follower, before it is on the disk; many records share a sync. Kafka has no such key"),
            _sets("replica.fetch.wait.max.ms", "500", "replication.fetch_wait_ms", whole(0), "how long a leader may wait for something to answer"),
            _sets("replica.fetch.max.bytes", "1048576", "replication.partition_bytes_max", whole(1), "of one partition, in one answer"),
            _sets("replica.fetch.response.max.bytes", "10485760", "replication.fetch_bytes_max", whole(1), "of all partitions, in one answer"),
            _sets("replica.fetch.backoff.ms", "1000", "replication.fetch_backoff_ms", whole(0), "before a partition whose fetch went wrong is tried again"),
            _sets("max.incremental.fetch.session.cache.slots", "1000", "config.fetch_sessions", whole(0), "of clients that say only what is different from their last fetch; 0: each says all of it"),
            _sets("fetch.max.bytes", "57671680", "replication.answer_bytes_max", whole(1024), "the greatest answer to a consumer"),
        ),
    ),
    (
        "The controller",
        (
            _read("auto.leader.rebalance.enable", "true", flag, "now and then leadership goes back to those who are preferred"),
            _sets("leader.imbalance.check.interval.seconds", "300", "pace.balance_s", seconds(1, LONG_MAX), "how often"),
            _sets("leader.imbalance.per.broker.percentage", "10", "control.imbalance_percent", whole(0, 100), "when so much of a broker's is led by others"),
            _read("controlled.shutdown.enable", "true", flag, "a broker that is told to end has what it leads given to others first"),
            _sets("controlled.shutdown.max.retries", "3", "leaving.tries", one_more, "how often it asks again before it ends anyway"),
            _sets("controlled.shutdown.retry.backoff.ms", "5000", "leaving.pause_s", seconds_of_ms(0, LONG_MAX), "between two times"),
            _sets("zab.controlled.shutdown.store.timeout.ms", "10000", "leaving.store_s", seconds_of_ms(0), "a broker that is told to end, and cannot reach the store for so long, ends: without the store nothing can be given to others. Kafka has no such key"),
        ),
    ),
)  # fmt: skip

SECTIONS: Final = tuple((title, (*keys, *IDLE.get(title, ()))) for title, keys in _WITH_EFFECT) + tuple(
    (title, keys) for title, keys in IDLE.items() if title not in dict(_WITH_EFFECT)
)
KEYS: Final = {key.name: key for _, keys in SECTIONS for key in keys}
