"""The public names of `zab.recipes`, and the guarded block under all recipes."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from zab import recipes
from zab.core.errors import ConfigError
from zab.recipes.guarded_block import guarded_by
from zab.recipes.queue import entry_of
from zab.recipes.recipe_settings import RecipeSettings
from zab.recipes.waiting_queue import in_order


def test_every_public_name_is_there() -> None:
    assert len(set(recipes.__all__)) == len(recipes.__all__)
    assert set(recipes.__all__) == set(recipes._HOME_OF)
    assert set(recipes.__all__) <= set(dir(recipes))
    for name in recipes.__all__:
        assert getattr(recipes, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'Latch'"):
        _ = recipes.Latch  # type: ignore[attr-defined]


def test_lazy_names_match_the_type_checkers() -> None:
    tree = ast.parse(Path(recipes.__file__).read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        (alias.name, (node.module or "").removeprefix("zab.recipes."))
        for node in ast.walk(guarded)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == set(recipes._HOME_OF.items())


@pytest.mark.parametrize("setting", ["leave_ms", "attempts_max", "loads_max"])
def test_invalid_setting_is_reported(setting: str) -> None:
    values: dict[str, Any] = {setting: 0}
    with pytest.raises(ConfigError, match=f"{setting} must be positive"):
        RecipeSettings(**values)
    with pytest.raises(ConfigError, match="suspended_ms must be 0, positive or None, not -1"):
        RecipeSettings(suspended_ms=-1)


@pytest.mark.parametrize("kind", ["Lock", "ReadLock", "Semaphore", "Election", "Party", "ShallowParty"])
def test_an_identifier_is_text(kind: str) -> None:
    with pytest.raises(TypeError, match="an identifier must be text, not int"):
        getattr(recipes, kind)(None, "/a", 5)


def test_a_line_is_in_the_order_of_its_numbers() -> None:
    names = [
        "b__lock__0000000010",
        "a__rlock__0000000002",
        "c__lock__0000000009",
        "x-lock-0000000001",
        "ready",
        "__lock__1",
    ]
    assert in_order(names, ["__lock__"]) == [(9, "c__lock__0000000009"), (10, "b__lock__0000000010")]
    assert [number for number, _ in in_order(names, ["__lock__", "__rlock__", "-lock-"])] == [1, 2, 9, 10]
    assert in_order(["a__lock__-2147483648"], ["__lock__"]) == [(-2147483648, "a__lock__-2147483648")]


def test_a_priority_has_three_digits() -> None:
    assert [entry_of(priority) for priority in (0, 7, 999)] == ["entry-000-", "entry-007-", "entry-999-"]
    for priority in (-1, 1000):
        with pytest.raises(ConfigError, match="between 0 and 999"):
            entry_of(priority)


# -- a block, and what must hold while it runs -----------------------------------------------------------


async def fails() -> None:
    await wait_all_tasks_blocked()
    raise KeyError("it holds no more")


async def test_block_raises_the_cause_of_its_end() -> None:
    with pytest.raises(KeyError, match="it holds no more"):
        async with guarded_by(trio.sleep_forever, fails):
            await trio.sleep_forever()


async def test_block_that_missed_the_loss_raises_lost_at_its_end() -> None:
    with pytest.raises(KeyError, match="it holds no more"):
        async with guarded_by(fails):
            with trio.CancelScope(shield=True):
                await wait_all_tasks_blocked(0.01)


async def test_block_that_fails_during_cancellation_raises_both_errors() -> None:
    with pytest.raises(KeyError) as caught:
        async with guarded_by(fails):
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("while cleaning up")
    assert isinstance(caught.value.__cause__, ValueError)


async def test_the_errors_of_a_block_are_its_own() -> None:
    group = ExceptionGroup("mine", [ValueError("1"), OSError("2")])
    with pytest.raises(ExceptionGroup) as caught:
        async with guarded_by(trio.sleep_forever):
            raise group
    assert caught.value is group
    with pytest.raises(ValueError, match="not lost in a cancellation"), trio.CancelScope() as scope:
        async with guarded_by(trio.sleep_forever):
            scope.cancel()
            raise ValueError("not lost in a cancellation")


async def test_a_block_can_be_cancelled_and_can_end() -> None:
    with trio.CancelScope() as scope:
        async with guarded_by(trio.sleep_forever):
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    async with guarded_by(trio.sleep_forever):
        pass
