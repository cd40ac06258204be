"""The arguments of `open_store`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import zab
from zab.runtime.member import Member
from zab.runtime.store_server.open_store import MemberOptions


def test_open_store_accepts_the_arguments_of_a_member() -> None:
    """Written down twice, because a type checker does not read the one from the other."""
    parameters = inspect.signature(Member).parameters
    of_a_member = {name: each.annotation for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY}
    del of_a_member["limits"]
    assert {name: each.__forward_arg__ for name, each in MemberOptions.__annotations__.items()} == of_a_member


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"client_port": 99_999}, zab.ConfigError),
        ({"client_port": -1}, zab.ConfigError),
        ({"secure_client_port": 65_536}, zab.ConfigError),
        ({"client_port": "2181"}, TypeError),
        ({"client_port": True}, TypeError),
    ],
)
async def test_a_port_that_is_none(given: dict[str, Any], error: type[Exception], tmp_path: Path) -> None:
    (name,) = given
    with pytest.raises(error, match=f"{name}: .* port"):
        async with zab.open_store(tmp_path / "store", **given):
            raise AssertionError("never")
    assert not (tmp_path / "store").exists(), "nothing was begun"


async def test_misspelt_argument_names_the_near_one(tmp_path: Path) -> None:
    misspelt: dict[str, Any] = {"client_prt": 2181}
    with pytest.raises(TypeError, match="a store has no argument 'client_prt'; did you mean client_port?"):
        async with zab.open_store(tmp_path / "store", **misspelt):
            raise AssertionError("never")
