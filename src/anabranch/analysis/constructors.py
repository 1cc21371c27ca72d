"""What making an instance of a class of the user's does."""

from __future__ import annotations

import ast
import dataclasses
import enum
import types

from anabranch.analysis.classes import member_of
from anabranch.analysis.effects import Frame
from anabranch.analysis.library import Library
from anabranch.analysis.methods import called
from anabranch.analysis.objects import (
    class_attribute,
    field_names,
    is_users_class,
    is_users_code,
)
from anabranch.analysis.values import (
    ELEMENTS,
    Arguments,
    Fresh,
    Value,
)


class Constructors(Library):
    """The part of the interpreter that makes instances."""

    def _construct(
        self, cls: type, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        if not is_users_class(cls):
            return self._call_library(cls, args, node, frame)
        if issubclass(cls, enum.Enum):
            return frozenset([member_of(cls)])
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
                self._run_constructor(function, made, given, node, frame)
            elif name != "__post_init__" and not isinstance(
                raw, types.WrapperDescriptorType | types.BuiltinFunctionType
            ):
                self.unknown(f"{called(node)} is constructed by {raw!r}", node, frame)
        self.run_special(made, ("__del__",), node, frame, Arguments())
        return root

    def _run_constructor(
        self,
        function: types.FunctionType,
        made: Fresh,
        args: Arguments,
        node: ast.AST,
        frame: Frame,
    ) -> None:
        generated = function.__code__.co_filename.startswith(
            ("<string>", "<namedtuple")
        )
        if generated and field_names(made.type) is not None:
            return
        if not is_users_code(function.__code__):
            text = f"{called(node)} is constructed by code of another package"
            self.unknown(text, node, frame)
            return
        own = [frozenset([made]), *args.positional]
        given = Arguments(own, args.keywords, args.rest)
        self.call_function(function, given, node, frame)

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
