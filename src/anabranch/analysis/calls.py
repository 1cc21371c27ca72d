"""What a call gives and does, by what is called."""

from __future__ import annotations

import ast
import functools
import types
from typing import Any

from anabranch.analysis.constructors import Constructors
from anabranch.analysis.effects import Frame
from anabranch.analysis.known import is_pure
from anabranch.analysis.library import GETTERS, methods_of
from anabranch.analysis.methods import called
from anabranch.analysis.objects import (
    is_instance_of_users,
    is_users_class,
    is_users_code,
)
from anabranch.analysis.values import (
    LOST,
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
                return LOST
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
                inner = self.existing(obj.__wrapped__, text, node, frame)
                self.call(inner, args, node, frame)
                return frozenset([Plain(), Shared(f"a cached result of {text}")])
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
