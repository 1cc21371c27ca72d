"""Generates the source of a fused program: nested loops, one line per step.

For `filter(big) -> flat_map(parts)` with positions the core of the text is::

    for x0, p0 in zip(items, positions[0]):
        if f0(x0):
            for s2, x2 in enumerate(list(f1(x0))):
                a0(x2); a0_0(p0); a0_1(s2)

An operator reached by several streams is a function of its own; so is the rest of a
chain when the nesting gets deep.

Where an item enters a stream there is a comment, `# n[3] += 1`. It costs nothing; with
these comments enabled, the text counts the items of each stream (see
`Program.count_next`) and has the same line numbers.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from anabranch.graph.graph import Edge, Graph, Op
from anabranch.graph.kind import SinkKind, SourceKind
from anabranch.graph.types import fields_of
from anabranch.operators.custom import Apply, Scan
from anabranch.operators.fan_in import Union
from anabranch.operators.getters import KeyFunction
from anabranch.operators.stateless import Filter, FlatMap, Map, Punctuate
from anabranch.operators.windows import Aggregate
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.positions import Positions


def find_punctuated_operators(graph: Graph) -> frozenset[str]:
    """Return the operators whose outputs may carry punctuations or advances.

    >>> from anabranch.language.sources import from_iterable
    >>> from anabranch.language.drafts import build_graph
    >>> marked = from_iterable([1]).punctuate(bool, name="mark").map(abs, name="next")
    >>> sorted(find_punctuated_operators(build_graph([marked.to_list()])))
    ['mark', 'next']
    """
    if graph not in _punctuated:
        _punctuated[graph] = _find_punctuated(graph)
    return _punctuated[graph]


# Each program of a graph asks.
_punctuated: WeakKeyDictionary[Graph, frozenset[str]] = WeakKeyDictionary()


def _find_punctuated(graph: Graph) -> frozenset[str]:
    found: set[str] = set()
    for op in graph:
        if isinstance(op.kind, SourceKind | SinkKind):
            continue
        kernel = kernel_of(op)
        if (
            isinstance(op.kind, Punctuate)
            or kernel.makes_clock
            or (
                kernel.forwards_punctuation
                and found.intersection(graph.producers(op.name))
            )
        ):
            found.add(op.name)
    return frozenset(found)


Entry: TypeAlias = Edge | str  # an input stream, or the outputs of the named operator

_DEEPEST = 12  # Python allows 20 nested blocks
_INDENT = "    "
_COUNT = "# n["


@dataclass(frozen=True)
class Text:
    """A generated program.

    Its names are `f<n>` for the user's function of operator n, `k<n>` for its kernel,
    `g<n>` for its kernel on a stream with punctuations, `S<n>` for its states,
    `key<n>` for its key, `finite<n>` and `pair<n>` for the check of its outputs, and
    `out<m>` for the lists of exit m.
    """

    source: str
    numbers: Mapping[str, int]  # operator -> n
    exits: Mapping[Edge, int]  # output stream -> m
    widths: Mapping[Edge, int]  # output stream -> width of its positions
    line_table: Mapping[int, str]  # line -> operator
    items: Mapping[int, str]  # line -> variable with the current item
    # line that calls an operator -> operator whose item it passes on
    calls: Mapping[int, str]
    streams: Mapping[Edge, int]  # stream -> its index among the counts

    @property
    def counting_source(self) -> str:
        """The program that counts the items of each stream, line for line the same."""
        return "".join(
            line.replace(_COUNT, "n[", 1) if line.lstrip().startswith(_COUNT) else line
            for line in self.source.splitlines(keepends=True)
        )


def write_program(
    graph: Graph,
    operators: Iterable[str],
    entries: Sequence[Entry],
    positions: Positions | None,
    *,
    resilient: bool,
) -> Text:
    """Return the fused program of `operators`; a `resilient` one survives errors."""
    inside = tuple(operators)
    writer = _ProgramWriter(graph, inside, entries, positions, resilient)
    with _deep_enough(len(inside)):
        return writer.write()


_FRAMES = 8  # of the writer, for each operator of a chain


@contextmanager
def _deep_enough(operators: int) -> Iterator[None]:
    """Let the writer descend along a chain of so many operators."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _FRAMES * operators + 1000))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@dataclass(frozen=True)
class _Place:
    """The writer's position: nesting, and the names of the item and position."""

    depth: int
    item: str
    position: tuple[str, ...]


def _prolific(op: Op) -> Any:
    """Return the user's function or method that gives any number of outputs."""
    code = op.kind.user_code[0].function
    return getattr(code, "process", None) if isinstance(op.kind, Apply) else code


class _ProgramWriter:
    def __init__(
        self,
        graph: Graph,
        operators: tuple[str, ...],
        entries: Sequence[Entry],
        positions: Positions | None,
        resilient: bool,
    ) -> None:
        self.graph = graph
        self.entries = entries
        self.positions = positions
        self.resilient = resilient
        self.inside = {
            name for name in operators if not isinstance(graph[name].kind, SinkKind)
        }
        self.marked = find_punctuated_operators(graph)
        self.numbers = {name: number for number, name in enumerate(operators)}
        self.ways = self._count_entries()
        self.exits: dict[Edge, int] = {}
        self.lines: list[str] = []
        self.line_table: dict[int, str] = {}
        self.items: dict[int, str] = {}
        self.calls: dict[int, str] = {}
        self.unwritten: list[str] = []  # operators that are called but not written yet
        self.called: set[str] = set()
        self.streams: dict[Edge, int] = {}
        self.used: set[str] = set()
        self.variables = 0

    def _count_entries(self) -> Mapping[str, int]:
        """Count the places from which each operator is reached."""
        ways = dict.fromkeys(self.inside, 0)
        for edge in self.graph.edges:
            producer = edge.producer.operator
            reached = producer in self.inside or {edge, producer}.intersection(
                self.entries
            )
            if reached and edge.consumer.operator in self.inside:
                ways[edge.consumer.operator] += 1
        return ways

    def write(self) -> Text:
        self._line(1, "def run(items, positions, entries):")
        self._entry_loop()
        while self.unwritten:
            self._function(self.unwritten.pop())
        self._line(1, "return run")
        widths = {edge: self._width(edge) for edge in self.exits}
        header = self._header(widths)
        return Text(
            source="\n".join([*header, *self.lines, ""]),
            numbers=self.numbers,
            exits=self.exits,
            widths=widths,
            line_table={n + len(header): name for n, name in self.line_table.items()},
            items={n + len(header): name for n, name in self.items.items()},
            calls={n + len(header): name for n, name in self.calls.items()},
            streams=self.streams,
        )

    def _header(self, widths: Mapping[Edge, int]) -> list[str]:
        """Return the lines that bind the program's values to local names."""
        header = ["def make(names, n):"]
        header += [f"{_INDENT}{name} = names[{name!r}]" for name in sorted(self.used)]
        for edge, number in self.exits.items():
            outs = [f"{number}", *(f"{number}_{i}" for i in range(widths[edge]))]
            header += [f"{_INDENT}a{out} = names['out{out}'].append" for out in outs]
        return header

    def _entry_loop(self) -> None:
        width = max(map(self._entry_width, self.entries), default=0)
        targets = ["x0", *(f"p{i}" for i in range(width))]
        columns = ["items", *(f"positions[{i}]" for i in range(width))]
        several = len(self.entries) > 1
        if several:
            targets.insert(0, "e")
            columns.insert(0, "entries")
        source = f"zip({', '.join(columns)})" if len(columns) > 1 else "items"
        self._line(2, f"for {', '.join(targets)} in {source}:")
        for number, entry in enumerate(self.entries):
            if several:
                self._line(3, f"{'elif' if number else 'if'} e == {number}:")
            position = tuple(f"p{i}" for i in range(self._entry_width(entry)))
            place = _Place(3 + several, "x0", position)
            if isinstance(entry, Edge):
                self._count(entry, place.depth)
                self._consume(entry, place)
            else:
                self._emit(entry, place)

    def _function(self, name: str) -> None:
        """Write an operator that is reached from several places, or deeply nested."""
        width = self.positions.inside[name] if self.positions else 0
        position = tuple(f"p{i}" for i in range(width))
        parameters = ", ".join(("port", "x", *position))
        self._line(1, f"def op{self.numbers[name]}({parameters}):", name)
        self._operator(name, "port", _Place(2, "x", position))

    def _consume(self, edge: Edge, place: _Place) -> None:
        """Pass the item to the consumer of a stream."""
        name, port = edge.consumer
        place = _Place(place.depth, place.item, self._pad(name, place.position))
        if self.ways[name] == 1 and place.depth <= _DEEPEST:
            self._operator(name, str(port), place)
            return
        if name not in self.called:
            self.called.add(name)
            self.unwritten.append(name)
        arguments = ", ".join((str(port), place.item, *place.position))
        self._line(place.depth, f"op{self.numbers[name]}({arguments})", name)
        self.calls[len(self.lines)] = edge.producer.operator

    def _operator(self, name: str, port: str, place: _Place) -> None:
        """Write the code of an operator and of everything behind it."""
        op = self.graph[name]
        if self.marked.intersection(self.graph.producers(name)):
            self._loop(op, f"{self._use('g', op)}({place.item}, {port})", place)
            return
        match op.kind:
            case Union():
                self._emit(name, place)
            case Map() if not op.copied:
                self._map(op, place)
            case Filter():
                self._filter(op, place)
            case FlatMap() if not op.copied:
                self._call_prolific(op, self._use("f", op), place)
            case Scan() if not self.resilient and not op.copied:
                self._scan(op, place)
            case Apply() if not self.resilient and not op.copied:
                self._apply(op, place)
            case Aggregate(window=window) if (
                window.count is not None and window.every is None and not self.resilient
            ):
                self._count_window(op, window.count, place)
            case _:
                kernel = self._use("k", op)
                state = self._state(op, place)
                self._loop(op, f"{kernel}({state}, {place.item}, {port})", place)

    def _map(self, op: Op, place: _Place) -> None:
        made = self._variable("x")
        depth = self._step(op, f"{made} = {self._use('f', op)}({place.item})", place)
        self._emit(op.name, _Place(depth, made, place.position))

    def _filter(self, op: Op, place: _Place) -> None:
        test, depth = f"{self._use('f', op)}({place.item})", place.depth
        if self.resilient:
            kept = self._variable("c")
            depth = self._step(op, f"{kept} = {test}", place)
            test = kept
        self._line(depth, f"if {test}:", op.name, place.item)
        self._emit(op.name, _Place(depth + 1, place.item, place.position))

    def _loop(self, op: Op, call: str, place: _Place) -> None:
        """Write the loop over the outputs of a call that may return several."""
        made, depth, position = self._variable("x"), place.depth, place.position
        if self.resilient:
            outputs = self._variable("y")
            depth = self._step(op, f"{outputs} = {call}", place)
            call = outputs
        routed = kernel_of(op).routed
        target = f"r{made}, {made}" if routed else made
        if self.positions is not None and self.positions.appends_turn(op.name):
            appended = (f"h{made}", f"t{made}", f"s{made}")
            target = ", ".join((*appended, target))
            position = (*position, *appended)
        elif self.positions is not None and op.name in self.positions.prolific:
            target = f"s{made}, ({target})" if routed else f"s{made}, {target}"
            call = f"enumerate({call})"
            position = (*position, f"s{made}")
        self._line(depth, f"for {target} in {call}:", op.name, place.item)
        port = f"r{made}" if routed else None
        self._emit(op.name, _Place(depth + 1, made, position), port)

    def _scan(self, op: Op, place: _Place) -> None:
        made = self._variable("x")
        state = f"t{made}"
        self._step(op, f"{state} = {self._state(op, place)}", place)
        step = self._use("f", op)
        pair = f"y{made}"
        self._step(op, f"{pair} = {step}({state}[0], {place.item})", place)
        # The test doubles as the check, for the usual case.
        test = f"if type({pair}) is not tuple or len({pair}) != 2:"
        check = f"{self._use('pair', op)}({pair}, {step})"
        self._step(op, f"{test} {check}", place)
        self._step(op, f"{state}[0], {made} = {pair}", place)
        self._emit(op.name, _Place(place.depth, made, place.position))

    def _apply(self, op: Op, place: _Place) -> None:
        """Write a direct call of the user's method, without its kernel."""
        self._call_prolific(op, f"{self._state(op, place)}.process", place)

    def _call_prolific(self, op: Op, function: str, place: _Place) -> None:
        """Write the call of a function with any number of outputs.

        All are made before the first goes on. A generator often gives none: then a loop
        is faster than `list`, which prepares for some.
        """
        if not self.resilient and inspect.isgeneratorfunction(_prolific(op)):
            made = self._variable("y")
            self._step(op, f"{made} = []", place)
            each = f"for z{made} in {function}({place.item}): {made}.append(z{made})"
            self._step(op, each, place)
            self._loop(op, made, place)
            return
        outputs, check = self._variable("y"), self._use("finite", op)
        given = f"({outputs} := {function}({place.item})) is not None"
        refused = f"{check}({outputs}, {function})"
        self._loop(op, f"list({outputs}) if {given} else {refused}", place)

    def _count_window(self, op: Op, count: int, place: _Place) -> None:
        made, depth = self._variable("x"), place.depth
        state = f"t{made}"
        self._step(op, f"{state} = {self._state(op, place)}", place)
        self._step(op, f"{state}.append({place.item})", place)
        self._line(depth, f"if len({state}) == {count}:", op.name, place.item)
        inner = _Place(depth + 1, place.item, place.position)
        self._step(op, f"w{made} = {state}[:]", inner)
        self._step(op, f"{state}.clear()", inner)
        summary = f"{made} = {self._use('f', op)}(w{made})"
        self._step(op, summary, inner)
        self._emit(op.name, _Place(depth + 1, made, place.position))

    def _state(self, op: Op, place: _Place) -> str:
        if not kernel_of(op).stateful:
            return "None"
        states = self._use("S", op)
        if not op.state_key:
            return f"{states}[()]"
        if len(op.state_key) == 1:
            return f"{states}[{self._key_of(op, place)}]"
        return f"{states}[{self._use('key', op)}({place.item})]"

    def _key_of(self, op: Op, place: _Place) -> str:
        """Write how the only part of a key is read: inline if possible."""
        (name,) = op.state_key
        if isinstance(name, KeyFunction):
            return f"{self._use('key', op)}({place.item})"
        fed_by = [each.operator for each in op.inputs]
        types = [self.graph[n].type if n in self.graph else None for n in fed_by]
        if all(fields_of(one) is not None for one in types):
            return f"{place.item}.{name}"
        of_dict = f"{place.item}[{name!r}] if isinstance({place.item}, dict)"
        return f"{of_dict} else {place.item}.{name}"

    def _step(self, op: Op, statement: str, place: _Place) -> int:
        """Write a statement that may fail; return the depth of the code behind it."""
        if not self.resilient:
            self._line(place.depth, statement, op.name, place.item)
            return place.depth
        self.used.add("fail")
        where = place.position[0] if place.position else "None"
        failed = f"fail({op.name!r}, {place.item}, {where}, error)"
        for extra, text in (
            (0, "try:"),
            (1, statement),
            (0, "except Exception as error:"),
            (1, failed),
            (0, "else:"),
        ):
            self._line(place.depth + extra, text, op.name, place.item)
        return place.depth + 1

    def _emit(self, name: str, place: _Place, port: str | None = None) -> None:
        """Send the item down every branch, the first connected branch first."""
        edges = self.graph.out_edges(name)
        for edge in edges:
            depth, position = place.depth, place.position
            if port is not None:
                self._line(depth, f"if {port} == {edge.producer.port}:", name)
                depth += 1
            if self.positions is not None and edge in self.positions.branch:
                position = (*position, str(self.positions.branch[edge]))
            inner = _Place(depth, place.item, position)
            self._count(edge, depth)
            if edge.consumer.operator in self.inside:
                self._consume(edge, inner)
            else:
                self._leave(edge, inner)
        if not edges:
            self._line(place.depth, "pass")

    def _count(self, edge: Edge, depth: int) -> None:
        number = self.streams.setdefault(edge, len(self.streams))
        self._line(depth, f"{_COUNT}{number}] += 1")

    def _leave(self, edge: Edge, place: _Place) -> None:
        number = self.exits.setdefault(edge, len(self.exits))
        appends = [f"a{number}({place.item})"]
        if self.positions is not None:
            appends += [f"a{number}_{i}({p})" for i, p in enumerate(place.position)]
        self._line(place.depth, "; ".join(appends), edge.producer.operator)

    def _pad(self, name: str, position: tuple[str, ...]) -> tuple[str, ...]:
        if self.positions is None:
            return ()
        places = range(len(position), self.positions.inside[name])
        turns = self.positions.turns.get(name, ())
        return position + tuple('b""' if place in turns else "0" for place in places)

    def _width(self, edge: Edge) -> int:
        return 0 if self.positions is None else self.positions.on(edge)

    def _entry_width(self, entry: Entry) -> int:
        if isinstance(entry, Edge):
            return self._width(entry)
        return 0 if self.positions is None else self.positions.after[entry]

    def _use(self, prefix: str, op: Op) -> str:
        name = f"{prefix}{self.numbers[op.name]}"
        self.used.add(name)
        return name

    def _variable(self, prefix: str) -> str:
        self.variables += 1
        return f"{prefix}{self.variables}"

    def _line(
        self, depth: int, text: str, operator: str = "", item: str | None = None
    ) -> None:
        self.lines.append(_INDENT * depth + text)
        if operator:
            self.line_table[len(self.lines)] = operator
        if item is not None:
            self.items[len(self.lines)] = item
