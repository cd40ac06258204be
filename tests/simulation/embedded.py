"""Machines of embedders, right ones and ones with the mistakes that people make, and the models beside them.

They stand alone: with each campaign another process loads the file that defines the machine.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import time
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Final

import zab
from zab import View, Zxid


class Bank(zab.Passive):
    """Accounts that are never overdrawn."""

    def __init__(self) -> None:
        self.accounts: dict[str, int] = {}

    def apply(self, zxid: Zxid, txn: bytes) -> object:
        who, amount = txn.decode().split()
        have = self.accounts.get(who, 0) + int(amount)
        if have < 0:
            return "no"
        self.accounts[who] = have
        return have

    def snapshot(self) -> Iterable[bytes]:
        return [json.dumps(self.accounts).encode()]

    def restore(self, chunks: Iterable[bytes]) -> None:
        self.accounts = json.loads(b"".join(chunks))


class Ledger:
    def initial(self) -> dict[str, int]:
        return {}

    def step(self, state: dict[str, int], request: bytes) -> tuple[dict[str, int], object]:
        who, amount = request.decode().split()
        have = state.get(who, 0) + int(amount)
        return (state, "no") if have < 0 else ({**state, who: have}, have)

    def requests(self, random: Random) -> bytes:
        return f"{random.choice(['ann', 'bob', 'cyd'])} {random.randint(-5, 9)}".encode()


class ForgetsTheRich(Bank):
    def snapshot(self) -> Iterable[bytes]:
        return [json.dumps({who: have for who, have in self.accounts.items() if have < 20}).encode()]


class KeepsTheOld(Bank):
    def restore(self, chunks: Iterable[bytes]) -> None:
        self.accounts.update(json.loads(b"".join(chunks)))
        self.accounts = {who: have for who, have in self.accounts.items() if have != 3}


class TakesItsTime(Bank):
    def snapshot(self) -> Iterator[bytes]:
        for who in list(self.accounts):
            yield json.dumps([who, self.accounts[who]]).encode()

    def restore(self, chunks: Iterable[bytes]) -> None:
        self.accounts = dict(json.loads(chunk) for chunk in chunks)


class Gambles(Bank):
    def apply(self, zxid: Zxid, txn: bytes) -> object:
        return super().apply(zxid, txn) if random.random() < 0.9 else "lost"


class StoresChance(Bank):
    """Answers rightly, and keeps something else at every server."""

    def apply(self, zxid: Zxid, txn: bytes) -> object:
        self.accounts["luck"] = random.randint(0, 1_000_000)
        return super().apply(zxid, txn)


class StoresTheTimeOfDay(Bank):
    def apply(self, zxid: Zxid, txn: bytes) -> object:
        self.accounts["hour"] = dt.datetime.now().hour
        return super().apply(zxid, txn)


class StoresTheTime(Bank):
    def apply(self, zxid: Zxid, txn: bytes) -> object:
        self.accounts["at"] = time.time_ns()
        return super().apply(zxid, txn)


class StoresAClock(Bank):
    """Stores the hour of a clock: too coarse to differ between the servers of one process."""

    clock: Callable[[], object]

    def apply(self, zxid: Zxid, txn: bytes) -> object:
        self.accounts["hour"] = type(self).clock()  # type: ignore[assignment]
        return super().apply(zxid, txn)


HOUR: Final = 3_600
CLOCKS: Final[dict[str, Callable[[], object]]] = {
    "Time": lambda: time.time() // HOUR,
    "TimeNs": lambda: time.time_ns() // (HOUR * 10**9),
    "Monotonic": lambda: time.monotonic() // HOUR,
    "MonotonicNs": lambda: time.monotonic_ns() // (HOUR * 10**9),
    "PerfCounter": lambda: time.perf_counter() // HOUR,
    "PerfCounterNs": lambda: time.perf_counter_ns() // (HOUR * 10**9),
    "ProcessTime": lambda: time.process_time() // HOUR,
    "ProcessTimeNs": lambda: time.process_time_ns() // (HOUR * 10**9),
    "ThreadTime": lambda: time.thread_time() // HOUR,
    "RealtimeClock": lambda: time.clock_gettime(time.CLOCK_REALTIME) // HOUR,
    "RealtimeClockNs": lambda: time.clock_gettime_ns(time.CLOCK_REALTIME) // (HOUR * 10**9),
    "MonotonicClock": lambda: time.clock_gettime(time.CLOCK_MONOTONIC) // HOUR,
    "Ctime": lambda: time.ctime()[:13],
    "Asctime": lambda: time.asctime()[:13],
    "Strftime": lambda: time.strftime("%H"),
    "Gmtime": lambda: time.gmtime().tm_hour,
    "Today": lambda: dt.date.today().isoformat(),
}
"""By the name of the machine that stores it."""
for _name, _clock in CLOCKS.items():
    globals()[_name] = type(_name, (StoresAClock,), {"clock": staticmethod(_clock), "__module__": __name__})


class StoresTheOrderOfASet(Bank):
    def apply(self, zxid: Zxid, txn: bytes) -> object:
        result = super().apply(zxid, txn)
        self.accounts = {who: self.accounts[who] for who in set(self.accounts)}
        return result


class FollowsHashes(Bank):
    def apply(self, zxid: Zxid, txn: bytes) -> object:
        super().apply(zxid, txn)
        return list(set(self.accounts))


class Falls(Bank):
    def apply(self, zxid: Zxid, txn: bytes) -> object:
        if txn.endswith(b" 4"):
            raise ValueError("four")
        return super().apply(zxid, txn)


class Overdraws(Bank):
    def apply(self, zxid: Zxid, txn: bytes) -> object:
        who, amount = txn.decode().split()
        self.accounts[who] = self.accounts.get(who, 0) + int(amount)
        return self.accounts[who]


class Prepares:
    """Refuses at the leader, on what is outstanding, too; what it must not do is look at what is applied alone."""

    looks_at_outstanding = True

    def __init__(self) -> None:
        self.taken: list[bytes] = []

    def prepare(self, request: bytes, view: View) -> bytes:
        outstanding = [txn for _, txn in view.outstanding] if self.looks_at_outstanding else []
        if request in self.taken or request in outstanding:
            raise zab.Refused("taken")
        return request

    def apply(self, zxid: Zxid, txn: bytes) -> int:
        self.taken.append(txn)
        return len(self.taken)

    def snapshot(self) -> Iterable[bytes]:
        return list(self.taken)

    def restore(self, chunks: Iterable[bytes]) -> None:
        self.taken = list(chunks)


class LooksOnlyAtWhatIsApplied(Prepares):
    looks_at_outstanding = False


class Names:
    def initial(self) -> tuple[bytes, ...]:
        return ()

    def step(self, state: tuple[bytes, ...], request: bytes) -> tuple[tuple[bytes, ...], int]:
        if request in state:
            raise zab.Refused("taken")
        return (*state, request), len(state) + 1


class RefusesOverdrafts(Bank):
    """Refuses at the leader, on what is outstanding, too."""

    def prepare(self, request: bytes, view: View) -> bytes:
        who, amount = request.decode().split()
        changes = [txn.decode().split() for _, txn in view.outstanding]
        have = self.accounts.get(who, 0) + sum(int(change) for name, change in changes if name == who)
        if have + int(amount) < 0:
            raise zab.Refused("an overdraft")
        return request


class StrictLedger(Ledger):
    def step(self, state: dict[str, int], request: bytes) -> tuple[dict[str, int], object]:
        after, result = super().step(state, request)
        if result == "no":
            raise zab.Refused("an overdraft")
        return after, result
