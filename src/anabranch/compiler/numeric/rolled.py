"""Loops that stay loops: what they go through, and what they carry on.

A short loop is unrolled while it is traced. A long one would make the kernel too long,
so its first round is traced by itself, which settles the types, and the others become a
loop of the kernel. The numbers that its body assigns are carried from round to round.
"""

from __future__ import annotations

import ast
from typing import Any

from anabranch.compiler.numeric.names import Frame
from anabranch.compiler.numeric.trace import Trace
from anabranch.compiler.numeric.values import (
    RefusedError,
    Symbol,
    is_number,
    kind_of,
)


class Carried:
    """The numbers that a loop hands on from one round to the next."""

    def __init__(self, trace: Trace, body: list[ast.stmt], frame: Frame) -> None:
        self._trace = trace
        self._frame = frame
        self._kept: dict[str, Symbol] = {}
        for name in _assigned(body):
            if name not in frame.names:
                continue
            value = frame.names.pop(name)
            if not is_number(value):
                continue  # it has no value in the loop, unless the body gives it one
            if kind_of(value) == "int":
                continue  # carried on, it might leave 64 bits
            made = Symbol(trace.name(), kind_of(value))
            trace.kinds[made.name] = made.kind
            trace.write(f"{made.name} = {trace.text(value)}")
            self._kept[name] = made
            frame.names[name] = made

    def hand_on(self) -> None:
        """Write the end of a round: all numbers change at once."""
        targets, values = [], []
        for name, made in self._kept.items():
            value: Any = self._frame.names.get(name)
            if not is_number(value) or kind_of(value) != made.kind:
                msg = f"changes the type of {name} in a long loop"
                raise RefusedError(msg)
            if value is not made:
                targets.append(made.name)
                values.append(self._trace.text(value))
        if targets:
            self._trace.write(f"{', '.join(targets)} = {', '.join(values)}")

    def settle(self, body: list[ast.stmt]) -> None:
        """Give the names the values that they have behind the loop."""
        for name in _assigned(body):
            self._frame.names.pop(name, None)
        self._frame.names.update(self._kept)


def _assigned(body: list[ast.stmt]) -> list[str]:
    names = [
        node.id
        for step in body
        for node in ast.walk(step)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    return list(dict.fromkeys(names))
