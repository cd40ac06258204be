"""The settings of a transaction coordinator."""

from __future__ import annotations

from attrs import frozen


@frozen
class TransactionSettings:
    """Limits and intervals. A setting with a configuration key of Kafka has the default of that key."""

    max_timeout_ms: int = 900_000
    """`transaction.max.timeout.ms`: the longest transaction timeout that a producer may request."""
    id_expiration_ms: int = 7 * 24 * 3_600_000
    """`transactional.id.expiration.ms`"""
    abort_check_ms: int = 10_000
    """`transaction.abort.timed.out.transaction.cleanup.interval.ms`"""
    expiry_check_ms: int = 3_600_000
    """`transaction.remove.expired.transaction.cleanup.interval.ms`"""
    forgotten_at_once: int = 1_000
    """The maximum number of expired ids that one check removes."""
    write_ms: int = 5_000
    """The minimum timeout for writing a record. The transaction's own timeout applies if it is longer."""
    again_ms: int = 500
    """The pause before the completion of a transaction is written again after a failure."""
