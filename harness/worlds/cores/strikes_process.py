"""The effects of faults of processes, settings and clocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve

from harness.faults import (
    ClockDrift,
    ClockFreeze,
    ClockSkew,
    ClockStep,
    ClockStrobe,
    Crash,
    CrashAll,
    Pause,
    Restart,
    RollingRestart,
    Setting,
)

if TYPE_CHECKING:
    from harness.worlds.cores.nemesis import Nemesis
    from harness.worlds.cores.server import Server

SETTING_DOWN_MS: Final = 20
"""How long a server is away that is restarted for the sake of a setting."""


# -- away ------------------------------------------------------------------------------------------------


def _crash(nemesis: Nemesis, fault: Crash) -> None:
    server = nemesis.who(fault.server)
    if server is not None and server.up:
        nemesis.hit(fault)
        nemesis.world.crash(server, fault.loss, fault.down_ms)


def _crash_all(nemesis: Nemesis, fault: CrashAll) -> None:
    nemesis.hit(fault)
    nemesis.world.crash_all(fault.loss, fault.down_ms)


def _pause(nemesis: Nemesis, fault: Pause) -> None:
    server = nemesis.who(fault.server)
    if server is not None and server.up:
        nemesis.hit(fault)
        server.pause()
        nemesis.later(fault.for_ms, _resume, nemesis, server)


def _resume(_: Nemesis, server: Server) -> None:
    server.resume()


def _restart(nemesis: Nemesis, fault: Restart) -> None:
    server = nemesis.who(fault.server)
    if server is not None and server.up:
        nemesis.hit(fault)
        nemesis.world.restart(server, fault.down_ms)


def _rolling_restart(nemesis: Nemesis, fault: RollingRestart) -> None:
    nemesis.hit(fault)
    wait_ms = 0
    for server in nemesis.world.servers[1:]:
        if server.founded:
            nemesis.later(wait_ms, _roll, nemesis, (server, fault))
            wait_ms += fault.down_ms + fault.wait_ms


def _roll(nemesis: Nemesis, what: tuple[Server, RollingRestart]) -> None:
    server, fault = what
    if not server.up:
        return
    if fault.manner == "kill":
        nemesis.world.crash(server, "lose", fault.down_ms)
    else:
        nemesis.world.restart(server, fault.down_ms)


# -- settings --------------------------------------------------------------------------------------------


def _setting(nemesis: Nemesis, fault: Setting) -> None:
    server = nemesis.who(fault.server)
    if server is not None:
        nemesis.bend(fault, server)
        _set(nemesis, (server, fault.knob, fault.value))
        usual = getattr(nemesis.world.script.knobs, fault.knob)
        nemesis.later(fault.for_ms, _set, nemesis, (server, fault.knob, usual))


def _set(nemesis: Nemesis, what: tuple[Server, str, int]) -> None:
    server, knob, value = what
    server.knobs = evolve(server.knobs, **{knob: value})
    if server.up:
        nemesis.world.restart(server, SETTING_DOWN_MS)


# -- clocks ----------------------------------------------------------------------------------------------


def _clock_drift(nemesis: Nemesis, fault: ClockDrift) -> None:
    _run_at(nemesis, fault, fault.rate_percent)


def _clock_freeze(nemesis: Nemesis, fault: ClockFreeze) -> None:
    _run_at(nemesis, fault, 0)


def _run_at(nemesis: Nemesis, fault: ClockDrift | ClockFreeze, percent: int) -> None:
    server = nemesis.who(fault.server)
    if server is not None:
        nemesis.bend(fault, server)
        server.turn_clock(lambda: server.clock.run_at(percent))
        nemesis.later(fault.for_ms, _run_no_more_at, server, percent)


def _run_no_more_at(server: Server, percent: int) -> None:
    server.turn_clock(lambda: server.clock.run_no_more_at(percent))


def _clock_step(nemesis: Nemesis, fault: ClockStep) -> None:
    server = nemesis.who(fault.server)
    if server is not None:
        nemesis.bend(fault, server)
        server.clock.wrong_ms += fault.by_ms


def _clock_skew(nemesis: Nemesis, fault: ClockSkew) -> None:
    server = nemesis.who(fault.server)
    if server is not None:
        nemesis.bend(fault, server)
        _jump(server, fault.by_ms)
        nemesis.later(fault.for_ms, _jump, server, -fault.by_ms)


def _jump(server: Server, by_ms: int) -> None:
    server.clock.wrong_ms += by_ms


def _clock_strobe(nemesis: Nemesis, fault: ClockStrobe) -> None:
    server = nemesis.who(fault.server)
    if server is not None:
        nemesis.bend(fault, server)
        by_ms = fault.by_ms
        for wait_ms in range(0, fault.for_ms, fault.every_ms):
            nemesis.later(wait_ms, _jump, server, by_ms)
            by_ms = -by_ms
        if by_ms != fault.by_ms:
            nemesis.later(fault.for_ms, _jump, server, by_ms)


# -- the end ---------------------------------------------------------------------------------------------


def mend(nemesis: Nemesis) -> None:
    """Clocks go right again, and whoever runs with another setting is restarted with its own."""
    world = nemesis.world
    for server in nemesis.bent:
        server.turn_clock(server.clock.mend)
        if server.knobs != world.script.knobs:
            server.knobs = world.script.knobs
            if server.up:
                world.restart(server, SETTING_DOWN_MS)


STRIKES: Final[dict[type, Callable[[Any, Any], None]]] = {
    Crash: _crash,
    CrashAll: _crash_all,
    Pause: _pause,
    Restart: _restart,
    RollingRestart: _rolling_restart,
    Setting: _setting,
    ClockDrift: _clock_drift,
    ClockFreeze: _clock_freeze,
    ClockStep: _clock_step,
    ClockSkew: _clock_skew,
    ClockStrobe: _clock_strobe,
}
