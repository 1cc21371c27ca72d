"""What a call gives and does, by what is called; and what a name stands for."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import enum
import functools
import types
import typing
from typing import Any

from anabranch.operators.custom import Operator
from anabranch.operators.lifted import StatePlace
from anabranch.python.attributes import Entry
from anabranch.python.caches import used_up, why_not_alike
from anabranch.python.classes import class_of, classes_of, member_of
from anabranch.python.known import is_pure
from anabranch.python.library import GETTERS, Library, methods_of
from anabranch.python.methods import called
from anabranch.python.objects import (
    MISSING,
    class_attribute,
    field_names,
    is_instance_of_users,
    is_users_class,
    is_users_code,
)
from anabranch.python.source import file_around, node_of
from anabranch.python.values import (
    ELEMENTS,
    LOST,
    NOTHING,
    PLAIN,
    Arguments,
    Bound,
    Closure,
    Frame,
    Fresh,
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


class Constructors(Library):
    """The part of the interpreter that makes instances."""

    def _construct(
        self, cls: type, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        if not is_users_class(cls):
            return self._call_library(cls, args, node, frame)
        if issubclass(cls, enum.Enum):
            return self._find_member(cls, args, node, frame)
        if typing.is_typeddict(cls):
            return self._call_library(dict, args, node, frame)
        if type(cls).__call__ is not type.__call__:
            return self.unknown(f"{called(node)} has a metaclass", node, frame)
        made = self.fresh(node, frame, cls)
        self._fill_fields(made, cls, args)
        self._fill_defaults(made, cls, node, frame)
        root: Value = frozenset([made])
        for name in ("__new__", "__init__", "__post_init__"):
            raw = class_attribute(cls, name)
            function = getattr(raw, "__func__", raw)
            if isinstance(function, types.FunctionType):
                given = Arguments() if name == "__post_init__" else args
                if name == "__new__":
                    root |= self._run_new(function, made, given, node, frame)
                else:
                    self._run_constructor(function, made, given, node, frame)
            elif name != "__post_init__" and not isinstance(
                raw, types.WrapperDescriptorType | types.BuiltinFunctionType
            ):
                self.unknown(f"{called(node)} is constructed by {raw!r}", node, frame)
        self.run_special(made, ("__del__",), node, frame, Arguments())
        return root

    def _find_member(
        self, cls: type[enum.Enum], args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        """Look a member of an enum up by its value."""
        if is_users_class(type(cls)):
            return self.unknown(f"{called(node)} has a metaclass", node, frame)
        missing = class_attribute(cls, "_missing_")
        function = getattr(missing, "__func__", missing)
        found: Value = frozenset([member_of(cls)])
        if isinstance(function, types.FunctionType) and is_users_code(
            function.__code__
        ):
            callee: Value = frozenset([Bound(Known(cls, cls.__name__), function)])
            found |= self.call(callee, args, node, frame)
        self.run_operators(args.all(), node, frame)
        return found

    def _run_new(
        self,
        function: types.FunctionType,
        made: Fresh,
        args: Arguments,
        node: ast.AST,
        frame: Frame,
    ) -> Value:
        """Run `__new__`; return what it may give instead of a new object."""
        if not self._is_followed(function, made, node, frame):
            return NOTHING
        cls: Value = frozenset([Known(made.type, made.type.__name__)])
        given = Arguments([cls, *args.positional], args.keywords, args.rest)
        found = self.call_function(function, given, node, frame)
        return found - {Plain(type(None))}

    def _run_constructor(
        self,
        function: types.FunctionType,
        made: Fresh,
        args: Arguments,
        node: ast.AST,
        frame: Frame,
    ) -> None:
        if not self._is_followed(function, made, node, frame):
            return
        own = [frozenset([made]), *args.positional]
        given = Arguments(own, args.keywords, args.rest)
        self.call_function(function, given, node, frame)

    def _is_followed(
        self, function: types.FunctionType, made: Fresh, node: ast.AST, frame: Frame
    ) -> bool:
        """Tell whether a part of a constructor is the user's, and do what others do."""
        generated = function.__code__.co_filename.startswith(
            ("<string>", "<namedtuple")
        )
        if generated and field_names(made.type) is not None:
            self._assign_fields(made, node, frame)
            return False
        if not is_users_code(function.__code__):
            text = f"{called(node)} is constructed by code of another package"
            self.unknown(text, node, frame)
            return False
        return True

    def _assign_fields(self, made: Fresh, node: ast.AST, frame: Frame) -> None:
        """Run the setters and hooks that a generated `__init__` of a dataclass runs."""
        if issubclass(made.type, tuple):
            return
        for name in field_names(made.type) or ():
            held = self.heap.get(made.site, name) | self.heap.get(made.site, ELEMENTS)
            self.assign_attribute(frozenset([made]), name, held or PLAIN, node, frame)

    def _fill_fields(self, made: Fresh, cls: type, args: Arguments) -> None:
        names = field_names(cls)
        if names is None:
            return
        for name, value in zip(names, args.positional, strict=False):
            self.heap.put(made.site, name, value)
        for name, value in args.keywords.items():
            self.heap.put(made.site, name, value)
        self.heap.put(made.site, ELEMENTS, args.rest)
        if issubclass(cls, tuple):
            self.heap.put(made.site, ELEMENTS, args.all())

    def _fill_defaults(
        self, made: Fresh, cls: type, node: ast.AST, frame: Frame
    ) -> None:
        """Put in the values that a constructor without these arguments would."""
        text = f"a default of {cls.__name__}"
        for name, default in getattr(cls, "_field_defaults", {}).items():
            held = self.existing(default, text, node, frame)
            self.heap.put(made.site, name, held)
        for name, field in getattr(cls, "__dataclass_fields__", {}).items():
            if field.default is not dataclasses.MISSING:
                held = self.existing(field.default, text, node, frame)
                self.heap.put(made.site, name, held)
            if field.default_factory is not dataclasses.MISSING:
                factory = self.existing(field.default_factory, text, node, frame)
                held = self.call(factory, Arguments(), node, frame)
                self.heap.put(made.site, name, held)


class Calls(Constructors):
    """The part of the interpreter that calls."""

    def call(
        self, callee: Value, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        return join(self.call_root(root, args, node, frame) for root in callee)

    def call_root(  # noqa: PLR0911 - one return for each kind of value
        self, root: Root, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        match root:
            case Known():
                return self._call_existing(root, args, node, frame)
            case Closure():
                return self.call_function(root, args, node, frame)
            case Bound(owner, function):
                declared = self._call_declared(function, args, node, frame)
                if declared is not None:
                    return declared
                own = [frozenset([owner]), *args.positional]
                given = Arguments(own, args.keywords, args.rest)
                return self.call_function(function, given, node, frame)
            case Method(owner, name):
                return self._call_method(owner, name, args, node, frame)
            case Fresh(_, kind) if kind is functools.partial:
                return self.call_made_partial(root, args, node, frame)
            case Fresh(_, kind) if is_users_class(kind):
                names = ("__call__",)
                return self.run_special(root, names, node, frame, args)
            case Plain() | Lost():
                self._call_arguments(args, node, frame)
                self.escape(args.all() | {root}, node, frame)
                return frozenset([root]) if isinstance(root, Lost) else LOST
        self.escape(args.all(), node, frame)
        text = f"calls {called(node)}, which is handed in or made at run time"
        return self.unknown(text, node, frame)

    # -- objects that exist already

    def _call_existing(  # noqa: C901, PLR0911 - one case for each kind of callable
        self, root: Known, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        obj, text = root.obj, root.text
        known = self._call_declared(obj, args, node, frame)
        if known is None:
            known = self._call_special(obj, args, node, frame)
        if known is not None:
            return known
        match obj:
            case types.FunctionType() if is_users_code(obj.__code__):
                return self.call_function(obj, args, node, frame)
            case type():
                return self._construct(obj, args, node, frame)
            case functools.partial():
                return self._call_partial(obj, args, node, frame)
            case functools._lru_cache_wrapper() if not is_pure(obj):  # noqa: SLF001
                return self._call_cached(root, args, node, frame)
            case types.BuiltinFunctionType() if not isinstance(
                obj.__self__, types.ModuleType | type(None)
            ):
                owner = self.existing(obj.__self__, text, node, frame)
                return self.call(methods_of(owner, obj.__name__), args, node, frame)
            case types.MethodDescriptorType() | types.WrapperDescriptorType():
                return self._call_unbound(obj, args, node, frame)
        if isinstance(obj, GETTERS):
            return self._call_getter(obj, args, node, frame)
        if is_instance_of_users(obj):
            return self.run_special(root, ("__call__",), node, frame, args)
        return self._call_library(obj, args, node, frame)

    def _call_cached(
        self, root: Known, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        """Call a function with a cache that all calls share."""
        obj, text = root.obj, root.text
        inner = self.existing(obj.__wrapped__, text, node, frame)
        made = self.call(inner, args, node, frame)
        for each in self.operands(args.all()):
            why = why_not_alike(each, self.universe)
            if why is not None:
                said = f"the cache of {text} mixes up what is equal: {why}"
                self.unknown(said, node, frame)
        if used_up(self.reachable(made)):
            self.unknown(f"the cache of {text} keeps an iterator", node, frame)
        kinds = [classes_of(each, self.universe) for each in made]
        known = frozenset[type]().union(*(each or () for each in kinds))
        self.found.touch(f"the results of {text}", obj, self.at(node, frame))
        cached = Shared(
            f"a cached result of {text}", id(obj), None if None in kinds else known
        )
        return frozenset([Plain(), cached])

    def _call_partial(
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        text = "an argument of the partial"
        given = [self.existing(each, text, node, frame) for each in obj.args]
        named = {
            name: self.existing(each, text, node, frame)
            for name, each in obj.keywords.items()
        }
        inner = self.existing(obj.func, called(node), node, frame)
        whole = Arguments(
            [*given, *args.positional], {**named, **args.keywords}, args.rest
        )
        return self.call(inner, whole, node, frame)


# -- methods by name

# -- classes


class Names(Calls):
    """The part of the interpreter that looks names up."""

    def name(self, node: ast.Name, frame: Frame) -> Value:
        """Look a name up: local, enclosing, captured, global, builtin."""
        name, scope = node.id, frame
        while True:
            if name in scope.declared_global:
                break
            if name in scope.own:
                return scope.current(name)
            if scope.parent is None:
                break
            scope = scope.parent
        function = scope.function
        if name not in scope.declared_global and name in function.__code__.co_freevars:
            return self._captured(name, function, node, frame)
        if name in function.__globals__:
            value = function.__globals__[name]
            self.found.read(name, function.__globals__, value, self.at(node, frame))
            found = self.existing(value, f"the global {name}", node, frame)
            return _read_from(StatePlace("global", name), found)
        if getattr(function, "__builtins__", None) is not vars(builtins):
            text = f"{name} is looked up in builtins of the program's own"
            return self.unknown(text, node, frame)
        if hasattr(builtins, name):
            return self.existing(getattr(builtins, name), name, node, frame)
        return self.unknown(f"the name {name} is not defined yet", node, frame)

    def is_local(self, name: str, frame: Frame) -> bool:
        scope: Frame | None = frame
        while scope is not None and name not in scope.declared_global:
            if name in scope.own:
                return True
            if scope.parent is None:
                return name in scope.function.__code__.co_freevars
            scope = scope.parent
        return False

    def _captured(
        self, name: str, function: types.FunctionType, node: ast.AST, frame: Frame
    ) -> Value:
        cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
        try:
            value = cell.cell_contents
        except ValueError:
            return self.unknown(f"the variable {name} has no value yet", node, frame)
        if name != "__class__":
            scope = self.enclosing(function)
            self.found.read(name, scope, value, self.at(node, frame))
        found = self.existing(value, f"the captured variable {name}", node, frame)
        return _read_from(StatePlace("outer variable", name), found)

    def enclosing(self, function: types.FunctionType) -> Any:
        """Return the file and the outermost function around a function."""
        parsed = file_around(function.__code__)
        scope: Any = node_of(function.__code__)
        if parsed is None or scope is None:
            return None
        while isinstance(outer := parsed.enclosing.get(scope), ast.AST) and not (
            isinstance(outer, ast.Module)
        ):
            scope = outer
        return (parsed, scope)

    def _super(self, node: ast.Attribute, frame: Frame) -> Value:
        function = frame.function
        free = function.__code__.co_freevars
        outermost = frame
        while outermost.parent is not None:
            outermost = outermost.parent
        written = node.value.args if isinstance(node.value, ast.Call) else []
        own = self.name(ast.copy_location(ast.Name("super", ast.Load()), node), frame)
        if (
            written
            or own != frozenset([Known(super, "super")])
            or "__class__" not in free
            or not isinstance(outermost.node, ast.FunctionDef)
        ):
            return self.unknown("super() cannot be followed here", node, frame)
        cls = (function.__closure__ or ())[free.index("__class__")].cell_contents
        first = next(iter(outermost.node.args.args), None)
        owners = NOTHING if first is None else outermost.current(first.arg)
        found: list[Value] = []
        for owner in owners:
            for kind in self._kinds_of_self(owner, cls):
                raw = class_attribute(kind, node.attr, after=cls)
                found.append(self._inherited(raw, owner, kind, node, frame))
        return join(found)

    def _kinds_of_self(self, owner: Root, cls: type) -> list[type]:
        """Return the classes that `self` may be of in a method of a class."""
        kind = class_of(owner)
        if isinstance(owner, Fresh) and isinstance(owner.type, type):
            kind = owner.type
        if kind is not None:
            return [kind]
        return [cls, *self.universe.subclasses_of(cls)]

    def _inherited(
        self, raw: Any, owner: Root, kind: type, node: ast.Attribute, frame: Frame
    ) -> Value:
        if raw is MISSING:
            return self.unknown(f"{shown(node)} is not defined", node, frame)
        if any(raw is each for each in vars(Operator).values()) or _is_harmless(raw):
            return frozenset([Known(Operator.setup, shown(node))])
        if isinstance(raw, types.FunctionType) and is_users_code(raw.__code__):
            return frozenset([Bound(owner, raw)])
        if isinstance(raw, types.WrapperDescriptorType):
            return frozenset([Method(owner, node.attr)])
        entry = Entry(raw, kind, node.attr)
        return self.unwrapped(entry, owner, node, frame)


def _read_from(variable: StatePlace, value: Value) -> Value:
    """Return the value of a variable, with a note of where it was read."""
    return frozenset(
        Known(root.obj, root.text, variable) if isinstance(root, Known) else root
        for root in value
    )


def _is_harmless(raw: Any) -> bool:
    """Tell whether a slot of Python's, called by super(), changes nobody but `self`.

    Reading an attribute is followed beside `__getattribute__`, and what `__hash__` gives
    is no part of a result.
    """
    if not isinstance(raw, types.WrapperDescriptorType):
        return False
    if raw.__name__ == "__init__":
        return raw.__objclass__ is object or issubclass(raw.__objclass__, BaseException)
    return raw.__name__ in ("__getattribute__", "__hash__")
