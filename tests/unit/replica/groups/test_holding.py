"""What members hold in memory: it is bounded for each and for all together, and counted right whatever happens."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from replica.core.errors import ErrorCode as E
from replica.core.groups.group_effects import MemberRefused
from replica.core.groups.group_messages import GroupIdentity, Join, Joined, Leave, LeavingMember, SupportedProtocol
from replica.core.groups.group_settings import GroupSettings
from replica.core.groups.group_states import GroupState
from tests.unit.replica.groups.room import GROUP, Client, Room, stable, subscription
from tests.unit.replica.groups.test_random import World

MIB = 1 << 20


def hostile(
    room: Room, *protocols: SupportedProtocol, group: str = GROUP, session_ms: int = 1_800_000, host: str = ""
) -> E | None:
    """An old client, which is a member at once, and hangs up without an answer. None: it waits."""
    ask = Join(GroupIdentity(group), "consumer", protocols, session_ms, session_ms, client_host=host, id_first=False)
    reply = room.heard(room.ask(ask))
    assert reply is None or isinstance(reply, Joined)
    return None if reply is None else reply.error


def held(room: Room) -> int:
    """As it is counted; and counted anew it is the same."""
    counted: int = room.coordinator.groups.memory.bytes
    assert counted == sum(group.members.held_bytes for group in room.coordinator.groups)
    return counted


def test_one_member_has_a_bound() -> None:
    room = Room()
    assert hostile(room, SupportedProtocol("range", bytes(40 * MIB))) is E.INVALID_REQUEST
    assert hostile(room, *(SupportedProtocol(f"{number}", b"") for number in range(10_000))) is E.INVALID_REQUEST
    assert hostile(room, SupportedProtocol("r" * MIB, b"")) is E.INVALID_REQUEST
    assert hostile(room, SupportedProtocol("range", b""), host="h" * MIB) is E.INVALID_REQUEST
    assert not list(room.coordinator.groups)  # nothing is left of them
    assert held(room) == 0
    whys = [note.why for note in room.notes if isinstance(note, MemberRefused)]
    assert "exceeds the limit of 1048576 per member" in whys[0]
    assert hostile(room, SupportedProtocol("range", bytes(MIB - 8_192))) is None


def test_metadata_of_all_members_is_bounded_and_known_members_stay() -> None:
    room = Room(group_members_bytes_max=4 * MIB)
    client = Client(room, "a")
    stable(room, client)
    answers = [hostile(room, SupportedProtocol("range", bytes(MIB // 2)), group=f"g{number}") for number in range(20)]
    assert answers == [None] * 7 + [E.GROUP_MAX_SIZE_REACHED] * 13
    assert 3 * MIB < held(room) <= 4 * MIB
    assert len(list(room.coordinator.groups)) == 8  # a group that admitted no member does not count
    [why] = {note.why for note in room.notes if isinstance(note, MemberRefused)}
    assert "would exceed the limit of 4194304" in why
    client.protocols = (SupportedProtocol("range", subscription("t") + bytes(MIB)[: MIB // 2]),)
    reply = client.join()
    assert reply is not None
    assert reply.error is E.GROUP_MAX_SIZE_REACHED  # it wants to hold more than before
    client.protocols = (SupportedProtocol("range", subscription("t")),)
    room.wait(5_000)
    reply = client.join()
    assert reply is None or reply.error is E.NONE  # but not for what it holds already


def test_released_memory_is_free_again() -> None:
    room = Room(group_members_bytes_max=2 * MIB)
    large = SupportedProtocol("range", bytes(MIB // 2))
    for number in range(3):
        assert hostile(room, large, group=f"g{number}", session_ms=10_000) is None
    assert hostile(room, large, group="late") is E.GROUP_MAX_SIZE_REACHED
    room.wait(400_000)  # nobody waits for their first join any more
    assert held(room) == 0
    assert hostile(room, large) is None
    [member] = room.group().members
    room.ask(Leave(GROUP, (LeavingMember(member),)))
    assert held(room) == 0


def test_issued_member_ids_count_until_they_expire() -> None:
    room = Room(group_members_bytes_max=MIB)
    ask = Join(
        GroupIdentity(GROUP), "consumer", (SupportedProtocol("range", b""),), 10_000, 10_000, client_id="c" * 30_000
    )
    answers = []
    for _ in range(20):
        reply = room.heard(room.ask(ask))
        assert isinstance(reply, Joined)
        answers.append(reply.error)
    assert answers[:5] == [E.MEMBER_ID_REQUIRED] * 5
    assert answers[10:] == [E.GROUP_MAX_SIZE_REACHED] * 10
    assert 0 < held(room) <= MIB
    room.wait(10_000)
    assert held(room) == 0


def test_a_static_member_that_is_replaced_counts_once() -> None:
    room = Room()
    client = Client(
        room, "a", instance="one", protocols=(SupportedProtocol("range", subscription("t") + bytes(MIB // 2)),)
    )
    stable(room, client)
    before = held(room)
    for _ in range(3):
        Client(room, "a", instance="one", protocols=client.protocols).join()
        assert MIB // 2 < held(room) < before + 100
    small = Client(room, "a", instance="one")
    small.join()
    assert held(room) < MIB // 2


def test_assignments_count_while_they_hold() -> None:
    room = Room()
    client = Client(room, "a")
    client.join()
    room.wait(3_000)
    client.joined()
    before = held(room)
    client.sync({client.member: bytes(100_000)})
    assert room.state() is GroupState.STABLE
    assert held(room) == before + 100_000
    client.leave()
    assert held(room) == 0


def test_groups_that_go_to_another_coordinator_count_there() -> None:
    room = Room()
    stable(room, Client(room, "a", protocols=(SupportedProtocol("range", subscription("t") + bytes(MIB // 2)),)))
    here = held(room)
    first = room.coordinator
    room.resign()
    assert first.groups.memory.bytes == 0
    room.take_over()
    assert held(room) == here


def test_protocol_names_without_members_are_forgotten() -> None:
    room = Room()
    for number in range(100):
        client = Client(room, "a", protocols=(SupportedProtocol(f"protocol {number}", b""),))
        client.join()
        client.leave()
    assert len(room.group().members._support) == 0


def test_a_name_that_no_record_could_hold_is_no_name_of_a_group() -> None:
    room = Room()
    assert hostile(room, SupportedProtocol("range", b""), group="g" * 40_000) is E.INVALID_GROUP_ID
    assert hostile(room, SupportedProtocol("range", b""), group="\u00fc" * 20_000) is E.INVALID_GROUP_ID


def test_the_bounds_are_settings() -> None:
    assert GroupSettings().group_member_bytes_max == MIB
    assert GroupSettings().group_members_bytes_max == 256 * MIB


@given(st.integers(0, 2**32))
@settings(max_examples=30, derandomize=True, deadline=None)
def test_counted_bytes_match_the_members(seed: int) -> None:
    """Members join, change, stall and leave, coordinators are deposed, writes fail: each sum equals what is found."""
    world = World(seed)
    for _ in range(400):
        world.step()
        for broker in world.brokers:
            found = sum(group.members.held_bytes for group in broker.coordinator.groups)
            assert broker.coordinator.groups.memory.bytes == found
    world.settle()
