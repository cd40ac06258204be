"""The static keys of brokers, which a broker reads from its file when it starts."""

from __future__ import annotations

from typing import Final

START_KEYS: Final = frozenset((
    "advertised.listeners", "allow.everyone.if.no.acl.found", "authorizer.class.name", "auto.create.topics.enable",
    "auto.include.jmx.reporter", "auto.leader.rebalance.enable", "broker.id", "broker.id.generation.enable",
    "broker.rack", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level",
    "connection.failed.authentication.delay.ms", "connections.max.idle.ms", "connections.max.reauth.ms",
    "control.plane.listener.name", "controlled.shutdown.enable", "controlled.shutdown.max.retries",
    "controlled.shutdown.retry.backoff.ms", "controller.listener.names", "controller.quorum.voters",
    "controller.socket.timeout.ms", "default.replication.factor", "delete.records.purgatory.purge.interval.requests",
    "delete.topic.enable", "fetch.max.bytes", "fetch.purgatory.purge.interval.requests",
    "group.coordinator.new.enable", "group.coordinator.rebalance.protocols", "group.coordinator.threads",
    "group.initial.rebalance.delay.ms", "group.max.session.timeout.ms", "group.max.size",
    "group.min.session.timeout.ms", "inter.broker.listener.name", "inter.broker.protocol.version",
    "java.security.auth.login.config", "kafka.metrics.reporters", "leader.imbalance.check.interval.seconds",
    "leader.imbalance.per.broker.percentage", "listener.security.protocol.map", "listeners", "log.dir",
    "log.dir.failure.timeout.ms", "log.dirs", "log.flush.offset.checkpoint.interval.ms",
    "log.flush.scheduler.interval.ms", "log.flush.start.offset.checkpoint.interval.ms", "log.initial.task.delay.ms",
    "log.retention.check.interval.ms", "log.retention.hours", "log.retention.minutes", "log.roll.hours",
    "log.roll.jitter.hours", "max.incremental.fetch.session.cache.slots", "max.request.partition.size.limit",
    "metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms", "node.id",
    "num.partitions", "num.replica.alter.log.dirs.threads", "offset.metadata.max.bytes",
    "offsets.commit.required.acks", "offsets.commit.timeout.ms", "offsets.load.buffer.size",
    "offsets.retention.check.interval.ms", "offsets.retention.minutes", "offsets.topic.compression.codec",
    "offsets.topic.num.partitions", "offsets.topic.replication.factor", "offsets.topic.segment.bytes",
    "principal.builder.class", "process.roles", "producer.id.expiration.check.interval.ms",
    "producer.id.expiration.ms", "producer.purgatory.purge.interval.requests", "queued.max.request.bytes",
    "queued.max.requests", "quota.window.num", "quota.window.size.seconds", "remote.log.storage.system.enable",
    "replica.fetch.backoff.ms", "replica.fetch.max.bytes", "replica.fetch.min.bytes",
    "replica.fetch.response.max.bytes", "replica.fetch.wait.max.ms", "replica.high.watermark.checkpoint.interval.ms",
    "replica.lag.max.messages", "replica.lag.time.max.ms", "replica.selector.class",
    "replica.socket.receive.buffer.bytes", "replica.socket.timeout.ms", "replication.quota.window.num",
    "replication.quota.window.size.seconds", "request.timeout.ms", "reserved.broker.max.id",
    "sasl.enabled.mechanisms", "sasl.mechanism.inter.broker.protocol", "security.inter.broker.protocol",
    "socket.listen.backlog.size", "socket.receive.buffer.bytes", "socket.request.max.bytes",
    "socket.send.buffer.bytes", "ssl.cipher.suites", "ssl.client.auth", "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm", "ssl.key.password", "ssl.keystore.location", "ssl.keystore.password",
    "ssl.keystore.type", "ssl.principal.mapping.rules", "ssl.protocol", "ssl.truststore.location",
    "ssl.truststore.password", "ssl.truststore.type", "super.users",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms", "transaction.max.timeout.ms",
    "transaction.partition.verification.enable", "transaction.remove.expired.transaction.cleanup.interval.ms",
    "transaction.state.log.load.buffer.size", "transaction.state.log.min.isr", "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor", "transaction.state.log.segment.bytes",
    "transactional.id.expiration.ms", "zab.controlled.shutdown.store.timeout.ms",
    "zab.failed.authentication.delay.max.ms", "zab.failed.authentication.waiting.max", "zab.message.max.records",
    "zab.message.max.unpacked.bytes", "zab.operators.hosts", "zab.sync.writes", "zookeeper.clientCnxnSocket",
    "zookeeper.connect", "zookeeper.connection.timeout.ms", "zookeeper.max.in.flight.requests",
    "zookeeper.metadata.migration.enable", "zookeeper.sasl.clientconfig", "zookeeper.session.timeout.ms",
    "zookeeper.set.acl", "zookeeper.ssl.cipher.suites", "zookeeper.ssl.client.enable", "zookeeper.ssl.crl.enable",
    "zookeeper.ssl.enabled.protocols", "zookeeper.ssl.endpoint.identification.algorithm",
    "zookeeper.ssl.keystore.location", "zookeeper.ssl.keystore.password", "zookeeper.ssl.keystore.type",
    "zookeeper.ssl.ocsp.enable", "zookeeper.ssl.protocol", "zookeeper.ssl.truststore.location",
    "zookeeper.ssl.truststore.password", "zookeeper.ssl.truststore.type", "zookeeper.sync.time.ms",
    # Secrets of Kafka's brokers: in a store without ACLs, every client could read them.
    "sasl.jaas.config", "ssl.keystore.key", "password.encoder.secret", "password.encoder.old.secret",
    "delegation.token.master.key", "delegation.token.secret.key",
))  # fmt: skip
"""The keys of `server.properties` that cannot be changed while the broker is running. Those of single listeners are not
listed."""


def is_start_key(name: str) -> bool:
    """Return whether only the broker's file can set the key. This is so for all keys of single listeners."""
    return name in START_KEYS or name.startswith("listener.name.")
