"""Who may have how many of the descriptors of this process.

The system gives each new file or connection the least number that is free. So a connection whose number is high has
all lower ones taken, and nobody has to count: from a certain number on, clients get none, and logs have the rest.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from replica.storage.files import OPEN_FILES_LEAST

OTHERS: Final = 256
"""Beside what is kept open of logs: what is opened for a moment, other brokers, the store, controllers, people."""


@frozen
class DescriptorShare:
    """connections    numbers below this may be those of clients
    logs           how many files the logs of one directory may keep open
    """

    connections: int
    logs: int


def share_descriptors(limit: int, directories: int, logs: int, others: int = OTHERS) -> DescriptorShare:
    """`logs`: as many as those of one directory would like to keep open. They get what they like, and of a small limit
    half."""
    kept = min(directories * logs + others, limit // 2)
    left = kept - min(others, kept // 2)
    return DescriptorShare(limit - kept, min(logs, max(left // max(directories, 1), OPEN_FILES_LEAST)))
