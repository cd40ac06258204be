"""The search that decides everything, given time: Wing and Gong's, with Lowe's memory of what was tried.

It walks along calls and returns. A call that the model accepts is *placed*, and the walk begins again without it;
a return whose operation is not placed yet says that something placed earlier was wrong: the last placement is taken
back. What was placed, and the state it led to, is remembered; meeting it again means that it leads nowhere.
The cost is linear in the length of a history and exponential in how much of it overlaps.

It keeps its own stack, so no history is too long for it, and it can be stopped and carried on: `advance`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from itertools import pairwise
from math import inf

from attrs import frozen

from harness.checkers.linear.history import Operation
from harness.checkers.linear.models import Model, State


class Answer(Enum):
    LEGAL = "legal"
    ILLEGAL = "illegal"
    OPEN = "open"


@frozen
class _Placed:
    """How to take it back."""

    entry: int
    choice: int
    state: State
    base: int
    window: int
    floating: int


class Search:
    """One search over operations that are judged together."""

    def __init__(self, operations: Iterable[Operation], model: Model) -> None:
        # A read without an answer says nothing and does nothing.
        ops = [op for op in operations if op.known or not model.pure(op)]
        self._model = model
        self._known = sorted((op for op in ops if op.known), key=lambda op: (op.call, op.id))
        self._floating = sorted((op for op in ops if not op.known), key=lambda op: (op.call, op.id))
        self._ops = [*self._known, *self._floating]
        self._pure = [model.pure(op) for op in self._ops]
        self._link()
        self._state = model.initial()
        # Placed known operations are those before `base`, and the bits of `window` from there on: a mask of the
        # whole history would make each step as dear as the history is long.
        self._base = 0
        self._window = 0
        self._float = 0
        self._stack: list[_Placed] = []
        self._seen: set[tuple[int, int, int, State]] = set()
        self._left = len(self._known)
        self._entry = self._next[self._head]
        self._choice = 0
        """Which of the states that the model allows behind the operation at `_entry` is the next to try."""
        self.steps = 0
        self.order: tuple[int, ...] = ()
        self.stuck: Operation | None = None
        """When illegal: the operation that no attempt could place, after the longest order that was found."""
        self._furthest = -inf
        self.answer = Answer.OPEN if self._left else Answer.LEGAL

    def _link(self) -> None:
        """Entry 2i is the call of operation i, 2i + 1 its return. Calls stand before returns of the same instant."""
        events: list[tuple[int, bool, int]] = []
        for number, op in enumerate(self._ops):
            events.append((op.call, False, 2 * number))
            if op.ret is not None:
                events.append((op.ret, True, 2 * number + 1))
        events.sort()
        self._head = 2 * len(self._ops)
        end = self._head + 1
        line = [self._head, *(entry for _, _, entry in events), end]
        self._next = [end] * (end + 1)
        self._prev = [self._head] * (end + 1)
        for one, two in pairwise(line):
            self._next[one] = two
            self._prev[two] = one

    def _lift(self, number: int) -> None:
        for entry in (2 * number, 2 * number + 1)[: 1 + self._ops[number].known]:
            before, behind = self._prev[entry], self._next[entry]
            self._next[before], self._prev[behind] = behind, before

    def _put_back(self, number: int) -> None:
        for entry in (2 * number + 1, 2 * number)[not self._ops[number].known :]:
            self._next[self._prev[entry]] = entry
            self._prev[self._next[entry]] = entry

    def advance(self, steps: int) -> Answer:
        """At most so many steps more. A step asks the model once, or takes one placement back."""
        limit = self.steps + steps
        while self.answer is Answer.OPEN and self.steps < limit:
            self.steps += 1
            number = self._entry // 2
            if self._entry % 2:  # a return: all that was called before it has been tried
                self._remember_stuck(number)
                self._take_back()
                continue
            placed = self._place(number, self._choice)
            self._choice = 0
            if placed:
                self._entry = self._next[self._head]
                if not self._left:
                    self.order = tuple(self._ops[frame.entry // 2].id for frame in self._stack)
                    self.answer = Answer.LEGAL
            elif placed is False and self._pure[number]:
                # It could be placed, and whatever follows is refuted: so is everything without it.
                self._take_back()
            else:
                self._entry = self._next[self._entry]
        return self.answer

    def _place(self, number: int, choice: int) -> bool | None:
        """True: placed. False: the model accepts it, but what follows was refuted before. None: not acceptable."""
        op = self._ops[number]
        states = self._model.step(self._state, op)
        for at in range(choice, len(states)):
            base, window, floating = self._base, self._window, self._float
            if op.known:
                window |= 1 << (number - base)
                while window & 1:
                    window >>= 1
                    base += 1
            else:
                floating |= 1 << (number - len(self._known))
            key = (base, window, floating, states[at])
            if key in self._seen:
                continue
            self._seen.add(key)
            self._stack.append(_Placed(2 * number, at, self._state, self._base, self._window, self._float))
            self._state, self._base, self._window, self._float = states[at], base, window, floating
            self._left -= op.known
            self._lift(number)
            return True
        return False if states else None

    def _take_back(self) -> None:
        """The last placement that could have been otherwise; go on with the next choice for it."""
        while self._stack:
            frame = self._stack.pop()
            number = frame.entry // 2
            self._state, self._base, self._window, self._float = frame.state, frame.base, frame.window, frame.floating
            self._left += self._ops[number].known
            self._put_back(number)
            if not self._pure[number]:
                self._entry, self._choice = frame.entry, frame.choice + 1
                return
        self.answer = Answer.ILLEGAL

    def _remember_stuck(self, number: int) -> None:
        done = len(self._known) - self._left
        if done > self._furthest:
            self._furthest = done
            self.stuck = self._ops[number]
