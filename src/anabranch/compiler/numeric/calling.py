"""Traces calls: of the user's functions, of the language's, of methods of lists."""

from __future__ import annotations

import ast
import types
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from anabranch.compiler.numeric.calls import (
    PLAIN_SUM,
    call,
    knows,
    listed,
    zipped,
)
from anabranch.compiler.numeric.names import Frame
from anabranch.compiler.numeric.trace import Trace
from anabranch.compiler.numeric.values import (
    Record,
    RefusedError,
    is_number,
    is_tuple_type,
    shown,
)

_TOTAL = "<total>"


class Runs(Protocol):
    """Who runs statements."""

    def invoke(
        self, function: Any, args: list[Any], keywords: dict[str, Any], caller: Any
    ) -> Any:
        """Return what a function of the user's gives."""

    def run(self, steps: list[ast.stmt], frame: Frame) -> None:
        """Run statements."""


class Calling(ABC):
    """The part of evaluating expressions that is about calls."""

    def __init__(self, trace: Trace, runs: Runs) -> None:
        self.trace = trace
        self._runs = runs

    @abstractmethod
    def value(self, node: ast.expr, frame: Frame) -> Any:
        """Return the value of an expression that may be kept."""

    @abstractmethod
    def passing(self, node: ast.expr, frame: Frame) -> Any:
        """Return the value of an expression, which may be an iterator."""

    @abstractmethod
    def _elements(self, nodes: list[ast.expr], frame: Frame) -> Iterator[Any]: ...

    def _call(self, node: ast.Call, frame: Frame) -> Any:
        if isinstance(node.func, ast.Attribute):
            target = self.value(node.func.value, frame)
            if isinstance(target, Record) and node.func.attr == "_replace":
                return _replaced(target, self._keywords(node, frame))
            if isinstance(target, list):
                return self._list_method(target, node, frame)
        return self._function_call(self.value(node.func, frame), node, frame)

    def _function_call(self, function: Any, node: ast.Call, frame: Frame) -> Any:
        if function is sum and PLAIN_SUM and len(node.args) == 1 and not node.keywords:
            match node.args[0]:
                case ast.GeneratorExp(elt=element, generators=[each]) if not each.ifs:
                    return self._added_up(element, each, frame)
        if function is zip or (knows(function) and len(node.args) == 1):
            args = [self._argument(each, frame) for each in node.args]
        else:
            args = list(self._elements(node.args, frame))
        keywords = self._keywords(node, frame)
        if function is zip and not keywords.keys() - {"strict"}:
            return zipped(args, **keywords)
        if is_tuple_type(function):
            return _record(function, args, keywords)
        if isinstance(function, types.FunctionType):
            return self._runs.invoke(function, args, keywords, frame)
        return self._known_call(function, args, keywords, frame)

    def _known_call(
        self, function: Any, args: list[Any], keywords: dict[str, Any], frame: Frame
    ) -> Any:
        if not knows(function) or keywords:
            name = getattr(function, "__name__", shown(function))
            msg = f"calls {name}" + (" with keywords" if keywords else "")
            raise RefusedError(msg)
        try:
            return self._owned(call(self.trace, function, args), frame)
        except TypeError as error:
            msg = f"calls {function.__name__} in a way that is not known: {error}"
            raise RefusedError(msg) from error

    def _added_up(
        self, element: ast.expr, each: ast.comprehension, frame: Frame
    ) -> Any:
        """Return `sum(element for ...)`, as the loop that it is."""
        inner = Frame(
            frame.function, {**frame.names, _TOTAL: 0}, frame.depth, frame.own
        )
        total = ast.Name(_TOTAL, ast.Load())
        added = ast.BinOp(total, ast.Add(), element)
        body: list[ast.stmt] = [ast.Assign([ast.Name(_TOTAL, ast.Store())], added)]
        self.trace.in_expression += 1
        try:
            self._runs.run([ast.For(each.target, each.iter, body, [])], inner)
        finally:
            self.trace.in_expression -= 1
        if not is_number(inner.names[_TOTAL]):
            msg = f"adds up a {shown(inner.names[_TOTAL])}"
            raise RefusedError(msg)
        return inner.names[_TOTAL]

    def _argument(self, node: ast.expr, frame: Frame) -> Any:
        if isinstance(node, ast.Starred):
            msg = "calls with *arguments"
            raise RefusedError(msg)
        return self.passing(node, frame)

    def _keywords(self, node: ast.Call, frame: Frame) -> dict[str, Any]:
        if any(each.arg is None for each in node.keywords):
            msg = "calls with **keywords"
            raise RefusedError(msg)
        return {str(k.arg): self.value(k.value, frame) for k in node.keywords}

    def _list_method(self, target: list[Any], node: ast.Call, frame: Frame) -> None:
        assert isinstance(node.func, ast.Attribute)  # noqa: S101 - seen by the caller
        args = list(self._elements(node.args, frame))
        self.changing(target, frame)
        match node.func.attr, args:
            case "append", [value]:
                target.append(value)
            case "extend", [values]:
                target.extend(listed(values))
            case name, _:
                msg = f"calls .{name} of a list"
                raise RefusedError(msg)

    def changing(self, target: Any, frame: Frame) -> None:
        """Refuse to change what somebody else may hold, or only on one path."""
        if not isinstance(target, list) or not frame.owns(target):
            msg = "changes something that it has not made itself"
            raise RefusedError(msg)
        if self.trace.in_expression:
            msg = "changes a list within a condition"
            raise RefusedError(msg)

    def _owned(self, made: Any, frame: Frame) -> Any:
        if isinstance(made, list):
            frame.own.append(made)
        return made


def _record(made: Any, args: list[Any], keywords: Mapping[str, Any]) -> Record:
    given = dict(made._field_defaults)
    given.update(zip(made._fields, args, strict=False))
    given.update(keywords)
    whole = len(args) <= len(made._fields) and set(given) == set(made._fields)
    twice = set(made._fields[: len(args)]) & set(keywords)
    if not whole or twice:
        msg = f"makes a {made.__name__} with other attributes than it has"
        raise RefusedError(msg)
    return Record(made, tuple(given[name] for name in made._fields))


def _replaced(record: Record, keywords: Mapping[str, Any]) -> Record:
    fields = record.type._fields  # type: ignore[attr-defined]
    if not set(keywords) <= set(fields):
        msg = f"replaces what a {record.type.__name__} does not have"
        raise RefusedError(msg)
    pairs = zip(fields, record.values, strict=True)
    return Record(record.type, tuple(keywords.get(n, v) for n, v in pairs))
