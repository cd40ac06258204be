"""What bounds a broker's connections. The names behind the words are those of Kafka's own keys."""

from __future__ import annotations

from typing import Final

from attrs import frozen

MIB: Final = 1024 * 1024
INT_MAX: Final = (1 << 31) - 1


@frozen
class ConnectionLimits:
    """request_bytes_max        `socket.request.max.bytes`: of one request
    first_request_bytes_max  of a request of somebody who has not yet said who he is, where that must be said
    connections_max          `max.connections`: of one listener
    connections_per_host_max `max.connections.per.ip`: from one address
    descriptors_max          a connection whose descriptor has this number or a higher one is closed: they are for logs
    controllers_max          of the listener for controllers; brokers have one or two of each other
    idle_s                   `connections.max.idle.ms`: nothing was asked, and nothing is waited for
    waiting_max              requests of one connection that wait for their turn; then no more is read from it
    waiting_bytes_max        the same in bytes, with those that wait for replicas
    ahead_max                requests of one connection that are written and wait for replicas while others behind them
                             are taken up: Kafka's brokers take up one at a time
    waiting_bytes_total_max  `queued.max.request.bytes`: the same of all connections together; and as much of requests
                             that have come in part
    unsent_bytes_max         of replies of one connection that it has not taken; then nothing more is answered
    unsent_bytes_total_max   of replies of all connections; the more it is, the less a fetch is answered with
    stalled_s                a client that takes nothing of what is sent to it for so long is cut off
    handshake_s              for TLS
    receive_bytes            that are read at once
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
