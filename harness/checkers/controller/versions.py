"""Nodes that several write are written under the version that the writer knows, and by whom they concern.

A state is written by the controller, who counts its leader epoch up by one for each decision, or by the partition's
leader, who changes nothing but the ISR.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import evolve

from harness.checkers.controller.case import STATE, TOPIC, Broken, Case
from harness.history import Asked, Request
from kraft_controller.core.state import Recovery
from kraft_controller.wire import znodes

PROMISE: Final = "partition states are written with a version check"


def check(case: Case) -> Iterator[Broken]:
    for event in case.history.events:
        if isinstance(event, Asked):
            for request in event.request.parts or (event.request,):
                if request.op == "set" and request.version < 0 and _is_shared(request):
                    yield Broken(PROMISE, f"{case.who(event.session)} wrote {request.path} at whatever version it was")
    for write, where, state, before in case.states():
        if before is None:
            continue
        if state.leader_epoch != before.leader_epoch:
            if state.leader_epoch != before.leader_epoch + 1:
                yield Broken(PROMISE, f"{where}: leader epoch {before.leader_epoch}, and then {state.leader_epoch}")
        elif evolve(state, isr=before.isr, version=before.version, recovery=before.recovery) != before or (
            state.recovery not in (before.recovery, Recovery.RECOVERED)
        ):
            yield Broken(PROMISE, f"{where}: {state} was written over {before} in one leader epoch")
        elif case.brokers.get(write.session) != before.leader and write.session != write.ruler:
            yield Broken(PROMISE, f"{where}: {case.who(write.session)} wrote the ISR, and {before.leader} leads")


def _is_shared(request: Request) -> bool:
    path = request.path
    return path == znodes.CONTROLLER_EPOCH or bool(STATE.fullmatch(path) or TOPIC.fullmatch(path))
