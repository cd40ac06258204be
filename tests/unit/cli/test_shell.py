"""The commands of the shell, against a store in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from click.testing import CliRunner

import zab
from zab.cli.shell import shell_command, terminal
from zab.cli.shell.interpreter import Shell, opened
from zab.cli.shell.shell_command import shell
from zab.cli.shell.shell_commands import COMMANDS
from zab.session.api import Session


class Typing:
    def __init__(self, shell: Shell, said: list[str]) -> None:
        self.shell = shell
        self._said = said

    async def __call__(self, line: str) -> list[str]:
        """Run a line, and return its output."""
        self._said.clear()
        await self.shell.line(line)
        return list(self._said)

    async def said(self, text: str) -> None:
        """Wait for a line with this text."""
        while not any(text in line for line in self._said):
            await trio.sleep(0.001)

    async def events(self, count: int) -> list[str]:
        """Return the events that arrive in time."""
        while sum(line.startswith("WatchedEvent") for line in self._said) < count:
            await trio.sleep(0.001)
        return [line.partition("type:")[2].partition(" zxid")[0] for line in self._said if line.startswith("Watched")]


@asynccontextmanager
async def a_shell(path: Path, **settings: Any) -> AsyncIterator[Typing]:
    store_settings = zab.StoreSettings(extended_types=True)
    async with zab.open_store(path, store=store_settings, **settings) as store:

        def opens(servers: str) -> AbstractAsyncContextManager[Session]:
            return store.session()

        said: list[str] = []
        with trio.fail_after(120):
            async with opened(opens, "here", said.append, said.append) as shell:
                yield Typing(shell, said)


def run(path: Path, story: Callable[[Typing], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        async with a_shell(path, **settings) as typing:
            await story(typing)

    trio.run(main)


def test_nodes(tmp_path: Path) -> None:
    async def story(typing: Typing) -> None:
        assert await typing("create /a hello") == ["Created /a"]
        assert await typing("create -s -e /a/n- 1") == ["Created /a/n-0000000000"]
        assert await typing("create -c /a/c") == ["Created /a/c"]
        assert await typing("create -t 60000 /a/t 'one two'") == ["Created /a/t"]
        assert await typing("ls /a") == ["[c, n-0000000000, t]"]
        assert await typing("ls -R /a") == ["/a", "/a/c", "/a/n-0000000000", "/a/t"]
        assert await typing("ls -R /") == [
            "/", "/a", "/a/c", "/a/n-0000000000", "/a/t", "/zookeeper", "/zookeeper/config", "/zookeeper/quota",
        ]  # fmt: skip
        assert await typing("get /a/t") == ["one two"]
        assert await typing("create /none") == ["Created /none"]
        assert await typing("get /none") == ["null"]
        assert await typing("set /a world") == []
        data, *stat = await typing("get -s /a")
        assert data == "world"
        assert stat == await typing("stat /a")
        assert [line.split(" = ")[0] for line in stat] == [
            "cZxid", "ctime", "mZxid", "mtime", "pZxid", "cversion", "dataVersion", "aclVersion", "ephemeralOwner",
            "dataLength", "numChildren",
        ]  # fmt: skip
        assert {"dataVersion = 1", "cversion = 3", "dataLength = 5", "numChildren = 3"} <= set(stat)
        assert await typing("getAllChildrenNumber /a") == ["3"]
        assert await typing("getEphemerals") == ["[/a/n-0000000000]"]
        assert await typing("deleteall /a") == []
        assert await typing("ls /") == ["[none, zookeeper]"]
        assert await typing("sync /") == ["Sync is OK"]

    run(tmp_path, story)


def test_errors_are_printed_and_the_shell_continues(tmp_path: Path) -> None:
    async def story(typing: Typing) -> None:
        await typing("create /a x")
        await typing("create /a/b x")
        await typing("create -e /e x")
        for line, says in {
            "get /none": "Node does not exist: /none",
            "stat /none": "Node does not exist: /none",
            "deleteall /none": "Node does not exist: /none",
            "create /a y": "Node already exists: /a",
            "delete /a": "Node not empty: /a",
            "create /e/f x": "Ephemerals cannot have children: /e/f",
            "set -v 7 /a y": "version No is not valid : /a",
            "removewatches /a": "/a: no watcher",
            "ls": "ls: too few arguments. Usage: ls [-s] [-w] [-R] path",
            "ls a": "'a': bad arguments (a path must begin with /)",
            "bogus": "Command not found: bogus. `help` lists the commands",
            "addWatch -m SOMETIMES /a": "'SOMETIMES' is not a mode of watches: use PERSISTENT or PERSISTENT_RECURSIVE",
            "addauth kerberos x": "auth failed",
        }.items():
            assert says in (await typing(line))[0]

    run(tmp_path, story)


def test_permissions(tmp_path: Path) -> None:
    async def story(typing: Typing) -> None:
        await typing("create /a x world:anyone:cr,digest:bob:x:a")
        assert await typing("getAcl /a") == ["'world,'anyone", ": cr", "'digest,'bob:x", ": a"]
        assert await typing("set /a y") == ["Insufficient permission : /a"]
        await typing("create /b x")
        await typing("create /b/c x")
        await typing("setAcl -R /b world:anyone:cdra")
        assert await typing("getAcl /b/c") == ["'world,'anyone", ": cdra"]
        assert await typing("addauth digest bob:secret") == []
        assert await typing("whoami") == ["Auth scheme: User", "ip: 127.0.0.1", "digest: bob"]

    run(tmp_path, story)


def test_watches(tmp_path: Path) -> None:
    async def story(typing: Typing) -> None:
        await typing("create /a x")
        await typing("get -w /a")
        await typing("set /a y")
        assert await typing.events(1) == ["NodeDataChanged path:/a"]
        await typing("addWatch /a")
        await typing("create /a/b x")
        assert await typing.events(1) == ["NodeCreated path:/a/b"]
        assert await typing("checkwatches /a") == ["/a is watched"]
        await typing("removewatches /a")
        assert await typing.events(1) == ["PersistentWatchRemoved path:/a"]
        assert await typing("checkwatches /a") == ["/a is not watched"]
        await typing("printwatches off")
        await typing("ls -w /a")
        await typing("create /a/c x")
        assert await typing("printwatches") == ["printwatches is off"]

    run(tmp_path, story)


def test_session_outlives_lost_events(tmp_path: Path) -> None:
    async def story(typing: Typing) -> None:
        await typing("create -e /a x")
        await typing("create /many")
        await typing("addWatch /")
        await typing.shell.session.multi(zab.Multi().create("/many/1").create("/many/2"))
        await typing.said("events were not read, and later ones are lost: read the nodes, and watch them again")
        assert await typing("get /a") == ["x"], "the session and its ephemeral node are there"
        await typing("addWatch /a")
        await typing("set /a y")
        assert await typing.events(1) == ["NodeDataChanged path:/a"]

    run(tmp_path, story, client_ports=zab.ClientPortSettings(events_max=1))


def test_wrong_server_address_is_wrong_usage() -> None:
    result = CliRunner().invoke(shell, ["--server", "127.0.0.1:99999", "ls", "/"])
    assert result.exit_code == 2
    assert "Error: '127.0.0.1:99999' is not HOST or HOST:PORT; a port is a number from 1 to 65535" in result.output


@pytest.mark.parametrize(
    ("options", "is_used"),
    [((), False), (("--ca",), True), (("--no-tls", "--ca"), False), (("--tls",), True), (("--no-tls",), False)],
)
def test_tls_is_used_if_it_is_asked_for_or_certificates_are_named(
    options: tuple[str, ...], is_used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[object] = []

    def connect(servers: str, *, tls: object, **options: object) -> AbstractAsyncContextManager[Session]:
        found.append(tls)
        raise zab.Unreachable("no server")

    monkeypatch.setattr(shell_command, "connect", connect)
    (tmp_path / "ca.pem").touch()
    words = [*options, str(tmp_path / "ca.pem")] if "--ca" in options else [*options]
    assert CliRunner().invoke(shell, [*words, "ls", "/"]).exit_code == 3
    assert [each is not None for each in found] == [is_used]


def test_invalid_path_is_reported(tmp_path: Path) -> None:
    async def story(typing: Typing) -> None:
        await typing("create /a x")
        said = 'Invalid path string "/a//b": a name between two / is empty'
        for command in ("create /a//b", "get /a//b", "ls /a//b"):
            assert await typing(command) == [said]
        assert await typing("create -s /a/") == ["Created /a/0000000000"]
        assert await typing("create -s /none/") == ["Node does not exist: /none/"]
        assert await typing("config -c") == [""]

    run(tmp_path, story)


def test_quotas(tmp_path: Path) -> None:
    async def story(typing: Typing) -> None:
        await typing("create /a x")
        await typing("create /a/b xx")
        assert await typing("setquota -n 10 -b 100 /a") == []
        assert await typing("listquota /a") == [
            "Output quota for /a count=10,bytes=100=;byteHardLimit=-1;countHardLimit=-1",
            "Output stat for /a count=2,bytes=3",
        ]
        assert "/a, above /a/b, has a quota already" in (await typing("setquota -n 1 /a/b"))[0]
        await typing("delquota -n /a")
        assert (await typing("listquota /a"))[0].startswith("Output quota for /a count=-1,bytes=100")
        await typing("delquota -b /a")
        assert await typing("ls /zookeeper/quota") == ["[]"]
        assert await typing("setquota -N 1 /a/b") == [
            "note: -N and -B are enforced only if the leader has enforceQuota=true"
        ]
        assert "/a/b, below /a, has a quota already" in (await typing("setquota -n 1 /a"))[0]
        assert await typing("setquota -n 1 /none") == ["Node does not exist: /none"]
        for command in ("listquota", "delquota"):
            assert await typing(f"{command} /none") == ["quota for /none does not exist."]
        assert "give a limit" in (await typing("setquota /a"))[0]

    run(tmp_path, story)


def test_several_in_one(tmp_path: Path) -> None:
    async def story(typing: Typing) -> None:
        assert await typing("multi 'create /a 1' 'create -s /a/n- \"one two\"' 'set -v 0 /a 2' 'check /a 1'") == [
            "Created /a", "Created /a/n-0000000000", "Done: set -v 0 /a 2", "Done: check /a 1",
        ]  # fmt: skip
        assert "version No is not valid" in (await typing("multi 'delete /a/n-0000000000' 'check /a 7'"))[0]
        assert await typing("multiread /a /none /a/n-0000000000") == [
            "/a = 2", "/none: no node", "/a/n-0000000000 = one two",
        ]  # fmt: skip
        assert "cannot be a part of a multi" in (await typing("multi 'get /a'"))[0]
        assert "a version must be a number" in (await typing("multi 'check /a x'"))[0]

    run(tmp_path, story)


def test_reconfig_reads_groups_and_weights_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["server.1=a:1:2;3", "group.1=1", "weight.1=2"]
    (tmp_path / "members").write_text("\n".join([*lines, "version=100000000"]))
    asked: list[str | None] = []

    async def reconfigure(_: object, *, members: str | None, **more: object) -> tuple[bytes, None]:
        await trio.lowlevel.checkpoint()
        asked.append(members)
        return b"", None

    async def story(typing: Typing) -> None:
        monkeypatch.setattr(type(typing.shell.session), "reconfigure", reconfigure)
        await typing(f"reconfig -file {tmp_path}/members")
        assert asked == [",".join(lines)]

    run(tmp_path, story)


@pytest.mark.parametrize("has_readline", [True, False])
def test_prompt_mentions_completion_if_there_is_any(
    has_readline: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class NoThread:
        def __init__(self, *_: object) -> None:
            pass

        def begin(self) -> object:
            return SimpleNamespace(done=True)

        def end(self) -> None:
            pass

    monkeypatch.setattr(terminal, "HAS_READLINE", has_readline)
    monkeypatch.setattr(terminal, "ShellThread", NoThread)
    monkeypatch.setattr(terminal, "_prepare", lambda *_: None)
    terminal.run_prompt(lambda _: nullcontext(), "here", None)  # type: ignore[arg-type, return-value]
    assert ("Tab completes" in capsys.readouterr().out) is has_readline


def test_the_session_ends_and_begins(tmp_path: Path) -> None:
    async def story(typing: Typing) -> None:
        await typing("create -e /e x")
        assert await typing("close") == []
        assert typing.shell.prompt == "[zk: here(CLOSED) 2] "
        assert await typing("ls /") == ["there is no session: `connect` opens one"]
        assert await typing("connect there") == []
        assert typing.shell.prompt == "[zk: there(CONNECTED) 4] "
        assert await typing("ls /") == ["[zookeeper]"], "the ephemeral node went with its session"
        await typing("quit")
        assert typing.shell.done

    run(tmp_path, story)


def test_history(tmp_path: Path) -> None:
    async def story(typing: Typing) -> None:
        await typing("create -s /a-")
        assert await typing("redo 0") == ["Created /a-0000000001"]
        assert await typing("history") == ["0 - create -s /a-", "1 - redo 0", "2 - history"]
        assert "repeat itself" in (await typing("redo 1"))[0]
        assert "there is no command 99" in (await typing("redo 99"))[0]
        assert "there is no command -2" in (await typing("redo -2"))[0]

    run(tmp_path, story)


def test_completion(tmp_path: Path) -> None:
    async def story(typing: Typing) -> None:
        for path in ("/abc", "/abd", "/abc/x", "/other"):
            await typing(f"create {path}")
        shell = typing.shell
        assert await shell.completions("getA") == ["getAcl ", "getAllChildrenNumber "]
        assert await shell.completions("get /ab") == ["/abc", "/abd"]
        assert await shell.completions("get -s /abc/") == ["/abc/x"]
        assert await shell.completions("create -t") == ["-t "]
        assert await shell.completions("get /none/") == []

    run(tmp_path, story)


def test_every_command_has_its_usage(tmp_path: Path) -> None:
    async def story(typing: Typing) -> None:
        lines = await typing("help")
        assert [line.split()[0] for line in lines[::2]] == sorted(COMMANDS, key=str.lower)
        for name in COMMANDS:
            usage, does = await typing(f"help {name}")
            assert usage.startswith(name)
            assert does.strip()

    run(tmp_path, story)
