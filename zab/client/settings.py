"""The bounds and habits of a client. Counts, bytes and milliseconds; a name says which."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.wire.client.frames import FRAME_BYTES_MAX


@frozen
class ClientSettings:
    """
    frame_bytes_max    of one request; not more than the servers take (their `jute.maxbuffer`)
    reply_bytes_max    of one reply: a list of a million children is long
    requests_max       on their way at the same time; further calls wait in line
    request_bytes_max  the same in bytes
    events_max         of one watch, not looked at yet
    auths_max          identities that a session shows to every new server
    connect_ms         what one address may take until the session stands; 0: the timeout, divided among the hosts
    hopeless_ends      whether the first connection is given up at once where every server refuses for what waiting does
                       not mend: TLS that does not agree, a name that nobody has. For people, who sit there and wait
    refused_ends       whether a refused connection counts as one of those, too
    pause_ms_min       before another look at the servers; doubled from round to round, and a part of it left to chance
    pause_ms_max       and this is the longest
    tries_max          how often a read is asked again because its connection was lost
    watch_bytes_max    paths in one request, when a new server is told of the watches
    search_ms_min      while the server is read only: between looks for one that is not, doubled like the pause
    search_ms_max      and this is the longest
    close_ms           how long the end of the block waits for the server's goodbye
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
