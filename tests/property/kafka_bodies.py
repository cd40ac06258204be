"""Anything that a schema allows, drawn by Hypothesis."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any, Final

from hypothesis import strategies as st

from replica.wire.fields import Field, Kind

_BITS: Final = {Kind.I8: 8, Kind.I16: 16, Kind.I32: 32, Kind.I64: 64}
IDS: Final = st.one_of(
    st.none(),
    st.binary(min_size=16, max_size=16).filter(any).map(lambda raw: urlsafe_b64encode(raw)[:22].decode()),
)
TEXTS: Final = st.one_of(st.text(max_size=6), st.text(min_size=120, max_size=140, alphabet="aé"))


def bodies(fields: tuple[Field, ...], version: int) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({one.name: _values(one, version) for one in fields if one.is_in(version)})


def _values(one: Field, version: int) -> st.SearchStrategy[Any]:
    single = _singles(one, version)
    values = st.lists(single, max_size=2) if one.many else single
    if one.tag is not None and one.kind is Kind.STRUCT and not one.many:
        return st.one_of(st.none(), values)
    return st.one_of(st.none(), values) if version >= one.null else values


def _singles(one: Field, version: int) -> st.SearchStrategy[Any]:
    match one.kind:
        case Kind.BOOL:
            return st.booleans()
        case Kind.TEXT:
            return TEXTS
        case Kind.BYTES:
            return st.binary(max_size=200)
        case Kind.UUID:
            return IDS
        case Kind.STRUCT:
            return bodies(one.fields, version)
        case Kind.F64:
            return st.floats(allow_nan=False)
        case number:
            bound = 2 ** (_BITS[number] - 1)
            return st.integers(-bound, bound - 1)


def completed(fields: tuple[Field, ...], version: int, body: dict[str, Any]) -> dict[str, Any]:
    """As it must come out again: what the version does not have is there with its default."""
    made = {}
    for one in fields:
        value = body.get(one.name, one.absent) if one.is_in(version) else one.absent
        if one.kind is Kind.STRUCT and value is not None:
            if one.many:
                value = [completed(one.fields, version, each) for each in value]
            elif value:
                value = completed(one.fields, version, value)
                if value == {inner.name: inner.absent for inner in one.fields}:
                    value = one.absent  # as it would be without a word, so it was not said
        made[one.name] = value
    return made
