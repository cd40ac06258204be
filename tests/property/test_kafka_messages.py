"""Kafka's messages: what goes in comes out, noise is refused, and another implementation agrees about every byte."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.api_message import ApiMessage

from replica.core.errors import WireError
from replica.wire.api import ApiKey
from replica.wire.fields import Api
from replica.wire.messages import LENGTH_BYTES, decode_request, decode_response, encode_request, encode_response
from replica.wire.schemas import APIS
from tests.property.kafka_bodies import bodies, completed

EVERY = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.key.name)


def theirs() -> dict[tuple[int, str], Any]:
    """kafka-python's classes, by number and kind."""
    found, waiting = {}, list(ApiMessage.__subclasses__())
    while waiting:
        one = waiting.pop()
        if one._class_version is None and one._json:
            found[(one.API_KEY, one.type)] = one
    return found


THEIRS = theirs()


@EVERY
@settings(max_examples=2, derandomize=True, deadline=None)
@given(data=st.data())
def test_requests_survive_and_others_read_the_same(api: Api[Any, Any], data: st.DataObject) -> None:
    for version in range(api.first, api.last + 1):
        body = data.draw(bodies(api.request, version))
        frame = encode_request(api, version, 7, "me", body)
        read = decode_request(frame[LENGTH_BYTES:])
        assert (read.api, read.version, read.correlation, read.client_id) == (api.key, version, 7, "me")
        assert read.body == completed(body, version)
        other = THEIRS[api.key, "request"][version].decode(frame, header=True, framed=True)
        assert other.encode(version=version, header=True, framed=True) == frame


@EVERY
@settings(max_examples=2, derandomize=True, deadline=None)
@given(data=st.data())
def test_replies_survive_and_others_read_the_same(api: Api[Any, Any], data: st.DataObject) -> None:
    for version in range(api.first, api.last + 1):
        body = data.draw(bodies(api.response, version))
        if api.key is ApiKey.API_VERSIONS:
            body.error_code = 0  # with an error theirs reads the oldest version, whatever it asked for
        frame = encode_response(api, version, 7, body)
        correlation, read = decode_response(api, version, frame[LENGTH_BYTES:])
        assert correlation == 7
        assert read == completed(body, version)
        tags_in_head = version >= api.flexible and api.key is not ApiKey.API_VERSIONS
        fields = frame[LENGTH_BYTES + 4 + tags_in_head :]
        other = THEIRS[api.key, "response"][version].decode(fields)
        other._header = None  # it does not read without one what version it is to be
        assert other.encode(version=version) == fields


@EVERY
@settings(max_examples=10, derandomize=True, deadline=None)
@given(data=st.data())
def test_damage_is_refused_and_nothing_else_happens(api: Api[Any, Any], data: st.DataObject) -> None:
    version = data.draw(st.integers(api.first, api.last))
    request = data.draw(st.booleans())
    if request:
        good = encode_request(api, version, 7, "me", data.draw(bodies(api.request, version)))
    else:
        good = encode_response(api, version, 7, data.draw(bodies(api.response, version)))
    frame = bytearray(good[LENGTH_BYTES:])
    for _ in range(data.draw(st.integers(0, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(frame[: data.draw(st.integers(0, len(frame)))])
    try:
        if request:
            decode_request(cut)
        else:
            decode_response(api, version, cut)
    except WireError:
        pass
