"""What a call into the builtins or a package does."""

from __future__ import annotations

import ast
import operator
import types
from collections import defaultdict
from functools import reduce
from typing import Any

import numpy as np

from anabranch.analysis.effects import Frame, shown
from anabranch.analysis.known import (
    changes_first_argument,
    gives_view,
    is_pure,
    module_of,
    why_impure,
)
from anabranch.analysis.methods import ADVICE, Methods, called, is_callable
from anabranch.analysis.objects import (
    CALLABLES,
    is_scalar_type,
)
from anabranch.analysis.values import (
    ELEMENTS,
    LOST,
    NOTHING,
    PLAIN,
    Arguments,
    Method,
    Shared,
    Value,
    join,
)
from anabranch.graph.custom import Operator
from anabranch.graph.declarations import declaration_of, is_trusted

_GIVES_PLAIN = frozenset(
    map(
        id,
        (
            *(len, int, float, complex, bool, str, bytes, repr, ascii, format),
            *(ord, chr, bin, oct, hex, isinstance, issubclass, callable, all, any),
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
    [
        *("math", "json", "re", "statistics", "collections", "struct", "itertools"),
        *("contextlib", "hashlib", "_hashlib"),
    ]
)

# These call the functions that they are given, but do not keep them.
_USES = frozenset(map(id, (map, filter, sorted, min, max, sum, defaultdict, reduce)))

_NEVER_CALLS = frozenset(map(id, (isinstance, issubclass, type, callable, repr, str)))


class Library(Methods):
    """The part of the interpreter that calls what is not the user's."""

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
            self.found.effect("impure", f"{called(node)} {why}", at)
            return LOST
        text = f"calls {called(node)}, of which nothing is known{ADVICE}"
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
            given = frozenset(root for root in given if not is_callable(root))
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
            return self.unknown(f"{called(node)} is given a class", node, frame)
        if obj is getattr or obj is setattr or obj is delattr or obj is hasattr:
            return self._call_getattr(obj, first, args, node, frame)
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
