"""What an attribute, an element or an operator of a value gives, and what it runs.

Only classes of the user's can run code here: properties, `__getattr__`, `__getitem__`,
`__add__` and so on are followed like calls. For a value of unknown type every class of
the program that defines the name is a candidate.
"""

from __future__ import annotations

import ast
import collections
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, get_args, get_origin

import numpy as np

from anabranch.analysis.effects import Findings, Frame, Place, shown
from anabranch.analysis.known import (
    CHANGING_METHODS,
    PURE_METHODS,
    TEXT_METHODS,
    why_impure,
)
from anabranch.analysis.objects import (
    CALLABLES,
    CONTAINERS,
    MISSING,
    class_attribute,
    contents,
    field_names,
    function_in,
    instance_attribute,
    is_frozen_instance,
    is_instance_of_users,
    is_scalar,
    is_scalar_type,
    is_users_class,
    is_users_code,
    is_users_module,
)
from anabranch.analysis.universe import Universe, subclasses
from anabranch.analysis.values import (
    ELEMENTS,
    LOST,
    NOTHING,
    PLAIN,
    Arguments,
    Bound,
    Fresh,
    Input,
    Known,
    Lost,
    Method,
    Plain,
    Root,
    Shared,
    Value,
    join,
)
from anabranch.graph.types import fields_of

_METHODS = PURE_METHODS | CHANGING_METHODS


class Attributes(ABC):
    """The part of the interpreter that looks into values."""

    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        self.found = Findings()
        self.heap = self.found.heap

    @abstractmethod
    def call(
        self, callee: Value, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        """Return what a call gives, and record what it does."""

    def at(self, node: ast.AST, frame: Frame) -> Place:
        """Return the line of a node."""
        return Place(frame.file, getattr(node, "lineno", 0) or frame.node.lineno)  # type: ignore[attr-defined]

    def unknown(self, text: str, node: ast.AST, frame: Frame) -> Value:
        """Record that something cannot be followed."""
        self.found.effect("unknown", text, self.at(node, frame))
        return LOST

    # -- objects that exist already

    def existing(self, obj: Any, text: str, node: ast.AST, frame: Frame) -> Value:
        """Return the value of an object that was there before the call."""
        if is_scalar(obj):
            return frozenset([Plain(type(obj))])
        if isinstance(obj, types.MethodType) and isinstance(
            obj.__func__, types.FunctionType
        ):
            owner = self.existing(obj.__self__, text, node, frame)
            return frozenset(Bound(root, obj.__func__) for root in owner)
        if (
            isinstance(obj, (*CALLABLES, *CONTAINERS, types.ModuleType))
            or is_instance_of_users(obj)
            or hasattr(type(obj), "__anabranch__")
        ):
            if not isinstance(obj, (*CALLABLES, types.ModuleType)):
                self.found.touch(text, obj, self.at(node, frame))
            return frozenset([Known(obj, text)])
        why = why_impure(type(obj))
        if why is not None:
            self.found.effect("impure", f"{text} {why}", self.at(node, frame))
            return LOST
        kind = type(obj).__name__
        return self.unknown(f"{text} is a {kind} that outlives the call", node, frame)

    # -- elements

    def elements(self, value: Value, node: ast.AST, frame: Frame) -> Value:
        """Return what indexing or iterating a value may give."""
        return join(self._elements(root, node, frame) for root in value)

    def _elements(self, root: Root, node: ast.AST, frame: Frame) -> Value:
        match root:
            case Fresh(site):
                ran = self._run_access(root, node, frame)
                return self.heap.elements(site) | ran
            case Input(kind):
                ran = self._run_access(root, node, frame)
                return frozenset([typed(element_type(kind))]) | ran
            case Known(obj=obj, text=text):
                return self._elements_of_existing(root, obj, text, node, frame)
            case Shared() | Lost():
                return frozenset([root])
        return PLAIN

    def _run_access(self, root: Root, node: ast.AST, frame: Frame) -> Value:
        names = ("__getitem__", "__iter__", "__missing__")
        return self.run_special(root, names, node, frame)

    def _elements_of_existing(
        self, root: Known, obj: Any, text: str, node: ast.AST, frame: Frame
    ) -> Value:
        inside = f"what lies in {text}"
        if isinstance(obj, collections.defaultdict):
            self.found.change(
                obj, f"reading {text} may add a key to it", self.at(node, frame)
            )
        ran = self._run_access(root, node, frame)
        if isinstance(obj, type):
            special = class_attribute(obj, "__class_getitem__")
            if isinstance(function_in(special), types.FunctionType):
                return self.unknown(f"{shown(node)} runs {text}", node, frame)
        if not isinstance(obj, CONTAINERS):
            return ran | frozenset([Shared(inside, id(obj))])
        held = contents(obj)
        if held is None:
            kinds = set() if isinstance(obj, np.ndarray) else set(map(type, obj))
            flat = kinds and all(map(is_scalar_type, kinds))
            return ran | (PLAIN if flat else frozenset([Shared(inside, id(obj))]))
        return ran | join(self.existing(each, inside, node, frame) for each in held)

    def inside(self, value: Value) -> Value:
        """Return what can be reached from a value in one step, running nothing."""
        found: set[Root] = set()
        for root in value:
            match root:
                case Fresh(site):
                    found |= self.heap.inside(site)
                case Input(kind):
                    found |= {typed(element_type(kind)), Input()}
                case Known(obj=obj, text=text) if not isinstance(obj, CALLABLES):
                    found.add(Shared(f"what lies in {text}", id(obj)))
                case Shared():
                    found.add(root)
        return frozenset(found)

    # -- code that runs without being called by name

    def run_special(
        self,
        root: Root,
        names: Iterable[str],
        node: ast.AST,
        frame: Frame,
        args: Arguments | None = None,
    ) -> Value:
        """Run the user's special methods that an operation on `root` may run."""
        if isinstance(root, Plain):
            return NOTHING
        ran: list[Value] = []
        for name in names:
            for function in self._candidates(root, name):
                callee: Value = frozenset([Bound(root, function)])
                given = args or Arguments(rest=frozenset([root, Plain()]))
                ran.append(self.call(callee, given, node, frame))
        return join(ran)

    def run_operators(self, value: Value, node: ast.AST, frame: Frame) -> None:
        """Run every special method that a builtin may run on a value."""
        for root in value:
            if isinstance(root, Input | Fresh | Known | Shared):
                for function in self.universe.operators():
                    args = Arguments(rest=value | PLAIN)
                    self.call(frozenset([Bound(root, function)]), args, node, frame)

    def _candidates(self, root: Root, name: str) -> list[types.FunctionType]:
        cls = class_of(root)
        if cls is None:
            unknown = isinstance(root, Input | Fresh | Shared)
            return self.universe.definitions(name) if unknown else []
        return [
            function
            for each in {cls, *subclasses(cls)}
            if isinstance(
                function := function_in(class_attribute(each, name)), types.FunctionType
            )
            and is_users_code(function.__code__)
        ]

    # -- attributes

    def attribute(self, value: Value, name: str, node: ast.AST, frame: Frame) -> Value:
        """Return what an attribute of a value may be, running properties."""
        return join(self._attribute(root, name, node, frame) for root in value)

    def _attribute(self, root: Root, name: str, node: ast.AST, frame: Frame) -> Value:
        if name == "__class__":
            return frozenset([Shared("a class")])
        if name in ("__name__", "__qualname__", "__doc__"):
            return PLAIN
        if name.startswith("__") and name.endswith("__") and name not in _METHODS:
            return self.unknown(f"{shown(node)} reaches into an object", node, frame)
        match root:
            case Fresh() | Input() | Shared():
                return self._attribute_of_value(root, name, node, frame)
            case Known(obj=obj, text=text):
                return self._attribute_of_existing(root, obj, text, name, node, frame)
            case Plain():
                known = name in _METHODS or name in TEXT_METHODS
                return PLAIN.union([Method(root, name)] if known else [])
            case Lost():
                return LOST
        return self.unknown(f"{shown(node)} is an attribute of a function", node, frame)

    def _attribute_of_value(
        self, root: Fresh | Input | Shared, name: str, node: ast.AST, frame: Frame
    ) -> Value:
        held = self._field(root, name)
        cls = class_of(root)
        if cls is not None:
            if name in (field_names(cls) or ()):
                return held
            raw = class_attribute(cls, name)
            others = self._overriding(root, cls, name, raw, node, frame)
            if raw is not MISSING:
                own = (
                    self.heap.get(root.site, name)
                    if isinstance(root, Fresh)
                    else NOTHING
                )
                given = self.unwrapped(raw, root, cls, name, node, frame)
                return own | others | given
            args = Arguments([PLAIN])
            return (
                others
                | held
                | self.run_special(root, ("__getattr__",), node, frame, args)
            )
        ran = [
            frozenset([Bound(root, function)])
            if not self._is_property(name, function)
            else self.call(frozenset([Bound(root, function)]), Arguments(), node, frame)
            for function in self.universe.definitions(name)
        ]
        args = Arguments([PLAIN])
        hooks = ("__getattr__", "__getattribute__")
        ran.append(self.run_special(root, hooks, node, frame, args))
        method: Value = frozenset([Method(root, name)] if name in _METHODS else [])
        return held | method | join(ran)

    def _overriding(
        self, root: Root, cls: type, name: str, raw: Any, node: ast.AST, frame: Frame
    ) -> Value:
        """Return what subclasses, of which an input may be an instance, have instead."""
        if not isinstance(root, Input):
            return NOTHING
        found = [NOTHING]
        for each in subclasses(cls):
            other = class_attribute(each, name)
            if other is not raw and other is not MISSING:
                found.append(self.unwrapped(other, root, each, name, node, frame))
        return join(found)

    def called_attribute(
        self, value: Value, name: str, node: ast.AST, frame: Frame
    ) -> Value:
        """Return what `value.name(...)` calls.

        A value of unknown type has a method of that name, not a function in a field,
        unless some class of the program has such a field.
        """
        found = self.attribute(value, name, node, frame).union(
            Method(root, name)
            for root in value
            if isinstance(root, Plain) and root.type is not type(None)
        )
        has_method = any(isinstance(r, Method) and r.name == name for r in found)
        if not has_method or self.universe.has_field(name):
            return found
        return frozenset(r for r in found if not isinstance(r, Input | Fresh | Shared))

    def _is_property(self, name: str, function: types.FunctionType) -> bool:
        raws = (vars(cls).get(name) for cls in self.universe.classes)
        return any(raw is not function and function_in(raw) is function for raw in raws)

    def _field(self, root: Fresh | Input | Shared, name: str) -> Value:
        match root:
            case Fresh(_, kind) if kind in CONTAINERS:
                return NOTHING
            case Fresh(site):
                return self.heap.get(site, name) | self.heap.get(site, ELEMENTS)
            case Input(kind):
                fields = fields_of(kind) or {}
                return frozenset([typed(fields.get(name))])
        return frozenset([root])

    def _attribute_of_existing(
        self, root: Known, obj: Any, text: str, name: str, node: ast.AST, frame: Frame
    ) -> Value:
        if isinstance(obj, types.ModuleType):
            return self._attribute_of_module(obj, name, node, frame)
        if isinstance(obj, type):
            raw = class_attribute(obj, name)
            if raw is MISSING:
                return frozenset([Method(root, name)])
            return self.unwrapped(raw, None, obj, name, node, frame)
        if isinstance(obj, types.FunctionType) and name in vars(obj):
            held = vars(obj)[name]
            self.found.read(name, None, held, self.at(node, frame))
            return self.existing(held, f"{text}.{name}", node, frame)
        if not is_instance_of_users(obj):
            return frozenset([Method(root, name)])
        raw = class_attribute(type(obj), name)
        own = instance_attribute(obj, name)
        if own is not MISSING and not isinstance(raw, property):
            if not is_frozen_instance(obj):
                self.found.read(name, None, own, self.at(node, frame))
            return self.existing(own, f"{text}.{name}", node, frame)
        if raw is not MISSING:
            return self.unwrapped(raw, root, type(obj), name, node, frame)
        if self._candidates(root, "__getattr__"):
            return self.run_special(
                root, ("__getattr__",), node, frame, Arguments([PLAIN])
            )
        return self.unknown(f"{shown(node)} is not an attribute yet", node, frame)

    def _attribute_of_module(
        self, module: types.ModuleType, name: str, node: ast.AST, frame: Frame
    ) -> Value:
        names = vars(module)
        if name not in names:
            return self.unknown(f"{shown(node)} is not in its module", node, frame)
        if is_users_module(module.__name__):
            self.found.read(name, names, names[name], self.at(node, frame))
        return self.existing(names[name], shown(node), node, frame)

    def unwrapped(
        self,
        raw: Any,
        owner: Root | None,
        cls: type,
        name: str,
        node: ast.AST,
        frame: Frame,
    ) -> Value:
        """Return what an entry of a class gives when it is read through `owner`."""
        match raw:
            case staticmethod():
                return self.existing(
                    raw.__func__, f"{cls.__name__}.{name}", node, frame
                )
            case classmethod() if name in _NAMED_TUPLE_METHODS:
                return frozenset([Method(Known(cls, cls.__name__), name)])
            case classmethod() if isinstance(raw.__func__, types.FunctionType):
                return frozenset([Bound(Known(cls, cls.__name__), raw.__func__)])
            case types.FunctionType() if name in _NAMED_TUPLE_METHODS:
                target = owner if owner is not None else Known(cls, cls.__name__)
                return frozenset([Method(target, name)])
            case types.FunctionType() if owner and is_users_code(raw.__code__):
                return frozenset([Bound(owner, raw)])
            case property() | types.FunctionType() if owner is None:
                return frozenset([Known(raw, f"{cls.__name__}.{name}")])
            case types.FunctionType():
                return frozenset([Known(raw, f"{cls.__name__}.{name}")])
            case property() if isinstance(raw.fget, types.FunctionType):
                callee: Value = (
                    frozenset([Bound(owner, raw.fget)]) if owner else NOTHING
                )
                return self.call(callee, Arguments(), node, frame)
        if (
            is_users_class(cls)
            and hasattr(type(raw), "__get__")
            and is_users_class(type(raw))
        ):
            return self.unknown(f"{shown(node)} runs a descriptor", node, frame)
        if isinstance(raw, types.MemberDescriptorType) and owner is not None:
            return (
                self._field(owner, name) if isinstance(owner, Fresh | Input) else LOST
            )
        if owner is None and isinstance(raw, _UNBOUND_METHODS):
            return frozenset([Known(raw, f"{cls.__name__}.{name}")])
        if not is_users_class(cls) or isinstance(raw, _BUILTIN_METHODS):
            target = owner if owner is not None else Known(cls, cls.__name__)
            return frozenset([Method(target, name)])
        self.found.read(name, None, raw, self.at(node, frame))
        return self.existing(
            raw, f"the class attribute {cls.__name__}.{name}", node, frame
        )


_NAMED_TUPLE_METHODS = ("_replace", "_asdict", "_make")
_UNBOUND_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType)
_BUILTIN_METHODS = (
    *_UNBOUND_METHODS,
    types.BuiltinFunctionType,
    types.ClassMethodDescriptorType,
)


def class_of(root: Root) -> type | None:
    """Return the class of the user's that a value is an instance of, if it is known."""
    match root:
        case Fresh(_, kind) | Input(kind):
            return kind if is_users_class(kind) else None
        case Known(obj=obj) if is_instance_of_users(obj):
            return type(obj)
    return None


def typed(kind: Any) -> Root:
    """Return the part of an input that has an annotation."""
    if is_scalar_type(kind):
        return Plain(kind)
    if getattr(kind, "_is_protocol", False):  # says what there is, not what it does
        return Input()
    if get_origin(kind) in (typing.Union, types.UnionType) and all(
        is_scalar_type(each) for each in get_args(kind)
    ):
        return Plain()
    return Input(kind)


def element_type(kind: Any) -> Any:
    """Return the annotated type of the elements of a container, or None.

    >>> element_type(list[int]), element_type(tuple[int, str]) is None
    (<class 'int'>, True)
    """
    args = [arg for arg in get_args(kind) if arg is not Ellipsis]
    if get_origin(kind) in (list, set, frozenset, tuple, collections.abc.Sequence):
        return args[0] if len(set(args)) == 1 else None
    return None
