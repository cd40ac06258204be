from __future__ import annotations

import codecs
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cost.meter import steps
from zab.core.errors import WireError
from zab.wire import jute
from zab.wire.jute import Reader


def test_null_is_not_empty() -> None:
    assert jute.text(None) == jute.buffer(None) == bytes.fromhex("ffffffff")
    assert jute.text("") == jute.buffer(b"") == jute.vector([]) == jute.texts([]) == bytes(4)
    assert Reader(jute.NULL).buffer_or_null() is None
    assert Reader(bytes(4)).buffer_or_null() == b""


@pytest.mark.parametrize("byte", [1, 2, 0xFF])
def test_any_byte_but_zero_is_true(byte: int) -> None:
    assert Reader(bytes((byte,))).flag()
    assert not Reader(b"\0").flag()


READS: list[Callable[[Reader], object]] = [
    Reader.number, Reader.long, Reader.flag, Reader.buffer, Reader.text, Reader.texts,
    Reader.buffer_or_null, Reader.text_or_null, lambda reader: reader.unpack(jute.LONG),
]  # fmt: skip


@pytest.mark.parametrize("read", READS)
def test_truncated_field_is_refused(read: Callable[[Reader], object]) -> None:
    with pytest.raises(WireError):
        read(Reader(b""))


@pytest.mark.parametrize("length", ["7fffffff", "80000000", "fffffffe", "00000005"])
@pytest.mark.parametrize("read", [Reader.buffer, Reader.text, Reader.texts, Reader.buffer_or_null, Reader.text_or_null])
def test_a_length_that_lies_is_not_believed(read: Callable[[Reader], object], length: str) -> None:
    with pytest.raises(WireError, match="bytes are needed|is not a valid length|bytes remain|elements"):
        read(Reader(bytes.fromhex(length) + b"four"))


def test_a_count_is_held_against_the_bytes_that_are_there() -> None:
    """The check comes before the elements are decoded, else a list of two billion would exist."""
    calls = 0

    def element() -> None:
        nonlocal calls
        calls += 1

    with pytest.raises(WireError, match="2147483647 elements do not fit into 40 bytes"):
        Reader(bytes.fromhex("7fffffff") + bytes(40)).vector(element, 4)
    assert calls == 0


@pytest.mark.parametrize("read", [Reader.buffer, Reader.text, Reader.texts])
def test_null_where_something_must_be(read: Callable[[Reader], object]) -> None:
    with pytest.raises(WireError, match="null"):
        read(Reader(jute.NULL))


# -- text that is not quite UTF-8 ----------------------------------------------------------------------


def test_surrogate_pairs_of_java_are_decoded() -> None:
    """U+1F600, each half of its pair encoded on its own."""
    assert jute.text_of(bytes.fromhex("eda0bdedb880")) == "\U0001f600"
    assert jute.text_of("\U0001f600".encode()) == "\U0001f600"


@pytest.mark.parametrize("raw", ["eda0bd", "edb880", "edb880eda0bd", "ff", "c0af", "61eda0bd62", "f4908080"])
def test_invalid_text_is_replaced_and_can_be_encoded(raw: str) -> None:
    assert "�" in jute.text_of(bytes.fromhex(raw))


SURROGATES = st.sampled_from(
    [bytes.fromhex(each) for each in ("eda080", "edafbf", "edb080", "edbfbf", "61", "f09f9880", "ee8080", "ed", "a0")]
)


def pass_surrogates(error: UnicodeError) -> tuple[str | bytes, int]:
    """Pass a surrogate on, and replace any other invalid byte."""
    try:
        return codecs.lookup_error("surrogatepass")(error)
    except UnicodeDecodeError:
        return codecs.lookup_error("replace")(error)


codecs.register_error("pass_surrogates", pass_surrogates)


@given(st.lists(SURROGATES, max_size=8).map(b"".join))
def test_surrogates_are_decoded_as_by_pythons_codecs(raw: bytes) -> None:
    halves = raw.decode("utf-8", "pass_surrogates")
    assert jute.lenient(raw) == halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def test_invalid_byte_leaves_pairs_of_surrogates_alone() -> None:
    assert jute.text_of(bytes.fromhex("ff eda0bd edb880 eda0bd")) == "�\U0001f600�"


@given(st.binary(max_size=40))
def test_any_bytes_become_text_that_can_be_encoded(raw: bytes) -> None:
    assert isinstance(jute.text_of(raw).encode(), bytes)


@given(st.text(max_size=40))
def test_proper_text_is_left_alone(value: str) -> None:
    assert jute.text_of(value.encode()) == value


# -- vectors of text -----------------------------------------------------------------------------------


@given(st.lists(st.one_of(st.text(max_size=20), st.text("ab", min_size=120, max_size=140)), max_size=20))
def test_texts_are_the_same_bytes_however_they_are_made(values: list[str]) -> None:
    plain = jute.vector([jute.text(value) for value in values])
    assert jute.texts(values) == plain
    assert jute.texts(iter(values)) == plain
    assert Reader(plain).texts() == tuple(values)


def test_one_name_that_is_not_ascii_does_not_spoil_the_lengths() -> None:
    assert jute.texts(["a", "é"]) == bytes.fromhex("00000002 00000001 61 00000002 c3a9")


def test_texts_are_read_as_a_vector_of_text_is() -> None:
    values = ("", "/a", "ü", "\U0001f600", "x" * 300)
    data = b"head" + jute.texts(values) + b"tail"
    one, other = Reader(data, 4), Reader(data, 4)
    assert one.texts() == other.vector(other.text, 4) == values
    assert one.position == other.position == len(data) - 4


def test_texts_cost_few_steps_each() -> None:
    """A client may send a quarter of a million paths in one setWatches."""
    count = 10_000
    assert steps(lambda: Reader(jute.texts([""] * count)).texts()) < 14 * count
