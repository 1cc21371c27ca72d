"""`to_stream`: an ordinary loop as a stream program.

The parts of a marked loop become functions with tuple types between them. There is one function for the source, and one for each stage. The function is rewritten
as a syntax tree: its loop becomes nested functions, which it returns. So the code
before the loop runs as before, the stages see its variables, and every line keeps its
number. For `double` of

    @ab.to_stream
    def double(numbers, out):
        for n in numbers:
            with ab.stage():
                n = 2 * n
            with ab.stage():
                out.append(n)

it is

    def double(numbers, out):
        def double_source():
            for n in numbers:
                yield n
        def double_1(n):
            n = 2 * n
            return n
        def double_2(n):
            out.append(n)
        return (numbers, double_source, (double_1, double_2), ((), ()))

Streams between stages have a tuple type if the code plainly says so. A type is useful
(columns instead of pickles, more for analysis to use), but it is left out wherever it
would be a guess: for several variables, or one that is assigned twice.
"""

from __future__ import annotations

import ast
import copy
import functools
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from anabranch.errors import ArgumentError
from anabranch.graph.declarations import declare
from anabranch.graph.site import Site
from anabranch.graph.types import (
    find_return_element_type,
    find_return_type,
    why_not_tuple_type,
)
from anabranch.language.drafts import Result, build_graph
from anabranch.language.loop.read_loop import (
    LoopPlace,
    MarkedLoop,
    Stage,
    names_of,
    read_loop,
    value_of,
)
from anabranch.language.loop.variables import (
    Wires,
    Wiring,
    flow_of,
    why_given_again,
    why_shared,
    wire,
)
from anabranch.language.stream import Stream, source
from anabranch.operators.sources import FromIterable, Generate
from anabranch.python.objects import is_scalar
from anabranch.python.source import SourceFile, file_of, node_of, path_to_show, rewrite

Statement = TypeVar("Statement", bound=ast.stmt)


@dataclass(frozen=True)
class Parts:
    """A loop as functions; `items` is its iterable, if that is all of its head.

    `kept` are the initial values of each stage's state.
    """

    items: Any
    source: Callable[[], Any]
    stages: tuple[Callable[..., Any], ...]
    kept: tuple[tuple[Any, ...], ...]


def parts_maker(
    function: types.FunctionType, parsed: SourceFile, loop: MarkedLoop, wiring: Wiring
) -> Callable[..., Parts]:
    """Return a function of the same parameters that returns the parts of the loop."""
    memo: dict[int, Any] = {}
    tree = copy.deepcopy(parsed.tree, memo)
    new: ast.FunctionDef = memo[id(loop.node)]
    new.decorator_list = []
    new.returns = None
    new.body = _LoopWriter(loop, wiring).body()
    ast.fix_missing_locations(tree)
    code = rewrite(function.__code__.co_filename, tree, new, loop.node)
    cells = dict(
        zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    )
    made = types.FunctionType(
        code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(cells[name] for name in code.co_freevars),
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__qualname__

    def parts(*args: Any, **keywords: Any) -> Parts:
        return Parts(*made(*args, **keywords))

    return parts


class _LoopWriter:
    def __init__(self, loop: MarkedLoop, wiring: Wiring) -> None:
        self.loop = loop
        self.wiring = wiring
        self.taken = {
            *loop.parameters,
            *(n.id for n in ast.walk(loop.node) if isinstance(n, ast.Name)),
        }

    def body(self) -> list[ast.stmt]:
        name = self.loop.node.name
        source = self._free(f"{name}_source")
        made = [self._source(source)]
        stages: list[str] = []
        for number, stage in enumerate(self.loop.stages):
            stages.append(self._free(f"{name}_{number + 1}"))
            made.append(self._stage(stages[-1], stage, self.wiring.stages[number]))
        kept = [_tuple(wires.kept, ast.Load()) for wires in self.wiring.stages]
        given = ast.Tuple(
            [
                self._items(),
                ast.Name(source, ast.Load()),
                _tuple(stages, ast.Load()),
                ast.Tuple([*kept], ast.Load()),
            ],
            ast.Load(),
        )
        last = ast.copy_location(ast.Return(given), self.loop.loop)
        return [*copy.deepcopy(self.loop.before), *made, last]

    def _items(self) -> ast.expr:
        """Return the iterable of the loop, if the source is nothing but that."""
        match self.loop.loop:
            case ast.For(target=ast.Name(id=target), iter=ast.Name(id=items)):
                alone = self.wiring.head_outputs == (target,)
                if not self.loop.head and alone and items != target:
                    return ast.Name(items, ast.Load())
        return ast.Constant(None)

    def _source(self, name: str) -> ast.FunctionDef:
        loop = copy.deepcopy(self.loop.loop)
        given = ast.Expr(ast.Yield(_value(self.wiring.head_outputs)))
        at = self.loop.stages[0].line
        loop.body = [*copy.deepcopy(self.loop.head), _at_line(given, at)]
        kept = self.wiring.head_kept  # begins with its value before the loop
        arguments = _arguments(())
        arguments.kwonlyargs = [ast.arg(one) for one in kept]
        arguments.kw_defaults = [ast.Name(one, ast.Load()) for one in kept]
        return _define(name, arguments, [loop], loop.lineno)

    def _stage(self, name: str, stage: Stage, wires: Wires) -> ast.FunctionDef:
        body = [*copy.deepcopy(stage.body)]
        first: list[ast.stmt] = []
        parameters: list[str] = []
        if wires.kept:
            parameters.append(self._taking(wires.kept, "kept", first))
        if len(wires.inputs) == 1:
            parameters.append(wires.inputs[0])
        else:
            parameters.append(self._taking(wires.inputs, "turn", first))
        if wires.outputs or wires.kept:
            value: ast.expr = _value(wires.outputs)
            if wires.kept:
                pair: list[ast.expr] = [_tuple(wires.kept, ast.Load()), value]
                value = ast.Tuple(pair, ast.Load())
            line = body[-1].end_lineno or stage.line
            body.append(_at_line(ast.Return(value), line))
        entry = [_at_line(one, stage.line) for one in first]
        return _define(name, _arguments(parameters), [*entry, *body], stage.line)

    def _taking(self, names: Sequence[str], whole: str, into: list[ast.stmt]) -> str:
        """Unpack several variables from one; return its name."""
        one = self._free(whole)
        if names:
            target = _tuple(names, ast.Store())
            into.append(ast.Assign([target], ast.Name(one, ast.Load())))
        return one

    def _free(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name


def _value(names: Sequence[str]) -> ast.expr:
    """Return the one variable that is passed on, or a tuple of several."""
    if len(names) == 1:
        return ast.Name(names[0], ast.Load())
    return _tuple(names, ast.Load())


def _tuple(names: Sequence[str], context: ast.expr_context) -> ast.Tuple:
    return ast.Tuple([ast.Name(name, context) for name in names], context)


def _arguments(names: Sequence[str]) -> ast.arguments:
    return ast.arguments(
        posonlyargs=[],
        args=[ast.arg(name) for name in names],
        kwonlyargs=[],
        kw_defaults=[],
        defaults=[],
    )


def _define(
    name: str, arguments: ast.arguments, body: list[ast.stmt], line: int
) -> ast.FunctionDef:
    # has every field of this Python version
    (made,) = ast.parse("def name(): ...").body
    assert isinstance(made, ast.FunctionDef)  # noqa: S101 - so it is written
    made.name, made.args, made.body = name, arguments, body
    made.lineno = made.end_lineno = line
    return _at_line(made, line)


def _at_line(node: Statement, line: int) -> Statement:
    """Assign generated code to a line of the user's."""
    for part in ast.walk(node):
        if not hasattr(part, "lineno") and isinstance(
            part, ast.stmt | ast.expr | ast.arg
        ):
            part.lineno = part.end_lineno = line
            part.col_offset = part.end_col_offset = 0
    return node


def type_of_items(
    loop: MarkedLoop, outputs: Sequence[str], names: Mapping[str, Any]
) -> Any:
    """Return the type of the source's items."""
    match loop.loop:
        case ast.For(target=ast.Name(id=target), iter=ast.Call(func=func)):
            if (target,) == tuple(outputs) and target not in flow_of(loop.head).writes:
                return _usable(find_return_element_type, func, names)
    return _find_assigned_type(loop.head, outputs, names)


def type_of_outputs(
    stage: Stage, outputs: Sequence[str], names: Mapping[str, Any]
) -> Any:
    """Return the type of a stage's outputs."""
    return _find_assigned_type(stage.body, outputs, names)


def _find_assigned_type(
    body: Sequence[ast.stmt], outputs: Sequence[str], names: Mapping[str, Any]
) -> Any:
    """Return the annotated result of a function whose result is passed on."""
    found = None
    for statement in body:
        if [*flow_of([statement]).writes] != [*outputs]:
            if len(outputs) != 1 or outputs[0] in flow_of([statement]).writes:
                return None
            continue
        match statement:
            case ast.Assign(targets=[ast.Name()], value=ast.Call(func=func)):
                found = _usable(find_return_type, func, names)
            case _:
                return None
    return found


def _usable(told: Any, func: ast.expr, names: Mapping[str, Any]) -> Any:
    function = value_of(func, names)
    if function is None:
        return None
    if isinstance(function, type):  # a call of a class makes one
        made = function if told is find_return_type else None
    else:
        made = told(function)
    return None if made is None or why_not_tuple_type(made) is not None else made


Made = TypeVar("Made", Stream, Result)


class Loop:
    """A function with a marked loop: call it, or get its `stream`.

    >>> import anabranch as ab
    >>> @ab.to_stream
    ... def double(numbers, found):
    ...     for n in numbers:
    ...         with ab.stage():
    ...             n = 2 * n
    ...         with ab.stage():
    ...             found.append(n)
    >>> found = []
    >>> _ = ab.run(double.stream([1, 2], found), on="local")
    >>> found
    [2, 4]
    """

    def __init__(self, function: types.FunctionType, owner: Any = None) -> None:
        functools.update_wrapper(self, function)
        self.__name__ = function.__name__
        self._function = function
        self._first = () if owner is None else (owner,)  # of a method

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Run the loop as written."""
        return self._function(*self._first, *args, **keywords)

    def __get__(self, owner: Any, kind: Any = None) -> Loop:
        """Return the loop as a method of an object."""
        return self if owner is None else Loop(self._function, owner)

    def stream(self, *args: Any, **keywords: Any) -> Result:
        """Return the loop as a program, with these arguments; nothing runs yet.

        The code before the loop does run: it is not part of the stream.
        """
        loop, wiring, make = self._read
        parts = make(*self._first, *args, **keywords)
        names = names_of(self._function)
        whole = _Build(loop, wiring, replace(parts, items=None), names)  # all its code
        graph = build_graph([whole.sink()])
        refusal = why_given_again(graph, whole.operators[0]) or why_shared(
            graph, whole.operators
        )
        if refusal is not None:
            raise refusal
        return _Build(loop, wiring, parts, names).sink()

    @functools.cached_property
    def _read(self) -> tuple[MarkedLoop, Wiring, Callable[..., Parts]]:
        code = self._function.__code__
        place = LoopPlace(path_to_show(code.co_filename), self._function.__name__)
        node, parsed = node_of(code), file_of(code.co_filename)
        if parsed is None or not isinstance(node, ast.FunctionDef):
            reason = "its source is not available, so its stages cannot be found"
            fix = "put it into a file, as a plain function"
            raise place.refuse(code.co_firstlineno, reason, fix)
        loop = read_loop(node, place, names_of(self._function))
        wiring = wire(loop)
        return loop, wiring, parts_maker(self._function, parsed, loop, wiring)


def to_stream(function: Callable[..., Any]) -> Loop:
    """Turn a function with a loop of marked stages into a stream program.

    The function still runs as written when it is called. Its `stream(...)` takes the
    same arguments and returns a sink for `ab.run`: the code before the first stage is
    the source, each `with ab.stage():` an operator, and the last stage, which passes
    nothing on, the sink (one that names outputs is collected, as by `to_list`). Stages
    that are proved to be stateless are replicated; a variable that only one stage
    carries between iterations is its state. Code that cannot be turned into stages is
    refused with its line and the reason.

    >>> import anabranch as ab
    >>> @ab.to_stream
    ... def running(numbers):
    ...     total = 0
    ...     for n in numbers:
    ...         with ab.stage():
    ...             n = n * n
    ...         with ab.stage(outputs="total"):
    ...             total += n
    >>> totals = running.stream([1, 2, 3])
    >>> _ = ab.run(totals, on="sequential")
    >>> totals.items
    [1, 5, 14]
    """
    if not isinstance(function, types.FunctionType):
        msg = f"to_stream takes a function; got {type(function).__name__}"
        raise ArgumentError(msg)
    return Loop(function)


class _Build:
    """Assembles the parts of a loop as a stream."""

    def __init__(
        self, loop: MarkedLoop, wiring: Wiring, parts: Parts, names: dict[str, Any]
    ) -> None:
        self.loop = loop
        self.wiring = wiring
        self.parts = parts
        self.names = names
        self.operators: list[str] = []

    def sink(self) -> Result:
        stream = self._source()
        for number, stage in enumerate(self.loop.stages):
            wires = self.wiring.stages[number]
            made = self._stage(stream, number, stage, wires)
            if isinstance(made, Result):
                return made
            stream = made
        name = self._name("", "outputs")
        collected = bool(self.wiring.stages[-1].outputs)
        sink = stream.to_list(name=name)
        if not collected:
            sink = stream.for_each(_nothing, name=name)
        return self._at(sink, self.loop.stages[-1])

    def _source(self) -> Stream:
        items, name = self.parts.items, self._name("", "source")
        kind: Generate | FromIterable = Generate(self.parts.source)
        if isinstance(items, list | tuple | range):
            kind = FromIterable(items)
        type_ = type_of_items(self.loop, self.wiring.head_outputs, self.names)
        stream = source(kind, type_, name)
        stream.draft.site = Site(self.loop.place.file, self.loop.loop.lineno)
        self.operators.append(name)
        return stream

    def _stage(
        self, stream: Stream, number: int, stage: Stage, wires: Wires
    ) -> Stream | Result:
        function = self.parts.stages[number]
        name = self._name(stage.name, str(number + 1))
        self.operators.append(name)
        if stage.replicate is not None:
            declare(state="stateless" if stage.replicate else "global")(function)
        type_ = type_of_outputs(stage, wires.outputs, self.names)
        if wires.kept:
            self._refuse_replicas_with_state(stage, wires)
            first = self.parts.kept[number]
            self._refuse_changing_state(stage, wires, first)
            made = stream.scan(function, first, type=type_, name=name)
            return self._at(made, stage)
        if number + 1 == len(self.loop.stages) and not wires.outputs:
            return self._at(stream.for_each(function, name=name), stage)
        return self._at(stream.map(function, type=type_, name=name), stage)

    def _name(self, given: str | None, default: str) -> str:
        return given or f"{self.loop.node.name}_{default}"

    def _at(self, made: Made, stage: Stage) -> Made:
        made.draft.site = Site(self.loop.place.file, stage.line)
        return made

    def _refuse_replicas_with_state(self, stage: Stage, wires: Wires) -> None:
        if stage.replicate:
            reason = f"the stage keeps {', '.join(wires.kept)} from turn to turn"
            fix = "leave out replicate=True"
            raise self.loop.place.refuse(stage.line, reason, fix)

    def _refuse_changing_state(
        self, stage: Stage, wires: Wires, first: tuple[Any, ...]
    ) -> None:
        """Refuse an initial value that the stage could change for others too."""
        for name, value in zip(wires.kept, first, strict=True):
            if not _cannot_change(value):
                reason = (
                    f"the stage keeps {name} from turn to turn, which begins as a "
                    f"{type(value).__name__} that others may see change"
                )
                fix = (
                    "begin with a value that cannot change, or change the object by "
                    "its methods without assigning the variable"
                )
                raise self.loop.place.refuse(stage.line, reason, fix)


def _cannot_change(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_cannot_change, value))
    return is_scalar(value)


def _nothing(item: Any) -> None:
    """Do nothing with an item."""
