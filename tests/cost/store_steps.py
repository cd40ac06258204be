"""The store's pure layers as a server puts them together, without sockets: a frame goes in, a reply comes out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tests.cost.store_states import Operation
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.runtime.store_server.store_machine import StoreMachine
from zab.service.authentication import ClientAuthentication
from zab.store.acl import Access
from zab.store.operations import READS, WRITES, Fields, Op
from zab.store.request_format import FOREIGN, INTERNAL, pack_body, pack_request
from zab.store.store_settings import StoreSettings
from zab.wire.client.client_frames import RequestReader
from zab.wire.client.replies import body_reply
from zab.wire.client.requests import SHAPES, RejectedRequest, decode_request
from zab.wire.client.store_replies import read_reply, write_reply
from zab.wire.jute import buffer
from zab.wire.sasl import DigestServer, SaslError

SESSION: Final = 0x100
ME: Final = 1
NOW_MS: Final = 1_700_000_000_000
MULTI_READ_BYTES_MAX: Final = 1 << 20
_SETTINGS: Final = StoreSettings(
    access=Access(schemes=frozenset({"digest", "ip", "sasl", "x509"})), enforce_quota=True, extended_types=True
)


class PureServer:
    """A pure store with one client."""

    def __init__(self) -> None:
        self.session = SESSION
        self.machine = StoreMachine(_SETTINGS)
        self.machine.reads.multi_read_bytes_max = MULTI_READ_BYTES_MAX
        self.events = 0
        self._caller = ClientAuthentication(ClientPortSettings(), "127.0.0.1")
        self._zxid = 1 << 32
        self._change(pack_request(Op.SET_SECRET, pack_body((bytes(32),)), 0, 0, ME, b"", INTERNAL))
        self._change(pack_request(Op.CREATE_SESSION, pack_body((30_000,)), SESSION, 0, ME, b"", INTERNAL))

    @property
    def identities(self) -> tuple[tuple[str, str], ...]:
        return self._caller.identities

    def notify(self, change: object) -> None:
        self.events += 1

    def build(self, operations: Iterable[Operation]) -> None:
        """Carry out requests that succeed."""
        for op, fields in operations:
            assert not self.ask(op, fields), fields[0]

    def ask(self, op: int, fields: Fields) -> int:
        """The error."""
        if op in READS:
            return self.machine.reads.read(op, fields, self)[0]
        return self._change(self._packed(op, SHAPES[op].encode(fields)))[1]

    def _packed(self, op: int, body: bytes) -> bytes:
        return pack_request(op, body, SESSION, 1, ME, self._caller.encoded, FOREIGN)

    def _change(self, request: bytes) -> tuple[int, int]:
        self._zxid += 1
        txn = self.machine.prepare_at(request, self._zxid, 1, NOW_MS)
        return self.machine.apply(self._zxid, txn)  # type: ignore[return-value]

    def serve(self, frame: bytes) -> bytes:
        """The reply to one request."""
        [(xid, op, body)] = RequestReader().feed(frame)
        if op in WRITES:
            return write_reply(op, xid, self._change(self._packed(op, body)))  # type: ignore[arg-type]
        fields = decode_request(op, body)
        if isinstance(fields, RejectedRequest):
            return b""
        if op in READS:
            return read_reply(op, xid, self._zxid, self.machine.reads.read(op, fields, self))
        if op == Op.AUTH:
            self._caller.authenticate(fields[1], fields[2] or b"")
        elif op == Op.SASL:
            server = DigestServer(b"nonce", {"u": "p"}.get)
            server.step(b"")
            try:
                return body_reply(xid, 0, buffer(server.step(fields[0] or b"")))
            except SaslError:
                pass
        return b""
