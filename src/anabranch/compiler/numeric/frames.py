"""What the names of a function stand for: at its call, and where branches meet."""

from __future__ import annotations

import ast
import types
from typing import Any

from anabranch.compiler.numeric.arithmetic import either
from anabranch.compiler.numeric.names import Frame
from anabranch.compiler.numeric.trace import Trace
from anabranch.compiler.numeric.values import RefusedError, Symbol


def bound(
    function: types.FunctionType,
    declared: ast.arguments,
    args: list[Any],
    keywords: dict[str, Any],
) -> dict[str, Any]:
    """Return the names of the parameters with their values."""
    if declared.vararg or declared.kwarg or declared.kwonlyargs:
        msg = f"{function.__name__} takes a varying number of arguments"
        raise RefusedError(msg)
    names = [each.arg for each in (*declared.posonlyargs, *declared.args)]
    defaults = function.__defaults__ or ()
    given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    given.update(zip(names, args, strict=False))
    given.update(keywords)
    if len(args) > len(names) or set(given) != set(names):
        msg = f"{function.__name__} is called with other arguments than it takes"
        raise RefusedError(msg)
    return given


def copied_frame(frame: Frame) -> Frame:
    """Return the frame with copies of the lists that it may change."""
    copies: dict[int, list[Any]] = {}

    def copied(value: Any) -> Any:
        if isinstance(value, list) and frame.owns(value):
            if id(value) not in copies:
                made: list[Any] = []
                copies[id(value)] = made
                made.extend(copied(each) for each in value)
            return copies[id(value)]
        if type(value) is tuple:
            return tuple(copied(each) for each in value)
        return value

    own = [copied(each) for each in frame.own]
    names = {name: copied(value) for name, value in frame.names.items()}
    return Frame(frame.function, names, frame.depth, own)


class Merged:
    """Chooses between two branches; what was one list in both stays one list."""

    def __init__(self, trace: Trace, held: Symbol, frame: Frame) -> None:
        self._trace = trace
        self._held = held
        self._frame = frame
        self._lists: dict[tuple[int, int], list[Any]] = {}

    def value(self, one: Any, two: Any) -> Any:
        """Return what a name stands for behind the branches."""
        if isinstance(one, list) and isinstance(two, list) and one is not two:
            key = (id(one), id(two))
            if key not in self._lists:
                if len(one) != len(two):
                    msg = "makes lists of different lengths on different paths"
                    raise RefusedError(msg)
                made = [self.value(a, b) for a, b in zip(one, two, strict=True)]
                self._frame.own.append(made)
                self._lists[key] = made
            return self._lists[key]
        return either(self._trace, self._held, one, two)
