"""What a call gives and does, by what is called."""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import operator
import types
from abc import abstractmethod
from collections import defaultdict
from functools import reduce
from typing import Any

import numpy as np

from anabranch.analysis.attributes import class_of
from anabranch.analysis.changes import Changes
from anabranch.analysis.effects import Frame, shown
from anabranch.analysis.known import (
    CHANGING_METHODS,
    PLAIN_METHODS,
    PURE_METHODS,
    TEXT_METHODS,
    changes_first_argument,
    gives_view,
    is_pure,
    module_of,
    why_impure,
)
from anabranch.analysis.objects import (
    CALLABLES,
    CONTAINERS,
    MISSING,
    class_attribute,
    field_names,
    is_instance_of_users,
    is_scalar_type,
    is_users_class,
    is_users_code,
)
from anabranch.analysis.universe import Universe
from anabranch.analysis.values import (
    ELEMENTS,
    LOST,
    NOTHING,
    PLAIN,
    Arguments,
    Bound,
    Closure,
    Fresh,
    Known,
    Lost,
    Method,
    Plain,
    Root,
    Shared,
    Value,
    join,
)
from anabranch.graph.custom import Operator
from anabranch.graph.declarations import declaration_of, is_trusted

_ADVICE = (
    "; say @ab.declare(state=...) on it or ab.trust(...) its package if it is pure"
)
_GIVES_PLAIN = frozenset(
    map(
        id,
        (
            *(
                len,
                int,
                float,
                complex,
                bool,
                str,
                repr,
                ascii,
                ord,
                chr,
                bin,
                oct,
                hex,
            ),
            *(format, isinstance, issubclass, callable, all, any, bytes),
        ),
    )
)
_GIVES_FRESH = frozenset(
    map(
        id,
        (
            *(list, dict, set, tuple, frozenset, sorted, enumerate, zip, map, filter),
            *(reversed, range, slice, sum, abs, round, divmod, pow, bytearray),
        ),
    )
)
_FRESH_MODULES = frozenset(
    ["math", "json", "re", "statistics", "collections", "struct", "itertools"]
    + ["contextlib", "hashlib", "_hashlib"]
)
# These call the functions that they are given, but do not keep them.
_USES = frozenset(map(id, (map, filter, sorted, min, max, sum, defaultdict, reduce)))
_NEVER_CALLS = frozenset(map(id, (isinstance, issubclass, type, callable, repr, str)))


class Calls(Changes):
    """The part of the interpreter that calls."""

    def __init__(self, universe: Universe) -> None:
        super().__init__(universe)
        self._passed_on: set[tuple[ast.AST, Root]] = set()

    @abstractmethod
    def call_function(
        self,
        function: types.FunctionType | Closure,
        args: Arguments,
        node: ast.AST,
        frame: Frame,
    ) -> Value:
        """Follow a call into a function whose source is the user's."""

    def call(
        self, callee: Value, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        return join(self._call(root, args, node, frame) for root in callee)

    def _call(self, root: Root, args: Arguments, node: ast.AST, frame: Frame) -> Value:
        match root:
            case Known(obj=obj, text=text):
                return self._call_existing(root, obj, text, args, node, frame)
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
            case Fresh(_, kind) if is_users_class(kind):
                names = ("__call__",)
                return self.run_special(root, names, node, frame, args)
            case Plain() | Lost():
                return LOST
        text = f"calls {_called(node)}, which is handed in or made at run time"
        return self.unknown(text, node, frame)

    # -- objects that exist already

    def _call_existing(
        self,
        root: Known,
        obj: Any,
        text: str,
        args: Arguments,
        node: ast.AST,
        frame: Frame,
    ) -> Value:
        declared = self._call_declared(obj, args, node, frame)
        if declared is not None:
            return declared
        special = self._call_special(obj, args, node, frame)
        if special is not None:
            return special
        match obj:
            case types.FunctionType() if is_users_code(obj.__code__):
                return self.call_function(obj, args, node, frame)
            case type():
                return self._construct(obj, args, node, frame)
            case functools.partial():
                return self._call_partial(obj, args, node, frame)
            case functools._lru_cache_wrapper():  # noqa: SLF001 - a type
                inner = self.existing(obj.__wrapped__, text, node, frame)
                self.call(inner, args, node, frame)
                return frozenset([Plain(), Shared(f"a cached result of {text}")])
            case types.BuiltinFunctionType() if not isinstance(
                obj.__self__, types.ModuleType | type(None)
            ):
                owner = self.existing(obj.__self__, text, node, frame)
                return self.call(_methods(owner, obj.__name__), args, node, frame)
            case types.MethodDescriptorType() | types.WrapperDescriptorType():
                return self._call_unbound(obj, args, node, frame)
            case (
                operator.attrgetter() | operator.itemgetter() | operator.methodcaller()
            ):
                return self._call_getter(obj, args, node, frame)
        if is_instance_of_users(obj):
            return self.run_special(root, ("__call__",), node, frame, args)
        return self._call_library(obj, args, node, frame)

    def _call_declared(
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value | None:
        own = isinstance(obj, CALLABLES)  # an instance is declared by its class
        state = declaration_of(obj if own else type(obj)).state
        if state == "global":
            text = f"calls {_called(node)}, which is declared to have state"
            return self.unknown(text, node, frame)
        return self.opaque(args, node, frame) if state == "stateless" else None

    def _call_library(
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        if isinstance(obj, np.ufunc) and len(args.positional) > obj.nin:
            self.change(join(args.positional[obj.nin :]), NOTHING, node, frame)
        if "out" in args.keywords:
            self.change(args.keywords["out"], NOTHING, node, frame)
        if changes_first_argument(obj) and args.positional:
            self.change(args.positional[0], args.all(), node, frame)
            return self.elements(args.positional[0], node, frame) | PLAIN
        if is_pure(obj):
            return self._call_pure(obj, args, node, frame)
        module = module_of(obj)
        if module and is_trusted(module):
            return self.opaque(args, node, frame)
        why = why_impure(obj)
        if why is not None:
            at = self.at(node, frame)
            self.found.effect("impure", f"{_called(node)} {why}", at)
            return LOST
        text = f"calls {_called(node)}, of which nothing is known{_ADVICE}"
        return self.unknown(text, node, frame)

    def _call_pure(
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        if id(obj) not in _NEVER_CALLS:
            self._call_arguments(args, node, frame)
        self.run_operators(args.all(), node, frame)
        if id(obj) in _GIVES_PLAIN or is_scalar_type(obj):
            return PLAIN
        kind = obj if isinstance(obj, type) else None
        fresh = self.fresh(node, frame, kind)
        given = args.all()
        if id(obj) in _USES or module_of(obj).startswith(("itertools", "numpy")):
            given = frozenset(root for root in given if not _is_callable(root))
        held = given | self.inside(given)
        self.heap.put(fresh.site, ELEMENTS, held)
        copies = (isinstance(obj, type) or module_of(obj).startswith("numpy")) and not (
            gives_view(obj) or "copy" in args.keywords
        )
        if copies or id(obj) in _GIVES_FRESH or module_of(obj) in _FRESH_MODULES:
            return frozenset([fresh])
        return frozenset([fresh]) | held

    def opaque(self, args: Arguments, node: ast.AST, frame: Frame) -> Value:
        """Return what a call that we must believe to be pure may give."""
        self._call_arguments(args, node, frame)
        fresh = self.fresh(node, frame)
        held = args.all() | self.inside(args.all())
        self.heap.put(fresh.site, ELEMENTS, held)
        return frozenset([fresh]) | held

    def _call_arguments(self, args: Arguments, node: ast.AST, frame: Frame) -> None:
        """Call the functions among the arguments: `map`, `sorted` and so on will.

        They may be passed whatever can be reached from the other arguments.
        """
        everything = self._reachable(args.all())
        for root in filter(_is_callable, args.all()):
            under_way = (node, root)
            if under_way in self._passed_on:
                continue
            self._passed_on.add(under_way)
            given = Arguments(rest=everything | PLAIN)
            result = self._call(root, given, node, frame)
            self._passed_on.discard(under_way)
            self.heap.put(self.fresh(node, frame).site, ELEMENTS, result)

    def _reachable(self, value: Value) -> Value:
        while not (more := self.inside(value)) <= value:
            value |= more
        return value

    def _call_special(
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value | None:
        """Call the builtins that do something to their arguments."""
        first = args.positional[0] if args.positional else args.rest
        if obj is next:
            self.change(first, NOTHING, node, frame)
            return self.elements(first, node, frame) | join(args.positional[1:])
        if obj is type:
            return frozenset([Shared("a class")])
        if "cls" in args.keywords and not isinstance(obj, types.FunctionType):
            return self.unknown(f"{_called(node)} is given a class", node, frame)
        if obj is getattr or obj is setattr or obj is delattr or obj is hasattr:
            return self._call_getattr(obj, first, args, node, frame)
        if (
            getattr(obj, "__objclass__", None) is object
            and obj.__name__ == "__setattr__"
        ):
            self.change(first, args.all(), node, frame)
            return PLAIN
        if any(obj is each for each in vars(Operator).values()):
            return PLAIN
        return None

    def _call_getattr(
        self, obj: Any, first: Value, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        given = node.args[1:2] if isinstance(node, ast.Call) else []
        name = given[0].value if given and isinstance(given[0], ast.Constant) else None
        if not isinstance(name, str):
            text = f"{shown(node)} takes an attribute by a computed name"
            return self.unknown(text, node, frame)
        if obj is getattr or obj is hasattr:
            return self.attribute(first, name, node, frame) | join(args.positional[2:])
        self.assign_attribute(first, name, join(args.positional[2:]), node, frame)
        return PLAIN

    def _call_partial(
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        text = "an argument of the partial"
        given = [self.existing(each, text, node, frame) for each in obj.args]
        named = {
            name: self.existing(each, text, node, frame)
            for name, each in obj.keywords.items()
        }
        inner = self.existing(obj.func, _called(node), node, frame)
        whole = Arguments(
            [*given, *args.positional], {**named, **args.keywords}, args.rest
        )
        return self.call(inner, whole, node, frame)

    def _call_unbound(
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        """Call `str.strip(x)`: a method through its class."""
        if not args.positional:
            owner, rest = args.rest, []
        else:
            owner, rest = args.positional[0], args.positional[1:]
        if obj.__objclass__ is object and obj.__name__ in ("__init__", "__new__"):
            return PLAIN
        if is_scalar_type(obj.__objclass__):  # else the call would fail
            owner = PLAIN
        given = Arguments(rest, args.keywords, args.rest)
        return self.call(_methods(owner, obj.__name__), given, node, frame)

    def _call_getter(
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        _, names = obj.__reduce__()[:2]
        target = args.all()
        if isinstance(obj, operator.itemgetter):
            return self.elements(target, node, frame)
        if isinstance(obj, operator.methodcaller):
            if not isinstance(names[0], str):
                return self.unknown(f"calls {_called(node)}", node, frame)
            callee = self.attribute(target, names[0], node, frame)
            return self.call(callee, Arguments(rest=PLAIN), node, frame)
        found = []
        for path in names:
            value = target
            for name in path.split("."):
                value = self.attribute(value, name, node, frame)
            found.append(value)
        return join(found)

    # -- methods by name

    def _call_method(
        self, owner: Root, name: str, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        if isinstance(owner, Plain):
            return self._call_method_of_plain(owner, name, args, node, frame)
        if name in CHANGING_METHODS:
            self._call_arguments(args, node, frame)
            self.run_operators(args.all(), node, frame)
            stored = args.all() | self.inside(args.all())
            self.change(frozenset([owner]), stored, node, frame)
            return self.inside(frozenset([owner])) | args.all() | PLAIN
        if name not in PURE_METHODS or not _may_have(owner, name):
            text = f"calls the method {name}, of which nothing is known{_ADVICE}"
            return self.unknown(text, node, frame)
        self._call_arguments(args, node, frame)
        self.run_operators(args.all(), node, frame)
        if name in PLAIN_METHODS:
            return PLAIN
        self_and_parts = self.inside(frozenset([owner])) | args.all()
        kind = class_of(owner) if name == "_replace" else None
        if kind is None and isinstance(owner, Known) and name in ("_make", "fromkeys"):
            kind = owner.obj
        fresh = self.fresh(node, frame, kind)
        text = name in _GIVES_TEXTS
        self.heap.put(fresh.site, ELEMENTS, PLAIN if text else self_and_parts)
        if name in _ALWAYS_FRESH:
            return frozenset([fresh])
        if isinstance(owner, Fresh):
            return frozenset([fresh]) | self_and_parts
        return frozenset([fresh, owner]) | self_and_parts

    def _call_method_of_plain(
        self, owner: Plain, name: str, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        self._call_arguments(args, node, frame)
        self.run_operators(args.all(), node, frame)
        if name in ("format", "format_map"):  # "{0.attribute}" reads attributes
            for root in args.all() - PLAIN:
                for getter in self.universe.properties():
                    self.call(
                        frozenset([Bound(root, getter)]), Arguments(), node, frame
                    )
        known = name in PURE_METHODS or name in TEXT_METHODS
        if not known and owner.type is not None:
            known = owner.type in (int, float, bool, complex, str, bytes, range)
        if not known:
            text = f"calls the method {name}, of which nothing is known{_ADVICE}"
            return self.unknown(text, node, frame)
        fresh = self.fresh(node, frame)
        self.heap.put(fresh.site, ELEMENTS, PLAIN)
        return frozenset([fresh]) | PLAIN

    # -- classes

    def _construct(
        self, cls: type, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        if not is_users_class(cls):
            return self._call_library(cls, args, node, frame)
        if issubclass(cls, enum.Enum):
            return frozenset([Plain(cls)])
        if type(cls).__call__ is not type.__call__:
            return self.unknown(f"{_called(node)} has a metaclass", node, frame)
        made = self.fresh(node, frame, cls)
        self._fill_fields(made, cls, args)
        self._fill_defaults(made, cls, node, frame)
        root: Value = frozenset([made])
        for name in ("__new__", "__init__", "__post_init__"):
            raw = class_attribute(cls, name)
            function = getattr(raw, "__func__", raw)
            if isinstance(function, types.FunctionType):
                self._run_constructor(name, function, root, args, node, frame)
            elif name != "__post_init__" and not isinstance(
                raw, types.WrapperDescriptorType | types.BuiltinFunctionType
            ):
                self.unknown(f"{_called(node)} is constructed by {raw!r}", node, frame)
        return root

    def _run_constructor(
        self,
        name: str,
        function: types.FunctionType,
        made: Value,
        args: Arguments,
        node: ast.AST,
        frame: Frame,
    ) -> None:
        generated = function.__code__.co_filename.startswith(
            ("<string>", "<namedtuple")
        )
        if generated and field_names(next(iter(made)).type) is not None:  # type: ignore[union-attr]
            return
        if not is_users_code(function.__code__):
            text = f"{_called(node)} is constructed by code of another package"
            self.unknown(text, node, frame)
            return
        given = Arguments() if name == "__post_init__" else args
        own = [made, *given.positional]
        self.call_function(
            function, Arguments(own, given.keywords, given.rest), node, frame
        )

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

    def fresh(self, node: ast.AST, frame: Frame, kind: Any = None) -> Fresh:
        """Return the object that is made at a node."""
        return Fresh(self.heap.site((node, kind)), kind)


_GIVES_TEXTS = frozenset(
    ["split", "rsplit", "splitlines", "findall", "groups", "rpartition"]
)
_ALWAYS_FRESH = _GIVES_TEXTS | {
    *("join", "keys", "items", "copy", "tolist", "most_common", "_asdict"),
    *("partition", "union", "intersection", "difference", "astype", "flatten"),
}


def _methods(owner: Value, name: str) -> Value:
    return frozenset(Method(root, name) for root in owner)


def _may_have(owner: Root, name: str) -> bool:
    """Tell whether a captured object is of a type that we know the methods of."""
    if not isinstance(owner, Known):
        return True
    if isinstance(owner.obj, type):
        return is_pure(owner.obj) or name in ("_make", "fromkeys")
    return isinstance(owner.obj, CONTAINERS)


def _is_callable(root: Root) -> bool:
    match root:
        case Closure() | Bound() | Method():
            return True
        case Known(obj=obj):
            if isinstance(obj, CALLABLES):
                return True
            return class_attribute(type(obj), "__call__") is not MISSING
    return False


def _called(node: ast.AST) -> str:
    return shown(node.func) if isinstance(node, ast.Call) else shown(node)
