"""Examples of limits: quotas, containers and TTL nodes, session timeouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.histories.limits import quotas, server_deletions, silence


def actions() -> Iterator[tuple[str, Callable[[], object]]]:
    for bad in (False, True):
        so = ", wrong" if bad else ""
        for of_room in quotas.EXAMPLES.values():
            yield f"{of_room.name}{so}", _said(of_room.violations, bad)
            yield f"{of_room.name}{so}, seen from outside", _said(of_room.violations_without_prepared, bad)
        for passes in server_deletions.EXAMPLES.values():
            yield f"{passes.name}{so}", _said(passes.violations, bad)
        for silent in silence.EXAMPLES.values():
            yield f"{silent.name}{so}", _said(silent.violations, bad)


def _said(violations: Callable[[bool], object], bad: bool) -> Callable[[], object]:
    return lambda: violations(bad)
