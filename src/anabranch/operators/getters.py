"""Reading a value from an item: an attribute, an entry of a dict, or a function of
it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

_SCALARS = (bool, int, float, str, bytes, type(None))


class KeyFunction(str):  # noqa: SLOT000 - a text cannot have slots of its own
    """A part of a key computed by a function of the item; as text it is its name.

    It appears in a key among the names of attributes. An operator that forwards the
    attributes of an item one by one does not forward a function of all of them, and no
    attribute has its name.

    >>> KeyFunction.of(len), KeyFunction.of(len) == KeyFunction.of(len)
    ('len()', True)
    """

    function: Callable[[Any], Any]

    @classmethod
    def of(cls, function: Callable[[Any], Any]) -> KeyFunction:
        """Return the part of a key that a function computes."""
        plain = function
        while hasattr(plain, "func"):  # functools.partial
            plain = plain.func
        name = getattr(plain, "__qualname__", type(plain).__qualname__)
        made = cls(f"{name.rpartition('<locals>.')[2]}()")
        made.function = function
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyFunction) and _same(self.function, other.function)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)

    def __reduce__(self) -> Any:
        return KeyFunction.of, (self.function,)


def _same(one: Any, other: Any) -> bool:
    """Tell whether two functions are the same, possibly as unpickled copies."""
    if one is other:
        return True
    if not (isinstance(one, FunctionType) and isinstance(other, FunctionType)):
        return type(one) is type(other) and bool(one == other)
    if one.__code__ != other.__code__ or one.__module__ != other.__module__:
        return False
    return _same_values(one.__defaults__, other.__defaults__) and _same_values(
        tuple(_contents(one)), tuple(_contents(other))
    )


def _contents(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        yield cell.cell_contents


def _same_values(one: tuple[Any, ...] | None, other: tuple[Any, ...] | None) -> bool:
    pairs = zip(one or (), other or (), strict=True)
    return all(
        a is b or (type(a) is type(b) and isinstance(a, _SCALARS) and a == b)
        for a, b in pairs
    )


def attribute_getter(name: str) -> Callable[[Any], Any]:
    """Return the function from an item to one of its attributes or key parts.

    >>> attribute_getter("real")(2.0), attribute_getter("user")({"user": "ada"})
    (2.0, 'ada')
    """
    if isinstance(name, KeyFunction):
        return name.function
    get = operator.attrgetter(name)

    def read(item: Any) -> Any:
        return item[name] if isinstance(item, dict) else get(item)

    return read


def key_getter(attributes: tuple[str, ...]) -> Callable[[Any], Any]:
    """Return the function from an item to its key.

    >>> key_getter(("real", "imag"))(1 + 2j), key_getter(("a",))({"a": 5})
    ((1.0, 2.0), 5)
    """
    if len(attributes) == 1:
        return attribute_getter(attributes[0])
    parts = tuple(map(attribute_getter, attributes))
    if any(isinstance(name, KeyFunction) for name in attributes):
        return lambda item: tuple([get(item) for get in parts])
    get_all = operator.attrgetter(*attributes)

    def read(item: Any) -> Any:
        if isinstance(item, dict):
            return tuple([item[name] for name in attributes])
        return get_all(item)

    return read
