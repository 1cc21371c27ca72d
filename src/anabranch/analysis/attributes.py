"""What an attribute of a value gives, and what reading it runs."""

from __future__ import annotations

import ast
import types
from typing import Any, NamedTuple

from anabranch.analysis.effects import Frame, shown
from anabranch.analysis.elements import Elements, class_of, typed
from anabranch.analysis.known import (
    CHANGING_METHODS,
    PURE_METHODS,
    TEXT_METHODS,
)
from anabranch.analysis.objects import (
    CONTAINERS,
    MISSING,
    class_attribute,
    field_names,
    function_in,
    instance_attribute,
    is_frozen_instance,
    is_instance_of_users,
    is_users_class,
    is_users_code,
    is_users_module,
)
from anabranch.analysis.universe import subclasses
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


class Entry(NamedTuple):
    """What a class has under a name, as it stands there."""

    raw: Any
    cls: type
    name: str

    @property
    def text(self) -> str:
        """How it is called in explanations."""
        return f"{self.cls.__name__}.{self.name}"


class Attributes(Elements):
    """The part of the interpreter that reads attributes."""

    # -- objects that exist already

    # -- elements

    def attribute(self, value: Value, name: str, node: ast.AST, frame: Frame) -> Value:
        """Return what an attribute of a value may be, running properties."""
        return join(self._attribute(root, name, node, frame) for root in value)

    def _attribute(self, root: Root, name: str, node: ast.AST, frame: Frame) -> Value:
        if name.startswith("__") and name.endswith("__") and name not in _METHODS:
            return self._attribute_of_any(name, node, frame)
        match root:
            case Fresh() | Input() | Shared():
                return self._attribute_of_value(root, name, node, frame)
            case Known():
                return self._attribute_of_existing(root, name, node, frame)
            case Plain():
                known = name in _METHODS or name in TEXT_METHODS
                return PLAIN.union([Method(root, name)] if known else [])
            case Lost():
                return LOST
        return self.unknown(f"{shown(node)} is an attribute of a function", node, frame)

    def _attribute_of_any(self, name: str, node: ast.AST, frame: Frame) -> Value:
        if name == "__class__":
            return frozenset([Shared("a class")])
        if name in ("__name__", "__qualname__", "__doc__"):
            return PLAIN
        return self.unknown(f"{shown(node)} reaches into an object", node, frame)

    def _attribute_of_value(
        self, root: Fresh | Input | Shared, name: str, node: ast.AST, frame: Frame
    ) -> Value:
        held = self._field(root, name)
        cls = class_of(root)
        if cls is not None:
            if name in (field_names(cls) or ()):
                return held
            raw = class_attribute(cls, name)
            entry = Entry(raw, cls, name)
            others = self._overriding(root, entry, node, frame)
            if raw is not MISSING:
                own = (
                    self.heap.get(root.site, name)
                    if isinstance(root, Fresh)
                    else NOTHING
                )
                given = self.unwrapped(entry, root, node, frame)
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
        self, root: Root, entry: Entry, node: ast.AST, frame: Frame
    ) -> Value:
        """Return what subclasses, of which an input may be an instance, have instead."""
        if not isinstance(root, Input):
            return NOTHING
        found = [NOTHING]
        for each in subclasses(entry.cls):
            other = class_attribute(each, entry.name)
            if other is not entry.raw and other is not MISSING:
                theirs = Entry(other, each, entry.name)
                found.append(self.unwrapped(theirs, root, node, frame))
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
        self, root: Known, name: str, node: ast.AST, frame: Frame
    ) -> Value:
        obj = root.obj
        if isinstance(obj, types.ModuleType):
            return self._attribute_of_module(obj, name, node, frame)
        if isinstance(obj, type):
            raw = class_attribute(obj, name)
            if raw is MISSING:
                return frozenset([Method(root, name)])
            return self.unwrapped(Entry(raw, obj, name), None, node, frame)
        if isinstance(obj, types.FunctionType) and name in vars(obj):
            return self._held(root, name, vars(obj)[name], node, frame)
        if is_instance_of_users(obj):
            return self._attribute_of_instance(root, name, node, frame)
        return frozenset([Method(root, name)])

    def _attribute_of_instance(
        self, root: Known, name: str, node: ast.AST, frame: Frame
    ) -> Value:
        cls = type(root.obj)
        raw = class_attribute(cls, name)
        own = instance_attribute(root.obj, name)
        if own is not MISSING and not isinstance(raw, property):
            return self._held(root, name, own, node, frame)
        if raw is not MISSING:
            return self.unwrapped(Entry(raw, cls, name), root, node, frame)
        if self._candidates(root, "__getattr__"):
            args = Arguments([PLAIN])
            return self.run_special(root, ("__getattr__",), node, frame, args)
        return self.unknown(f"{shown(node)} is not an attribute yet", node, frame)

    def _held(
        self, root: Known, name: str, held: Any, node: ast.AST, frame: Frame
    ) -> Value:
        """Return what an existing object has as an attribute of its own."""
        if not is_frozen_instance(root.obj):
            self.found.read(name, None, held, self.at(node, frame))
        return self.existing(held, f"{root.text}.{name}", node, frame)

    def _attribute_of_module(
        self, module: types.ModuleType, name: str, node: ast.AST, frame: Frame
    ) -> Value:
        names = vars(module)
        if name not in names:
            return self.unknown(f"{shown(node)} is not in its module", node, frame)
        if is_users_module(module.__name__):
            self.found.read(name, names, names[name], self.at(node, frame))
        return self.existing(names[name], shown(node), node, frame)

    def unwrapped(  # noqa: PLR0911 - one return for each kind of entry
        self, entry: Entry, owner: Root | None, node: ast.AST, frame: Frame
    ) -> Value:
        """Return what an entry of a class gives when it is read through `owner`."""
        raw, cls, name = entry
        target = owner if owner is not None else Known(cls, cls.__name__)
        match raw:
            case types.FunctionType() | classmethod() if name in _NAMED_TUPLE_METHODS:
                return frozenset([Method(target, name)])
            case staticmethod():
                return self.existing(raw.__func__, entry.text, node, frame)
            case classmethod() if isinstance(raw.__func__, types.FunctionType):
                return frozenset([Bound(Known(cls, cls.__name__), raw.__func__)])
            case types.FunctionType() if owner and is_users_code(raw.__code__):
                return frozenset([Bound(owner, raw)])
            case property() if owner and isinstance(raw.fget, types.FunctionType):
                callee: Value = frozenset([Bound(owner, raw.fget)])
                return self.call(callee, Arguments(), node, frame)
            case property() | types.FunctionType():
                return frozenset([Known(raw, entry.text)])
        return self._plain_entry(entry, owner, node, frame)

    def _plain_entry(
        self, entry: Entry, owner: Root | None, node: ast.AST, frame: Frame
    ) -> Value:
        """Return what an entry gives that is neither a function nor a property."""
        raw, cls, name = entry
        if is_users_class(type(raw)) and hasattr(type(raw), "__get__"):
            return self.unknown(f"{shown(node)} runs a descriptor", node, frame)
        if isinstance(raw, types.MemberDescriptorType) and owner is not None:
            is_made = isinstance(owner, Fresh | Input)
            return self._field(owner, name) if is_made else LOST  # type: ignore[arg-type]
        if isinstance(raw, types.DynamicClassAttribute):  # name and value of an enum
            return PLAIN
        if owner is None and isinstance(raw, _UNBOUND_METHODS):
            return frozenset([Known(raw, entry.text)])
        if not is_users_class(cls) or isinstance(raw, _BUILTIN_METHODS):
            target = owner if owner is not None else Known(cls, cls.__name__)
            return frozenset([Method(target, name)])
        self.found.read(name, None, raw, self.at(node, frame))
        return self.existing(raw, f"the class attribute {entry.text}", node, frame)


_NAMED_TUPLE_METHODS = ("_replace", "_asdict", "_make")
_UNBOUND_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType)
_BUILTIN_METHODS = (
    *_UNBOUND_METHODS,
    types.BuiltinFunctionType,
    types.ClassMethodDescriptorType,
)
