"""Finds the operators of fixed rates that can be compiled, and why others cannot.

A kernel must give Python's results, to the last bit and for every item. So the code
must be proved to depend on nothing but its items, and everything it computes must be
numbers whose types are known before it runs. Types that a stream only promises are
checked when items arrive; items of another type run in Python.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.compiler.numeric.kernels import (
    ArrayLayout,
    Firing,
    layout_of,
    make_kernel,
)
from anabranch.compiler.numeric.values import KIND_OF, RefusedError
from anabranch.graph.declarations import declaration_of
from anabranch.graph.graph import Graph, Op
from anabranch.graph.traits import Traits
from anabranch.operators.blocks import Block, Collect, Deal
from anabranch.operators.sources import FromIterable
from anabranch.operators.stateless import FlatMap, Map, describe_function
from anabranch.plan.plan import ArrayColumn, ArrayKernel


@dataclass(frozen=True)
class Compiled:
    """The kernels by operator, and why every other static operator has none."""

    kernels: Mapping[str, ArrayKernel]
    reasons: Mapping[str, str]


def find_kernels(
    graph: Graph, traits: Mapping[str, Traits], static: Container[str]
) -> Compiled:
    """Return the kernels of the static operators that have one.

    >>> from anabranch.language.sources import from_iterable
    >>> from anabranch.language.drafts import build_graph
    >>> made = build_graph([from_iterable([1.0]).map(str, name="text").to_list()])
    >>> find_kernels(made, {op.name: Traits("stateless") for op in made}, ["text"]).reasons
    {'text': 'str is not a function written in Python'}
    """
    layouts: dict[str, ArrayLayout] = {}
    kernels: dict[str, ArrayKernel] = {}
    reasons: dict[str, str] = {}
    for op in graph:
        if op.name not in static:
            found = _find_layout(op)
        else:
            try:
                kernels[op.name], found = _kernel(op, traits[op.name], layouts)
            except RefusedError as refused:
                reasons[op.name] = str(refused)
                found = _find_layout(op)
        if found is not None:
            layouts[op.name] = found
    return Compiled(kernels, reasons)


_GIVES: dict[Any, type] = {float: float, int: int, bool: bool, len: int, ord: int}


def _find_layout(op: Op) -> ArrayLayout | None:
    """Return the array layout of an operator's items, if its type determines it."""
    if op.type is not None:
        return layout_of(op.type)
    if isinstance(op.kind, Map) and op.kind.function in _GIVES:
        return layout_of(_GIVES[op.kind.function])
    if isinstance(op.kind, FromIterable) and isinstance(op.kind.items, list | tuple):
        first = next(iter(op.kind.items), None)
        if type(first) in KIND_OF:
            return layout_of(type(first))
    return None


def _kernel(
    op: Op, traits: Traits, layouts: Mapping[str, ArrayLayout]
) -> tuple[ArrayKernel, ArrayLayout]:
    if op.keyed_by:
        msg = "keeps its items apart by key"
        raise RefusedError(msg)
    takes = _find_input_layout(op, layouts)
    if isinstance(op.kind, Deal | Collect):
        return _turns(op, takes), takes
    if len(op.inputs) != 1:
        msg = f"is a {op.kind.label}"
        raise RefusedError(msg)
    firing = _firing(op, traits)
    if traits.effects or declaration_of(firing.function).state is not None:
        msg = f"{describe_function(firing.function)} is not proven to depend on its items alone"
        raise RefusedError(msg)
    try:
        kernel, gives = make_kernel(firing, takes)
    except RefusedError as refused:
        if "not a function written" in str(refused):
            raise
        where = f" ({refused.place})" if refused.place else ""
        msg = f"{describe_function(firing.function)} {refused}{where}"
        raise RefusedError(msg) from refused
    except Exception as error:  # whatever users write, their program must run
        msg = f"{describe_function(firing.function)} cannot be traced ({type(error).__name__})"
        raise RefusedError(msg) from error
    declared = op.type if _is_tuple(op.type) else None
    if gives.type is not declared:
        msg = "gives something else than its annotation says"
        if gives.type is not None:
            msg = f"gives {gives.type.__name__}, which its annotation does not say"
        raise RefusedError(msg)
    return kernel, gives


def _is_tuple(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, tuple)


def _firing(op: Op, traits: Traits) -> Firing:
    match op.kind:
        case Map(function=function):
            return Firing(op.name, function, 1, 1, 1, single=True, gives_list=False)
        case Block(function=function, pop=pop, push=push, peek=peek):
            return Firing(
                op.name, function, pop, push, peek, single=False, gives_list=True
            )
        case FlatMap(function=function) if traits.push.most is not None:
            push = traits.push.most
            return Firing(op.name, function, 1, push, 1, single=True, gives_list=True)
    msg = f"is a {op.kind.label}"
    raise RefusedError(msg)


def _find_input_layout(op: Op, layouts: Mapping[str, ArrayLayout]) -> ArrayLayout:
    found: list[ArrayLayout] = []
    if not op.inputs:
        msg = "has no input"
        raise RefusedError(msg)
    for each in op.inputs:
        if each.operator not in layouts:
            msg = (
                f"the items of {each.operator} are not known to be numbers; give it a "
                f"type, or annotate what its function returns"
            )
            raise RefusedError(msg)
        found.append(layouts[each.operator])
    first = found[0]
    kinds = {(one.type, tuple(c.kind for c in one.columns)) for one in found}
    if len(kinds) > 1:
        msg = "brings items of different types together"
        raise RefusedError(msg)
    return ArrayLayout(first.type, tuple(map(_widest, *(one.columns for one in found))))


def _widest(*columns: ArrayColumn) -> ArrayColumn:
    low, high = min(c.low for c in columns), max(c.high for c in columns)
    return ArrayColumn(columns[0].kind, low, high)


def _turns(op: Op, takes: ArrayLayout) -> ArrayKernel:
    """Return the kernel of a splitter or joiner, which computes nothing."""
    weights: Any = op.kind.weights  # type: ignore[attr-defined]
    total = sum(weights)
    columns = takes.columns
    return ArrayKernel(op.name, total, total, total, columns, columns, "", ())
