"""What a member promises those who submit to it, and the cores know nothing of: exactly once, and in their order."""

from __future__ import annotations

from harness.checkers import Violation
from zab.core.zxid import Zxid, show
from zab.wire.relay_messages import ORIGIN_BYTES, TAG_BYTES

ONCE = "each request exactly once"
ORDER = "requests of a member stay in order"


class Requests:
    """Told of every transaction that a machine applies. The workload numbers its writes, so each is another one."""

    def __init__(self) -> None:
        self._place: dict[bytes, Zxid] = {}
        self._last: dict[bytes, tuple[Zxid, int]] = {}

    def applied(self, zxid: Zxid, payload: bytes) -> None:
        txn = payload[TAG_BYTES:]
        place = self._place.get(txn)
        if place is not None:
            if place != zxid:
                raise Violation(ONCE, f"{txn[:20]!r} is {show(place)}, and {show(zxid)}, too")
            return
        self._place[txn] = zxid
        origin, number = payload[:ORIGIN_BYTES], int(txn.partition(b"/")[0])
        before, last = self._last.get(origin, (Zxid(0), 0))
        if (zxid > before) is not (number > last):
            raise Violation(ORDER, f"write {number} is {show(zxid)}, write {last} of the same member {show(before)}")
        self._last[origin] = (zxid, number)
