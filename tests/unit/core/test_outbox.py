"""The outbox: messages for a closed link are dropped, and everything else reaches the driver."""

from __future__ import annotations

import pytest

from zab.core.batch import pack
from zab.core.ensemble import Ensemble
from zab.core.messages import Ack, Commit, Message, Notification, Ping, Propose, State
from zab.core.outbox import Outbox
from zab.core.ready import Append, Dial, HangUp, Ready, SendLog, SendSnapshot
from zab.core.zxid import NOTHING, Epoch, ServerId, make

ONE, TWO = ServerId(1), ServerId(2)
VOTE = Notification(State.LOOKING, ONE, NOTHING, Epoch(0), 1, Ensemble(()))
TO_LEARNER: list[Message | SendSnapshot | SendLog] = [
    Commit(make(1, 1)),
    Ping(1, NOTHING),
    Propose(pack(make(1, 1), [b""])),
    SendSnapshot(make(1, 1), 0),
    SendLog(NOTHING, make(1, 1)),
]
TO_LEADER: list[Message | SendSnapshot | SendLog] = [Ack(make(1, 1))]


@pytest.mark.parametrize(("dialled", "lost"), [(False, TO_LEARNER), (True, TO_LEADER)])
def test_dropping_a_link_drops_its_send_queue(dialled: bool, lost: list[Message | SendSnapshot | SendLog]) -> None:
    """Between two servers there may be two links, one in each direction; and a vote is on neither."""
    out = Outbox()
    for peer in (ONE, TWO):
        for message in (*TO_LEARNER, *TO_LEADER, VOTE):
            out.send(peer, message)
    before = out.send_list
    out.forget_link(ONE, dialled)
    assert out.send_list == [each for each in before if each.to == TWO or each.message not in lost]


def test_a_link_that_is_gone_need_not_be_hung_up_and_may_be_dialled() -> None:
    out = Outbox()
    wishes: list[Dial | HangUp] = [HangUp(ONE, True), HangUp(ONE, False), HangUp(TWO, True), Dial(ONE)]
    out.links += wishes
    out.forget_link(ONE, dialled=True)
    assert out.links == wishes[1:]


def test_drained_outbox_is_empty() -> None:
    out = Outbox()
    out.send(ONE, VOTE)
    out.save.append(Append(out.next_ticket(), pack(make(1, 1), [b""])))
    out.note("event", "debug", answer=42)
    ready = out.drain()
    assert ready
    assert (len(ready.send), len(ready.save), ready.notes[0].fields) == (1, 1, (("answer", 42),))
    assert out.drain() == Ready()
    assert not out.drain()


def test_tickets_only_grow() -> None:
    out = Outbox()
    first = out.next_ticket()
    out.drain()
    assert out.next_ticket() == first + 1
