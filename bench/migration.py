"""Three servers of Apache ZooKeeper become zab one by one and back, as `zab migrate plan` says, under clients.

Beside it, in the same run, rolling restarts of the three servers of ZooKeeper. The clients write, watch, hold locks and
own ephemeral nodes. Exit status 1: an acknowledged write was lost, a read went back, or two sessions held a lock.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import trio
from attrs import asdict, define, field, frozen

import zab
from bench.ports import free_ports
from bench.report import Result, median, publish
from bench.zookeeper.ensembles import SIDS, asked, end_all, end_with_parent, hosts
from harness.apache_zookeeper import SERVER, java, why_not
from zab.recipes import Lock, Lost

WRITERS: Final = 4
WATCHERS: Final = 2
LOCKERS: Final = 2
WRITE_EVERY_S: Final = 0.02
SESSION_MS: Final = 20_000
SETTLED_S_MAX: Final = 240
ROOT: Final = Path(__file__).parents[1]
KINDS: Final = ("rolling restart of ZooKeeper", "ZooKeeper to zab", "zab to ZooKeeper")


# -- the servers -----------------------------------------------------------------------------------------


class Ensemble:
    """Three servers. Each runs as one of ZooKeeper or as one of zab, and keeps its ports."""

    def __init__(self, folder: Path) -> None:
        folder = folder.resolve()
        ports = free_ports(3 * len(SIDS))
        self.ports = dict(zip(SIDS, ports[2::3], strict=True))
        self.homes = {sid: folder / f"{sid}" for sid in SIDS}
        self.absent_s: list[float] = []
        """How long each server was absent."""
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{folder}:{os.environ['PATH']}"}
        program = folder / "zab"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m zab "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        lines = [f"server.{sid}=127.0.0.1:{ports[3 * sid - 3]}:{ports[3 * sid - 2]}" for sid in SIDS]
        for sid, home in self.homes.items():
            (home / "data").mkdir(parents=True)
            (home / "data" / "myid").write_text(f"{sid}\n")
            settings = ["tickTime=2000", "initLimit=10", "syncLimit=5", f"dataDir={home / 'data'}"]
            settings += [f"clientPort={self.ports[sid]}", "clientPortAddress=127.0.0.1", "admin.enableServer=false"]
            settings += ["4lw.commands.whitelist=srvr,mntr,conf", "maxClientCnxns=0"]
            (home / "zoo.cfg").write_text("\n".join([*settings, *lines]) + "\n")

    def start(self, sid: int, command: list[str]) -> None:
        with (self.homes[sid] / "server.log").open("ab") as log:
            self._processes[sid] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.homes[sid],
                env=self._environment, start_new_session=True, preexec_fn=end_with_parent,
            )  # fmt: skip

    def start_zookeeper(self, sid: int) -> None:
        self.start(sid, java(SERVER, str(self.homes[sid] / "zoo.cfg")))

    def start_zab(self, sid: int) -> None:
        self.start(sid, [sys.executable, "-m", "zab", "serve", str(self.homes[sid] / "zab.cfg")])

    def stop(self, sid: int) -> None:
        end_all([self._processes.pop(sid)])

    def end(self) -> None:
        end_all(self._processes.values())

    def plan(self, sid: int, *options: str) -> dict[str, Any]:
        """Return the plan that the command prints for the zoo.cfg of this server."""
        given = [f"--server={each}=127.0.0.1:{port}" for each, port in self.ports.items()]
        words = ["zab", "migrate", "plan", str(self.homes[sid] / "zoo.cfg"), "--json", *given, *options]
        done = subprocess.run(words, env=self._environment, capture_output=True, check=False)
        if not done.stdout:
            raise RuntimeError(done.stderr.decode())
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def settled(self, sid: int, *options: str) -> dict[str, Any]:
        """Return the first plan whose next step may be taken."""
        until = time.monotonic() + SETTLED_S_MAX
        while not (made := self.plan(sid, *options))["may_continue"]:
            if time.monotonic() > until:
                raise RuntimeError(f"no step may be taken after {SETTLED_S_MAX} s: {made['checks']}")
            time.sleep(0.5)
        return made

    def _shell(self, part: dict[str, Any]) -> None:
        """Run the lines of a part as they are printed, except those that start or stop a server."""
        lines = [each for each in part["commands"] if not each.startswith(("zab serve /", "bin/zkServer.sh", "kill "))]
        script = "\n".join(lines).removesuffix("&&")
        done = subprocess.run(["sh", "-ec", script], env=self._environment, capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{script}: {done.stderr.decode()}")

    @contextmanager
    def _absent(self, sid: int) -> Iterator[None]:
        """Stop a server, and wait until it serves again after the block."""
        began = time.monotonic()
        self.stop(sid)
        yield
        while "Mode: " not in asked(self.ports[sid], b"srvr"):
            if time.monotonic() > began + SETTLED_S_MAX:
                raise RuntimeError(f"server {sid} does not serve after {SETTLED_S_MAX} s: see {self.homes[sid]}")
            time.sleep(0.05)
        self.absent_s.append(time.monotonic() - began)

    # -- the rounds ------------------------------------------------------------------------------------

    def restart(self) -> None:
        """Restart all servers of ZooKeeper, the leader last."""
        servers = self.settled(SIDS[0])["servers"]
        leader = next(each["server"] for each in servers if each["mode"] == "leader")
        for sid in sorted(SIDS, key=lambda each: (each == leader, each)):
            with self._absent(sid):
                self.start_zookeeper(sid)
            self.settled(sid)

    def to_zab(self) -> None:
        for _ in SIDS:
            step = self._next()
            prepare, _, take_over = step["parts"]
            self._shell(prepare)
            with self._absent(step["server"]):
                self._shell(take_over)
                self.start_zab(step["server"])
        self.settled(SIDS[0])

    def to_zookeeper(self) -> None:
        for _ in SIDS:
            step = self._next("--back")
            with self._absent(step["server"]):
                self._shell(step["parts"][-1])
                self.start_zookeeper(step["server"])
        self.settled(SIDS[0], "--back")
        for home in self.homes.values():
            for aside in home.glob("data*.2*"):
                shutil.rmtree(aside)

    def _next(self, *options: str) -> dict[str, Any]:
        """Return the next step, with the paths of its server: each has a configuration file of its own here."""
        made = self.settled(SIDS[0], *options)
        server = made["next"]["server"]
        found: dict[str, Any] = made["next"] if server == SIDS[0] else self.settled(server, *options)["next"]
        return found


# -- the clients -----------------------------------------------------------------------------------------


@define
class Writer:
    acknowledged: int = 0
    unknown: int = 0
    at_s: list[float] = field(factory=list)
    """The time of each acknowledgement."""

    def pause_s(self, since: float, until: float) -> float:
        """Return the longest time without an acknowledgement."""
        times = [since, *(at for at in self.at_s if since <= at <= until), until]
        return max(later - earlier for earlier, later in pairwise(times))


class Clients:
    """Sessions in a thread of their own, each with an ephemeral node."""

    def __init__(self, hosts: str) -> None:
        self.writers = [Writer() for _ in range(WRITERS)]
        self.sessions_lost = 0
        self.events = 0
        self.locks = 0
        self.locks_lost = 0
        self.wrong: list[str] = []
        self.error: BaseException | None = None
        self._hosts = hosts
        self._token = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Clients:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:
            self.error = error

    async def _main(self) -> None:
        async with zab.connect(self._hosts, timeout_ms=SESSION_MS) as session:
            for number in range(WRITERS):
                await session.ensure_path(_node(number))
        async with trio.open_nursery() as nursery:
            for number in range(WRITERS):
                nursery.start_soon(self._kept, f"writer-{number}", self._write, number)
            for number in range(WATCHERS):
                nursery.start_soon(self._kept, f"watcher-{number}", self._watch, number)
            for number in range(LOCKERS):
                nursery.start_soon(self._kept, f"locker-{number}", self._lock, number)
            while not self._stopped.is_set():
                await trio.sleep(0.1)
            nursery.cancel_scope.cancel()
        async with zab.connect(self._hosts, timeout_ms=SESSION_MS) as session:
            await self._check(session)

    async def _kept(self, name: str, act: Callable[[zab.Session, int], Any], number: int) -> None:
        """Act in a session, and in another one after its loss."""
        while True:
            try:
                async with zab.connect(self._hosts, timeout_ms=SESSION_MS, wait_ms=None) as session:
                    await session.create_protected(f"/{name}-", ephemeral=True)
                    await act(session, number)
            except (zab.SessionExpired, zab.Unreachable):
                self.sessions_lost += 1
            except zab.OutcomeUnknown:
                pass

    async def _write(self, session: zab.Session, number: int) -> None:
        writer = self.writers[number]
        while True:
            try:
                await session.set(_node(number), b"")
                writer.acknowledged += 1
                writer.at_s.append(time.monotonic())
            except zab.OutcomeUnknown:
                writer.unknown += 1
            await trio.sleep(WRITE_EVERY_S)

    async def _watch(self, session: zab.Session, number: int) -> None:
        version = -1
        async with session.watcher() as events:
            while True:
                _, found = await session.get(_node(number), watch=events)
                if found.version < version:
                    self.wrong.append(f"a watcher read version {found.version} of {_node(number)} after {version}")
                version = found.version
                await events.take()
                self.events += 1

    async def _lock(self, session: zab.Session, number: int) -> None:
        while True:
            try:
                async with Lock(session, "/lock") as held:
                    if held.token <= self._token:
                        self.wrong.append(f"a holder of the lock has token {held.token}, after token {self._token}")
                    self._token = held.token
                    self.locks += 1
                    await trio.sleep(WRITE_EVERY_S)
            except Lost:
                self.locks_lost += 1

    async def _check(self, session: zab.Session) -> None:
        """Compare the nodes of the writers with what was acknowledged. Each write raises the version by one."""
        await session.sync()
        for number, writer in enumerate(self.writers):
            _, found = await session.get(_node(number))
            if not writer.acknowledged <= found.version <= writer.acknowledged + writer.unknown:
                self.wrong.append(
                    f"{_node(number)} has version {found.version}, after {writer.acknowledged} acknowledged writes and "
                    f"{writer.unknown} with an unknown outcome"
                )


def _node(number: int) -> str:
    return f"/node-{number}"


# -- the benchmark ---------------------------------------------------------------------------------------


@frozen
class Round:
    kind: str
    took_s: float
    pause_s: float
    sessions_lost: int
    unknown: int
    absent_s: list[float]


def run(rounds: int, data: Path) -> bool:
    if reason := why_not():
        print(f"\n== migration\nnot run: {reason}")
        return True
    ensemble = Ensemble(data)
    try:
        for sid in SIDS:
            ensemble.start_zookeeper(sid)
        ensemble.settled(SIDS[0])
        with Clients(hosts(ensemble.ports.values())) as clients:
            acts = dict(zip(KINDS, (ensemble.restart, ensemble.to_zab, ensemble.to_zookeeper), strict=True))
            done = [_round(kind, act, ensemble, clients) for _ in range(rounds) for kind, act in acts.items()]
    finally:
        ensemble.end()
    if clients.error is not None:
        raise clients.error
    return _report(done, clients)


def _round(kind: str, act: Callable[[], None], ensemble: Ensemble, clients: Clients) -> Round:
    before, unknown = clients.sessions_lost, sum(writer.unknown for writer in clients.writers)
    ensemble.absent_s.clear()
    began = time.monotonic()
    act()
    ended = time.monotonic()
    pause_s = max(writer.pause_s(began, ended) for writer in clients.writers)
    found = Round(
        kind, ended - began, pause_s, clients.sessions_lost - before,
        sum(writer.unknown for writer in clients.writers) - unknown, list(ensemble.absent_s),
    )  # fmt: skip
    print(
        f"{kind}: {found.took_s:.0f} s, longest pause {pause_s:.1f} s, {found.sessions_lost} sessions lost",
        file=sys.stderr,
    )
    return found


def _report(done: list[Round], clients: Clients) -> bool:
    rows: list[dict[str, object]] = []
    for kind in KINDS:
        these = [each for each in done if each.kind == kind]
        pauses = [each.pause_s for each in these]
        rows.append({
            "what": kind, "rounds": len(these), "pause p50 s": median(pauses), "pause max s": max(pauses),
            "a server absent p50 s": median([each for one in these for each in one.absent_s]),
            "round p50 s": median([each.took_s for each in these]),
            "sessions lost": sum(each.sessions_lost for each in these),
            "writes unknown": sum(each.unknown for each in these),
        })  # fmt: skip
    totals = Counter(
        acknowledged=sum(writer.acknowledged for writer in clients.writers),
        events=clients.events, locks=clients.locks, locks_lost=clients.locks_lost,
    )  # fmt: skip
    result: Result = {
        "rounds": [asdict(each) for each in done],
        "totals": totals,
        "wrong": clients.wrong,
    }
    publish("migration", result, [*rows])
    print(f"{totals['acknowledged']} writes acknowledged, {totals['events']} events, {totals['locks']} locks held")
    for each in clients.wrong:
        print(each)
    return not clients.wrong
