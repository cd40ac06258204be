"""What a client, or a broker that we ask, may send: any bytes as a stream of requests, and as the reply to each.

Run under atheris, which watches the branches it takes: `python -m tests.fuzz.kafka_targets requests`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

from replica.core.errors import WireError
from replica.wire.framing import Framing
from replica.wire.messages import LENGTH_BYTES, decode_request, decode_response, encode_request, encode_response
from replica.wire.schemas import APIS
from tests.fuzz.target import FRAME_BYTES_MAX, Target, in_pieces

_EVERY: Final = [(api, version) for api in APIS.values() for version in range(api.first, api.last + 1)]


def requests(data: bytes) -> bool:
    framing = Framing(FRAME_BYTES_MAX)
    understood = False
    try:
        for piece in in_pieces(data, 7):
            for frame in framing.feed(piece):
                asked = decode_request(frame)
                again = encode_request(APIS[asked.api], asked.version, asked.correlation, asked.client_id, asked.body)
                assert decode_request(again[LENGTH_BYTES:]) == asked
                understood = True
    except WireError:
        pass
    assert framing.held_bytes <= LENGTH_BYTES + FRAME_BYTES_MAX
    return understood


def replies(data: bytes) -> bool:
    """The first byte says to what."""
    if not data:
        return False
    api, version = _EVERY[data[0] % len(_EVERY)]
    try:
        correlation, body = decode_response(api, version, data[1:])
    except WireError:
        return False
    again = encode_response(api, version, correlation, body)
    assert decode_response(api, version, again[LENGTH_BYTES:]) == (correlation, body)
    return True


TARGETS: Final = {
    "requests": Target(requests, [encode_request(api, version, 7, "me", api.request()) for api, version in _EVERY]),
    "replies": Target(
        replies,
        [
            bytes([place]) + encode_response(api, version, 7, api.response())[LENGTH_BYTES:]
            for place, (api, version) in enumerate(_EVERY)
            if place < 256
        ],
    ),
}


def main() -> None:
    atheris = import_module("atheris")
    name = sys.argv.pop(1)
    atheris.instrument_all()
    atheris.Setup(sys.argv, lambda data: None if TARGETS[name].run(data) else -1)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
