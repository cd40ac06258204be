"""Anything that a schema allows, drawn by Hypothesis."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any, Final

from hypothesis import strategies as st

from replica.wire.fields import Field, Kind, fields_of

_BITS: Final = {Kind.I8: 8, Kind.I16: 16, Kind.I32: 32, Kind.I64: 64}
IDS: Final = st.one_of(
    st.none(),
    st.binary(min_size=16, max_size=16).filter(any).map(lambda raw: urlsafe_b64encode(raw)[:22].decode()),
)
TEXTS: Final = st.one_of(st.text(max_size=6), st.text(min_size=120, max_size=140, alphabet="aé"))


def bodies(of: type[Any], version: int) -> st.SearchStrategy[Any]:
    drawn = {one.name: _values(one, version) for one in fields_of(of) if one.is_in(version)}
    return st.fixed_dictionaries(drawn).map(lambda values: of(**values))


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
            assert one.struct is not None
            return bodies(one.struct, version)
        case Kind.F64:
            return st.floats(allow_nan=False)
        case number:
            bound = 2 ** (_BITS[number] - 1)
            return st.integers(-bound, bound - 1)


def completed(body: Any, version: int) -> Any:
    """Return the body as it must come out again: a field that the version does not have holds its default."""
    values = {}
    for one in fields_of(type(body)):
        value = getattr(body, one.name) if one.is_in(version) else one.absent
        if one.struct is not None and value is not None:
            if one.many:
                value = [completed(each, version) for each in value]
            else:
                value = completed(value, version)
                if value == one.struct():
                    value = one.absent  # a struct of defaults is not written
        values[one.name] = value
    return type(body)(**values)
