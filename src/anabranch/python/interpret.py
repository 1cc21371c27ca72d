"""Runs a function without running it, until nothing new is learnt.

Variables and objects only ever gain possibilities, of which there are finitely many, so
executing the body again and again comes to an end. A recursive call joins the call that
is under way. Calls into the user's functions are followed with the values at hand.
"""

from __future__ import annotations

import ast
import types
from typing import Any

from anabranch.python.source import (
    FunctionNode,
    captured_names,
    declared_global,
    is_generator,
    node_of,
    own_names,
    shown_path,
)
from anabranch.python.statements import Statements
from anabranch.python.universe import Universe
from anabranch.python.values import (
    ELEMENTS,
    NOTHING,
    Arguments,
    Closure,
    Findings,
    Frame,
    Plain,
    Value,
    join,
)

_DEEPEST = 30
_MOST_CALLS = 5_000


class Interpreter(Statements):
    """Collects the findings about one operator's code."""

    def __init__(self, universe: Universe) -> None:
        super().__init__(universe)
        self._frames: dict[Any, Frame] = {}
        self._active: dict[Any, Frame] = {}
        self._calls = 0

    def forget_calls(self) -> None:
        """Follow each call anew, so that all it does is seen again."""
        self._frames.clear()

    @property
    def _progress(self) -> int:
        return self.growth + self.heap.version

    def call_function(
        self,
        function: types.FunctionType | Closure,
        args: Arguments,
        node: ast.AST,
        frame: Frame,
    ) -> Value:
        body = (
            function.node
            if isinstance(function, Closure)
            else node_of(function.__code__)
        )
        if body is None:
            name = getattr(function, "__qualname__", "a function")
            text = f"the source of {name} is not at hand"
            return self.unknown_code(text, node, frame)
        if isinstance(body, ast.AsyncFunctionDef):
            return self.unknown_code(f"{body.name} is async", node, frame)
        identity = _identity(function)
        if identity in self._active:
            inner = self._active[identity]
        else:
            self._calls += 1
            if len(self._active) > _DEEPEST or self._calls > _MOST_CALLS:
                text = "the code is too large to follow"
                return self.unknown_code(text, node, frame)
            key = (identity, _key(args))
            if key not in self._frames:
                self._frames[key] = self._frame(function, body, frame)
            inner = self._frames[key]
        self._pass_arguments(function, body, args, inner, frame)
        if identity not in self._active and inner.finished_at != self._progress:
            self._active[identity] = inner
            self._run(body, inner)
            del self._active[identity]
        return self._result(body, inner, node, frame)

    def _frame(
        self, function: types.FunctionType | Closure, body: FunctionNode, caller: Frame
    ) -> Frame:
        self.found.visited.add(body)
        if isinstance(function, Closure):
            outer: Frame | None = function.frame
            file, real = function.frame.file, function.frame.function
        else:
            outer, real = self.defined_in.get(id(function)), function
            file = shown_path(function.__code__.co_filename)
        return Frame(
            body,
            file,
            real,
            outer,
            own_names(body),
            declared_global(body),
            captured=captured_names(body),
        )

    def _run(self, body: FunctionNode, frame: Frame) -> None:
        while True:
            before = self._progress
            if isinstance(body, ast.Lambda):
                self.give_back(self.evaluate(body.body, frame), frame)
            else:
                self.execute(body.body, frame)
                self.give_back(frozenset([Plain(type(None))]), frame)
            if before == self._progress:
                frame.finished_at = before
                return

    def _result(
        self, body: FunctionNode, inner: Frame, node: ast.AST, frame: Frame
    ) -> Value:
        if not is_generator(body):
            return inner.returned
        fresh = self.fresh(body, inner, types.GeneratorType)
        self.heap.put(fresh.site, ELEMENTS, inner.yielded)
        return frozenset([fresh])

    # -- arguments

    def _pass_arguments(
        self,
        function: types.FunctionType | Closure,
        body: FunctionNode,
        args: Arguments,
        inner: Frame,
        caller: Frame,
    ) -> None:
        spec = body.args
        names = [arg.arg for arg in [*spec.posonlyargs, *spec.args]]
        for name, value in zip(names, args.positional, strict=False):
            self.hold(name, value, inner)
        extra = args.positional[len(names) :]
        keywords = [*names, *(arg.arg for arg in spec.kwonlyargs)]
        for index, name in enumerate(keywords):
            rest = NOTHING if index < len(args.positional) else args.rest
            self.hold(name, args.keywords.get(name, NOTHING) | rest, inner)
        others = [v for n, v in args.keywords.items() if n not in keywords]
        for star, values in ((spec.vararg, extra), (spec.kwarg, others)):
            if star is not None:
                fresh = self.fresh(star, inner, tuple if star is spec.vararg else dict)
                self.heap.put(fresh.site, ELEMENTS, join([*values, args.rest]))
                self.hold(star.arg, frozenset([fresh]), inner)
        given = {*names[: len(args.positional)], *args.keywords}
        for name, default in self._defaults(function, body, caller):
            if name not in given:
                self.hold(name, default, inner)

    def _defaults(
        self, function: types.FunctionType | Closure, body: FunctionNode, frame: Frame
    ) -> list[tuple[str, Value]]:
        spec = body.args
        names = [arg.arg for arg in [*spec.posonlyargs, *spec.args]]
        if isinstance(function, Closure):
            pairs = list(
                zip(reversed(names), reversed(spec.defaults), strict=False)
            ) + [
                (arg.arg, default)
                for arg, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True)
                if default is not None
            ]
            return [(n, self.evaluate(d, function.frame)) for n, d in pairs]
        values = [
            *zip(reversed(names), reversed(function.__defaults__ or ()), strict=False),
            *(function.__kwdefaults__ or {}).items(),
        ]
        return [
            (name, self.existing(value, f"the default of {name}", body, frame))
            for name, value in values
        ]


def _identity(function: types.FunctionType | Closure) -> Any:
    if isinstance(function, Closure):
        return (function.node, id(function.frame))
    return id(function)


def _key(args: Arguments) -> Any:
    return (
        tuple(args.positional),
        tuple(sorted(args.keywords.items(), key=lambda pair: pair[0])),
        args.rest,
    )


def follow(universe: Universe, callee: Any, args: Arguments) -> tuple[Findings, Value]:
    """Return what calling an object with these arguments does, and what it gives."""
    interpreter, result = called(universe, callee, args)
    return interpreter.found, result


def called(
    universe: Universe, callee: Any, args: Arguments
) -> tuple[Interpreter, Value]:
    """Call an object; return the interpreter that did, and what the call gives."""
    interpreter = Interpreter(universe)
    frame = outermost(callee)
    value = interpreter.existing(callee, _name(callee), frame.node, frame)
    return interpreter, interpreter.call(value, args, frame.node, frame)


def outermost(callee: Any) -> Frame:
    """Return the frame in which an operator's function counts as called."""
    target = getattr(callee, "__func__", callee)
    code = getattr(target, "__code__", None)
    file = "<builtin>" if code is None else shown_path(code.co_filename)
    name = ast.Name(_name(callee), ast.Load())
    name.lineno = 0 if code is None else code.co_firstlineno
    return Frame(name, file, outermost, None, frozenset())  # type: ignore[arg-type]


def _name(callee: Any) -> str:
    name = getattr(callee, "__qualname__", type(callee).__qualname__)
    return str(name).rpartition("<locals>.")[2]
