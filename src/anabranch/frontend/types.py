"""The tuple types of what goes from stage to stage, where the code plainly says so.

A type is a help (columns instead of pickles, more for analysis to go by), so it is left
out wherever it would be a guess: for several variables, or one that is assigned twice.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.frontend.flow import flow_of
from anabranch.frontend.read_loop import MarkedLoop, Stage, value_of
from anabranch.graph.types import (
    returned_element_type,
    returned_type,
    why_not_tuple_type,
)


def type_of_items(
    loop: MarkedLoop, outputs: Sequence[str], names: Mapping[str, Any]
) -> Any:
    """Return the type of what the source gives."""
    match loop.loop:
        case ast.For(target=ast.Name(id=target), iter=ast.Call(func=func)):
            if (target,) == tuple(outputs) and target not in flow_of(loop.head).writes:
                return _usable(returned_element_type, func, names)
    return _assigned_type(loop.head, outputs, names)


def type_of_outputs(
    stage: Stage, outputs: Sequence[str], names: Mapping[str, Any]
) -> Any:
    """Return the type of what a stage gives."""
    return _assigned_type(stage.body, outputs, names)


def _assigned_type(
    body: Sequence[ast.stmt], outputs: Sequence[str], names: Mapping[str, Any]
) -> Any:
    """Return what a function is annotated to return whose result is handed on."""
    found = None
    for statement in body:
        if [*flow_of([statement]).writes] != [*outputs]:
            if len(outputs) != 1 or outputs[0] in flow_of([statement]).writes:
                return None
            continue
        match statement:
            case ast.Assign(targets=[ast.Name()], value=ast.Call(func=func)):
                found = _usable(returned_type, func, names)
            case _:
                return None
    return found


def _usable(told: Any, func: ast.expr, names: Mapping[str, Any]) -> Any:
    function = value_of(func, names)
    if function is None:
        return None
    if isinstance(function, type):  # a call of a class makes one
        made = function if told is returned_type else None
    else:
        made = told(function)
    return None if made is None or why_not_tuple_type(made) is not None else made
