"""What a call into the builtins or a package does."""

from __future__ import annotations

import ast
import functools
import operator
import types
from typing import Any, Final

import numpy as np

from anabranch.analysis.callbacks import called_arguments
from anabranch.analysis.changes import IN_PLACE
from anabranch.analysis.effects import Frame, shown
from anabranch.analysis.known import (
    changes_first_argument,
    is_pure,
    module_of,
    why_impure,
)
from anabranch.analysis.methods import ADVICE, called
from anabranch.analysis.objects import (
    CALLABLES,
    class_attribute,
    function_in,
    is_scalar_type,
    is_users_code,
)
from anabranch.analysis.results import Results
from anabranch.analysis.universe import Universe
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
    Method,
    Shared,
    Value,
    join,
)
from anabranch.graph.custom import Operator
from anabranch.graph.declarations import declaration_of, is_trusted

GETTERS: Final = (operator.attrgetter, operator.itemgetter, operator.methodcaller)
_NEVER_CALLS = frozenset(map(id, (isinstance, issubclass, type, callable, repr, str)))


class Library(Results):
    """The part of the interpreter that calls what is not the user's."""

    def __init__(self, universe: Universe) -> None:
        super().__init__(universe)
        self._getters: dict[ast.AST, Any] = {}  # those that are made in the code

    def _call_declared(
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value | None:
        own = isinstance(obj, CALLABLES)  # an instance is declared by its class
        state = declaration_of(obj if own else type(obj)).state
        if state == "global":
            text = f"calls {called(node)}, which is declared to have state"
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
            return self._call_changing(args, node, frame)
        if is_pure(obj):
            return self._call_pure(obj, args, node, frame)
        module = module_of(obj)
        if module and is_trusted(module):
            return self.opaque(args, node, frame)
        why = why_impure(obj)
        if why is not None:
            at = self.at(node, frame)
            self.found.effect("impure", f"{called(node)} {why}", at)
            return LOST
        text = f"calls {called(node)}, of which nothing is known{ADVICE}"
        return self.unknown(text, node, frame)

    def _call_changing(self, args: Arguments, node: ast.AST, frame: Frame) -> Value:
        """Call what changes its first argument, as `heappush` and `setitem` do."""
        first = args.positional[0]
        self._call_arguments(args, node, frame, args.keywords.get("key", NOTHING))
        self.run_operators(args.all(), node, frame)
        for root in first:
            names = ("__setitem__", "__delitem__", *IN_PLACE)
            self.run_special(root, names, node, frame, Arguments(rest=args.all()))
        self.change(first, args.all(), node, frame)
        return self.elements(first, node, frame) | first | PLAIN

    def _call_pure(
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        made = NOTHING
        if id(obj) not in _NEVER_CALLS:
            called = called_arguments(obj, args)
            made = self._call_arguments(args, node, frame, called)
        if obj is isinstance or obj is issubclass:
            self._check_class(args, node, frame)
        self.run_operators(args.all(), node, frame)
        self.watch_call(obj, args, node, frame)
        return self.result_of(obj, args, made, node, frame)

    def _check_class(self, args: Arguments, node: ast.AST, frame: Frame) -> None:
        """Run the hooks by which a class of the user's answers `isinstance`."""
        for root in self.operands(join(args.positional[1:]) | args.rest):
            checks = ("__instancecheck__", "__subclasscheck__")
            self.run_special(root, checks, node, frame)
            if isinstance(root, Known) and isinstance(root.obj, type):
                hook = function_in(class_attribute(root.obj, "__subclasshook__"))
                if isinstance(hook, types.FunctionType) and is_users_code(
                    hook.__code__
                ):
                    callee: Value = frozenset([Bound(root, hook)])
                    self.call(callee, Arguments(rest=args.all()), node, frame)

    def opaque(self, args: Arguments, node: ast.AST, frame: Frame) -> Value:
        """Return what a call that we must believe to be pure may give."""
        self._call_arguments(args, node, frame)
        fresh = self.fresh(node, frame)
        held = self.reachable(args.all())
        if any(isinstance(root, Input) for root in held):
            held |= {Input()}  # it may look at attributes that are not fields
        self.heap.put(fresh.site, ELEMENTS, held)
        return frozenset([fresh]) | held

    def _call_special(  # noqa: PLR0911 - one return for each kind
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value | None:
        """Call the builtins that do something to their arguments."""
        first = args.positional[0] if args.positional else args.rest
        if obj is functools.partial:
            return self._make_partial(args, node, frame)
        if obj is functools.cmp_to_key:
            return first
        if any(obj is each for each in GETTERS):
            return self._make_getter(obj, args, node, frame)
        if obj is next:
            self.change(first, NOTHING, node, frame)
            return self.elements(first, node, frame) | join(args.positional[1:])
        if obj is type:
            return frozenset([Shared("a class")])
        if "cls" in args.keywords and not isinstance(obj, types.FunctionType):
            return self.unknown(f"{called(node)} is given a class", node, frame)
        if obj is getattr or obj is setattr or obj is delattr or obj is hasattr:
            return self._call_getattr(obj, first, args, node, frame)
        if any(obj is each for each in vars(Operator).values()):
            return PLAIN
        return None

    def _make_partial(self, args: Arguments, node: ast.AST, frame: Frame) -> Value:
        """Make a partial function; calling it is what counts."""
        fresh = self.fresh(node, frame, functools.partial)
        for index, value in enumerate(args.positional):
            self.heap.put(fresh.site, f"{index}", value)
        for name, value in args.keywords.items():
            self.heap.put(fresh.site, f"={name}", value)
        self.heap.put(fresh.site, "*", args.rest)
        return frozenset([fresh])

    def call_made_partial(
        self, root: Fresh, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        """Call a partial function that was made here."""
        held = self.heap.fields(root.site)
        count = sum(name.isdigit() for name in held)
        first, *given = [held[f"{index}"] for index in range(count)] or [NOTHING]
        named = {name[1:]: held[name] for name in held if name.startswith("=")}
        rest = held.get("*", NOTHING)
        whole = Arguments(
            [*given, *args.positional], {**named, **args.keywords}, args.rest | rest
        )
        return self.call(first | rest, whole, node, frame)

    def _make_getter(
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        """Make an `itemgetter` or the like, whose arguments are written out."""
        given = node.args if isinstance(node, ast.Call) else []
        written = [each.value for each in given if isinstance(each, ast.Constant)]
        if obj is operator.itemgetter and args.positional:
            written = written[:1] or [0]  # whichever: any element may be meant
        elif not written or len(written) != len(given) or args.keywords:
            text = f"{shown(node)} takes an attribute by a computed name"
            return self.unknown(text, node, frame)
        if node not in self._getters:
            self._getters[node] = obj(*written)
        return frozenset([Known(self._getters[node], called(node))])

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
        if obj is object.__repr__ or obj is object.__str__:
            text = f"{shown(node)} shows where an object lies in memory"
            self.found.effect("impure", text, self.at(node, frame))
        if is_scalar_type(obj.__objclass__):  # else the call would fail
            owner = PLAIN
        given = Arguments(rest, args.keywords, args.rest)
        return self.call(methods_of(owner, obj.__name__), given, node, frame)

    def _call_getter(
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        _, names = obj.__reduce__()[:2]
        target = args.all()
        if isinstance(obj, operator.itemgetter):
            return self.elements(target, node, frame)
        if isinstance(obj, operator.methodcaller):
            if not isinstance(names[0], str):
                return self.unknown(f"calls {called(node)}", node, frame)
            callee = self.attribute(target, names[0], node, frame)
            return self.call(callee, Arguments(rest=PLAIN), node, frame)
        found = []
        for path in names:
            value = target
            for name in path.split("."):
                value = self.attribute(value, name, node, frame)
            found.append(value)
        return join(found)


def methods_of(owner: Value, name: str) -> Value:
    return frozenset(Method(root, name) for root in owner)
