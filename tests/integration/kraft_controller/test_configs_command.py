"""`zab-broker configs`: what is written, and that every broker can hear of it."""

from __future__ import annotations

from pathlib import Path

from tests.integration.kraft_controller.site import run, site


def test_configuration_is_set_shown_and_unset(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path, dict.fromkeys((1, 2))) as here:
            await here.done("topics", "create", "t")
            words = ("alter", "topics", "t", "--set", "retention.ms=1000", "--set", "min.insync.replicas=2", "--json")
            assert (await here.done("configs", *words))["config"] == {
                "retention.ms": "1000",
                "min.insync.replicas": "2",
            }
            assert await here.node("/config/topics/t") == {
                "version": 1,
                "config": {"retention.ms": "1000", "min.insync.replicas": "2"},
            }
            changes = sorted(await here.session.children("/config/changes"))
            assert changes[-1].startswith("config_change_00000000")
            assert await here.node(f"/config/changes/{changes[-1]}") == {"version": 2, "entity_path": "topics/t"}
            assert "retention.ms" in await here.done("configs", "describe", "topics", "t")
            everything = await here.done("configs", "describe", "topics", "t", "--all", "--json")
            assert {row["key"]: row["source"] for row in everything}["segment.bytes"] == "default"
            await here.done("configs", "alter", "topics", "t", "--set", "retention.ms=1000")
            assert sorted(await here.session.children("/config/changes")) == changes  # nothing changed
            await here.done("configs", "delete", "topics", "t", "--unset", "retention.ms")
            assert (await here.node("/config/topics/t"))["config"] == {"min.insync.replicas": "2"}

    run(test)


def test_brokers_clients_and_users(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path) as here:
            rate = ("--set", "producer_byte_rate=1024")
            for words, path in (
                (("brokers", "1", "--set", "log.retention.ms=5"), "brokers/1"),
                (("brokers", "--default", "--set", "log.retention.ms=6"), "brokers/<default>"),
                (("clients", "my app*", *rate), "clients/my%20app%2A"),
                (("users", "ann/b", *rate), "users/ann%2Fb"),
                (("users", "ann", "--client", "app", *rate), "users/ann/clients/app"),
                (("users", "--default", "--client", "<default>", *rate), "users/<default>/clients/<default>"),
            ):
                await here.done("configs", "alter", *words)
                assert (await here.node(f"/config/{path}"))["config"]
                newest = max(await here.session.children("/config/changes"))
                assert (await here.node(f"/config/changes/{newest}"))["entity_path"] == path
            told = await here.done("configs", "describe", "users", "--json")
            assert sorted(row["of"] for row in told) == ["<default>, client <default>", "ann, client app", "ann/b"]

    run(test)


def test_unknown_key_of_brokers_is_kept_with_a_note(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path, {1: None}) as here:
            for key, note in (("cleanup.policy", "did you mean log.cleanup.policy?"), ("my.password", "no such key")):
                told = await here.command("configs", "alter", "brokers", "--default", "--set", f"{key}=compact")
                assert (told.code, note in told.err) == (0, True), told
            assert (await here.node("/config/brokers/<default>"))["config"] == {
                "cleanup.policy": "compact",
                "my.password": "compact",
            }
            rows = await here.done("configs", "describe", "brokers", "--default", "--json")
            assert {row["key"]: row["value"] for row in rows} == {"cleanup.policy": "compact", "my.password": "..."}

    run(test)


def test_invalid_config_commands_fail_with_reason(tmp_path: Path) -> None:
    refused = [
        (1, "no topic nope", ("alter", "topics", "nope", "--set", "retention.ms=1")),
        (1, "no topic nope", ("describe", "topics", "nope")),
        (1, "topics have no such", ("alter", "topics", "t", "--set", "colour=red")),
        (1, "expected true or false", ("alter", "topics", "t", "--set", "preallocate=maybe")),
        (1, "number from 0 to 1",
         ("alter", "topics", "t", "--set", "min.cleanable.dirty.ratio=2")),
        (1, "expected a broker id", ("alter", "brokers", "one", "--set", "log.retention.ms=1")),
        (1, "topics/t: not set: retention.ms", ("delete", "topics", "t", "--unset", "retention.ms")),
        (1, "Cannot update these configs dynamically: log.dirs", ("alter", "brokers", "1", "--set", "log.dirs=/x")),
        (2, "nothing to do", ("alter", "topics", "t")),
        (2, "both set and unset", ("alter", "topics", "t", "--set", "flush.ms=1", "--unset", "flush.ms")),
        (2, "missing NAME: expected one of the topics", ("alter", "topics", "--set", "flush.ms=1")),
        (2, "use brokers --default", ("alter", "topics", "--default", "--set", "flush.ms=1")),
        (2, "missing NAME: expected one of the users", ("describe", "users", "--client", "app")),
        (2, "--client requires the", ("alter", "clients", "a", "--client", "b", "--set", "request_percentage=1")),
    ]  # fmt: skip

    async def test() -> None:
        async with site(tmp_path, {1: None}) as here:
            await here.done("topics", "create", "t")
            before = await here.session.children("/config/changes")
            for code, why, words in refused:
                said = await here.command("configs", *words)
                assert (said.code, why in said.err) == (code, True), (words, said)
            absent = await here.command("configs", "alter", "brokers", "99", "--set", "log.retention.ms=1")
            assert (absent.code, "broker 99 is not registered" in absent.err) == (0, True)
            word = await here.command("configs", "alter", "brokers", "abc", "--set", "log.retention.ms=1")
            assert (word.code, "expected a broker id" in word.err, "registers" in word.err) == (1, True, False)
            there = await here.command("configs", "alter", "brokers", "1", "--set", "log.retention.ms=1")
            assert (there.code, there.err) == (0, "")
            before = await here.session.children("/config/changes")
            await here.session.set("/config/topics/t", b'{"version":1,"conf')
            broken = await here.command("configs", "alter", "topics", "t", "--set", "flush.ms=1")
            assert (broken.code, "/config/topics/t: not JSON" in broken.err) == (1, True)
            assert (await here.command("configs", "describe", "topics")).code == 1
            assert (await here.session.get("/config/topics/t"))[0] == b'{"version":1,"conf'
            assert await here.session.children("/config/changes") == before

    run(test)
