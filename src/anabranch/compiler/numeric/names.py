"""The names of a traced function, and what they stand for."""

from __future__ import annotations

import ast
import builtins
import types
from dataclasses import dataclass, field
from typing import Any

from anabranch.compiler.numeric.calls import listed
from anabranch.compiler.numeric.values import Record, RefusedError

NO_NAME = object()


@dataclass
class Frame:
    """A call of a function of the user's: its names, and the lists that it has made."""

    function: types.FunctionType
    names: dict[str, Any]
    depth: int = 0
    own: list[list[Any]] = field(default_factory=list)

    def owns(self, made: list[Any]) -> bool:
        """Tell whether a list was made in this call, so that nobody else has it."""
        return any(one is made for one in self.own)

    def look_up(self, name: str) -> Any:
        """Return what a name stands for."""
        if name in self.names:
            return self.names[name]
        code = self.function.__code__
        if name in (*code.co_varnames, *code.co_cellvars):
            return NO_NAME  # its own, without a value on this path
        if name in code.co_freevars and self.function.__closure__ is not None:
            cell = self.function.__closure__[code.co_freevars.index(name)]
            return _content(cell)
        for scope in (self.function.__globals__, vars(builtins)):
            if name in scope:
                return scope[name]
        return NO_NAME


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing in it yet
        return NO_NAME


def bind(target: ast.expr, value: Any, names: dict[str, Any]) -> None:
    """Give the names of an assignment their values."""
    if isinstance(target, ast.Name):
        names[target.id] = value
        return
    if not isinstance(target, ast.Tuple | ast.List):
        msg = f"assigns to {type(target).__name__}"
        raise RefusedError(msg)
    parts = unpacked(value)
    if any(isinstance(t, ast.Starred) for t in target.elts):
        msg = "assigns to *names"
        raise RefusedError(msg)
    if len(parts) != len(target.elts):
        msg = f"takes {len(parts)} values apart into {len(target.elts)}"
        raise RefusedError(msg)
    for each, part in zip(target.elts, parts, strict=True):
        bind(each, part, names)


def unpacked(value: Any) -> list[Any]:
    return list(value.values) if isinstance(value, Record) else listed(value)
