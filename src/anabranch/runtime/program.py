"""Fused programs: the operators of one element as generated Python.

Inside an element an item goes from operator to operator by nested loops and direct
calls, without queue or dispatch. Outputs are appended to one list per output stream.
With positions, every output carries the position of the item that caused it (see
`positions`), so that its place in the order is never lost.

Each generated line belongs to one operator. That line table names the operator when
user code raises, and lets the profiler locate a thread.
"""

from __future__ import annotations

import itertools
import linecache
import sys
from collections.abc import (
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from operator import length_hint
from types import CodeType, FrameType
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from anabranch.graph.graph import Edge, Graph, Op
from anabranch.graph.kind import SinkKind, SourceKind
from anabranch.operators.clock import Advance, forward_advance
from anabranch.operators.custom import Apply, Scan, check_pair
from anabranch.operators.getters import key_getter
from anabranch.operators.kernel import Kernel, State, Turn
from anabranch.operators.stateless import WINDOW, FlatMap, finite
from anabranch.operators.windows import Aggregate, summary_of
from anabranch.runtime.batch import ArrayItems, TableItems
from anabranch.runtime.codegen import Entry, write_program
from anabranch.runtime.failures import (
    Failure,
    OnError,
    failure_at_end,
    failure_of,
    stop,
)
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.keys import in_key_order, rank_bytes
from anabranch.runtime.positions import BEHIND_TURNS, FOR_ITEM, IN_TURN, Positions
from anabranch.runtime.state import States
from anabranch.runtime.verify.given import GivenWatch

Columns: TypeAlias = list[list[int]]  # positions, one list per component
StatesOf: TypeAlias = Mapping[str, dict[Any, State]]  # operator -> states by key

_serial = itertools.count()
_programs: WeakValueDictionary[str, Program] = WeakValueDictionary()  # by file name


def operator_at(frame: FrameType) -> str | None:
    """Return the operator of a frame, if its code is generated."""
    program = _programs.get(frame.f_code.co_filename)
    return None if program is None else program.operator_at(frame)


@lru_cache(maxsize=256)
def compile_text(source: str) -> CodeType:
    """Return the code of a text; all replicas of an element have the same."""
    return compile(source, "<anabranch>", "exec")


def rename(code: CodeType, filename: str) -> CodeType:
    """Return code, and all code in it, under the name of another file.

    >>> rename(compile("lambda: 1", "one", "eval"), "two").co_consts[0].co_filename
    'two'
    """
    inner = (
        rename(one, filename) if isinstance(one, CodeType) else one
        for one in code.co_consts
    )
    return code.replace(co_filename=filename, co_consts=tuple(inner))


def describe_position(place: int | None) -> str:
    """Return the text for an item's location when nothing more is known.

    >>> describe_position(7)
    'position 7'
    """
    return "an item" if place is None else f"position {place}"


@dataclass(frozen=True)
class Exit:
    """The outputs of an element on one stream: items, and columns of positions."""

    items: list[Any] = field(default_factory=list)
    positions: Columns = field(default_factory=list)
    # one at most, and no items
    tables: list[TableItems | ArrayItems] = field(default_factory=list)

    def copy_items(self) -> Any:
        """Return the outputs, as a list, a table or arrays."""
        return self.tables[0] if self.tables else self.items[:]

    def clear(self) -> None:
        """Clear the outputs after they have been taken."""
        self.items.clear()
        self.tables.clear()
        for column in self.positions:
            column.clear()


class Program:
    """The fused operators of one element.

    `entries` are the points where items come in: input streams (an `Edge`) and
    operators after which items are inserted (their name), such as a source or an
    operator that finishes. `run` takes a batch; `exits` then holds the outputs, by
    stream. Sinks are outside every program: the stream to a sink is an exit.

    When an item fails, `exits` holds the outputs before it.

    Not thread-safe; the element that owns it is its only caller.
    """

    def __init__(
        self,
        graph: Graph,
        operators: Iterable[str],
        entries: Sequence[Entry],
        *,
        positions: Positions | None = None,
        states: StatesOf | None = None,
        on_error: OnError = stop,
        describe: Callable[[int | None], str] = describe_position,
    ) -> None:
        self.graph = graph
        self._describe = describe
        self.entries = tuple(entries)
        self._on_error = on_error
        inside = tuple(operators)
        self.operators = frozenset(inside)
        kernels = {
            op.name: kernel_of(op)
            for op in (graph[name] for name in inside)
            if not isinstance(op.kind, SourceKind | SinkKind)
        }
        self.states: StatesOf = states or {
            name: States(graph[name], kernel)
            for name, kernel in kernels.items()
            if kernel.stateful
        }
        self._positions = positions
        resilient = on_error is not stop
        text = write_program(
            graph,
            inside,
            entries,
            positions,
            resilient=resilient,
        )
        self.exits: dict[Edge, Exit] = {
            edge: Exit([], [[] for _ in range(width)])
            for edge, width in text.widths.items()
        }
        self.filename = f"<anabranch {'+'.join(inside)[:60]} {next(_serial)}>"
        _programs[self.filename] = self
        self._text = text
        called = (text.line_table[line] for line in text.calls)
        self._functions = frozenset(called)  # operators with a function of their own
        self._kernels = kernels
        self._graph = graph
        self._given: GivenWatch | None = None
        self._counts = [0] * len(text.streams)
        self._run = self._compile_text(text.source)
        self.gives_arrays = False  # whether outputs may be `ArrayItems`, if of one exit
        self._run_counting: Callable[..., None] | None = None
        self._uncounted = 0  # items for which streams are still to be counted
        self.counted = 0  # input items of the counted batches

    @property
    def source(self) -> str:
        """The generated source."""
        return self._text.source

    @property
    def parts(self) -> tuple[Any, ...]:
        """The pieces of generated code that a thread may be in, for the profiler."""
        return (self,)

    def path_to(self, operator: str) -> tuple[str, ...]:
        """Return the operators of this program that lead to one of them."""
        return tuple(self._chain_to(operator, ()))

    @property
    def takes_tables(self) -> bool:
        """Whether the next batch may be a table, for `run_table`."""
        return False

    def run_table(self, table: Any, positions: Columns | None) -> bool:
        """Run the items of a table; False: nothing has happened, use `run`."""
        return False

    def run_arrays(self, items: ArrayItems, positions: Columns | None) -> bool:
        """Run items held as arrays; False: nothing has happened, use `run`."""
        return False

    def run(
        self,
        items: Sequence[Any],
        positions: Columns | None = None,
        entries: Sequence[int] | None = None,
    ) -> None:
        """Run a batch; `entries[i]` is the entry of item i (default 0).

        Errors of user code go to `on_error`.
        """
        run = self._run
        if self._uncounted and self._run_counting is not None:
            came = length_hint(items)
            self._uncounted = max(0, self._uncounted - came)
            self.counted += came
            run = self._run_counting
        given = self._given
        try:
            run(given.iterate(items) if given else items, positions, entries)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            self._on_error(self._failure(error))
        if given is not None:
            given.check()

    def watch_given(self) -> None:
        """From now on, stop if an output changes after it has been given."""
        if self._given is None:
            self._given = GivenWatch(self._graph, self.exits)

    def count_next(self, items: int) -> None:
        """Count the items of each stream in batches of so many; any thread may call
        it.
        """
        if self._run_counting is None:
            self._run_counting = self._compile_text(self._text.counting_source)
        self._uncounted = items

    @property
    def counts(self) -> Mapping[Edge, int]:
        """The items of each stream, inside and at the ends, in the counted batches."""
        return {edge: self._counts[n] for edge, n in self._text.streams.items()}

    def finish(
        self, operator: str, keys: Iterable[Any] | None = None
    ) -> list[tuple[bytes, list[Any]]]:
        """Return an operator's outputs at the end of the stream, of all keys or some.

        The keys finish in order: functions may have effects, and the first failure
        counts. Outputs come with bytes that order those of all its replicas.
        """
        op = self.graph[operator]
        kernel = kernel_of(op)
        outputs = []
        states = self.states[operator]
        for key in in_key_order(states if keys is None else keys):
            for turn in kernel.endings(key, states[key]):
                try:
                    made = list(turn.run())
                except Exception as error:  # noqa: BLE001 - as above
                    failure = failure_at_end(op, turn.key, error)
                    self._on_error(replace(failure, rank=rank_bytes(turn.order)))
                    continue
                if made:
                    outputs.append((rank_bytes(turn.order), made))
        return outputs

    def operator_at(self, frame: FrameType | None) -> str | None:
        """Return the operator that a thread is in, given its innermost frame."""
        while frame is not None:
            if frame.f_code.co_filename == self.filename:
                return self._text.line_table.get(frame.f_lineno)
            frame = frame.f_back
        return None

    def path_of(self, lines: Sequence[int]) -> tuple[str, ...]:
        """Return the operators that led a thread to its position, outermost first.

        `lines` are those of its frames in this program, innermost first. This is the
        E-stack of *Auto-pipelining* (Appendix C), read from the frames instead of
        maintained per item. It is empty between two items.
        """
        line, *outer = lines
        path: list[str] = []
        for call in reversed(outer):
            producer = self._text.calls.get(call)
            if producer is not None:
                path += self._chain_to(producer, path)
        operator = self._text.line_table.get(line)
        if operator is None:
            return tuple(path)
        if line in self._text.calls:
            path += self._chain_to(self._text.calls[line], path)
            return (*path, operator)
        return (*path, *self._chain_to(operator, path))

    def _chain_to(self, operator: str, path: Sequence[str]) -> list[str]:
        """Return the operators of one generated function down to one of them.

        Only the first one of a function may have several producers.
        """
        chain: list[str] = []
        inside = self._text.numbers
        while operator in inside and operator not in path:
            chain.insert(0, operator)
            if operator in self._functions:
                break
            producers = [p for p in self.graph.producers(operator) if p in inside]
            if len(producers) != 1:
                break
            (operator,) = producers
        return chain

    def _compile_text(self, source: str) -> Callable[..., None]:
        lines = source.splitlines(keepends=True)
        linecache.cache[self.filename] = (len(source), None, lines, self.filename)
        names: dict[str, Any] = {}
        exec(rename(compile_text(source), self.filename), names)  # noqa: S102 - our own
        bindings = self._bindings(self._kernels)
        made: Callable[..., None] = names["make"](bindings, self._counts)
        return made

    def _bindings(self, kernels: Mapping[str, Kernel]) -> dict[str, Any]:
        """Return the values of the names used in the text."""
        names: dict[str, Any] = {"fail": self._fail}
        for name, kernel in kernels.items():
            op, number = self.graph[name], self._text.numbers[name]
            states = self.states.get(name)
            names[f"k{number}"] = kernel.process
            names[f"g{number}"] = self._take_signs_too(op, kernel, states)
            names[f"S{number}"] = states
            if op.state_key:
                names[f"key{number}"] = key_getter(op.state_key)
            if isinstance(op.kind, Apply | FlatMap):
                names[f"finite{number}"] = finite
            if isinstance(op.kind, Scan):
                names[f"pair{number}"] = check_pair
            if isinstance(op.kind, Aggregate):
                names[f"f{number}"] = summary_of(op.kind)
            elif op.kind.user_code:
                names[f"f{number}"] = op.kind.user_code[0].function
        for edge, number in self._text.exits.items():
            left = self.exits[edge]
            names[f"out{number}"] = left.items
            for index, column in enumerate(left.positions):
                names[f"out{number}_{index}"] = column
        return names

    def _fail(self, operator: str, item: Any, place: Any, error: Exception) -> None:
        where = self._describe(place)
        self._on_error(failure_of(self.graph[operator], item, where, error))

    def _place_in(self, names: Mapping[str, Any]) -> tuple[int, ...] | None:
        """Return the number of the source item, and of the source if there are several."""
        wanted = ("p0", "p1") if len(self.graph.sources) > 1 else ("p0",)
        if not all(name in names for name in wanted):
            return None
        return tuple(names[name] for name in wanted)

    def _failure(self, error: Exception) -> Failure:
        """Return the failure, with the operator and item found by the line."""
        trace, operator, item = error.__traceback__, "", None
        place: tuple[int, ...] | None = None
        while trace is not None:
            frame = trace.tb_frame
            if frame.f_code.co_filename == self.filename:
                operator = self._text.line_table.get(trace.tb_lineno, operator)
                variable = self._text.items.get(trace.tb_lineno)
                item = frame.f_locals.get(variable, item) if variable else item
                place = self._place_in(frame.f_locals) or place
            trace = trace.tb_next
        if operator not in self.graph:
            raise error
        where = self._describe(None if place is None else place[0])
        return failure_of(self.graph[operator], item, where, error, place)

    def _take_signs_too(
        self, op: Op, kernel: Kernel, states: Mapping[Any, State] | None
    ) -> Callable[[Any, int], Any]:
        """Return the function from an item, punctuation or advance to the outputs.

        If the positions of the outputs have turns, these come with the outputs.
        """
        get_key = key_getter(op.state_key) if op.state_key else None

        def take(item: Any, port: int) -> Any:
            if type(item) is Advance:
                made: list[Any] = []
                for _, outputs in self._find_turns(op, kernel, item, port):
                    made += outputs
                return made + forward_advance(kernel, item, op.kind.outputs)
            if item is WINDOW:
                return self._at_punctuation(op, kernel, states)
            if states is None:
                return kernel.process(None, item, port)
            key = () if get_key is None else get_key(item)
            return kernel.process(states[key], item, port)

        def take_in_turns(item: Any, port: int) -> list[_InTurn]:
            if type(item) is Advance:
                return _place_turns(self._find_turns(op, kernel, item, port))
            outputs = take(item, port)
            if not outputs:
                return []
            return [(FOR_ITEM, b"", i, output) for i, output in enumerate(outputs)]

        positions = self._positions
        turning = positions is not None and positions.appends_turn(op.name)
        return take_in_turns if turning else take

    def _at_punctuation(
        self, op: Op, kernel: Kernel, states: Mapping[Any, State] | None
    ) -> list[Any]:
        outputs: list[Any] = []
        if kernel.handles_punctuation and states is not None:
            for key in in_key_order(states):
                outputs += self._ask(
                    op, WINDOW, partial(kernel.punctuation, states[key])
                )
        if kernel.forwards_punctuation:
            ports = range(op.kind.outputs)
            outputs += [(p, WINDOW) for p in ports] if kernel.routed else [WINDOW]
        return outputs

    def _find_turns(
        self, op: Op, kernel: Kernel, sign: Advance, port: int
    ) -> Iterator[tuple[Turn, Any]]:
        """Yield the turns that an advance causes, with their outputs."""
        states = self.states.get(op.name)
        if kernel.handles_clock and states is not None:
            for turn in kernel.advance(states[()], sign, port):
                yield turn, self._ask(op, sign, turn.run)

    def _ask(self, op: Op, sign: Any, step: Callable[[], Any]) -> Any:
        """Return the outputs of a step at a sign; if it fails, the others continue."""
        try:
            return step()
        except Exception as error:
            if self._on_error is stop:
                raise  # where it is reported with its place
            place = self._find_place()
            where = self._describe(None if place is None else place[0])
            self._on_error(failure_of(op, sign, where, error, place))
            return ()

    def _find_place(self) -> tuple[int, ...] | None:
        """Return the place of the item at which the program, further up, stands."""
        frame: FrameType | None = sys._getframe()  # noqa: SLF001 - of this very thread
        place: tuple[int, ...] | None = None
        while frame is not None and place is None:
            if frame.f_code.co_filename == self.filename:
                place = self._place_in(frame.f_locals)
            frame = frame.f_back
        return place


_InTurn: TypeAlias = tuple[int, bytes, int, Any]  # end of a position, and an output


def _place_turns(found: Iterable[tuple[Turn, Any]]) -> list[_InTurn]:
    """Return the outputs of an advance, each with its place."""
    made: list[_InTurn] = []
    for turn, outputs in found:
        if turn.order is None:
            made += [(BEHIND_TURNS, b"", 0, output) for output in outputs]
        elif outputs:
            order, numbered = rank_bytes(turn.order), enumerate(outputs, len(made))
            made += [(IN_TURN, order, i, output) for i, output in numbered]
    return made
