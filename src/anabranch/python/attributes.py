"""What an attribute of a value gives, what reading it runs, and what writing to it does."""

from __future__ import annotations

import ast
import collections
import enum
import fractions
import functools
import types
from typing import Any, NamedTuple, get_origin

import numpy as np

from anabranch.graph.site import is_users_module
from anabranch.graph.types import fields_of
from anabranch.python.caches import used_up
from anabranch.python.classes import class_of, classes_of, typed
from anabranch.python.elements import Identity
from anabranch.python.known import (
    CHANGING_METHODS,
    PURE_METHODS,
    TEXT_METHODS,
    is_reflective,
    why_impure_module,
)
from anabranch.python.objects import (
    CALLABLES,
    CONTAINERS,
    MISSING,
    class_attribute,
    comes_before_fields,
    field_names,
    function_in,
    instance_attribute,
    is_frozen_instance,
    is_instance_of_users,
    is_scalar,
    is_users_class,
    is_users_code,
    is_users_descriptor,
)
from anabranch.python.packages import ELEMENT, facts_about, implementations
from anabranch.python.values import (
    ANY_NAME,
    CHANGES_INPUT,
    ELEMENTS,
    LOST,
    NOTHING,
    PLAIN,
    Arguments,
    Bound,
    Frame,
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
    shown,
)

_WITHOUT_FIELDS = (list, dict, set, frozenset, tuple, bytearray)
_TEXTS_OF_XML = ("tag", "text", "tail")
_NAMED_TUPLE_METHODS = ("_replace", "_asdict", "_make")
_UNBOUND_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType)
_BUILTIN_METHODS = (
    *_UNBOUND_METHODS,
    types.BuiltinFunctionType,
    types.ClassMethodDescriptorType,
)


class Entry(NamedTuple):
    """What a class has under a name, as it stands there."""

    raw: Any
    cls: type
    name: str

    @property
    def text(self) -> str:
        """How it is called in explanations."""
        return f"{self.cls.__name__}.{self.name}"


class Entries(Identity):
    """The part of the interpreter that reads entries of classes, and fields."""

    def field(  # noqa: PLR0911 - one return for each kind of value
        self, root: Fresh | Input | Shared, name: str
    ) -> Value:
        match root:
            case Fresh(_, kind) if kind in (np.ndarray, collections.ChainMap):
                return frozenset([root])  # .T, .real, .maps and so on
            case Fresh(_, kind) if kind in CONTAINERS:
                return PLAIN
            case Fresh(site, kind) if kind is ELEMENT and name in _TEXTS_OF_XML:
                return self.heap.get(site, name) | PLAIN
            case Fresh(site):
                return self.heap.get(site, name) | self.heap.get(site, ELEMENTS)
            case Input(kind):
                if (get_origin(kind) or kind) in _WITHOUT_FIELDS:
                    return PLAIN
                fields = fields_of(kind) or {}
                return frozenset([typed(fields.get(name), self.universe)])
        return frozenset([root])

    def unwrapped(  # noqa: PLR0911 - one return for each kind of entry
        self, entry: Entry, owner: Root | None, node: ast.AST, frame: Frame
    ) -> Value:
        """Return what an entry of a class gives when it is read through `owner`."""
        raw, cls, name = entry
        target = owner if owner is not None else Known(cls, cls.__name__)
        match raw:
            case types.FunctionType() | classmethod() if (
                name in _NAMED_TUPLE_METHODS and not _is_users(raw)
            ):
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
            case functools.cached_property(func=types.FunctionType() as f) if owner:
                callee = frozenset([Bound(owner, f)])
                made = self.call(callee, Arguments(), node, frame)
                if not isinstance(owner, Fresh) and used_up(self.reachable(made)):
                    return self.unknown(f"{entry.text} keeps an iterator", node, frame)
                return made if isinstance(owner, Fresh) else self._kept(made, entry)
            case property() | types.FunctionType():
                return frozenset([Known(raw, entry.text)])
        return self._plain_entry(entry, owner, node, frame)

    def _of_member(
        self, entry: Entry, owner: Root | None, node: ast.AST, frame: Frame
    ) -> Value:
        """Return the name, the value or a property of some member of an enum."""
        raw, cls, name = entry
        if owner is not None and _is_users(raw):
            callee: Value = frozenset([Bound(owner, function_in(raw))])
            return self.call(callee, Arguments(), node, frame)
        if name != "value" or not issubclass(cls, enum.Enum):
            return PLAIN
        known = isinstance(owner, Known) and isinstance(owner.obj, cls)
        members = [owner.obj] if known else cls._member_map_.values()  # type: ignore[union-attr]
        text = f"the value of a member of {cls.__name__}"
        values = [vars(each)["_value_"] for each in members]
        return join(self.existing(each, text, node, frame) for each in values)

    def _kept(self, made: Value, entry: Entry) -> Value:
        """Return what was made once and then stays with an object that is not ours."""
        return frozenset(
            Shared(f"the cached {entry.text}") if isinstance(root, Fresh) else root
            for root in made
        )

    def _plain_entry(  # noqa: PLR0911 - one return for each kind
        self, entry: Entry, owner: Root | None, node: ast.AST, frame: Frame
    ) -> Value:
        """Return what an entry gives that is neither a function nor a property."""
        raw, cls, name = entry
        if is_users_class(type(raw)) and hasattr(type(raw), "__get__"):
            return self._run_getter(entry, owner, node, frame)
        if isinstance(raw, functools.singledispatchmethod):
            return self._methods_by_type(entry, owner, node, frame)
        if isinstance(raw, types.MemberDescriptorType) and owner is not None:
            is_made = isinstance(owner, Fresh | Input)
            return self.field(owner, name) if is_made else LOST  # type: ignore[arg-type]
        if isinstance(raw, types.DynamicClassAttribute):
            return self._of_member(entry, owner, node, frame)
        if owner is None and isinstance(raw, _UNBOUND_METHODS):
            return frozenset([Known(raw, entry.text)])
        if is_scalar(raw) and not is_users_class(cls):
            return frozenset([Plain(type(raw))])
        if not is_users_class(cls) or isinstance(raw, _BUILTIN_METHODS):
            target = owner if owner is not None else Known(cls, cls.__name__)
            return frozenset([Method(target, name)])
        self.found.read(name, None, raw, self.at(node, frame))
        return self.existing(raw, f"the class attribute {entry.text}", node, frame)

    def _run_getter(
        self, entry: Entry, owner: Root | None, node: ast.AST, frame: Frame
    ) -> Value:
        """Run the `__get__` of a descriptor of the user's."""
        getter = class_attribute(type(entry.raw), "__get__")
        if not isinstance(getter, types.FunctionType):
            return self.unknown(f"{shown(node)} runs a descriptor", node, frame)
        self.found.read(entry.name, None, entry.raw, self.at(node, frame))
        descriptor = Known(entry.raw, f"the descriptor {entry.text}")
        callee: Value = frozenset([Bound(descriptor, getter)])
        target: Value = frozenset([Plain(type(None)) if owner is None else owner])
        cls: Value = frozenset([Known(entry.cls, entry.cls.__name__)])
        return self.call(callee, Arguments([target, cls]), node, frame)

    def _methods_by_type(
        self, entry: Entry, owner: Root | None, node: ast.AST, frame: Frame
    ) -> Value:
        """Return the implementations that a `singledispatchmethod` chooses from."""
        cases = entry.raw.dispatcher.registry
        plain = all(type(each) is type for each in cases)
        if owner is None or not plain or not all(map(_is_users, cases.values())):
            text = f"{shown(node)} chooses a method by type"
            return self.unknown(text, node, frame)
        self.found.touch(entry.text, entry.raw, self.at(node, frame))
        return frozenset(Bound(owner, function_in(each)) for each in cases.values())


def _is_users(raw: Any) -> bool:
    """Tell whether an entry of a class is a method or property that the user wrote."""
    function = function_in(raw)
    return isinstance(function, types.FunctionType) and is_users_code(function.__code__)


_METHODS = PURE_METHODS | CHANGING_METHODS


class Attributes(Entries):
    """The part of the interpreter that reads attributes."""

    # -- objects that exist already

    # -- elements

    def attribute(self, value: Value, name: str, node: ast.AST, frame: Frame) -> Value:
        """Return what an attribute of a value may be, running properties."""
        return join(self._attribute(root, name, node, frame) for root in value)

    def _attribute(self, root: Root, name: str, node: ast.AST, frame: Frame) -> Value:
        into = name == "__dict__" and not isinstance(root, Plain | Lost)
        dunder = name.startswith("__") and name.endswith("__")
        if into or (dunder and name not in _METHODS):
            return self._attribute_of_any(root, name, node, frame)
        match root:
            case Fresh() | Input() | Shared():
                return self._attribute_of_value(root, name, node, frame)
            case Known():
                return self._attribute_of_existing(root, name, node, frame)
            case Plain():
                known = name in _METHODS or name in TEXT_METHODS
                return PLAIN.union([Method(root, name)] if known else [])
            case Lost():
                return frozenset([root])
        return self.unknown(f"{shown(node)} is an attribute of a function", node, frame)

    def _attribute_of_any(
        self, root: Root, name: str, node: ast.AST, frame: Frame
    ) -> Value:
        if name == "__class__":
            return frozenset([Shared("a class")])
        if name in ("__name__", "__qualname__", "__doc__"):
            return PLAIN
        if name == "__dict__" and isinstance(root, Fresh | Input):
            return self.variables_of(frozenset([root]), node, frame)
        text = f"{shown(node)} reaches into an object"
        if name == "__dict__" or isinstance(root, Input | Fresh | Plain):
            self.found.rebind(ANY_NAME, None, self.at(node, frame))
            return self.unknown_package(text, frozenset([root]), node, frame)
        return self.unknown_code(text, node, frame)

    def variables_of(self, value: Value, node: ast.AST, frame: Frame) -> Value:
        """Return the attributes of objects as a dictionary that is a part of them."""
        found: set[Root] = set()
        for root in value:
            match root:
                case Fresh(site, kind) if is_users_class(kind):
                    self.heap.put(site, ELEMENTS, self.heap.inside(site))
                    found.add(Fresh(site, dict))  # the same object, seen as a table
                case Input():
                    found.add(Input(dict))
                case _:
                    self.found.rebind(ANY_NAME, None, self.at(node, frame))
                    text = f"{shown(node)} reaches into an object"
                    found |= self.unknown_package(text, frozenset([root]), node, frame)
        return frozenset(found)

    def _attribute_of_value(
        self, root: Fresh | Input | Shared, name: str, node: ast.AST, frame: Frame
    ) -> Value:
        held = self.field(root, name)
        cls = class_of(root)
        if cls is not None:
            raw = class_attribute(cls, name)
            entry = Entry(raw, cls, name)
            others = self._overriding(root, entry, node, frame)
            others |= self._run_getattribute(root, node, frame)
            if name in (field_names(cls) or ()) and not is_users_descriptor(raw):
                return held | others
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
        if classes_of(root, self.universe) is not None:
            return self._attribute_of_library(root, name, held, node, frame)
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

    def _attribute_of_library(
        self,
        root: Fresh | Input | Shared,
        name: str,
        held: Value,
        node: ast.AST,
        frame: Frame,
    ) -> Value:
        """Return an attribute of a value that is no instance of the user's, or may be.

        It may be where the annotation is a base, as `dict`, of a class of the user's.
        """
        ran = [held]
        for cls in classes_of(root, self.universe) or ():
            raw = class_attribute(cls, name)
            if name in (field_names(cls) or ()) and not is_users_descriptor(raw):
                kind = (fields_of(cls) or {}).get(name)
                ran.append(frozenset([typed(kind, self.universe)]))
            elif is_users_class(cls) and raw is not MISSING:
                ran.append(self.unwrapped(Entry(raw, cls, name), root, node, frame))
        hooks = ("__getattr__", "__getattribute__")
        ran.append(self.run_special(root, hooks, node, frame, Arguments([PLAIN])))
        facts = facts_about(root)
        known = name in _METHODS or (facts is not None and facts.knows(name))
        return join(ran).union([Method(root, name)] if known else [])

    def _run_getattribute(self, root: Root, node: ast.AST, frame: Frame) -> Value:
        """Run the hook that comes before any other way to read an attribute."""
        args = Arguments([PLAIN])
        return self.run_special(root, ("__getattribute__",), node, frame, args)

    def _overriding(
        self, root: Root, entry: Entry, node: ast.AST, frame: Frame
    ) -> Value:
        """Return what subclasses, of which an input may be an instance, have instead."""
        if not isinstance(root, Input):
            return NOTHING
        found = [NOTHING]
        for each in self.universe.subclasses_of(entry.cls):
            other = class_attribute(each, entry.name)
            if other is entry.raw or other is MISSING:
                continue
            if is_users_descriptor(other) or entry.name not in (
                field_names(each) or ()
            ):
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
        # A number or text among other values has no method that changes it.
        facts = filter(None, map(facts_about, value))
        changes = name in CHANGING_METHODS or any(each.knows(name) for each in facts)
        may_fail = changes and not all(isinstance(root, Plain) for root in value)
        found = self.attribute(value, name, node, frame).union(
            Method(root, name) for root in value if self._has_methods(root)
        )
        if may_fail:
            found -= {Method(root, name) for root in value if isinstance(root, Plain)}
        has_method = any(
            (isinstance(r, Method) and r.name == name)
            or (isinstance(r, Bound) and r.owner in value)
            for r in found
        )
        if not has_method or self.universe.has_field(name):
            return found
        fields = (Input, Fresh, Shared, Plain)
        return frozenset(r for r in found if not isinstance(r, fields))

    def _has_methods(self, root: Root) -> bool:
        """Tell whether a value has none but the methods of a type of Python's."""
        match root:
            case Plain(kind):
                return kind is not type(None)
            case Fresh() | Input():
                classes = classes_of(root, self.universe)
                return classes is not None and not any(map(is_users_class, classes))
        return False

    def _is_property(self, name: str, function: types.FunctionType) -> bool:
        raws = (vars(cls).get(name) for cls in self.universe.classes)
        return any(raw is not function and function_in(raw) is function for raw in raws)

    def _attribute_of_existing(  # noqa: PLR0911 - one return for each kind
        self, root: Known, name: str, node: ast.AST, frame: Frame
    ) -> Value:
        obj = root.obj
        if isinstance(obj, types.ModuleType):
            return self._attribute_of_module(obj, name, node, frame)
        if isinstance(obj, type):
            raw = class_attribute(obj, name)
            if self._metaclass_decides(obj, name, found=raw is not MISSING):
                return self.unknown(f"{shown(node)} runs a metaclass", node, frame)
            if raw is MISSING:
                return frozenset([Method(root, name)])
            return self.unwrapped(Entry(raw, obj, name), None, node, frame)
        if isinstance(obj, types.FunctionType) and name in vars(obj):
            if name == "register" and implementations(obj) is not None:
                text = f"{shown(node)} changes {root.text}"
                self.found.change(obj, text, self.at(node, frame))
            return self._held(root, name, vars(obj)[name], node, frame)
        if is_instance_of_users(obj):
            return self._attribute_of_instance(root, name, node, frame)
        return frozenset([Method(root, name)])

    def _metaclass_decides(self, cls: type, name: str, *, found: bool) -> bool:
        meta = type(cls)
        if not is_users_class(meta):
            return False
        raw = class_attribute(meta, name)
        hooks = ("__getattribute__",) if found else ("__getattribute__", "__getattr__")
        runs = any(self.candidates(Known(cls, cls.__name__), hook) for hook in hooks)
        return runs or (raw is not MISSING and not found) or hasattr(raw, "__set__")

    def _attribute_of_instance(
        self, root: Known, name: str, node: ast.AST, frame: Frame
    ) -> Value:
        cls = type(root.obj)
        raw = class_attribute(cls, name)
        own = instance_attribute(root.obj, name)
        hooked = self._run_getattribute(root, node, frame)
        if own is not MISSING and not comes_before_fields(raw):
            return hooked | self._held(root, name, own, node, frame)
        if raw is not MISSING:
            return hooked | self.unwrapped(Entry(raw, cls, name), root, node, frame)
        if self.candidates(root, "__getattr__"):
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
        if is_users_class(type(module)):  # it may have properties and hooks
            return self.unknown(f"{shown(node)} runs code of a module", node, frame)
        names = vars(module)
        is_users = is_users_module(module.__name__)
        found = names.get(name, MISSING)
        if found is MISSING and not is_users:  # a package may load its parts late
            found = getattr(module, name, MISSING)
        if found is MISSING:
            return self.unknown(f"{shown(node)} is not in its module", node, frame)
        if is_users:
            self.found.read(name, names, found, self.at(node, frame))
        elif isinstance(found, CONTAINERS) and (why := why_impure_module(module)):
            self.found.effect("impure", f"{shown(node)} {why}", self.at(node, frame))
            if is_reflective(module):
                return LOST  # it holds what others know by another name
        return self.existing(found, shown(node), node, frame)


class Changes(Attributes):
    """The part of the interpreter that writes to values."""

    def change(
        self,
        value: Value,
        stored: Value,
        node: ast.AST,
        frame: Frame,
        *,
        name: str = ELEMENTS,
    ) -> None:
        """Put `stored` into a value, under an attribute or as an element."""
        for root in value:
            self._change(root, stored, node, frame, name)

    def _change(  # noqa: C901 - one case for each kind of value
        self, root: Root, stored: Value, node: ast.AST, frame: Frame, name: str
    ) -> None:
        what = shown(node)
        if name != ELEMENTS and not isinstance(root, Fresh | Plain):
            self.found.rebind(name, None, self.at(node, frame))
        match root:
            case Plain(kind) if is_users_class(kind):  # a member of an enum
                text = f"{what} changes a member of {kind.__name__}"  # type: ignore[union-attr]
                self.found.effect("changes", text, self.at(node, frame))
            case Plain(kind) if _has_attributes(kind, name):
                text = f"{what} changes an object that is taken for a value"
                self.found.effect("changes", text, self.at(node, frame))
            case Lost(made=False):
                at = self.at(node, frame)
                self.found.writes_anything = self.found.writes_anything or at
            case Plain() | Lost():
                return
            case Fresh(site, kind):
                self.changed_sites.add(site)
                if kind is collections.ChainMap:  # the first of its maps is written to
                    self.change(self.heap.inside(site), stored, node, frame)
                self.heap.put(site, name, stored)
            case Input():
                at = self.at(node, frame)
                self.found.effect("changes", f"{what} {CHANGES_INPUT}", at)
            case Known(obj=obj, text=text, variable=variable):
                at = self.at(node, frame)
                self.found.change(obj, f"{what} changes {text}", at, variable)
            case Shared(text, target):
                self.found.change_inside(
                    target, f"{what} changes {text}", self.at(node, frame)
                )
            case _:
                self.escape(frozenset([root]), node, frame)
                text = f"{what} changes something that outlives the call"
                self.found.effect("changes", text, self.at(node, frame))

    def assign_attribute(
        self, value: Value, name: str, stored: Value, node: ast.AST, frame: Frame
    ) -> None:
        """Do `value.name = stored`, running setters and `__setattr__`."""
        for root in value:
            cls = class_of(root)
            raw = MISSING if cls is None else class_attribute(cls, name)
            if isinstance(raw, property):
                setter: Value = self.existing(
                    raw.fset, f"the setter {name}", node, frame
                )
                args = Arguments([frozenset([root]), stored])
                self.call(setter, args, node, frame)
                deleter: Value = self.existing(
                    raw.fdel, f"the deleter {name}", node, frame
                )
                if not stored:
                    args = Arguments([frozenset([root])])
                    self.call(deleter, args, node, frame)
            elif (
                raw is not MISSING
                and hasattr(type(raw), "__set__")
                and type(raw).__name__ not in ("member_descriptor", "_tuplegetter")
            ):
                self._run_setter(raw, root, stored, node, frame)
            else:
                self._change(root, stored, node, frame, name)
            args = Arguments([PLAIN, stored])
            self.run_special(root, ("__setattr__",), node, frame, args)
            if not stored:  # it is deleted
                args = Arguments([PLAIN])
                self.run_special(root, ("__delattr__",), node, frame, args)

    def _run_setter(
        self, raw: Any, root: Root, stored: Value, node: ast.AST, frame: Frame
    ) -> None:
        """Run the `__set__` of a descriptor, or its `__delete__`."""
        function = class_attribute(type(raw), "__set__" if stored else "__delete__")
        if not is_users_class(type(raw)) or not isinstance(
            function, types.FunctionType
        ):
            self.unknown(f"{shown(node)} runs a descriptor", node, frame)
            return
        self.found.touch("a descriptor", raw, self.at(node, frame))
        callee: Value = frozenset([Bound(Known(raw, "a descriptor"), function)])
        given = [frozenset([root]), stored] if stored else [frozenset([root])]
        self.call(callee, Arguments(given), node, frame)

    def assign_element(
        self, value: Value, stored: Value, node: ast.AST, frame: Frame
    ) -> None:
        """Do `value[...] = stored`, or delete it."""
        for root in value:
            args = Arguments(rest=stored | PLAIN)
            names = ("__setitem__", "__delitem__")
            self.run_special(root, names, node, frame, args)
            if class_of(root) is None or not isinstance(root, Fresh):
                self._change(root, stored, node, frame, ELEMENTS)

    def change_in_place(
        self, value: Value, other: Value, node: ast.AST, frame: Frame
    ) -> Value:
        """Do `value += other`; immutable values give a new one instead."""
        results: list[Root] = []
        for root in value:
            self.run_special(root, IN_PLACE, node, frame, Arguments(rest=other | PLAIN))
            if isinstance(root, Known) and isinstance(root.obj, CALLABLES):
                continue
            if not isinstance(root, Plain):
                stored = self.inside(other) | other
                self._change(root, stored, node, frame, ELEMENTS)
                results.append(root)
        return frozenset(results) or NOTHING


def _has_attributes(kind: type | None, name: str) -> bool:
    """Tell whether an attribute of an immutable value can be assigned all the same."""
    own: dict[type, tuple[str, ...]] = {
        fractions.Fraction: ("_numerator", "_denominator"),
        np.dtype: ("names", "metadata"),
    }
    return any(name in own[each] for each in own if kind in (None, each))


IN_PLACE = tuple(
    f"__{prefix}{name}__"
    for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
        *("and", "or", "xor", "lshift", "rshift"),
    )
    for prefix in ("i", "", "r")
)
