"""Operators whose state is in the user's globals or outer variables.

On an engine of several processes such a state is taken from its place after each item
and put back before the next, so that it can be stored and moved like any state.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType, MemberDescriptorType
from typing import Any, ClassVar, Literal, NamedTuple

from anabranch.graph.kind import Kind, UserCode
from anabranch.operators.kernel import Kernel, Outputs, State


class StatePlace(NamedTuple):
    """A name that holds the state of a function.

    >>> str(StatePlace("global", "highest"))
    'global highest'
    """

    scope: Literal["global", "outer variable"]
    name: str

    def __str__(self) -> str:
        return f"{self.scope} {self.name}"

    def get(self, function: FunctionType) -> Any:
        """Return the value of the name, as the function sees it."""
        if self.scope == "global":
            return function.__globals__[self.name]
        return self.cell(function).cell_contents

    def put(self, function: FunctionType, value: Any) -> None:
        """Bind the name to a value."""
        if self.scope == "global":
            function.__globals__[self.name] = value
        else:
            self.cell(function).cell_contents = value

    def cell(self, function: FunctionType) -> Any:
        """Return the cell of an outer variable."""
        cells = function.__closure__ or ()
        return cells[function.__code__.co_freevars.index(self.name)]


@dataclass(frozen=True, eq=False)
class Lifted(Kind):
    """A map, filter or flat_map with its state; `initial` is its initial value."""

    kind: Kind
    places: tuple[StatePlace, ...]
    initial: tuple[Any, ...]
    label: ClassVar[str] = "lifted"

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return self.kind.user_code

    @property
    def function(self) -> Any:
        """The user's function whose state it is."""
        return self.kind.user_code[0].function


class LiftedKernel(Kernel):
    """Keeps as state the list of the values in all places."""

    stateful = True

    def __init__(self, kind: Lifted, kernel: Kernel) -> None:
        self._kind = kind
        self._kernel = kernel

    def open(self) -> State:
        return copy.deepcopy(list(self._kind.initial))

    def process(self, state: State, item: Any, port: int) -> Outputs:
        function, places = self._kind.function, self._kind.places
        for place, value in zip(places, state, strict=True):
            place.put(function, value)
        try:
            return self._kernel.process(None, item, port)
        finally:  # as with one thread: changes before a failure stand
            state[:] = [place.get(function) for place in places]

    def finish(self, state: State) -> Outputs:
        """Return the state itself; it does not belong in the stream."""
        return [list(state)]


def restore(kind: Lifted, values: Sequence[Any]) -> None:
    """Put values back where the user expects them, into the same objects if possible.

    >>> seen = []
    >>> def note(item): seen.append(item)
    >>> from anabranch.operators.stateless import Map
    >>> restore(Lifted(Map(note), (StatePlace("global", "seen"),), ([],)), [[1, 2]])
    >>> seen
    [1, 2]
    """
    for place, value in zip(kind.places, values, strict=True):
        old = place.get(kind.function)
        if type(old) is not type(value) or not _refill(old, value):
            place.put(kind.function, value)


def _refill(old: Any, new: Any) -> bool:
    """Replace the contents of an object by another's; tell whether that succeeded."""
    match old:
        case list() | bytearray():
            old[:] = new
        case dict() | set():
            old.clear()
            old.update(new)
        case deque():
            old.clear()
            old.extend(new)
        case _ if _is_its_attributes(old):
            if hasattr(old, "__dict__"):
                vars(old).clear()
                vars(old).update(vars(new))
            for name in find_slots(type(old)):
                if hasattr(new, name):
                    object.__setattr__(old, name, getattr(new, name))
                elif hasattr(old, name):
                    object.__delattr__(old, name)
        case _:
            return False
    return True


def _is_its_attributes(value: Any) -> bool:
    """Tell whether an object consists of its attributes, in a dictionary or in
    slots.
    """
    kind: Any = type(value)
    made_here = kind.__new__ is object.__new__
    return type(getattr(value, "__dict__", None)) is dict or (
        made_here and bool(find_slots(kind))
    )


def find_slots(kind: type) -> list[str]:
    """Return the slots of a class and its bases, by their names in the class.

    >>> class Pair:
    ...     __slots__ = ("left", "__right")
    >>> sorted(find_slots(Pair))
    ['_Pair__right', 'left']
    >>> from types import SimpleNamespace
    >>> find_slots(SimpleNamespace)
    []
    """
    return [
        name
        for base in reversed(kind.__mro__)
        if "__slots__" in vars(base)  # members of a class in C may be read-only
        for name, entry in vars(base).items()
        if isinstance(entry, MemberDescriptorType)
    ]
