"""The console's session with the store. It is opened again whenever it is over, so the console outlives any outage."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Final

import trio

from zab.console.page import Refusal
from zab.core.errors import ZabError
from zab.host.logs import RateLimit
from zab.session.api import Session
from zab.session.session_errors import AuthFailed

PAUSE_S: Final = 2.0
"""The pause before another session is opened."""
REFUSED_PAUSE_S: Final = 30.0
"""The pause after the servers have refused the credentials: they count failed logins."""
REPEATED_S: Final = 60.0
"""The shortest time between two log lines with the same reason."""
REASONS_MAX: Final = 100

_log: Final = logging.getLogger("zab.console")


class StoreLink:
    """Keeps one session. `opens` returns a new one as a block, like `zab.connect`."""

    def __init__(self, opens: Callable[[], AbstractAsyncContextManager[Session]]) -> None:
        self._opens = opens
        self._session: Session | None = None
        self._problem = "no server has answered yet"
        """The reason why there is no session; not used while there is one."""
        self._limit = RateLimit(REPEATED_S, REASONS_MAX)
        self._changed = trio.Event()
        """Set when a session was opened, then replaced."""

    async def run(self) -> None:
        while True:
            pause = PAUSE_S
            try:
                async with self._opens() as session:
                    self._session = session
                    self._changed.set()
                    async for _ in session.states():
                        pass
                    self._problem = session.over or "the session is over"
            except ZabError as error:
                self._failed(f"the last attempt failed: {error}")
                pause = REFUSED_PAUSE_S if isinstance(error, AuthFailed) else PAUSE_S
            except Exception as error:  # a bug: the pages show it, and the next session may do without it
                _log.exception("console_session_failed")
                self._problem = f"the session failed: {type(error).__name__}"
            finally:
                self._session, self._changed = None, trio.Event()
            await trio.sleep(pause)

    def _failed(self, problem: str) -> None:
        """Note why there is no session, and log it, at most once a minute for the same reason."""
        self._problem = problem
        if self._limit.suppressed(problem, trio.current_time()) is not None:
            _log.warning("console_has_no_session why=%r", problem)

    async def session(self) -> Session:
        """Return the session. Wait for a moment if it is about to be opened; raise `Refusal` if there is none."""
        if self._session is None:
            with trio.move_on_after(1.0):
                await self._changed.wait()
        if self._session is None:
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"the store cannot be reached: {self._problem}")
        return self._session
