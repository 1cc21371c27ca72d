"""Attributes of values: what reading one gives and runs, and what writing one does."""

from __future__ import annotations

import collections
import dataclasses
import enum
import fractions
import functools
import types
from abc import ABCMeta
from typing import Any, Final, NamedTuple, get_origin

import numpy as np

from anabranch.graph.site import is_users_module
from anabranch.graph.types import fields_of
from anabranch.operators.custom import Operator
from anabranch.python.classes import class_of, classes_of, is_used_up, part_of_type
from anabranch.python.implicit import IMPLICIT
from anabranch.python.known import (
    CHANGING_METHODS,
    ELEMENT,
    PURE_METHODS,
    VALUE_METHODS,
    facts_about,
    implementations,
    is_reflective,
    why_impure_module,
)
from anabranch.python.objects import (
    CALLABLES,
    CONTAINERS,
    MISSING,
    NAMESPACES,
    PLACES,
    class_attribute,
    comes_before_fields,
    field_names,
    function_in,
    instance_attribute,
    is_frozen_instance,
    is_instance_of_users,
    is_scalar,
    is_scalar_type,
    is_table_type,
    is_users_class,
    is_users_code,
    is_users_descriptor,
    is_users_method,
    makes_instances,
)
from anabranch.python.reach import (
    escape,
    find_candidates,
    find_reachable,
    list_elements,
    look_inside,
    note_unknown,
    note_unknown_code,
    note_unknown_package,
    read_existing,
    run_special,
)
from anabranch.python.values import (
    A_CLASS,
    ANY_NAME,
    CHANGES_INPUT,
    ELEMENTS,
    LOST,
    NOTHING,
    PLAIN,
    AbstractInterpreter,
    Arguments,
    BoundMethod,
    Existing,
    Fresh,
    Here,
    InputPart,
    LibraryObject,
    Lost,
    Method,
    Parent,
    Plain,
    Root,
    SharedPart,
    Value,
    join,
)

_WITHOUT_FIELDS = (list, dict, set, frozenset, tuple, bytearray)
# all attributes of an object at once
_REPLACING = ("__class__", "__bases__", "__dict__")
_TEXTS_OF_XML = ("tag", "text", "tail")
_NAMED_TUPLE_METHODS = ("_replace", "_asdict", "_make")
_UNBOUND_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType)
_BUILTIN_METHODS = (
    *_UNBOUND_METHODS,
    types.BuiltinFunctionType,
    types.ClassMethodDescriptorType,
)


class Entry(NamedTuple):
    """The raw entry of a class under a name."""

    raw: Any
    cls: type
    name: str

    @property
    def text(self) -> str:
        """Its name in explanations."""
        return f"{self.cls.__name__}.{self.name}"


_PLACES_OF_TABLES = ("loc", "iloc", "at", "iat")


def _may_share(run: AbstractInterpreter, root: Root) -> bool:
    """Tell whether a table made of a value may share its memory."""
    classes = classes_of(root, run.universe)
    return classes is None or any(
        each in (np.ndarray, LibraryObject) or is_table_type(each) for each in classes
    )


def read_field(  # noqa: PLR0911 - one return for each kind of value
    run: AbstractInterpreter, root: Fresh | InputPart | SharedPart, name: str
) -> Value:
    match root:
        case Fresh(_, kind) if kind in (np.ndarray, collections.ChainMap):
            return frozenset([root])  # .T, .real, .maps and so on
        case Fresh(_, type() as kind) if name in _PLACES_OF_TABLES and is_table_type(
            kind
        ):
            held = run.heap.get(root.site, ELEMENTS)
            return frozenset(r for r in held if _may_share(run, r)) | {root}
        case Fresh(_, kind) if kind in CONTAINERS:
            return PLAIN
        case Fresh(_, kind) if kind is dataclasses.Field and name == "name":
            return PLAIN
        case Fresh(site, kind) if kind is ELEMENT and name in _TEXTS_OF_XML:
            return run.heap.get(site, name) | PLAIN
        case Fresh(site):
            return run.heap.get(site, name) | run.heap.get(site, ELEMENTS)
        case InputPart(kind):
            if (get_origin(kind) or kind) in _WITHOUT_FIELDS:
                return PLAIN
            fields = fields_of(kind) or {}
            return frozenset([part_of_type(fields.get(name), run.universe)])
        case SharedPart(text) if text == A_CLASS:
            return frozenset([SharedPart(f"an attribute of {text}")])
    return frozenset([root])


def unwrap(  # noqa: C901, PLR0911 - one return for each kind of entry
    run: AbstractInterpreter, entry: Entry, owner: Root | None, here: Here
) -> Value:
    """Return the value of an entry of a class, read through `owner`."""
    raw, cls, name = entry
    target = owner if owner is not None else Existing(cls, cls.__name__)
    if is_users_class(cls):  # another operator may assign it
        run.found.read(name, None, raw, here.place)
    if _has_own_getter(raw):
        return _run_getter(run, entry, owner, here)
    match raw:
        case types.FunctionType() | classmethod() if (
            name in _NAMED_TUPLE_METHODS and not _is_users(raw)
        ):
            return frozenset([Method(target, name)])
        case staticmethod() if isinstance(raw.__func__, types.BuiltinFunctionType):
            return frozenset([Method(target, name)])  # as str.maketrans
        case staticmethod():
            return read_existing(run, raw.__func__, entry.text, here)
        case classmethod() if isinstance(raw.__func__, types.FunctionType):
            return frozenset([BoundMethod(Existing(cls, cls.__name__), raw.__func__)])
        case types.FunctionType() if owner and is_users_code(raw.__code__):
            return frozenset([BoundMethod(owner, raw)])
        case property() if owner and isinstance(raw.fget, types.FunctionType):
            callee: Value = frozenset([BoundMethod(owner, raw.fget)])
            return run.call(callee, Arguments(), here)
        case functools.cached_property(func=types.FunctionType() as f) if owner:
            callee = frozenset([BoundMethod(owner, f)])
            made = run.call(callee, Arguments(), here)
            if not isinstance(owner, Fresh) and is_used_up(find_reachable(run, made)):
                return note_unknown(run, f"{entry.text} keeps an iterator", here)
            return made if isinstance(owner, Fresh) else _keep(made, entry)
        case _ if owner and _takes_owner(raw, owner):
            run.found.read(name, None, raw, here.place)
            return frozenset([_bind(run, entry, owner, here)])
        case property() | types.FunctionType():
            return frozenset([Existing(raw, entry.text)])
    return _read_entry(run, entry, owner, here)


def _has_own_getter(raw: Any) -> bool:
    """Tell whether the user defined how an entry is read, as in a subclass of
    property.
    """
    kind = type(raw)
    return is_users_class(kind) and isinstance(
        class_attribute(kind, "__get__"), types.FunctionType
    )


def _takes_owner(raw: Any, owner: Root) -> bool:
    """Tell whether what is read is bound to its owner: a cached or a partial method.

    So is a package's method, which may call the user's own ones of the object. What
    Python generates for a class calls no others.
    """
    match raw:
        case types.FunctionType():
            written = not raw.__code__.co_filename.startswith("<")
            return written and class_of(owner) is not None
    return isinstance(raw, functools._lru_cache_wrapper | functools.partialmethod)  # noqa: SLF001 - a type


def _bind(
    run: AbstractInterpreter,
    entry: Entry,
    owner: Root,
    here: Here,
) -> Root:
    """Return a method that takes its owner as the first argument, then given ones."""
    raw, text = entry.raw, entry.text
    bound = Fresh(run.heap.site((here.step, raw)), functools.partial)
    run.heap.put(bound.site, "1", frozenset([owner]))
    if not isinstance(raw, functools.partialmethod):
        run.heap.put(bound.site, "0", frozenset([Existing(raw, text)]))
        return bound
    named = {f"={name}": value for name, value in raw.keywords.items()}
    placed = {str(n): value for n, value in enumerate(raw.args, 2)}
    for place, value in {"0": raw.func, **placed, **named}.items():
        run.heap.put(bound.site, place, read_existing(run, value, text, here))
    return bound


def _read_of_member(
    run: AbstractInterpreter, entry: Entry, owner: Root | None, here: Here
) -> Value:
    """Return the name, the value or a property of an enum member."""
    raw, cls, name = entry
    if owner is not None and _is_users(raw):
        callee: Value = frozenset([BoundMethod(owner, function_in(raw))])
        return run.call(callee, Arguments(), here)
    if name != "value" or not issubclass(cls, enum.Enum):
        return PLAIN
    known = isinstance(owner, Existing) and isinstance(owner.obj, cls)
    members = [owner.obj] if known else cls._member_map_.values()  # type: ignore[union-attr]
    text = f"the value of a member of {cls.__name__}"
    values = [vars(each)["_value_"] for each in members]
    return join(read_existing(run, each, text, here) for each in values)


def _keep(made: Value, entry: Entry) -> Value:
    """Return a value that is created once and kept by an object that outlives the
    call.
    """
    return frozenset(
        SharedPart(f"the cached {entry.text}") if isinstance(root, Fresh) else root
        for root in made
    )


def _read_entry(  # noqa: PLR0911 - one return for each kind
    run: AbstractInterpreter, entry: Entry, owner: Root | None, here: Here
) -> Value:
    """Return the value of an entry that is neither a function nor a property."""
    raw, cls, name = entry
    if is_users_class(type(raw)) and hasattr(type(raw), "__get__"):
        return _run_getter(run, entry, owner, here)
    if isinstance(raw, functools.singledispatchmethod):
        return _choose_by_type(run, entry, owner, here)
    if isinstance(raw, types.MemberDescriptorType) and owner is not None:
        is_made = isinstance(owner, Fresh | InputPart)
        return read_field(run, owner, name) if is_made else LOST  # type: ignore[arg-type]
    if isinstance(raw, types.DynamicClassAttribute):
        return _read_of_member(run, entry, owner, here)
    if owner is None and isinstance(raw, _UNBOUND_METHODS):
        return frozenset([Existing(raw, entry.text)])
    if is_scalar(raw) and not is_users_class(cls):
        return frozenset([Plain(type(raw))])
    if name == "args" and issubclass(cls, BaseException) and isinstance(owner, Fresh):
        given = Fresh(run.heap.site((owner.site, "args")), tuple)
        run.heap.put(given.site, ELEMENTS, run.heap.get(owner.site, ELEMENTS) | PLAIN)
        return run.heap.get(owner.site, name) | {given}
    if not is_users_class(cls) or isinstance(raw, _BUILTIN_METHODS):
        target = owner if owner is not None else Existing(cls, cls.__name__)
        return frozenset([Method(target, name)])
    run.found.read(name, None, raw, here.place)
    return read_existing(run, raw, f"the class attribute {entry.text}", here)


def _run_getter(
    run: AbstractInterpreter, entry: Entry, owner: Root | None, here: Here
) -> Value:
    """Run the `__get__` of a user's descriptor."""
    getter = class_attribute(type(entry.raw), "__get__")
    if not isinstance(getter, types.FunctionType):
        return note_unknown(run, f"{here.text} runs a descriptor", here)
    run.found.read(entry.name, None, entry.raw, here.place)
    descriptor = Existing(entry.raw, f"the descriptor {entry.text}")
    callee: Value = frozenset([BoundMethod(descriptor, getter)])
    target: Value = frozenset([Plain(type(None)) if owner is None else owner])
    cls: Value = frozenset([Existing(entry.cls, entry.cls.__name__)])
    return run.call(callee, Arguments([target, cls]), here)


def _choose_by_type(
    run: AbstractInterpreter, entry: Entry, owner: Root | None, here: Here
) -> Value:
    """Return the implementations that a `singledispatchmethod` may select."""
    cases = entry.raw.dispatcher.registry
    plain = all(type(each) is type for each in cases)
    if owner is None or not plain or not all(map(_is_users, cases.values())):
        text = f"{here.text} chooses a method by type"
        return note_unknown(run, text, here)
    run.found.touch(entry.text, entry.raw, here.place)
    return frozenset(BoundMethod(owner, function_in(each)) for each in cases.values())


def _is_users(raw: Any) -> bool:
    """Tell whether an entry of a class is a method or property written by the user."""
    function = function_in(raw)
    return isinstance(function, types.FunctionType) and is_users_code(function.__code__)


def _takes_arguments(raw: types.WrapperDescriptorType) -> bool:
    """Tell whether a slot is the `__init__` of an exception, which keeps them."""
    return raw.__name__ == "__init__" and raw.__objclass__ is not object


def _is_harmless(raw: Any) -> bool:
    """Tell whether a built-in slot, called through super(), changes nothing but `self`.

    Attribute reads are followed separately from `__getattribute__`, and the value of
    `__hash__` is never part of a result.
    """
    if not isinstance(raw, types.WrapperDescriptorType):
        return False
    if raw.__name__ == "__init__":
        return raw.__objclass__ is object or issubclass(raw.__objclass__, BaseException)
    return raw.__name__ in ("__getattribute__", "__hash__")


_METHODS = PURE_METHODS | CHANGING_METHODS


def read_attribute(
    run: AbstractInterpreter, value: Value, name: str, here: Here
) -> Value:
    """Return the possible values of an attribute, running properties."""
    return join(_read_attribute_of(run, root, name, here) for root in value)


def _read_attribute_of(  # noqa: C901, PLR0911 - one return for each kind of value
    run: AbstractInterpreter, root: Root, name: str, here: Here
) -> Value:
    if isinstance(root, Parent):
        return _read_of_parent(run, root, name, here)
    into = name == "__dict__" and not isinstance(root, Plain | Lost)
    dunder = name.startswith("__") and name.endswith("__")
    if into or (dunder and name not in _METHODS):
        return _read_of_any(run, root, name, here)
    match root:
        case Fresh() | InputPart() | SharedPart():
            return _read_of_value(run, root, name, here)
        case Existing():
            return _read_of_existing(run, root, name, here)
        case Plain(kind) if kind is type(None):
            return NOTHING  # raises AttributeError
        case Plain():
            known = name in _METHODS or name in VALUE_METHODS
            return PLAIN.union([Method(root, name)] if known else [])
        case Lost():
            return frozenset([root])
        case Method(owner) if (facts := facts_about(owner)) and facts.open:
            # not a method but a column: part of its table and like it
            return _read_attribute_of(run, owner, name, here)
        case Method(owner) if _is_of_builtin(run, owner) and not hasattr(
            types.BuiltinMethodType, name
        ):
            return NOTHING  # raises AttributeError
        case BoundMethod(function=function) if not _has_entry(function, name):
            run.found.read(name, None, None, here.place)  # it may be assigned elsewhere
            return NOTHING  # raises AttributeError
    return note_unknown(run, f"{here.text} is an attribute of a function", here)


def _is_of_builtin(run: AbstractInterpreter, owner: Root) -> bool:
    """Tell whether a value has only methods written in C, without attributes."""
    if isinstance(owner, Plain):
        return not is_users_class(owner.type)
    classes = classes_of(owner, run.universe)
    made = isinstance(owner, Fresh | InputPart) and bool(classes)
    return made and all(
        each in CONTAINERS or is_scalar_type(each) for each in classes or ()
    )


def _has_entry(function: types.FunctionType, name: str) -> bool:
    """Tell whether a function, as a method of an object, has an attribute."""
    return name in vars(function) or hasattr(types.MethodType, name)


def _read_of_parent(
    run: AbstractInterpreter, root: Parent, name: str, here: Here
) -> Value:
    """Return the possible values of `super().name` for the classes of `self`."""
    owner, cls = root.owner, root.cls
    kind = class_of(owner)
    if isinstance(owner, Fresh) and isinstance(owner.type, type):
        kind = owner.type
    kinds = [cls, *run.universe.subclasses_of(cls)] if kind is None else [kind]
    return join(
        _inherit(
            run, Entry(class_attribute(each, name, after=cls), each, name), owner, here
        )
        for each in kinds
    )


def _inherit(run: AbstractInterpreter, entry: Entry, owner: Root, here: Here) -> Value:
    raw = entry.raw
    if raw is MISSING:
        return note_unknown(run, f"{here.text} is not defined", here)
    if makes_instances(raw):
        return frozenset([Existing(raw, here.text)])
    if any(raw is each for each in vars(Operator).values()) or (
        _is_harmless(raw) and not (isinstance(owner, Fresh) and _takes_arguments(raw))
    ):
        return frozenset([Existing(Operator.setup, here.text)])
    if isinstance(raw, types.FunctionType) and is_users_code(raw.__code__):
        return frozenset([BoundMethod(owner, raw)])
    if isinstance(raw, types.WrapperDescriptorType):
        return frozenset([Method(owner, entry.name)])
    return unwrap(run, entry, owner, here)


def _read_of_any(  # noqa: PLR0911 - one return for each kind of attribute
    run: AbstractInterpreter, root: Root, name: str, here: Here
) -> Value:
    if name == "__class__":
        return classes_as_values(run, root)
    if name == "__new__" and isinstance(root, Existing):
        made_by = getattr(root.obj, "__new__", None)
        if isinstance(root.obj, type) and makes_instances(made_by):
            return frozenset([Existing(made_by, here.text)])
    if name in ("__name__", "__qualname__", "__doc__"):
        return PLAIN
    if name == "__members__" and type(getattr(root, "obj", None)) is enum.EnumMeta:
        # shown read-only, and as a new object each time
        return read_existing(run, root.obj._member_map_, here.text, here)  # type: ignore[union-attr]
    if name in ("__cause__", "__context__") and isinstance(root, Fresh):
        return run.raised | {root, Plain(type(None))}
    if name == "__dict__" and isinstance(root, Fresh | InputPart):
        return read_variables(run, frozenset([root]), here)
    text = f"{here.text} reaches into an object"
    if name == "__dict__" or isinstance(root, InputPart | Fresh | Plain):
        run.found.rebind(ANY_NAME, None, here.place)
        return note_unknown_package(run, text, frozenset([root]), here)
    return note_unknown_code(run, text, here)


def classes_as_values(run: AbstractInterpreter, root: Root) -> Value:
    """Return the class of an object: one of the user's, if only they are possible."""
    classes = classes_of(root, run.universe)
    if not classes or not all(map(is_users_class, classes)):
        kinds = frozenset([type, *run.universe.subclasses_of(type)])
        return frozenset([SharedPart(A_CLASS, kinds=kinds)])
    return frozenset(Existing(each, each.__name__) for each in classes)


def read_variables(run: AbstractInterpreter, value: Value, here: Here) -> Value:
    """Return the attributes of objects as a dictionary that is part of them."""
    found: set[Root] = set()
    for root in value:
        match root:
            case Fresh(site, kind) if is_users_class(kind) or kind in NAMESPACES:
                run.heap.put(site, ELEMENTS, run.heap.inside(site))
                found.add(Fresh(site, dict))  # the same object, seen as a table
            case InputPart():
                found.add(InputPart(dict))
            case _:
                run.found.rebind(ANY_NAME, None, here.place)
                text = f"{here.text} reaches into an object"
                found |= note_unknown_package(run, text, frozenset([root]), here)
    return frozenset(found)


def _read_of_value(
    run: AbstractInterpreter,
    root: Fresh | InputPart | SharedPart,
    name: str,
    here: Here,
) -> Value:
    held = read_field(run, root, name)
    if isinstance(root, Fresh) and _keeps_arguments(root.type, name):
        return _read_arguments(run, root, name)
    cls = class_of(root)
    if cls is not None:
        raw = class_attribute(cls, name)
        entry = Entry(raw, cls, name)
        others = _read_overriding(run, root, entry, here)
        others |= _run_getattribute(run, root, here)
        if name in (field_names(cls) or ()) and not is_users_descriptor(raw):
            return held | others
        if raw is not MISSING:
            own = run.heap.get(root.site, name) if isinstance(root, Fresh) else NOTHING
            given = unwrap(run, entry, root, here)
            return own | others | given
        args = Arguments([PLAIN])
        return others | held | run_special(run, root, ("__getattr__",), here, args)
    if classes_of(root, run.universe) is not None:
        return _read_of_library(run, root, name, held, here)
    ran = [
        frozenset([BoundMethod(root, function)])
        if not _is_property(run, name, function)
        else run.call(frozenset([BoundMethod(root, function)]), Arguments(), here)
        for function in run.universe.definitions(name)
    ]
    args = Arguments([PLAIN])
    hooks = IMPLICIT["attribute"]
    ran.append(run_special(run, root, hooks, here, args))
    method: Value = frozenset([Method(root, name)] if name in _METHODS else [])
    return held | method | join(ran)


def _keeps_arguments(kind: Any, name: str) -> bool:
    """Tell whether objects of a class show their arguments under a name."""
    if kind is functools.partial:
        return name in ("func", "args", "keywords")
    of_library = isinstance(kind, type) and not is_users_class(kind)
    return of_library and issubclass(kind, BaseException) and name == "args"


def _read_arguments(run: AbstractInterpreter, root: Fresh, name: str) -> Value:
    """Return the arguments that a partial function or an exception was made with."""
    if name == "func":
        return run.heap.get(root.site, "0")
    kind = dict if name == "keywords" else tuple
    given = Fresh(run.heap.site((root.site, name)), kind)
    held = run.heap.fields(root.site)
    inside = join(held[each] for each in held if each != "0")
    run.heap.put(given.site, ELEMENTS, inside | PLAIN)
    return frozenset([given])


def _read_of_library(
    run: AbstractInterpreter,
    root: Fresh | InputPart | SharedPart,
    name: str,
    held: Value,
    here: Here,
) -> Value:
    """Return an attribute of a value that may not be an instance of a user's class.

    It still may be one where the annotation is a base class, such as `dict`.
    """
    classes = classes_of(root, run.universe) or frozenset()
    methods = any(is_users_method(each, name) for each in classes)
    ran = [held] if not methods or run.universe.has_field(name) else []
    for cls in classes:
        raw = class_attribute(cls, name)
        if name in (field_names(cls) or ()) and not is_users_descriptor(raw):
            kind = (fields_of(cls) or {}).get(name)
            ran.append(frozenset([part_of_type(kind, run.universe)]))
        elif is_users_class(cls) and raw is not MISSING:
            ran.append(unwrap(run, Entry(raw, cls, name), root, here))
    hooks = IMPLICIT["attribute"]
    ran.append(run_special(run, root, hooks, here, Arguments([PLAIN])))
    facts = facts_about(root)
    known = name in _METHODS or (facts is not None and facts.knows(name))
    return join(ran).union([Method(root, name)] if known else [])


def _run_getattribute(run: AbstractInterpreter, root: Root, here: Here) -> Value:
    """Run `__getattribute__`, which precedes every other way to read an attribute."""
    args = Arguments([PLAIN])
    return run_special(run, root, ("__getattribute__",), here, args)


def _read_overriding(
    run: AbstractInterpreter, root: Root, entry: Entry, here: Here
) -> Value:
    """Return the attribute's values in the subclasses that an input may belong to."""
    if not isinstance(root, InputPart):
        return NOTHING
    found = [NOTHING]
    for each in run.universe.subclasses_of(entry.cls):
        other = class_attribute(each, entry.name)
        if other is entry.raw or other is MISSING:
            continue
        if is_users_descriptor(other) or entry.name not in (field_names(each) or ()):
            theirs = Entry(other, each, entry.name)
            found.append(unwrap(run, theirs, root, here))
    return join(found)


def read_method(run: AbstractInterpreter, value: Value, name: str, here: Here) -> Value:
    """Return the possible callees of `value.name(...)`.

    For a value of unknown type this is a method, not a function stored in a field,
    unless some class of the program has a field of that name.
    """
    # A number or text among the values has no method that changes it.
    facts = filter(None, map(facts_about, value))
    changes = name in CHANGING_METHODS or any(each.knows(name) for each in facts)
    may_fail = changes and not all(isinstance(root, Plain) for root in value)
    found = read_attribute(run, value, name, here).union(
        Method(root, name) for root in value if _has_methods(run, root)
    )
    if may_fail:
        found -= {Method(root, name) for root in value if isinstance(root, Plain)}
    found -= {Method(root, name) for root in value if _lacks(run, root, name)}
    has_method = any(
        (isinstance(r, Method) and r.name == name)
        or (isinstance(r, BoundMethod) and r.owner in value)
        for r in found
    )
    fields = (InputPart, Fresh, SharedPart, Plain)
    methods = frozenset(r for r in found if not isinstance(r, fields))
    if not has_method or methods == found:
        return found
    stored = any(_may_have_field(run, root, name) for root in value)
    return found if stored else methods


def _may_have_field(run: AbstractInterpreter, root: Root, name: str) -> bool:
    """Tell whether a value may have a field of that name, with a function in it."""
    classes = classes_of(root, run.universe)
    known = classes is not None and not any(map(is_users_class, classes))
    return not known and run.universe.has_field(name)


def _lacks(run: AbstractInterpreter, root: Root, name: str) -> bool:
    """Tell whether a value certainly has no method of a name: calling it fails."""
    if not isinstance(root, Fresh | InputPart):
        return False
    classes = classes_of(root, run.universe)
    return bool(classes) and all(
        (each in CONTAINERS or is_scalar_type(each)) and not hasattr(each, name)
        for each in classes or ()
    )


def _has_methods(run: AbstractInterpreter, root: Root) -> bool:
    """Tell whether a value has only the methods of a built-in type."""
    match root:
        case Plain(kind):
            return kind is not type(None)
        case Fresh() | InputPart():
            classes = classes_of(root, run.universe)
            return classes is not None and not any(map(is_users_class, classes))
    return False


def _is_property(
    run: AbstractInterpreter, name: str, function: types.FunctionType
) -> bool:
    raws = (vars(cls).get(name) for cls in run.universe.classes)
    return any(raw is not function and function_in(raw) is function for raw in raws)


def _read_of_existing(  # noqa: PLR0911 - one return for each kind
    run: AbstractInterpreter, root: Existing, name: str, here: Here
) -> Value:
    obj = root.obj
    if isinstance(obj, types.ModuleType):
        return _read_of_module(run, obj, name, here)
    if isinstance(obj, type):
        raw = class_attribute(obj, name)
        if _does_metaclass_decide(run, obj, name, found=raw is not MISSING):
            return note_unknown(run, f"{here.text} runs a metaclass", here)
        if raw is MISSING:
            if name == "register" and isinstance(obj, ABCMeta):
                _note_registration(run, root, here)
            return frozenset([Method(root, name)])
        if name == "_value2member_map_" and issubclass(obj, enum.Flag):
            text = f"{here.text} grows with the values that are asked for"
            run.found.effect("impure", text, here.place)
        return unwrap(run, Entry(raw, obj, name), None, here)
    if isinstance(obj, types.FunctionType) and name in vars(obj):
        if name == "register" and implementations(obj) is not None:
            _note_registration(run, root, here)
        return _read_held(run, root, name, vars(obj)[name], here)
    if is_instance_of_users(obj):
        return _read_of_instance(run, root, name, here)
    return frozenset([Method(root, name)])


def _note_registration(run: AbstractInterpreter, root: Existing, here: Here) -> None:
    """Record that an abstract class or a single dispatch gets to know another class."""
    text = f"{here.text} changes {root.text}"
    run.found.change(root.obj, text, here.place)


def _does_metaclass_decide(
    run: AbstractInterpreter, cls: type, name: str, *, found: bool
) -> bool:
    meta = type(cls)
    if not is_users_class(meta):
        return False
    raw = class_attribute(meta, name)
    hooks = ("__getattribute__",) if found else ("__getattribute__", "__getattr__")
    runs = any(
        find_candidates(run, Existing(cls, cls.__name__), hook) for hook in hooks
    )
    return runs or (raw is not MISSING and not found) or hasattr(raw, "__set__")


def _read_of_instance(
    run: AbstractInterpreter, root: Existing, name: str, here: Here
) -> Value:
    cls = type(root.obj)
    raw = class_attribute(cls, name)
    own = instance_attribute(root.obj, name)
    hooked = _run_getattribute(run, root, here)
    if own is not MISSING and not comes_before_fields(raw):
        if isinstance(raw, PLACES):  # another operator may assign it
            run.found.read(name, None, raw, here.place)
        return hooked | _read_held(run, root, name, own, here)
    if raw is not MISSING:
        return hooked | unwrap(run, Entry(raw, cls, name), root, here)
    if find_candidates(run, root, "__getattr__"):
        args = Arguments([PLAIN])
        return run_special(run, root, ("__getattr__",), here, args)
    return note_unknown(run, f"{here.text} is not an attribute yet", here)


def _read_held(
    run: AbstractInterpreter, root: Existing, name: str, held: Any, here: Here
) -> Value:
    """Return the value of an existing object's own attribute."""
    if not is_frozen_instance(root.obj):
        run.found.read(name, None, held, here.place)
    return read_existing(run, held, f"{root.text}.{name}", here)


def _read_of_module(
    run: AbstractInterpreter, module: types.ModuleType, name: str, here: Here
) -> Value:
    if is_users_class(type(module)):  # it may have properties and hooks
        return note_unknown(run, f"{here.text} runs code of a module", here)
    names = vars(module)
    is_users = is_users_module(module.__name__)
    found = names.get(name, MISSING)
    if found is MISSING and not is_users:  # a package may load parts lazily
        found = getattr(module, name, MISSING)
    if found is MISSING:
        return note_unknown(run, f"{here.text} is not in its module", here)
    if is_users:
        run.found.read(name, names, found, here.place)
    elif isinstance(found, CONTAINERS) and (why := why_impure_module(module)):
        run.found.effect("impure", f"{here.text} {why}", here.place)
        if is_reflective(module):
            return LOST  # it contains objects that others know by another name
    return read_existing(run, found, here.text, here)


def change(
    run: AbstractInterpreter,
    value: Value,
    stored: Value,
    here: Here,
    *,
    name: str = ELEMENTS,
) -> None:
    """Put `stored` into a value, under an attribute or as an element."""
    for root in value:
        _change_one(run, root, stored, here, name)


def _change_one(  # noqa: C901 - one case for each kind of value
    run: AbstractInterpreter, root: Root, stored: Value, here: Here, name: str
) -> None:
    what = here.text
    if name != ELEMENTS and not isinstance(root, Fresh | Plain):
        run.found.rebind(name, None, here.place)
    match root:
        case Plain(kind) if is_users_class(kind):  # a member of an enum
            text = f"{what} changes a member of {kind.__name__}"  # type: ignore[union-attr]
            run.found.effect("changes", text, here.place)
        case Plain(kind) if _has_attributes(kind, name):
            text = f"{what} changes an object that is taken for a value"
            run.found.effect("changes", text, here.place)
        case Lost(made=False):
            at = here.place
            run.found.writes_anything = run.found.writes_anything or at
        case Plain() | Lost():
            return
        case Fresh(site, kind):
            run.changed_sites.add(site)
            if kind is collections.ChainMap:  # the first of its maps is written to
                change(run, run.heap.inside(site), stored, here)
            run.heap.put(site, name, stored)
        case InputPart():
            at = here.place
            run.found.effect("changes", f"{what} {CHANGES_INPUT}", at)
        case Existing(obj=obj, text=text, variable=variable):
            at = here.place
            run.found.change(obj, f"{what} changes {text}", at, variable)
        case SharedPart(text, target):
            run.found.change_inside(target, f"{what} changes {text}", here.place)
        case Method(owner) if (facts := facts_about(owner)) and facts.open:
            _change_one(run, owner, stored, here, name)  # `loc` and the like
        case _:
            escape(run, frozenset([root]), here)
            text = f"{what} changes something that outlives the call"
            run.found.effect("changes", text, here.place)


def assign_attribute(
    run: AbstractInterpreter, value: Value, name: str, stored: Value, here: Here
) -> None:
    """Do `value.name = stored`, running setters and `__setattr__`."""
    for root in value:
        if name in _REPLACING and not isinstance(root, Fresh):
            run.found.rebind(ANY_NAME, None, here.place)
        cls = class_of(root)
        raw = MISSING if cls is None else class_attribute(cls, name)
        if isinstance(raw, property):
            setter: Value = read_existing(run, raw.fset, f"the setter {name}", here)
            args = Arguments([frozenset([root]), stored])
            run.call(setter, args, here)
            deleter: Value = read_existing(run, raw.fdel, f"the deleter {name}", here)
            if not stored:
                args = Arguments([frozenset([root])])
                run.call(deleter, args, here)
        elif (
            raw is not MISSING
            and hasattr(type(raw), "__set__")
            and not isinstance(raw, PLACES)
        ):
            _run_setter(run, raw, root, stored, here)
        else:
            _change_one(run, root, stored, here, name)
        args = Arguments([PLAIN, stored])
        run_special(run, root, IMPLICIT["set attribute"], here, args)
        if not stored:  # deletion
            args = Arguments([PLAIN])
            run_special(run, root, IMPLICIT["delete attribute"], here, args)


def _run_setter(
    run: AbstractInterpreter, raw: Any, root: Root, stored: Value, here: Here
) -> None:
    """Run the `__set__` or `__delete__` of a descriptor."""
    function = class_attribute(type(raw), "__set__" if stored else "__delete__")
    if not is_users_class(type(raw)) or not isinstance(function, types.FunctionType):
        note_unknown(run, f"{here.text} runs a descriptor", here)
        return
    run.found.touch("a descriptor", raw, here.place)
    callee: Value = frozenset([BoundMethod(Existing(raw, "a descriptor"), function)])
    given = [frozenset([root]), stored] if stored else [frozenset([root])]
    run.call(callee, Arguments(given), here)


def assign_element(
    run: AbstractInterpreter, value: Value, index: Value, stored: Value, here: Here
) -> None:
    """Do `value[index] = stored`, or delete it."""
    for root in value:
        args = Arguments(rest=index | stored | PLAIN)
        run_special(run, root, IMPLICIT["set element"], here, args)
        if class_of(root) is None or not isinstance(root, Fresh):
            _change_one(run, root, stored, here, ELEMENTS)


_TAKES_ELEMENTS: Final = (list, set, collections.deque)


def change_in_place(
    run: AbstractInterpreter, value: Value, other: Value, op: str, here: Here
) -> Value:
    """Do `value += other`; without an in-place operator this gives a new object."""
    name = IMPLICIT[f"{op}="][0]
    results: set[Root] = set()
    for root in value:
        results |= run_special(run, root, (name,), here, Arguments([other]))
        if isinstance(root, Existing) and isinstance(root.obj, CALLABLES):
            continue
        classes = classes_of(root, run.universe) or ()
        if classes and all(_is_without(each, name) for each in classes):
            continue  # or run_special has run it
        if not isinstance(root, Plain):
            stored = list_elements(run, other, here)
            if not isinstance(root, Fresh) or root.type not in _TAKES_ELEMENTS:
                stored |= look_inside(run, other) | other
            _change_one(run, root, stored, here, ELEMENTS)
            results.add(root)
    return frozenset(results)


def _is_without(cls: type, name: str) -> bool:
    """Tell whether a class has no method, or only the user's, under a name."""
    if class_attribute(cls, name) is MISSING:
        return True
    return is_users_class(cls) and is_users_method(cls, name)


def _has_attributes(kind: type | None, name: str) -> bool:
    """Tell whether an attribute of an otherwise immutable value can be assigned."""
    own: dict[type, tuple[str, ...]] = {
        fractions.Fraction: ("_numerator", "_denominator"),
        np.dtype: ("names", "metadata"),
    }
    return any(name in own[each] for each in own if kind in (None, each))
