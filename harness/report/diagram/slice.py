"""The possible causes of the verdict: every event that can have influenced it.

The causes of an event are the previous event of its server and, for a receipt, the sending of the message. Heartbeats
are no causes: they only feed timeouts. Requests and replies of clients are always included.
"""

from __future__ import annotations

import re
from collections import defaultdict

from harness.report.diagram.picture import Picture


def causes(picture: Picture, what: str) -> frozenset[int]:
    """Return the causes of the last events of the servers that the verdict names, or of all if it names none."""
    named = {int(number) - 1 for number in re.findall(r"\b(?:server|servers \[|leader)\s*(\d+)", what)}
    lanes = {lane for lane in named if lane < len(picture.lanes)} or set(range(len(picture.lanes)))
    before: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, event in enumerate(picture.events):
        if event.lane in last:
            before[number] = last[event.lane]
        last[event.lane] = number
    senders: defaultdict[int, list[int]] = defaultdict(list)
    for message in picture.messages:
        if message.received is not None and message.received != message.sent and message.family != "heartbeat":
            senders[message.received].append(message.sent)
    found = {number for number, event in enumerate(picture.events) if not picture.lanes[event.lane].server}
    todo = [last[lane] for lane in lanes if lane in last]
    while todo:
        number = todo.pop()
        while number not in found:
            found.add(number)
            todo += senders.get(number, ())
            if number not in before:
                break
            number = before[number]
    return frozenset(found)
