"""Which attributes every output of a function has unchanged from its input.

An output counts attribute by attribute: `item._replace(price=0)` forwards all but
price, `Price(last.ts, last.symbol, v)` those that land under their own name. A variable
is followed only if it is assigned once, so that it cannot stand for two things; several
outputs forward what each of them does.
"""

from __future__ import annotations

import ast
import builtins
import copy
import dataclasses
import types
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from anabranch.python.classes import (
    fields_in_order,
    is_frozen,
    is_named_tuple,
    kept_fields,
    parameters_of,
    stored_fields,
)
from anabranch.python.objects import MISSING
from anabranch.python.source import (
    FunctionNode,
    bound_names,
    is_generator,
    nodes_of_scope,
    parameter_names,
)

Forwards: TypeAlias = frozenset[str] | None  # None: all attributes
NOTHING: frozenset[str] = frozenset()

_ITEM = "item"
_ITEMS = "items"  # a list of items of which any may be meant


@dataclass(frozen=True)
class Attribute:
    """The value of an attribute of the input."""

    name: str


Meaning: TypeAlias = str | Attribute | None


def common(found: Iterable[Forwards]) -> Forwards:
    """Return what all outputs forward; of no outputs, all attributes.

    >>> sorted(common([None, frozenset({"a", "b"}), frozenset({"b"})]))
    ['b']
    """
    result: Forwards = None
    for each in found:
        if each is not None:
            result = each if result is None else result & each
    return result


class Outputs:
    """Reads off the outputs of one function.

    `inputs` maps its parameters to what they are: the item, or a list of items.
    """

    def __init__(
        self,
        node: FunctionNode,
        function: types.FunctionType,
        inputs: dict[str, str],
        item_type: Any,
    ) -> None:
        self.node = node
        self.function = function
        self.inputs = inputs
        self.item_type = item_type
        self.assigned = Counter(parameter_names(node.args))
        self.values: dict[str, Meaning | ast.expr] = {}
        for inner in nodes_of_scope(node):
            self._note(inner)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Nonlocal | ast.Global):
                self.assigned.update(inner.names * 2)

    def _note(self, node: ast.AST) -> None:
        """Count the assignments of each name and keep what a single one gives it."""
        self.assigned.update(bound_names(node))
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.values[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self.values[name] = value
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                self.values[name] = value
            case ast.AugAssign(target=ast.Name(id=name)):
                self.assigned[name] += 1
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                self._note_unpacking(targets, value)
            case ast.For(target=ast.Name(id=name), iter=ast.Name(id=source)):
                if self.inputs.get(source) == _ITEMS:
                    self.values[name] = _ITEM

    def _note_unpacking(self, targets: list[ast.expr], value: ast.expr) -> None:
        if not isinstance(value, ast.Name) or self.inputs.get(value.id) != _ITEM:
            return
        names = fields_in_order(self.item_type)
        if len(names) != len(targets) or self.assigned[value.id] > 1:
            return
        for target, name in zip(targets, names, strict=True):
            if isinstance(target, ast.Name):
                self.values[target.id] = Attribute(name)

    # -- what an expression means

    def meaning(self, node: ast.expr, hidden: Collection[str] = ()) -> Meaning:
        """Return the item or the attribute that an expression stands for, if it does."""
        match node:
            case ast.Name(id=name) if name not in hidden:
                return self._meaning_of_name(name)
            case ast.Attribute(value=value, attr=attr):
                return Attribute(attr) if self.meaning(value, hidden) == _ITEM else None
            case ast.Subscript(value=value, slice=index):
                whole = not isinstance(index, ast.Slice)
                is_list = self.meaning(value, hidden) == _ITEMS
                return _ITEM if whole and is_list else None
            case ast.IfExp(body=one, orelse=two):
                meanings = {self.meaning(one, hidden), self.meaning(two, hidden)}
                return meanings.pop() if len(meanings) == 1 else None
            case ast.NamedExpr(value=value):
                return self.meaning(value, hidden)
        return None

    def _meaning_of_name(self, name: str) -> Meaning:
        if self.assigned[name] != 1:
            return None
        if name in self.inputs:
            return self.inputs[name]
        value = self.values.get(name)
        return self.meaning(value) if isinstance(value, ast.expr) else value

    # -- what an output forwards

    def forwarded(self, node: ast.expr, hidden: Collection[str] = ()) -> Forwards:
        """Return the attributes that an output expression forwards."""
        if self.meaning(node, hidden) == _ITEM:
            return None
        match node:
            case ast.IfExp(body=one, orelse=two):
                both = (self.forwarded(one, hidden), self.forwarded(two, hidden))
                return common(both)
            case ast.NamedExpr(value=value):
                return self.forwarded(value, hidden)
            case ast.Name(id=name) if name not in hidden:
                made = self.values.get(name)
                if self.assigned[name] == 1 and isinstance(made, ast.Call):
                    return self._of_call(made, (), kept_as=name)
            case ast.Call():
                return self._of_call(node, hidden)
        return NOTHING

    def _may_change(self, variable: str | None, cls: Any) -> bool:
        """Tell whether code may change a record after it was made.

        It may if it is read elsewhere than where it is given back, apart from its
        fields; a frozen one if it is passed on, since `object.__setattr__` remains.
        """
        if variable is None or is_named_tuple(cls):
            return False
        nodes = list(ast.walk(self.node))
        if is_frozen(cls):
            calls = [node for node in nodes if isinstance(node, ast.Call)]
            passed = [
                e for c in calls for e in (*c.args, *(k.value for k in c.keywords))
            ]
            return any(isinstance(e, ast.Name) and e.id == variable for e in passed)
        reads = 0
        for node in nodes:
            match node:
                case ast.Name(id=name, ctx=ast.Load()) if name == variable:
                    reads += 1
                case ast.Attribute(value=ast.Name(id=name), ctx=ast.Load()):
                    reads -= name == variable and node.attr in stored_fields(cls)
        return reads > 1

    def _of_call(
        self, node: ast.Call, hidden: Collection[str], kept_as: str | None = None
    ) -> frozenset[str]:
        """Return what a call forwards; `kept_as` is the variable that has its result."""
        match node.func:
            case ast.Attribute(value=value, attr="_replace"):
                if self.meaning(value, hidden) == _ITEM and not node.args:
                    return self._replaced("_replace", node.keywords, hidden)
                return NOTHING
        callee = self._resolve(node.func, hidden)
        for function, how in _REPLACING:
            if callee is function and len(node.args) == 1:
                is_item = self.meaning(node.args[0], hidden) == _ITEM
                if not is_item or self._may_change(kept_as, self.item_type):
                    return NOTHING
                return self._replaced(how, node.keywords, hidden)
        if self._may_change(kept_as, callee):
            return NOTHING
        return self._constructed(callee, node, hidden)

    def _replaced(
        self, how: str, keywords: list[ast.keyword], hidden: Collection[str]
    ) -> frozenset[str]:
        if not isinstance(self.item_type, type) or any(k.arg is None for k in keywords):
            return NOTHING
        changed = {
            k.arg
            for k in keywords
            if self.meaning(k.value, hidden) != Attribute(str(k.arg))
        }
        return kept_fields(self.item_type, how) - {n for n in changed if n is not None}

    def _constructed(
        self, cls: Any, node: ast.Call, hidden: Collection[str]
    ) -> frozenset[str]:
        names, stored = parameters_of(cls) or (), stored_fields(cls)
        given: list[tuple[str, ast.expr]] = []
        for name, value in zip(names, node.args, strict=False):
            if isinstance(value, ast.Starred):
                break
            given.append((name, value))
        given += [(k.arg, k.value) for k in node.keywords if k.arg is not None]
        return frozenset(
            name
            for name, value in given
            if name in stored and self.meaning(value, hidden) == Attribute(name)
        )

    def _resolve(self, node: ast.expr, hidden: Collection[str]) -> Any:
        """Return the object that a global or captured name stands for."""
        match node:
            case ast.Name(id=name) if name not in hidden and not self.assigned[name]:
                free = self.function.__code__.co_freevars
                if name in free:
                    cell = (self.function.__closure__ or ())[free.index(name)]
                    try:
                        return cell.cell_contents
                    except ValueError:
                        return MISSING
                names = self.function.__globals__
                return names.get(name, getattr(builtins, name, MISSING))
            case ast.Attribute(value=value, attr=attr):
                owner = self._resolve(value, hidden)
                if isinstance(owner, types.ModuleType):
                    return vars(owner).get(attr, MISSING)
        return MISSING

    # -- the outputs of a whole function

    def returned(self) -> Iterator[ast.expr]:
        """Yield the expressions that the function returns."""
        if isinstance(self.node, ast.Lambda):
            yield self.node.body
            return
        for node in nodes_of_scope(self.node):
            if isinstance(node, ast.Return) and node.value is not None:
                yield node.value

    def of_result(self) -> Forwards:
        """Return what the one result of a function forwards."""
        if is_generator(self.node):
            return NOTHING
        return self._all(self.returned())

    def of_pair(self) -> Forwards:
        """Return what the second of two results forwards."""
        seconds = []
        for node in self.returned():
            match self._followed(node):
                case ast.Tuple(elts=[_, second]) if not isinstance(second, ast.Starred):
                    seconds.append(second)
                case _:
                    return NOTHING
        return NOTHING if is_generator(self.node) else self._all(seconds)

    def of_elements(self) -> Forwards:
        """Return what each of several outputs forwards."""
        found: list[Forwards] = []
        if is_generator(self.node):
            for node in nodes_of_scope(self.node):
                match node:
                    case ast.Yield(value=ast.expr() as value):
                        found.append(self.forwarded(value))
                    case ast.YieldFrom(value=value):
                        found.append(self._of_each(value))
                    case ast.Yield():
                        found.append(NOTHING)
        else:
            found = [self._of_each(node) for node in self.returned()]
        return common(found) if found else NOTHING

    def _of_each(self, node: ast.expr) -> Forwards:
        node = self._followed(node)
        match node:
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return common(map(self.forwarded, elements))
            case ast.IfExp(body=one, orelse=two):
                return common([self._of_each(one), self._of_each(two)])
            case ast.ListComp() | ast.GeneratorExp():
                hidden = {
                    name.id
                    for generator in node.generators
                    for name in ast.walk(generator.target)
                    if isinstance(name, ast.Name)
                }
                return self.forwarded(node.elt, hidden)
        return NOTHING

    def _followed(self, node: ast.expr) -> ast.expr:
        """Follow a name that stands for a tuple made once."""
        if isinstance(node, ast.Name) and self.assigned[node.id] == 1:
            value = self.values.get(node.id)
            if isinstance(value, ast.Tuple):
                return value
        return node

    def _all(self, outputs: Iterable[ast.expr]) -> Forwards:
        found = [self.forwarded(node) for node in outputs]
        return common(found) if found else NOTHING


_REPLACING = [(dataclasses.replace, "replace")]
if hasattr(copy, "replace"):  # since Python 3.13
    _REPLACING.append((copy.replace, "__replace__"))
