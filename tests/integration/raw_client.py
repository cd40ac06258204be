"""A client made of nothing but our codecs."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from zab.store.operations import Fields, Op
from zab.wire.client import connect, replies, requests
from zab.wire.client.client_frames import FirstFrame, Reply, ReplyReader
from zab.wire.client.connect import ConnectRequest, ConnectResponse

PATIENCE_SECONDS: Final = 240


class Client:
    """Blocking, for tests."""

    def __init__(self, port: int, read_only: bool | None = False, resumes: Client | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
        session = (0, connect.NO_PASSWORD) if resumes is None else (resumes.response.session, resumes.response.password)
        self.socket.sendall(connect.encode_connect_request(ConnectRequest(0, 10_000, *session, read_only=read_only)))
        first = FirstFrame()
        try:
            while (payload := first.feed(self._receive())) is None:
                pass
        except BaseException:
            self.socket.close()
            raise
        self.response: ConnectResponse = connect.decode_connect_response(payload)
        self.reader = ReplyReader()
        self.arrived: deque[Reply] = deque(self.reader.feed(first.rest))
        self.xid = 0

    def _receive(self) -> bytes:
        data = self.socket.recv(65536)
        if not data:
            raise EOFError
        return data

    def next(self) -> Reply:
        while not self.arrived:
            self.arrived.extend(self.reader.feed(self._receive()))
        return self.arrived.popleft()

    def send(self, opcode: int, fields: Fields = (), xid: int | None = None) -> None:
        self.xid += 1
        self.socket.sendall(requests.encode_request(opcode, self.xid if xid is None else xid, fields))

    def ask(self, opcode: int, *fields: Any) -> Any:
        """The value, or the code of the error."""
        return self.tell(opcode, fields)

    def tell(self, opcode: int, fields: Fields) -> Any:
        return self.ask_all(opcode, [fields])[0]

    def ask_all(self, opcode: int, all_fields: Sequence[Fields]) -> list[Any]:
        """Send all requests, then receive their replies: for each the value, or the code of the error."""
        for fields in all_fields:
            self.send(opcode, fields)
        found = []
        for number in range(1 - len(all_fields), 1):
            xid, _, error, body = self.next()
            assert xid == self.xid + number
            found.append(error if error else replies.decode_body(opcode, body))
        return found

    def close(self) -> None:
        self.send(Op.CLOSE_SESSION)
        self.next()
        self.socket.close()
