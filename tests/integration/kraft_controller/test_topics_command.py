"""`zab-broker topics` and `elect`, with a controller that acts on what they leave in the store."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from kraft_controller.cli.topics_command import _GoneWaiting
from kraft_controller.wire import znodes
from tests.integration.kraft_controller.site import Site, command, led, run, site, until
from zab.cli.kit.failures import Failed


async def leader(here: Site, topic: str, partition: int = 0) -> int:
    return int((await here.node(f"/brokers/topics/{topic}/partitions/{partition}/state"))["leader"])


def test_topic_from_creation_to_deletion(tmp_path: Path) -> None:
    async def test() -> None:
        async with led(tmp_path, dict.fromkeys((1, 2, 3))) as (here, wires):
            words = ("--partitions", "2", "--config", "min.insync.replicas=2", "--wait", "--json")
            made = await here.done("topics", "create", "orders", *words)
            assert (made["partitions"], made["replicas"]) == (2, 3)
            assert len(made["topic_id"]) == 22
            assert await here.node("/config/topics/orders") == {"version": 1, "config": {"min.insync.replicas": "2"}}
            none = await here.command("topics", "create", "nothing", "--partitions", "0")
            assert (none.code, "at least one" in none.err) == (1, True)
            assert "orders" in await here.done("topics", "list")
            rows = await here.done("topics", "describe", "orders", "--json")
            assert [sorted(row["isr"]) for row in rows] == [[1, 2, 3], [1, 2, 3]]
            assert "min.insync.replicas=2" in await here.done("topics", "describe")
            for narrow in ("--under-replicated", "--unavailable", "--under-min-isr", "--at-min-isr"):
                assert (await here.command("topics", "describe", narrow, "--json")).told == (0, [])
            await here.done("topics", "alter", "orders", "--partitions", "4", "--wait")
            assert len(await here.done("topics", "describe", "orders", "--json")) == 4

            await here.session.delete("/brokers/ids/3")
            await until(lambda: _isr_is_without(here, 3))
            for narrow, count in (("--under-replicated", 4), ("--at-min-isr", 4), ("--under-min-isr", 0)):
                said = await here.command("topics", "describe", narrow, "--json")
                assert (said.code, len(said.json)) == (1 if count else 0, count)
            await here.register(3)
            wires.silent.add(3)
            late = await here.command("topics", "delete", "orders", "--wait", "--wait-s", "0.5")
            assert late.code == 1
            assert "orders" in late.err
            assert (await here.command("topics", "create", "orders")).code == 1
            assert (await here.command("topics", "alter", "orders", "--partitions", "9")).code == 1
            wires.silent.clear()
            await here.session.delete("/brokers/ids/3")
            for verb in ("list", "describe"):
                assert "deleting, waits for broker 3" in await here.done("topics", verb)
            gone = await here.command("topics", "delete", "orders", "--wait", "--wait-s", "0.5")
            assert (gone.code, "orders, waits for broker 3; broker 1 is the controller" in gone.err) == (1, True)
            await here.register(3)
            await until(lambda: _there_are_none(here))  # who asked twice need not ask again
            last = await here.command("topics", "delete", "orders", "--wait")
            assert (last.code, "there is no topic orders" in last.err) == (1, True)
            assert await here.session.exists("/config/topics/orders") is None

    run(test)


def test_wait_for_deletion_tells_a_new_topic_of_the_name_from_a_refusal(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path, {1: None}) as here:
            await here.done("topics", "create", "orders")
            stat = await here.session.exists("/brokers/topics/orders")
            assert stat is not None
            assert await _GoneWaiting(here.session, {"orders": stat.czxid - 1}).left() is None
            with pytest.raises(Failed, match="the controller refused the deletion"):
                await _GoneWaiting(here.session, {"orders": stat.czxid}).left()

    run(test)


async def _there_are_none(here: Site) -> bool:
    return not await here.done("topics", "list", "--json")


async def _isr_is_without(here: Site, broker: int) -> bool:
    rows = (await here.command("topics", "describe", "--json")).json
    return all(broker not in row["last_known_isr"] for row in rows)


def test_manual_replica_assignment(tmp_path: Path) -> None:
    async def test() -> None:
        async with led(tmp_path, {1: "a", 2: "a", 3: "b"}) as (here, _):
            await here.done("topics", "create", "t", "--replica-assignment", "3:1,1:3", "--wait")
            assert await leader(here, "t") == 3
            said = await here.done("topics", "alter", "t", "--partitions", "3", "--replica-assignment", "2:3", "--wait")
            assert "1 more partition" in said
            assert (await here.node("/brokers/topics/t"))["partitions"] == {"0": [3, 1], "1": [1, 3], "2": [2, 3]}
            words = ("--policy", "plain", "--partitions", "4", "--replication-factor", "2")
            await here.done("topics", "create", "plain", *words)
            held = (await here.node("/brokers/topics/plain"))["partitions"]
            assert held == {"0": [1, 2], "1": [2, 3], "2": [3, 1], "3": [1, 2]}

    run(test)


def test_invalid_topic_commands_fail_and_write_nothing(tmp_path: Path) -> None:
    refused = [
        (1, "brokers [9]", ("create", "t", "--replica-assignment", "1:9")),
        (1, "names a broker twice", ("create", "t", "--replica-assignment", "1:1")),
        (1, "needs 4 available brokers", ("create", "t", "--replication-factor", "4")),
        (1, "at least one is needed", ("create", "t", "--partitions", "-1")),
        (1, "letters, digits", ("create", "sp ace")),
        (1, "not a valid topic name", ("create", "..")),
        (1, "at most 249", ("create", "x" * 250)),
        (1, "would be equal in metrics", ("create", "a_b")),
        (1, "already exists", ("create", "a.b")),
        (1, "expected one of delete, compact", ("create", "t", "--config", "cleanup.policy=compact,")),
        (1, "expected one of", ("create", "t", "--config", "cleanup.policy=burn")),
        (1, "did you mean min.insync.replicas?", ("create", "t", "--config", "min.in.sync.replicas=2")),
        (1, "whole number, 1 or more", ("create", "t", "--config", "min.insync.replicas=0")),
        (2, "--config min.insync.replicas: expected KEY=VALUE", ("create", "t", "--config", "min.insync.replicas")),
        (2, "expected the form 1:2,2:3", ("create", "t", "--replica-assignment", "1;2")),
        (2, "expected the form 1:2,2:3", ("create", "t", "--replica-assignment", "")),
        (2, "expected the form 1:2,2:3", ("alter", "a.b", "--partitions", "2", "--replica-assignment", "")),
        (2, "excludes", ("create", "t", "--replica-assignment", "1", "--partitions", "3")),
        (2, "excludes", ("create", "t", "--replica-assignment", "", "--partitions", "3")),
        (1, "the new total must be greater, not 1", ("alter", "a.b", "--partitions", "1")),
        (1, "2 assignments for 1 new", ("alter", "a.b", "--partitions", "2", "--replica-assignment", "1,2")),
        (1, "new ones need the same number", ("alter", "a.b", "--partitions", "2", "--replica-assignment", "1")),
        (1, "no topic nope", ("alter", "nope", "--partitions", "2")),
        (1, "no topic nope", ("delete", "nope")),
        (1, "no topic nope", ("describe", "nope")),
    ]

    async def test() -> None:
        async with site(tmp_path, dict.fromkeys((1, 2, 3))) as here:
            await here.done("topics", "create", "a.b", "--replication-factor", "2")
            for code, why, words in refused:
                said = await here.command("topics", *words)
                assert (said.code, why in said.err) == (code, True), (words, said)
            assert await here.session.children(znodes.TOPICS) == ["a.b"]
            assert len((await here.node("/brokers/topics/a.b"))["partitions"]) == 1
            assert await here.session.children(znodes.DELETE_TOPICS) == []
            assert (await here.command("topics", "create", "a.b", "--if-not-exists")).code == 0
            assert (await here.command("topics", "delete", "nope", "--if-exists")).code == 0
            alone = await here.command("topics", "create", "one", "--replication-factor", "1")
            assert "one replica" in alone.err
            nowhere = await trio.to_thread.run_sync(command, "topics", "list", "--store", f"{here.at}/typo")
            assert (nowhere.code, "no node /typo" in nowhere.err) == (1, True)
            await here.session.create("/brokers/topics/sp ace", b'{"version":3,"partitions":{"0":[1]}}')
            for words in (("list",), ("describe",), ("describe", "sp ace")):
                said = await here.command("topics", *words)
                assert (said.code, "letters, digits" in said.err, "sp ace" in said.out) == (1, True, False), words

    run(test)


def test_elections(tmp_path: Path) -> None:
    async def test() -> None:
        async with led(tmp_path, dict.fromkeys((1, 2, 3))) as (here, wires):
            session = here.session
            await here.done("topics", "create", "t", "--replica-assignment", "2:3,3:2", "--wait")
            await here.done("topics", "create", "u", "--replica-assignment", "2:3", "--wait")
            await session.delete("/brokers/ids/2")
            await until(lambda: _led_by(here, "t", 3))
            dead = await here.command("elect", "preferred", "t", "--json")
            assert dead.code == 1
            assert [row["outcome"] for row in dead.json] == [
                "the preferred leader, broker 2, is not alive",
                "not needed",
            ]
            wires.stuck.add(2)
            await here.register(2)
            behind = await here.command("elect", "preferred", "t:0", "--json")
            assert (behind.code, behind.json[0]["outcome"]) == (
                1,
                "the preferred leader, broker 2, is not in the ISR, is shutting down, or cannot use its replica",
            )
            # Nobody in sync is left, and who is not may lead only when it is asked for.
            await session.delete("/brokers/ids/3")
            await until(lambda: _led_by(here, "t", -1))
            [_, _, row, *_] = (await here.done("topics", "describe", "t")).splitlines()
            assert row.split()[:4] == ["0", "-", "2,3", "3"]  # who has to come back
            assert (await here.command("elect", "unclean", "t:0")).code == 2
            lost = await here.done("elect", "unclean", "t:0", "--yes", "--json")
            assert [(row["partition"], row["leader"], row["outcome"]) for row in lost] == [("t-0", 2, "elected")]
            assert (await leader(here, "t", 0), await leader(here, "t", 1)) == (2, -1)
            # Or when its topic says so, at once.
            await here.done("configs", "alter", "topics", "u", "--set", "unclean.leader.election.enable=true")
            await until(lambda: _led_by(here, "u", 2))

            async def counted() -> bool:  # it stands in the store before it is counted
                term = wires.controller.term
                return term is not None and term.partitions.unclean_elections == 2

            await until(counted)
            await here.done("configs", "alter", "brokers", "--default", "--set", "unclean.leader.election.enable=true")
            await until(lambda: _led_by(here, "t", 2, 1))
            wires.stuck.clear()
            await here.register(3)
            await until(lambda: _in_sync(here, "t", 1, 3))
            back = await here.done("elect", "preferred", "--json")
            assert [(row["partition"], row["leader"]) for row in back] == [("t-1", 3)]
            assert "no partition needs an election" in (await here.command("elect", "preferred")).err
            assert (await here.command("elect", "preferred", "t:7")).code == 1
            assert (await here.command("elect", "preferred", "nope")).code == 1

    run(test)


async def _led_by(here: Site, topic: str, broker: int, partition: int = 0) -> bool:
    return await leader(here, topic, partition) == broker


async def _in_sync(here: Site, topic: str, partition: int, broker: int) -> bool:
    return broker in (await here.node(f"/brokers/topics/{topic}/partitions/{partition}/state"))["isr"]


def test_damaged_election_request_is_named_and_blocks_no_controller(tmp_path: Path) -> None:
    async def test() -> None:
        async with led(tmp_path, dict.fromkeys((1, 2))) as (here, wires):
            await here.done("topics", "create", "t", "--replica-assignment", "1:2", "--wait")
            await here.done("controller", "show")
            await here.session.create(znodes.PREFERRED, b'{"version":1,"part')
            await here.done("reassign", "execute", str(_plan(tmp_path)), "--wait")
            said = await here.command("elect", "preferred", "t")
            assert (
                said.code,
                f"{znodes.PREFERRED}: not JSON" in said.err,
                "remove or rewrite the node" in said.err,
            ) == (
                1,
                True,
                True,
            )
            shown = await here.command("controller", "show", "--json")
            assert (shown.code, f"{znodes.PREFERRED}: not JSON" in shown.err, shown.json[0]["id"]) == (1, True, 1)
            await here.session.delete(znodes.PREFERRED)
            await here.done("elect", "preferred", "t")
            assert await leader(here, "t") == 2
            assert wires.controller.counts.gave_up == 0

    run(test)


def _plan(folder: Path) -> Path:
    plan = folder / "plan.json"
    plan.write_text('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1]}]}')
    return plan
