"""The injection of faults of processes, settings and clocks."""

from __future__ import annotations

from functools import partial
from typing import Final

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
from harness.worlds.cores.injection import Injection, Injector, Undo, at_running, at_server, done
from harness.worlds.cores.server import Server

SETTING_DOWN_MS: Final = 20
"""The downtime of a server that is restarted for a setting."""


def _crash(nemesis: Injector, server: Server, fault: Crash) -> Undo:
    nemesis.world.crash(server, fault.loss, fault.down_ms)
    return done


def _crash_all(nemesis: Injector, fault: CrashAll) -> Undo:
    nemesis.world.crash_all(fault.loss, fault.down_ms)
    return done


def _pause(_: Injector, server: Server, __: Pause) -> Undo:
    server.pause()
    return server.resume


def _restart(nemesis: Injector, server: Server, fault: Restart) -> Undo:
    nemesis.world.restart(server, fault.down_ms)
    return done


def _rolling_restart(nemesis: Injector, fault: RollingRestart) -> Undo:
    def roll(server: Server) -> None:
        if fault.manner == "kill":
            nemesis.world.crash(server, "lose", fault.down_ms)
        else:
            nemesis.world.restart(server, fault.down_ms)

    for place, server in enumerate(nemesis.founded()):
        nemesis.later(place * (fault.down_ms + fault.wait_ms), partial(roll, server))
    return done


def _setting(nemesis: Injector, server: Server, fault: Setting) -> Undo:
    nemesis.bend(server)

    def turn(value: int) -> None:
        server.knobs = evolve(server.knobs, **{fault.knob: value})
        nemesis.world.restart(server, SETTING_DOWN_MS)

    turn(fault.value)
    return partial(turn, getattr(nemesis.world.script.knobs, fault.knob))


# -- clocks ----------------------------------------------------------------------------------------------


def _run_at(nemesis: Injector, server: Server, fault: ClockDrift | ClockFreeze) -> Undo:
    percent = fault.rate_percent if isinstance(fault, ClockDrift) else 0
    nemesis.bend(server)
    server.turn_clock(partial(server.clock.run_at, percent))
    return partial(server.turn_clock, partial(server.clock.run_no_more_at, percent))


def _jump(server: Server, by_ms: int) -> None:
    server.clock.wrong_ms += by_ms


def _clock_step(nemesis: Injector, server: Server, fault: ClockStep) -> Undo:
    nemesis.bend(server)
    _jump(server, fault.by_ms)
    return done


def _clock_skew(nemesis: Injector, server: Server, fault: ClockSkew) -> Undo:
    nemesis.bend(server)
    _jump(server, fault.by_ms)
    return partial(_jump, server, -fault.by_ms)


def _clock_strobe(nemesis: Injector, server: Server, fault: ClockStrobe) -> Undo:
    nemesis.bend(server)
    times = range(0, fault.for_ms, fault.every_ms)
    for number, wait_ms in enumerate(times):
        nemesis.later(wait_ms, partial(_jump, server, -fault.by_ms if number % 2 else fault.by_ms))
    return partial(_jump, server, -fault.by_ms) if len(times) % 2 else done


def mend(nemesis: Injector) -> None:
    """Let clocks run right, and restart servers whose settings are not their usual ones."""
    world = nemesis.world
    for server in nemesis.bent:
        server.turn_clock(server.clock.mend)
        if server.knobs != world.script.knobs:
            server.knobs = world.script.knobs
            world.restart(server, SETTING_DOWN_MS)


INJECTIONS: Final[dict[type, Injection]] = {
    Crash: at_running(_crash),
    CrashAll: _crash_all,
    Pause: at_running(_pause),
    Restart: at_running(_restart),
    RollingRestart: _rolling_restart,
    Setting: at_server(_setting),
    ClockDrift: at_server(_run_at),
    ClockFreeze: at_server(_run_at),
    ClockStep: at_server(_clock_step),
    ClockSkew: at_server(_clock_skew),
    ClockStrobe: at_server(_clock_strobe),
}
