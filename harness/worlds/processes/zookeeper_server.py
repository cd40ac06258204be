"""A server of Apache ZooKeeper among servers of ours, with the same configuration file and names of its own.

Its role is read from its log, like that of our servers. Faults of its disk and of its clock have no effect: the run
cannot reach below a JVM.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.apache_zookeeper import SERVER, java
from harness.faults import Script
from harness.worlds.processes.configuration import Pace
from harness.worlds.processes.server import RoleSeen, Server
from zab.core.ensemble import Server as Member
from zab.wire.disk_files import CURRENT_EPOCH, VERSION_DIRECTORY, decode_number

STOPPED_BY_SIGTERM: Final = 143
"""The exit code of a JVM after SIGTERM."""
_LOGGING: Final = """\
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
logger.quorum.name = org.apache.zookeeper.server.quorum
logger.quorum.level = info
"""
_UNTIL_EOF: Final = 'exec 3<&0; (read -r _ <&3; kill -9 $$) >/dev/null 2>&1 & exec "$@" 3<&- </dev/null'
"""Runs a command that is killed at the end of stdin: the pipe closes when the parent ends in any way."""
_STATE: Final = re.compile(r" Peer state changed: (?P<role>looking|following|leading|observing)(?: - (?P<phase>.+))?$")
_REACHED: Final = re.compile(r"Successfully connected to leader, using address: s(?P<sid>\d+)[/:]")


class ZookeeperServer(Server):
    ours = False
    software = "ZooKeeper"
    ends_with = STOPPED_BY_SIGTERM

    _reached: int | None = None
    """The server to which it connected last as its leader."""

    def set_up(
        self,
        script: Script,
        pace: Pace,
        members: Sequence[Member],
        servers: range,
        *,
        founds: bool,
        mutant: str | None = None,
    ) -> None:
        super().set_up(script, pace, members, servers, founds=founds)
        names = self._addresses.names(self.sid, servers)
        (self.folder / "hosts").write_text("".join(f"{address} {name}\n" for name, address in names.items()))
        (self.folder / "log4j2.properties").write_text(_LOGGING)

    def _command(self) -> list[str]:
        hosts, logging = self.folder / "hosts", self.folder / "log4j2.properties"
        properties = (f"jdk.net.hosts.file={hosts}", f"log4j2.configurationFile={logging}")
        return ["sh", "-c", _UNTIL_EOF, "sh", *java(SERVER, str(self.config), properties=properties)]

    def _read(self, line: str) -> None:
        if found := _REACHED.search(line):
            self._reached = int(found["sid"])
        elif (found := _STATE.search(line)) and self.up:
            state, serving = found["role"].upper(), found["phase"] == "broadcast"
            leader = self.sid if state == "LEADING" else self._reached if serving else None
            self.role = RoleSeen(state, self._epoch(), leader, serving)
            self._notify(self, {"event": "role"})

    def _epoch(self) -> int:
        try:
            return int(decode_number((self.files_folder / CURRENT_EPOCH).read_bytes()))
        except FileNotFoundError:
            return 0

    @property
    def files_folder(self) -> Path:
        return self.data / VERSION_DIRECTORY
