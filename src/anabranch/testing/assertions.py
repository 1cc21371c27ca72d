"""Assertions about programs and their functions, checked on samples.

A passing check proves nothing, but a failing one has found a counterexample.

`assert_same_everywhere` compares a program with its own sequential run, on every engine
and at every degree. Sources are replaced by a sample of their items, and sinks by
lists: nothing is written, and every run gets the same items. The program is rebuilt for
each run, so state in closures starts afresh.
"""

from __future__ import annotations

import copy
import itertools
import random
import reprlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from anabranch.compiler.compile import compile_graph
from anabranch.connectors.open import open_reader
from anabranch.connectors.reader import POLL_S, LiveReader
from anabranch.errors import AnabranchError, ArgumentError
from anabranch.graph.graph import Graph, Op
from anabranch.job import engine_named, graph_of, target_of
from anabranch.language.drafts import Result
from anabranch.language.stream import Stream
from anabranch.operators.sinks import ToList
from anabranch.operators.sources import FromIterable, FromSpark
from anabranch.run_options import EngineName
from anabranch.runtime.failures import stop
from anabranch.runtime.thread import Options

ORDERS = 20  # random orders in which the sample is tried
_SEED = 1


def assert_stateless(
    function: Callable[[Any], Any], items: Sequence[Any], orders: int = ORDERS
) -> None:
    """Assert that a function's output for an item does not depend on earlier items.

    The result of a generator function is compared as a list.

    >>> import anabranch as ab
    >>> ab.testing.assert_stateless(lambda n: n * n, range(10))
    >>> seen = set()
    >>> def is_new(n):
    ...     known = n in seen
    ...     seen.add(n)
    ...     return not known
    >>> ab.testing.assert_stateless(is_new, [1, 2, 1])
    Traceback (most recent call last):
        ...
    AssertionError: is_new must give the same for an item in every order; for 2 it gave True, then False
    """
    first: dict[int, Any] = {}
    for order in _orders(len(items), orders):
        for index in order:
            item = copy.deepcopy(items[index])
            result = function(item)
            if hasattr(result, "__next__"):
                result = list(result)
            known = first.setdefault(index, result)
            if not is_same(known, result):
                msg = (
                    f"{_name(function)} must give the same for an item in every order; "
                    f"for {reprlib.repr(items[index])} it gave {reprlib.repr(known)}, "
                    f"then {reprlib.repr(result)}"
                )
                raise AssertionError(msg)


def assert_commutative(
    step: Callable[[Any, Any], Any],
    initial: Any,
    items: Sequence[Any],
    orders: int = ORDERS,
) -> None:
    """Assert that `step(state, item) -> state` reaches one state in every order.

    >>> import anabranch as ab
    >>> ab.testing.assert_commutative(lambda total, n: total + n, 0, [1, 2, 3])
    >>> ab.testing.assert_commutative(lambda total, x: total + x, 0.0, [0.1, 0.2, 0.3])
    Traceback (most recent call last):
        ...
    AssertionError: <lambda> must end with one state in every order; it ended with 0.6000000000000001 and with 0.6
    """
    expected: list[Any] = []
    for order in _orders(len(items), orders):
        state = copy.deepcopy(initial)
        for index in order:
            state = step(state, copy.deepcopy(items[index]))
        expected = expected or [state]
        if not is_same(expected[0], state):
            msg = (
                f"{_name(step)} must end with one state in every order; it ended with "
                f"{reprlib.repr(expected[0])} and with {reprlib.repr(state)}"
            )
            raise AssertionError(msg)


def _orders(size: int, number: int) -> list[list[int]]:
    """Return the order of the sample, its reverse, and some random ones."""
    given = list(range(size))
    chance = random.Random(_SEED)
    return [given, given[::-1], *(chance.sample(given, size) for _ in range(number))]


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", repr(function))


SAMPLE_ITEMS = 10_000
PATIENCE_S = 10.0  # how long a live source may take to provide its part of the sample

Made: TypeAlias = Stream | Result | Sequence[Stream | Result]
Sample: TypeAlias = Mapping[str, Sequence[Any]]  # source -> its first items


@dataclass(frozen=True)
class Setting:
    """An engine and a degree to run a program with.

    >>> str(Setting("spark", 3, 7))
    'spark, degree 3, epochs of 7 items'
    """

    on: EngineName
    degree: int = 1
    epoch_items: int | None = None

    def __str__(self) -> str:
        if self.on == "sequential":
            return self.on
        epochs = "" if self.epoch_items is None else f", epochs of {self.epoch_items}"
        items = "" if self.epoch_items is None else " items"
        return f"{self.on}, degree {self.degree}{epochs}{items}"


@dataclass(frozen=True)
class SampleRun:
    """The items of each sink, or the error that ended the run."""

    items: Mapping[str, list[Any]]
    error: str | None = None

    @property
    def count(self) -> int:
        """The number of items of all sinks."""
        return sum(map(len, self.items.values()))


def make_settings(
    on: Iterable[EngineName], degrees: Iterable[int], epoch_items: Iterable[int]
) -> Iterator[Setting]:
    """Yield the settings of some engines; only Spark has epochs.

    >>> [str(one) for one in make_settings(["local"], [1, 2], [7])]
    ['local, degree 1', 'local, degree 2']
    """
    for engine in on:
        if engine == "spark":
            for degree, size in itertools.product(degrees, epoch_items):
                yield Setting(engine, degree, size)
        elif engine == "local":
            for degree in degrees:
                yield Setting(engine, degree)


def make_graph(program: Callable[[], Made] | Made) -> Graph:
    """Return the graph of a program: a function that makes it, streams or sinks."""
    made = program() if callable(program) else program
    ends = (made,) if isinstance(made, Stream | Result) else tuple(made)
    return graph_of([one.to_list() if isinstance(one, Stream) else one for one in ends])


def take_sample(graph: Graph, most: int | None = SAMPLE_ITEMS) -> Sample:
    """Return the first items of every source; None: all of them.

    >>> import anabranch as ab
    >>> take_sample(make_graph(ab.from_iterable("abc", name="letters")), 2)
    {'letters': ['a', 'b']}
    """
    return {op.name: list(_read(op, most)) for op in graph.sources}


def _read(op: Op, most: int | None) -> Iterator[Any]:
    if isinstance(op.kind, FromSpark):
        msg = (
            f"a sample is taken without Spark; {op.name!r} ({op.site}) reads a "
            f"DataFrame; put ab.from_iterable(rows) in its place"
        )
        raise ArgumentError(msg)
    reader = open_reader(op, stop)
    if not isinstance(reader, LiveReader):
        return itertools.islice(iter(reader), most)
    return _read_live(reader, most)


def _read_live(reader: LiveReader, most: int | None) -> Iterator[Any]:
    ends_s = time.monotonic() + PATIENCE_S
    left = SAMPLE_ITEMS if most is None else most
    try:
        while left and not reader.ended and time.monotonic() < ends_s:
            arrived = reader.poll(left, POLL_S)
            left -= len(arrived)
            yield from (item for item, _ in arrived)
    finally:
        reader.close()


def run_sample(graph: Graph, sample: Sample, setting: Setting) -> SampleRun:
    """Run a program on a sample; its own sources and sinks are not touched."""
    sinks = {op.name: ToList() for op in graph.sinks}
    ops = []
    for op in graph:
        if op.name in sample:
            items = copy.deepcopy(sample[op.name])  # a run may change them
            ops.append(replace(op, kind=FromIterable(items)))
        elif op.name in sinks:
            ops.append(replace(op, kind=sinks[op.name]))
        else:
            ops.append(op)
    compilation = compile_graph(Graph(tuple(ops)), target_of(setting.on))
    alone = compilation.plan.one_thread
    engine = engine_named("sequential" if alone else setting.on)
    options = Options(degree=setting.degree, epoch_items=setting.epoch_items)
    error: str | None = None
    try:
        engine.start(compilation.graph, compilation.plan, options).wait()
    except AnabranchError as raised:
        error = f"{type(raised).__name__}: {raised}"
    return SampleRun({name: sink.items for name, sink in sinks.items()}, error)


def describe_difference(expected: SampleRun, found: SampleRun) -> str | None:
    """Return the first difference in words; None if there is none.

    >>> describe_difference(SampleRun({"out": [1, 2]}), SampleRun({"out": [1, 3]}))
    "item 2 of 'out' must be 2; it is 3"
    """
    if expected.error != found.error:
        return f"it must {_name_end(expected.error)}; it does {_name_end(found.error)} here"
    if expected.error is not None:
        return None  # which items were delivered before an error: docs/semantics.md
    for name, items in expected.items.items():
        got = found.items[name]
        for number, (one, other) in enumerate(zip(items, got, strict=False), 1):
            if not is_same(one, other):
                must, have = reprlib.repr(one), reprlib.repr(other)
                return f"item {number} of {name!r} must be {must}; it is {have}"
        if len(items) != len(got):
            return f"{name!r} must have {len(items)} items; it has {len(got)}"
    return None


def _name_end(error: str | None) -> str:
    return "end well" if error is None else f"fail with {error!r}"


def is_same(one: Any, other: Any) -> bool:
    """Tell whether two items are equal to the last bit, as far as Python shows them.

    >>> is_same(1, True), is_same(float("nan"), float("nan")), is_same(0.0, -0.0)
    (False, True, False)
    """
    return _describe(one) == _describe(other)


def _describe(item: Any) -> tuple[str, str, str]:
    """Return the class of an item by name, since a program may be reloaded, and its
    text.

    Objects without a text of their own are described by their attributes.
    """
    kind = type(item)
    text: Any = kind.__repr__
    plain = text is object.__repr__ and hasattr(item, "__dict__")
    return kind.__module__, kind.__qualname__, repr(vars(item) if plain else item)


def assert_same_everywhere(
    program: Callable[[], Made] | Made,
    *,
    on: Sequence[EngineName] = ("local",),
    degrees: Sequence[int] = (1, 2, 3),
    epoch_items: Sequence[int] = (7, 1000),
    items: int | None = None,
) -> None:
    """Assert that a program gives the single-thread result on every engine.

    `program` is a function that makes the streams or the sinks, or those themselves; a
    function is called again for each run. `items` is how many items of each source are
    used; by default all. Spark takes some seconds to start: name it in `on`, as in
    `on=("local", "spark")`, to include it.

    >>> import anabranch as ab
    >>> def program():
    ...     squares = ab.from_iterable(range(100)).map(lambda n: n * n)
    ...     return squares.window(count=7).aggregate(sum)
    >>> ab.testing.assert_same_everywhere(program, degrees=(1, 3))
    """
    graph = make_graph(program)
    sample = take_sample(graph, items)
    expected = run_sample(graph, sample, Setting("sequential"))
    for setting in make_settings(on, degrees, epoch_items):
        found = run_sample(make_graph(program), sample, setting)
        difference = describe_difference(expected, found)
        if difference is not None:
            msg = f"{setting}: {difference}"
            raise AssertionError(msg)
