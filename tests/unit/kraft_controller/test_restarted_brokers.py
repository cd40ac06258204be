"""All who were in sync have died, and some are there again before anybody else: nobody may be waited for in vain."""

from __future__ import annotations

import pytest
from attrs import evolve

from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition
from tests.unit.kraft_controller.cluster import Controller, Store, broker

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def after_the_death_of_all(*back: int) -> Store:
    """Partitions of three replicas, all in sync; these brokers have been started again."""
    store = Store()
    store.topic("t", (1, 2, 3), (2, 3, 1), (3, 1, 2))
    Controller(store).take_over()
    store.states = {where: evolve(state, written=40) for where, state in store.states.items()}
    store.brokers = {BrokerId(number): broker(number, epoch=50 + number) for number in back}
    return store


@pytest.mark.parametrize(
    ("back", "leaders"),
    [
        ((1,), (1, 1, 1)),
        ((2,), (2, 2, 2)),
        ((1, 2), (1, 2, 1)),
        ((2, 3), (2, 2, 3)),
        ((1, 2, 3), (1, 2, 3)),
    ],
)
def test_restarted_isr_member_leads_without_waiting_for_others(back: tuple[int, ...], leaders: tuple[int, ...]) -> None:
    store = after_the_death_of_all(*back)
    controller = Controller(store, epoch=2, me=back[0]).take_over()
    assert tuple(store.states[where].leader for where in (T0, T1, T2)) == leaders
    for state in store.states.values():
        assert state.isr == (state.leader,)  # the others have to catch up: they may have lost what they held
        assert (state.leader_epoch > 0, state.controller_epoch) == (True, 2)
    assert "no_leader" not in controller.noted()


@pytest.mark.parametrize("seen", ["by the next controller", "by this one"])
def test_no_unclean_election_while_an_isr_member_is_back(seen: str) -> None:
    """Where availability counts, too: who was behind leads only if nobody in sync is there."""
    store = Store()
    store.topic("t", (1, 2))
    store.configs["t"] = {"unclean.leader.election.enable": "true"}
    controller = Controller(store, me=2).take_over()
    store.states[T0] = evolve(store.states[T0], isr=(BrokerId(1),), written=40)
    store.brokers[BrokerId(1)] = broker(1, epoch=50)
    if seen == "by this one":
        controller.context.update_state(T0, store.states[T0])
        registered = {BrokerId(1): BrokerEpoch(50), BrokerId(2): BrokerEpoch(1)}
        controller.run(controller.term.brokers.process(registered))
    else:
        controller = Controller(store, epoch=2, me=2).take_over()
    assert (store.states[T0].leader, store.states[T0].isr) == (1, (1,))
    assert store.states[T0].leader_epoch > 0
    assert controller.term.partitions.unclean_elections == 0
    # And if it dies for good, the other one leads after all.
    del store.brokers[BrokerId(1)]
    controller.run(controller.term.brokers.process({BrokerId(2): BrokerEpoch(1)}))
    assert store.states[T0].leader == 2
    assert controller.term.partitions.unclean_elections == 1
    assert controller.context.epoch == ControllerEpoch(1 if seen == "by this one" else 2)


def test_request_about_a_restarted_broker_is_not_refused() -> None:
    """He is there: a move to him begins, and so does one that he is to lead afterwards."""
    store = Store()
    store.topic("t", (1,))
    store.topic("u", (2,))
    Controller(store).take_over()
    store.states = {where: evolve(state, written=40) for where, state in store.states.items()}
    store.brokers[BrokerId(1)] = broker(1, epoch=50)
    store.moves = {TopicPartition("u", 0): (BrokerId(1),)}
    controller = Controller(store, epoch=2).take_over()
    assert "restarted" in controller.noted()
    assert "reassignment_refused" not in controller.noted()
    assert store.topics["u"].partitions[0].adding == (1,)
    assert (1, "u-0") in controller.roles()
