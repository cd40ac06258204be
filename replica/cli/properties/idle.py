"""Kafka's keys that have no effect in this broker, with the reasons. If a file sets one to a value that differs from
this broker's behavior, a warning gives the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraft_controller.core.configuration.config_keys import NO_CLEANER_BUFFERS, NO_KERBEROS, NO_THREADS, ONE_FORMAT
from zab.config.key_table import ConfigKey
from zab.config.key_table import ignored as _ignored
from zab.config.values import INT_MAX, LONG_MAX, Convert, any_int, any_long, decimal, flag, text, whole


def ignored(name: str, default: str, why: str, *agreed: str, convert: Convert = text) -> ConfigKey:
    """Declare a key without effect. Kafka's default and the values in `agreed` cause no warning."""
    return _ignored(name, default, why, *((default, *agreed) if default else agreed), convert=convert)


_KERNEL: Final = "the system's default is used"
_NO_KRAFT: Final = "the store holds the metadata, as with ZooKeeper"
_ONE_DIALECT: Final = "all brokers of a cluster must use the same protocol version"
_PURGATORY: Final = "completed operations are removed from the purgatory at once"
_WINDOWS: Final = "rates are measured without time windows"
_NO_JMX: Final = "metrics are for Prometheus, at the port of `--operators`"
_NO_TIERS: Final = "tiered storage is not supported: logs are stored in `log.dirs` only"

IDLE: Final[Mapping[str, tuple[ConfigKey, ...]]] = {
    "TLS, authentication and authorization": (
        ignored("ssl.protocol", "TLSv1.3", "`ssl.enabled.protocols` sets the versions", "TLS", "TLSv1.2"),
        ignored("sasl.kerberos.service.name", "", NO_KERBEROS),
        ignored("sasl.kerberos.kinit.cmd", "/usr/bin/kinit", NO_KERBEROS),
        ignored("sasl.kerberos.min.time.before.relogin", "60000", NO_KERBEROS, convert=any_long),
        ignored("sasl.kerberos.ticket.renew.jitter", "0.05", NO_KERBEROS, convert=decimal),
        ignored("sasl.kerberos.ticket.renew.window.factor", "0.8", NO_KERBEROS, convert=decimal),
        ignored("sasl.kerberos.principal.to.local.rules", "DEFAULT", NO_KERBEROS),
    ),
    "The store": (
        ignored("zookeeper.connection.timeout.ms", "18000", "the first connection may take 30 s", convert=any_int),
        ignored("zookeeper.sync.time.ms", "2000", "Kafka does not use it either"),
        ignored("zookeeper.max.in.flight.requests", "10", "the limit of requests in flight is fixed", convert=whole(1)),
        ignored("zookeeper.ssl.protocol", "TLSv1.2", "`zookeeper.ssl.enabled.protocols` sets the versions", "TLS", "TLSv1.3"),
        ignored("zookeeper.clientCnxnSocket", "", "there is only one implementation; `zookeeper.ssl.client.enable` enables TLS", "org.apache.zookeeper.ClientCnxnSocketNetty", "org.apache.zookeeper.ClientCnxnSocketNIO"),
        ignored("zookeeper.metadata.migration.enable", "false", _NO_KRAFT, convert=flag),
    ),
    "Logs": (
        ignored("log.preallocate", "false", "segment files grow as records are appended", convert=flag),
        ignored("num.recovery.threads.per.data.dir", "1", "logs are loaded one after the other", convert=whole(1)),
        ignored("num.replica.alter.log.dirs.threads", "", "logs are not moved between directories", convert=any_int),
        ignored("log.cleaner.threads", "1", "there is one cleaner thread", convert=whole(1)),
        ignored("log.cleaner.dedupe.buffer.size", "134217728", NO_CLEANER_BUFFERS, convert=whole((1 << 20) + 1, LONG_MAX)),
        ignored("log.cleaner.io.buffer.size", "524288", NO_CLEANER_BUFFERS, convert=whole(0)),
        ignored("log.cleaner.io.buffer.load.factor", "0.9", NO_CLEANER_BUFFERS, convert=decimal),
        ignored("log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308", "compaction is not throttled", convert=decimal),
        ignored("log.flush.scheduler.interval.ms", str(LONG_MAX), "each second the broker checks which logs are due for a flush", convert=any_long),
        ignored("log.flush.start.offset.checkpoint.interval.ms", "60000", "`log.flush.offset.checkpoint.interval.ms` applies to both", convert=whole(0)),
        ignored("log.initial.task.delay.ms", "30000", "each task first runs after its own interval, and retention after at most 30 s", convert=whole(0, LONG_MAX)),
        ignored("log.dir.failure.timeout.ms", "30000", "a failed log directory is reported through the store, without a time limit", convert=whole(1, LONG_MAX)),
        ignored("log.message.format.version", "3.0-IV1", ONE_FORMAT),
        ignored("log.message.downconversion.enable", "true", ONE_FORMAT, convert=flag),
        ignored("compression.gzip.level", "-1", "each codec's default level is used"),
        ignored("compression.lz4.level", "9", "each codec's default level is used"),
        ignored("compression.zstd.level", "3", "each codec's default level is used"),
        ignored("remote.log.storage.system.enable", "false", _NO_TIERS, convert=flag),
        ignored("producer.id.expiration.check.interval.ms", "600000", "idle producers are removed by a check every ten seconds", convert=whole(1)),
    ),
    "Groups": (
        ignored("offsets.commit.required.acks", "-1", "a commit is acknowledged when all in-sync replicas have it"),
        ignored("offsets.load.buffer.size", "5242880", "a coordinator reads its partition in parts of 64 KiB", convert=whole(1)),
        ignored("offsets.topic.compression.codec", "0", "commits are small, and not compressed", convert=whole(0, 4)),
        ignored("group.coordinator.rebalance.protocols", "classic", "only the classic group protocol is supported"),
        ignored("group.coordinator.new.enable", "false", "only the classic group protocol is supported", convert=flag),
        ignored("group.coordinator.threads", "1", NO_THREADS, convert=whole(1)),
    ),
    "Connections": (
        ignored("queued.max.requests", "500", "each connection has its own limit of queued requests", convert=whole(1)),
        ignored("max.connections.per.ip.overrides", "", "`max.connections.per.ip` applies to every address"),
        ignored("max.connection.creation.rate", str(INT_MAX), "the number of connections is limited, not their rate", convert=whole(0)),
        ignored("max.request.partition.size.limit", "2000", "it limits DescribeTopicPartitions requests, which are not supported", convert=whole(1)),
        ignored("socket.send.buffer.bytes", "102400", _KERNEL, "-1", convert=any_int),
        ignored("socket.receive.buffer.bytes", "102400", _KERNEL, "-1", convert=any_int),
        ignored("socket.listen.backlog.size", "50", _KERNEL, convert=whole(1)),
        ignored("num.network.threads", "3", NO_THREADS, convert=whole(1)),
        ignored("num.io.threads", "8", NO_THREADS, convert=whole(1)),
        ignored("background.threads", "10", NO_THREADS, convert=whole(1)),
        ignored("request.timeout.ms", "30000", "requests between brokers have their own timeouts", convert=any_int),
        ignored("fetch.purgatory.purge.interval.requests", "1000", _PURGATORY, convert=any_int),
        ignored("producer.purgatory.purge.interval.requests", "1000", _PURGATORY, convert=any_int),
        ignored("delete.records.purgatory.purge.interval.requests", "1", _PURGATORY, convert=any_int),
        ignored("quota.window.num", "11", _WINDOWS, convert=whole(1)),
        ignored("quota.window.size.seconds", "1", _WINDOWS, convert=whole(1)),
    ),
    "Replication": (
        ignored("inter.broker.protocol.version", "3.9-IV0", _ONE_DIALECT),
        ignored("num.replica.fetchers", "1", "there is one connection to each leader", convert=any_int),
        ignored("replica.fetch.min.bytes", "1", "a leader replies as soon as it has records", convert=any_int),
        ignored("replica.socket.receive.buffer.bytes", "65536", _KERNEL, convert=any_int),
        ignored("replication.quota.window.num", "11", _WINDOWS, convert=whole(1)),
        ignored("replication.quota.window.size.seconds", "1", _WINDOWS, convert=whole(1)),
    ),
    "The controller": (
        ignored("controller.socket.timeout.ms", "30000", "a request without a reply is repeated over a new connection", convert=any_int),
        ignored("control.plane.listener.name", "", "controllers connect to the listener CONTROLLER"),
        ignored("process.roles", "", _NO_KRAFT),
        ignored("node.id", "", _NO_KRAFT),
        ignored("controller.quorum.voters", "", _NO_KRAFT),
        ignored("controller.listener.names", "", _NO_KRAFT),
    ),
    "Metrics": (
        ignored("metric.reporters", "", _NO_JMX),
        ignored("kafka.metrics.reporters", "", _NO_JMX),
        ignored("auto.include.jmx.reporter", "true", _NO_JMX, convert=flag),
        ignored("metrics.num.samples", "2", _NO_JMX, convert=whole(1)),
        ignored("metrics.sample.window.ms", "30000", _NO_JMX, convert=whole(1, LONG_MAX)),
        ignored("metrics.recording.level", "INFO", _NO_JMX),
    ),
    "Transactions": (
        ignored("transaction.state.log.load.buffer.size", "5242880", "a coordinator reads its partition in parts of 64 KiB", convert=whole(1)),
        ignored("transaction.partition.verification.enable", "true", "see [transactions](../protocol/transactions.md)", convert=flag),
    ),
}  # fmt: skip
"""The keys, by section of the reference page."""
