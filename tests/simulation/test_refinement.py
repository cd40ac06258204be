"""The specification, step by step: what it lets a server do, what it does not, and which guard it names.

Then real servers beside it: every step of theirs is one of its actions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from harness.checkers import ALL, Ghost, Judge, Refinement, Violation
from harness.draw import script_from_seed
from harness.faults import Script
from harness.mutants.earlier import earlier
from harness.mutants.table import BY_NAME
from harness.spec.actions import Action
from harness.worlds.cores.workload import member
from harness.worlds.cores.world import world_of
from zab.core.batch import Batch, pack
from zab.core.ensemble import Ensemble, Role
from zab.core.messages import Ack, AckEpoch, AckNewLeader, LeaderInfo, NewLeader, State, UpToDate
from zab.core.ready import Recovered
from zab.core.zxid import NOTHING, UNKNOWN, Epoch, ServerId, Zxid, make

ONE, TWO, THREE, FOUR = ServerId(1), ServerId(2), ServerId(3), ServerId(4)
ENSEMBLE: Final = Ensemble((member(ONE), member(TWO), member(THREE), member(FOUR, Role.OBSERVER)))


def z(epoch: int, counter: int) -> Zxid:
    return make(epoch, counter)


class Story:
    """A small ensemble that does what it is told to. Each word is what a server does in one go."""

    def __init__(self) -> None:
        self.ghost = Ghost(ENSEMBLE, 4)
        self.judge = Judge(self.ghost, [Refinement])
        for sid in (ONE, TWO, THREE, FOUR):
            self.judge.started(sid, Recovered(Epoch(0), Epoch(0)), NOTHING)

    def seeks(self, leader: ServerId, epoch: int) -> None:
        """It wants to lead, promises that to itself, and says so."""
        self.judge.role(leader, State.LEADING, self.ghost.servers[leader].current, leader, False)
        self.judge.durable_epochs(leader, Epoch(epoch), self.ghost.servers[leader].current)

    def promises(
        self, sid: ServerId, leader: ServerId, epoch: int, *, last: Zxid | None = None, counts: bool = True
    ) -> None:
        server = self.ghost.servers[sid]
        self.judge.said[LeaderInfo](leader, sid, LeaderInfo(Epoch(epoch)))
        self.judge.role(sid, State.FOLLOWING, server.current, leader, False)
        self.judge.heard_leader_info(sid, Epoch(epoch))
        self.judge.durable_epochs(sid, Epoch(epoch), server.current)
        end = server.tip if last is None else last
        self.judge.said[AckEpoch](sid, leader, AckEpoch(Epoch(max(server.current, server.tip >> 32)), end, 0, counts))

    def establishes(self, leader: ServerId, epoch: int) -> None:
        self.judge.role(leader, State.LEADING, Epoch(epoch), leader, False)

    def adopts(self, sid: ServerId, leader: ServerId, epoch: int) -> None:
        if sid != leader:
            self.judge.said[NewLeader](leader, sid, NewLeader(Epoch(epoch), ENSEMBLE))
        self.judge.durable_epochs(sid, Epoch(epoch), Epoch(epoch))
        if sid != leader:
            self.judge.said[AckNewLeader](sid, leader, AckNewLeader(Epoch(epoch)))

    def lets_serve(self, leader: ServerId, sid: ServerId, zxid: Zxid) -> None:
        self.judge.said[UpToDate](leader, sid, UpToDate(zxid))

    def logs(self, sid: ServerId, batch: Batch, *, durably: bool = True) -> None:
        self.judge.appended(sid, batch)
        if durably:
            self.judge.durable_append(sid, batch)

    def acks(self, sid: ServerId, leader: ServerId, zxid: Zxid) -> None:
        self.judge.said[Ack](sid, leader, Ack(zxid))

    def commits(self, leader: ServerId, zxid: Zxid) -> None:
        self.judge.committed(leader, zxid, True)

    def reigns(self, leader: ServerId = THREE, epoch: int = 1, *followers: ServerId) -> None:
        """All of discovery and synchronization, with nobody in the way."""
        followers = followers or tuple(sid for sid in (ONE, TWO, THREE) if sid != leader)
        self.seeks(leader, epoch)
        for sid in followers:
            self.promises(sid, leader, epoch)
        self.establishes(leader, epoch)
        for sid in (leader, *followers):
            self.adopts(sid, leader, epoch)
        for sid in followers:
            self.lets_serve(leader, sid, self.ghost.committed)


def batch(epoch: int, counter: int) -> Batch:
    return pack(z(epoch, counter), [b"%d/%d" % (epoch, counter)])


def test_a_transaction_from_the_first_vote_to_the_machines() -> None:
    story = Story()
    story.reigns()
    first = batch(1, 1)
    for sid in (THREE, ONE, TWO):
        story.logs(sid, first)
    story.acks(ONE, THREE, first.last)
    story.commits(THREE, first.last)
    for sid in (ONE, TWO):
        story.judge.committed(sid, first.last, False)
        story.judge.applied(sid, first)
        story.judge.serves(sid)
    refinement = story.judge.checkers[0]
    assert isinstance(refinement, Refinement)
    assert refinement.state.reigns[Epoch(1)].acked == {ONE: first.last, TWO: NOTHING}


def test_a_leader_that_gives_up_in_the_turn_in_which_it_is_established_has_led() -> None:
    story = Story()
    story.seeks(THREE, 1)
    story.promises(ONE, THREE, 1)
    story.judge.role(THREE, State.LOOKING, Epoch(1), None, False)
    story.adopts(THREE, THREE, 1)


Wrong = Callable[[Story], None]


def a_promise_to_two(story: Story) -> None:
    story.seeks(TWO, 1)
    story.seeks(THREE, 1)
    story.promises(ONE, THREE, 1)
    story.judge.said[LeaderInfo](TWO, ONE, LeaderInfo(Epoch(1)))
    story.judge.said[AckEpoch](ONE, TWO, AckEpoch(Epoch(0), NOTHING, 0))


def a_history_that_is_not_its_own(story: Story) -> None:
    story.seeks(THREE, 1)
    story.promises(ONE, THREE, 1, last=z(1, 7))


def announced_before_it_is_durable(story: Story) -> None:
    story.judge.said[LeaderInfo](THREE, ONE, LeaderInfo(Epoch(1)))


def established_by_a_minority(story: Story) -> None:
    story.seeks(THREE, 1)
    story.establishes(THREE, 1)


def established_over_a_newer_history(story: Story) -> None:
    story.reigns()
    story.logs(THREE, batch(1, 1))
    story.logs(ONE, batch(1, 1))
    story.seeks(TWO, 2)
    story.promises(ONE, TWO, 2)
    story.establishes(TWO, 2)


def established_over_a_damaged_history(story: Story) -> None:
    story.seeks(THREE, 1)
    story.promises(ONE, THREE, 1, last=UNKNOWN)
    story.establishes(THREE, 1)


def adopted_before_there_is_a_leader(story: Story) -> None:
    story.seeks(THREE, 1)
    story.promises(ONE, THREE, 1)
    story.judge.durable_epochs(ONE, Epoch(1), Epoch(1))


def adopted_without_the_history(story: Story) -> None:
    story.reigns()
    story.logs(THREE, batch(1, 1))
    story.logs(ONE, batch(1, 1))
    story.seeks(THREE, 2)
    story.promises(ONE, THREE, 2)
    story.promises(TWO, THREE, 2)
    story.establishes(THREE, 2)
    story.adopts(TWO, THREE, 2)


def logged_what_the_leader_has_not(story: Story) -> None:
    story.reigns()
    story.logs(ONE, batch(1, 1))


def cut_what_the_leader_has(story: Story) -> None:
    story.reigns()
    for sid in (THREE, ONE):
        story.logs(sid, batch(1, 1))
    story.judge.truncated(ONE, NOTHING)


def replaced_by_what_is_not_committed(story: Story) -> None:
    story.reigns()
    story.logs(THREE, batch(1, 1))
    story.judge.installed(ONE, z(1, 1))


def proposed_before_a_quorum_adopted(story: Story) -> None:
    story.seeks(THREE, 1)
    story.promises(ONE, THREE, 1)
    story.establishes(THREE, 1)
    story.adopts(THREE, THREE, 1)
    story.logs(THREE, batch(1, 1))


def acknowledged_from_memory(story: Story) -> None:
    story.reigns()
    story.logs(THREE, batch(1, 1))
    story.logs(ONE, batch(1, 1), durably=False)
    story.acks(ONE, THREE, z(1, 1))


def committed_though_nobody_said_to_have_it(story: Story) -> None:
    """All disks have it: no promise is broken yet. But the leader cannot know that."""
    story.reigns()
    for sid in (THREE, ONE, TWO):
        story.logs(sid, batch(1, 1))
    story.commits(THREE, z(1, 1))


def let_serve_that_has_not_adopted(story: Story) -> None:
    story.reigns(THREE, 1, ONE)
    story.lets_serve(THREE, TWO, NOTHING)


def delivered_before_it_is_known_to_be_committed(story: Story) -> None:
    story.reigns()
    for sid in (THREE, ONE, TWO):
        story.logs(sid, batch(1, 1))
    story.acks(ONE, THREE, z(1, 1))
    story.commits(THREE, z(1, 1))
    story.judge.applied(TWO, batch(1, 1))


def served_without_leave(story: Story) -> None:
    story.seeks(THREE, 1)
    story.promises(ONE, THREE, 1)
    story.establishes(THREE, 1)
    story.adopts(THREE, THREE, 1)
    story.adopts(ONE, THREE, 1)
    story.judge.serves(ONE)


STEPS: Final[tuple[tuple[Wrong, Action], ...]] = (
    (a_promise_to_two, Action.TELL_PROMISE),
    (a_history_that_is_not_its_own, Action.TELL_PROMISE),
    (announced_before_it_is_durable, Action.ANNOUNCE),
    (established_by_a_minority, Action.ESTABLISH),
    (established_over_a_newer_history, Action.ESTABLISH),
    (established_over_a_damaged_history, Action.ESTABLISH),
    (adopted_before_there_is_a_leader, Action.ADOPT),
    (adopted_without_the_history, Action.ADOPT),
    (logged_what_the_leader_has_not, Action.ACCEPT),
    (cut_what_the_leader_has, Action.CUT),
    (replaced_by_what_is_not_committed, Action.REPLACE),
    (proposed_before_a_quorum_adopted, Action.PROPOSE),
    (acknowledged_from_memory, Action.ACKNOWLEDGE),
    (committed_though_nobody_said_to_have_it, Action.COMMIT),
    (let_serve_that_has_not_adopted, Action.LET_SERVE),
    (delivered_before_it_is_known_to_be_committed, Action.DELIVER),
    (served_without_leave, Action.SERVE),
)


@pytest.mark.parametrize(("wrong", "action"), STEPS, ids=[wrong.__name__ for wrong, _ in STEPS])
def test_it_names_the_step_that_is_not_allowed(wrong: Wrong, action: Action) -> None:
    with pytest.raises(Violation, match=f"takes the step {action.name}, which needs that ") as caught:
        wrong(Story())
    assert caught.value.promise == "refinement"


@pytest.mark.parametrize("machine", ["list", "store"])
def test_all_steps_of_real_servers_are_actions(machine: str) -> None:
    seen: set[int] = set()
    for seed in range(40):
        if seen == set(Action):
            break
        world = world_of(script_from_seed(seed, machine=machine))
        assert world.run().held
        refinement = next(checker for checker in world.judge.checkers if isinstance(checker, Refinement))
        assert refinement.steps > 200
        seen |= refinement.actions()
    assert seen == set(Action)


def test_it_runs_beside_every_run() -> None:
    assert Refinement in ALL
    world = world_of(Script(1))
    assert any(isinstance(checker, Refinement) for checker in world.judge.checkers)


def test_the_specification_notices_an_early_epoch_before_any_promise_is_broken() -> None:
    found = earlier(BY_NAME["M05"], seconds=20.0)
    assert found.refinement is not None
    assert found.invariants is None or found.refinement < found.invariants
