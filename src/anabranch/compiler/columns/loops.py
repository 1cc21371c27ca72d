"""Loops in kernel text, and iteration over the elements of a value.

A variable that a loop changes is declared before it, with all its possible kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from anabranch.compiler.columns.arithmetic import (
    DeadError,
)
from anabranch.compiler.columns.branches import fill_branches
from anabranch.compiler.columns.read_parts import read_item
from anabranch.compiler.columns.values import (
    GeneratorValue,
    Items,
    KernelFrame,
    Known,
    NoColumnsError,
    Scalar,
    Span,
    Value,
    join,
    parts_of,
    shape_of,
)
from anabranch.plan.column_kernels import ColumnShape as Shape
from anabranch.python import ir

if TYPE_CHECKING:
    from anabranch.compiler.columns.translate import FunctionText

_MOST_UNROLLED = 32


class _WiderError(Exception):
    """A loop assigns a variable a kind it did not have before."""


def translate_for(this: FunctionText, one: ir.For) -> None:
    if one.orelse:
        this.refuse("has a loop with an else")
    iterable = this.get(one.iterable)
    if isinstance(iterable, Known) and isinstance(iterable.value, range):
        found = iterable.value
        adds = any(isinstance(i, ir.Add) for i in ir.walk(one.body))
        if adds and len(found) <= _MOST_UNROLLED:
            _unroll(this, one, tuple(map(Known, found)))
            return
        iterable = Span(Known(found.start), Known(found.stop), Known(found.step))
    match iterable:
        case Span():
            at = this.module.new("v")
            texts = [
                this.text(this.whole(v))
                for v in (iterable.start, iterable.stop, iterable.step)
            ]
            if isinstance(iterable.step, Known) and iterable.step.value == 0:
                this.refuse("has a range of step 0")
            if not isinstance(iterable.step, Known):
                this.refuse("has a range whose step is not known")
            _write_loop(
                this,
                one,
                f"for {at} in range({', '.join(texts)}):",
                Scalar(("int",), at),
            )
        case Items():
            at = this.module.new("v")
            item = read_item(iterable, at)
            _write_loop(this, one, f"for {at} in range({iterable.count}):", item)
        case GeneratorValue():
            this.refuse("goes through a generator")
        case _:
            _unroll(this, one, parts_of(iterable))


def _unroll(this: FunctionText, one: ir.For, values: Sequence[Value]) -> None:
    if len(values) > _MOST_UNROLLED:
        this.refuse(f"goes through a tuple of {len(values)}")
    if any(isinstance(i, ir.Break | ir.Continue) for i in ir.walk(one.body)):
        this.refuse("breaks out of a loop over a tuple")
    for value in values:
        this.frame.names[one.target] = value
        this.block(one.body)


def translate_while(this: FunctionText, one: ir.While) -> None:
    if one.orelse:
        this.refuse("has a loop with an else")

    def body() -> None:
        this.block(one.head)
        test = this.truth(this.get(one.test))
        if isinstance(test, Known):
            if not test.value:
                jump(this, "break")
                raise DeadError
        else:
            this.emit(f"if not {this.text(test)}:")
            with this.deeper():
                jump(this, "break")
        this.block(one.body)

    _write_rounds(this, "while True:", (*one.head, *one.body), body)


def _write_loop(this: FunctionText, one: ir.For, head: str, target: Value) -> None:
    def body() -> None:
        this.frame.names[one.target] = target
        this.block(one.body)

    _write_rounds(this, head, one.body, body)


def _write_rounds(
    this: FunctionText, head: str, block: ir.Block, body: Callable[[], None]
) -> None:
    """Translate a loop; again whenever a variable needs more kinds."""
    changed = {i.name for i in ir.walk(block) if isinstance(i, ir.Store)}
    before = dict(this.frame.names)
    shapes: dict[str, Shape] = {}
    for name in sorted(changed & before.keys()):
        try:
            shapes[name] = shape_of(before[name])
        except NoColumnsError:
            before.pop(name)
    for name in sorted(changed - before.keys()):
        this.frame.names.pop(name, None)
    mark = len(this.lines)
    while True:
        del this.lines[mark:]
        slots = {name: this.declare_variables(shape) for name, shape in shapes.items()}
        for name, slot in slots.items():
            this.assign(slot, before[name], shapes[name])
        this.frame.names = {**before, **slots}
        this.emit(head)
        this.loops.append((slots, shapes, this.frame))
        try:
            with this.deeper():
                try:
                    body()
                    jump(this, "pass")
                except DeadError:
                    pass
        except _WiderError:
            this.loops.pop()
            continue
        this.loops.pop()
        break
    start = next(n for n in range(mark, len(this.lines)) if this.lines[n][1] == head)
    fill_branches(this, start + 1)
    known = {n: v for n, v in before.items() if n not in changed}
    this.frame.names = {**known, **slots}


def jump(this: FunctionText, how: str) -> None:
    """Update the variables of the innermost loop, and jump."""
    if not this.loops or this.loops[-1][2] is not this.frame:
        this.refuse("breaks out of a loop over a tuple")
    slots, shapes, _ = this.loops[-1]
    wider: dict[str, Shape] = {}
    for name in slots:
        if name not in this.frame.names:
            this.refuse(f"changes {name} to values of different types")
        shape = join(shapes[name], shape_of(this.frame.names[name]))
        if shape != shapes[name]:
            wider[name] = shape
    if wider:
        shapes.update(wider)
        raise _WiderError
    for name, slot in slots.items():
        this.assign(slot, this.frame.names[name], shapes[name])
    this.emit(how)


def go_through(
    this: FunctionText, value: Value, action: Callable[[Value], None]
) -> bool:
    """Do something with each element; tell whether there certainly is one."""
    if isinstance(value, GeneratorValue):
        _pass_through(this, value, action)
        return isinstance(value.iterable, Items) and not any(
            isinstance(i, ir.If) for i in ir.walk(value.made.function.body)
        )
    if isinstance(value, Items):
        at = this.module.new("v")
        this.emit(f"for {at} in range({value.count}):")
        with this.deeper():
            action(read_item(value, at))
        return True
    parts = parts_of(value)
    for part in parts:
        action(part)
    return bool(parts)


def _pass_through(
    this: FunctionText, value: GeneratorValue, action: Callable[[Value], None]
) -> None:
    outer, loops = this.frame, this.loops
    names: dict[str, Value] = {"%iterable": value.iterable}
    this.frame = KernelFrame(names, outer.scope, value.made.names, action)
    this.loops = []
    try:
        this.block(value.made.function.body)
    finally:
        this.frame, this.loops = outer, loops


def find_element_shape(this: FunctionText, value: Value) -> Shape:
    """Return the shape of a value's elements."""
    kept, this.lines = this.lines, []
    found: list[Shape] = []
    try:
        go_through(this, value, lambda one: found.append(shape_of(one)))
    finally:
        this.lines = kept
    if not found:
        this.refuse("goes through nothing")
    shape = found[0]
    for other in found[1:]:
        shape = join(shape, other)
    return shape
