"""`zab-broker reassign`, with a controller that moves what it is asked to."""

from __future__ import annotations

import json
from pathlib import Path

from kraft_controller.core import controller_events as events
from kraft_controller.core.names import BrokerId, TopicPartition
from tests.integration.kraft_controller.site import Site, led, run, site, until

THROTTLES = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def plan_in(path: Path, moves: dict[str, list[int]]) -> str:
    rows = [
        {"topic": where.rpartition("-")[0], "partition": int(where.rpartition("-")[2]), "replicas": replicas}
        for where, replicas in moves.items()
    ]
    path.write_text(json.dumps({"version": 1, "partitions": rows}))
    return str(path)


async def held(here: Site, topic: str = "t") -> dict[str, list[int]]:
    found: dict[str, list[int]] = (await here.node(f"/brokers/topics/{topic}"))["partitions"]
    return found


async def throttled(here: Site) -> list[str]:
    rows = []
    for kind in ("topics", "brokers"):
        told = await here.done("configs", "describe", kind, "--json")
        rows += [f"{row['of']} {row['key']}={row['value']}" for row in told if "throttled" in row["key"]]
    return rows


def test_reassignment_is_planned_executed_and_verified(tmp_path: Path) -> None:
    async def test() -> None:
        async with led(tmp_path / "store", dict.fromkeys((1, 2, 3, 4))) as (here, _):
            await here.done("topics", "create", "t", "--replica-assignment", "1:2,2:1", "--wait")
            made = await here.command("reassign", "generate", "--topics", "t", "--brokers", "3,4")
            assert json.loads(made.err.partition(": ")[2])["partitions"][0]["replicas"] == [1, 2]
            plan = tmp_path / "plan.json"
            plan.write_text(made.out)
            assert (await here.command("reassign", "verify", str(plan))).code == 1
            done = await here.command("reassign", "execute", str(plan), "--wait")
            assert done.code == 0, done
            assert {broker for replicas in (await held(here)).values() for broker in replicas} == {3, 4}
            assert (await here.command("reassign", "verify", str(plan), "--json")).json[0]["state"] == "done"
            assert await throttled(here) == []
            back = tmp_path / "back.json"
            back.write_text(done.err.splitlines()[0].partition(": ")[2])
            await here.done("reassign", "execute", str(back), "--no-throttle", "--wait")
            assert await held(here) == {"0": [1, 2], "1": [2, 1]}

    run(test)


def test_long_reassignment_is_throttled_listed_and_cancelled(tmp_path: Path) -> None:
    async def test() -> None:
        async with led(tmp_path / "store", dict.fromkeys((1, 2, 3))) as (here, wires):
            await here.done("topics", "create", "t", "--replica-assignment", "1:2,2:1", "--wait")
            wires.stuck.add(3)
            plan = plan_in(tmp_path / "plan", {"t-0": [3, 2]})
            late = await here.command("reassign", "execute", plan, "--throttle", "1000", "--wait", "--wait-s", "0.5")
            assert late.code == 1
            assert "1 of 1 partition, including t-0" in late.err
            assert await throttled(here) == [
                "t leader.replication.throttled.replicas=0:1,0:2",
                "t follower.replication.throttled.replicas=0:3",
                *(
                    f"{broker} {role}.replication.throttled.rate=1000"
                    for broker in (1, 2, 3)
                    for role in ("leader", "follower")
                ),
            ]
            await until(lambda: _moves(here))  # the controller may have been slower than half a second
            [row] = await here.done("reassign", "list", "--json")
            assert row == {
                "partition": "t-0", "from": [1, 2], "to": [3, 2], "adding": [3], "removing": [1], "behind": [3]
            }  # fmt: skip
            verified = await here.command("reassign", "verify", plan, "--json")
            assert (verified.code, verified.json[0]["state"]) == (1, "moving")
            assert await throttled(here) != []
            former = await here.command("reassign", "verify", plan_in(tmp_path / "p1", {"t-0": [2, 1]}), "--json")
            assert (former.code, former.json[0]["state"]) == (1, "not at the target, and not moving there")
            assert await throttled(here) != [], "it moves elsewhere, and its throttle stays"
            second = await here.command("reassign", "execute", plan_in(tmp_path / "p2", {"t-1": [1, 3]}))
            assert second.code == 1
            assert "--additional" in second.err
            assert (await here.command("topics", "alter", "t", "--partitions", "5")).code == 1
            # Whoever dies meanwhile is not slow for ever, and the order of the replicas is as it was.
            await here.session.delete("/brokers/ids/3")
            await here.done("reassign", "cancel", "--wait")
            assert await held(here) == {"0": [1, 2], "1": [2, 1]}
            assert "original_replicas" not in await here.node("/brokers/topics/t")
            assert await here.session.exists("/admin/reassign_partitions") is None
            assert await throttled(here) == []
            assert "nothing moves" in await here.done("reassign", "cancel")

    run(test)


async def _moves(here: Site) -> bool:
    return bool((await here.node("/brokers/topics/t"))["adding_replicas"])


def test_newest_request_wins_across_a_failover(tmp_path: Path) -> None:
    """A wish in the node, and another one of the same partition that came by request."""

    async def test() -> None:
        async with led(tmp_path / "store", dict.fromkeys((1, 2, 3))) as (here, wires):
            await here.done("topics", "create", "t", "--replica-assignment", "1:2", "--wait")
            wires.stuck.add(3)
            await here.done("reassign", "execute", plan_in(tmp_path / "plan", {"t-0": [3, 2]}), "--no-throttle")
            await until(lambda: _moves(here))
            await wires.controller.ask(
                events.AlterReassignmentsRequested({TopicPartition("t", 0): (BrokerId(2), BrokerId(1))})
            )

            async def arrived() -> bool:
                return await held(here) == {"0": [2, 1]}

            await until(arrived)
            await here.done("controller", "resign", "--wait")
            wires.stuck.clear()
            await here.done("topics", "create", "u", "--wait")  # the controller is at work
            assert await held(here) == {"0": [2, 1]}

    run(test)


def test_impossible_plans_change_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path / "store", dict.fromkeys((1, 2))) as here:
            await here.done("topics", "create", "t", "--replica-assignment", "1:2")
            plans: list[tuple[str, dict[str, list[int]]]] = [
                ("there is no partition nope-0", {"nope-0": [1]}),
                ("there is no partition t-9", {"t-9": [1]}),
                ("brokers [7] are not registered", {"t-0": [7, 1]}),
                ("the list of replicas is empty", {"t-0": []}),
                ("a broker is listed twice", {"t-0": [1, 1]}),
                ("names no partitions", {}),
            ]
            for why, moves in plans:
                said = await here.command("reassign", "execute", plan_in(tmp_path / "plan", moves))
                assert (said.code, why in said.err) == (1, True), said
            (tmp_path / "torn").write_text('{"version":1,"partitions":[{"topic"')
            torn = await here.command("reassign", "execute", str(tmp_path / "torn"))
            assert (torn.code, f"{tmp_path / 'torn'}: the plan cannot be parsed: not JSON" in torn.err) == (1, True)
            (tmp_path / "deep").write_text("[" * 10_000)
            for words in (("execute", str(tmp_path / "deep")), ("generate", "--topics-file", str(tmp_path / "deep"))):
                deep = await here.command("reassign", *words)
                assert (deep.code, f"{tmp_path / 'deep'}: the " in deep.err) == (1, True), deep
            assert (await here.command("reassign", "execute", str(tmp_path / "none"))).code == 2
            good = plan_in(tmp_path / "good", {"t-0": [2, 1]})
            assert (await here.command("reassign", "execute", good, "--throttle", "0")).code == 2
            assert (await here.command("reassign", "generate", "--brokers", "1,9")).code == 1
            for word in ("one", ""):
                assert (await here.command("reassign", "generate", "--brokers", word)).code == 2
            assert (await here.command("reassign", "generate", "--topics", "")).code == 1
            assert await here.session.exists("/admin/reassign_partitions") is None
            await here.session.create("/admin/reassign_partitions", b'{"version":1,"part')
            broken = await here.command("reassign", "execute", good)
            assert (broken.code, "/admin/reassign_partitions: not JSON" in broken.err) == (1, True)

    run(test)
