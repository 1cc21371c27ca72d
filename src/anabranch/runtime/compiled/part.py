"""A compiled part of an element: one step per operator, over a whole batch.

Rates are fixed, so the items of each firing follow from counts alone: the number of new
and of waiting items. That gives the slices of the arrays and, for every output, the
item of the batch that triggered it, from which the positions of outputs are made.

A step changes no state. It records the next state, in the form that the operator's
kernel uses, and the states of the whole batch are written at the end or not at all.

A small generated function calls the steps, one line per operator, so that the profiler
can locate a thread, as in any generated program.

A failing item is identified by the progress of the iterator over the batch. The steps
read the batch at different times, so each iterates over a copy, and the iterator is
moved to where it would be if every item had gone through alone.
"""

from __future__ import annotations

import copy
import itertools
import linecache
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from anabranch.graph.graph import Edge, Graph, Op, Output
from anabranch.operators.blocks import Collect, Deal
from anabranch.plan.plan import ArrayColumn, ArrayKernel
from anabranch.runtime.batch import ArrayItems
from anabranch.runtime.compiled.arrays import (
    DTYPES,
    Array,
    ItemsOf,
    is_within,
    to_arrays,
    to_items,
)
from anabranch.runtime.compiled.build import Fire, FiringThreads, compile_kernel
from anabranch.runtime.compiled.shape import PartShape
from anabranch.runtime.program import Columns, Program

_ListIterator: Any = type(iter([]))


@dataclass(frozen=True)
class GivenBatch:
    """A batch as given: `items` is a sequence, or the iterator of a list."""

    items: Any
    positions: Columns | None
    entries: Sequence[int] | None
    begin: int | None  # progress of the iterator; None for a sequence
    count: int

    def copy_items(self) -> Any:
        """Return the items to iterate over; the iterator stays where it is."""
        return self.items if self.begin is None else copy.copy(self.items)

    def find(self, position: int | None) -> int | None:
        """Return the index of the item with a position, if items have one."""
        if position is None or not self.positions:
            return None
        try:
            return self.positions[0].index(position)
        except ValueError:  # it does not consist of a single item
            return None

    def point_at(self, index: int) -> None:
        """Move the iterator to where it is while an item is processed."""
        if self.begin is not None:
            self.items.__setstate__(self.begin + index + 1)


def note_batch(
    items: Any, positions: Columns | None, entries: Sequence[int] | None
) -> GivenBatch:
    """Return a batch as it was given.

    >>> items = iter([5.0, 6.0, 7.0])
    >>> note_batch(items, None, None).point_at(1)
    >>> next(items)
    7.0
    """
    if not isinstance(items, _ListIterator):
        return GivenBatch(items, positions, entries, None, len(items))
    _, _, *begin = items.__reduce__()  # no index once it is exhausted
    begins = begin[0] if begin else 0
    return GivenBatch(items, positions, entries, begins, items.__length_hint__())


@dataclass(frozen=True)
class AtWork:
    """A stage that iterates over `left`; `triggers` are the items behind each."""

    left: Any
    count: int
    triggers: Triggers | None = None

    @property
    def index(self) -> int:
        """The index of the stage's current item in its own batch."""
        place = max(self.count - self.left.__length_hint__() - 1, 0)
        return place if self.triggers is None else int(self.triggers[place])


class Marks:
    """Finds the item behind an output of the first stage by counting outputs.

    For a stage that cannot be repeated. Whenever it takes an item, the number of
    outputs so far is recorded.
    """

    def __init__(self) -> None:
        self._outputs: list[int] = []  # before each item

    def follow(self, items: Iterator[Any], outputs: list[Any]) -> Iterator[Any]:
        """Yield the items, at no cost in Python per item.

        >>> outputs, marks = [], Marks()
        >>> for n in marks.follow(iter([1, 2, 3]), outputs):
        ...     outputs += [n] * (n - 1)
        >>> [marks.find(index) for index in range(3)]
        [1, 2, 2]
        """
        noted = self._outputs = []
        noting = map(noted.append, iter(outputs.__len__, -1))  # returns None each time
        nothing: dict[None, Any] = {}
        return map(nothing.get, noting, items)  # so each item is the default

    def find(self, index: int) -> int:
        """Return the index of the item behind an output."""
        return bisect_right(self._outputs, index) - 1


class Origins:
    """Finds the item of a batch behind an output of the first stage.

    It repeats the stage item by item, so that stage must have no state and no effects.
    That happens only if an item fails.
    """

    def __init__(self, stage: Program, edge: Edge) -> None:
        self._stage = stage
        self._edge = edge
        self._batch: GivenBatch | None = None
        self._ends: list[int] = []  # number of outputs at each item

    def find(self, batch: GivenBatch, index: int) -> int | None:
        """Return the index of the item behind an output."""
        if batch is not self._batch:
            items = enumerate(_items_of(batch))
            counts = (self._outputs(batch, place, item) for place, item in items)
            self._ends = list(accumulate(counts))
            self._batch = batch
        found = bisect_right(self._ends, index)
        return found if found < batch.count else None

    def _outputs(self, batch: GivenBatch, place: int, item: Any) -> int:
        entries = None if batch.entries is None else [batch.entries[place]]
        self._stage.run([item], None, entries)
        outputs = len(self._stage.exits[self._edge].items)
        for left in self._stage.exits.values():
            left.clear()
        return outputs


def _items_of(batch: GivenBatch) -> list[Any]:
    if batch.begin is None:
        return list(batch.items)
    again = copy.copy(batch.items)
    again.__setstate__(batch.begin)  # whatever it has been pointed at since
    return list(again)


class BranchTurns:
    """Weighted round robin: `weights[i]` turns in a row for branch i, cyclically."""

    def __init__(self, weights: Sequence[int]) -> None:
        self.weights = tuple(weights)
        self._cycle = np.repeat(np.arange(len(weights)), weights)
        self._first = [0, *accumulate(weights)]

    def place(self, branch: int, left: int) -> int:
        """Return the place in the cycle of a branch with so many turns left.

        >>> BranchTurns([2, 1]).place(0, 1)
        1
        """
        return self._first[branch] + self.weights[branch] - left

    def at(self, place: int) -> tuple[int, int]:
        """Return the branch at a place, and its turns left there.

        >>> BranchTurns([2, 1]).at(3)
        (0, 2)
        """
        place %= len(self._cycle)
        branch = int(self._cycle[place])
        return branch, self.weights[branch] - (place - self._first[branch])

    def shares(self, start: int, count: int) -> list[int]:
        """Return how many of the next turns each branch has.

        >>> BranchTurns([2, 1]).shares(1, 4)
        [3, 1]
        """
        rounds, rest = divmod(count, len(self._cycle))
        if not rest:
            return [rounds * weight for weight in self.weights]
        places = (start + np.arange(rest)) % len(self._cycle)
        extra = np.bincount(self._cycle[places], minlength=len(self.weights))
        return [
            rounds * weight + int(more)
            for weight, more in zip(self.weights, extra, strict=True)
        ]

    def dealt(self, start: int, items: Array) -> list[Array]:
        """Return the items of each branch, from a place in the cycle.

        >>> [part.tolist() for part in BranchTurns([2, 1]).dealt(1, np.arange(6))]
        [[0, 2, 3, 5], [1, 4]]
        """
        parts: list[list[Array]] = [[] for _ in self.weights]
        for first, last in self._cuts(start, len(items)):
            piece = items[first:last]
            if last - first < len(self._cycle):
                whose = self._cycle[(start + np.arange(first, last)) % len(self._cycle)]
                for branch, own in enumerate(parts):
                    own.append(piece[whose == branch])
                continue
            table = piece.reshape(-1, len(self._cycle))
            for branch, own in enumerate(parts):
                begin, end = self._first[branch], self._first[branch + 1]
                own.append(np.ascontiguousarray(table[:, begin:end]).ravel())
        return [
            own[0] if len(own) == 1 else np.concatenate([items[:0], *own])
            for own in parts
        ]

    def collect(self, start: int, count: int, branches: Sequence[Array]) -> Array:
        """Return so many items from the branches in turn, from a place in the cycle.

        >>> BranchTurns([2, 1]).collect(0, 4, [np.array([1, 2, 4]), np.array([3])]).tolist()
        [1, 2, 3, 4]
        """
        made = np.empty(count, branches[0].dtype)
        used = [0] * len(branches)
        for first, last in self._cuts(start, count):
            whole = last - first >= len(self._cycle)
            whose = None
            if not whole:
                places = (start + np.arange(first, last)) % len(self._cycle)
                whose = self._cycle[places]
            for branch, items in enumerate(branches):
                if whose is None:
                    begin, end = self._first[branch], self._first[branch + 1]
                    table = made[first:last].reshape(-1, len(self._cycle))[:, begin:end]
                    taken = items[used[branch] : used[branch] + table.size]
                    table[:] = taken.reshape(table.shape)
                else:
                    chosen = np.flatnonzero(whose == branch)
                    taken = items[used[branch] : used[branch] + len(chosen)]
                    made[first + chosen] = taken
                used[branch] += len(taken)
        return made

    def _cuts(self, start: int, count: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges before, in and after the full rounds of the next turns."""
        size = len(self._cycle)
        head = min(-start % size, count)
        body = head + (count - head) // size * size
        for first, last in ((0, head), (head, body), (body, count)):
            if last > first:
                yield first, last

    def due(self, start: int, waiting: Sequence[int]) -> int:
        """Return the number of turns until a branch has no item for its turn.

        >>> BranchTurns([2, 1]).due(0, [4, 1])
        5
        """
        size, found = len(self._cycle), []
        whole = start % size == 0
        cycle = self._cycle if whole else np.roll(self._cycle, -(start % size))
        for branch, (weight, count) in enumerate(
            zip(self.weights, waiting, strict=True)
        ):
            if weight:
                rounds, turn = divmod(count, weight)
                if whole:
                    place = self._first[branch] + turn
                else:
                    place = int(np.flatnonzero(cycle == branch)[turn])
                found.append(rounds * size + place)
        return min(found)


Triggers: TypeAlias = npt.NDArray[np.int64]
Change: TypeAlias = Callable[[], None]


class FallbackError(Exception):
    """The current batch must run in Python."""


@dataclass
class ArrayStream:
    """Items as arrays, with the index of the item behind each.

    Triggers are computed only if they are needed.
    """

    arrays: list[Array]
    triggers: Triggers | None

    def __len__(self) -> int:
        return len(self.arrays[0])


@dataclass
class BatchFlow:
    """A batch in progress: the contents of each stream, and the new states."""

    states: Mapping[str, Any]
    streams: dict[Output, ArrayStream] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)


class FireStep:
    """An operator with a kernel. Its state, if any, is its waiting items."""

    def __init__(
        self,
        op: Op,
        kernel: ArrayKernel,
        fire: Fire,
        item_type: type | None,
        threads: int = 1,
    ) -> None:
        self._threads = FiringThreads(threads)
        self._op = op
        self._kernel = kernel
        self._fire = fire
        self._item_type = item_type  # of the input
        self._constants = np.array(kernel.constants, np.float64)
        self._kept: tuple[list[Array], Any] = ([], self)

    def __call__(self, flow: BatchFlow) -> None:
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
        if firings and self._fire_batch(firings, arrays, made):
            raise FallbackError
        triggers = came.triggers
        if triggers is not None:
            first = kernel.peek - 1 - waiting
            triggers = triggers[first :: kernel.pop][:firings]
            if kernel.push != 1:
                triggers = np.repeat(triggers, kernel.push)
        flow.streams[Output(self._op.name)] = ArrayStream(made, triggers)
        if waiting or (state is not None and count > firings * kernel.pop):
            left = [array[firings * kernel.pop :] for array in arrays]
            flow.changes.append(lambda: self._keep(state, left))

    def _behind_waiting(self, state: list[Any], arrays: list[Array]) -> list[Array]:
        """Return waiting and new items; the arrays of the former may be cached.

        The cache is valid if the last waiting item is the object we made: anyone who
        adds an item appends another object.
        """
        kept, last = self._kept
        if state[-1] is last and len(state) == len(kept[0]):
            return [np.concatenate(pair) for pair in zip(kept, arrays, strict=True)]
        return _behind(state, arrays, self._kernel.takes, self._item_type)

    def _keep(self, state: Any, left: list[Array]) -> None:
        state[:] = to_items(left, self._item_type)
        if state and self._item_type is None and self._kernel.takes[0].kind == "float":
            self._kept = left, state[-1]

    def _fire_batch(self, firings: int, arrays: list[Array], made: list[Array]) -> bool:
        """Fire as often as the items allow, with several threads if that pays off.

        Each thread has a contiguous range of firings, so it takes whole blocks and
        writes where one thread alone would have. Items that a block peeks at are read
        by both neighbours.
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
    """A splitter that deals items round robin."""

    def __init__(self, op: Op, weights: Sequence[int]) -> None:
        self._op = op
        self._turns = BranchTurns(weights)

    def __call__(self, flow: BatchFlow) -> None:
        came = flow.streams[self._op.inputs[0]]
        state = flow.states[self._op.name][()]
        start = self._turns.place(*state)
        count = len(came)
        dealt = [self._turns.dealt(start, array) for array in came.arrays]
        triggers = None
        if came.triggers is not None:
            triggers = self._turns.dealt(start, came.triggers)
        for port in range(len(self._turns.weights)):
            flow.streams[Output(self._op.name, port)] = ArrayStream(
                [parts[port] for parts in dealt],
                None if triggers is None else triggers[port],
            )
        if count:
            branch, left = self._turns.at(start + count - 1)
            rest = [branch, left - 1]
            flow.changes.append(lambda: state.__setitem__(slice(None), rest))


class CollectStep:
    """A joiner that takes from its branches round robin; other items wait."""

    def __init__(
        self,
        op: Op,
        weights: Sequence[int],
        columns: Sequence[ArrayColumn],
        item_type: type | None,
    ) -> None:
        self._op = op
        self._turns = BranchTurns(weights)
        self._columns = columns
        self._item_type = item_type

    def __call__(self, flow: BatchFlow) -> None:
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
            self._turns.collect(start, count, [s.arrays[n] for s in streams])
            for n in range(len(self._columns))
        ]
        triggers = None
        if all(stream.triggers is not None for stream in streams):
            own: list[Any] = [stream.triggers for stream in streams]
            # Items waiting for another branch are triggered by that branch's next item.
            triggers = np.maximum.accumulate(self._turns.collect(start, count, own))
        flow.streams[Output(self._op.name)] = ArrayStream(made, triggers)
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
        flow.changes.append(lambda: _collect(state, rests, *now))

    def _with_waiting(self, queue: Any, came: ArrayStream) -> ArrayStream:
        if not queue:
            return came
        arrays = _behind(list(queue), came.arrays, self._columns, self._item_type)
        triggers = came.triggers
        if triggers is not None:
            triggers = np.concatenate([np.zeros(len(queue), np.int64), triggers])
        return ArrayStream(arrays, triggers)


def _collect(state: Any, rests: list[list[Any]], branch: int, left: int) -> None:
    for queue, rest in zip(state[0], rests, strict=True):
        if queue or rest:
            queue.clear()
            queue.extend(rest)
    state[1], state[2] = branch, left


def _behind(
    waiting: list[Any],
    arrays: list[Array],
    columns: Sequence[ArrayColumn],
    item_type: type | None,
) -> list[Array]:
    """Return the waiting items followed by the new ones."""
    if not waiting:
        return arrays
    before = to_arrays(waiting, columns, item_type)
    if before is None:  # left by a batch that ran in Python
        raise FallbackError
    return [np.concatenate(pair) for pair in zip(before, arrays, strict=True)]


_FEWEST = 4  # items: for fewer, starting short kernels costs more than it gains
_LONG = 20  # lines

_serial = itertools.count()


class Part:
    """Runs a batch through the operators of a shape.

    Not thread-safe; the program that owns it is its only caller.
    """

    def __init__(
        self,
        graph: Graph,
        shape: PartShape,
        kernels: Mapping[str, ArrayKernel],
        threads: int = 1,
    ) -> None:
        self.graph = graph
        self.shape = shape
        first = next(
            name for name in shape.operators if shape.source in graph[name].inputs
        )
        self._columns = kernels[first].takes
        lengths = [_length(kernels[name]) for name in shape.operators]
        self.fewest = 1 if max(lengths) > _LONG else _FEWEST
        self._item_type = _item_type(graph, shape.source.operator)
        self.gives_type = _item_type(graph, shape.last)
        steps = [_step(graph, name, kernels[name], threads) for name in shape.operators]
        self.filename = name_part("compiled", shape.operators)
        self.line_table = {
            2 + number: name for number, name in enumerate(shape.operators)
        }
        self._run = write_steps(steps, self.filename)

    def run(
        self, items: list[Any], states: Mapping[str, Any], *, triggers: bool = True
    ) -> tuple[BatchFlow, ArrayStream]:
        """Run a batch through the part, leaving the states unchanged.

        Raises `FallbackError` if the batch must run in Python.
        """
        arrays = to_arrays(items, self._columns, self._item_type)
        if arrays is None:
            raise FallbackError
        return self.run_arrays(arrays, states, triggers=triggers)

    def items_of(self, stream: ArrayStream) -> list[Any]:
        """Return a part's output as items."""
        return to_items(stream.arrays, self.gives_type)

    def arrays_of(self, stream: ArrayStream) -> ArrayItems:
        """Return a part's output as it is, for the next part."""
        return ArrayItems(stream.arrays, ItemsOf(self.gives_type))

    def takes(self, items: ArrayItems) -> bool:
        """Tell whether items fit the part: their type, their kinds, bounds of ints."""
        if items.make != ItemsOf(self._item_type):
            return False
        return len(items.arrays) == len(self._columns) and all(
            array.dtype == DTYPES[column.kind] and is_within(array, column)
            for array, column in zip(items.arrays, self._columns, strict=True)
        )

    def run_arrays(
        self, arrays: list[Array], states: Mapping[str, Any], *, triggers: bool = True
    ) -> tuple[BatchFlow, ArrayStream]:
        """Run a batch of arrays through the part."""
        flow = BatchFlow(states)
        places = np.arange(len(arrays[0])) if triggers else None
        flow.streams[self.shape.source] = ArrayStream(arrays, places)
        self._run(flow)
        last = next(
            out for out in reversed(flow.streams) if out.operator == self.shape.last
        )
        return flow, flow.streams[last]


def _length(kernel: ArrayKernel) -> int:
    """Return the length of a kernel; one with a loop counts as long."""
    lines = kernel.source.splitlines()
    return 2 * _LONG if any("        for " in line for line in lines) else len(lines)


def _step(
    graph: Graph, name: str, kernel: ArrayKernel, threads: int
) -> Callable[[BatchFlow], None]:
    op = graph[name]
    item_type = _item_type(graph, op.inputs[0].operator)
    match op.kind:
        case Deal(weights=weights):
            return DealStep(op, weights)
        case Collect(weights=weights):
            return CollectStep(op, weights, kernel.takes, item_type)
    return FireStep(op, kernel, compile_kernel(kernel), item_type, threads)


def _item_type(graph: Graph, operator: str) -> type | None:
    """Return the NamedTuple type of an operator's items; None for numbers."""
    op = graph[operator]
    if isinstance(op.kind, Deal | Collect):
        return _item_type(graph, op.inputs[0].operator)
    found = op.type
    return found if isinstance(found, type) and issubclass(found, tuple) else None


def name_part(what: str, operators: Sequence[str]) -> str:
    """Return the file name under which a part's code is reported."""
    return f"<anabranch {what} {'+'.join(operators)[:50]} {next(_serial)}>"


def write_steps(
    steps: Sequence[Callable[[Any], None]], filename: str
) -> Callable[[Any], None]:
    """Return a function that runs each step on a flow, one line per step."""
    lines = [f"    step{number}(flow)" for number in range(len(steps))]
    made: Callable[[Any], None] = _write("flow", lines, steps, filename)
    return made


def write_calls(
    steps: Sequence[Callable[..., Any]], filename: str
) -> Callable[..., Any]:
    """Return a function that passes a batch from step to step, one line per step."""
    lines = [f"    batch = step{n}(batch, more)" for n in range(len(steps))]
    return _write("batch, more", [*lines, "    return batch"], steps, filename)


def _write(
    params: str, lines: list[str], steps: Sequence[Callable[..., Any]], filename: str
) -> Callable[..., Any]:
    source = "\n".join([f"def run({params}):", *lines, ""])
    linecache.cache[filename] = (
        len(source),
        None,
        source.splitlines(keepends=True),
        filename,
    )
    names: dict[str, Any] = {f"step{n}": step for n, step in enumerate(steps)}
    exec(compile(source, filename, "exec"), names)  # noqa: S102 - our own text
    made: Callable[..., Any] = names["run"]
    return made
