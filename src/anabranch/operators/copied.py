"""Copies outputs that their operator may still change.

An item keeps the value that it had when it was emitted. If the analysis cannot show
that an operator leaves its outputs alone afterwards (see `Traits.copied`), each output
is copied when it is emitted, on every engine.
"""

from __future__ import annotations

import copy
import copyreg
import datetime as dt
import decimal
import fractions
import functools
import io
import itertools
import operator
import sys
import types
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from anabranch.errors import OperatorError

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
_GROUP: Final = type(next(itertools.groupby([0]))[1])


def copy_output(value: Any) -> Any:
    """Return a copy of a value that no later change of the original reaches.

    What cannot change is its own copy; so is a resource such as a lock or an open file.
    A group of `itertools.groupby`, which the next group ends, is read to its end.

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
        return _DeepCopy().copy(value)
    except RecursionError as error:
        raise _refuse(value, "it is nested too deeply") from error


class _DeepCopy:
    """A copy of an object and of everything it reaches.

    A list, a table or an object is made empty and filled later, so that a chain of any
    length needs no recursion. What must be complete when it is made is copied first:
    the parts of a tuple, keys, and the arguments of a constructor.
    """

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}  # by the id of the original, as of deepcopy
        self._alive: list[Any] = []  # originals, as long as their ids count
        self._unfilled: list[Callable[[], None]] = []

    def copy(self, value: Any) -> Any:
        """Return a complete copy."""
        made = self._begin(value)
        while self._unfilled:
            self._unfilled.pop()()
        return made

    def _begin(self, value: Any) -> Any:
        """Return the copy of an object, which may still have to be filled."""
        kind = type(value)
        if kind in _SCALARS or kind is object or _is_numpy_scalar(kind):  # type: ignore[arg-type]
            return value
        if id(value) in self._made:
            return self._made[id(value)]
        self._alive.append(value)
        copy_kind = _BY_KIND.get(kind)
        if copy_kind is not None:
            return copy_kind(self, value)
        if issubclass(kind, tuple) and not kind.__dictoffset__:
            return self.copy_tuple(value)
        if _is_its_attributes(kind):
            return self._copy_attributes(value)
        return self._copy_other(value)

    def _keep(self, value: Any, made: Any) -> Any:
        self._made[id(value)] = made
        return made

    def copy_list(self, value: Any) -> Any:
        """Return a list to fill."""
        made: list[Any] = self._keep(value, [])
        self._unfilled.append(lambda: made.extend(map(self._begin, value)))
        return made

    def copy_dict(self, value: Any) -> Any:
        """Return a table to fill; its keys are complete."""
        made: dict[Any, Any] = self._keep(value, {})

        def fill() -> None:
            for key, each in value.items():
                made[key if type(key) in _SCALARS else self.copy(key)] = self._begin(
                    each
                )

        self._unfilled.append(fill)
        return made

    def copy_set(self, value: Any) -> Any:
        """Return a set of complete elements."""
        return self._keep(value, type(value)(map(self.copy, value)))

    def copy_tuple(self, value: Any) -> Any:
        """Return a tuple; itself if its parts are their own copies."""
        parts = [*map(self._begin, tuple.__iter__(value))]
        same = all(map(operator.is_, tuple.__iter__(value), parts))
        return self._keep(value, value if same else tuple.__new__(type(value), parts))

    def copy_view(self, value: Any) -> Any:
        """Return the view of a copied table."""
        table = self._begin(dict(value.mapping))
        return self._keep(value, getattr(table, _VIEWS[type(value)])())

    def copy_method(self, value: Any) -> Any:
        """Return a built-in method of a copied object."""
        owner = value.__self__
        if owner is None or isinstance(owner, types.ModuleType | type):
            return value
        return self._keep(value, getattr(self.copy(owner), value.__name__))

    def copy_bound(self, value: Any) -> Any:
        """Return a method of a copied object."""
        made = types.MethodType(value.__func__, self._begin(value.__self__))
        return self._keep(value, made)

    def copy_memory(self, value: Any) -> Any:
        """Return a view of copied bytes."""
        made = memoryview(value.tobytes()).cast(value.format)
        return self._keep(value, made)

    def copy_group(self, value: Any) -> Any:
        """Return an iterator over the whole group."""
        return self._keep(value, iter([*map(self._begin, value)]))

    def _copy_attributes(self, value: Any) -> Any:
        held = vars(value)
        if not held:
            return value  # it is known by its identity alone
        made = self._keep(value, object.__new__(type(value)))
        self._unfilled.append(lambda: self._fill(made, held))
        return made

    def _fill(self, made: Any, held: dict[str, Any]) -> None:
        made.__dict__.update((name, self._begin(each)) for name, each in held.items())

    def _copy_other(self, value: Any) -> Any:
        """Return the copy that a class makes, or the object if it is a resource."""
        try:
            if not hasattr(type(value), "__deepcopy__"):
                return self._reduce(value)
            made = copy.deepcopy(value, self._made)
            if made is not value or not _is_in_python(type(value)):
                return made
        except RecursionError:
            raise
        except Exception as error:
            if isinstance(value, io.IOBase):
                return value
            if isinstance(value, Iterator) or _is_in_python(type(value)):
                raise _refuse(value, str(error)) from error
            return value
        try:  # it calls itself its own copy, but may change
            self._made.pop(id(value), None)
            return self._reduce(value)
        except RecursionError:
            raise
        except Exception:  # noqa: BLE001 - the user's code may raise anything
            return value

    def _reduce(self, value: Any) -> Any:
        """Return a copy made of the parts that a class gives for pickling."""
        reducer = copyreg.dispatch_table.get(type(value))
        parts: Any = value.__reduce_ex__(4) if reducer is None else reducer(value)
        if isinstance(parts, str):
            return value
        padded: list[Any] = [*list(parts), None, None, None]
        make, args, state, listed, paired = padded[:5]
        made = self._keep(value, make(*map(self.copy, args)))
        if made is value:
            return value
        if state is not None and hasattr(made, "__setstate__"):
            made.__setstate__(self.copy(state))
        elif state is not None:
            named, slots = state if type(state) is tuple else (state, None)
            if named is not None:
                self._unfilled.append(lambda: self._fill(made, named))
            if slots is not None:
                self._unfilled.append(lambda: self._fill_slots(made, slots))
        for each in listed or ():
            made.append(self.copy(each))
        for key, each in paired or ():
            made[self.copy(key)] = self.copy(each)
        return made

    def _fill_slots(self, made: Any, held: dict[str, Any]) -> None:
        for name, each in held.items():
            object.__setattr__(made, name, self._begin(each))


_BY_KIND: Final[dict[type, Callable[[_DeepCopy, Any], Any]]] = {
    list: _DeepCopy.copy_list,
    dict: _DeepCopy.copy_dict,
    set: _DeepCopy.copy_set,
    frozenset: _DeepCopy.copy_set,
    **dict.fromkeys(_VIEWS, _DeepCopy.copy_view),
    memoryview: _DeepCopy.copy_memory,
    types.BuiltinMethodType: _DeepCopy.copy_method,
    types.MethodType: _DeepCopy.copy_bound,
    _GROUP: _DeepCopy.copy_group,
}


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
