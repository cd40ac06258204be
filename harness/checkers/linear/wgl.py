"""The search for a legal order: the algorithm of Wing and Gong, with Lowe's cache of visited configurations.

The search walks along calls and returns. It places a call that the model accepts, and restarts without that operation.
If it meets a return of an operation that is not placed, an earlier placement was wrong, and it takes the last one back.
It caches each set of placed operations with the resulting state, because a second visit must fail again. The cost is
linear in the length of the history and exponential in the number of overlapping operations.

The search has its own stack, so the length of a history is not limited, and `advance` can pause and resume it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from itertools import pairwise
from math import inf
from typing import TypeAlias

from attrs import frozen

from harness.checkers.linear.history import Operation
from harness.checkers.linear.models import Model, State


class Answer(Enum):
    LEGAL = "legal"
    ILLEGAL = "illegal"
    OPEN = "open"


Configuration: TypeAlias = tuple[int, int, int, State]
"""The placed operations, as (base, window, floating), and the state behind them.

The placed known operations are those before `base` and the bits of `window` from there on. A bit mask of the whole
history would make the cost of a step proportional to its length.
"""


@frozen
class _Placed:
    """One placement, with the configuration before it, for backtracking."""

    entry: int
    choice: int
    before: Configuration


class Search:
    """A search for a legal order of one part of a history."""

    def __init__(self, operations: Iterable[Operation], model: Model) -> None:
        # A read without a result has no effect and constrains nothing.
        ops = [op for op in operations if op.known or not model.pure(op)]
        self._model = model
        self._known = sorted((op for op in ops if op.known), key=lambda op: (op.call, op.id))
        self._floating = sorted((op for op in ops if not op.known), key=lambda op: (op.call, op.id))
        self._ops = [*self._known, *self._floating]
        self._pure = [model.pure(op) for op in self._ops]
        self._link()
        self._configuration: Configuration = (0, 0, 0, model.initial())
        self._stack: list[_Placed] = []
        self._seen: set[Configuration] = set()
        self._left = len(self._known)
        self._entry = self._next[self._head]
        self._choice = 0
        """The index of the next state to try, among those that the model allows after the operation at `_entry`."""
        self.steps = 0
        self.order: tuple[int, ...] = ()
        self.stuck: Operation | None = None
        """The operation that could not be placed after the longest order that was found, if the answer is ILLEGAL."""
        self._furthest = -inf
        self.answer = Answer.OPEN if self._left else Answer.LEGAL

    def _link(self) -> None:
        """Link the entries in the order of time: 2i is the call of operation i, 2i + 1 its return. At the same instant,
        calls precede returns."""
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
        """Search for at most `steps` further steps. A step evaluates the model once, or takes one placement back."""
        limit = self.steps + steps
        while self.answer is Answer.OPEN and self.steps < limit:
            self.steps += 1
            number = self._entry // 2
            if self._entry % 2:  # a return: all earlier calls have been tried
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
                # A pure operation can be placed, but leads to no order. So does every order without it.
                self._take_back()
            else:
                self._entry = self._next[self._entry]
        return self.answer

    def _place(self, number: int, choice: int) -> bool | None:
        """Place an operation. Return True if it is placed, False if all its next configurations have failed before, and
        None if the model does not accept it."""
        op = self._ops[number]
        states = self._model.step(self._configuration[3], op)
        for at in range(choice, len(states)):
            base, window, floating, _ = self._configuration
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
            self._stack.append(_Placed(2 * number, at, self._configuration))
            self._configuration = base, window, floating, states[at]
            self._left -= op.known
            self._lift(number)
            return True
        return False if states else None

    def _take_back(self) -> None:
        """Take placements back, up to the last one with another choice, and continue with that choice."""
        while self._stack:
            frame = self._stack.pop()
            number = frame.entry // 2
            self._configuration = frame.before
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
