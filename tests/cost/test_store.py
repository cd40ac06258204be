"""A running store under hostile requests: one client does not delay the others.

The bounds are in controls (see `zookeeper.control_of`), some three milliseconds of CPU each. No request may hold up
the server for longer than `STALL_MAX`, and none may cost it more than `WORK_MAX` for each megabyte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random

import pytest
from attrs import frozen

from tests.cost import store_frames as frames
from tests.cost import store_states as states
from tests.cost.meter import Meter
from tests.cost.zookeeper import FRAME_BYTES_MAX, Client, StoreProcess, encode, store_process, word
from tests.integration.http_client import ask
from zab.runtime.admin.commands import NAMES
from zab.store.acl import OPEN
from zab.store.operations import Op
from zab.wire.client.client_frames import FOUR_LETTER_WORDS

SEED = 1
SIZE = FRAME_BYTES_MAX - 200
STALL_MAX = 60
WORK_MAX = 120
TRIES = 3
"""A busy machine makes a stall look longer. What is too dear, is so each time."""


@frozen
class Attacked:
    store: StoreProcess
    meter: Meter

    def bounded(
        self,
        what: str,
        attack: Callable[[Client], object],
        before: Callable[[Client], object] | None = None,
        work_max: float | None = None,
        stall_max: float = STALL_MAX,
    ) -> None:
        """Attack over a new connection, repeatedly if necessary, and check the cost."""
        for tries_left in reversed(range(TRIES)):
            client = Client(self.store.port)
            if before is not None:
                before(client)

            def attack_and_close(client: Client = client) -> None:
                attack(client)
                client.close()

            cost = self.meter.measure(attack_and_close)
            try:
                cost.check(what, work_max=work_max, stall_max=stall_max)
                return
            except AssertionError:
                if not tries_left:
                    raise


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    with store_process(tmp_path_factory.mktemp("store")) as store, store.client() as owner, store.meter() as meter:
        build(owner)
        yield Attacked(store, meter)


def build(client: Client) -> None:
    client.ask_all(states.nodes(states.LARGE))
    client.ask_all(states.quotas(states.LARGE))
    states.guard(lambda operation: client.ask(operation[0], *operation[1]) == 0)
    op, fields = states.watches(10_000)
    client.ask(op, *fields)


@pytest.mark.parametrize("op", frames.SCHEMA, ids=lambda op: Op(op).name)
def test_large_requests(attacked: Attacked, op: int) -> None:
    """Each over a connection of its own, for some are a reason to cut it."""
    for hostile in frames.drawn(Random(SEED), op, SIZE):
        attacked.bounded(hostile.name, lambda client: client.throw(hostile.frame), work_max=WORK_MAX)  # noqa: B023


@pytest.mark.parametrize("behind", ["", "behind a write"])
@pytest.mark.parametrize("op", frames.SCHEMA, ids=lambda op: Op(op).name)
def test_pipelines_of_small_requests(attacked: Attacked, op: int, behind: str) -> None:
    data = frames.small(SEED, op, 1_000)
    if behind:
        data = encode(Op.SET_DATA, "/large", None, -1) + data
    attacked.bounded(f"1,000 times {Op(op).name} {behind}", lambda client: client.throw(data))


@pytest.mark.parametrize("four_letters", FOUR_LETTER_WORDS, ids=FOUR_LETTER_WORDS.values())
def test_four_letter_words(attacked: Attacked, four_letters: bytes) -> None:
    argument = bytes(8) if four_letters == b"stmk" else b""
    attacked.bounded(four_letters.decode(), lambda _: word(attacked.store.port, four_letters + argument))


def test_scans_in_a_pipeline_see_the_writes_in_front_of_them_and_none_behind(attacked: Attacked) -> None:
    """Scans are taken bit by bit, and few of them stand in line behind a write: the order stays."""
    count, data, xid = 150, [], 0
    for number in range(count):
        for op, fields in (
            (Op.CREATE, (f"/order/{number}", b"", OPEN, 0)),
            (Op.GET_ALL_CHILDREN_NUMBER, ("/order",)),
            (Op.GET_ALL_CHILDREN_NUMBER, ("/inner",)),
            (Op.GET_ALL_CHILDREN_NUMBER, ("/order",)),
        ):
            xid += 1
            data.append(encode(op, *fields, xid=xid))
    with attacked.store.client() as client:
        client.ask(Op.CREATE, "/order", b"", OPEN, 0)
        replies = client.exchange(b"".join(data), xid)
    assert [reply[0] for reply in replies] == list(range(1, xid + 1))
    assert not any(reply[1] for reply in replies)
    found = [int.from_bytes(body, "big") for _, _, body in replies]
    assert found[1::4] == found[3::4] == list(range(1, count + 1))


def test_costly_reads_of_many_connections_take_turns(attacked: Attacked) -> None:
    data = encode(Op.GET_ALL_CHILDREN_NUMBER, "/inner") * 100
    clients = [Client(attacked.store.port) for _ in range(10)]

    def attack(_: Client) -> None:
        for client in clients:
            client.socket.sendall(data)
        for client in clients:
            client.throw(b"")

    attacked.bounded("scans of ten connections", attack)
    for client in clients:
        client.close()


def test_request_in_single_bytes(attacked: Attacked) -> None:
    data = encode(Op.SET_DATA, "/large", bytes(20_000), -1)

    def attack(client: Client) -> None:
        for at in range(len(data)):
            client.socket.sendall(data[at : at + 1])
        client.ping()

    attacked.bounded("a request in single bytes", attack)


def test_client_that_never_reads(attacked: Attacked) -> None:
    data = encode(Op.GET_CHILDREN2, "/wide", False) * 10_000

    def attack(client: Client) -> None:
        client.socket.setblocking(False)
        with suppress(BlockingIOError):
            client.socket.sendall(data)

    attacked.bounded("10,000 lists of children that nobody reads", attack, work_max=WORK_MAX)


def test_admin_commands(attacked: Attacked) -> None:
    for name in NAMES:
        attacked.bounded(name, lambda _: ask(attacked.store.admin_port, f"/commands/{name}"))  # noqa: B023
    for page in ("/", "/metrics"):
        attacked.bounded(page, lambda _: ask(attacked.store.admin_port, page))  # noqa: B023


def test_multi_of_checks_against_the_longest_acl(attacked: Attacked) -> None:
    checks = tuple((Op.CHECK, ("/guarded", -1)) for _ in range(300))
    attacked.bounded("300 checks", lambda client: client.throw(encode(Op.MULTI, *checks)), work_max=WORK_MAX)


@pytest.mark.parametrize("op", [Op.GET_CHILDREN, Op.GET_CHILDREN2, Op.MULTI_READ], ids=lambda op: op.name)
def test_long_lists_behind_a_write(attacked: Attacked, op: Op) -> None:
    """Reads in line behind a write are answered in the turn in which it is applied, up to 64 MiB of replies.

    The ratio depends on the machine: 32 to 33 controls for multi reads on one, less than 30 on another.
    """
    if op is Op.MULTI_READ:
        data = encode(op, *[(Op.GET_CHILDREN, ("/wide", False))] * 10) * 80
    else:
        data = encode(op, "/wide", False) * 500
    write = encode(Op.SET_DATA, "/large", b"", -1)
    attacked.bounded(f"{op.name} behind a write", lambda client: client.throw(write + data), stall_max=40)


def test_as_many_watches_as_a_server_takes(attacked: Attacked) -> None:
    """Most of the work is their removal, when the connection ends."""

    def attack(client: Client) -> None:
        with suppress(OSError):  # it is cut where it asks for too many
            for part in range(12):
                paths = tuple(f"/{part}/{number}" for number in range(80_000))
                client.throw(encode(Op.SET_WATCHES2, 0, (), (), (), (), paths))

    attacked.bounded("a million watches", attack)
