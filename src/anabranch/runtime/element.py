"""A replica of an element: its fused program, inlets, outlets and batch size.

An element of a region has one replica or more; any other element has one. A replica is
run by one thread at a time.

A thread takes as many items at a time as fill two milliseconds: one item when items are
rare or costly, so that nothing waits behind a long batch; thousands when they are
cheap, so that a hand-over costs nothing. This limits the backlog in front of a thread
to a few milliseconds of work, and so the pause when the job is drained for a change.

Between threads, wall-clock time misleads: a thread that waits for the interpreter lock,
or for a core, measures its items as costly and takes fewer at a time, which causes more
hand-overs, each under that lock, and more waiting for all. So a replica fed by other
threads also uses its CPU time: it takes five milliseconds of it, if that is at most ten
by the wall clock.

A batch never exceeds the cache: a larger one would be evicted before the next operator
reads it (Figure 5 (d) of the paper on hybrid scheduling).
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from time import perf_counter, thread_time
from types import FunctionType
from typing import Any, NamedTuple, TypeAlias

from anabranch.errors import EngineError, OperatorError
from anabranch.graph.graph import Edge
from anabranch.runtime.batch import (
    ArrayItems,
    Batch,
    Column,
    EntryLedger,
    Ledger,
    TableItems,
    mark_at,
)
from anabranch.runtime.breaks import Breaks, StreamBreak, columns_of, cut_at_break
from anabranch.runtime.ports import Inlet
from anabranch.runtime.program import Program
from anabranch.runtime.split import Outlet, Slot
from anabranch.runtime.verify.rehearsal import Rehearse

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNKNOWN_BYTES = 1 << 20
_SEEN = 20  # items that are measured
_PLACE_BYTES = 8  # of an item in a list
_SHARE = 4  # share of the cache for one batch: code, states and outputs need room too


@cache
def cache_bytes() -> int:
    """Return the size of a core's second-level cache, 1 MiB if unknown.

    >>> cache_bytes() > 0
    True
    """
    for index in sorted(_CACHES.glob("index*")):
        try:
            level = (index / "level").read_text().strip()
            size = (index / "size").read_text().strip()
        except OSError:
            continue
        if level == "2" and size.endswith("K"):
            return int(size[:-1]) << 10
    return _UNKNOWN_BYTES


def item_bytes(items: Sequence[Any]) -> int:
    """Return the approximate size of an item, with its attributes.

    >>> item_bytes([1.5, 2.5]) == sys.getsizeof(1.5) + 8
    True
    """
    seen = items[:_SEEN]
    total = sum(_size(item) + _parts(item) for item in seen)
    return _PLACE_BYTES + total // max(len(seen), 1)


def _parts(item: Any) -> int:
    if not issubclass(type(item), tuple):
        return 0
    return sum(map(_size, tuple.__iter__(item)))


def _size(value: Any) -> int:
    """Return the size of an object, without running code of the user's."""
    own = isinstance(type(value).__sizeof__, FunctionType)
    return object.__sizeof__(value) if own else sys.getsizeof(value)


def batch_that_fits(items: Sequence[Any]) -> int:
    """Return the number of such items in a batch that fits the cache.

    >>> 1 <= batch_that_fits(["a" * 1000]) < batch_that_fits([1.5])
    True
    """
    return max(1, cache_bytes() // _SHARE // item_bytes(items))


_MOST = 8192
_GROWTH = 4  # times as many items as in the batch before, at most
_REMEMBERED = 5  # batches; such a short median follows a change and ignores an outlier
_ON_CORE = 2.5  # times the budget, in CPU time, where a hand-over is expensive
_BY_CLOCK = 5.0  # times the budget, in wall-clock time, at most


class Pace:
    """Learns the cost of an item. One thread updates it; any may read it.

    >>> pace = Pace(budget_s=0.001)
    >>> pace.limit
    1
    >>> for _ in range(9):
    ...     pace.observe(pace.limit, pace.limit * 10e-6)  # 10 microseconds an item
    >>> pace.limit
    100
    """

    def __init__(self, budget_s: float = 0.002, most: int | None = None) -> None:
        self.limit = 1
        self._budget_s = budget_s
        self._most = most or _MOST
        self._fitted = most is not None
        self._fixed = False
        self._recent_s: deque[float] = deque(maxlen=_REMEMBERED)
        self._recent_on_core_s: deque[float] = deque(maxlen=_REMEMBERED)

    @classmethod
    def of_size(cls, size: int) -> Pace:
        """Return a pace with a fixed batch size.

        >>> pace = Pace.of_size(100)
        >>> pace.observe(100, 10.0)
        >>> pace.limit
        100
        """
        made = cls(most=size)
        made.limit = size
        made._fixed = True
        return made

    def fit(self, items: Sequence[Any]) -> None:
        """Limit batches to the cache, judging by the first items.

        >>> pace = Pace(budget_s=1)
        >>> pace.fit(["x" * 100_000])
        >>> for _ in range(20):
        ...     pace.observe(1, 1e-6)
        >>> pace.limit < 100
        True
        """
        if not self._fitted:
            self._fitted = True
            self._most = max(1, min(_MOST, batch_that_fits(items)))

    def observe(
        self, items: int, elapsed_s: float, on_core_s: float | None = None
    ) -> None:
        """Record the wall-clock and CPU time of a batch.

        CPU time is given if other threads feed this one.

        >>> pace = Pace(budget_s=0.002)
        >>> for _ in range(9):  # 100 microseconds of work, and as long a wait
        ...     pace.observe(pace.limit, pace.limit * 200e-6, pace.limit * 100e-6)
        >>> pace.limit
        50
        """
        if items == 0 or self._fixed:
            return
        item_s = _remember(self._recent_s, elapsed_s / items)
        fitting = self._budget_s / item_s if item_s > 0 else self._most
        if on_core_s is not None and item_s > 0:
            core_s = _remember(self._recent_on_core_s, on_core_s / items)
            working = _ON_CORE * self._budget_s / max(core_s, 1e-9)
            fitting = max(fitting, min(working, _BY_CLOCK * self._budget_s / item_s))
        # One lucky batch must not invite thousands of items.
        self.limit = max(1, min(round(fitting), _GROWTH * self.limit, self._most))


def _remember(recent: deque[float], value: float) -> float:
    """Add a value to the recent ones; return their median."""
    recent.append(value)
    return sorted(recent)[len(recent) // 2]


_FORGET = 0.3  # weight of the newest batch in the running mean
_CHANGED = 1.25  # times the limit that the producers know: they are told

Deliver: TypeAlias = Callable[[Batch], None]  # passes items to a sink


class _Left(NamedTuple):
    """The outputs of a program on one stream, with their input items if known.

    These are counted from `first`. `order` is that of the branches: an item takes the
    first one first.
    """

    edge: Edge
    batch: Batch
    inputs: Sequence[int] | None
    first: int
    order: int

    def input_of_failed(self, batch: Batch) -> int:
        """Return the index of the input item that led to a sink's failure."""
        failed = self.batch.failed
        if failed is None:
            return len(batch) - 1
        if self.inputs is not None:
            return self.inputs[failed] - self.first
        position = self.batch.position(failed)
        if position is None or batch.columns is None:
            return len(batch) - 1
        rows = list(zip(*batch.columns, strict=True))
        return rows.index(tuple(position[: len(batch.columns)]))

    def before(self, index: int) -> Batch:
        """Return the outputs of the items before an index; none if unknown."""
        count = 0
        if self.inputs is not None:
            count = bisect_left(self.inputs, self.first + index)
        return self.batch.head(count)


@dataclass(eq=False)
class Replica:
    """One running copy of an element.

    An element without a program is a sink alone. With `one_to_one` the outputs of a
    batch have the positions of its items, so the program need not carry them. An
    element that `carries` nothing passes on no positions and no marks. If it is
    `aligned`, its outputs still correspond to its items one to one; if `indexed`, its
    program reports the input item of each output.

    A failing item makes the replica break off (see `breaks`). `fallible` are the
    streams to sinks that may fail; `ranks` is the order in which an item visits
    operators.
    An `unordered` replica takes items as they come: a break does not end it.
    """

    name: str
    program: Program | None
    inlet: Inlet | None
    outlets: dict[Edge, Outlet] = field(default_factory=dict)
    sinks: dict[Edge, Deliver] = field(default_factory=dict)
    carries: bool = False
    one_to_one: bool = False
    aligned: bool = False
    indexed: bool = False
    fallible: frozenset[Edge] = frozenset()
    ranks: Mapping[str, int] = field(default_factory=dict)
    breaks: Breaks = field(default_factory=Breaks)
    check: Callable[[], None] | None = None  # raises on a refuted verdict
    rehearse: Rehearse | None = None  # repeats some items of a batch
    unordered: bool = False
    broken: bool = False  # nothing from now on counts
    pace: Pace = field(default_factory=Pace)
    limit: int = 1
    feeders: tuple[Replica, ...] = ()  # the replicas of its producers
    received: int = 0
    done: int = 0  # of these, in batches that it has finished
    busy_s: float = 0.0  # time at work for them, by the wall clock
    given: dict[Edge, int] = field(default_factory=dict)  # number of outputs
    widths: dict[Edge, int] = field(default_factory=dict)  # of output positions
    _entered: EntryLedger = field(default_factory=EntryLedger)
    _first: int = 0  # number of the current batch's first item, if `indexed`
    _at: int = 0  # the item of the batch that failed
    _batch: Batch | None = None  # current batch
    _left: Any = None  # iterator over its items
    _gains: dict[Edge, float] = field(default_factory=dict)  # outputs per item
    _told: int = 1  # the limit at which its producers last adapted

    def run(self, batch: Batch) -> None:
        """Run a batch and send its outputs to the consumers."""
        if self.broken:
            return
        if self.unordered and self.breaks.found:
            batch = self._take_breaks(batch)
        whole, index, found = batch, 0, None
        if self.breaks.found:
            batch, found, index = cut_at_break(whole)
        started_s, on_core_s = perf_counter(), thread_time()
        self._batch, self._left = batch, None
        self.received += len(batch.items)
        try:
            self._run(batch)
        except EngineError:
            raise
        except Exception as error:
            if not self.breaks.orderly:
                raise
            index = self._at
            found = StreamBreak(error, batch.last_source_item(index), self._rank(error))
            self.breaks.meet(found)
        if found is not None:
            self._break_off(found, whole, index)
        elif batch.items:
            if isinstance(batch.items, list):
                self.pace.fit(batch.items)
            elapsed_s = perf_counter() - started_s
            self.busy_s += elapsed_s
            self.done += len(batch.items)
            fed = self.inlet is not None and self.inlet.threaded
            self.pace.observe(
                len(batch.items), elapsed_s, thread_time() - on_core_s if fed else None
            )
            self._adapt()

    def _take_breaks(self, batch: Batch) -> Batch:
        """Return a batch without its breaks, which have come to where they lead."""
        met = [item for item in batch.items if isinstance(item, StreamBreak)]
        for one in met:
            self.breaks.arrive(one)
        if not met:
            return batch
        left = [item for item in batch.items if not isinstance(item, StreamBreak)]
        return Batch(left, origin=batch.origin)

    def fail(self, error: BaseException, batch: Batch) -> None:
        """Break off at an item that could not be read."""
        if not self.broken:
            found = StreamBreak(error, batch.source_item(0), 0)
            self.breaks.meet(found)
            self._break_off(found, batch, 0)

    def settle(self) -> None:
        """Send pending marks; after this the thread may wait."""
        if not self.broken:
            for outlet in self.outlets.values():
                outlet.settle()

    def close(self, *, final: bool) -> None:
        """End the output streams, or detach from them."""
        if not self.broken:
            self.settle()
            for outlet in self.outlets.values():
                outlet.close(final=final)

    def drop(self) -> None:
        """Drop the rest of the current batch."""
        if self._batch is not None:
            self._batch.items.clear()  # iteration over them ends

    @property
    def where(self) -> str:
        """The source location of the current item, as far as known."""
        if self._batch is None or self._left is None:
            return "an item"
        index, origin = self._index(self._batch), self._batch.origin
        unbroken = origin.last - origin.first + 1 == len(self._batch)
        if self.inlet is None and origin.source is not None and unbroken:
            return origin.source.where(origin.first + index)
        return self._batch.where(index)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The queues that this replica feeds."""
        return tuple(slot for outlet in self.outlets.values() for slot in outlet.slots)

    @property
    def states(self) -> Mapping[str, dict[Any, Any]]:
        """The states of its operators by key."""
        return {} if self.program is None else self.program.states

    def _run(self, batch: Batch) -> None:
        if self.program is None:
            for deliver in self.sinks.values():
                try:
                    deliver(batch)
                except Exception:
                    self._at = len(batch) - 1 if batch.failed is None else batch.failed
                    raise
            return
        failure: Exception | None = None
        if batch.items:
            try:
                self._through(self.program, batch)
            except Exception as error:
                if not self.breaks.orderly:
                    raise
                self._at = self._index(batch)
                failure = error
        if self.check is not None:
            self.check()
        self._send(self.program, batch, partial=failure is not None)
        if failure is not None:
            raise failure

    def _through(self, program: Program, batch: Batch) -> None:
        carried: Any = batch.columns
        if self.one_to_one:
            carried = None
        elif self.indexed:
            known = batch.known if batch.columns is None else batch.columns
            carried = [self._entered.enter(len(batch), known, batch.ledger)]
            self._first = carried[0].start
        began_s = perf_counter()
        if not self._run_table(program, batch, carried):
            self._left = iter(batch.items)
            program.run(self._left, carried, batch.entries)
        if self.rehearse is not None:
            seconds = perf_counter() - began_s
            items = batch.items
            self.rehearse(
                program.entries, program.operators, items, batch.entries, seconds
            )

    def _run_table(self, program: Program, batch: Batch, carried: Any) -> bool:
        """Run a batch of a table or of arrays; False if it is none, or cannot run so."""
        items: Any = batch.items
        if batch.entries is not None:
            return False
        if isinstance(items, TableItems):
            return program.run_table(items.table, carried)
        return isinstance(items, ArrayItems) and program.run_arrays(items, carried)

    def _rank(self, error: Exception) -> int:
        name = error.operator if isinstance(error, OperatorError) else None
        return self.ranks.get(name or self.name, 0)

    def _index(self, batch: Batch) -> int:
        """Return the index of the current item in a batch."""
        return max(0, len(batch) - int(self._left.__length_hint__()) - 1)

    def _send(self, program: Program, batch: Batch, *, partial: bool) -> None:
        """Send the outputs; sinks that may fail come first.

        When one fails, the others get what a single thread would have given them
        before.
        """
        made = self._take(program, batch, partial=partial)
        if self.fallible and len(made) > 1:
            made.sort(key=lambda left: left.edge not in self.fallible)
        failed: _Left | None = None
        failure: Exception | None = None
        for left in made:
            given = left.batch
            if failed is not None:
                also = left.order < failed.order  # this branch comes first
                given = left.before(self._at + also)
            self.given[left.edge] = self.given.get(left.edge, 0) + len(given)
            if left.edge in self.outlets:
                self._learn_gain(left.edge, len(given), len(batch))
                self.outlets[left.edge].put(given)
            elif given.items:
                try:
                    self.sinks[left.edge](given)
                except Exception as error:
                    if failure is not None or not self.breaks.orderly:
                        raise
                    failed, failure = left, error
                    self._at = left.input_of_failed(batch)
        if failure is not None:
            raise failure

    def _take(self, program: Program, batch: Batch, *, partial: bool) -> list[_Left]:
        """Take the outputs of the program, stream by stream."""
        mark = batch.mark if self.carries and not partial else None
        made = []
        for order, (edge, left) in enumerate(program.exits.items()):
            items = left.copy_items()
            if edge in self.outlets and not isinstance(items, ArrayItems):
                items = list(items)
            one = Batch(items, None, mark, batch.origin)
            inputs: Sequence[int] | None = None
            first = 0
            if self.one_to_one:
                one.columns = self._pass_unchanged(batch, len(one), partial=partial)
                one.ledger, inputs = batch.ledger, range(len(one))
            elif self.indexed:
                numbers = left.positions[0][:]
                one.known, one.ledger = [numbers], self._entered
                inputs, first = numbers, self._first
            elif left.positions:
                one.columns = [column[:] for column in left.positions]
                one.ledger = batch.ledger
            elif self.aligned:
                known = batch.known if batch.columns is None else batch.columns
                one.known = known and [column[: len(one)] for column in known]
                one.ledger, inputs = batch.ledger, range(len(one))
            left.clear()
            made.append(_Left(edge, one, inputs, first, order))
        return made

    def _break_off(self, one: StreamBreak, batch: Batch, index: int) -> None:
        """End the output streams with a break in the place of an item."""
        self.broken = True
        position = batch.position(index)
        known: list[Column] | None = None
        if position is not None:
            known = [[number] for number in position]
        ledger: Ledger | None = batch.ledger
        if self.indexed:
            known = [self._entered.enter(1, known, ledger)]
            ledger = self._entered
        for edge, outlet in self.outlets.items():
            made = Batch([one], None, None, batch.origin, known=known, ledger=ledger)
            if self.widths[edge] and position is not None:
                made.known, made.columns = None, columns_of(position, self.widths[edge])
                made.mark = mark_at(*position) if self.carries else None
            outlet.put(made)
            outlet.settle()
            outlet.close(final=False)
        if self.sinks:
            self.breaks.arrive(one)

    def _learn_gain(self, edge: Edge, outputs: int, inputs: int) -> None:
        if inputs:
            before = self._gains.get(edge, 1.0)
            self._gains[edge] = before + _FORGET * (outputs / inputs - before)

    def _adapt(self) -> None:
        """Limit the batch size to what the consumers can take.

        Producers follow at once, and theirs: else, at the start of a long pipeline, the
        limit would rise by one operator for each batch that goes through all of it. So
        other threads call this, too; each attribute has one write, and the next batch
        puts right what two of them get wrong.
        """
        limit: float = self.pace.limit
        for edge, outlet in self.outlets.items():
            gain = self._gains.get(edge, 1.0)
            if limit * gain > outlet.appetite:
                limit = outlet.appetite / gain
        self.limit = found = max(1, int(limit))
        if self.inlet is not None:
            self.inlet.limit, self.inlet.measured = found, True
        if not self._told / _CHANGED <= found <= self._told * _CHANGED:
            self._told = found
            for feeder in self.feeders:
                feeder._adapt()  # noqa: SLF001 - one of us

    def _pass_unchanged(self, batch: Batch, count: int, *, partial: bool) -> Any:
        if partial and batch.columns is not None:
            return [column[:count] for column in batch.columns]
        if count != len(batch.items):
            msg = (
                f"the operators of {self.name} must give one output for each item; they "
                f"gave {count} for {len(batch.items)}; is a declared push wrong?"
            )
            raise EngineError(msg)
        return batch.columns
