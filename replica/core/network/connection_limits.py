"""Limits of a listener and its connections. Some are keys of Kafka's configuration."""

from __future__ import annotations

from typing import Final

from attrs import frozen

MIB: Final = 1024 * 1024
INT_MAX: Final = (1 << 31) - 1


@frozen
class ConnectionLimits:
    """request_bytes_max        `socket.request.max.bytes`: size of one request
    first_request_bytes_max  size of one request before the connection is authenticated, on a listener with SASL
    connections_max          `max.connections`: connections of one listener
    connections_per_host_max `max.connections.per.ip`: connections from one address
    descriptors_max          a connection with this file descriptor number or a higher one is closed: these descriptors
                             are reserved for logs
    controllers_max          connections of the control plane listener, which only controllers use
    idle_s                   `connections.max.idle.ms`: time without a request before an idle connection is closed
    waiting_max              queued requests of one connection; above it, the broker stops reading from it
    waiting_bytes_max        bytes of the requests of one connection that are queued or in progress; above it, the
                             broker stops reading from it
    ahead_max                replicated writes of one connection that are executed before the first one is answered;
                             Kafka's brokers execute one request of a connection at a time
    waiting_bytes_total_max  `queued.max.request.bytes`: bytes of the requests of all connections of one listener that
                             are queued or in progress; above it, the broker stops reading from a connection after its
                             next request; the same limit applies separately to requests that have arrived in part
    unsent_bytes_max         bytes of the unsent responses of one connection; above it, the broker starts none of its
                             requests
    unsent_bytes_total_max   bytes of the unsent responses of all connections of one listener; fetch responses shrink as
                             this limit approaches
    stalled_s                time in which a client must accept `receive_bytes` of its responses; otherwise it is
                             disconnected. The requests of a client that has left must end in this time, too
    handshake_s              time limit of a TLS handshake
    receive_bytes            bytes of one read, unless a larger request arrives, and of one write
    """

    request_bytes_max: int = 100 * MIB
    first_request_bytes_max: int = 512 * 1024
    connections_max: int = 10_000
    connections_per_host_max: int = INT_MAX
    descriptors_max: int = INT_MAX
    controllers_max: int = 256
    idle_s: float = 600.0
    waiting_max: int = 64
    ahead_max: int = 64
    waiting_bytes_max: int = 8 * MIB
    waiting_bytes_total_max: int = 512 * MIB
    unsent_bytes_max: int = 4 * MIB
    unsent_bytes_total_max: int = 512 * MIB
    stalled_s: float = 60.0
    handshake_s: float = 20.0
    receive_bytes: int = 256 * 1024
