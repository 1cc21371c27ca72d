"""The names that a function uses: globals, and attributes of objects."""

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
    attribute.
    """

    globals: frozenset[str]
    attributes: frozenset[str]
    computed: bool


@functools.lru_cache(maxsize=4096)
def names_of(code: CodeType) -> CodeNames:
    """Return the names that a piece of code and its nested functions use.

    >>> def area(shape): return SCALE * shape.width
    >>> names_of(area.__code__)
    CodeNames(globals=frozenset({'SCALE'}), attributes=frozenset({'width'}), computed=False)
    """
    names: set[str] = set()
    attributes: set[str] = set()
    waiting = [code]
    while waiting:
        one = waiting.pop()
        waiting += [each for each in one.co_consts if isinstance(each, CodeType)]
        for instruction in dis.get_instructions(one):
            if instruction.opname in _GLOBALS:
                names.add(instruction.argval)
            elif instruction.opname in _ATTRIBUTES:
                attributes.add(instruction.argval)
    computed = not (_COMPUTING.isdisjoint(names) and _BY_TEXT.isdisjoint(attributes))
    return CodeNames(frozenset(names), frozenset(attributes), computed)
