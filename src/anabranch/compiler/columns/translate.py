"""Translates lowered functions into the text of functions that Numba compiles.

A translated function takes scalars and returns a tuple: whether it gave up, and the
scalars of its result. It gives up whenever Python might behave differently: an integer
near the limits of 64 bits, a division by zero, a None where a number is needed, a path
that raises. Then nothing it computed counts, and Python runs the items instead. So the
text need not know what Python would have done, only when.

Floats are IEEE doubles on both sides, and operations are in the order of the user's
text, so that results agree to the last bit. What may differ in the last bit (powers,
rounding to digits) is refused.

A str is a code, its index in a pool. A function of one string alone becomes a table
that Python fills once per string.

Its results are scalars. Those that are a parameter on all paths are not returned: the caller has them. Several
outputs are written to arrays.
"""

from __future__ import annotations

import builtins
import functools
import re
import types
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from anabranch.compiler.columns import times
from anabranch.compiler.columns.arithmetic import (
    Arithmetic,
    DeadError,
    Module,
    ReturnLine,
    YieldLine,
    kinds_in,
)
from anabranch.compiler.columns.control_flow import (
    Catching,
    go_on_in_handler,
    go_through,
    jump,
    translate_for,
    translate_if,
    translate_try,
    translate_while,
    without_else,
)
from anabranch.compiler.columns.function_calls import (
    FUNCTIONS,
    bind,
    call,
    extend,
    extend_by,
    join_strings,
    read_arguments,
    take_element,
)
from anabranch.compiler.columns.lists import WiderListError, make_list
from anabranch.compiler.columns.read_parts import (
    read_attribute,
    read_item_at,
    split_parts,
)
from anabranch.compiler.columns.values import (
    ZERO,
    Bound,
    GeneratorValue,
    Group,
    Items,
    Iteration,
    KernelFrame,
    Known,
    ListValue,
    ListView,
    Made,
    NoColumnsError,
    RecordValue,
    Scalar,
    TextParts,
    Value,
    describe,
    elements_of,
    find_constant,
    flatten_all,
    join,
    kind_of_known,
    leaves,
    shape_of,
)
from anabranch.operators.windows import Aggregate, Column, row_type
from anabranch.plan.column_kernels import COLUMN_KINDS as KINDS
from anabranch.plan.column_kernels import ColumnShape as Shape
from anabranch.python import ir
from anabranch.python.lower import LoweringError, lower

# Variables of a loop, their shapes, its frame, and the lists that it adds to
Loop: TypeAlias = tuple[
    dict[str, Value], dict[str, Shape], KernelFrame, dict[str, Value]
]
_MOST_ATTEMPTS = 20
Function = types.FunctionType | functools.partial  # type: ignore[type-arg]


def translate(
    module: Module, function: Function, args: Sequence[Value], *, truth: bool = False
) -> Translated:
    """Return a function for arguments of these shapes; scalars become parameters.

    With `truth`, it returns whether its result is true.
    """
    function, args = bind(function, args, {})
    key = function, tuple(map(_signature, args)), truth
    if key in module.functions:
        found: Translated = module.functions[key]
        if found is _WORKING:
            msg = f"{function.__name__} calls itself"
            raise NoColumnsError(msg, function.__code__.co_firstlineno)
        return found
    module.functions[key] = _WORKING
    text = FunctionText(module, function, args)
    text.wants_truth = truth
    made = module.functions[key] = text.translate()
    return made


def translate_outputs(
    module: Module,
    function: Function,
    args: Sequence[Value],
    declare: Callable[[Shape], Shape],
) -> Translated:
    """Return a function that writes its outputs to arrays `O`, from index `p` on.

    It returns the index after them, and -1 if there was no room. `declare` returns the
    declared shape of outputs.
    """
    function, args = bind(function, args, {})
    text = FunctionText(module, function, args)
    text.declare = declare
    return text.translate()


def translate_columns(
    module: Module, kind: Aggregate, args: Sequence[Value]
) -> Translated:
    """Return a function that computes the columns of an aggregate.

    Arguments are the items of a window, its start and its end.
    """
    return ColumnsText(module, kind, args).translate()


def _signature(value: Value) -> Any:
    match value:
        case Known(value=known):
            return "known", type(known), repr(known), id(known)
        case Items(shape=shape, first=first, count=count):
            return "items", shape, first, count
        case RecordValue(type=kind, values=values):
            return kind, tuple(map(_signature, values))
        case Group(values=values, is_list=is_list):
            return is_list, tuple(map(_signature, values))
    return shape_of(value)


class FunctionText(Arithmetic):
    """Translates one function."""

    def __init__(self, module: Module, function: Any, args: Sequence[Value]) -> None:
        super().__init__(module)
        self.function = function
        self.args = args
        self.loops: list[Loop] = []
        self.catching: Catching | None = None
        self.wants_truth = False
        self.declare: Callable[[Shape], Shape] | None = None
        self.splits = 0
        self.lists: dict[int, Shape | None] = {}  # that are arrays, by their sites
        self.longer: dict[str, WiderListError] = {}  # lists of several lengths
        self.reading: frozenset[str] = frozenset()  # lists that are gone through
        self.line = function.__code__.co_firstlineno

    def translate(self) -> Translated:
        try:
            lowered = lower(self.function)
        except LoweringError as error:
            raise NoColumnsError(str(error), self.line) from error
        generates = lowered.generator and self.declare is None
        if generates or any(lowered.varying) or lowered.keyword_only:
            msg = f"{self.function.__name__} takes or gives a varying number of values"
            raise NoColumnsError(msg, self.line)
        for _ in range(_MOST_ATTEMPTS):
            try:
                return self._attempt(lowered)
            except WiderListError as wider:
                self._forget()
                shape, before = wider.shape, self.lists.get(wider.site)
                if before is not None and shape is not None:
                    shape = join(before, shape)
                self.lists[wider.site] = shape or before
        return self.refuse("has lists whose types do not settle")

    def _forget(self) -> None:
        """Begin anew."""
        self.lines, self.depth, self.loops, self.splits = [], 1, [], 0
        self.catching, self.longer, self.reading = None, {}, frozenset()

    def _attempt(self, lowered: ir.Function) -> Translated:
        code = self.function.__code__
        self.count = 0
        given = [self.parameter(value) for value in self.args]
        defaults = self.function.__defaults__ or ()
        missing = len(lowered.parameters) - len(given)
        if not 0 <= missing <= len(defaults):
            msg = f"{self.function.__name__} is called with other arguments"
            raise NoColumnsError(msg, self.line)
        given += [Known(d) for d in defaults[len(defaults) - missing :]] * (missing > 0)
        cells: dict[str, Value] = {}
        closure = self.function.__closure__ or ()
        for name, cell in zip(code.co_freevars, closure, strict=True):
            try:
                cells[name] = Known(cell.cell_contents)
            except ValueError:
                continue
        names = dict(zip(lowered.parameters, given, strict=True))
        self.frame = KernelFrame(names, self.function.__globals__, cells)
        self.generates = lowered.generator
        return self._translate_block(lowered.body)

    def _translate_block(self, body: ir.Block) -> Translated:
        try:
            self.block(body)
        except DeadError:
            self.end_dead()
        except NoColumnsError as error:
            error.line = error.line or self.line
            raise
        except RecursionError as error:
            msg = "is nested too deeply"
            raise NoColumnsError(msg, self.line) from error
        return finish_results(self) if self.declare is None else finish_outputs(self)

    def parameter(self, value: Value) -> Value:
        """Return an argument as the function sees it."""
        match value:
            case Scalar(kinds=kinds, type=kind):
                number, self.count = self.count, self.count + 1
                return Scalar(kinds, f"a{number}", number, type=kind)
            case RecordValue(type=kind, values=values):
                return RecordValue(kind, tuple(map(self.parameter, values)))
            case Group(values=values, is_list=is_list):
                return Group(tuple(map(self.parameter, values)), is_list)
            case Known() | Items():
                return value
        msg = f"hands on a {describe(value)}"
        raise NoColumnsError(msg)

    @property
    def place(self) -> tuple[KernelFrame, int]:
        """Where a list that is made here may grow."""
        return self.frame, len(self.loops)

    def call(
        self, called: Value, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        """Return the result of a call."""
        return call(self, called, args, keywords)

    def translate_other(self, function: Any, args: Sequence[Value]) -> Translated:
        """Return a function that this one calls."""
        return translate(self.module, function, args)

    def compute_time(self, op: str, left: Value, right: Value) -> Value:
        return times.compute(self, op, left, right)

    def compare_time(self, op: str, left: Value, right: Value) -> Value:
        return times.compare(self, op, left, right)

    def negate_time(self, op: str, value: Value) -> Value:
        return times.negate(self, op, value)

    def block(self, block: ir.Block) -> None:
        raising = _find_raising(block)
        for place, one in enumerate(block):
            self.line = one.line
            if place == raising:
                self.give_up()
            if isinstance(one, ir.For | ir.While) and one.orelse:
                self.block(without_else(one))
            elif isinstance(one, ir.If):
                if translate_if(self, one, block[place + 1 :]):
                    return
            else:
                self._step(one)

    def _step(self, one: ir.Instruction) -> None:  # noqa: C901, PLR0912 - a table
        names = self.frame.names
        match one:
            case ir.Store(name=name, scope="local", value=value):
                found = self.get(value)
                passing = isinstance(found, GeneratorValue | Iteration | Made | Bound)
                if passing and not name.startswith("%"):
                    self.refuse(f"keeps a {describe(found)} under a name")
                names[name] = found
            case ir.Unpack(targets=targets, value=value, star=None):
                whole = self.get(value)
                if isinstance(whole, TextParts):
                    parts = (*split_parts(self, whole, len(targets)),)
                else:
                    parts = elements_of(whole)
                if len(parts) != len(targets):
                    self.give_up()
                if value.startswith("%"):
                    del names[value]  # it is unpacked, and nothing else refers to it
                names.update(zip(targets, parts, strict=True))
            case ir.Yield(value=value, delegates=False) if self.frame.on_yield:
                self.frame.on_yield(self.get(value))
            case ir.Yield(value=value, target=target) if self.declare is not None:
                if one.delegates:
                    go_through(self, self.get(value), self.add_output)
                else:
                    self.add_output(self.get(value))
                names[target] = Known(None)
            case ir.Add(container=container, values=(added,)):
                extend(self, self.get(container), [self.get(added)])
            case ir.For():
                translate_for(self, one)
            case ir.While():
                translate_while(self, one)
            case ir.Break() | ir.Continue():
                jump(self, "break" if isinstance(one, ir.Break) else "continue")
                raise DeadError
            case ir.Return(value=value):
                if self.frame.on_yield is not None:
                    return
                self.add_return(self.get(value), one.line)
                raise DeadError
            case ir.Delete(name=name, scope="local") if name in names:
                del names[name]
            case ir.Try():
                translate_try(self, one)
            case ir.Unknown(what=what):
                self.refuse(what)
            case _:
                names[getattr(one, "target", "")] = self._compute(one)

    def _compute(self, one: ir.Instruction) -> Value:  # noqa: C901, PLR0911, PLR0912 - a table
        """Return the value of an expression; refuse any other instruction."""
        match one:
            case ir.Const(value=value):
                return Known(value)
            case ir.LoadName(name=name, scope=scope):
                return self._load(name, scope)
            case ir.Unary(op=op, value=value):
                return self._unary(op, self.get(value))
            case ir.Binary(op=op, left=left, right=right):
                found = self.get(left)
                listed = isinstance(found, Group) and found.is_list
                if one.in_place and (listed or isinstance(found, ListValue)):
                    return extend_by(self, found, self.get(right))
                return self.binary(op, found, self.get(right))
            case ir.Compare(op=op, left=left, right=right):
                return self.compare(op, self.get(left), self.get(right))
            case ir.GetAttribute(value=value, name=name):
                return read_attribute(self, self.get(value), name)
            case ir.GetElement(value=value, index=index):
                return take_element(self, self.get(value), self.get(index))
            case ir.Build(kind="tuple" | "list" as kind):
                values = self._list_parts(one)
                if id(one) in self.lists:
                    return make_list(self, self.lists[id(one)], values, id(one))
                return Group(values, kind == "list", self.place, site=id(one))
            case ir.Build(kind="dict", items=items) if not one.starred:
                return self._make_dict([self.get(item) for item in items])
            case ir.Build(kind="set", items=items) if not one.starred:
                return self._make_set([self.get(item) for item in items])
            case ir.Build(kind="str", items=items):
                return join_strings(self, [self.get(item) for item in items])
            case ir.Build(kind="slice", items=items):
                bounds = [self.get(item) for item in items]
                if not all(isinstance(bound, Known) for bound in bounds):
                    self.refuse("cuts at a place that is not known")
                start, stop, step = (getattr(b, "value", None) for b in bounds)
                return Known(slice(start, stop, step))
            case ir.Format(value=value, conversion="", spec=None):
                found = self.get(value)
                if kinds_in(found) != ("str",):
                    self.refuse(f"formats {describe(found)} as text")
                return found
            case ir.Call(function=function, arguments=arguments):
                called = self.get(function)
                return call(self, called, *read_arguments(self, arguments))
            case ir.MakeFunction(function=made):
                return Made(made, {**self.frame.cells, **self.frame.names})
        what = re.sub(r"(?<!^)(?=[A-Z])", " ", type(one).__name__).lower()
        if isinstance(one, ir.Build):
            what = f"new {one.kind}"
        return self.refuse(f"has a {what}")

    def _make_set(self, values: list[Value]) -> Value:
        known = [value.value for value in values if isinstance(value, Known)]
        if len(known) < len(values) or any(kind_of_known(v) is None for v in known):
            self.refuse("has a set of values that are not known")
        return Known({*known})

    def _make_dict(self, values: list[Value]) -> Value:
        """Return a dict of constants: a table."""
        found = [find_constant(value) for value in values]
        known = [one.value for one in found if one is not None]
        keys, entries = known[::2], known[1::2]
        if len(known) < len(values) or any(kind_of_known(k) is None for k in keys):
            self.refuse("has a dict of values that are not known")
        return Known(dict(zip(keys, entries, strict=True)))

    def _list_parts(self, one: ir.Build) -> tuple[Value, ...]:
        values: list[Value] = []
        for place, item in enumerate(one.items):
            found = self.get(item)
            values += elements_of(found) if place in one.starred else [found]
        return tuple(values)

    def add_return(self, value: Value, line: int) -> None:
        if self.declare is not None and not self.generates:
            listed = isinstance(value, Known) and type(value.value) in (tuple, list)
            given = Group | GeneratorValue | Iteration | ListValue | ListView
            if not listed and not isinstance(value, given):
                self.refuse(f"gives a {describe(value)} for a list of outputs")
            go_through(self, value, self.add_output)
            value = Known(None)
        if self.wants_truth:
            value = self.truth(value)
        self.lines.append((self.depth, ReturnLine(value, line)))

    def add_output(self, value: Value) -> None:
        """Emit one of several outputs."""
        self.lines.append((self.depth, YieldLine(value)))

    def check_zero(self, wrong: str) -> None:
        """Continue in the handler where Python raises `ZeroDivisionError`, or leave."""
        if not go_on_in_handler(self, wrong):
            super().check_zero(wrong)

    def get(self, name: str) -> Value:
        found = self.frame.names.get(name)
        if found is None and name in self.longer:
            raise self.longer[name]
        if found is None and name.startswith("%"):
            self.refuse(
                "has a value of another form on some path, such as a longer list"
            )
        if found is None:
            self.refuse(f"reads {name}, which has no value on some path")
        assert found is not None  # noqa: S101
        return found

    def _load(self, name: str, scope: ir.Scope) -> Value:
        if scope == "local":
            return self.get(name)
        if scope == "cell" and name in self.frame.cells:
            return self.frame.cells[name]
        for names in (self.frame.scope, vars(builtins)):
            if scope == "global" and name in names:
                return Known(names[name])  # it never changes: this has been proved
        return self.refuse(f"reads {name}, which has no value")


_LEAVING = ir.If | ir.For | ir.While | ir.Try | ir.With | ir.Yield | ir.Return


def _find_raising(block: ir.Block) -> int | None:
    """Return the index from which on a block can only raise, or None.

    What is computed for the error alone, such as its text, need not be translated.
    """
    for place, one in enumerate(block):
        if isinstance(one, ir.Raise):
            while place and not isinstance(block[place - 1], _LEAVING):
                place -= 1  # noqa: PLW2901 - back to where it begins
            return place
    return None


class ColumnsText(FunctionText):
    """Computes the named columns of an aggregate."""

    def __init__(self, module: Module, kind: Aggregate, args: Sequence[Value]) -> None:
        super().__init__(module, _no_function, args)
        self.kind = kind

    def translate(self) -> Translated:
        self.count = 0
        items, start, end = map(self.parameter, self.args)
        assert isinstance(items, Items)  # noqa: S101 - see translate_columns
        self.frame = KernelFrame({}, {}, {})
        named: dict[str, Value] = {}
        for name, column in self.kind.columns:
            match column.function:
                case "window_start":
                    named[name] = start
                case "window_end":
                    named[name] = end
                case _:
                    named[name] = self._column(items, column)
        into = self.kind.into
        if into is None:
            into = row_type(tuple(named))
        with suppress(DeadError):
            self.add_return(call(self, Known(into), [], named), 0)
        return finish_results(self)

    def _column(self, items: Items, column: Column) -> Value:
        if column.attribute is None:
            return Scalar(("int",), items.count)
        values = self._values(items, column.attribute)
        match column.function:
            case "sum" | "min" | "max" as name:
                return FUNCTIONS[getattr(builtins, name)](self, [values])
            case "mean":
                total = FUNCTIONS[sum](self, [values])
                return self.binary("/", total, Scalar(("int",), items.count))
            case "last":
                return read_item_at(self, values, Known(-1))
            case "counts" | "highest" | "lowest" as name:
                self.refuse(f"ab.{name} is not compiled")
        return read_item_at(self, values, Known(0))

    def _values(self, items: Items, name: str) -> Items:
        """Return one attribute of a window's items."""
        first, _, rest = name.partition(".")
        names = getattr(items.shape.type, "_fields", ())
        if first not in names:
            self.refuse(f"reads .{name}, which is no attribute of its items")
        assert items.shape.parts is not None  # noqa: S101 - it has fields
        place = names.index(first)
        counts = [len(list(part.scalars())) for part in items.shape.parts]
        start = sum(counts[:place])
        columns = items.columns[start : start + counts[place]]
        made = Items(items.shape.parts[place], columns, items.first, items.count)
        return self._values(made, rest) if rest else made


def _no_function() -> None:
    """Represent the function of an aggregate by columns."""


@dataclass(frozen=True)
class Translated:
    """A function as text. `forwards[n]` is the parameter that its scalar n equals.

    `uses` are the parameters that the text reads; others need not be passed.
    """

    name: str
    gives: Shape
    forwards: tuple[int | None, ...]
    uses: frozenset[int]


_WORKING = Translated("", Shape(), (), frozenset())


def finish_results(this: FunctionText) -> Translated:
    returns = [one.value for _, one in this.lines if isinstance(one, ReturnLine)]
    if not returns:
        msg = "has no path on which columns give a value"
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
