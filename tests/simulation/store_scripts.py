"""Scripts with clients of the store: the faults of a seed, and a crowd that writes, reads, watches and goes."""

from __future__ import annotations

from random import Random

from attrs import evolve

from harness.draw import script_from_seed
from harness.faults import Ask, Connect, Leave, Op, Script, Step, Vanish, Write

PATHS = ("/a", "/b", "/c", "/a/x", "/a/y", "/b/x")
CLIENTS = 5


def store_script(seed: int, voters: int = 5, faults: int = 20, ops: int = 200) -> Script:
    drawn = script_from_seed(seed, voters=voters, observers=0, faults=faults, ops=20, length_ms=3_000)
    random = Random(seed)
    begins = [
        Connect(random.randrange(100), client, random.randint(1, voters), random.choice((300, 500, 1_000)))
        for client in range(1, CLIENTS + 1)
    ]
    does = [_op(random, random.randrange(100, 2_950), voters) for _ in range(ops - CLIENTS)]
    kept = [op for op in drawn.ops if not isinstance(op, Write)]
    script = evolve(drawn, machine="store", ops=tuple(sorted([*kept, *begins, *does], key=lambda op: op.at)))
    assert isinstance(script, Script)
    return script


def _op(random: Random, at: int, voters: int) -> Op:
    client = random.randint(1, CLIENTS)
    chance = random.random()
    if chance < 0.02:
        return Vanish(at, random.randint(10, 800), client)
    if chance < 0.03:
        return Leave(at, client)
    if chance < 0.05:
        return Connect(at, client, random.randint(1, voters), 500)
    if chance < 0.10:
        return Ask(at, client, tuple(_write(random) for _ in range(random.randint(2, 4))))
    if chance < 0.50:
        return Ask(at, client, (_write(random),))
    if chance < 0.90:
        read = random.choice(("get", "exists", "children"))
        return Ask(at, client, (Step(read, random.choice(PATHS), watch=random.choice(("", "once"))),))
    if chance < 0.95:
        return Ask(at, client, (Step("sync", "/"),))
    step = Step(
        random.choice(("watch", "unwatch")), random.choice(PATHS), watch=random.choice(("persistent", "recursive"))
    )
    return Ask(at, client, (step,))


def _write(random: Random) -> Step:
    path = random.choice(PATHS)
    match random.choice(("create", "create", "set", "set", "delete", "check")):
        case "create":
            return Step("create", path, mode=random.choice(("", "", "ephemeral", "sequential", "ephemeral sequential")))
        case "set":
            return Step("set", path, random.choice((-1, -1, 0, 1)))
        case "delete":
            return Step("delete", path)
        case _:
            return Step("check", path, random.choice((-1, 0)))
