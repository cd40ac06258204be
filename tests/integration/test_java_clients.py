"""ZooKeeper's own client, Curator's recipes and `zkCli`, unmodified, with the leader stopped in between.

They come as jars inside the pyspark wheel: `harness/apache_zookeeper.py` finds them.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from harness import apache_zookeeper
from tests.integration import apache
from tests.integration.stores import Stores, stores

PATIENCE_S = 240

pytestmark = [apache.needs_apache, pytest.mark.slow]

needs_compiler = pytest.mark.skipif(shutil.which("javac") is None, reason="no javac to compile a client with")


class Program:
    """A Java program that prints lines, and continues at a command on stdin."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._held = b""
        self.heard: list[str] = []

    async def hear(self) -> str:
        """The next line, or nothing at the end."""
        assert self._process.stdout is not None
        while b"\n" not in self._held:
            data = await self._process.stdout.receive_some()
            if not data:
                return ""
            self._held += data
        line, _, self._held = self._held.partition(b"\n")
        self.heard.append(line.decode())
        return self.heard[-1]

    async def hear_until(self, text: str) -> str:
        """Everything up to a line with this text."""
        lines = []
        while text not in (line := await self.hear()):
            lines.append(line)
            assert line or self._process.returncode is None, "\n".join(lines)
        return "\n".join([*lines, line])

    async def go_on(self) -> None:
        await self.type("\n")

    async def type(self, text: str) -> None:
        assert self._process.stdin is not None
        await self._process.stdin.send_all(text.encode())

    async def rest(self) -> list[str]:
        lines = []
        while line := await self.hear():
            lines.append(line)
        return lines


def program(name: str, *arguments: str) -> AbstractAsyncContextManager[Program]:
    return started(apache.client(name, *arguments))


@asynccontextmanager
async def started(command: list[str]) -> AsyncIterator[Program]:
    piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    async with trio.open_nursery() as nursery:
        process = await nursery.start(partial(trio.run_process, command, check=False, **piped))
        try:
            program = Program(process)
            with trio.move_on_after(PATIENCE_S) as patience:
                yield program
            assert not patience.cancelled_caught, "the program stalled after: " + "; ".join(program.heard[-5:])
        finally:
            for stream in (process.stdin, process.stdout):
                await trio.aclose_forcefully(stream)
            # Which kills it, and waits for its end. Were anything awaited after this, the cancellation would take the
            # place of whatever failed in the block, and end with the nursery: no test could fail.
            nursery.cancel_scope.cancel()


async def toured(name: str, running: Stores) -> list[str]:
    """Return the steps that the program passed: with the leader until it prints `stop it`, and without it afterwards.

    A server that is alone comes back.
    """
    leader = await running.leader()
    said = []
    async with program(name, running.hosts(), str(leader)) as java:
        while (line := await java.hear()) not in ("", "stop it"):
            said.append(line)
        await running.stop(leader)
        if len(running.ports) == 1:
            await running.start(leader)
        await java.go_on()
        said += await java.rest()
    assert said.pop() == "done", said
    wrong = [line for line in said if not line.endswith(" true")]
    assert not wrong, "\n".join(wrong)
    return said


@needs_compiler
async def test_the_java_client_keeps_its_session_when_the_leader_goes(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as running:
        leader = await running.leader()
        others = [sid for sid in running.ports if sid != leader]
        async with program("Plain", running.hosts(leader, *others)) as java:
            assert await java.hear() == "null true"
            assert await java.hear() == "ready"
            await running.stop(leader)
            await java.go_on()
            said = await java.rest()
            # Watches are told of by a thread of the client's, and which of the two prints first is chance.
            events = [line for line in said if line.startswith("event ")]
            assert events == ["event NodeCreated /w/c", "event NodeDeleted /w/c", "event NodeDeleted /w"]
            assert [line for line in said if line not in events] == [
                "same true true",
                "expired false",
                "multi 3",
                "closed",
            ]


@needs_compiler
@pytest.mark.skipif(
    apache_zookeeper.why_not() is None and not list((apache_zookeeper.jars() or Path()).glob("curator-recipes-*.jar")),
    reason="no jars of Curator",
)
async def test_the_recipes_of_curator(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as running:
        leader = await running.leader()
        async with program("Recipes", running.hosts()) as java:
            assert [await java.hear() for _ in range(4)] == [
                "excluded true",
                "acquired true",
                "cached true",
                "leads true false",
            ]
            await running.stop(leader)
            await java.go_on()
            assert await java.rest() == ["counted 20", "succeeded true"]


WHOLE = 64
"""Things that are tried; fewer would mean that it ended early."""


@needs_compiler
@pytest.mark.parametrize("count", [1, 3])
async def test_the_whole_interface_of_the_java_client(count: int, tmp_path: Path) -> None:
    async with stores(tmp_path, count) as running:
        said = await toured("Whole", running)
    assert len(said) == WHOLE


WATCHED = "set /a seen"
EVENT = "WatchedEvent state:SyncConnected type:NodeDataChanged path:/a"

TYPED = """\
version
create /a hello
get -s /a
set -v 0 /a world
set -v 0 /a again
set -s /a third
create -e /a/e x
create -s /a/s- y
create -e -s /a/es- z
create -c /c
create -t 60000 /ttl z
ls /a
ls -s /a
ls -R /
ls -w /a
get -w /a
stat -w /a/e
addauth digest u:p
setAcl -s /a auth::cdrwa
getAcl -s /a
setAcl -R /a world:anyone:cdrwa
getAcl /a/e
whoami
getEphemerals
getEphemerals /a
getAllChildrenNumber /a
addWatch -m PERSISTENT_RECURSIVE /a
set /a seen
removewatches /a -a
printwatches off
printwatches
sync /
config
reconfig -remove 9
setquota -n 5 /a
setquota -N 50 /a
setquota -b 1000 /a
listquota /a
delquota /a
listquota /a
delete -v 7 /c
delete /a
history
redo 1
"""

LATER = """\
deleteall -b 10 /a
delete /nope
stat /nope
get /nope
set /nope x
ls /
close
connect HOSTS
ls /
nonsense
quit
"""

SHOWN = [
    "3.9.5",
    "Created /a",
    "hello",
    "dataVersion = 0",
    "version No is not valid : /a",
    "dataVersion = 2",
    "Created /a/e",
    "Created /a/s-0000000001",
    "Created /a/es-0000000002",
    "Created /c",
    "Created /ttl",
    "[e, es-0000000002, s-0000000001]",
    "numChildren = 3",
    "/zookeeper/config",
    "ephemeralOwner = 0x",
    "aclVersion = 1",
    "'digest,'u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=",
    "'world,'anyone",
    "digest: u",
    "[/a/e, /a/es-0000000002]",
    "[/a/e, /a/es-0000000002]",
    "3",
    EVENT,
    "printwatches is off",
    "Sync is OK",
    "Reconfig is disabled",
    "Output quota for /a count=5,bytes=1000=;byteHardLimit=-1;countHardLimit=50",
    "Output stat for /a count=4,bytes=",
    "quota for /a does not exist",
    "version No is not valid : /c",
    "Node not empty: /a",
    "- delete /a",
    "Node already exists: /a",
]

SHOWN_LATER = [
    "Node does not exist: /nope",
    "Node does not exist: /nope",
    "Node does not exist: /nope",
    "Node does not exist: /nope",
    "[c, ttl, zookeeper]",
    "[c, ttl, zookeeper]",
    "Command not found: Command not found nonsense",
]


@pytest.mark.parametrize("count", [1, 3])
async def test_zkcli(count: int, tmp_path: Path) -> None:
    """Each in this order, with whatever else it says in between; before the leader goes, and after."""
    async with stores(tmp_path, count) as running:
        leader = await running.leader()
        command = apache_zookeeper.java(
            "org.apache.zookeeper.ZooKeeperMain", "-server", running.hosts(), properties=("log4j2.level=ERROR",)
        )
        async with started(command) as shell:
            first, rest = TYPED.split(f"{WATCHED}\n")
            await shell.type(f"{first}{WATCHED}\n")
            said = await shell.hear_until(EVENT)  # printed by another thread, whenever that comes to it
            await shell.type(rest)
            said += "\n" + await shell.hear_until("Node already exists: /a")
            shown(SHOWN, said)
            await running.stop(leader)
            if count == 1:
                await running.start(leader)
            await there_again(shell)
            await shell.type(LATER.replace("HOSTS", running.hosts(*running.servers)))
            shown(SHOWN_LATER, "\n".join(await shell.rest()))


async def there_again(shell: Program) -> None:
    """A request during a connection loss fails with ConnectionLoss, and the shell does not repeat it."""
    while True:
        await shell.type("sync /\n")
        while "Sync" not in (line := await shell.hear()) and "ConnectionLoss" not in line:
            assert line, "the shell has ended"
        if "Sync is OK" in line:
            return


def shown(lines: list[str], said: str) -> None:
    position = 0
    for line in lines:
        found = said.find(line, position)
        assert found >= 0, f"{line!r} does not come where it should:\n{said}"
        position = found + len(line)
