"""Turns the parts of a marked loop into functions and the tuple types between them.

There is one function for the source, and one for each stage. The function is rewritten
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
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from anabranch.graph.types import (
    find_return_element_type,
    find_return_type,
    why_not_tuple_type,
)
from anabranch.language.loop.read_loop import MarkedLoop, Stage, value_of
from anabranch.language.loop.variables import Wires, Wiring, flow_of
from anabranch.python.source import SourceFile, rewrite

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
