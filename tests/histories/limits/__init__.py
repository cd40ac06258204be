"""What there is room and time for: limited subtrees, nodes that go by themselves, silent sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.histories.limits import passing, room, silence


def deeds() -> Iterator[tuple[str, Callable[[], object]]]:
    for bad in (False, True):
        so = ", wrong" if bad else ""
        for of_room in room.STORIES.values():
            yield f"{of_room.name}{so}", _said(of_room.said, bad)
            yield f"{of_room.name}{so}, seen from outside", _said(of_room.said_outside, bad)
        for passes in passing.STORIES.values():
            yield f"{passes.name}{so}", _said(passes.said, bad)
        for silent in silence.STORIES.values():
            yield f"{silent.name}{so}", _said(silent.said, bad)


def _said(said: Callable[[bool], object], bad: bool) -> Callable[[], object]:
    return lambda: said(bad)
