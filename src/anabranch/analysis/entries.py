"""What an entry of a class gives when it is read, and what a field holds."""

from __future__ import annotations

import ast
import functools
import types
from typing import Any, NamedTuple, get_origin

import numpy as np

from anabranch.analysis.classes import typed
from anabranch.analysis.effects import Frame, shown
from anabranch.analysis.objects import (
    CONTAINERS,
    is_scalar,
    is_users_class,
    is_users_code,
)
from anabranch.analysis.processes import Processes
from anabranch.analysis.values import (
    ELEMENTS,
    LOST,
    PLAIN,
    Arguments,
    Bound,
    Fresh,
    Input,
    Known,
    Method,
    Plain,
    Root,
    Shared,
    Value,
)
from anabranch.graph.types import fields_of

_WITHOUT_FIELDS = (list, dict, set, frozenset, tuple, bytearray)
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


class Entries(Processes):
    """The part of the interpreter that reads entries of classes, and fields."""

    def field(self, root: Fresh | Input | Shared, name: str) -> Value:
        match root:
            case Fresh(_, kind) if kind is np.ndarray:  # .T, .real and so on
                return frozenset([root])
            case Fresh(_, kind) if kind in CONTAINERS:
                return PLAIN
            case Fresh(site):
                return self.heap.get(site, name) | self.heap.get(site, ELEMENTS)
            case Input(kind):
                if (get_origin(kind) or kind) in _WITHOUT_FIELDS:
                    return PLAIN
                fields = fields_of(kind) or {}
                return frozenset([typed(fields.get(name))])
        return frozenset([root])

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
            case functools.cached_property(func=types.FunctionType() as f) if owner:
                callee = frozenset([Bound(owner, f)])
                made = self.call(callee, Arguments(), node, frame)
                return made if isinstance(owner, Fresh) else self._kept(made, entry)
            case property() | types.FunctionType():
                return frozenset([Known(raw, entry.text)])
        return self._plain_entry(entry, owner, node, frame)

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
            return self.unknown(f"{shown(node)} runs a descriptor", node, frame)
        if isinstance(raw, types.MemberDescriptorType) and owner is not None:
            is_made = isinstance(owner, Fresh | Input)
            return self.field(owner, name) if is_made else LOST  # type: ignore[arg-type]
        if isinstance(raw, types.DynamicClassAttribute):  # name and value of an enum
            return PLAIN
        if owner is None and isinstance(raw, _UNBOUND_METHODS):
            return frozenset([Known(raw, entry.text)])
        if is_scalar(raw) and not is_users_class(cls):
            return frozenset([Plain(type(raw))])
        if not is_users_class(cls) or isinstance(raw, _BUILTIN_METHODS):
            target = owner if owner is not None else Known(cls, cls.__name__)
            return frozenset([Method(target, name)])
        self.found.read(name, None, raw, self.at(node, frame))
        return self.existing(raw, f"the class attribute {entry.text}", node, frame)
