"""Convert the acts of a run to a picture: the roles of servers over time, and messages from sending to receipt."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from harness.embed.client_history import Invoked, Returned
from harness.history import Info, Invoke, Response, SessionEvent, WatchFired
from harness.report.diagram.faults import Faults
from harness.report.diagram.picture import Band, DiskWrite, Event, Lane, Message, Picture
from harness.report.diagram.words import RECEIVES, SENDS, family, label
from harness.trace import Act, Trace, brief
from zab.core.messages import LinkDown, LinkUp, Notification, Reachable
from zab.core.ready import Note, SendLog, SendRest, SendSnapshot

ACTS_MAX: Final = 30_000
"""The most acts of a picture. More would make the page slow; the last ones are drawn."""
UNDER_WAY_US: Final = 60_000
"""A message that was sent within this time before the end may still be under way, not lost."""
CLIENTS: Final = ("client", "node")
"""The verbs of clients of the store. A node is a client that is a process of the user's program."""
SILENT: Final = ("saved", "receives from", "fault", "heals", "violation")
"""The acts that are no events of the picture: they are drawn in another form, or not at all."""


def read(trace: Trace, servers: int) -> Picture:
    acts = trace.acts
    omitted = max(0, len(acts) - ACTS_MAX)
    return _Reader(acts, servers).picture(omitted)


class _Reader:
    def __init__(self, acts: list[Act], servers: int) -> None:
        self.acts = acts
        self.end = acts[-1][0] if acts else 0
        seen = max([servers, *(act[1] for act in acts)])
        clients = sorted({act[3] for act in acts if act[2] in CLIENTS})
        self._client_name = {act[3]: f"{act[2]} {act[3]}" for act in acts if act[2] in CLIENTS}
        self.lanes = [Lane(f"server {sid}", True) for sid in range(1, seen + 1)]
        self.lanes += [Lane(self._client_name[number], False) for number in clients]
        self._client_lane = {number: seen + place for place, number in enumerate(clients)}
        self.servers = seen
        self.events: list[Event] = []
        self.messages: list[Message] = []
        self.disk_writes: list[DiskWrite] = []
        self._sent: defaultdict[tuple[int, int, bool], list[tuple[object, int]]] = defaultdict(list)
        """The messages that are sent and not received yet, with their events, by source, target and channel."""
        self._unsaved: list[dict[int, int]] = [{} for _ in range(seen)]
        """The places in `disk_writes` of writes that are not durable, by lane and ticket."""
        self._calls: dict[int, tuple[int, int]] = {}
        """The invocation event and the server's lane of each open call, by call."""
        self.bands = _Bands(seen)
        self.faults = Faults(self.bands.leader, self.bands.follower, seen, self._client_lane)

    def picture(self, omitted: int) -> Picture:
        for number, act in enumerate(self.acts):
            self._read(act, number >= omitted)
        self._add_unreceived()
        return Picture(
            tuple(self.lanes),
            tuple(self.events),
            tuple(sorted(self.messages, key=lambda message: message.sent)),
            tuple(self.bands.finish(self.end)),
            tuple(self.faults.finish(self.end)),
            tuple(self.disk_writes),
            self.end,
            omitted,
        )

    def _read(self, act: Act, drawn: bool) -> None:
        at, server, verb, other, what = act
        self.bands.add(act)
        if not server:
            if verb in CLIENTS and drawn:
                self._client(at, other, what)
            elif verb not in CLIENTS:
                self.faults.add(act)
            return
        if verb == "comes to":
            self.faults.reach(at, server, str(what))
        if not drawn:
            return
        lane = server - 1
        if verb == "saved":
            self._saved(at, lane, what)
        if verb in SILENT:
            return
        self.events.append(_event(at, lane, verb, other, what))
        event = len(self.events) - 1
        if verb == "saves":
            self._saves(at, lane, what)
        elif verb == "would say to":
            kind, words = family(verb, what), label(what)
            self.messages.append(Message(lane, other - 1, event, None, True, kind, words))
        elif verb in SENDS and not isinstance(what, SendLog | SendRest | SendSnapshot):
            self._sent[server, other, type(what) is Notification].append((what, event))
        elif verb == RECEIVES and not isinstance(what, LinkUp | LinkDown | Reachable):
            self._received(lane, server, other, what, event)

    # -- messages --------------------------------------------------------------------------------------

    def _received(self, lane: int, server: int, source: int, what: object, event: int) -> None:
        """Match a receipt with the earliest equal message. Earlier messages of the same stream are lost then."""
        election = type(what) is Notification
        waiting = self._sent[source, server, election]
        place = next((place for place, (message, _) in enumerate(waiting) if message is what), None)
        if place is None:
            place = next((place for place, (message, _) in enumerate(waiting) if message == what), None)
        if place is None:
            return  # duplicated by the network, or sent without a record
        self._add(source - 1, lane, waiting[place][1], event, False, what)
        if not election:
            for message, sent in waiting[:place]:
                self._add(source - 1, lane, sent, None, True, message)
            del waiting[: place + 1]
        else:
            del waiting[place]

    def _add_unreceived(self) -> None:
        for (source, target, _), waiting in self._sent.items():
            for what, event in waiting:
                lost = self.events[event].at < self.end - UNDER_WAY_US
                self._add(source - 1, target - 1, event, None, lost, what)

    def _add(self, source: int, target: int, sent: int, received: int | None, lost: bool, what: object) -> None:
        if target < self.servers:
            kind = family("says to", what)
            self.messages.append(Message(source, target, sent, received, lost, kind, label(what)))

    # -- disks -----------------------------------------------------------------------------------------

    def _saves(self, at: int, lane: int, what: Any) -> None:
        self._unsaved[lane][what.ticket] = len(self.disk_writes)
        self.disk_writes.append(DiskWrite(lane, at, None, brief(what)))

    def _saved(self, at: int, lane: int, ticket: Any) -> None:
        """End all writes up to this ticket: the disk reports them together."""
        unsaved = self._unsaved[lane]
        for each in [each for each in unsaved if each <= ticket]:
            place = unsaved.pop(each)
            was = self.disk_writes[place]
            self.disk_writes[place] = DiskWrite(lane, was.begin, at, was.label)

    # -- clients ---------------------------------------------------------------------------------------

    def _client(self, at: int, client: int, what: object) -> None:
        lane = self._client_lane[client]
        match what:
            case Invoke(call=call, server=server, request=request):
                words = f"{request.op} {request.path}".strip()
                self._calls[call] = (len(self.events), server - 1)
            case Response(call=call, reply=reply):
                words = reply.error or "done"
            case Invoked(call=call, server=server):
                words = f"invoke {what.words}"
                self._calls[call] = (len(self.events), server - 1)
            case Returned(call=call):
                words = f"{what.type} {what.words}"
            case Info():
                words = "no answer"
            case WatchFired(event=event, path=path):
                words = f"{event} {path}"
            case SessionEvent(state=state, server=server):
                words = f"{state} at {server}" if state == "connected" else state
            case str():
                words = what
            case _:
                words = type(what).__name__
        self.events.append(Event(at, lane, "clients", words, f"{self._client_name[client]}: {brief(what)}"))
        number = len(self.events) - 1
        if isinstance(what, Invoke | Invoked):
            self.messages.append(Message(lane, what.server - 1, number, number, False, "clients", words))
        elif isinstance(what, Response | Returned) and what.call in self._calls:
            _, server_lane = self._calls.pop(what.call)
            self.messages.append(Message(server_lane, lane, number, number, False, "clients", words))


def _event(at: int, lane: int, verb: str, other: int, what: object) -> Event:
    peer = f" {other}" if other else ""
    words = brief(what)
    text = f"server {lane + 1} {verb}{peer} {words}".strip()
    if isinstance(what, Note):
        short = what.event.replace("_", " ")
    elif verb in SENDS or verb == RECEIVES:
        short = label(what)
    else:
        short = f"{verb} {words}".strip() if len(words) < 24 else verb
    return Event(at, lane, family(verb, what), short, text)


class _Bands:
    """Read the roles of servers from their notes."""

    def __init__(self, servers: int) -> None:
        self._now: list[tuple[int, str, str]] = [(0, "down", "")] * servers
        self._before_pause: list[tuple[str, str]] = [("looking", "")] * servers
        self._done: list[Band] = []

    def add(self, act: Act) -> None:
        at, server, verb, _, what = act
        if not server:
            return
        if verb == "starts":
            self._becomes(at, server, "looking", "looks for a leader")
        elif verb in ("crashes", "stops"):
            self._becomes(at, server, "down", "down")
        elif verb == "pauses":
            self._before_pause[server - 1] = self._now[server - 1][1:]
            self._becomes(at, server, "paused", "paused")
        elif verb == "resumes":
            self._becomes(at, server, *self._before_pause[server - 1])
        elif isinstance(what, Note):
            self._noted(at, server, what.event, dict(what.fields))

    def _noted(self, at: int, server: int, event: str, fields: dict[str, object]) -> None:
        if event == "looking":
            self._becomes(at, server, "looking", "looks for a leader")
        elif event == "elected" and fields["leader"] == server:
            self._becomes(at, server, "elected", "is elected")
        elif event == "elected":
            self._becomes(at, server, "joins", f"joins {fields['leader']}")
        elif event == "established":
            self._becomes(at, server, "leads", f"leads epoch {fields['epoch']}")
        elif event == "up_to_date":
            self._becomes(at, server, "follows", f"follows {fields['leader']} in epoch {fields['epoch']}")

    def _becomes(self, at: int, server: int, state: str, words: str) -> None:
        begin, was, label = self._now[server - 1]
        if at > begin:
            self._done.append(Band(server - 1, begin, at, was, label))
        self._now[server - 1] = (at, state, words)

    def leader(self) -> int | None:
        """Return the lane of the leader; if several lead, of the one that began last."""
        leading = [(begin, lane) for lane, (begin, state, _) in enumerate(self._now) if state == "leads"]
        if not leading:
            leading = [(begin, lane) for lane, (begin, state, _) in enumerate(self._now) if state == "elected"]
        return max(leading)[1] if leading else None

    def follower(self) -> int | None:
        return next((lane for lane, (_, state, _) in enumerate(self._now) if state in ("follows", "joins")), None)

    def finish(self, end: int) -> list[Band]:
        last = [Band(lane, begin, end, state, words) for lane, (begin, state, words) in enumerate(self._now)]
        return sorted([*self._done, *last], key=lambda band: (band.lane, band.begin))
