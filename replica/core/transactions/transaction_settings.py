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
    """Expired ids that are removed at one such check, at most."""
    write_ms: int = 5_000
    """The least time that a record is waited for. It is waited for as long as its transaction may be open."""
    again_ms: int = 500
    """Before a record that no client waits for is written again."""
