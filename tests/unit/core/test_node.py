"""The node: transitions between roles, and its contract with a driver."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from attrs import evolve

from zab.core.batch import Batch, pack
from zab.core.ensemble import Ensemble, Role, Server
from zab.core.errors import LocalProtocolError, NotLeader
from zab.core.messages import (
    ALIVE,
    Ack,
    AckEpoch,
    AckNewLeader,
    BarrierReply,
    BarrierRequest,
    Commit,
    CommitAndActivate,
    Diff,
    FollowerInfo,
    Inform,
    LeaderInfo,
    LinkDown,
    LinkUp,
    Message,
    NewLeader,
    Notification,
    Ping,
    Pong,
    Propose,
    Reachable,
    State,
    Trunc,
    UpToDate,
    Veto,
)
from zab.core.node import Node
from zab.core.ready import (
    BarrierDone,
    Dial,
    Envelope,
    HangUp,
    Ready,
    Recovered,
    SaveEpochs,
    SendLog,
    SendRest,
    SendSnapshot,
    Settings,
)
from zab.core.zxid import NOTHING, UNKNOWN, Epoch, ServerId, Zxid, make

ONE, TWO, THREE, FOUR = map(ServerId, (1, 2, 3, 4))


def ensemble(*voters: int, observers: Iterable[int] = (), version: Zxid = NOTHING) -> Ensemble:
    servers = [Server(ServerId(sid), f"host{sid}", 2888, 3888) for sid in voters]
    servers += [Server(ServerId(sid), f"host{sid}", 2888, 3888, Role.OBSERVER) for sid in observers]
    return Ensemble(tuple(servers), version)


def txn(epoch: int, counter: int, text: str = "x") -> Batch:
    return pack(make(epoch, counter), [text.encode()])


def a_node(
    me: int,
    members: Ensemble,
    *batches: Batch,
    accepted: int = 0,
    current: int = 0,
    settings: Settings | None = None,
) -> Node:
    recovered = Recovered(Epoch(accepted), Epoch(current), batches=batches)
    return Node(ServerId(me), members, recovered, settings or Settings(), lambda limit: limit, 0)


def turn(node: Node, now: int = 0) -> Ready:
    """Drain the node with an instant disk, and return all of its output as one Ready."""
    seen = [node.ready()]
    while seen[-1].save:
        node.saved(seen[-1].save[-1].ticket, now)
        seen.append(node.ready())
    return Ready(*(tuple(item for part in parts for item in part) for parts in zip(*map(fields, seen), strict=True)))


def fields(ready: Ready) -> tuple[tuple[object, ...], ...]:
    return ready.save, ready.send, ready.links, ready.apply, ready.barriers, ready.notes


def said(ready: Ready, to: int) -> list[Message]:
    found: list[Message] = []
    for envelope in ready.send:
        assert not isinstance(envelope.message, SendSnapshot | SendRest | SendLog)
        if envelope.to == to:
            found.append(envelope.message)
    return found


def events(ready: Ready) -> list[str]:
    return [note.event for note in ready.notes]


def hear(node: Node, source: int, *messages: Message | LinkUp | LinkDown | Reachable, now: int = 0) -> Ready:
    for message in messages:
        node.step(ServerId(source), message, now)
    return turn(node, now)


def vote(
    leader: int,
    *,
    zxid: Zxid = NOTHING,
    epoch: int = 0,
    turn: int = 1,
    state: State = State.LOOKING,
    members: Ensemble | None = None,
) -> Notification:
    return Notification(state, ServerId(leader), zxid, Epoch(epoch), turn, members or ensemble(1, 2, 3))


def a_leader(*batches: Batch, settings: Settings | None = None, members: Ensemble | None = None) -> Node:
    """Return server 3 of three, which leads epoch 2 with server 2; server 1 is silent."""
    node = a_node(3, members or ensemble(1, 2, 3), *batches, accepted=1, current=1, settings=settings)
    turn(node)
    last = batches[-1].last if batches else NOTHING
    hear(node, 1, vote(3, zxid=last, epoch=1))
    hear(node, 2, vote(3, zxid=last, epoch=1))
    assert node.state is State.LEADING
    join(node, 2, last)
    assert node.serving
    return node


def join(leader: Node, sid: int, last: Zxid = NOTHING, *, accepted: int = 1, observer: bool = False) -> Ready:
    """Bring a server from its link to UPTODATE, with the leader's history up to `last`."""
    hear(leader, sid, LinkUp(dialled=False), FollowerInfo(Epoch(accepted), NOTHING, observer))
    digest = leader._log_state.history.digest_at(last)
    assert digest is not None
    first = hear(leader, sid, AckEpoch(Epoch(1), last, digest))
    second = hear(leader, sid, AckNewLeader(leader.accepted))
    return Ready(send=first.send + second.send, notes=first.notes + second.notes)


def a_follower(*batches: Batch, me: int = 1, observer: bool = False, members: Ensemble | None = None) -> Node:
    """Server 1 of three follows server 3 in epoch 2, up to date with whatever it had."""
    members = members or ensemble(1, 2, 3)
    node = a_node(me, members, *batches, accepted=1, current=1)
    turn(node)
    last = node.last
    for sid, state in ((2, State.FOLLOWING), (3, State.LEADING)):
        hear(node, sid, vote(3, zxid=last, epoch=2, turn=5, state=state, members=members))
    assert node.leader == 3
    hear(node, 3, LinkUp(dialled=True))
    hear(node, 3, LeaderInfo(Epoch(2)))
    hear(node, 3, Diff(last), NewLeader(Epoch(2), members))
    hear(node, 3, UpToDate(last))
    assert node.serving
    return node


# -- the beginning -------------------------------------------------------------------------------------


@pytest.mark.mechanism(93, 99)
def test_a_server_votes_the_moment_it_exists() -> None:
    node = a_node(1, ensemble(1, 2, 3))
    ready = node.ready()
    assert [envelope.to for envelope in ready.send] == [2, 3]
    assert said(ready, 2) == [vote(1)]


def test_a_server_alone_leads_without_waiting_for_anything_but_its_disk() -> None:
    node = a_node(1, ensemble(1))
    turn(node)
    assert (node.state, node.serving, node.epoch) == (State.LEADING, True, 1)


# -- votes ---------------------------------------------------------------------------------------------


def test_two_servers_that_do_not_know_of_each_other_alike_do_not_shout_for_ever() -> None:
    """Server 4 counts itself a voter and is in a late round; server 1 does not have 4 in its membership and
    answers every stranger.
    """
    stranger, voter = a_node(4, ensemble(1, 2, 3, 4)), a_node(1, ensemble(1, 2, 3))
    turn(voter)
    hear(stranger, 1, vote(1, turn=9))  # long ago, before 1 restarted
    listener, shout = voter, said(hear(stranger, 1, Reachable()), 1)
    for _ in range(6):
        speaker = stranger.me if listener is voter else voter.me
        shout = [word for message in shout for word in said(hear(listener, speaker, message), speaker)]
        listener = stranger if listener is voter else voter
    assert shout == []


def test_a_server_without_a_vote_does_not_answer_one_that_it_does_not_know() -> None:
    """1 has lost its disk and can only ask; 4, which is to be added, answers whatever it asks. So 1 asks it nothing."""
    lost = Node(
        ServerId(1), ensemble(1, 2, 3), Recovered(Epoch(0), Epoch(0), voting=False), Settings(), lambda limit: limit, 0
    )
    stranger = a_node(4, ensemble(1, 2, 3, 4))
    turn(lost, 5000)
    turn(stranger)
    (question,) = said(hear(lost, 2, Reachable()), 2)
    (answer,) = said(hear(stranger, 1, question), 1)
    assert said(hear(lost, 4, answer), 4) == []


@pytest.mark.mechanism(93, 102)
def test_notifications_of_leader_and_follower_to_a_looking_server() -> None:
    leader, follower = a_leader(txn(1, 1)), a_follower(txn(1, 1))
    from_leader = said(hear(leader, 1, vote(1)), 1)
    from_follower = said(hear(follower, 2, vote(2)), 2)
    for heard, state in ((from_leader, State.LEADING), (from_follower, State.FOLLOWING)):
        (message,) = heard
        assert isinstance(message, Notification)
        assert (message.state, message.leader, message.epoch) == (state, 3, 2)


def test_an_established_server_does_not_answer_another() -> None:
    leader = a_leader()
    assert hear(leader, 1, vote(3, state=State.FOLLOWING)).send == ()


# -- proposals and barriers where they do not belong -----------------------------------------------------


@pytest.mark.parametrize("make_node", [lambda: a_node(1, ensemble(1, 2, 3)), a_follower])
def test_only_a_leader_proposes(make_node: object) -> None:
    assert callable(make_node)
    node: Node = make_node()
    with pytest.raises(NotLeader):
        node.propose([b"x"], 0)
    with pytest.raises(NotLeader):
        node.reconfigure(ensemble(1, 2), None, 0)


def test_a_barrier_at_a_server_that_looks_fails_at_once() -> None:
    node = a_node(1, ensemble(1, 2, 3))
    node.barrier(7, 0)
    assert node.ready().barriers == (BarrierDone(7, None),)


# -- links ---------------------------------------------------------------------------------------------


@pytest.mark.mechanism(94)
def test_a_learner_that_dials_before_i_know_that_i_lead_is_kept_on_the_line() -> None:
    node = a_node(3, ensemble(1, 2, 3))
    turn(node)
    assert hear(node, 2, LinkUp(dialled=False), FollowerInfo(Epoch(0), NOTHING)).links == ()
    hear(node, 1, vote(3))
    ready = hear(node, 2, vote(3))
    assert node.state is State.LEADING
    assert said(ready, 2) == [LeaderInfo(Epoch(1))], "its FollowerInfo was not forgotten"


def test_learner_that_dials_a_looking_server_is_refused_in_time() -> None:
    node = a_node(3, ensemble(1, 2, 3))
    turn(node)
    hear(node, 2, LinkUp(dialled=False))
    until = 5 * Settings().dial_retry_ms
    assert node.deadline <= until
    node.tick(until - 1)
    assert HangUp(TWO, dialled=False) not in turn(node, until - 1).links
    node.tick(until)
    assert HangUp(TWO, dialled=False) in turn(node, until).links


def test_a_link_to_a_looking_server_is_kept_for_as_long_as_the_other_end_dials() -> None:
    settings = Settings(dial_for_init_limit=True)
    node = a_node(3, ensemble(1, 2, 3), settings=settings)
    turn(node)
    hear(node, 2, LinkUp(dialled=False))
    node.tick(settings.init_ms - 1)
    assert HangUp(TWO, dialled=False) not in turn(node, settings.init_ms - 1).links
    node.tick(settings.init_ms)
    assert HangUp(TWO, dialled=False) in turn(node, settings.init_ms).links


def test_a_first_version_in_a_vote_begins_no_election_where_memberships_have_none() -> None:
    node = a_node(3, ensemble(1, 2, 3), settings=Settings(membership_versions=False))
    turn(node)
    elections = node.elections
    other = evolve(ensemble(1, 2), version=make(4, 0))
    hear(node, 2, Notification(State.LOOKING, ServerId(2), NOTHING, Epoch(0), 1, other))
    assert (node.elections, node.ensemble) == (elections, ensemble(1, 2, 3))
    hear(node, 2, Notification(State.LOOKING, ServerId(2), NOTHING, Epoch(0), 1, evolve(other, version=make(4, 1))))
    assert node.elections == elections + 1, "a change counts"


def test_a_learner_that_dials_a_follower_is_sent_away() -> None:
    assert hear(a_follower(), 2, LinkUp(dialled=False)).links == (HangUp(TWO, dialled=False),)


def test_a_link_that_comes_up_for_a_role_that_is_over_is_hung_up() -> None:
    node = a_node(1, ensemble(1, 2, 3))
    assert HangUp(THREE, dialled=True) in hear(node, 3, LinkUp(dialled=True)).links


def test_messages_for_a_link_are_not_sent_on_its_successor() -> None:
    leader = a_leader()
    leader.propose([b"x"], 0)
    leader.step(TWO, LinkUp(dialled=False), 0)
    assert said(leader.ready(), 2) == []


def test_a_barrier_asked_on_a_link_is_not_answered_on_its_successor() -> None:
    """Both links number their questions from 1: an old answer would be taken for a new one, and be stale."""
    leader = a_leader(members=ensemble(1, 2, 3))
    hear(leader, 2, BarrierRequest(1))
    join(leader, 2, accepted=2)
    first = leader.propose([b"x"], 0)
    turn(leader)
    hear(leader, 2, Ack(first))
    assert leader.committed == first
    hear(leader, 2, BarrierRequest(1))
    ready = hear(leader, 2, Pong(2))
    assert said(ready, 2) == [BarrierReply(1, first)]


def test_a_redial_is_forgotten_when_the_link_is_up() -> None:
    node = a_node(1, ensemble(1, 2, 3))
    turn(node)
    for sid, state in ((2, State.FOLLOWING), (3, State.LEADING)):
        hear(node, sid, vote(3, epoch=2, turn=5, state=state))
    # The link of an earlier attempt breaks while the dial of this one is on its way.
    hear(node, 3, LinkDown(dialled=True))
    hear(node, 3, LinkUp(dialled=True))
    node.tick(10 * Settings().dial_retry_ms)
    assert Dial(THREE) not in turn(node).links


# -- peers that break the rules -------------------------------------------------------------------------

FROM_A_LEARNER: list[Message] = [
    FollowerInfo(Epoch(1), NOTHING),
    AckEpoch(Epoch(1), NOTHING, 0),
    AckNewLeader(Epoch(2)),
    Ack(make(2, 9)),
    Pong(10_000),
]


@pytest.mark.parametrize("message", FROM_A_LEARNER, ids=lambda message: type(message).__name__)
def test_a_leader_cuts_off_a_learner_that_breaks_the_rules_and_goes_on(message: Message) -> None:
    leader = a_leader()
    join(leader, 1)
    ready = hear(leader, 1, message)
    assert "protocol_error" in events(ready)
    assert ready.links == (HangUp(ONE, dialled=False),)
    assert leader.synced == (2,)
    first = leader.propose([b"x"], 0)
    turn(leader)
    hear(leader, 2, Ack(first))
    assert leader.applied == first


FROM_A_LEADER: list[Message] = [
    LeaderInfo(Epoch(2)),
    Diff(make(1, 1)),
    Trunc(make(1, 1)),
    NewLeader(Epoch(2), ensemble(1, 2, 3)),
    UpToDate(make(1, 1)),
    Propose(txn(2, 2)),
    Propose(txn(1, 1)),
    Commit(make(2, 1)),
    Propose(pack(make(2, 1), [b"no membership"], config=True)),
    Propose(pack(make(2, 1), [ensemble(1, version=make(2, 2)).text().encode()], config=True)),
    CommitAndActivate(make(2, 1), TWO),
    Inform(txn(2, 2)),
]


@pytest.mark.parametrize("message", FROM_A_LEADER, ids=lambda message: type(message).__name__)
def test_a_follower_leaves_a_leader_that_breaks_the_rules_with_all_it_has(message: Message) -> None:
    node = a_follower(txn(1, 1), txn(1, 2))
    ready = hear(node, 3, message)
    assert "protocol_error" in events(ready)
    assert HangUp(THREE, dialled=True) in ready.links
    assert (node.state, node.last, node.committed) == (State.LOOKING, make(1, 2), make(1, 2))


@pytest.mark.parametrize(
    "message",
    [Trunc(make(9, 1)), Trunc(make(2, 2)), Diff(make(1, 1)), Diff(make(1, 7)), Diff(make(9, 1))],
    ids=str,
)
def test_a_history_is_not_cut_where_it_does_not_reach(message: Message) -> None:
    node = a_node_in_synchronization()
    ready = hear(node, 3, message)
    assert HangUp(THREE, dialled=True) in ready.links
    assert (node.state, node.last, ready.save, node.voting) == (State.LOOKING, make(2, 1), (), True)


@pytest.mark.parametrize("message", [Trunc(make(1, 7)), Trunc(make(1, 7), 123), Trunc(make(1, 2), 123)], ids=str)
def test_learner_distrusts_a_history_that_lacks_the_common_zxid(message: Message) -> None:
    """The histories differ, and the leader has a quorum: the learner takes the whole state."""
    node = a_node_in_synchronization()
    ready = hear(node, 3, message)
    assert "history_distrusted" in events(ready)
    assert (node.state, node.last, node.voting) == (State.LOOKING, make(2, 1), False)


def a_node_in_synchronization() -> Node:
    """Return server 1 with 1/1, 1/2 and 2/1, which has promised epoch 3 to server 3 and waits for the rest."""
    node = a_node(1, ensemble(1, 2, 3), txn(1, 1), txn(1, 2), txn(2, 1), accepted=2, current=2)
    turn(node)
    for sid, state in ((2, State.FOLLOWING), (3, State.LEADING)):
        hear(node, sid, vote(3, epoch=3, turn=5, state=state))
    hear(node, 3, LinkUp(dialled=True))
    hear(node, 3, LeaderInfo(Epoch(3)))
    return node


def test_a_second_new_leader_is_one_too_many() -> None:
    node = a_node(1, ensemble(1, 2, 3))
    turn(node)
    for sid, state in ((2, State.FOLLOWING), (3, State.LEADING)):
        hear(node, sid, vote(3, epoch=1, turn=5, state=state))
    hear(node, 3, LinkUp(dialled=True))
    hear(node, 3, LeaderInfo(Epoch(1)))
    new_leader = NewLeader(Epoch(1), ensemble(1, 2, 3))
    for message in (Diff(NOTHING), new_leader, new_leader):
        node.step(THREE, message, 0)
    assert "protocol_error" in events(node.ready())
    assert node.state is State.LOOKING


def test_only_a_learner_sends_keep_alives_during_a_restore() -> None:
    assert a_node_in_synchronization().keep_alives() == (Envelope(THREE, ALIVE),)
    assert a_leader().keep_alives() == ()
    assert a_node(1, ensemble(1, 2, 3)).keep_alives() == ()


def test_unexpected_replies_are_ignored() -> None:
    looking = a_node(1, ensemble(1, 2, 3))
    turn(looking)
    assert events(hear(looking, 3, Ping(1, NOTHING))) == ["ignored"]
    leader = a_leader()
    assert events(hear(leader, 1, Ack(NOTHING))) == ["ignored"], "there is no link to 1"
    follower = a_follower()
    assert events(hear(follower, 2, Commit(NOTHING))) == ["ignored"], "2 is not its leader"
    assert events(hear(follower, 2, Ack(NOTHING))) == ["ignored"]


# -- what an observer hears -----------------------------------------------------------------------------


def test_observer_receives_the_commit_of_its_own_tail() -> None:
    """A voter that became an observer holds uncommitted proposals, and receives their commit."""
    leader = a_leader(members=ensemble(1, 2, 3, observers=[4]))
    hear(leader, 4, LinkUp(dialled=False), FollowerInfo(Epoch(1), NOTHING), AckEpoch(Epoch(1), NOTHING, 0))
    first = leader.propose([b"x"], 0)
    leader.propose([b"y"], 0)
    turn(leader)
    hear(leader, 4, LinkUp(dialled=False), FollowerInfo(Epoch(2), NOTHING, observer=True))
    digest = leader._log_state.history.digest_at(first)
    assert digest is not None
    hear(leader, 4, AckEpoch(Epoch(2), first, digest))
    assert said(hear(leader, 4, AckNewLeader(Epoch(2))), 4) == [UpToDate(NOTHING)]
    ready = hear(leader, 2, Ack(Zxid(first + 1)))
    assert said(ready, 4) == [Commit(first), Inform(txn(2, 2, "y"))]


# -- vetoes -------------------------------------------------------------------------------------------------


def a_survivor(settings: Settings | None = None) -> tuple[Node, Ready]:
    """Server 1 has three transactions, two of them committed; the others have begun anew, and 3 leads epoch 2."""
    disk = Recovered(Epoch(1), Epoch(1), batches=(txn(1, 1), txn(1, 2), txn(1, 3)), committed=make(1, 2))
    node = Node(ServerId(1), ensemble(1, 2, 3), disk, settings or Settings(), lambda limit: limit, 0)
    turn(node)
    established(node, 0)
    return node, demand(node, 0)


def established(node: Node, now: int) -> None:
    for sid, state in ((2, State.FOLLOWING), (3, State.LEADING)):
        hear(node, sid, vote(3, zxid=NOTHING, epoch=2, turn=9, state=state), now=now)


def demand(node: Node, now: int) -> Ready:
    assert node.state is State.FOLLOWING
    hear(node, 3, LinkUp(dialled=True), LeaderInfo(Epoch(2)), now=now)
    return hear(node, 3, Trunc(NOTHING, 0), now=now)


def test_survivor_stays_out_calmly_and_tries_again_after_a_while() -> None:
    node, ready = a_survivor()
    wanted = Veto(ServerId(3), Epoch(2), NOTHING, make(1, 2), make(1, 3), 3)
    assert (node.state, node.veto, node.voting, node.serving) == (State.LOOKING, wanted, True, False)
    assert said(ready, 3) == [wanted, vote(1, zxid=make(1, 3), epoch=1, turn=node._round, members=node.ensemble)]
    assert HangUp(ServerId(3), dialled=True) in ready.links
    elections, now = node.elections, 0
    while node.state is State.LOOKING:
        now = node.deadline
        node.tick(now)
        turn(node, now)
        established(node, now)
    assert now == node.settings.veto_retry_ms
    assert node.elections == elections, "no election in between"
    demand(node, now)
    assert (node.state, node.elections, node.veto, node.last) == (State.LOOKING, elections + 1, wanted, make(1, 3))


def test_survivor_that_gives_its_history_up_follows_at_once_and_is_sent_a_snapshot() -> None:
    node, _ = a_survivor()
    assert node.give_up_history(5).count == 3
    ready = turn(node, 5)
    assert (node.veto, node.voting) == (None, False)
    assert "history_given_up" in events(ready)
    assert [write.whole for write in ready.save if isinstance(write, SaveEpochs)] == [False]
    established(node, 5)
    ready = hear(node, 3, LinkUp(dialled=True), LeaderInfo(Epoch(2)), now=5)
    (ack,) = [message for message in said(ready, 3) if isinstance(message, AckEpoch)]
    assert ack.last == UNKNOWN
    with pytest.raises(LocalProtocolError, match="server 1 vetoes no leader"):
        node.give_up_history(5)


def test_survivor_that_is_elected_forgets_its_veto() -> None:
    node, _ = a_survivor()
    hear(node, 2, vote(1, zxid=make(1, 3), epoch=1, turn=node._round))
    node.tick(node.deadline)
    turn(node)
    assert node.state is State.LEADING
    hear(node, 2, LinkUp(dialled=False), FollowerInfo(Epoch(0), NOTHING))
    hear(node, 2, AckEpoch(Epoch(0), NOTHING, 0))
    hear(node, 2, AckNewLeader(node.accepted))
    assert (node.serving, node.veto, node.committed) == (True, None, make(1, 3))


# -- a leader that is lost -------------------------------------------------------------------------------------


def test_role_that_served_ends_with_a_warning_that_names_the_reason() -> None:
    lost = hear(a_follower(), 3, LinkDown(dialled=True))
    leader = a_leader()
    hear(leader, 2, LinkDown(dialled=False))
    for _ in range(2):  # a leader counts its followers at every second tick
        leader.tick(leader.deadline)
    left = turn(leader, leader.deadline)
    for ready, why in ((lost, "link to leader 3 lost in broadcast"), (left, "a quorum no longer follows")):
        (note,) = [note for note in ready.notes if note.event == "role_over"]
        assert (note.level, dict(note.fields)["why"]) == ("warning", why)


def test_leadership_that_passes_on_is_no_warning() -> None:
    node = a_follower()
    ready = hear(node, 3, CommitAndActivate(NOTHING, TWO))
    (note,) = [note for note in ready.notes if note.event == "role_over"]
    assert (note.level, dict(note.fields)["why"]) == ("info", "leadership passes to server 2")


@pytest.mark.parametrize("asked", [False, True], ids=["in discovery", "in synchronization"])
def test_leader_lost_in_synchronization_is_a_warning(asked: bool) -> None:
    node = Node(ServerId(1), ensemble(1, 2, 3), Recovered(Epoch(1), Epoch(1)), Settings(), lambda limit: limit, 0)
    turn(node)
    established(node, 0)
    ready = hear(node, 3, LinkUp(dialled=True), *([LeaderInfo(Epoch(2))] if asked else []))
    node.tick(node.settings.init_ms)
    ready = turn(node, node.settings.init_ms)
    (note,) = [note for note in ready.notes if note.event == "role_over"]
    assert note.level == ("warning" if asked else "info")
