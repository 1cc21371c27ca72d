"""The steps of a compiled part: one for each operator, over all items of a batch.

Rates are fixed, so which firing takes which items follows from counts alone: how many
items have come, and how many waited. That gives both the slices of the arrays and, for
every output, the item of the batch that set it off (its *trigger*), from which the
positions of outputs are made.

A step changes no state. It notes what the state will be, in the very form in which the
operator's kernel keeps it, and the whole batch is noted down at the end or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from anabranch.graph.graph import Op, Output
from anabranch.plan.plan import Column, Kernel
from anabranch.runtime.compiled.arrays import DTYPES, Array, to_arrays, to_items
from anabranch.runtime.compiled.build import Fire
from anabranch.runtime.compiled.threads import Threads

Triggers: TypeAlias = npt.NDArray[np.int64]
Change: TypeAlias = Callable[[], None]


class GoneWrongError(Exception):
    """The batch at hand must go through Python."""


@dataclass
class Stream:
    """Items as arrays, and the place in the batch of the item behind each."""

    arrays: list[Array]
    triggers: Triggers

    def __len__(self) -> int:
        return len(self.triggers)


@dataclass
class Flow:
    """A batch on its way: what each stream holds, and what states become."""

    states: Mapping[str, Any]
    streams: dict[Output, Stream] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)


class FireStep:
    """An operator with a kernel. Its state, if it has one, is the items that wait."""

    def __init__(
        self,
        op: Op,
        kernel: Kernel,
        fire: Fire,
        item_type: type | None,
        threads: int = 1,
    ) -> None:
        self._threads = Threads(threads)
        self._op = op
        self._kernel = kernel
        self._fire = fire
        self._item_type = item_type  # of what comes in
        self._constants = np.array(kernel.constants, np.float64)

    def __call__(self, flow: Flow) -> None:
        kernel = self._kernel
        came = flow.streams[self._op.inputs[0]]
        arrays, waiting = came.arrays, 0
        states = flow.states.get(self._op.name)
        if states is not None:
            state = states[()]
            waiting = len(state)
            arrays = _behind(state, came.arrays, kernel.takes, self._item_type)
        count = waiting + len(came)
        firings = max(0, (count - kernel.peek) // kernel.pop + 1)
        size = firings * kernel.push
        made: list[Array] = [np.empty(size, DTYPES[c.kind]) for c in kernel.gives]
        if firings and self._fired(firings, arrays, made):
            raise GoneWrongError
        first = kernel.peek - 1 - waiting
        triggers = came.triggers[first :: kernel.pop][:firings]
        if kernel.push != 1:
            triggers = np.repeat(triggers, kernel.push)
        flow.streams[Output(self._op.name)] = Stream(made, triggers)
        if states is not None:
            left = [array[firings * kernel.pop :] for array in arrays]
            rest = to_items(left, self._item_type)
            flow.changes.append(lambda: state.__setitem__(slice(None), rest))

    def _fired(self, firings: int, arrays: list[Array], made: list[Array]) -> bool:
        """Fire as often as there are items for, by several threads if that is worth it.

        Each thread has its own firings in a row, so it takes whole blocks, and what it
        writes lies where one thread alone would have written it. What a block sees
        beyond what it takes is read by both neighbours.
        """
        kernel, constants = self._kernel, self._constants
        ways = self._threads.ways(firings)
        began_s = perf_counter()
        if ways == 1:
            bad = self._fire(firings, *arrays, *made, constants)
        else:
            ends = [firings * n // ways for n in range(ways + 1)]

            def fire(first: int, last: int) -> bool:
                seen = [array[first * kernel.pop :] for array in arrays]
                out = [a[first * kernel.push : last * kernel.push] for a in made]
                return self._fire(last - first, *seen, *out, constants)

            bad = any(self._threads.each(fire, pairwise(ends)))
        self._threads.learn(firings, (perf_counter() - began_s) * ways)
        return bool(bad)


class DealStep:
    """A splitter that deals items out by turns."""

    def __init__(self, op: Op, weights: Sequence[int]) -> None:
        self._op = op
        self._turns = Turns(weights)

    def __call__(self, flow: Flow) -> None:
        came = flow.streams[self._op.inputs[0]]
        state = flow.states[self._op.name][()]
        start = self._turns.place(*state)
        whose = self._turns.sequence(start, len(came))
        for port in range(len(self._turns.weights)):
            chosen = whose == port
            flow.streams[Output(self._op.name, port)] = Stream(
                [array[chosen] for array in came.arrays], came.triggers[chosen]
            )
        if len(came):
            branch, left = self._turns.at(start + len(came) - 1)
            rest = [branch, left - 1]
            flow.changes.append(lambda: state.__setitem__(slice(None), rest))


class CollectStep:
    """A joiner that takes from its branches by turns; what is not due waits."""

    def __init__(
        self,
        op: Op,
        weights: Sequence[int],
        columns: Sequence[Column],
        item_type: type | None,
    ) -> None:
        self._op = op
        self._turns = Turns(weights)
        self._columns = columns
        self._item_type = item_type

    def __call__(self, flow: Flow) -> None:
        state = flow.states[self._op.name][()]
        queues, branch, left = state
        start = self._turns.place(branch, left)
        streams = [
            self._with_waiting(queue, flow.streams[source])
            for queue, source in zip(queues, self._op.inputs, strict=True)
        ]
        count = self._turns.due(start, [len(stream) for stream in streams])
        whose = self._turns.sequence(start, count)
        made: list[Array] = [np.empty(count, DTYPES[c.kind]) for c in self._columns]
        triggers = np.empty(count, np.int64)
        rests = []
        for port, stream in enumerate(streams):
            chosen = whose == port
            taken = int(np.count_nonzero(chosen))
            for array, own in zip(made, stream.arrays, strict=True):
                array[chosen] = own[:taken]
            triggers[chosen] = stream.triggers[:taken]
            rest = [own[taken:] for own in stream.arrays]
            if not self._turns.weights[port]:  # its turn never comes
                rest = [own[:0] for own in stream.arrays]
            rests.append(to_items(rest, self._item_type))
        # What waits for another branch is set off by what that branch then brings.
        flow.streams[Output(self._op.name)] = Stream(
            made, np.maximum.accumulate(triggers)
        )
        now = self._turns.at(start + count)
        flow.changes.append(lambda: _collected(state, rests, *now))

    def _with_waiting(self, queue: Any, came: Stream) -> Stream:
        if not queue:
            return came
        arrays = _behind(list(queue), came.arrays, self._columns, self._item_type)
        triggers = np.concatenate([np.zeros(len(queue), np.int64), came.triggers])
        return Stream(arrays, triggers)


def _collected(state: Any, rests: list[list[Any]], branch: int, left: int) -> None:
    for queue, rest in zip(state[0], rests, strict=True):
        queue.clear()
        queue.extend(rest)
    state[1], state[2] = branch, left


class Turns:
    """Who has his turn when: `weights[i]` times in a row branch i, and around."""

    def __init__(self, weights: Sequence[int]) -> None:
        self.weights = tuple(weights)
        self._cycle = np.repeat(np.arange(len(weights)), weights)
        self._first = np.concatenate([[0], np.cumsum(weights)])

    def place(self, branch: int, left: int) -> int:
        """Return where in the cycle a branch stands that has so many turns left.

        >>> Turns([2, 1]).place(0, 1)
        1
        """
        return int(self._first[branch]) + self.weights[branch] - left

    def at(self, place: int) -> tuple[int, int]:
        """Return whose turn a place is, and how many he has left with it.

        >>> Turns([2, 1]).at(3)
        (0, 2)
        """
        place %= len(self._cycle)
        branch = int(self._cycle[place])
        return branch, self.weights[branch] - (place - int(self._first[branch]))

    def sequence(self, start: int, count: int) -> npt.NDArray[np.int64]:
        """Return whose turns the next ones are.

        >>> Turns([2, 1]).sequence(1, 4).tolist()
        [0, 1, 0, 0]
        """
        return self._cycle[(start + np.arange(count)) % len(self._cycle)]

    def due(self, start: int, waiting: Sequence[int]) -> int:
        """Return how many turns there are until somebody has nothing for his.

        >>> Turns([2, 1]).due(0, [4, 1])
        5
        """
        cycle = np.roll(self._cycle, -(start % len(self._cycle)))
        found = []
        for branch, (weight, count) in enumerate(
            zip(self.weights, waiting, strict=True)
        ):
            if weight:
                rounds, turn = divmod(count, weight)
                places = np.flatnonzero(cycle == branch)
                found.append(rounds * len(cycle) + int(places[turn]))
        return min(found)


def _behind(
    waiting: list[Any],
    arrays: list[Array],
    columns: Sequence[Column],
    item_type: type | None,
) -> list[Array]:
    """Return what has waited with what has come behind it."""
    if not waiting:
        return arrays
    before = to_arrays(waiting, columns, item_type)
    if before is None:  # left by a batch that went through Python
        raise GoneWrongError
    return [np.concatenate(pair) for pair in zip(before, arrays, strict=True)]
