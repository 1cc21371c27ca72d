"""What happens when code writes to a value: allowed on what it made itself, else not."""

from __future__ import annotations

import ast

from anabranch.analysis.attributes import Attributes
from anabranch.analysis.classes import class_of
from anabranch.analysis.effects import Frame, shown
from anabranch.analysis.objects import (
    CALLABLES,
    MISSING,
    class_attribute,
    is_users_class,
)
from anabranch.analysis.values import (
    ELEMENTS,
    NOTHING,
    PLAIN,
    Arguments,
    Fresh,
    Input,
    Known,
    Lost,
    Plain,
    Root,
    Shared,
    Value,
)


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

    def _change(
        self, root: Root, stored: Value, node: ast.AST, frame: Frame, name: str
    ) -> None:
        what = shown(node)
        match root:
            case Plain(kind) if is_users_class(kind):  # a member of an enum
                text = f"{what} changes a member of {kind.__name__}"  # type: ignore[union-attr]
                self.found.effect("changes", text, self.at(node, frame))
            case Plain() | Lost():
                return
            case Fresh(site):
                self.heap.put(site, name, stored)
            case Input():
                at = self.at(node, frame)
                self.found.effect("changes", f"{what} changes the input item", at)
            case Known(obj=obj, text=text):
                self.found.change(obj, f"{what} changes {text}", self.at(node, frame))
            case Shared(text, target):
                self.found.change_inside(
                    target, f"{what} changes {text}", self.at(node, frame)
                )
            case _:
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
                callee: Value = self.existing(
                    raw.fset, f"the setter {name}", node, frame
                )
                args = Arguments([frozenset([root]), stored])
                self.call(callee, args, node, frame)
            elif (
                raw is not MISSING
                and hasattr(type(raw), "__set__")
                and type(raw).__name__ not in ("member_descriptor", "_tuplegetter")
            ):
                self.unknown(f"{shown(node)} runs a descriptor", node, frame)
            else:
                self._change(root, stored, node, frame, name)
            args = Arguments([PLAIN, stored])
            self.run_special(root, ("__setattr__",), node, frame, args)

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


IN_PLACE = tuple(
    f"__{prefix}{name}__"
    for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
        *("and", "or", "xor", "lshift", "rshift"),
    )
    for prefix in ("i", "", "r")
)
