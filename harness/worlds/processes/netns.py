"""Servers in network namespaces of their own, which only root may make: partitions drop packets, not streams.

The run makes a bridge, and for each server a namespace with one end of a pair of virtual interfaces. A routing rule of
the receiver drops the packets of a blocked direction, and TCP handles the loss. This needs no firewall and changes
nothing outside: all interfaces and namespaces belong to this run, and are removed at its end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from random import Random
from typing import Final

from harness.faults import CutLinks, Delay, Fault, Flaky, Op
from harness.worlds.processes.addresses import Loopback, name_of
from harness.worlds.processes.proxy import Fabric

UNSUPPORTED: Final = (CutLinks, Delay, Flaky)
"""Faults of streams, which a routing rule cannot inject: it can neither break a connection nor slow it down."""

_LOCAL_PREF: Final = 100
_DROP_PREF: Final = 50


def can_make() -> str | None:
    """Return why namespaces cannot be made here; None if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need the command `ip`"
    name = f"zab-harness-{os.getpid()}-try"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if tried.returncode:
        return f"ip netns add: {tried.stderr.strip()}"
    _ip(["netns", "del", name])
    return None


def _ip(arguments: Sequence[str], lines: Iterable[str] = ()) -> None:
    done = subprocess.run(
        ["ip", *arguments], input="".join(f"{line}\n" for line in lines), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


class Namespaces:
    """The network 198.18.net.0/24, a range reserved for tests. No other run has the same `net`."""

    def __init__(self, servers: range) -> None:
        self._numbers = Loopback()
        self._bridge = f"zabh{self._numbers.net}"
        self._made: list[int] = []
        try:
            _ip(["link", "add", self._bridge, "type", "bridge"])
            _ip(["address", "add", f"{self._address(254)}/24", "dev", self._bridge])
            _ip(["link", "set", self._bridge, "up"])
            for sid in servers:
                self._make(sid)
        except BaseException:
            self.close()
            raise

    def _make(self, sid: int) -> None:
        space, outer, inner = self.space(sid), self._outer(sid), f"{self._bridge}i{sid}"
        _ip(["netns", "add", space])
        self._made.append(sid)
        _ip(["link", "add", outer, "type", "veth", "peer", "name", inner])
        _ip(["link", "set", inner, "netns", space])
        _ip(["link", "set", outer, "master", self._bridge, "up"])
        # The rule for local delivery comes first by default. Move it behind the rules that drop packets.
        lines = [
            "link set lo up",
            f"address add {self.own(sid)}/24 dev {inner}",
            f"link set {inner} up",
            f"rule add pref {_LOCAL_PREF} lookup local",
            "rule del pref 0",
        ]
        _ip(["-n", space, "-batch", "-"], lines)

    def _address(self, last: int) -> str:
        return f"198.18.{self._numbers.net}.{last}"

    def _outer(self, sid: int) -> str:
        """Return the name of the server's link at the bridge."""
        return f"{self._bridge}o{sid}"

    def space(self, sid: int) -> str:
        return f"zab-harness-{self._numbers.net}-{sid}"

    def own(self, sid: int) -> str:
        return self._address(sid)

    def proxy_address(self, by: int, sid: int) -> None:
        """Return None: there are no proxies between servers."""

    def names(self, sid: int, servers: range) -> dict[str, str]:
        return {name_of(each): self.own(each) for each in servers}

    def command(self, sid: int) -> list[str]:
        return ["ip", "netns", "exec", self.space(sid)]

    def drop(self, pairs: Iterable[tuple[int, int]], verb: str) -> None:
        by_target: dict[int, list[str]] = {}
        for source, target in pairs:
            line = f"rule {verb} pref {_DROP_PREF} from {self.own(source)} blackhole"
            by_target.setdefault(target, []).append(line)
        for target, lines in by_target.items():
            _ip(["-n", self.space(target), "-batch", "-"], lines)

    def close(self) -> None:
        # The kernel deletes the links of a deleted namespace later. The next run with this `net` must not find them.
        links = [["link", "del", self._outer(sid)] for sid in self._made]
        spaces = [["netns", "del", self.space(sid)] for sid in self._made]
        for arguments in (*links, *spaces, ["link", "del", self._bridge]):
            subprocess.run(["ip", *arguments], capture_output=True, check=False)
        self._numbers.close()


class PacketFabric(Fabric):
    """A fabric that drops packets between servers. The proxies of clients work as usual."""

    def __init__(self, random: Random, spaces: Namespaces) -> None:
        super().__init__(random)
        self._spaces = spaces

    def block(self, pairs: Iterable[tuple[int, int]]) -> None:
        pairs = list(pairs)
        new = [pair for pair in dict.fromkeys(pairs) if self.is_open(*pair)]
        super().block(pairs)
        self._spaces.drop(new, "add")

    def unblock(self, pairs: Iterable[tuple[int, int]]) -> None:
        pairs = list(pairs)
        closed = [pair for pair in dict.fromkeys(pairs) if not self.is_open(*pair)]
        super().unblock(pairs)
        self._spaces.drop([pair for pair in closed if self.is_open(*pair)], "del")

    def heal(self) -> None:
        closed = self.blocked
        super().heal()
        self._spaces.drop(closed, "del")


def can(item: Fault | Op) -> bool:
    return not isinstance(item, UNSUPPORTED)
