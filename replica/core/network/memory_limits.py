"""Memory used by all connections of one listener together.

Limits for each connection do not suffice with ten thousand connections: each could send a request of a hundred
megabytes except for the last byte, or never read a response of that size.
"""

from __future__ import annotations

from typing import Final, Protocol

_RESPONSE_BYTES_LEAST: Final = 64 * 1024
"""The smallest limit for a fetch response. A response contains at least one whole batch in any case, so every client
makes progress."""


class PartialRequestHolder(Protocol):
    """A connection that holds a request that has arrived in part."""

    def cut(self, why: str) -> None:
        """End the connection soon, and free its memory."""


class PartialRequests:
    """Requests that have arrived in part.

    If their sum exceeds the limit, the connection with the oldest one is closed: a proper client sends the rest of a
    request soon.
    """

    def __init__(self) -> None:
        self.bytes = 0
        """The sum of `_sizes`."""
        self._sizes: dict[PartialRequestHolder, int] = {}
        """Bytes by connection, oldest request first."""

    def update(self, holder: PartialRequestHolder, size: int, bytes_max: int) -> None:
        """Record the size of a connection's incomplete request; 0: the connection has none. Cut connections while the
        sum exceeds `bytes_max`."""
        if not size:
            self.discard(holder)
            return
        self.bytes += size - self._sizes.get(holder, 0)
        self._sizes[holder] = size
        while self.bytes > bytes_max and self._sizes:
            oldest = next(iter(self._sizes))
            self.discard(oldest)
            oldest.cut(
                f"the incomplete requests of all clients of this listener exceed {bytes_max} bytes together "
                f"(queued.max.request.bytes), and this client's request is the oldest"
            )

    def discard(self, holder: PartialRequestHolder) -> None:
        self.bytes -= self._sizes.pop(holder, 0)


class ListenerMemory:
    """The memory used by all connections of one listener."""

    def __init__(self) -> None:
        self.request_bytes = 0
        """Bytes of requests that are queued or in progress."""
        self.unsent_bytes = 0
        """Bytes of responses that are not sent yet."""
        self.partial_requests = PartialRequests()

    def response_bytes_max(self, unsent_bytes_total_max: int) -> int:
        """Return the limit of the next fetch response in bytes: a quarter of the free memory, but at least 64 KiB.

        So clients that never read leave memory for the others.
        """
        return max((unsent_bytes_total_max - self.unsent_bytes) // 4, _RESPONSE_BYTES_LEAST)
