"""Results of a translated function: its lines as text, with results as scalars.

Scalars that are a parameter on all paths are not returned: the caller has them. Several
outputs are written to arrays.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.compiler.columns.arithmetic import (
    ReturnLine,
    YieldLine,
    kinds_in,
)
from anabranch.compiler.columns.values import (
    ZERO,
    Known,
    NoColumnsError,
    Scalar,
    Value,
    flatten_all,
    join,
    leaves,
    shape_of,
)
from anabranch.plan.column_kernels import COLUMN_KINDS as KINDS
from anabranch.plan.column_kernels import ColumnShape as Shape

if TYPE_CHECKING:
    from anabranch.compiler.columns.translate import FunctionText


@dataclass(frozen=True)
class Translated:
    """A function as text. `forwards[n]` is the parameter that its scalar n equals.

    `uses` are the parameters that the text reads; others need not be passed.
    """

    name: str
    gives: Shape
    forwards: tuple[int | None, ...]
    uses: frozenset[int]


def finish_results(this: FunctionText) -> Translated:
    returns = [one.value for _, one in this.lines if isinstance(one, ReturnLine)]
    if not returns:
        msg = "always raises"
        raise NoColumnsError(msg, this.line)
    shape = shape_of(returns[0])
    for value in returns[1:]:
        shape = join(shape, shape_of(value))
    scalars = list(shape.scalars())
    columns = list(zip(*(leaves(v, shape) for v in returns), strict=True))
    forwards = tuple(_find_source(column) for column in columns)
    kept = [n for n in range(len(scalars)) if forwards[n] is None]
    zeros = ["True"]
    for number in kept:
        zeros += _zeros(scalars[number])
    fail = f"return ({', '.join(zeros)},)"
    name = this.module.new("f")
    body: list[str] = []
    for depth, one in this.lines:
        indent = "    " * depth
        if isinstance(one, str):
            body.append(indent + one.replace("FAIL", fail))
            continue
        values = list(leaves(one.value, shape))
        parts = ["False"]
        for number in kept:
            parts += this.list_stored(values[number], scalars[number])
        body.append(f"{indent}return ({', '.join(parts)},)")
    uses = _write_function(this, name, body, fail)
    return Translated(name, shape, forwards, uses)


def finish_outputs(this: FunctionText) -> Translated:
    """Return the function with its outputs in arrays."""
    given = [one.value for _, one in this.lines if isinstance(one, YieldLine)]
    if not given:
        msg = "gives no output"
        raise NoColumnsError(msg, this.line)
    assert this.declare is not None  # noqa: S101 - asked for by the caller
    found = shape_of(given[0])
    for value in given[1:]:
        found = join(found, shape_of(value))
    shape = this.declare(found)
    kept = list(shape.scalars())
    columns = list(zip(*(leaves(v, shape) for v in given), strict=True))
    forwards = tuple(
        _find_source(column) if one == own else None
        for column, one, own in zip(columns, kept, found.scalars(), strict=True)
    )
    stored = [n for n, source in enumerate(forwards) if source is None]
    made, this.lines = this.lines, []
    for depth, one in made:
        if not isinstance(one, YieldLine):
            this.lines.append((depth, one))
            continue
        this.depth = depth
        _write_output(this, list(leaves(one.value, shape)), kept, stored)
    body = []
    for depth, line in this.lines:
        text = line if isinstance(line, str) else "return (False, p)"
        body.append("    " * depth + text.replace("FAIL", "return (True, p)"))
    name = this.module.new("f")
    uses = _write_function(this, name, body, "return (False, p)", ", O, p")
    return Translated(name, shape, forwards, uses)


def _write_function(
    this: FunctionText, name: str, body: list[str], last: str, more: str = ""
) -> frozenset[int]:
    """Add the function to the module; return the parameters it reads."""
    text = "\n".join(body)
    params = []
    uses = set()
    for number, arg in enumerate(flatten_all(this.args)):
        names = [f"a{number}{s}" for s in Shape(arg.kinds).suffixes]
        if any(re.search(rf"\b{name}\b", text) for name in names):
            uses.add(number)
            params += names
    listed = "".join(f", {param}" for param in params)
    head = f"def {name}(C, Q, W, lo, size{listed}{more}):"
    decorator = '@njit(nogil=True, error_model="numpy", fastmath=False)'
    this.module.texts.append(f"{decorator}\n{head}\n{text}\n    {last}\n")
    return frozenset(uses)


def _write_output(
    this: FunctionText, values: list[Value], kept: list[Shape], stored: list[int]
) -> None:
    if stored:
        this.emit("if p >= O[0].shape[0]:")
        this.lines.append((this.depth + 1, "return (False, -1)"))
    place = 0
    if not all(map(_may_fit, values, kept)):
        this.emit("FAIL")
        return
    for number in stored:
        value = _fit(this, values[number], kept[number])
        for text in this.list_stored(value, kept[number]):
            this.emit(f"O[{place}][p] = {text}")
            place += 1
    this.emit("p = p + 1")


def _fit(this: FunctionText, value: Value, kept: Shape) -> Value:
    """Return a value of declared kinds; give up if it is not."""
    kinds = kinds_in(value)
    if len(kinds) == 1 or not isinstance(value, Scalar):
        return value
    others = [kind for kind in kinds if kind not in kept.kinds]
    if others:
        tags = [f"({value.tag} == {KINDS.index(kind)})" for kind in others]
        this.check(" or ".join(tags))
    if len(kept.kinds) > 1:
        return value
    (kind,) = kept.kinds
    if kind == "none":
        return Known(None)
    return Scalar((kind,), value.part(kind), type=value.type)


def _may_fit(value: Value, kept: Shape) -> bool:
    """Tell whether a value may be of declared kinds."""
    return bool({*kinds_in(value)} & {*kept.kinds})


def _find_source(column: Sequence[Value]) -> int | None:
    sources = {v.source if isinstance(v, Scalar) else None for v in column}
    return sources.pop() if len(sources) == 1 else None


def _zeros(shape: Shape) -> list[str]:
    if len(shape.kinds) == 1:
        return [] if shape.kinds == ("none",) else [ZERO[shape.kinds[0]]]
    return ["0", *(ZERO[kind] for kind in shape.kinds if kind != "none")]
