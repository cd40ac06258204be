"""Counts of one server's clients: of connections, sessions, requests and logins. The metrics read them."""

from __future__ import annotations

from attrs import define, field

from zab.service.attached import Traffic


@define
class Counts:
    """Counts since the server's start, named as ZooKeeper's metrics, some without the suffix `_count`."""

    connection_rejected: int = 0
    connection_request_count: int = 0
    connection_drop_count: int = 0
    bytes_received: int = 0
    response_bytes: int = 0
    unsuccessful_handshake: int = 0
    tls_handshake_exceeded: int = 0
    outstanding_tls_handshake: int = 0
    """The TLS handshakes that are under way now."""
    ensemble_auth_fail: int = 0
    stale_sessions_expired: int = 0
    sessionless_connections_expired: int = 0
    throttled_ops: int = 0
    large_requests_rejected: int = 0
    auth_failed: int = 0
    gone: Traffic = field(factory=Traffic)
    """The traffic of connections that were closed since the start, or since the last reset of statistics.

    All traffic is the sum of this and the traffic of the open connections.
    """
