"""The shell without a terminal: it runs lines, and prints through the functions that it is given."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, TypeAlias

import trio

from zab.cli.shell import formatting
from zab.cli.shell.parsing import BadLine, parse_words, split
from zab.cli.shell.shell_commands import COMMANDS
from zab.core.errors import ZabError
from zab.runtime.block_nursery import block_nursery
from zab.session.api import Session
from zab.session.session_errors import (
    BadVersion,
    EventsLost,
    InvalidAcl,
    NoAuth,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    NotReadOnly,
    QuotaExceeded,
    StoreError,
)
from zab.session.watch import Watch
from zab.store.paths import ROOT, why_invalid

HISTORY_MAX: Final = 1_000

Opens: TypeAlias = Callable[[str], AbstractAsyncContextManager[Session]]
"""Opens a session with the servers of a connection string."""

_SAID: Final[Mapping[type[StoreError], str]] = {
    NoNode: "Node does not exist: {}",
    NodeExists: "Node already exists: {}",
    NotEmpty: "Node not empty: {}",
    NoChildrenForEphemerals: "Ephemerals cannot have children: {}",
    BadVersion: "version No is not valid : {}",
    NoAuth: "Insufficient permission : {}",
    InvalidAcl: "Acl is not valid : {}",
    NotReadOnly: "Not a read-only call : {}",
    QuotaExceeded: "Quota has exceeded : {}",
}


class Shell:
    """Runs commands in one session at a time."""

    def __init__(self, opens: Opens, servers: str, say: Callable[[str], None], complain: Callable[[str], None]) -> None:
        self.servers = servers
        self.history: dict[int, str] = {}
        self._lines = 0
        """The number of lines so far."""
        self.prints_watches = True
        self.done = False
        self._opens = opens
        self._say = say
        self._complain = complain
        self._session: Session | None = None
        self._watch: Watch | None = None
        self._leave: trio.CancelScope | None = None
        """Cancel it to close the session. None before the first session and after `close`."""
        self._left = trio.Event()
        """Set when the session has been closed."""
        self._nursery: trio.Nursery | None = None
        """Set once, by `opened`."""
        self._running: trio.CancelScope | None = None
        """Interrupts the running command; None between commands."""

    # -- for commands ------------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        if self._session is None:
            raise BadLine("there is no session: `connect` opens one")
        return self._session

    @property
    def watch(self) -> Watch:
        assert self._watch is not None, "a session is open, and so is its watch"
        return self._watch

    def say(self, *lines: str) -> None:
        for line in lines:
            self._say(line)

    async def connect(self, servers: str | None) -> None:
        """Replace the session by one with these servers, or with the same servers as before if `servers` is None."""
        await self.close()
        self.servers = servers or self.servers
        assert self._nursery is not None, "a shell connects only inside `opened`"
        self._left = trio.Event()
        self._leave = trio.CancelScope()
        await self._nursery.start(self._hold, self._leave)

    async def close(self) -> None:
        if self._leave is not None:
            self._leave.cancel()
            await self._left.wait()
            self._leave = None

    async def _hold(self, leave: trio.CancelScope, task_status: trio.TaskStatus[None]) -> None:
        """Hold the session open until `leave` is cancelled. The task that enters its block must also leave it."""
        begun = False
        try:
            with leave:
                async with self._opens(self.servers) as session:
                    self._session = session
                    while True:
                        async with session.watcher() as watch:
                            self._watch = watch
                            if not begun:
                                begun = True
                                task_status.started()
                            await self._tell(watch)
        except ZabError as error:
            if not begun:
                raise
            self._complain(f"the session has ended: {error}")
        finally:
            self._session = self._watch = None
            self._left.set()

    async def _tell(self, watch: Watch) -> None:
        """Print the events of a watch, until some of them are lost."""
        while True:
            try:
                async for event in watch:
                    if self.prints_watches:
                        self.say(*formatting.event(event))
            except EventsLost as error:
                self._complain(str(error))
                return
            except ZabError as error:
                self._complain(f"the session has ended: {error}")
                await trio.sleep_forever()  # until `leave` is cancelled; commands get the reason from the session

    # -- lines -------------------------------------------------------------------------------------

    @property
    def prompt(self) -> str:
        session = self._session
        state = "CLOSED" if session is None else session.state.name
        return f"[zk: {self.servers}({state}) {self._lines}] "

    async def line(self, line: str) -> bool:
        """Run a line. Return False if it failed, after printing the error."""
        line = line.strip()
        if not line or line.startswith("#"):
            return True
        self.history[self._lines] = line
        self._lines += 1
        self.history.pop(self._lines - 1 - HISTORY_MAX, None)
        return await self._try(lambda: self.execute(line))

    async def words(self, words: list[str]) -> bool:
        """Run a line that is split into words already."""
        return await self._try(lambda: self.execute_words(words))

    async def _try(self, what: Callable[[], Awaitable[None]]) -> bool:
        try:
            with trio.CancelScope() as self._running:
                await what()
            if not self._running.cancelled_caught:
                return True
            self._complain("interrupted: the command may or may not have been executed")
        except BadLine as error:
            self._complain(str(error))
        except StoreError as error:
            said, path = _SAID.get(type(error)), str(error).partition(":")[0]
            if (why := why_invalid(error.path or ROOT)) and why in str(error):
                self._complain(f'Invalid path string "{path}": {why}')
            else:
                self._complain(str(error) if said is None else said.format(path))
        except ZabError as error:
            self._complain(str(error))
        finally:
            self._running = None
        return False

    def interrupt(self) -> None:
        """Cancel the command that is running."""
        if self._running is not None:
            self._running.cancel()

    async def execute(self, line: str) -> None:
        words = split(line)
        await self.execute_words(words)

    async def execute_words(self, words: list[str]) -> None:
        command = COMMANDS.get(words[0])
        if command is None:
            raise BadLine(f"Command not found: {words[0]}. `help` lists the commands")
        try:
            found = parse_words(words[1:], command.flags, command.options, command.least, command.most)
        except BadLine as error:
            raise BadLine(f"{command.name}: {error}. Usage: {command.usage}") from None
        await command.run(self, found)

    async def completions(self, line: str) -> list[str]:
        """Return the possible completions of the last word of this line.

        The first word is a command. A later word that begins with a dash is an option of that command; an empty one,
        or one that begins with a slash, is a path, completed by the children of its parent. A path has no completions
        if its parent cannot be listed.
        """
        words = line.split()
        if not words or (len(words) == 1 and not line.endswith(" ")):
            return [f"{name} " for name in sorted(COMMANDS) if name.startswith(line.strip())]
        last = "" if line.endswith(" ") else words[-1]
        command = COMMANDS.get(words[0])
        if last.startswith("-") and command is not None:
            known = [*(f"-{flag}" for flag in command.flags), *command.options]
            return [f"{option} " for option in known if option.startswith(last)]
        if last and not last.startswith("/"):
            return []
        parent, _, begun = last.rpartition("/")
        if self._session is None:
            return []
        try:
            names = await self._session.children(parent or ROOT)
        except ZabError:
            return []
        return sorted(f"{parent}/{name}" for name in names if name.startswith(begun))


@asynccontextmanager
async def opened(
    opens: Opens, servers: str, say: Callable[[str], None], complain: Callable[[str], None]
) -> AsyncIterator[Shell]:
    """Open a shell with its first session, or raise the reason why no session could be opened."""
    shell = Shell(opens, servers, say, complain)
    async with block_nursery() as nursery:
        shell._nursery = nursery
        await shell.connect(None)
        try:
            yield shell
        finally:
            with trio.CancelScope(shield=True):
                await shell.close()
