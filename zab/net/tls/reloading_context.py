"""The TLS context of a port. With the setting `reload`, a new certificate needs no restart.

With this setting, the context is loaded again after its files have changed. Established connections stay as they are.
If the new files have an error, the old context stays in use, and the log gives the reason.
"""

from __future__ import annotations

import os
import ssl
from typing import TypeAlias

import trio

from zab.core.errors import ConfigError
from zab.host.logs import Log
from zab.net.tls.tls_settings import TlsPortSettings

_Signature: TypeAlias = tuple[tuple[int, int, int], ...]


class ServerContexts:
    def __init__(self, settings: TlsPortSettings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._signature = self._look()
        """The times, sizes and inodes of the files just before they were last read; None if a file was missing."""
        self._context = settings.server_context()
        self._next_look = 0.0
        """The earliest time of the next check for changed files."""
        self._reading = False
        """True while a thread reads the files. Meanwhile the old context is used."""

    def _look(self) -> _Signature | None:
        try:
            found = [os.stat(path) for path in self._settings.files]
        except OSError:
            return None  # perhaps a file is being replaced
        return tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in found)

    async def current(self) -> ssl.SSLContext:
        """Return the context for a new connection. Look for changed files first, if that is due."""
        settings, now = self._settings, trio.current_time()
        if not settings.reload or self._reading or now < self._next_look:
            return self._context
        self._next_look = now + settings.reload_ms / 1000
        signature = self._look()
        if signature is None or signature == self._signature:
            return self._context
        self._reading = True
        try:
            # In a thread: decrypting a well protected key takes long by design.
            self._context = await trio.to_thread.run_sync(settings.server_context)
            self._log.say("certificates_reloaded", files=",".join(settings.files))
        except ConfigError as error:
            self._log.say("certificates_not_reloaded", "error", why=error)
        finally:
            self._reading = False
            self._signature = signature
        return self._context
