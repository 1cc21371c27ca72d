"""The names that a function uses: globals, attributes of objects, and modules."""

from __future__ import annotations

import dis
import functools
from types import CodeType
from typing import NamedTuple

_GLOBALS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"})
_ATTRIBUTES = frozenset(
    # a name that is only written is never seen
    {"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"}
)
_COMPUTING = frozenset({"getattr", "setattr", "delattr", "hasattr", "vars", "dir"})
_BY_TEXT = frozenset({"__dict__", "__getattribute__", "__setattr__"})


class CodeNames(NamedTuple):
    """The names in a piece of code; if some are `computed`, it may use any
    attribute. `modules` are those that it imports as it runs.
    """

    globals: frozenset[str]
    attributes: frozenset[str]
    computed: bool
    modules: frozenset[str] = frozenset()


@functools.lru_cache(maxsize=4096)
def names_of(code: CodeType) -> CodeNames:
    """Return the names that a piece of code and its nested functions use.

    >>> def area(shape): return SCALE * shape.width
    >>> names_of(area.__code__)[:3]
    (frozenset({'SCALE'}), frozenset({'width'}), False)
    """
    names: set[str] = set()
    attributes: set[str] = set()
    modules: set[str] = set()
    waiting = [code]
    module = ""
    while waiting:
        one = waiting.pop()
        waiting += [each for each in one.co_consts if isinstance(each, CodeType)]
        for instruction in dis.get_instructions(one):
            if instruction.opname in _GLOBALS:
                names.add(instruction.argval)
            elif instruction.opname in _ATTRIBUTES:
                attributes.add(instruction.argval)
            elif instruction.opname == "IMPORT_NAME":
                module = instruction.argval
                modules.add(module)
            elif instruction.opname == "IMPORT_FROM":  # of a package, perhaps a module
                modules.add(f"{module}.{instruction.argval}")
    computed = not (_COMPUTING.isdisjoint(names) and _BY_TEXT.isdisjoint(attributes))
    return CodeNames(
        frozenset(names), frozenset(attributes), computed, frozenset(modules)
    )
