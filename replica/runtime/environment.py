"""The environment of a broker: threads, disks and the network, which a simulation or a cluster in memory replaces.

Time limits use Trio's clock. The wall clock and random bytes are those of the standard library.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from attrs import frozen

from kraft_controller.runtime import meta_properties
from replica.runtime.network.transport import Connect, Listen, connect_tcp, listen_tcp
from replica.storage.files import log_directory
from zab.host.threads import InThread, in_thread
from zab.storage.disk import FolderDisk


@frozen
class Environment:
    """The replaceable parts; the defaults are the real ones."""

    in_thread: InThread = in_thread
    """Runs a job that may wait for a disk or take long."""
    open_directory: Callable[[str], FolderDisk] = log_directory
    """Opens and locks a log directory."""
    draw: Callable[[], float] = random.random
    """Returns a random number from 0 to 1, for the jitter of a segment."""
    former_sessions: Callable[[Path], tuple[int, ...]] = meta_properties.former_sessions
    remember_session: Callable[[Path, int], None] = meta_properties.remember_session
    connect: Connect = connect_tcp
    """Connects to a listener of another broker."""
    listen: Listen = listen_tcp


REAL_ENVIRONMENT = Environment()
