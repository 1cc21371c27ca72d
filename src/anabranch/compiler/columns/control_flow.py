"""Control flow in kernel text: `if`, `try` around a division, and loops.

After a branch a name has the values of all branches. If these have different types, the
code that follows is translated in each branch. A variable that a loop changes is
declared before it, with all its possible kinds.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from anabranch.compiler.columns.arithmetic import (
    FAR,
    DeadError,
    ReturnLine,
    YieldLine,
    is_beyond,
)
from anabranch.compiler.columns.lists import (
    find_view,
    go_through_view,
    may_grow,
    note_length,
    reading,
)
from anabranch.compiler.columns.values import (
    GeneratorValue,
    Group,
    Items,
    KernelFrame,
    Known,
    ListView,
    Made,
    NoColumnsError,
    Scalar,
    Span,
    Value,
    elements_of,
    join,
    shape_of,
)
from anabranch.plan.column_kernels import ColumnShape as Shape
from anabranch.python import ir

if TYPE_CHECKING:
    from anabranch.compiler.columns.translate import FunctionText


_MOST_SPLITS = 6


class _BreakLine(str):
    """A line that can be found again wherever it is moved."""

    __slots__ = ()


@dataclass
class _End:
    """An exit of a `try`, with the names there."""

    line: _BreakLine
    depth: int
    names: dict[str, Value]


@dataclass
class Catching:
    """The current `try`, with its handler of a division by zero, and its exits."""

    handler: ir.Block
    loops: int
    frame: KernelFrame
    ends: list[_End] = field(default_factory=list)


def translate_if(this: FunctionText, one: ir.If, rest: ir.Block) -> bool:
    """Translate both branches; tell whether the code that follows is in them as well.

    It must be if a name that is read later has values of different types.
    """
    test = this.truth(this.get(one.test))
    if isinstance(test, Known):
        this.block(one.then if test.value else one.orelse)
        return False
    before, start = dict(this.frame.names), len(this.lines)
    this.emit(f"if {this.text(test)}:")
    mark = len(this.lines)
    then = _translate_branch(this, one.then, before)
    middle = len(this.lines)
    this.emit("else:")
    orelse = _translate_branch(this, one.orelse, before)
    if then is None and orelse is None:
        raise DeadError
    if then is None or orelse is None:
        this.frame.names = then if then is not None else orelse  # type: ignore[assignment]
    else:
        lost = _merge_names(this, then, orelse, middle)
        again = this.catching is None and this.splits < _MOST_SPLITS
        if again and lost & _names_in(rest):
            this.splits += 1
            del this.lines[start:]
            this.frame.names = before
            both = ir.If(one.at, one.test, one.then + rest, one.orelse + rest)
            translate_if(this, both, ())
            return True
    fill_branches(this, mark)
    return False


def fill_branches(this: FunctionText, mark: int) -> None:
    """Put `pass` into empty branches."""
    made: list[tuple[int, str | ReturnLine | YieldLine]] = []
    for number, (depth, text) in enumerate(this.lines[mark - 1 :], mark - 1):
        made.append((depth, text))
        if isinstance(text, str) and text.endswith(":"):
            following = this.lines[number + 1 : number + 2]
            if not following or following[0][0] <= depth:
                made.append((depth + 1, "pass"))
    this.lines[mark - 1 :] = made


def _translate_branch(
    this: FunctionText, block: ir.Block, before: dict[str, Value]
) -> dict[str, Value] | None:
    """Translate a branch; return the names after it, None if it is left."""
    this.frame.names = dict(before)
    with this.deeper():
        try:
            this.block(block)
        except DeadError:
            this.end_dead()
            return None
    return this.frame.names


def _merge_names(
    this: FunctionText,
    then: dict[str, Value],
    orelse: dict[str, Value],
    middle: int,
) -> set[str]:
    """Merge the names of two branches; return those that do not fit."""
    merged: dict[str, Value] = {}
    lost: set[str] = set()
    tails: tuple[list[Any], list[Any]] = ([], [])
    for name in sorted(then.keys() & orelse.keys()):  # the same text in every process
        one, two = then[name], orelse[name]
        if one is two or _same(one, two):
            merged[name] = one
            continue
        try:
            shape = join(shape_of(one), shape_of(two))
        except NoColumnsError:
            lost.add(name)  # refused if it is read
            note_length(this, name, one, two)
            continue
        target = this.declare_variables(shape)
        for value, tail in ((one, tails[0]), (two, tails[1])):
            kept, this.lines = this.lines, []
            with this.deeper():
                this.assign(target, value, shape)
            tail.extend(this.lines)
            this.lines = kept
        merged[name] = target
    this.lines[middle:middle] = tails[0]
    this.lines += tails[1]
    this.frame.names = merged
    return lost


def translate_try(this: FunctionText, one: ir.Try) -> None:
    """Translate the body. Where Python raises, the handler runs, or the text gives up.

    A handler is inserted where a division may fail, if it catches that error. Both ways
    end with a `break` out of a loop that runs once.
    """
    if one.final or one.groups:
        this.refuse("has a finally or an except*")
    handler, outer = _find_handler(this, one), this.catching
    if handler is None:
        this.catching = None  # one of its own handlers may catch what fails in it
        try:
            this.block(one.body)
        finally:
            this.catching = outer
        this.block(one.orelse)
        return
    caught = Catching(handler, len(this.loops), this.frame)
    this.emit("while True:")
    head = len(this.lines)
    this.catching = caught
    with this.deeper():
        try:
            this.block(one.body)
            this.catching = outer
            this.block(one.orelse)
            _leave_try(this, caught)
        except DeadError:
            this.end_dead()
        finally:
            this.catching = outer
    if not caught.ends:
        raise DeadError
    _join_ends(this, caught.ends)
    fill_branches(this, head)


def _find_handler(this: FunctionText, one: ir.Try) -> ir.Block | None:
    """Return the handler of a division by zero, if it is known."""
    inside = (one.body, *(h.body for h in one.handlers), one.orelse)
    if any(
        isinstance(i, ir.Break | ir.Continue | ir.Raise)
        for block in inside
        for i in ir.walk(block)
    ):
        return None
    first = one.handlers[0]
    if first.name is not None or len(first.head) > 1:
        return None
    if first.type is None:
        return first.body
    match first.head:
        case (ir.LoadName(name=name, scope="global"),):
            found = this.frame.scope.get(name, getattr(builtins, name, None))
            if found in (ZeroDivisionError, ArithmeticError, Exception):
                return first.body
    return None


def go_on_in_handler(this: FunctionText, wrong: str) -> bool:
    """Continue in the handler of a `try` if a condition holds; tell whether there is
    one.
    """
    caught = this.catching
    usable = caught is not None and caught.frame is this.frame
    if caught is None or not usable or len(this.loops) != caught.loops:
        return False
    this.emit(f"if {wrong}:")
    names, this.catching = this.frame.names, None
    this.frame.names = dict(names)
    try:
        with this.deeper():
            try:
                this.block(caught.handler)
                _leave_try(this, caught)
            except DeadError:
                this.end_dead()
    finally:
        this.frame.names, this.catching = names, caught
    return True


def _leave_try(this: FunctionText, caught: Catching) -> None:
    """Leave a `try` here, with the current names."""
    line = _BreakLine("break")
    caught.ends.append(_End(line, this.depth, dict(this.frame.names)))
    this.emit(line)


def _join_ends(this: FunctionText, ends: list[_End]) -> None:
    """Merge the names at all exits of a `try`."""
    merged: dict[str, Value] = {}
    common = set.intersection(*(set(end.names) for end in ends))
    for name in sorted(common):
        values = [end.names[name] for end in ends]
        if all(v is values[0] or _same(v, values[0]) for v in values):
            merged[name] = values[0]
            continue
        try:
            shape = shape_of(values[0])
            for value in values[1:]:
                shape = join(shape, shape_of(value))
        except NoColumnsError:
            continue  # refused if it is read
        target = merged[name] = this.declare_variables(shape)
        for value, end in zip(values, ends, strict=True):
            _assign_at(this, end, target, value, shape)
    this.frame.names = merged


def _assign_at(
    this: FunctionText, end: _End, target: Value, value: Value, shape: Shape
) -> None:
    kept, this.lines = this.lines, []
    depth, this.depth = this.depth, end.depth
    this.assign(target, value, shape)
    made, this.lines, this.depth = this.lines, kept, depth
    place = next(n for n, (_, line) in enumerate(kept) if line is end.line)
    kept[place:place] = made


def _names_in(block: ir.Block) -> set[str]:
    """Return all names that instructions mention."""
    found: set[str] = set()
    for one in ir.walk(block):
        for own in vars(one).values():
            found.update(_texts_in(own))
    return found


def _texts_in(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case ir.Argument(value=name):
            yield name
        case tuple():
            for one in value:
                if not isinstance(one, ir.Instruction):
                    yield from _texts_in(one)


def _same(one: Value, two: Value) -> bool:
    """Tell whether two values are identical, wherever they are."""
    match one, two:
        case Known(value=a), Known(value=b):
            return type(a) is type(b) and a is b
        case Scalar(), Scalar():
            return one.kinds == two.kinds and one.texts == two.texts
    return False


_MOST_UNROLLED = 32


class _WiderError(Exception):
    """A loop assigns a variable a kind it did not have before."""


def without_else(one: ir.For | ir.While) -> ir.Block:
    """Return a loop with an `else` as one that notes whether it was left early."""
    whole = f"%whole {id(one)}"

    def note(at: Any, value: bool) -> ir.Block:
        made = f"{whole} {value}"
        return ir.Const(at, made, value), ir.Store(at, whole, "local", made)

    def change(block: ir.Block) -> ir.Block:
        made: list[ir.Instruction] = []
        for step in block:
            match step:
                case ir.Break():
                    made += [*note(step.at, False), step]
                case ir.If():
                    then, orelse = change(step.then), change(step.orelse)
                    made.append(replace(step, then=then, orelse=orelse))
                case ir.Try() | ir.With() if _breaks((step,)):
                    msg = "breaks out of a loop with an else, inside another block"
                    raise NoColumnsError(msg, step.line)
                case _:
                    made.append(step)
        return tuple(made)

    loop = replace(one, body=change(one.body), orelse=())
    test = ir.LoadName(one.at, f"{whole} test", whole, "local")
    return *note(one.at, True), loop, test, ir.If(one.at, test.target, one.orelse)


def _breaks(block: ir.Block) -> bool:
    return any(isinstance(one, ir.Break | ir.Continue) for one in ir.walk(block))


def translate_for(this: FunctionText, one: ir.For) -> None:
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
            bounds = (iterable.start, iterable.stop, iterable.step)
            texts = list(map(this.text, bounds))
            if isinstance(iterable.step, Known) and iterable.step.value == 0:
                this.give_up()
            if not isinstance(iterable.step, Known):
                this.refuse("has a range whose step is not known")
            for value in bounds:
                this.check(is_beyond(value, FAR))  # Numba counts the rounds first
            _write_loop(
                this,
                one,
                f"for {at} in range({', '.join(texts)}):",
                Scalar(("int",), at),
            )
        case GeneratorValue():
            this.refuse("goes through a generator")
        case _ if (view := find_view(this, iterable)) is not None:
            _write_view_loop(this, one, view)
        case _:
            names = this.frame.names
            names[one.iterable] = Group((), read=(iterable,))  # it must not grow
            _unroll(this, one, elements_of(iterable))
            this.frame.names.pop(one.iterable, None)


def _unroll(this: FunctionText, one: ir.For, values: Sequence[Value]) -> None:
    if len(values) > _MOST_UNROLLED:
        this.refuse(f"goes through a tuple of {len(values)}")
    if values and _breaks(one.body):
        _write_choosing_loop(this, one, values)
        return
    for value in values:
        this.frame.names[one.target] = value
        this.block(one.body)


def _write_choosing_loop(
    this: FunctionText, one: ir.For, values: Sequence[Value]
) -> None:
    """Translate a loop over some values that may be left early."""
    shape = shape_of(values[0])
    for value in values[1:]:
        shape = join(shape, shape_of(value))
    at = this.module.new("v")

    def body() -> None:
        chosen = this.frame.names[one.target] = this.declare_variables(shape)
        for number, value in enumerate(values):
            this.emit(f"{'el' * bool(number)}if {at} == {number}:")
            with this.deeper():
                this.assign(chosen, value, shape)
        this.block(one.body)

    _write_rounds(this, f"for {at} in range({len(values)}):", one.body, body)


def translate_while(this: FunctionText, one: ir.While) -> None:
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


def _write_view_loop(this: FunctionText, one: ir.For, view: ListView) -> None:
    at = this.module.new("v")

    def body() -> None:
        with reading(this, view):
            this.frame.names[one.target] = view.read(at)
            this.block(one.body)

    _write_rounds(this, f"for {at} in range({view.count}):", one.body, body)


def _write_rounds(
    this: FunctionText, head: str, block: ir.Block, body: Callable[[], None]
) -> None:
    """Translate a loop; again whenever a variable needs more kinds."""
    changed = {i.name for i in ir.walk(block) if isinstance(i, ir.Store | ir.Delete)}
    before = dict(this.frame.names)
    shapes: dict[str, Shape] = {}
    stored = sorted(changed & before.keys())  # the same text in every process
    lists = {n: before[n] for n in stored if may_grow(before[n])}
    for name in (n for n in stored if n not in lists):
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
        this.loops.append((slots, shapes, this.frame, lists))
        try:
            with this.deeper():
                try:
                    body()
                    jump(this, "pass")
                except DeadError:
                    this.end_dead()
        except _WiderError:
            this.loops.pop()
            continue
        this.loops.pop()
        break
    start = next(n for n in range(mark, len(this.lines)) if this.lines[n][1] == head)
    fill_branches(this, start + 1)
    known = {n: v for n, v in before.items() if n not in changed or n in lists}
    this.frame.names = {**known, **slots}


def jump(this: FunctionText, how: str) -> None:
    """Update the variables of the innermost loop, and jump."""
    if not this.loops or this.loops[-1][2] is not this.frame:
        this.refuse("breaks out of a loop over a tuple")
    slots, shapes, _, lists = this.loops[-1]
    if any(this.frame.names.get(name) is not one for name, one in lists.items()):
        this.refuse("changes a list to another in a loop")
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
    names = this.frame.names
    this.assign_all([(slot, names[n], shapes[n]) for n, slot in slots.items()])
    this.emit(how)


def go_through(
    this: FunctionText, value: Value, action: Callable[[Value], None]
) -> bool:
    """Do something with each element; tell whether there certainly is one."""
    if isinstance(value, GeneratorValue):
        _pass_through(this, value, action)
        return isinstance(value.iterable, Items) and _gives_always(value.made)
    view = find_view(this, value)
    if view is not None:
        go_through_view(this, view, action)
        return isinstance(value, Items)
    parts = elements_of(value)
    for part in parts:
        action(part)
    return bool(parts)


def _gives_always(made: Made) -> bool:
    """Tell whether a generator gives a value for each element of what it goes through."""
    loops = [i for i in ir.walk(made.function.body) if isinstance(i, ir.For)]
    apart = any(isinstance(i, ir.If) for i in ir.walk(made.function.body))
    return len(loops) == 1 and not apart


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
