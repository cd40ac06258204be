"""The causes of the verdict: every act that can have influenced it, backwards in time.

An event follows from what its server did before, and from the word that it heard, if that was an event of hearing.
Heartbeats carry nothing that matters to anybody but the clock, so that they are no reason for anything. What clients
ask and are told is always part of it.
"""

from __future__ import annotations

import re
from collections import defaultdict

from harness.report.diagram.picture import Picture


def causes(picture: Picture, what: str) -> frozenset[int]:
    """The events that led to the last ones of those servers that the verdict names; of all if it names none."""
    named = {int(number) - 1 for number in re.findall(r"\b(?:server|servers \[|leader)\s*(\d+)", what)}
    lanes = {lane for lane in named if lane < len(picture.lanes)} or set(range(len(picture.lanes)))
    before: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, event in enumerate(picture.events):
        if event.lane in last:
            before[number] = last[event.lane]
        last[event.lane] = number
    heard_from: defaultdict[int, list[int]] = defaultdict(list)
    for message in picture.messages:
        if message.heard is not None and message.heard != message.said and message.family != "heartbeat":
            heard_from[message.heard].append(message.said)
    found = {number for number, event in enumerate(picture.events) if not picture.lanes[event.lane].server}
    todo = [last[lane] for lane in lanes if lane in last]
    while todo:
        number = todo.pop()
        while number not in found:
            found.add(number)
            todo += heard_from.get(number, ())
            if number not in before:
                break
            number = before[number]
    return frozenset(found)
