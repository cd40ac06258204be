from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.config.properties_file import MalformedEscape, decode, parse


def pairs(text: str) -> list[tuple[str, str]]:
    return [(entry.key, entry.value) for entry in parse(text)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a=b", [("a", "b")]),
        ("a:b", [("a", "b")]),
        ("a b", [("a", "b")]),
        ("  a  =  b  ", [("a", "b")]),
        ("a = b = c", [("a", "b = c")]),
        ("a\t:b", [("a", "b")]),
        ("a", [("a", "")]),
        ("# a=b\n! c=d\n\n   # e=f\ng=h", [("g", "h")]),
        ("a=b\r\nc=d\re=f", [("a", "b"), ("c", "d"), ("e", "f")]),
        ("a=b\\\n   c", [("a", "bc")]),
        ("a=b\\\n# no comment", [("a", "b# no comment")]),
        ("a=b\\\\\nc=d", [("a", "b\\"), ("c", "d")]),
        ("a=b\\", [("a", "b")]),
        ("a\\ b=c", [("a b", "c")]),
        ("a\\=b=c", [("a=b", "c")]),
        ("a=\\u0041\\t\\x", [("a", "A\tx")]),
        ("dataDir=C\\:\\\\zk", [("dataDir", "C:\\zk")]),
        ("server.1=a:1:2;3", [("server.1", "a:1:2;3")]),
        ("a=1\na=2", [("a", "1"), ("a", "2")]),
    ],
)
def test_javas_properties(text: str, wanted: list[tuple[str, str]]) -> None:
    assert pairs(text) == wanted


def test_an_entry_knows_its_lines() -> None:
    assert [(entry.line, entry.last) for entry in parse("# one\na=b\\\n  c\\\n  d\n\ne=f")] == [(2, 4), (6, 6)]


@pytest.mark.parametrize("text", ["x=1\na=\\u12", "x=1\na=\\u12g4", "x=1\n\\uzzzz=b"])
def test_invalid_escape_is_reported_with_its_line(text: str) -> None:
    with pytest.raises(MalformedEscape) as caught:
        parse(text)
    assert caught.value.line == 2


def test_bytes_outside_utf_8_are_latin_1() -> None:
    assert decode("ä".encode()) == decode("ä".encode("latin-1")) == "ä"
    assert decode(b"\xef\xbb\xbfa=b") == "a=b"


@given(st.text())
def test_no_text_is_too_strange(text: str) -> None:
    try:
        entries = parse(text)
    except MalformedEscape:
        return
    assert all(1 <= entry.line <= entry.last for entry in entries)


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.text(st.characters(codec="utf-8")))
def test_whatever_is_escaped_comes_back(key: str, value: str) -> None:
    def escaped(text: str) -> str:
        units = text.encode("utf-16-be")
        return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))

    ((found_key, found_value),) = pairs(f"{escaped(key)}={escaped(value)}")
    assert found_key.encode("utf-16", "surrogatepass").decode("utf-16") == key.strip()
    assert found_value.encode("utf-16", "surrogatepass").decode("utf-16") == value.strip()
