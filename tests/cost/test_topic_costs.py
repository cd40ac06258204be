"""A new topic costs the same however many topics there are."""

from __future__ import annotations

from tests.unit.kraft_controller.cluster import Controller, Store


class CountedName(str):
    """A topic name that counts its comparisons with other names."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountedName.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_topic_list_is_compared_in_linear_time() -> None:
    """A list of 4,000 topics once took eight million comparisons, with every new topic."""
    count = 400
    store = Store()
    for number in range(count):
        store.topic(CountedName(f"t{number}"), (1, 2))
    controller = Controller(store).take_over()
    assert len(controller.context.topics) == count
    store.topic("new", (1, 2))
    CountedName.comparisons = 0
    controller.run(controller.term.topic_changes.process_list())
    assert "new" in controller.context.topics
    assert CountedName.comparisons < 5 * count
