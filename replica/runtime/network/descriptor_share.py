"""The division of the process's file descriptors between client connections and logs.

The system assigns the smallest free number to a new file or connection. So a connection with a high number shows that
all lower numbers are in use. A listener refuses a connection with too high a number, unless it can drop a half-open one
instead (`zab.net.listener`), and leaves the rest to the logs.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from replica.storage.files import OPEN_FILES_LEAST

OTHERS: Final = 256
"""The number of descriptors for other uses: temporary files, other brokers, the store, controllers, operators."""


@frozen
class DescriptorShare:
    """connections  client connections may have descriptors below this number
    logs         the number of files that the logs of one directory may keep open
    """

    connections: int
    logs: int


def share_descriptors(limit: int, directories: int, logs: int, others: int = OTHERS) -> DescriptorShare:
    """Divide the descriptors of the process.

    Reserve `logs` descriptors for each log directory and `others` for other uses, but at most half of `limit`. Client
    connections have the rest. If half of `limit` is not enough, the logs of each directory may keep fewer files open,
    but at least `OPEN_FILES_LEAST` (or `logs`, if that is less).
    """
    reserved = min(directories * logs + others, limit // 2)
    for_logs = reserved - min(others, reserved // 2)
    return DescriptorShare(limit - reserved, min(logs, max(for_logs // max(directories, 1), OPEN_FILES_LEAST)))
