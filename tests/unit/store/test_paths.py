from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.store.model import well_formed
from zab.store.paths import ancestors_of, child_of, is_valid, name_is_valid, parent_of, why_invalid

GOOD = [
    "/",
    "/a",
    "/a/b",
    "/a.b",
    "/...",
    "/.a",
    "/a b",
    "/é/ü",
    "/\xa0",
    "/\ud7ff",
    "/\uf900",
    "/\uffef",
    "/~",
    "/a/..b",
]
BAD = [
    "", "a", "//", "/a/", "/a//b", "/.", "/..", "/a/.", "/a/../b", "/./a", "/\0", "/a\x1f", "/\x7f", "/\x9f", "/\ud800",
    "/\uf8ff", "/\ufff0", "/\uffff", "/\U0001f600", "a/b", " /a",
]  # fmt: skip


@pytest.mark.parametrize("path", GOOD)
def test_good(path: str) -> None:
    assert is_valid(path)


@pytest.mark.parametrize("path", BAD, ids=ascii)
def test_bad(path: str) -> None:
    assert not is_valid(path)


@given(st.text(alphabet=st.one_of(st.sampled_from("/.a"), st.characters()), max_size=8).map(lambda text: "/" + text))
def test_path_rules_by_character(path: str) -> None:
    assert is_valid(path) == well_formed(path)
    if path != "/":
        assert is_valid(path) == all(name_is_valid(name) for name in path[1:].split("/"))


def test_family() -> None:
    assert parent_of("/a") == "/"
    assert parent_of("/a/b") == "/a"
    assert child_of("/", "a") == "/a"
    assert child_of("/a", "b") == "/a/b"
    assert ancestors_of("/") == []
    assert ancestors_of("/a/b/c") == ["/a/b", "/a", "/"]


@given(st.text("/.a\0\n", max_size=8))
def test_invalid_path_has_a_reason(path: str) -> None:
    assert bool(why_invalid(path)) is not is_valid(path)
