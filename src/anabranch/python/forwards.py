"""The attributes that every output of a function carries unchanged from its input.

Outputs are judged attribute by attribute: `item._replace(price=0)` forwards all but
price; `Price(last.ts, last.symbol, v)` forwards those that keep their own name. A
variable is followed only if it is assigned once, so that it stands for one thing;
several outputs forward what all of them forward. A None output has no attributes and is
ignored.
"""

from __future__ import annotations

import builtins
import copy
import dataclasses
import types
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from anabranch.graph.graph import Op
from anabranch.graph.kind import Evidence
from anabranch.operators.blocks import Block
from anabranch.operators.custom import Apply, Scan
from anabranch.operators.fan_in import Barrier
from anabranch.operators.join import Join, Lookup
from anabranch.operators.stateless import FlatMap, Map
from anabranch.operators.windows import Aggregate
from anabranch.python import ir
from anabranch.python.classes import (
    fields_as_stored,
    fields_in_order,
    fields_kept_by,
    is_frozen,
    is_named_tuple,
    parameters_of,
)
from anabranch.python.lower import Lowered, lower_callable
from anabranch.python.objects import MISSING

Forwards: TypeAlias = frozenset[str] | None  # None: all attributes
NOTHING: frozenset[str] = frozenset()

_ITEM = "item"
_ITEMS = "items"  # a list of items; any of them may be meant


@dataclass(frozen=True)
class Attribute:
    """The value of an attribute of the input."""

    name: str


Meaning: TypeAlias = str | Attribute | None


def common(found: Iterable[Forwards]) -> Forwards:
    """Return the attributes that all outputs forward; of no outputs, all attributes.

    >>> sorted(common([None, frozenset({"a", "b"}), frozenset({"b"})]))
    ['b']
    """
    result: Forwards = None
    for each in found:
        if each is not None:
            result = each if result is None else result & each
    return result


class Outputs:
    """Derives the outputs of one function.

    `inputs` maps its parameters to their meaning: the item, or a list of items. A
    generator expression is a function nested in another, whose variables it sees.
    """

    def __init__(
        self,
        code: ir.Function,
        function: types.FunctionType,
        inputs: Mapping[str, Meaning],
        item_type: Any,
        outer: Outputs | None = None,
    ) -> None:
        self.code = code
        self.function = function
        self.inputs = inputs
        self.item_type = item_type
        self.outer = outer
        self.assigned = Counter([*code.parameters, *code.keyword_only])
        self.assigned.update(filter(None, code.varying))
        self.values: dict[str, ir.Register] = {}
        for one in ir.walk(code.body):
            match one:
                case ir.Store(name=name, value=value) if name in code.own:
                    self.assigned[name] += 1
                    self.values[name] = value
                case ir.Delete(name=name):
                    self.assigned[name] += 1
        for one in _instructions_inside(code):
            if isinstance(one, ir.Store | ir.Delete) and one.scope == "cell":
                self.assigned[one.name] += 2

    # -- what a value means

    def meaning(  # noqa: PLR0911 - one return for each kind of value
        self, register: ir.Register
    ) -> Meaning:
        """Return the item or the attribute that a value stands for, if it does."""
        chosen = self._choices(register)
        if chosen:
            meanings = {self.meaning(each) for each in chosen}
            return meanings.pop() if len(meanings) == 1 else None
        match self.code.maker_of(register):
            case ir.LoadName(name=name, scope="local" | "cell"):
                return self._meaning_of_name(name)
            case ir.GetAttribute(value=value, name=name):
                return Attribute(name) if self.meaning(value) == _ITEM else None
            case ir.GetElement(value=value, index=index):
                whole = not isinstance(self.code.maker_of(index), ir.Build)
                return _ITEM if whole and self.meaning(value) == _ITEMS else None
            case ir.For(iterable=iterable):
                return _ITEM if self.meaning(iterable) == _ITEMS else None
            case ir.Unpack(targets=targets, value=value, star=None):
                names = fields_in_order(self.item_type)
                if len(names) == len(targets) and self.meaning(value) == _ITEM:
                    return Attribute(names[targets.index(register)])
        return None

    def _choices(self, register: ir.Register) -> list[ir.Register]:
        """Return the possible values of a conditional expression."""
        makers = self.code.makers.get(register, ())
        chosen = [one.value for one in makers if isinstance(one, ir.Store)]
        return chosen if len(chosen) == len(makers) else []

    def _meaning_of_name(self, name: str) -> Meaning:
        if name not in self.code.own:
            return None if self.outer is None else self.outer._meaning_of_name(name)  # noqa: SLF001
        if self.assigned[name] != 1:
            return None
        if name in self.inputs:
            return self.inputs[name]
        value = self.values.pop(name, None)  # it may be assigned to itself
        if value is None:
            return None
        found = self.meaning(value)
        self.values[name] = value
        return found

    # -- what an output forwards

    def forwards_in(self, register: ir.Register) -> Forwards:
        """Return the attributes that an output forwards."""
        if self.meaning(register) == _ITEM:
            return None
        chosen = self._choices(register)
        if chosen:
            return common(map(self.forwards_in, chosen))
        match self.code.maker_of(register):
            case ir.LoadName(name=name, scope="local") if self.assigned[name] == 1:
                value = self.values.get(name)
                made = None if value is None else self.code.maker_of(value)
                if isinstance(made, ir.Call):
                    return self._of_call(made, kept_as=name)
            case ir.Call() as call:
                return self._of_call(call)
        return NOTHING

    def _may_change(self, variable: str | None, cls: Any) -> bool:
        """Tell whether code may change a record after it was made.

        It may if it is used elsewhere than in the output, apart from reading its
        fields; a frozen one if it is passed on, since `object.__setattr__` still works.
        """
        if variable is None or is_named_tuple(cls):
            return False
        reads = 0
        for code in (self.code, *_functions_inside(self.code)):
            for one in ir.walk(code.body):
                if not isinstance(one, ir.LoadName) or one.name != variable:
                    continue
                users = code.users.get(one.target, ())
                if is_frozen(cls):
                    reads += 2 * any(_is_passed(one.target, each) for each in users)
                else:
                    fields = [_reads_field(each, cls) for each in users]
                    reads += not (fields and all(fields))
        return reads > 1

    def _of_call(self, call: ir.Call, kept_as: str | None = None) -> frozenset[str]:
        """Return the attributes a call forwards; `kept_as` names its result."""
        by_name = {each.name: each.value for each in call.arguments if each.name}
        given = [each.value for each in call.arguments if not each.name]
        match self.code.maker_of(call.function):
            case ir.GetAttribute(value=value, name="_replace"):
                if self.meaning(value) == _ITEM and not given:
                    return self._find_replaced("_replace", by_name)
                return NOTHING
        callee = self._resolve(call.function)
        for function, how in _REPLACING:
            if callee is function and len(given) == 1:
                is_item = self.meaning(given[0]) == _ITEM
                if not is_item or self._may_change(kept_as, self.item_type):
                    return NOTHING
                return self._find_replaced(how, by_name)
        if self._may_change(kept_as, callee):
            return NOTHING
        return self._find_constructed(callee, call)

    def _find_replaced(
        self, how: str, by_name: dict[str, ir.Register]
    ) -> frozenset[str]:
        if not isinstance(self.item_type, type) or by_name.keys() & {"*", "**"}:
            return NOTHING
        changed = {n for n, v in by_name.items() if self.meaning(v) != Attribute(n)}
        return fields_kept_by(self.item_type, how) - changed

    def _find_constructed(self, cls: Any, call: ir.Call) -> frozenset[str]:
        return frozenset(
            name
            for name, value in _match_parameters(parameters_of(cls) or (), call)
            if name in fields_as_stored(cls) and self.meaning(value) == Attribute(name)
        )

    def find_arguments(self, call: ir.Call, name: str) -> Iterator[ir.Register]:
        """Yield the arguments that a call passes under a name, by keyword or
        position.
        """
        names = parameters_of(self._resolve(call.function)) or ()
        yield from (
            value for field, value in _match_parameters(names, call) if field == name
        )

    def _resolve(self, register: ir.Register) -> Any:
        """Return the object that a global or captured name refers to."""
        match self.code.maker_of(register):
            case ir.LoadName(name=name, scope="global"):
                names = self.function.__globals__
                return names.get(name, getattr(builtins, name, MISSING))
            case ir.LoadName(name=name, scope="cell"):
                return self._find_captured(name)
            case ir.GetAttribute(value=value, name=name):
                owner = self._resolve(value)
                if isinstance(owner, types.ModuleType):
                    return vars(owner).get(name, MISSING)
        return MISSING

    def _find_captured(self, name: str) -> Any:
        """Return the value of a captured variable, if it was made outside."""
        outer: Outputs | None = self
        while outer is not None:
            if name in outer.code.own:
                return MISSING
            outer = outer.outer
        free = self.function.__code__.co_freevars
        if self.assigned[name] or name not in free:
            return MISSING
        try:
            return (self.function.__closure__ or ())[free.index(name)].cell_contents
        except ValueError:
            return MISSING

    # -- the outputs of a whole function

    def _find_returned(self) -> list[ir.Register]:
        """Return the values that the function returns, apart from None."""
        returns = (one for one in ir.walk(self.code.body) if isinstance(one, ir.Return))
        return [one.value for one in returns if not self._is_none(one.value)]

    def _is_none(self, register: ir.Register) -> bool:
        match self.code.maker_of(register):
            case ir.Const(value=None):
                return True
        return False

    def of_result(self) -> Forwards:
        """Return the attributes forwarded by the one result of a function."""
        if self.code.generator:
            return NOTHING
        return self._all(self._find_returned())

    def of_pair(self) -> Forwards:
        """Return the attributes forwarded by the second of two results."""
        seconds = []
        for register in self._find_returned():
            match self.code.maker_of(self._follow(register)):
                case ir.Build(kind="tuple", items=[_, second], starred=starred):
                    if starred:
                        return NOTHING
                    if not self._is_none(second):
                        seconds.append(second)
                case _:
                    return NOTHING
        return NOTHING if self.code.generator else self._all(seconds)

    def of_elements(self) -> Forwards:
        """Return the attributes forwarded by each of several outputs."""
        if not self.code.generator:
            found = [self._of_each(each) for each in self._find_returned()]
            return common(found) if found else NOTHING
        found = []
        for one in ir.walk(self.code.body):
            match one:
                case ir.Yield(value=value, delegates=True):
                    found.append(self._of_each(value))
                case ir.Yield(value=value) if not self._is_none(value):
                    found.append(self.forwards_in(value))
        return common(found) if found else NOTHING

    def _of_each(self, register: ir.Register) -> Forwards:
        """Return the attributes forwarded by each element of a value."""
        register = self._follow(register)
        chosen = self._choices(register)
        if chosen:
            return common(map(self._of_each, chosen))
        if register in self.code.filled:
            return self._all(
                one.values[0]
                for one in ir.walk(self.code.body)
                if isinstance(one, ir.Add) and one.container == register
            )
        match self.code.maker_of(register):
            case ir.Build(kind="list" | "tuple", items=items, starred=starred):
                return NOTHING if starred else common(map(self.forwards_in, items))
            case ir.Call(function=function, arguments=[argument]):
                made = self.code.maker_of(function)
                if isinstance(made, ir.MakeFunction) and made.function.generator:
                    return self._inside(made.function, argument).of_elements()
        return NOTHING

    def _inside(self, made: ir.Function, argument: ir.Argument) -> Outputs:
        """Return the outputs of a generator expression."""
        given = {made.parameters[0]: self.meaning(argument.value)}
        return Outputs(made, self.function, given, self.item_type, self)

    def _follow(self, register: ir.Register) -> ir.Register:
        """Resolve a name that refers to a tuple built once."""
        match self.code.maker_of(register):
            case ir.LoadName(name=name, scope="local") if self.assigned[name] == 1:
                value = self.values.get(name, register)
                match self.code.maker_of(value):
                    case ir.Build(kind="tuple"):
                        return value
        return register

    def _all(self, outputs: Iterable[ir.Register]) -> Forwards:
        found = [self.forwards_in(each) for each in outputs]
        return common(found) if found else NOTHING


def _match_parameters(
    names: Iterable[str], call: ir.Call
) -> Iterator[tuple[str, ir.Register]]:
    """Yield the arguments of a call with the names of their parameters."""
    for name, each in zip(names, call.arguments, strict=False):
        if each.name:
            break
        yield name, each.value
    yield from ((each.name, each.value) for each in call.arguments if each.name)


def _functions_inside(code: ir.Function) -> Iterator[ir.Function]:
    for inner in ir.functions_in(code.body):
        yield inner
        yield from _functions_inside(inner)


def _instructions_inside(code: ir.Function) -> Iterator[ir.Instruction]:
    """Yield the instructions of the functions that a function makes."""
    for inner in _functions_inside(code):
        yield from ir.walk(inner.body)


def _is_passed(register: ir.Register, user: ir.Instruction) -> bool:
    return isinstance(user, ir.Call) and any(
        each.value == register for each in user.arguments
    )


def _reads_field(user: ir.Instruction, cls: Any) -> bool:
    return isinstance(user, ir.GetAttribute) and user.name in fields_as_stored(cls)


_REPLACING = [(dataclasses.replace, "replace")]
if hasattr(copy, "replace"):  # since Python 3.13
    _REPLACING.append((copy.replace, "__replace__"))


# -- what an operator forwards

_COPIES = ("any", "first", "last", "min", "max")


class Forwarded(NamedTuple):
    """The attributes that an operator forwards, and why."""

    attributes: Forwards
    evidence: Evidence


def forwards_of(  # noqa: PLR0911 - one return for each kind of operator
    op: Op, item_type: Any
) -> Forwarded | None:
    """Return the attributes that code forwards; None if the kind decides."""
    match op.kind:
        case Map(function=function):
            return _read_off(op, function, ("item",), item_type, Outputs.of_result)
        case FlatMap(function=function):
            return _read_off(op, function, ("item",), item_type, Outputs.of_elements)
        case Scan(step=step):
            return _read_off(op, step, ("", "item"), item_type, Outputs.of_pair)
        case Apply(operator=cls):
            return _of_apply(op, cls, item_type)
        case Aggregate():
            return _of_aggregate(op, op.kind, item_type)
        case Join(into=into):
            found = _read_off(op, into, ("item", "item"), None, Outputs.of_result)
            return _restrict(found, op.keyed_by)
        case Barrier(into=into) if into is not None:
            roles = ("item",) * len(op.inputs)
            found = _read_off(op, into, roles, None, Outputs.of_result)
            return _restrict(found, op.keyed_by)
        case Lookup(into=into):
            return _read_off(op, into, ("item", ""), item_type, Outputs.of_result)
        case Block(function=function, peek=peek):
            found = _read_off(op, function, ("items",), item_type, Outputs.of_elements)
            return found if peek == 1 else _restrict(found, op.keyed_by)
    return None


def _of_apply(op: Op, cls: Any, item_type: Any) -> Forwarded:
    for method in ("punctuation", "finish", "on_time"):
        if op.kind.overrides(method):  # type: ignore[attr-defined]
            text = f"no item stands behind what {cls.__name__}.{method}() gives"
            source = lower_callable(getattr(cls, method))
            return Forwarded(NOTHING, _evidence(op, source, text))
    return _read_off(op, cls.process, ("", "item"), item_type, Outputs.of_elements)


def _of_aggregate(op: Op, kind: Aggregate, item_type: Any) -> Forwarded:
    key = op.keyed_by
    if kind.function is not None:
        found = _read_off(op, kind.function, ("items",), item_type, Outputs.of_result)
        return _restrict(found, key)
    kept = frozenset(
        name
        for name, column in kind.columns
        if name == column.attribute and name in key and column.function in _COPIES
    )
    if kind.into is not None:
        kept &= fields_as_stored(kind.into)
    return Forwarded(kept, _evidence(op, None, _phrase(kept)))


def _restrict(found: Forwarded, key: tuple[str, ...]) -> Forwarded:
    """Restrict attributes taken from any item of a window to those equal in all of
    them.
    """
    kept = frozenset(key) if found.attributes is None else found.attributes & set(key)
    return Forwarded(kept, found.evidence._replace(text=_phrase(kept)))


def _read_off(
    op: Op, function: Any, roles: tuple[str, ...], item_type: Any, read: Any
) -> Forwarded:
    source = None if function is None else lower_callable(function)
    if source is None:
        text = "the source is not available, so no attribute counts as forwarded"
        return Forwarded(NOTHING, _evidence(op, None, text))
    several, named = source.code.varying
    by_name = {*source.code.keyword_only, named}
    given = [name for name in source.parameters if name not in by_name]
    inputs: dict[str, Meaning] = {
        name: _ITEMS if name == several and role == _ITEM else role
        for name, role in zip(given, roles, strict=False)
        if role
    }
    outputs = Outputs(source.code, source.function, inputs, item_type)
    found: Forwards = read(outputs)
    return Forwarded(found, _evidence(op, source, _phrase(found)))


def _phrase(found: Forwards) -> str:
    if found is None:
        return "gives the item itself, with all its attributes"
    if not found:
        return "copies no attribute unchanged under its own name"
    return f"copies {', '.join(sorted(found))} unchanged"


def _evidence(op: Op, source: Lowered | None, text: str) -> Evidence:
    if source is None:
        return Evidence("forwards", text, op.site.file, op.site.line)
    return Evidence("forwards", text, source.file, source.code.line)


def replaces(function: Any, name: str) -> bool:
    """Tell whether a function changes the value of an attribute in its output.

    A name or a call may stand for the unchanged value, so neither counts. For an
    `Operator`, `process` is judged.
    """
    source = lower_callable(getattr(function, "process", function))
    if source is None:
        return False
    outputs = Outputs(source.code, source.function, {}, None)
    calls = (one for one in ir.walk(source.code.body) if isinstance(one, ir.Call))
    return any(
        _is_other(source.code, value, name)
        for call in calls
        for value in outputs.find_arguments(call, name)
    )


def _is_other(code: ir.Function, register: ir.Register, name: str) -> bool:
    match code.maker_of(register):
        case ir.GetAttribute(name=read, value=value):
            return read != name and isinstance(code.maker_of(value), ir.LoadName)
        case ir.Store(value=value):
            return _is_other(code, value, name)
        case ir.Build(kind=kind):
            return kind == "str"
        case ir.Const() | ir.Binary() | ir.Compare() | ir.Unary():
            return True
    return False
