"""The messages are a closed set, each with its direction."""

from __future__ import annotations

from inspect import getmembers, isclass
from typing import get_args

import attrs
import pytest

from zab.core import messages
from zab.core.ensemble import Ensemble
from zab.core.messages import Ack, LinkEvent, Message, Notification, State, ToLeader, ToLearner
from zab.core.zxid import Epoch, ServerId, make

DEFINED = {value for _, value in getmembers(messages, isclass) if value.__module__ == messages.__name__}
VALUES = sorted(DEFINED - {State}, key=lambda value: value.__name__)


def test_every_message_has_exactly_one_direction() -> None:
    said = [Notification, *get_args(ToLeader), *get_args(ToLearner), *get_args(LinkEvent)]
    assert len(said) == len(set(said))
    assert set(said) == set(VALUES)


def test_messages_are_encodable_and_link_events_are_not() -> None:
    assert set(get_args(Message)) == set(VALUES) - set(get_args(LinkEvent))


def test_the_tuple_for_dispatch_agrees_with_the_type() -> None:
    assert get_args(ToLeader) == messages.TO_LEADER


@pytest.mark.parametrize("value", VALUES)
def test_a_message_cannot_be_changed_on_its_way(value: type[attrs.AttrsInstance]) -> None:
    assert hasattr(value, "__slots__"), "an instance without slots grows attributes by accident"
    names = [field.name for field in attrs.fields(value)]
    instance = value(*names)
    for name in names:
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(instance, name, None)


def test_messages_are_values() -> None:
    assert Ack(make(1, 2)) == Ack(make(1, 2))
    assert Ack(make(1, 2)) != Ack(make(1, 3))
    assert len({Ack(make(1, 2)), Ack(make(1, 2))}) == 1
    vote = Notification(State.LOOKING, ServerId(1), make(1, 1), Epoch(1), 1, Ensemble.parse("server.1=a:1:2"))
    assert vote in {vote}, "also one that carries an ensemble"


def test_states_are_numbered_for_ever() -> None:
    """Their numbers stand in frames."""
    assert {state.name: state.value for state in State} == {"LOOKING": 0, "FOLLOWING": 1, "LEADING": 2, "OBSERVING": 3}
