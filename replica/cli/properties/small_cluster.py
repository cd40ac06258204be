"""Settings of a small cluster, for development and tests."""

from __future__ import annotations


def small_cluster(brokers: int) -> dict[str, int]:
    """Return server.properties keys for a cluster of a few brokers.

    Topics have three replicas if there are enough brokers, and then acks=all requires two in-sync replicas. A group
    starts as soon as its first member joins.
    """
    copies = min(brokers, 3)
    return {
        "default.replication.factor": copies,
        "min.insync.replicas": 2 if copies > 2 else 1,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "group.initial.rebalance.delay.ms": 0,
    }
