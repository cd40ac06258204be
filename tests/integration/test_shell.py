"""`zab shell` as a process: one command, a pipe, a terminal; and beside ZooKeeper's own shell, which it resembles."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio

from bench.ports import free_port
from harness import apache_zookeeper
from tests.integration import apache
from tests.integration.stores import stores

PATIENCE_S = 240

TYPED = """\
ls /
create /a hello
create -s /a/n- 1
create -e /a/e x
create -c /a/c
create -t 60000 /a/t 'one two'
create /a
create /none/x y
get /a
get -s /a
get /none
ls -s /a
ls -R /a
stat /a
set -s /a world
set -v 0 /a nope
getAcl -s /a
setAcl /a world:anyone:cdra,ip:127.0.0.1:w
getAcl /a
delete /a
delete -v 7 /a/c
delete /a/c
getAllChildrenNumber /a
getEphemerals
getEphemerals /a
whoami
addauth digest bob:secret
whoami
setquota -n 10 /a
setquota -b 1000 /a
listquota /a
delquota -n /a
listquota /a
sync /a
create /bin "with space"
get -b /bin
get -x /bin
create /nodata
get /nodata
deleteall /a
stat /none
set /none x
delete /none
getAcl /none
printwatches
ls /
"""


def shell(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "zab", "shell", *arguments]


@asynccontextmanager
async def a_store(path: Path) -> AsyncIterator[str]:
    with trio.fail_after(PATIENCE_S):
        async with stores(path) as running:
            yield running.hosts()


async def test_one_command(tmp_path: Path) -> None:
    async with a_store(tmp_path) as hosts:
        done = await trio.run_process(shell("--server", hosts, "create", "-s", "/a-", "x"), capture_stdout=True)
        assert done.stdout == b"Created /a-0000000000\n"
        done = await trio.run_process(
            shell("--server", hosts, "get", "/none"), capture_stdout=True, capture_stderr=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"Node does not exist: /none\n")


async def test_a_pipe(tmp_path: Path) -> None:
    async with a_store(tmp_path) as hosts:
        typed = b"create /a 1\n# nothing\nget /none\n\nget /a\n"
        done = await trio.run_process(
            shell("--server", hosts), stdin=typed, capture_stdout=True, capture_stderr=True, check=False
        )
    assert (done.returncode, done.stdout, done.stderr) == (1, b"Created /a\n1\n", b"Node does not exist: /none\n")


async def test_unanswered_question() -> None:
    port = free_port()
    with trio.fail_after(PATIENCE_S):
        done = await trio.run_process(
            shell("--server", f"127.0.0.1:{port}", "--within", "0.5", "ls", "/"), capture_stderr=True, check=False
        )
    assert done.returncode == 3
    assert f"127.0.0.1:{port}" in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


class Terminal:
    def __init__(self, end: int) -> None:
        self._end = end
        self._seen = ""

    async def until(self, text: str) -> str:
        """Everything up to and with it."""
        while text not in self._seen:
            await trio.lowlevel.wait_readable(self._end)
            self._seen += os.read(self._end, 4096).decode()
        seen, found, self._seen = self._seen.partition(text)
        return seen + found

    async def pressed_until(self, key: str, text: str) -> str:
        """Once more if nothing came of it, as a person does. A Ctrl-C that strikes between the last key's echo and the
        wait for the next is noticed by CPython's readline only at that next key; and completion does not wait for ever.
        """
        while True:
            self.type(key)
            with trio.move_on_after(5):
                return await self.until(text)

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())


def begins(end: int) -> None:
    os.login_tty(end)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # who was started in the background ignores it, and so would its child


@asynccontextmanager
async def at_a_terminal(*arguments: str) -> AsyncIterator[Terminal]:
    mine, theirs = pty.openpty()
    process = subprocess.Popen(  # noqa: ASYNC220  # Trio's own would not give it the terminal
        shell(*arguments),
        preexec_fn=lambda: begins(theirs),
        env={**os.environ, "TERM": "dumb", "INPUTRC": "/dev/null"},
    )
    os.close(theirs)
    try:
        terminal = Terminal(mine)
        yield terminal
        terminal.type("\x04")
        with suppress(OSError):  # the terminal goes with the shell
            await terminal.until("never said")
        assert await trio.to_thread.run_sync(process.wait) == 0
    finally:
        process.kill()
        process.wait()
        os.close(mine)


async def test_a_terminal(tmp_path: Path) -> None:
    """A prompt, completion, a watch that comes while nothing is typed, Ctrl-C, a history that is still there later."""
    async with a_store(tmp_path / "store") as hosts:
        history = tmp_path / "history"
        async with at_a_terminal("--server", hosts, "--history", str(history)) as terminal:
            await terminal.until("(CONNECTED) 0] ")
            terminal.type("create /abc one\n")
            await terminal.until("Created /abc")
            await terminal.until("1] ")
            terminal.type("get -w /a")
            await terminal.pressed_until("\t", "/abc")
            terminal.type("\n")
            await terminal.until("one")
            await terminal.until("2] ")
            terminal.type("half a line")
            await terminal.until("half a line")
            await terminal.pressed_until("\x03", "2] ")
            terminal.type("set /abc two\n")
            await terminal.until("NodeDataChanged path:/abc")
            terminal.type("get /abc\n")
            await terminal.until("two")
            await terminal.until("4] ")
        async with at_a_terminal("--server", hosts, "--history", str(history)) as terminal:
            await terminal.until("(CONNECTED) 0] ")
            terminal.type("\x1b[A\n")
            await terminal.until("two")
            await terminal.until("1] ")
    assert history.stat().st_mode & 0o777 == 0o600


def told(text: str) -> list[str]:
    """Return the constant parts of the output; events arrive at any time."""
    text = re.sub(r"\[zk: [^\]]*\] ", "", text)  # with one version of its terminal's library it prompts even a pipe
    lines = [re.sub(r"((?:zxid|time) = ).*", r"\1...", line, flags=re.IGNORECASE) for line in text.splitlines()]
    lines = [re.sub(r"ephemeralOwner = 0x[1-9a-f].*", "ephemeralOwner = ...", line) for line in lines]
    return [line for line in lines if line.strip() and not line.startswith(("WATCHER", "WatchedEvent"))]


@apache.needs_apache
@pytest.mark.slow
@pytest.mark.mechanism(47)
async def test_shell_output_matches_zookeepers_shell(tmp_path: Path) -> None:
    theirs = apache_zookeeper.java(
        "org.apache.zookeeper.ZooKeeperMain", "-server", "{}", properties=("log4j2.level=OFF",)
    )
    said: list[tuple[list[str], list[str]]] = []
    for name, command, last in (("theirs", theirs, "quit\n"), ("ours", shell("--server", "{}"), "")):
        async with a_store(tmp_path / name) as hosts:
            done = await trio.run_process(
                [word.format(hosts) if word == "{}" else word for word in command],
                stdin=(TYPED + last).encode(), capture_stdout=True, capture_stderr=True, check=False,
            )  # fmt: skip
            output = done.stdout.decode()
            if name == "theirs":
                output = output[output.index("[zookeeper]") :]
            said.append((told(output), told(done.stderr.decode())))
    (their_output, their_errors), (our_output, our_errors) = said
    # Theirs says what it created, and what some commands work with, among the errors.
    created = [line for line in their_errors if line.startswith("Created")]
    # And its terminal's library that there is no terminal.
    beside = re.compile("Created|absolute path|.* org.jline|WARNING: ")
    their_errors = [line for line in their_errors if not beside.match(line)]
    assert [line for line in our_output if line.startswith("Created")] == created
    assert [line for line in our_output if not line.startswith("Created")] == their_output
    assert our_errors == their_errors
