"""The limits and intervals of a client. The names of times and sizes contain the unit."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.core.argument_names import checks_arguments
from zab.wire.client.client_frames import FRAME_BYTES_MAX


@checks_arguments
@frozen
class ClientSettings:
    """Limits and intervals of a client.

    frame_bytes_max    bytes of one request; at most what the servers accept (their `jute.maxbuffer`). A larger one
                       raises `LocalProtocolError` and is not sent
    reply_bytes_max    bytes of one reply. A longer one ends the connection, and the read that it answers raises
                       `WireError`
    requests_max       requests in flight; further calls wait
    request_bytes_max  bytes of the requests in flight; further calls wait
    events_max         unread events of one watch; more end it with `EventsLost`
    auths_max          identities of a session; more raise `Overloaded`
    connect_ms         time to resolve one host, and then for each of its addresses until the session is established;
                       0: the session's timeout, divided among the hosts. `wait_ms` of `zab.connect` may shorten it for
                       the first connection
    hopeless_ends      give up the first connection (`Unreachable`) if every server fails for a permanent reason: TLS
                       that does not match, an unknown name. For interactive use
    refused_ends       count a refused connection as a permanent reason
    pause_ms_min       the first pause between two rounds of attempts; doubled from round to round, until a connection
                       has lasted a second. Up to half of each pause is left out at random
    pause_ms_max       the longest pause
    tries_max          lost connections of one read; then it raises `Unreachable`
    watch_bytes_max    bytes of paths in one request, when a new server receives the watches
    search_ms_min      pause before the next search for a server with a quorum while the present one has none; it is
                       doubled and shortened like the pause between rounds
    search_ms_max      the longest such pause
    close_ms           how long the end of the `async with` block waits for the session to be closed at a server
    """

    frame_bytes_max: int = FRAME_BYTES_MAX
    reply_bytes_max: int = 64 << 20
    requests_max: int = 1_000
    request_bytes_max: int = 8 << 20
    events_max: int = 10_000
    auths_max: int = 64
    connect_ms: int = 0
    hopeless_ends: bool = False
    refused_ends: bool = False
    pause_ms_min: int = 50
    pause_ms_max: int = 2_000
    tries_max: int = 20
    watch_bytes_max: int = 128 << 10
    search_ms_min: int = 100
    search_ms_max: int = 60_000
    close_ms: int = 2_000


DEFAULT_CLIENT: Final = ClientSettings()
