"""The special methods that Python and the engines run implicitly.

One table maps each operation of the language or of an engine to the methods of the data
model it may run on an operand. Fallbacks are listed with what they replace: `in`
iterates over a container without `__contains__`, and both operands of `+` are asked.
The interpreter runs all of them that a user's class defines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

_BINARY: Final = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "truediv",
    "//": "floordiv",
    "%": "mod",
    "**": "pow",
    "@": "matmul",
    "&": "and",
    "|": "or",
    "^": "xor",
    "<<": "lshift",
    ">>": "rshift",
}


ORDER: Final = ("__lt__", "__le__", "__gt__", "__ge__", "__eq__")


def _both(*names: str) -> tuple[str, ...]:
    """Return operators together with their reflected forms."""
    return tuple(f"__{r}{name}__" for name in names for r in ("", "r"))


_HASH: Final = ("__hash__", "__eq__")
_TRUTH: Final = ("__bool__", "__len__")
_STEPS: Final = ("__iter__", "__next__", "__getitem__")
READ_HOOKS: Final = ("__getattribute__", "__getattr__")
_ALL_STEPS: Final = (*_STEPS, "__len__", "__length_hint__", "__missing__")

IMPLICIT: Final[Mapping[str, tuple[str, ...]]] = {
    # What expressions and statements run.
    **{op: _both(name) for op, name in _BINARY.items()},
    "repeat": ("__index__",),
    **{f"{op}=": (f"__i{name}__", *_both(name)) for op, name in _BINARY.items()},
    **{name: (f"__{name}__",) for name in ("neg", "pos", "invert")},
    "truth": _TRUTH,
    "==": ("__eq__",),
    "!=": ("__ne__", "__eq__"),
    "<": ("__lt__", "__gt__"),
    "<=": ("__le__", "__ge__"),
    ">": ("__gt__", "__lt__"),
    ">=": ("__ge__", "__le__"),
    **dict.fromkeys(("in", "not in"), ("__contains__", *_STEPS, "__eq__", "__hash__")),
    "hash": _HASH,
    "text": ("__format__", "__str__", "__repr__"),
    "index": ("__index__",),
    "iterate": ("__next__", "__len__"),
    "element": ("__getitem__", "__iter__", "__next__", "__missing__"),
    "set element": ("__setitem__", "__delitem__"),
    "attribute": READ_HOOKS,
    "set attribute": ("__setattr__",),
    "delete attribute": ("__delattr__",),
    "with": ("__enter__", "__exit__"),
    "unpack mapping": ("keys",),
    "match mapping": ("get", "keys"),
    "match sequence": ("__len__",),
    "class": ("__instancecheck__", "__subclasscheck__"),
    "construct": ("__new__", "__init__", "__post_init__"),
    "end": ("__del__",),
    "call": ("__call__",),
    "time zone": ("utcoffset", "dst", "tzname", "fromutc"),
    # What engines run on keys, times, columns and items.
    "key": _HASH,
    "merge": (*ORDER, "__bool__"),
    "measure": (*ORDER, "__bool__", *_both("sub", "floordiv", "mul", "add")),
    **dict.fromkeys(("sum", "mean"), _both("add", "truediv")),
    **dict.fromkeys(("min", "max", "highest", "lowest"), (*ORDER, "__bool__")),
    "counts": _HASH,
    "pickle": (
        *("__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__"),
        *("__getnewargs_ex__", "__setstate__"),
    ),
}
# What builtins run on their arguments and the contents of these; others may run
# anything.
BUILTINS: Final[Mapping[Any, tuple[str, ...]]] = {
    **dict.fromkeys((repr, ascii), ("__repr__",)),
    str: ("__str__", "__repr__"),
    format: ("__format__", "__str__", "__repr__"),
    len: ("__len__",),
    hash: ("__hash__",),
    bool: _TRUTH,
    abs: ("__abs__",),
    round: ("__round__", "__index__"),
    pow: _both("pow"),
    math.floor: ("__floor__", "__float__", "__index__"),
    math.ceil: ("__ceil__", "__float__", "__index__"),
    math.trunc: ("__trunc__",),
    int: ("__int__", "__index__", "__trunc__"),
    float: ("__float__", "__index__"),
    **dict.fromkeys((isinstance, issubclass, callable), ("__class__", *READ_HOOKS)),
    **dict.fromkeys((list, tuple), _ALL_STEPS),
    iter: (*_ALL_STEPS, "__eq__"),  # of what ends it
    enumerate: (*_ALL_STEPS, "__index__"),
    **dict.fromkeys((map, filter, any, all, zip), (*_ALL_STEPS, *_TRUTH)),
    **dict.fromkeys((set, frozenset), (*_ALL_STEPS, *_HASH)),
    reversed: ("__reversed__", *_ALL_STEPS),
    **dict.fromkeys((sorted, min, max), (*_ALL_STEPS, *ORDER, *_TRUTH, "__index__")),
    sum: (*_ALL_STEPS, *_both("add")),
}
# What Python runs on the result of a special method.
RESULTS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys((*ORDER, "__ne__", "__contains__", "__instancecheck__"), _TRUTH),
    **dict.fromkeys(("__subclasscheck__", "__exit__"), _TRUTH),
    **dict.fromkeys(("__len__", "__length_hint__"), ("__index__",)),
    **dict.fromkeys(("__iter__", "__reversed__"), ("__next__",)),
}
# What libraries call on a subclass of a built-in class.
READ_BY_LIBRARIES: Final = (
    *("keys", "items", "values", "get", "copy", "encode", "isoformat", "tzname"),
    *("as_integer_ratio", "conjugate", "is_integer", "total_seconds", "timetuple"),
)
IN_PLACE: Final = tuple(dict.fromkeys(n for op in _BINARY for n in IMPLICIT[f"{op}="]))


def name_of_operator(op: str) -> str:
    """Return the name of an operator in the data model.

    >>> name_of_operator("+")
    'add'
    """
    return _BINARY[op]
