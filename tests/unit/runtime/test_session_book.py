"""Delivery of events to the watches of a session."""

from __future__ import annotations

from zab.session.watch import Event, WatchEvent
from zab.session.watch_manager import WatchManager
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op
from zab.store.server_watches import WatchKind, WatchMode


class Heard:
    def __init__(self) -> None:
        self.over = False
        self._events: list[WatchEvent] = []

    def notify(self, event: WatchEvent) -> None:
        self._events.append(event)

    def taken(self) -> list[tuple[Event, str]]:
        events, self._events = self._events, []
        return [(each.event, each.path) for each in events]


def test_one_shot_watch_fires_once_for_each_watch() -> None:
    book, one, two = WatchManager(), Heard(), Heard()
    for heard in (one, two, one):
        book.answered(Op.GET_DATA, ("/a", True), 0, heard)
    book.answered(Op.GET_CHILDREN, ("/a", True), 0, one)
    book.happened(Event.DATA_CHANGED, "/a", 1)
    book.happened(Event.DATA_CHANGED, "/a", 2)
    assert one.taken() == two.taken() == [(Event.DATA_CHANGED, "/a")]
    book.happened(Event.CHILDREN_CHANGED, "/a", 3)
    assert (one.taken(), two.taken()) == ([(Event.CHILDREN_CHANGED, "/a")], [])
    assert book.lists() == ([], [], [], [], [])


def test_deletion_fires_one_event_for_data_and_child_watches() -> None:
    book, heard = WatchManager(), Heard()
    book.answered(Op.GET_DATA, ("/a", True), 0, heard)
    book.answered(Op.GET_CHILDREN2, ("/a", True), 0, heard)
    book.answered(Op.ADD_WATCH, ("/a", WatchMode.PERSISTENT), 0, heard)
    book.answered(Op.ADD_WATCH, ("/", WatchMode.RECURSIVE), 0, heard)
    book.happened(Event.DELETED, "/a", 1)
    assert heard.taken() == [(Event.DELETED, "/a")]
    assert book.lists() == ([], [], [], ["/a"], ["/"])


def test_exists_watches_a_missing_node() -> None:
    book, heard = WatchManager(), Heard()
    book.answered(Op.EXISTS, ("/a", True), ErrorCode.NO_NODE, heard)
    book.answered(Op.EXISTS, ("/b", True), 0, heard)
    book.answered(Op.GET_DATA, ("/c", True), ErrorCode.NO_NODE, heard)
    book.answered(Op.EXISTS, ("/d", True), ErrorCode.NO_AUTH, heard)
    assert book.lists() == (["/b"], ["/a"], [], [], [])
    book.happened(Event.CREATED, "/a", 1)
    assert heard.taken() == [(Event.CREATED, "/a")]


def test_recursive_watch_gets_no_children_events() -> None:
    book, below, stays = WatchManager(), Heard(), Heard()
    book.answered(Op.ADD_WATCH, ("/a", WatchMode.RECURSIVE), 0, below)
    book.answered(Op.ADD_WATCH, ("/a", WatchMode.PERSISTENT), 0, stays)
    for event, path in [
        (Event.CREATED, "/a/b/c"), (Event.CHILDREN_CHANGED, "/a"), (Event.DATA_CHANGED, "/a"), (Event.DELETED, "/ab"),
    ]:  # fmt: skip
        book.happened(event, path, 1)
    assert below.taken() == [(Event.CREATED, "/a/b/c"), (Event.DATA_CHANGED, "/a")]
    assert stays.taken() == [(Event.CHILDREN_CHANGED, "/a"), (Event.DATA_CHANGED, "/a")]


def test_persistent_watch_gets_maybe_missed_after_a_lost_connection() -> None:
    book, heard = WatchManager(lambda path: path.removeprefix("/root")), Heard()
    book.answered(Op.ADD_WATCH, ("/root/p", WatchMode.PERSISTENT), 0, heard)
    book.answered(Op.ADD_WATCH, ("/root/r", WatchMode.RECURSIVE), 0, heard)
    book.answered(Op.GET_DATA, ("/root/d", True), 0, heard)
    book.interrupted()
    assert heard.taken() == [(Event.MAYBE_MISSED, "/p"), (Event.MAYBE_MISSED, "/r")]


def test_closed_watch_removes_its_watches_at_the_server() -> None:
    book, one, two = WatchManager(), Heard(), Heard()
    for heard in (one, two):
        book.answered(Op.GET_DATA, ("/shared", True), 0, heard)
    book.answered(Op.GET_DATA, ("/a", True), 0, one)
    book.answered(Op.EXISTS, ("/a", True), ErrorCode.NO_NODE, one)
    book.answered(Op.GET_CHILDREN, ("/a", True), 0, one)
    book.answered(Op.ADD_WATCH, ("/p", WatchMode.PERSISTENT), 0, one)
    assert book.drop(one) == [
        ("/a", WatchKind.DATA), ("/a", WatchKind.CHILDREN), ("/p", WatchKind.PERSISTENT),
    ]  # fmt: skip
    assert book.drop(two) == [("/shared", WatchKind.DATA)]
    assert book.drop(two) == []
    book.happened(Event.DATA_CHANGED, "/shared", 1)
    assert one.taken() == two.taken() == []


def test_removed_members_are_not_written() -> None:
    book, heard = WatchManager(), Heard()
    heard.over = True
    book.answered(Op.GET_DATA, ("/a", True), 0, heard)
    assert not any(book.lists())


def test_watch_removal_has_an_event_by_kind() -> None:
    book, heard, other = WatchManager(), Heard(), Heard()
    for op, last in [(Op.GET_DATA, True), (Op.GET_CHILDREN, True), (Op.ADD_WATCH, WatchMode.PERSISTENT)]:
        book.answered(op, ("/a", last), 0, heard)
    book.answered(Op.GET_DATA, ("/b", True), 0, other)
    book.answered(Op.REMOVE_WATCHES, ("/a", WatchKind.CHILDREN), ErrorCode.NO_WATCHER, None)
    assert heard.taken() == []
    book.answered(Op.REMOVE_WATCHES, ("/a", WatchKind.CHILDREN), 0, None)
    assert heard.taken() == [(Event.CHILD_WATCH_REMOVED, "/a")]
    assert book.watches("/a", WatchKind.DATA)
    assert not book.watches("/a", WatchKind.CHILDREN)
    book.answered(Op.REMOVE_WATCHES, ("/a", WatchKind.ANY), 0, None)
    assert heard.taken() == [(Event.DATA_WATCH_REMOVED, "/a"), (Event.PERSISTENT_WATCH_REMOVED, "/a")]
    assert not book.watches("/a", WatchKind.ANY)
    assert book.lists() == (["/b"], [], [], [], [])
