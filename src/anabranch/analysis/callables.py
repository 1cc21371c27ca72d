"""From whatever can be called to the function that runs, and its syntax tree."""

from __future__ import annotations

import functools
import types
from typing import Any, NamedTuple

from anabranch.analysis.objects import class_attribute
from anabranch.analysis.scopes import parameter_names
from anabranch.analysis.source import FunctionNode, node_of, shown_path


class Written(NamedTuple):
    """A function that the user wrote out, and its parameters that are still open."""

    function: Any  # a FunctionType; mypy would take such a field for a method
    node: FunctionNode
    parameters: tuple[str, ...]

    @property
    def file(self) -> str:
        """The file as it is shown."""
        return shown_path(self.function.__code__.co_filename)


def written(target: Any) -> Written | None:
    """Return the function that runs when `target` is called; None without source.

    >>> written(len) is None
    True
    """
    taken, named = 0, set[str]()
    while type(target) is not types.FunctionType:
        match target:
            case functools.partial():
                taken += len(target.args)
                named |= set(target.keywords)
                target = target.func
            case types.MethodType():
                taken += 1
                target = target.__func__
            case functools._lru_cache_wrapper():  # noqa: SLF001 - a type
                target = target.__wrapped__
            case type():
                return None
            case _:
                target = class_attribute(type(target), "__call__")
                if not isinstance(target, types.FunctionType):
                    return None
                taken += 1
    node = node_of(target.__code__)
    if node is None:
        return None
    names = [n for n in parameter_names(node.args)[taken:] if n not in named]
    return Written(target, node, tuple(names))
