"""Copies of outputs that their operator may go on changing.

An item is what it was when it was given. If the analysis cannot show that an operator
leaves alone what it gave (see `Traits.copied`), each output is copied as it is given,
on every engine.
"""

from __future__ import annotations

import copy
import copyreg
import datetime as dt
import decimal
import fractions
import functools
import io
import sys
import types
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, Final

from anabranch.errors import OperatorError
from anabranch.graph.graph import Op

_SCALARS: Final = frozenset(
    (
        *(bool, int, float, complex, str, bytes, range, slice),
        *(type, types.NoneType, types.EllipsisType, types.FunctionType),
        *(dt.date, dt.datetime, dt.time, dt.timedelta, dt.timezone),
        *(decimal.Decimal, fractions.Fraction, uuid.UUID),
    )
)
_HOOKS: Final = ("__deepcopy__", "__reduce_ex__", "__reduce__", "__getstate__")


_VIEWS: Final = {type({}.keys()): "keys", type({}.values()): "values"}
_VIEWS[type({}.items())] = "items"


def copy_output(value: Any) -> Any:
    """Return a copy of a value that no later change of the original reaches.

    What cannot change is its own copy; so is a resource such as a lock or an open file.

    >>> row = [1, {"a": [2]}]
    >>> given = copy_output(row)
    >>> row[1]["a"].append(3)
    >>> given
    [1, {'a': [2]}]
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    made = _copy_flat(kind, value)
    if made is not None:
        return made
    try:
        return _copy_deeply(value, {})
    except RecursionError as error:
        raise _refuse(value, "it is nested too deeply") from error


def _copy_deeply(value: Any, memo: dict[int, Any]) -> Any:  # noqa: C901 - a table
    kind = type(value)
    if kind in _SCALARS or kind is object or _is_numpy_scalar(kind):  # type: ignore[arg-type]
        return value
    if id(value) in memo:
        return memo[id(value)]
    copied = functools.partial(_copy_deeply, memo=memo)
    made: Any
    if kind is list:
        made = memo[id(value)] = []
        made.extend(map(copied, value))
    elif kind is dict:
        made = memo[id(value)] = {}
        made.update((copied(key), copied(each)) for key, each in value.items())
    elif kind in (set, frozenset):
        made = memo[id(value)] = kind(map(copied, value))
    elif issubclass(kind, tuple) and not kind.__dictoffset__:
        parts = [*map(copied, tuple.__iter__(value))]
        same = all(old is new for old, new in zip(value, parts, strict=True))
        made = memo[id(value)] = value if same else tuple.__new__(kind, parts)
    elif kind in _VIEWS:
        made = getattr(_copy_deeply(dict(value.mapping), memo), _VIEWS[kind])()
    elif kind is memoryview:
        made = memoryview(value.tobytes()).cast(value.format)
    elif kind is types.BuiltinMethodType and not isinstance(
        value.__self__, types.ModuleType | type | None
    ):
        made = getattr(copied(value.__self__), value.__name__)
    elif _is_its_attributes(kind):
        if not vars(value):
            return value  # it is known by its identity alone
        made = memo[id(value)] = object.__new__(kind)
        made.__dict__.update((name, copied(each)) for name, each in vars(value).items())
    else:
        made = _copy_by_itself(value, memo)
    memo.setdefault(id(memo), []).append(value)  # alive as long as its id counts
    return made


def _copy_by_itself(value: Any, memo: dict[int, Any]) -> Any:
    """Return the copy that a class makes, or the object if it is a resource."""
    try:
        return copy.deepcopy(value, memo)
    except RecursionError:
        raise
    except Exception as error:
        if isinstance(value, io.IOBase):
            return value
        if isinstance(value, Iterator) or _is_in_python(type(value)):
            raise _refuse(value, str(error)) from error
        return value


def _is_in_python(kind: type) -> bool:
    """Tell whether a class is written in Python."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    return file.endswith(".py") or kind.__module__ == "__main__"


def _refuse(value: Any, why: str) -> OperatorError:
    return OperatorError(
        f"an output that its operator may change later is copied, so it must be possible "
        f"to copy it; got a {type(value).__name__}, and {why}; give a new object each "
        f"time, such as list(...) of it"
    )


@functools.lru_cache(maxsize=256)  # classes of items
def _is_numpy_scalar(kind: type) -> bool:
    """Tell whether a class is a scalar of NumPy, without loading NumPy."""
    names = [(base.__module__, base.__name__) for base in kind.__mro__]
    return ("numpy", "generic") in names and ("numpy", "void") not in names


def _copy_flat(kind: type, value: Any) -> Any | None:
    """Return a copy of an object that holds only scalars; None if it may hold more."""
    if kind is list:
        return value[:] if _are_scalars(value) else None
    if kind is dict:
        return value.copy() if _are_scalars(value.values()) else None
    if issubclass(kind, tuple):
        return value if not kind.__dictoffset__ and _are_scalars(value) else None
    if _is_its_attributes(kind) and vars(value) and _are_scalars(vars(value).values()):
        made = object.__new__(kind)
        made.__dict__.update(vars(value))
        return made
    return None


def _are_scalars(values: Iterable[Any]) -> bool:
    return _SCALARS.issuperset(map(type, values))


def iterate_copied(op: Op, items: Iterable[Any]) -> Iterator[Any]:
    """Iterate over the items of a source as they were given."""
    return map(copy_output, items) if op.copied else iter(items)


def _is_its_attributes(kind: Any) -> bool:
    """Tell whether the instances of a class are made by Python alone, of a dictionary
    of attributes.

    >>> class Row:
    ...     pass
    >>> _is_its_attributes(Row), _is_its_attributes(set)
    (True, False)
    """
    return (
        kind.__new__ is object.__new__
        and bool(kind.__dictoffset__)
        and kind.__basicsize__ == _OF_ATTRIBUTES
        and kind not in copyreg.dispatch_table
        and not any(
            getattr(kind, hook, None) is not getattr(object, hook, None)
            for hook in _HOOKS
        )
    )


class _Attributes:
    """A class whose instances have a dictionary and nothing else."""


_OF_ATTRIBUTES: Final = _Attributes.__basicsize__
