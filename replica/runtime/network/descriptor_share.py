"""How clients and logs share the file descriptors of the process.

The system assigns the least free number to a new file or connection. So a connection with a high number shows that all
lower numbers are taken, and no count is needed: from a certain number on, connections are refused. Logs use the rest.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from replica.storage.files import OPEN_FILES_LEAST

OTHERS: Final = 256
"""Reserved beside the logs' open files: files opened for a moment, other brokers, the store, controllers, operators."""


@frozen
class DescriptorShare:
    """connections  descriptors below this number may belong to clients
    logs         files that the logs of one directory may keep open
    """

    connections: int
    logs: int


def share_descriptors(limit: int, directories: int, logs: int, others: int = OTHERS) -> DescriptorShare:
    """Divide the descriptors of the process.

    `logs` files of each directory may stay open, unless the reserve then exceeds half of the limit.
    """
    reserved = min(directories * logs + others, limit // 2)
    for_logs = reserved - min(others, reserved // 2)
    return DescriptorShare(limit - reserved, min(logs, max(for_logs // max(directories, 1), OPEN_FILES_LEAST)))
