"""Takes values by a number that is known only when the kernel runs.

That works where the values follow a rule that an array follows too: items of the input
side by side, floats that are known, whole numbers evenly spaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.compiler.numeric.trace import Trace
from anabranch.compiler.numeric.values import RefusedError, Symbol


def element_at(trace: Trace, values: Sequence[Any], index: Symbol) -> Any:
    """Return `values[index]`, where the values follow a rule that arrays can follow."""
    if not values or index.low < 0 or index.high >= len(values):
        msg = "takes an item by a number that may be out of range"
        raise RefusedError(msg)
    first = values[0]
    if all(type(value) is tuple and len(value) == len(first) for value in values):
        columns = zip(*values, strict=True)
        return tuple(element_at(trace, column, index) for column in columns)
    if all(type(value) is float for value in values):
        start = trace.row(values)
        return trace.new("float", f"constants[{start} + {index.name}]")
    if all(type(value) is int for value in values):
        return _progression(trace, values, index)
    places = [
        trace.loads.get(value.name) if isinstance(value, Symbol) else None
        for value in values
    ]
    array, begin = places[0] or ("", 0)
    if places == [(array, begin + number) for number in range(len(values))]:
        text = f"{array} + {begin} + {index.name}]"
        return trace.new(first.kind, text, first.low, first.high)
    msg = "goes through values in a way that arrays cannot follow"
    raise RefusedError(msg)


def _progression(trace: Trace, values: Sequence[int], index: Symbol) -> Symbol:
    step = values[1] - values[0] if len(values) > 1 else 0
    if list(values) != [values[0] + step * number for number in range(len(values))]:
        msg = "goes through whole numbers that are not evenly spaced"
        raise RefusedError(msg)
    chosen = values[index.low : index.high + 1]
    if (values[0], step) == (0, 1):
        return index
    text = f"{values[0]} + ({step}) * {index.name}"
    return trace.new("int", text, min(chosen), max(chosen))
