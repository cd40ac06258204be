"""Memory that the connections of one listener hold together.

A limit of each connection does not suffice if there may be ten thousand of them: each could announce a request of a
hundred megabytes and stop before the last byte, or request as much and never read the response.
"""

from __future__ import annotations

from typing import Final, Protocol

_RESPONSE_BYTES_LEAST: Final = 64 * 1024
"""A fetch response contains at least one whole batch in any case, so the client makes progress."""


class PartialRequestHolder(Protocol):
    """A connection with a request that has arrived in part."""

    def cut(self, why: str) -> None:
        """End the connection soon, and free its memory."""


class PartialRequests:
    """Requests that have arrived in part.

    If they exceed the limit together, the oldest is disconnected: a client that means to send the rest does so soon.
    """

    def __init__(self) -> None:
        self.bytes = 0
        """The sum of `_sizes`."""
        self._sizes: dict[PartialRequestHolder, int] = {}
        """Bytes by connection, the oldest request first."""

    def update(self, holder: PartialRequestHolder, size: int, bytes_max: int) -> None:
        """Note the bytes that a connection holds now. 0: its last request is complete."""
        if not size:
            self.discard(holder)
            return
        self.bytes += size - self._sizes.get(holder, 0)
        self._sizes[holder] = size
        while self.bytes > bytes_max and self._sizes:
            oldest = next(iter(self._sizes))
            self.discard(oldest)
            oldest.cut(
                f"incomplete requests of all clients exceed {bytes_max} bytes (queued.max.request.bytes), and the one "
                f"of this client is the oldest"
            )

    def discard(self, holder: PartialRequestHolder) -> None:
        self.bytes -= self._sizes.pop(holder, 0)


class ListenerMemory:
    """Bytes that all connections of one listener hold."""

    def __init__(self) -> None:
        self.request_bytes = 0
        """Requests that are queued or in progress."""
        self.unsent_bytes = 0
        """Responses that no client has received yet."""
        self.partial_requests = PartialRequests()

    def response_bytes_max(self, unsent_bytes_total_max: int) -> int:
        """Return the limit of the next fetch response: a quarter of the free memory.

        So clients that never read leave memory to the others, however many they are.
        """
        return max((unsent_bytes_total_max - self.unsent_bytes) // 4, _RESPONSE_BYTES_LEAST)
