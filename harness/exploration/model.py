"""The global states of an exploration, and the steps between them.

A state is a flat tuple of small integers: the states of three servers, the contents of the channels, the state of the
judge, and the spent part of each bound. A channel is a FIFO queue from one server to another. A link has two: `up`
from the server that dialled and `down` to it. The messages of elections have a third one, without a link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import permutations, product
from operator import itemgetter
from typing import Final, TypeAlias

from attrs import frozen

from harness.checkers import Violation
from harness.exploration.canonical import Key, Sid, Walk, renamed
from harness.exploration.observer import JudgeStates
from harness.exploration.servers import IDS, Numbers, ServerStates, ServerView, Step

State: TypeAlias = tuple[int, ...]
Label: TypeAlias = tuple[str, int, int, int]
"""The kind of a step, the places of its server and of the other server, and the number of the message; -1 if none."""

SERVERS: Final = len(IDS)
_PAIRS: Final = [(one, other) for one in range(SERVERS) for other in range(SERVERS) if one != other]
_AT: Final = {
    (kind, one, other): SERVERS + number * len(_PAIRS) + place
    for number, kind in enumerate(("up", "down", "election"))
    for place, (one, other) in enumerate(_PAIRS)
}
"""The place of a channel in a state, by its kind and by the places of sender and receiver."""
_CHANNELS: Final = SERVERS + 3 * len(_PAIRS)
JUDGE, TXNS, CRASHES, CUTS, LEADERS, STALLS, CUT_OFF = range(_CHANNELS, _CHANNELS + 7)
_CONNECT, _CONNECTED, _GONE, _BROKEN, _REACHABLE = range(5)
_ENDS: Final = frozenset({_GONE, _BROKEN})
_ORDERS: Final = tuple(permutations(range(SERVERS)))


@frozen
class Bounds:
    """The largest number of events of each kind in one execution."""

    transactions: int = 1
    crashes: int = 1
    cuts: int = 0
    leaders: int = 2
    """The number of times that a server begins to lead."""
    stalls: int = 0
    """The number of times that a server stops for longer than its timeouts, unless it only waits for a timeout."""


@frozen
class Move:
    """A step from one state to the next, or into a violation."""

    label: Label
    state: State
    violation: Violation | None = None


class Model:
    """The transition system that is explored."""

    def __init__(self, bounds: Bounds, *, oracle: bool = True, reduced: bool = True) -> None:
        self.bounds = bounds
        self.oracle = oracle
        """True if any election may have any result; False if the servers elect by votes."""
        self.reduced = reduced
        """True if only one order of independent steps is explored, in states in which one suffices."""
        self.servers = ServerStates(oracle=oracle)
        self.judge = JudgeStates(self.servers.facts, oracle=oracle)
        self.contents: Numbers[tuple[int, ...]] = Numbers(())
        keys = self.servers.keys.values.__getitem__, self.contents_key
        self._hashes = [(*[_hashes(key, order) for key in keys], _judge_hashes(self.judge, order)) for order in _ORDERS]
        """The hash functions of server states, channels and judge states, for each renaming of the servers."""
        self._sign = cache(lambda server: min([hashes[0](server) for hashes in self._hashes]))
        """A hash of a server's state that does not depend on the names of the servers."""

    def initial(self) -> State:
        """Return the state after the start of all servers."""
        state = [*self.servers.initial, *[0] * (_CHANNELS - SERVERS), self.judge.initial, *[0] * 6]
        steps = [self.servers.step(state[place], ("begin",)) for place in range(SERVERS)]
        for place, step in enumerate(steps):
            state[place] = step.state
        for place, step in enumerate(steps):
            violation = self._finish(state, place, step)
            if violation is not None:
                raise violation
        return tuple(state)

    # -- steps -----------------------------------------------------------------------------------------

    def moves(self, state: State) -> Iterator[Move]:
        """Yield every step that is enabled, or with `reduced` a persistent set of them."""
        alone = self._independent(state) if self.reduced else None
        if alone is not None:
            yield from self._moves_of(state, alone)
            return
        for place in range(SERVERS):
            yield from self._moves_of(state, place)
        if state[CUT_OFF]:
            yield self._heal(state)

    def _moves_of(self, state: State, place: int) -> Iterator[Move]:
        bounds = self.bounds
        view = self.servers.views[state[place]]
        if not view.up:
            yield self._act(state, place, "restarts", ("begin",))
            return
        yield from self._deliveries(state, place)
        if view.writing:
            yield self._act(state, place, "completes a write", ("write",))
        if view.established and state[TXNS] < bounds.transactions:
            payload = b"%d" % (state[TXNS] + 1)
            yield self._act(state, place, "proposes", ("offer", payload), counted=TXNS)
        if view.decided:
            yield self._act(state, place, "decides the election", ("decide",))
        if view.looking and self.oracle:
            yield from self._elections(state, place)
        if view.stuck:
            yield self._act(state, place, "times out", ("stall",))
        elif state[STALLS] < bounds.stalls and not (view.looking and self.oracle):
            yield self._act(state, place, "times out", ("stall",), counted=STALLS)
        if state[CRASHES] < bounds.crashes:
            yield self._crash(state, place)
        if not state[CUT_OFF] and state[CUTS] < bounds.cuts:
            yield self._cut(state, place)

    def _independent(self, state: State) -> int | None:
        """Return a server whose enabled steps are a persistent set, or None.

        The steps of one server are persistent if nothing that the others do first can enable another step of it, or
        change one. So no fault may be left, no server may be down, and each channel to this server on which another
        server can put a message must hold one already: a delivery takes the first message, and others only append.
        A LOOKING server is never chosen, because its choices depend on the servers that lead; and neither is a leader
        that a LOOKING server could follow, nor one of two leaders, which share the bound on transactions.
        """
        bounds = self.bounds
        if (state[CRASHES], state[CUTS], state[STALLS]) != (bounds.crashes, bounds.cuts, bounds.stalls):
            return None
        views = [self.servers.views[number] for number in state[:SERVERS]]
        if state[CUT_OFF] or not self.oracle or not all(view.up for view in views):
            return None
        looking = any(view.looking for view in views)
        leaders = sum(view.leading for view in views)
        for place, view in enumerate(views):
            if view.looking or (view.leading and (looking or leaders > 1)):
                continue
            if self._waits_for_none(state, place, views):
                return place
        return None

    def _waits_for_none(self, state: State, place: int, views: list[ServerView]) -> bool:
        """Return True if the server has a step, and no channel to it is empty on which a message can arrive."""
        enabled = views[place].writing or views[place].stuck
        for other in range(SERVERS):
            if other == place:
                continue
            if state[_AT["up", other, place]]:
                enabled = True
            elif views[other].follows == IDS[place] or IDS[place] in views[other].dialled | views[other].dialling:
                return False
            if state[_AT["down", other, place]]:
                enabled = True
            elif IDS[other] in views[place].dialled | views[place].dialling:
                return False
        return enabled

    def _elections(self, state: State, place: int) -> Iterator[Move]:
        """Yield every result of the election. A vote binds no server, so the protocol must allow all results."""
        if state[LEADERS] < self.bounds.leaders:
            yield self._act(state, place, "leads", ("elect", IDS[place]), counted=LEADERS)
        for leader in range(SERVERS):
            if self.servers.views[state[leader]].leading and self._reaches(state, place, leader):
                yield self._act(state, place, "follows", ("elect", IDS[leader]), leader)

    def _deliveries(self, state: State, place: int) -> Iterator[Move]:
        for other in range(SERVERS):
            if other == place:
                continue
            for kind in ("up", "down", "election") if not self.oracle else ("up", "down"):
                contents = self.contents.values[state[_AT[kind, other, place]]]
                if not contents:
                    continue
                yield self._deliver(state, place, other, kind, contents)
                if _BROKEN in contents[1:]:
                    yield self._deliver(state, place, other, kind, contents[contents.index(_BROKEN) :])

    def _deliver(self, state: State, place: int, other: int, kind: str, contents: tuple[int, ...]) -> Move:
        """Deliver the first message of a channel. `contents` may lack the messages that a broken link has lost."""
        message, peer, dialled = contents[0], IDS[other], kind == "down"
        after = list(state)
        after[_AT[kind, other, place]] = self.contents.of(contents[1:])
        if message == _CONNECT:
            self._put(after, "down", place, other, _CONNECTED)
            step = self.servers.step(state[place], ("link_up", peer, False))
        elif message == _CONNECTED:
            step = self.servers.step(state[place], ("link_up", peer, True))
        elif message in _ENDS:
            step = self.servers.step(state[place], ("link_down", peer, dialled))
            return self._done(
                ("loses its link to" if dialled else "loses the link from", place, other, -1), after, place, step
            )
        else:
            step = self.servers.step(state[place], ("receive", peer, message))
        return self._done(("receives from", place, other, message), after, place, step)

    def _act(
        self,
        state: State,
        place: int,
        kind: str,
        given: tuple[object, ...],
        other: int = -1,
        counted: int | None = None,
    ) -> Move:
        after = list(state)
        if counted is not None:
            after[counted] += 1
        step = self.servers.step(state[place], given)
        move = self._done((kind, place, other, -1), after, place, step)
        if kind != "restarts" or self.oracle:
            return move
        after = list(move.state)
        self._reopen(after, place)
        return Move(move.label, tuple(after), move.violation)

    def _crash(self, state: State, place: int) -> Move:
        after = list(state)
        after[CRASHES] += 1
        self._isolate(after, place, crashed=True)
        return self._done(("crashes", place, -1, -1), after, place, self.servers.step(state[place], ("fall",)))

    def _cut(self, state: State, place: int) -> Move:
        after = list(state)
        after[CUTS] += 1
        after[CUT_OFF] = place + 1
        self._isolate(after, place, crashed=False)
        return Move(("is cut off", place, -1, -1), tuple(after))

    def _heal(self, state: State) -> Move:
        after = list(state)
        place = state[CUT_OFF] - 1
        after[CUT_OFF] = 0
        if not self.oracle:
            self._reopen(after, place)
        return Move(("is healed", place, -1, -1), tuple(after))

    def _done(self, label: tuple[str, int, int, int], after: list[int], place: int, step: Step) -> Move:
        after[place] = step.state
        violation = self._finish(after, place, step)
        return Move(label, tuple(after), violation)

    def _finish(self, after: list[int], place: int, step: Step) -> Violation | None:
        """Apply the outputs of a step, and pass its facts to the judge."""
        for kind, peer, dialled, message in step.outputs:
            other = peer - 1
            if kind == "send":
                self._send(after, place, other, dialled, message)
            elif kind == "dial":
                self._dial(after, place, other)
            elif kind == "hang up":
                self._hang_up(after, place, other, dialled)
            elif self._reaches(after, place, other) and self.servers.views[after[other]].up:
                self._put(after, "election", place, other, message)
        if step.facts:
            judged = self.judge.step(after[JUDGE], step.facts)
            if isinstance(judged, Violation):
                return judged
            after[JUDGE] = judged
        return None

    # -- links -----------------------------------------------------------------------------------------

    def _reaches(self, state: State | list[int], one: int, other: int) -> bool:
        return state[CUT_OFF] - 1 not in (one, other)

    def _reopen(self, after: list[int], place: int) -> None:
        """Report new connections of the election channel to both ends."""
        for other in range(SERVERS):
            if other != place and self.servers.views[after[other]].up and self._reaches(after, place, other):
                self._put(after, "election", place, other, _REACHABLE)
                self._put(after, "election", other, place, _REACHABLE)

    def _put(self, after: list[int], kind: str, source: int, target: int, message: int) -> None:
        at = _AT[kind, source, target]
        after[at] = self.contents.of((*self.contents.values[after[at]], message))

    def _holds(self, after: list[int], kind: str, source: int, target: int) -> tuple[int, ...]:
        return self.contents.values[after[_AT[kind, source, target]]]

    def _send(self, after: list[int], place: int, other: int, dialled: bool, message: int) -> None:
        """Put a message on a link. It is lost if the other end is closed, or belongs to a later link already."""
        back = self._holds(after, "down" if dialled else "up", other, place)
        if _ENDS.isdisjoint(back) and (dialled or _CONNECT not in back):
            self._put(after, "up" if dialled else "down", place, other, message)

    def _dial(self, after: list[int], place: int, other: int) -> None:
        after[_AT["down", other, place]] = 0
        if self._reaches(after, place, other) and self.servers.views[after[other]].up:
            self._put(after, "up", place, other, _CONNECT)
        else:
            self._put(after, "down", other, place, _GONE)

    def _hang_up(self, after: list[int], place: int, other: int, dialled: bool) -> None:
        if dialled:
            after[_AT["down", other, place]] = 0
            self._leave(after, "up", place, other, _GONE)
            return
        up = self._holds(after, "up", other, place)
        redialled = _CONNECT in up
        if not redialled and _ENDS.isdisjoint(up):
            self._put(after, "down", place, other, _GONE)
        after[_AT["up", other, place]] = self.contents.of((_CONNECT,) if redialled else ())

    def _leave(self, after: list[int], kind: str, source: int, target: int, end: int) -> None:
        """End one direction of a link: remove a pending CONNECT, and append `end` to the messages under way."""
        at = _AT[kind, source, target]
        contents = self.contents.values[after[at]]
        if contents and contents[-1] == _CONNECT:
            contents = contents[:-1]
        view = self.servers.views[after[target]]
        open_there = view.accepted if kind == "up" else view.dialled | view.dialling
        if not _ENDS.isdisjoint(contents):
            contents = (*contents[:-1], max(contents[-1], end))
        elif IDS[source] in open_there:
            contents = (*contents, end)
        after[at] = self.contents.of(contents)

    def _isolate(self, after: list[int], place: int, *, crashed: bool) -> None:
        """Break all links of a server. Each end receives the messages under way, and then the break."""
        for one, two in _PAIRS:
            if place not in (one, two):
                continue
            after[_AT["election", one, two]] = 0
            for kind in ("up", "down"):
                if crashed and two == place:
                    after[_AT[kind, one, two]] = 0
                else:
                    self._leave(after, kind, one, two, _BROKEN)

    # -- equal states ------------------------------------------------------------------------------------

    def fingerprint(self, state: State) -> int:
        """Return a hash. If elections are free, states that differ only in the names of servers have equal hashes.

        The servers are sorted by signs that do not depend on names; if signs are equal, the least hash counts.
        """
        if not self.oracle:
            return self._fingerprint(state, 0)
        orders = _SORTED[_compared(*map(self._sign, state[:SERVERS]))]
        return min([self._fingerprint(state, order) for order in orders])

    def _fingerprint(self, state: State, order: int) -> int:
        servers, channels, judges = self._hashes[order]
        cut_off = state[CUT_OFF]
        return hash((
            *map(servers, _OLD_SERVERS[order](state)),
            *map(channels, _OLD_CHANNELS[order](state)),
            judges(state[JUDGE]),
            state[TXNS:CUT_OFF],
            cut_off and _ORDERS[order][cut_off - 1] + 1,
        ))  # fmt: skip

    def contents_key(self, number: int) -> Key:
        messages = self.servers.messages.values
        return tuple([Walk({}).key(messages[each]) for each in self.contents.values[number]])


_BACK: Final = [tuple(order.index(place) for place in range(SERVERS)) for order in _ORDERS]
"""The old places of the servers, for each order."""
_OLD_SERVERS: Final = [itemgetter(*back) for back in _BACK]
_OLD_CHANNELS: Final = [
    itemgetter(*[_AT[kind, back[one], back[two]] for kind in ("up", "down", "election") for one, two in _PAIRS])
    for back in _BACK
]


def _compared(one: int, two: int, three: int) -> tuple[int, int, int]:
    return (one > two) - (one < two), (two > three) - (two < three), (one > three) - (one < three)


_SORTED: Final = {
    _compared(*signs): [number for number, back in enumerate(_BACK) if [signs[old] for old in back] == sorted(signs)]
    for signs in product(range(SERVERS), repeat=SERVERS)
}
"""The orders that sort three signs, by the comparisons of the signs."""


def _hashes(key: Callable[[int], Key], order: tuple[int, ...]) -> Callable[[int], int]:
    """Return a function that hashes the key of a part under one renaming of the servers."""
    names = {0: Sid(0), **{place + 1: IDS[new] for place, new in enumerate(order)}}
    return cache(lambda number: hash(renamed(key(number), names)))


def _judge_hashes(judge: JudgeStates, order: tuple[int, ...]) -> Callable[[int], int]:
    of = _hashes(judge.parts.values.__getitem__, order)

    def hashed(number: int) -> int:
        parts = [of(part) for part in judge.keys.values[number]]
        return hash((frozenset(parts[:SERVERS]), *parts[SERVERS:]))

    return cache(hashed)
