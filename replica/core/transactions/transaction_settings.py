"""The settings of a transaction coordinator."""

from __future__ import annotations

from attrs import frozen


@frozen
class TransactionSettings:
    """Limits and intervals, with the defaults of a broker's configuration where that has a name for them."""

    max_timeout_ms: int = 900_000
    """`transaction.max.timeout.ms`: no producer may keep a transaction open for longer."""
    id_expiration_ms: int = 7 * 24 * 3_600_000
    """`transactional.id.expiration.ms`"""
    abort_check_ms: int = 10_000
    """`transaction.abort.timed.out.transaction.cleanup.interval.ms`"""
    expiry_check_ms: int = 3_600_000
    """`transaction.remove.expired.transaction.cleanup.interval.ms`"""
    forgotten_at_once: int = 1_000
    """The limit for the expired ids that one check removes."""
    write_ms: int = 5_000
    """The least time to wait for the write of a record. It is longer if the transaction may be open for longer."""
    again_ms: int = 500
    """The pause before a record that no client waits for is written again."""
