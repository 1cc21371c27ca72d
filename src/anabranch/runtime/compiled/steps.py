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
from anabranch.runtime.compiled.turns import Turns

Triggers: TypeAlias = npt.NDArray[np.int64]
Change: TypeAlias = Callable[[], None]


class GoneWrongError(Exception):
    """The batch at hand must go through Python."""


@dataclass
class Stream:
    """Items as arrays, and the place in the batch of the item behind each.

    Where nobody asks for triggers they are not worked out.
    """

    arrays: list[Array]
    triggers: Triggers | None

    def __len__(self) -> int:
        return len(self.arrays[0])


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
        self._kept: tuple[list[Array], Any] = ([], self)

    def __call__(self, flow: Flow) -> None:
        kernel = self._kernel
        came = flow.streams[self._op.inputs[0]]
        arrays, waiting = came.arrays, 0
        states = flow.states.get(self._op.name)
        state = None if states is None else states[()]
        if state:
            waiting = len(state)
            arrays = self._behind_waiting(state, came.arrays)
        count = waiting + len(came)
        firings = max(0, (count - kernel.peek) // kernel.pop + 1)
        size = firings * kernel.push
        made: list[Array] = [np.empty(size, DTYPES[c.kind]) for c in kernel.gives]
        if firings and self._fired(firings, arrays, made):
            raise GoneWrongError
        triggers = came.triggers
        if triggers is not None:
            first = kernel.peek - 1 - waiting
            triggers = triggers[first :: kernel.pop][:firings]
            if kernel.push != 1:
                triggers = np.repeat(triggers, kernel.push)
        flow.streams[Output(self._op.name)] = Stream(made, triggers)
        if waiting or (state is not None and count > firings * kernel.pop):
            left = [array[firings * kernel.pop :] for array in arrays]
            flow.changes.append(lambda: self._keep(state, left))

    def _behind_waiting(self, state: list[Any], arrays: list[Array]) -> list[Array]:
        """Return what waits and what has come; what we left ourselves is at hand.

        That it is still what waits shows by its last item: we made that object, and
        whoever adds an item puts another one behind it.
        """
        kept, last = self._kept
        if state[-1] is last and len(state) == len(kept[0]):
            return [np.concatenate(pair) for pair in zip(kept, arrays, strict=True)]
        return _behind(state, arrays, self._kernel.takes, self._item_type)

    def _keep(self, state: Any, left: list[Array]) -> None:
        state[:] = to_items(left, self._item_type)
        if state and self._item_type is None and self._kernel.takes[0].kind == "float":
            self._kept = left, state[-1]

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
        count = len(came)
        dealt = [self._turns.dealt(start, array) for array in came.arrays]
        triggers = None
        if came.triggers is not None:
            triggers = self._turns.dealt(start, came.triggers)
        for port in range(len(self._turns.weights)):
            flow.streams[Output(self._op.name, port)] = Stream(
                [parts[port] for parts in dealt],
                None if triggers is None else triggers[port],
            )
        if count:
            branch, left = self._turns.at(start + count - 1)
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
        taken = self._turns.shares(start, count)
        made = [
            self._turns.collected(start, count, [s.arrays[n] for s in streams])
            for n in range(len(self._columns))
        ]
        triggers = None
        if all(stream.triggers is not None for stream in streams):
            own: list[Any] = [stream.triggers for stream in streams]
            # What waits for another branch is set off by what that branch then brings.
            triggers = np.maximum.accumulate(self._turns.collected(start, count, own))
        flow.streams[Output(self._op.name)] = Stream(made, triggers)
        rests = []
        for port, stream in enumerate(streams):
            never = not self._turns.weights[port]  # its turn does not come
            first = len(stream) if never else taken[port]
            rest: list[Any] = []
            if first < len(stream):
                left_over = [array[first:] for array in stream.arrays]
                rest = to_items(left_over, self._item_type)
            rests.append(rest)
        now = self._turns.at(start + count)
        flow.changes.append(lambda: _collected(state, rests, *now))

    def _with_waiting(self, queue: Any, came: Stream) -> Stream:
        if not queue:
            return came
        arrays = _behind(list(queue), came.arrays, self._columns, self._item_type)
        triggers = came.triggers
        if triggers is not None:
            triggers = np.concatenate([np.zeros(len(queue), np.int64), triggers])
        return Stream(arrays, triggers)


def _collected(state: Any, rests: list[list[Any]], branch: int, left: int) -> None:
    for queue, rest in zip(state[0], rests, strict=True):
        if queue or rest:
            queue.clear()
            queue.extend(rest)
    state[1], state[2] = branch, left


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
