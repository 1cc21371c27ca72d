"""Translates lowered functions into the text of functions that Numba compiles.

A translated function takes scalars and gives a tuple: whether it gave up, and then the
scalars of its result. It gives up whenever Python might do something else than the
text: a whole number near the end of 64 bits, a division by zero, a None where a number
is needed, a path that raises. Nothing that it computed counts then, and Python runs the
items instead. So the text need not know what Python would have done, only when.

Floats are IEEE doubles on both sides, and the order of operations is that of the user's
text, so that results agree to the last bit. What may differ in the last bit (powers,
rounding to digits, `sum` of floats since Python 3.12) is refused.

A str is a code, its place in a pool. A function of one string alone becomes a table
that Python fills once for each string.
"""

from __future__ import annotations

import builtins
import datetime as dt
import functools
import operator
import re
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from anabranch.compiler.columns import times
from anabranch.compiler.columns.arithmetic import (
    Arithmetic,
    DeadError,
    Module,
    ReturnLine,
    YieldLine,
    kinds_in,
)
from anabranch.compiler.columns.builtin_functions import (
    FUNCTIONS,
    STRING_METHODS,
    call_math,
)
from anabranch.compiler.columns.values import (
    ZERO,
    Bound,
    GeneratorValue,
    Group,
    Items,
    Known,
    Made,
    NoColumnsError,
    RecordValue,
    Scalar,
    Span,
    Value,
    describe,
    is_enum_type,
    is_record_type,
    join,
    kind_of_known,
    leaves,
    parts_of,
    rebuild,
    shape_of,
)
from anabranch.operators.windows import Aggregate, Column, row_type
from anabranch.plan.column_kernels import COLUMN_KINDS as KINDS
from anabranch.plan.column_kernels import TIMES
from anabranch.plan.column_kernels import ColumnShape as Shape
from anabranch.python import ir
from anabranch.python.lower import LoweringError, lower

_MOST_UNROLLED = 32
_MOST_SPLITS = 6


@dataclass(frozen=True)
class Translated:
    """A function as text. `forwards[n]` is the parameter that scalar n of it is.

    `uses` are the parameters that the text reads; others need not be given.
    """

    name: str
    gives: Shape
    forwards: tuple[int | None, ...]
    uses: frozenset[int]


Function = types.FunctionType | functools.partial  # type: ignore[type-arg]


def translate(
    module: Module, function: Function, args: Sequence[Value], *, truth: bool = False
) -> Translated:
    """Return a function for arguments of these shapes; scalars become parameters.

    With `truth`, it gives whether its result is true.
    """
    function, args = _bind(function, args, {})
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
    """Return a function that writes its outputs into arrays `O`, from place `p` on.

    It gives the place behind them, and -1 if there was no room. `declare` returns the
    shape that outputs are declared to have.
    """
    function, args = _bind(function, args, {})
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


def _bind(
    function: Any, args: Sequence[Value], keywords: dict[str, Value]
) -> tuple[types.FunctionType, list[Value]]:
    """Return a function and its arguments by position, with those of a partial."""
    given = list(args)
    while isinstance(function, functools.partial):
        given = [*map(Known, function.args), *given]
        keywords = {n: Known(v) for n, v in function.keywords.items()} | keywords
        function = function.func
    if not isinstance(function, types.FunctionType):
        msg = f"calls {getattr(function, '__name__', type(function).__name__)}"
        raise NoColumnsError(msg)
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    defaults = dict(zip(names[::-1], (function.__defaults__ or ())[::-1], strict=False))
    named = dict(keywords)
    for name in names[len(given) :]:
        if not named:
            break
        if name in named:
            given.append(named.pop(name))
        elif name in defaults:
            given.append(Known(defaults[name]))
        else:
            break
    if named:
        msg = f"calls {function.__name__} with other names"
        raise NoColumnsError(msg)
    return function, given


_WORKING = Translated("", Shape(), (), frozenset())


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


def flatten(value: Value) -> Iterator[Scalar]:
    """Yield the scalars of an argument."""
    match value:
        case Scalar():
            yield value
        case RecordValue(values=values) | Group(values=values):
            for one in values:
                yield from flatten(one)


class _WiderError(Exception):
    """A loop changes a variable to a kind that it had not before."""


@dataclass
class _Frame:
    """The names of a function, or of a generator in it."""

    names: dict[str, Value]
    scope: dict[str, Any]
    cells: dict[str, Value]
    on_yield: Callable[[Value], None] | None = None


class _BreakLine(str):
    """A line that is found again, wherever it is moved to."""

    __slots__ = ()


@dataclass
class _End:
    """A place at which a `try` is left, with the names there."""

    line: _BreakLine
    depth: int
    names: dict[str, Value]


@dataclass
class _Catching:
    """A `try` at work, with what is done about a division by zero, and its ends."""

    handler: ir.Block
    loops: int
    frame: _Frame
    ends: list[_End] = field(default_factory=list)


class FunctionText(Arithmetic):
    """Translates one function."""

    def __init__(self, module: Module, function: Any, args: Sequence[Value]) -> None:
        super().__init__(module)
        self.function = function
        self.args = args
        self.loops: list[tuple[dict[str, Value], dict[str, Shape], _Frame]] = []
        self.catching: _Catching | None = None
        self.wants_truth = False
        self.declare: Callable[[Shape], Shape] | None = None
        self.splits = 0
        self.line = function.__code__.co_firstlineno

    def translate(self) -> Translated:
        code = self.function.__code__
        try:
            lowered = lower(self.function)
        except LoweringError as error:
            raise NoColumnsError(str(error), self.line) from error
        generates = lowered.generator and self.declare is None
        if generates or any(lowered.varying) or lowered.keyword_only:
            msg = f"{self.function.__name__} takes or gives a varying number of values"
            raise NoColumnsError(msg, self.line)
        self.count = 0
        given = [self._parameter(value) for value in self.args]
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
        self.frame = _Frame(names, self.function.__globals__, cells)
        self.generates = lowered.generator
        return self._translate_block(lowered.body)

    def _translate_block(self, body: ir.Block) -> Translated:
        try:
            self._block(body)
        except DeadError:
            pass
        except NoColumnsError as error:
            error.line = error.line or self.line
            raise
        except RecursionError as error:
            msg = "is nested too deeply"
            raise NoColumnsError(msg, self.line) from error
        return self._finish() if self.declare is None else self._finish_outputs()

    def _parameter(self, value: Value) -> Value:
        """Return an argument as the function sees it."""
        match value:
            case Scalar(kinds=kinds, type=kind):
                number, self.count = self.count, self.count + 1
                return Scalar(kinds, f"a{number}", number, type=kind)
            case RecordValue(type=kind, values=values):
                return RecordValue(kind, tuple(map(self._parameter, values)))
            case Group(values=values, is_list=is_list):
                return Group(tuple(map(self._parameter, values)), is_list)
            case Known() | Items():
                return value
        msg = f"hands on a {describe(value)}"
        raise NoColumnsError(msg)

    def _finish(self) -> Translated:
        returns = [one.value for _, one in self.lines if isinstance(one, ReturnLine)]
        if not returns:
            msg = "always raises"
            raise NoColumnsError(msg, self.line)
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
        name = self.module.new("f")
        body: list[str] = []
        for depth, one in self.lines:
            indent = "    " * depth
            if isinstance(one, str):
                body.append(indent + one.replace("FAIL", fail))
                continue
            values = list(leaves(one.value, shape))
            parts = ["False"]
            for number in kept:
                parts += self.list_stored(values[number], scalars[number])
            body.append(f"{indent}return ({', '.join(parts)},)")
        uses = self._write(name, body, fail)
        return Translated(name, shape, forwards, uses)

    def _write(
        self, name: str, body: list[str], last: str, more: str = ""
    ) -> frozenset[int]:
        """Put the function into the module; return the parameters that it reads."""
        text = "\n".join(body)
        params = []
        uses = set()
        for number, arg in enumerate(flatten_all(self.args)):
            names = [f"a{number}{s}" for s in Shape(arg.kinds).suffixes]
            if any(re.search(rf"\b{name}\b", text) for name in names):
                uses.add(number)
                params += names
        listed = "".join(f", {param}" for param in params)
        head = f"def {name}(C, Q, W, lo, size{listed}{more}):"
        decorator = '@njit(nogil=True, error_model="numpy", fastmath=False)'
        self.module.texts.append(f"{decorator}\n{head}\n{text}\n    {last}\n")
        return frozenset(uses)

    def _finish_outputs(self) -> Translated:
        """Return the function with its outputs in arrays."""
        given = [one.value for _, one in self.lines if isinstance(one, YieldLine)]
        if not given:
            msg = "gives no output"
            raise NoColumnsError(msg, self.line)
        assert self.declare is not None  # noqa: S101 - asked for by the caller
        found = shape_of(given[0])
        for value in given[1:]:
            found = join(found, shape_of(value))
        shape = self.declare(found)
        kept = list(shape.scalars())
        columns = list(zip(*(leaves(v, shape) for v in given), strict=True))
        forwards = tuple(
            _find_source(column) if one == own else None
            for column, one, own in zip(columns, kept, found.scalars(), strict=True)
        )
        stored = [n for n, source in enumerate(forwards) if source is None]
        made, self.lines = self.lines, []
        for depth, one in made:
            if not isinstance(one, YieldLine):
                self.lines.append((depth, one))
                continue
            self.depth = depth
            self._write_output(list(leaves(one.value, shape)), kept, stored)
        body = []
        for depth, line in self.lines:
            text = line if isinstance(line, str) else "return (False, p)"
            body.append("    " * depth + text.replace("FAIL", "return (True, p)"))
        name = self.module.new("f")
        uses = self._write(name, body, "return (False, p)", ", O, p")
        return Translated(name, shape, forwards, uses)

    def _write_output(
        self, values: list[Value], kept: list[Shape], stored: list[int]
    ) -> None:
        if stored:
            self.emit("if p >= O[0].shape[0]:")
            self.lines.append((self.depth + 1, "return (False, -1)"))
        place = 0
        if not all(map(_may_fit, values, kept)):
            self.emit("FAIL")
            return
        for number in stored:
            value = self._fit(values[number], kept[number])
            for text in self.list_stored(value, kept[number]):
                self.emit(f"O[{place}][p] = {text}")
                place += 1
        self.emit("p = p + 1")

    def _fit(self, value: Value, kept: Shape) -> Value:
        """Return a value that is of declared kinds; give up where it is not."""
        kinds = kinds_in(value)
        if len(kinds) == 1 or not isinstance(value, Scalar):
            return value
        others = [kind for kind in kinds if kind not in kept.kinds]
        if others:
            tags = [f"({value.tag} == {KINDS.index(kind)})" for kind in others]
            self.check(" or ".join(tags))
        if len(kept.kinds) > 1:
            return value
        (kind,) = kept.kinds
        if kind == "none":
            return Known(None)
        return Scalar((kind,), value.part(kind), type=value.type)

    def compute_time(self, op: str, left: Value, right: Value) -> Value:
        return times.compute(self, op, left, right)

    def compare_time(self, op: str, left: Value, right: Value) -> Value:
        return times.compare(self, op, left, right)

    def negate_time(self, op: str, value: Value) -> Value:
        return times.negate(self, op, value)

    # Statements

    def _block(self, block: ir.Block) -> None:
        for place, one in enumerate(block):
            self.line = one.line
            if isinstance(one, ir.If):
                if self._if(one, block[place + 1 :]):
                    return
            else:
                self._step(one)

    def _step(self, one: ir.Instruction) -> None:  # noqa: C901, PLR0912, PLR0915 - a table
        names = self.frame.names
        match one:
            case ir.Const(target=target, value=value):
                names[target] = Known(value)
            case ir.LoadName(target=target, name=name, scope=scope):
                names[target] = self._load(name, scope)
            case ir.Store(name=name, scope="local", value=value):
                found = self._get(value)
                if isinstance(found, GeneratorValue | Made) and not name.startswith(
                    "%"
                ):
                    self.refuse(f"keeps a {describe(found)} under a name")
                names[name] = found
            case ir.Unary(target=target, op=op, value=value):
                names[target] = self._unary(op, self._get(value))
            case ir.Binary(target=target, op=op, left=left, right=right):
                names[target] = self.binary(op, self._get(left), self._get(right))
            case ir.Compare(target=target, op=op, left=left, right=right):
                names[target] = self._compare(op, self._get(left), self._get(right))
            case ir.GetAttribute(target=target, value=value, name=name):
                names[target] = self._attribute(self._get(value), name)
            case ir.GetElement(target=target, value=value, index=index):
                names[target] = self._element(self._get(value), self._get(index))
            case ir.Build(target=target, kind="tuple" | "list" as kind, items=items):
                values: list[Value] = []
                for place, item in enumerate(items):
                    found = self._get(item)
                    values += parts_of(found) if place in one.starred else [found]
                names[target] = Group(tuple(values), kind == "list", len(self.loops))
            case ir.Build(target=target, kind="str", items=items):
                names[target] = self._join_strings([self._get(i) for i in items])
            case ir.Format(target=target, value=value, conversion="", spec=None):
                found = self._get(value)
                if kinds_in(found) != ("str",):
                    self.refuse(f"makes a str of a {describe(found)}")
                names[target] = found
            case ir.Build(target=target, kind="slice", items=items):
                bounds = [self._get(item) for item in items]
                if not all(isinstance(bound, Known) for bound in bounds):
                    self.refuse("cuts at a place that is not known")
                start, stop, step = (getattr(b, "value", None) for b in bounds)
                names[target] = Known(slice(start, stop, step))
            case ir.Unpack(targets=targets, value=value, star=None):
                parts = parts_of(self._get(value))
                if len(parts) != len(targets):
                    self.give_up()
                if value.startswith("%"):
                    del names[value]  # it is taken apart, and nobody else has it
                names.update(zip(targets, parts, strict=True))
            case ir.Call(target=target, function=function, arguments=arguments):
                names[target] = self._call(
                    self._get(function), *self._read_arguments(arguments)
                )
            case ir.MakeFunction(target=target, function=made):
                names[target] = Made(made, {**self.frame.cells, **names})
            case ir.Yield(value=value, delegates=False) if self.frame.on_yield:
                self.frame.on_yield(self._get(value))
            case ir.Yield(value=value, target=target) if self.declare is not None:
                found = self._get(value)
                if one.delegates:
                    self.each(found, self._output)
                else:
                    self._output(found)
                names[target] = Known(None)
            case ir.Add(container=container, values=(added,)):
                self._append(self._get(container), self._get(added))
            case ir.For():
                self._for(one)
            case ir.While():
                self._while(one)
            case ir.Break() | ir.Continue():
                self._jump("break" if isinstance(one, ir.Break) else "continue")
                raise DeadError
            case ir.Return(value=value):
                if self.frame.on_yield is not None:
                    return
                self._return(self._get(value), one.line)
                raise DeadError
            case ir.Raise():
                self.give_up()
            case ir.Try():
                self._try(one)
            case ir.Unknown(what=what):
                self.refuse(what)
            case _:
                what = re.sub(r"(?<!^)(?=[A-Z])", " ", type(one).__name__).lower()
                if isinstance(one, ir.Build):
                    what = f"new {one.kind}"
                self.refuse(f"has a {what}")

    def _return(self, value: Value, line: int) -> None:
        if self.declare is not None and not self.generates:
            listed = isinstance(value, Known) and type(value.value) in (tuple, list)
            if not listed and not isinstance(value, Group | GeneratorValue):
                self.refuse(f"gives a {describe(value)} for a list of outputs")
            self.each(value, self._output)
            value = Known(None)
        if self.wants_truth:
            value = self.truth(value)
        self.lines.append((self.depth, ReturnLine(value, line)))

    def _output(self, value: Value) -> None:
        """Give one of several outputs."""
        self.lines.append((self.depth, YieldLine(value)))

    def _append(self, container: Value, added: Value) -> None:
        """Add to a list of known length; all names of it see that."""
        if not isinstance(container, Group) or container.loops != len(self.loops):
            self.refuse("adds to a list in a loop")
        assert isinstance(container, Group)  # noqa: S101 - for the checker
        names = self.frame.names
        if any(_holds(value, container) for value in names.values()):
            self.refuse("adds to a list that is part of another value")
        known_as = [name for name, value in names.items() if value is container]
        if not known_as:
            self.refuse("adds to a list that has no name")
        made = Group((*container.values, added), True, container.loops)
        names.update(dict.fromkeys(known_as, made))

    def _read_arguments(
        self, arguments: Sequence[ir.Argument]
    ) -> tuple[list[Value], dict[str, Value]]:
        """Return the arguments of a call, by place and by name."""
        positional: list[Value] = []
        keywords: dict[str, Value] = {}
        for one in arguments:
            value = self._get(one.value)
            match one.name:
                case "":
                    positional.append(value)
                case "*":
                    positional += parts_of(value)
                case "**":
                    self.refuse("unpacks arguments by name")
                case name:
                    keywords[name] = value
        return positional, keywords

    def _join_strings(self, parts: Sequence[Value]) -> Value:
        """Return the text of an f-string with one string that is not known."""
        unknown = [part for part in parts if not isinstance(part, Known)]
        if not all(kinds_in(part) == ("str",) for part in parts):
            self.refuse("makes a str of something else")
        if len(unknown) > 1:
            self.refuse("joins strings that are not known")
        known = [part.value if isinstance(part, Known) else None for part in parts]
        if not unknown:
            return Known("".join(map(str, known)))
        texts = ["s" if word is None else repr(word) for word in known]
        return self.look_up(" + ".join(texts), "str", unknown[0])

    def _try(self, one: ir.Try) -> None:
        """Run the body. Where Python raises, the handler runs, or the text gives up.

        A handler is put where a division may fail, if it takes that error. Both ways end
        with a `break` out of a loop that is gone through once.
        """
        if one.final or one.groups:
            self.refuse("has a finally or an except*")
        handler = self._handler_of_zero(one)
        if handler is None:
            self._block(one.body)
            self._block(one.orelse)
            return
        outer = self.catching
        caught = _Catching(handler, len(self.loops), self.frame)
        self.emit("while True:")
        head = len(self.lines)
        self.catching = caught
        with self.deeper():
            try:
                self._block(one.body)
                self.catching = outer
                self._block(one.orelse)
                self._leave(caught)
            except DeadError:
                pass
            finally:
                self.catching = outer
        if not caught.ends:
            raise DeadError
        self._join_ends(caught.ends)
        self._fill(head)

    def _handler_of_zero(self, one: ir.Try) -> ir.Block | None:
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
                found = self.frame.scope.get(name, getattr(builtins, name, None))
                if found in (ZeroDivisionError, ArithmeticError, Exception):
                    return first.body
        return None

    def _leave(self, caught: _Catching) -> None:
        """Leave a `try` here, with the names as they are."""
        line = _BreakLine("break")
        caught.ends.append(_End(line, self.depth, dict(self.frame.names)))
        self.emit(line)

    def _join_ends(self, ends: list[_End]) -> None:
        """Bring the names of all ends of a `try` together."""
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
                continue  # refused if somebody reads it
            target = merged[name] = self._declare(shape)
            for value, end in zip(values, ends, strict=True):
                self._assign_at(end, target, value, shape)
        self.frame.names = merged

    def _assign_at(self, end: _End, target: Value, value: Value, shape: Shape) -> None:
        kept, self.lines = self.lines, []
        depth, self.depth = self.depth, end.depth
        self._assign(target, value, shape)
        made, self.lines, self.depth = self.lines, kept, depth
        place = next(n for n, (_, line) in enumerate(kept) if line is end.line)
        kept[place:place] = made

    def check_zero(self, wrong: str) -> None:
        """Go on in the handler where Python raises `ZeroDivisionError`."""
        caught = self.catching
        usable = caught is not None and caught.frame is self.frame
        if caught is None or not usable or len(self.loops) != caught.loops:
            super().check_zero(wrong)
            return
        self.emit(f"if {wrong}:")
        names, self.catching = self.frame.names, None
        self.frame.names = dict(names)
        try:
            with self.deeper():
                self._block(caught.handler)
                self._leave(caught)
        except DeadError:
            pass
        finally:
            self.frame.names, self.catching = names, caught

    def _get(self, name: str) -> Value:
        found = self.frame.names.get(name)
        if found is None:
            self.refuse(f"reads {name}, which has no value on some path")
        assert found is not None  # noqa: S101
        return found

    def _load(self, name: str, scope: ir.Scope) -> Value:
        if scope == "local":
            return self._get(name)
        if scope == "cell" and name in self.frame.cells:
            return self.frame.cells[name]
        for names in (self.frame.scope, vars(builtins)):
            if scope == "global" and name in names:
                return Known(names[name])  # nobody changes it: this has been proven
        return self.refuse(f"reads {name}, which has no value")

    def _if(self, one: ir.If, rest: ir.Block) -> bool:
        """Translate both branches; tell whether what follows is in them as well.

        It has to be where a name that is read later has values of different types.
        """
        test = self.truth(self._get(one.test))
        if isinstance(test, Known):
            self._block(one.then if test.value else one.orelse)
            return False
        before, start = dict(self.frame.names), len(self.lines)
        self.emit(f"if {self.text(test)}:")
        mark = len(self.lines)
        then = self._branch(one.then, before)
        middle = len(self.lines)
        self.emit("else:")
        orelse = self._branch(one.orelse, before)
        if then is None and orelse is None:
            raise DeadError
        if then is None or orelse is None:
            self.frame.names = then if then is not None else orelse  # type: ignore[assignment]
        else:
            lost = self._merge(then, orelse, mark, middle)
            again = self.catching is None and self.splits < _MOST_SPLITS
            if again and lost & _names_in(rest):
                self.splits += 1
                del self.lines[start:]
                self.frame.names = before
                both = ir.If(one.at, one.test, one.then + rest, one.orelse + rest)
                self._if(both, ())
                return True
        self._fill(mark)
        return False

    def _fill(self, mark: int) -> None:
        """Put `pass` where a branch is empty."""
        made: list[tuple[int, str | ReturnLine | YieldLine]] = []
        for number, (depth, text) in enumerate(self.lines[mark - 1 :], mark - 1):
            made.append((depth, text))
            if isinstance(text, str) and text.endswith(":"):
                following = self.lines[number + 1 : number + 2]
                if not following or following[0][0] <= depth:
                    made.append((depth + 1, "pass"))
        self.lines[mark - 1 :] = made

    def _branch(
        self, block: ir.Block, before: dict[str, Value]
    ) -> dict[str, Value] | None:
        """Translate a branch; return the names behind it, None if it is left."""
        self.frame.names = dict(before)
        with self.deeper():
            try:
                self._block(block)
            except DeadError:
                return None
        return self.frame.names

    def _merge(
        self, then: dict[str, Value], orelse: dict[str, Value], mark: int, middle: int
    ) -> set[str]:
        """Bring the names of two branches together; return those that do not fit."""
        merged: dict[str, Value] = {}
        lost: set[str] = set()
        tails: tuple[list[Any], list[Any]] = ([], [])
        for name in then.keys() & orelse.keys():
            one, two = then[name], orelse[name]
            if one is two or _same(one, two):
                merged[name] = one
                continue
            try:
                shape = join(shape_of(one), shape_of(two))
            except NoColumnsError:
                lost.add(name)  # refused if somebody reads it
                continue
            target = self._declare(shape)
            for value, tail in ((one, tails[0]), (two, tails[1])):
                kept, self.lines = self.lines, []
                with self.deeper():
                    self._assign(target, value, shape)
                tail.extend(self.lines)
                self.lines = kept
            merged[name] = target
        self.lines[middle:middle] = tails[0]
        self.lines += tails[1]
        self.frame.names = merged
        return lost

    def _for(self, one: ir.For) -> None:
        if one.orelse:
            self.refuse("has a loop with an else")
        iterable = self._get(one.iterable)
        if isinstance(iterable, Known) and isinstance(iterable.value, range):
            found = iterable.value
            adds = any(isinstance(i, ir.Add) for i in ir.walk(one.body))
            if adds and len(found) <= _MOST_UNROLLED:
                self._unroll(one, tuple(map(Known, found)))
                return
            iterable = Span(Known(found.start), Known(found.stop), Known(found.step))
        match iterable:
            case Span():
                at = self.module.new("v")
                texts = [
                    self.text(self.whole(v))
                    for v in (iterable.start, iterable.stop, iterable.step)
                ]
                if isinstance(iterable.step, Known) and iterable.step.value == 0:
                    self.refuse("has a range of step 0")
                if not isinstance(iterable.step, Known):
                    self.refuse("has a range whose step is not known")
                self._loop(
                    one, f"for {at} in range({', '.join(texts)}):", Scalar(("int",), at)
                )
            case Items():
                at = self.module.new("v")
                item = self._item(iterable, at)
                self._loop(one, f"for {at} in range({iterable.count}):", item)
            case GeneratorValue():
                self.refuse("goes through a generator")
            case _:
                self._unroll(one, parts_of(iterable))

    def _unroll(self, one: ir.For, values: Sequence[Value]) -> None:
        if len(values) > _MOST_UNROLLED:
            self.refuse(f"goes through a tuple of {len(values)}")
        if any(isinstance(i, ir.Break | ir.Continue) for i in ir.walk(one.body)):
            self.refuse("breaks out of a loop over a tuple")
        for value in values:
            self.frame.names[one.target] = value
            self._block(one.body)

    def _while(self, one: ir.While) -> None:
        if one.orelse:
            self.refuse("has a loop with an else")

        def body() -> None:
            self._block(one.head)
            test = self.truth(self._get(one.test))
            if isinstance(test, Known):
                if not test.value:
                    self._jump("break")
                    raise DeadError
            else:
                self.emit(f"if not {self.text(test)}:")
                with self.deeper():
                    self._jump("break")
            self._block(one.body)

        self._rounds("while True:", (*one.head, *one.body), body)

    def _loop(self, one: ir.For, head: str, target: Value) -> None:
        def body() -> None:
            self.frame.names[one.target] = target
            self._block(one.body)

        self._rounds(head, one.body, body)

    def _rounds(self, head: str, block: ir.Block, body: Callable[[], None]) -> None:
        """Translate a loop; once more whenever a variable turns out to need more kinds."""
        changed = {i.name for i in ir.walk(block) if isinstance(i, ir.Store)}
        before = dict(self.frame.names)
        shapes: dict[str, Shape] = {}
        for name in sorted(changed & before.keys()):
            try:
                shapes[name] = shape_of(before[name])
            except NoColumnsError:
                before.pop(name)
        for name in sorted(changed - before.keys()):
            self.frame.names.pop(name, None)
        mark = len(self.lines)
        while True:
            del self.lines[mark:]
            slots = {name: self._declare(shape) for name, shape in shapes.items()}
            for name, slot in slots.items():
                self._assign(slot, before[name], shapes[name])
            self.frame.names = {**before, **slots}
            self.emit(head)
            self.loops.append((slots, shapes, self.frame))
            try:
                with self.deeper():
                    try:
                        body()
                        self._jump("pass")
                    except DeadError:
                        pass
            except _WiderError:
                self.loops.pop()
                continue
            self.loops.pop()
            break
        start = next(
            n for n in range(mark, len(self.lines)) if self.lines[n][1] == head
        )
        self._fill(start + 1)
        known = {n: v for n, v in before.items() if n not in changed}
        self.frame.names = {**known, **slots}

    def _jump(self, how: str) -> None:
        """Bring the variables of the innermost loop up to date, and jump."""
        if not self.loops or self.loops[-1][2] is not self.frame:
            self.refuse("breaks out of a loop over a tuple")
        slots, shapes, _ = self.loops[-1]
        wider: dict[str, Shape] = {}
        for name in slots:
            if name not in self.frame.names:
                self.refuse(f"changes {name} to values of different types")
            shape = join(shapes[name], shape_of(self.frame.names[name]))
            if shape != shapes[name]:
                wider[name] = shape
        if wider:
            shapes.update(wider)
            raise _WiderError
        for name, slot in slots.items():
            self._assign(slot, self.frame.names[name], shapes[name])
        self.emit(how)

    def _attribute(self, value: Value, name: str) -> Value:  # noqa: C901, PLR0911, PLR0912 - a table
        match value:
            case RecordValue(type=kind, values=values):
                if name in kind._fields:
                    place: int = kind._fields.index(name)
                    return values[place]
                found = vars(kind).get(name)
                if isinstance(found, property) and found.fget is not None:
                    return self._call(Known(found.fget), [value], {})
                if name == "_replace" or isinstance(found, types.FunctionType):
                    return Bound(value, name)
                if kind_of_known(found) is not None:
                    return Known(found)
                self.refuse(f"reads .{name} of {kind.__name__}")
            case Known(value=types.ModuleType() as module):
                if not hasattr(module, name):
                    self.refuse(f"reads .{name} of {module.__name__}")
                return Known(getattr(module, name))
            case Known(value=known) if is_record_type(type(known)):
                if name in known._fields:
                    return Known(getattr(known, name))
            case Known(value=known) if type(known) is dict:
                return Bound(value, name)
            case Group(is_list=True) if name == "append":
                return Bound(value, name)
            case Known(value=types.FunctionType() | type() as known):
                return self._member(known, name)
            case Scalar(kinds=("enum",), type=kind):
                return self._enum_attribute(value, kind, name)
            case Known(value=known) if is_enum_type(type(known)):
                return self.fold_any(getattr, known, name)
            case Scalar() | Known() if {*kinds_in(value)} & {*TIMES}:
                if isinstance(value, Known):
                    found = getattr(value.value, name, None)
                    if kind_of_known(found) is not None:
                        return Known(found)
                read = times.read(self, value, name)
                return Bound(value, name) if read is None else read
            case Scalar() | Known() if self.string_kind(value) or isinstance(
                value, Scalar
            ):
                return Bound(value, name)
        return self.refuse(f"reads .{name} of a {describe(value)}")

    def _member(self, known: Any, name: str) -> Value:
        """Return an attribute of a class: a member of an Enum, or a constant."""
        found = getattr(known, name, None)
        if isinstance(known, type) and kind_of_known(found) is not None:
            return Known(found)
        if known in (dt.datetime, dt.date, dt.timedelta) and found is not None:
            return Known(found)
        return self.refuse(f"reads .{name} of {known.__name__}")

    def _enum_attribute(self, value: Value, kind: Any, name: str) -> Value:
        """Return the name or the value of a member of an Enum."""
        if name not in ("name", "value"):
            self.refuse(f"reads .{name} of {kind.__name__}")
        gives = {kind_of_known(getattr(member, name)) for member in kind}
        if len(gives) != 1 or None in gives or "none" in gives:
            self.refuse(f"reads values of several types of {kind.__name__}")
        (found,) = gives
        assert found is not None  # noqa: S101 - see above
        return self.look_up(f"s.{name}", found, value)

    def _element(self, value: Value, index: Value) -> Value:  # noqa: C901, PLR0911 - a table
        match value, index:
            case Items(), _:
                return self._item_at(value, index)
            case (Scalar(), Known(value=int() as at)) if (
                self.string_kind(value) == "str"
            ):
                return self.look_up(f"s[{at}]", "str", value)
            case (Scalar(), Known(value=int() as at)) if self.string_kind(value):
                return self.look_up(f"s[{at}]", "int", value)
            case (Scalar(), Known(value=slice() as cut)) if kind := self.string_kind(
                value
            ):
                bounds = (cut.start, cut.stop, cut.step)
                if all(type(bound) in (int, type(None)) for bound in bounds):
                    texts = ["" if bound is None else repr(bound) for bound in bounds]
                    return self.look_up(f"s[{':'.join(texts)}]", kind, value)
            case (Known(value=str() | bytes() as known), Known(value=at)):
                return self.fold_any(operator.getitem, known, at)
            case (Known(value=known), _) if type(known) in (dict, list, tuple):
                return self._table_element(known, index)
            case Group(values=parts), Scalar():
                known = [part.value for part in parts if isinstance(part, Known)]
                if len(known) == len(parts):
                    return self._table_element(known, index)
            case _, Known(value=int() as at):
                values = parts_of(value)
                if not -len(values) <= at < len(values):
                    self.give_up()
                return values[at]
        return self.refuse(f"reads an element of a {describe(value)}")

    def _table_element(self, table: Any, index: Value) -> Value:
        """Return an element of a table of the program."""
        if isinstance(index, Known):
            return self.fold_any(operator.getitem, table, index.value)
        kinds = kinds_in(index)
        pairs = table.items() if type(table) is dict else enumerate(table)
        found = [(key, value) for key, value in pairs]
        gives = {kind_of_known(value) for _, value in found}
        if len(gives) != 1 or None in gives or "none" in gives:
            self.refuse("reads a table with values of several types")
        (kind,) = gives
        assert kind is not None  # noqa: S101 - see above
        if type(table) is dict and kinds == ("str",):
            return self.look_up("d[s]", kind, index, tuple(found))
        if type(table) is not dict:
            found += [(n - len(table), value) for n, value in found]
        if kinds != ("int",) or any(type(key) is not int for key, _ in found):
            self.refuse(f"looks up a {describe(index)} in a table")
        if len(found) > _MOST_UNROLLED:
            self.refuse(f"looks up a number in a table of {len(found)}")
        made = self.module.new("v")
        for number, (key, value) in enumerate(found):
            self.emit(f"{'el' * bool(number)}if {self.text(index)} == {key}:")
            self.lines.append((self.depth + 1, f"{made} = {self.text(Known(value))}"))
        self.emit("else:")
        self.lines.append((self.depth + 1, "FAIL"))
        return Scalar((kind,), made)

    def _table_method(
        self, table: dict[Any, Any], name: str, args: list[Value]
    ) -> Value:
        """Translate a call of a method of a dict of the program."""
        if name in ("keys", "values", "items") and not args:
            return Known(tuple(getattr(table, name)()))
        if name != "get" or not 1 <= len(args) <= 2:  # noqa: PLR2004
            self.refuse(f"calls .{name} of a dict")
        key, default = args[0], (args[1] if len(args) > 1 else Known(None))
        if isinstance(key, Known) and isinstance(default, Known):
            return self.fold_any(table.get, key.value, default.value)
        gives = {kind_of_known(value) for value in table.values()}
        if kinds_in(key) != ("str",) or len(gives) != 1 or None in gives:
            self.refuse(f"looks up a {describe(key)} in a table")
        (kind,) = gives
        assert kind is not None  # noqa: S101 - see above
        if kinds_in(default) != (kind,) or not isinstance(default, Known):
            self.refuse("looks something up with a default of another type")
        return self.look_up(
            f"d.get(s, {default.value!r})", kind, key, tuple(table.items())
        )

    def _item_at(self, items: Items, index: Value) -> Value:
        if isinstance(index, Known) and type(index.value) is int:
            at = index.value
            if at >= 0:
                self.check(f"{items.count} <= {at}")
                return self._item(items, str(at))
            self.check(f"{items.count} < {-at}")
            return self._item(items, f"({items.count} - {-at})")
        if not isinstance(index, Scalar):
            self.refuse("takes a part of a window")
        whole = self.text(self.whole(index))
        self.check(f"({whole} >= {items.count}) or ({whole} < -{items.count})")
        at_text = self.variable(
            "int", f"({whole} if {whole} >= 0 else {whole} + {items.count})"
        )
        return self._item(items, at_text.text)

    def _item(self, items: Items, at: str) -> Value:
        place = f"({items.first} + {at})"
        columns = [_at(column, place) for column in items.columns]
        return rebuild(items.shape, iter(columns))

    # Calls

    def _call(
        self, called: Value, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        match called:
            case Bound():
                return self._method(called, args, keywords)
            case Made(function=function) if function.generator and len(args) == 1:
                return GeneratorValue(called, args[0])
            case Known(value=function):
                return self._call_known(function, args, keywords)
        return self.refuse("calls a function that it makes itself")

    def _call_known(  # noqa: PLR0911 - a table
        self, function: Any, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        if is_record_type(function):
            return self._make(function, args, keywords)
        if isinstance(function, types.FunctionType):
            return self._call_function(function, args, keywords)
        if isinstance(function, functools.partial):
            given: list[Value] = [*map(Known, function.args), *args]
            named = {n: Known(v) for n, v in function.keywords.items()} | keywords
            return self._call_known(function.func, given, named)
        if any(function is one for one in (dt.datetime, dt.date, dt.timedelta)):
            return times.make_time(self, function, args, keywords)
        if function in FUNCTIONS if _hashable(function) else False:
            if function is zip:
                keywords = {n: v for n, v in keywords.items() if n != "strict"}
            if keywords:
                self.refuse(f"calls {function.__name__} with names")
            return FUNCTIONS[function](self, args)
        if getattr(function, "__module__", "") == "math" and not keywords:
            return call_math(self, function.__name__, args)
        name = getattr(function, "__name__", type(function).__name__)
        return self.refuse(f"calls {name}")

    def _make(self, kind: Any, args: list[Value], keywords: dict[str, Value]) -> Value:
        names = kind._fields
        given = dict(zip(names, args, strict=False))
        if (
            len(args) > len(names)
            or keywords.keys() - set(names)
            or given.keys() & keywords
        ):
            self.give_up()
        given.update(keywords)
        for name, default in kind._field_defaults.items():
            given.setdefault(name, Known(default))
        if len(given) != len(names):
            self.give_up()
        return RecordValue(kind, tuple(given[name] for name in names))

    def _call_function(
        self,
        function: types.FunctionType,
        args: list[Value],
        keywords: dict[str, Value],
    ) -> Value:
        function, args = _bind(function, args, keywords)
        line = self.line
        made = translate(self.module, function, args)
        self.line = line
        scalars = list(flatten_all(args))
        texts = []
        for number in sorted(made.uses):
            texts += scalars[number].texts
        result = self.module.new("r")
        self.emit(
            f"{result} = {made.name}(C, Q, W, lo, size{''.join(', ' + t for t in texts)})"
        )
        self.check(f"{result}[0]")
        values: list[Value] = []
        place = 1
        for shape, source in zip(made.gives.scalars(), made.forwards, strict=True):
            if source is not None:
                values.append(scalars[source])
                continue
            value = Scalar(shape.kinds, self.module.new("v"), type=shape.type)
            if shape.kinds == ("none",):
                values.append(Known(None))
                continue
            for suffix in shape.suffixes:
                self.emit(f"{value.text}{suffix} = {result}[{place}]")
                place += 1
            values.append(value)
        return rebuild(made.gives, iter(values))

    def _method(  # noqa: PLR0911 - a table
        self, bound: Bound, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        value, name = bound.value, bound.name
        if isinstance(value, RecordValue):
            if name == "_replace":
                if args or keywords.keys() - set(value.type._fields):
                    self.give_up()
                pairs = zip(value.type._fields, value.values, strict=True)
                return RecordValue(
                    value.type, tuple(keywords.get(n, v) for n, v in pairs)
                )
            return self._call_function(vars(value.type)[name], [value, *args], keywords)
        if isinstance(value, Group) and name == "append" and len(args) == 1:
            self._append(value, args[0])
            return Known(None)
        if isinstance(value, Known) and type(value.value) is dict and not keywords:
            return self._table_method(value.value, name, args)
        if {*kinds_in(value)} & {*TIMES}:
            return times.call_method(self, value, name, args, keywords)
        kind = self.string_kind(value)
        known = all(isinstance(a, Known) and kind_of_known(a.value) for a in args)
        if kind is not None and name in STRING_METHODS and known and not keywords:
            texts = [repr(a.value) for a in args]  # type: ignore[union-attr]
            gives = STRING_METHODS[name]
            gives = kind if gives == "str" else gives
            if name in ("encode", "decode", "hex"):
                gives = "bytes" if kind == "str" else "str"
            return self.look_up(f"s.{name}({', '.join(texts)})", gives, value)
        return self.refuse(f"calls .{name} of a {describe(value)}")

    def each(self, value: Value, action: Callable[[Value], None]) -> bool:
        """Do something with each element; tell whether there is one for sure."""
        if isinstance(value, GeneratorValue):
            self._pass_through(value, action)
            return isinstance(value.iterable, Items) and not any(
                isinstance(i, ir.If) for i in ir.walk(value.made.function.body)
            )
        if isinstance(value, Items):
            at = self.module.new("v")
            self.emit(f"for {at} in range({value.count}):")
            with self.deeper():
                action(self._item(value, at))
            return True
        parts = parts_of(value)
        for part in parts:
            action(part)
        return bool(parts)

    def _pass_through(
        self, value: GeneratorValue, action: Callable[[Value], None]
    ) -> None:
        outer, loops = self.frame, self.loops
        names: dict[str, Value] = {"%iterable": value.iterable}
        self.frame = _Frame(names, outer.scope, value.made.names, action)
        self.loops = []
        try:
            self._block(value.made.function.body)
        finally:
            self.frame, self.loops = outer, loops

    def try_out(self, value: Value) -> Shape:
        """Return the shape of the elements that a value gives."""
        kept, self.lines = self.lines, []
        found: list[Shape] = []
        try:
            self.each(value, lambda one: found.append(shape_of(one)))
        finally:
            self.lines = kept
        if not found:
            self.refuse("goes through nothing")
        shape = found[0]
        for other in found[1:]:
            shape = join(shape, other)
        return shape


def _may_fit(value: Value, kept: Shape) -> bool:
    """Tell whether a value may be of declared kinds."""
    return bool({*kinds_in(value)} & {*kept.kinds})


def _holds(value: Value, group: Group) -> bool:
    """Tell whether a group is part of another value."""
    match value:
        case Group(values=values) | RecordValue(values=values):
            return any(one is group or _holds(one, group) for one in values)
        case Made(names=names) | GeneratorValue(made=Made(names=names)):
            return any(one is group or _holds(one, group) for one in names.values())
    return False


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


class ColumnsText(FunctionText):
    """Computes the named columns of an aggregate."""

    def __init__(self, module: Module, kind: Aggregate, args: Sequence[Value]) -> None:
        super().__init__(module, _no_function, args)
        self.kind = kind

    def translate(self) -> Translated:
        self.count = 0
        items, start, end = map(self._parameter, self.args)
        assert isinstance(items, Items)  # noqa: S101 - see translate_columns
        self.frame = _Frame({}, {}, {})
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
            self._return(self._call(Known(into), [], named), 0)
        return self._finish()

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
                return self._item_at(values, Known(-1))
            case "counts" | "highest" | "lowest" as name:
                self.refuse(f"ab.{name} is not compiled")
        return self._item_at(values, Known(0))

    def _values(self, items: Items, name: str) -> Items:
        """Return one attribute of the items of a window."""
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
    """Stand for the function of an aggregate by columns."""


def _find_source(column: Sequence[Value]) -> int | None:
    sources = {v.source if isinstance(v, Scalar) else None for v in column}
    return sources.pop() if len(sources) == 1 else None


def _zeros(shape: Shape) -> list[str]:
    if len(shape.kinds) == 1:
        return [] if shape.kinds == ("none",) else [ZERO[shape.kinds[0]]]
    return ["0", *(ZERO[kind] for kind in shape.kinds if kind != "none")]


def flatten_all(args: Sequence[Value]) -> Iterator[Scalar]:
    """Yield the scalars of arguments, which are the parameters of a translation."""
    for value in args:
        yield from flatten(value)


def _at(column: Scalar, place: str) -> Scalar:
    """Return the value of a column at a place."""
    text = column.text.replace("{at}", place)
    parts = tuple(part.replace("{at}", place) for part in column.parts)
    return Scalar(column.kinds, text, None, parts, column.type)


def _same(one: Value, two: Value) -> bool:
    """Tell whether two values are one and the same, wherever they stand."""
    match one, two:
        case Known(value=a), Known(value=b):
            return type(a) is type(b) and a is b
        case Scalar(), Scalar():
            return one.kinds == two.kinds and one.texts == two.texts
    return False


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
