"""The injection of faults of processes, settings and clocks."""

from __future__ import annotations

from functools import partial
from typing import Final

from attrs import evolve

from harness import faults
from harness.worlds.cores.injection import Injection, Injector, Undo, at_running, at_server, done
from harness.worlds.cores.server import Server

SETTING_DOWN_MS: Final = 20
"""The downtime of a server that is restarted for a setting."""


def _crash(nemesis: Injector, server: Server, fault: faults.Crash) -> Undo:
    nemesis.world.crash(server, fault.loss, fault.down_ms)
    return done


def _crash_all(nemesis: Injector, fault: faults.CrashAll) -> Undo:
    nemesis.world.crash_all(fault.loss, fault.down_ms)
    return done


def _pause(_: Injector, server: Server, __: faults.Pause) -> Undo:
    server.pause()
    return server.resume


def _restart(nemesis: Injector, server: Server, fault: faults.Restart) -> Undo:
    nemesis.world.restart(server, fault.down_ms)
    return done


def _rolling_restart(nemesis: Injector, fault: faults.RollingRestart) -> Undo:
    def roll(server: Server) -> None:
        if fault.manner == "kill":
            nemesis.world.crash(server, "lose", fault.down_ms)
        else:
            nemesis.world.restart(server, fault.down_ms)

    for place, server in enumerate(nemesis.founded()):
        nemesis.later(place * (fault.down_ms + fault.wait_ms), partial(roll, server))
    return done


def _setting(nemesis: Injector, server: Server, fault: faults.Setting) -> Undo:
    nemesis.mark_altered(server)

    def change(value: int) -> None:
        server.knobs = evolve(server.knobs, **{fault.knob: value})
        nemesis.world.restart(server, SETTING_DOWN_MS)

    change(fault.value)
    return partial(change, getattr(nemesis.world.script.knobs, fault.knob))


# -- clocks ----------------------------------------------------------------------------------------------


def _run_at(nemesis: Injector, server: Server, fault: faults.ClockDrift | faults.ClockFreeze) -> Undo:
    percent = fault.rate_percent if isinstance(fault, faults.ClockDrift) else 0
    nemesis.mark_altered(server)
    server.turn_clock(partial(server.clock.run_at, percent))
    return partial(server.turn_clock, partial(server.clock.stop_running_at, percent))


def _jump(server: Server, by_ms: int) -> None:
    server.clock.wrong_ms += by_ms


def _clock_step(nemesis: Injector, server: Server, fault: faults.ClockStep) -> Undo:
    nemesis.mark_altered(server)
    _jump(server, fault.by_ms)
    return done


def _clock_skew(nemesis: Injector, server: Server, fault: faults.ClockSkew) -> Undo:
    nemesis.mark_altered(server)
    _jump(server, fault.by_ms)
    return partial(_jump, server, -fault.by_ms)


def _clock_strobe(nemesis: Injector, server: Server, fault: faults.ClockStrobe) -> Undo:
    nemesis.mark_altered(server)
    times = range(0, fault.for_ms, fault.every_ms)
    for number, wait_ms in enumerate(times):
        nemesis.later(wait_ms, partial(_jump, server, -fault.by_ms if number % 2 else fault.by_ms))
    return partial(_jump, server, -fault.by_ms) if len(times) % 2 else done


def mend(nemesis: Injector) -> None:
    """Let clocks run right, and restart servers whose settings are not their usual ones."""
    world = nemesis.world
    for server in nemesis.altered:
        server.turn_clock(server.clock.mend)
        if server.knobs != world.script.knobs:
            server.knobs = world.script.knobs
            world.restart(server, SETTING_DOWN_MS)


INJECTIONS: Final[dict[type, Injection]] = {
    faults.Crash: at_running(_crash),
    faults.CrashAll: _crash_all,
    faults.Pause: at_running(_pause),
    faults.Restart: at_running(_restart),
    faults.RollingRestart: _rolling_restart,
    faults.Setting: at_server(_setting),
    faults.ClockDrift: at_server(_run_at),
    faults.ClockFreeze: at_server(_run_at),
    faults.ClockStep: at_server(_clock_step),
    faults.ClockSkew: at_server(_clock_skew),
    faults.ClockStrobe: at_server(_clock_strobe),
}
