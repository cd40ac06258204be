"""The shell at a terminal: a prompt, a stored history, completion, and a Ctrl-C that interrupts only the command.

`input` waits in the main thread, where Python handles signals. Trio runs in another thread. Lines, completions and
interrupts pass between the two. Without a prompt (`run_words`, `run_lines`), Trio runs in the main thread.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Final

import trio

from zab.cli.shell.interpreter import HISTORY_MAX, Opens, Shell, opened

COMPLETION_S: Final = 2.0

try:
    import readline
except ModuleNotFoundError:  # Python may be built without it: then the prompt has no completion and no stored history
    HAS_READLINE = False
else:
    HAS_READLINE = True


def say(line: str) -> None:
    print(line, flush=True)


def complain(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


async def run_words(opens: Opens, servers: str, words: list[str]) -> bool:
    """Run one command, whose words were given on the command line. Return False if it failed."""
    async with opened(opens, servers, say, complain) as shell:
        return await shell.words(words)


async def run_lines(opens: Opens, servers: str) -> bool:
    """Run each line of stdin as a command until `quit`, even after one has failed. Return False if any failed."""
    good = True
    async with opened(opens, servers, say, complain) as shell:
        while not shell.done:
            line = await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
            if not line:
                break
            good = await shell.line(line) and good
    return good


class ShellThread:
    """Runs Trio and a shell in a thread of their own, so that the main thread can wait at the prompt."""

    def __init__(self, opens: Opens, servers: str) -> None:
        self._opens = opens
        self._servers = servers
        self._begun: Future[Shell] = Future()
        self._end = trio.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._thread = Thread(target=self._run, name="zab shell", daemon=True)

    def begin(self) -> Shell:
        self._thread.start()
        return self._begun.result()

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:
            if not self._begun.done():
                self._begun.set_exception(error)
            else:
                raise

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with opened(self._opens, self._servers, say, complain) as shell, trio.open_nursery() as nursery:
            self._nursery = nursery
            self._begun.set_result(shell)
            await self._end.wait()
            nursery.cancel_scope.cancel()

    def soon(self, function: Callable[[], object]) -> None:
        assert self._token is not None, "the thread reports its start before the first line"
        self._token.run_sync_soon(function)

    def line(self, shell: Shell, line: str) -> Future[bool]:
        done: Future[bool] = Future()

        async def execute() -> None:
            try:
                done.set_result(await shell.line(line))
            except BaseException as error:
                done.set_exception(error)
                raise

        self.soon(lambda: self._nursery.start_soon(execute))
        return done

    def completions(self, shell: Shell, line: str) -> list[str]:
        found: Future[list[str]] = Future()

        async def complete() -> None:
            with trio.move_on_after(COMPLETION_S):
                found.set_result(await shell.completions(line))
                return
            found.set_result([])

        self.soon(lambda: self._nursery.start_soon(complete))
        return found.result()

    def end(self) -> None:
        self.soon(self._end.set)
        self._thread.join()


def run_prompt(opens: Opens, servers: str, history: Path | None) -> None:
    thread = ShellThread(opens, servers)
    say(f"connecting to {servers}")
    shell = thread.begin()
    _prepare(thread, shell, history)
    tab = "Tab completes them and paths, " if HAS_READLINE else ""
    say(f"`help` lists the commands, {tab}Ctrl-D leaves the shell")
    try:
        while not shell.done:
            try:
                line = input(shell.prompt)
            except KeyboardInterrupt:
                say("")
                continue
            except EOFError:
                say("")
                break
            done = thread.line(shell, line)
            while True:
                try:
                    done.result()
                    break
                except KeyboardInterrupt:
                    thread.soon(shell.interrupt)
    finally:
        if HAS_READLINE and history is not None:
            _write_history(history)
        thread.end()


def _prepare(thread: ShellThread, shell: Shell, history: Path | None) -> None:
    if not HAS_READLINE:
        return
    found: list[str] = []

    def complete(text: str, state: int) -> str | None:
        if state == 0:
            found[:] = thread.completions(shell, readline.get_line_buffer()[: readline.get_endidx()])
        return found[state] if state < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n")
    readline.parse_and_bind("tab: complete")
    readline.set_history_length(HISTORY_MAX)
    if history is not None:
        try:
            readline.read_history_file(history)
        except OSError:
            pass  # the history is only a convenience, and before the first use there is none


def _write_history(history: Path) -> None:
    """Write the history, readable by its owner only: lines of `addauth` contain passwords."""
    try:
        history.touch(0o600)
        os.chmod(history, 0o600)
        readline.write_history_file(history)
    except OSError as error:
        complain(f"cannot write the history to {history}: {error.strerror}")
