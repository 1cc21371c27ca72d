"""Storage for the states of a running operator: a dictionary by key."""

from __future__ import annotations

import itertools
import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, NamedTuple, Protocol

from anabranch.graph.graph import Op
from anabranch.operators.kernel import Kernel, State
from anabranch.runtime.keys import key_bytes


class Holder(Protocol):
    """Holds the states of an operator in another form, such as columns."""

    keys: list[Any]

    def put_back(self, states: dict[Any, State]) -> None:
        """Put all states back; one that is already there is newer."""

    def list_changes(self) -> Iterable[tuple[Any, State | HeldItems]]:
        """Return keys with states changed since the last call."""


PLAIN_TYPES = frozenset({int, float, bool, str, bytes, type(None)})


class HeldColumn(NamedTuple):
    """Values of one attribute: a list, one for all, or numbers as bytes.

    The format of numbers is that of `array`, "q" or "d", 64 bits, little-endian.

    >>> HeldColumn("q", bytes([7, *7 * [0]]), 1).list_values()
    [7]
    >>> HeldColumn("same", "A", 3).list_values()
    ['A', 'A', 'A']
    """

    form: str
    data: Any
    length: int

    def list_values(self) -> Sequence[Any]:
        """Return the values."""
        if self.form == "listed":
            return self.data  # type: ignore[no-any-return]
        if self.form == "same":
            return [self.data] * self.length
        numbers = array(self.form, self.data)
        if sys.byteorder == "big":
            numbers.byteswap()
        return numbers.tolist()


class HeldItems(NamedTuple):
    """A state that is a list of tuples of one type, given as columns.

    If `plain`, all values in them are of the plain types.
    """

    type: Any
    columns: tuple[HeldColumn, ...]
    plain: bool = False

    def list_items(self) -> list[Any]:
        """Return the items."""
        values = [column.list_values() for column in self.columns]
        rows = zip(*values, strict=True)
        return list(map(tuple.__new__, itertools.repeat(self.type), rows))


class LentStates(dict[Any, State]):
    """States by key, some of which a holder may have until they are needed.

    Access to all states, or to one that is not here, makes the holder put all back. So
    kernels keep theirs in columns from batch to batch, invisibly to everyone else.
    """

    holder: Holder | None = None

    def settle(self) -> None:
        """Have the holder put back its states."""
        holder, self.holder = self.holder, None
        if holder is not None:
            holder.put_back(self)

    def count_keys(self) -> int:
        """Return the number of keys without putting them back; any thread may call
        it.
        """
        holder = self.holder
        return dict.__len__(self) + (0 if holder is None else len(holder.keys))

    def clear(self) -> None:
        self.holder = None
        super().clear()

    def _find_lent(self, key: Any) -> bool:
        """Tell whether a holder has just put a state back."""
        if self.holder is None:
            return False
        self.settle()
        return dict.__contains__(self, key)


_LOOKS = (
    *("__contains__", "__delitem__", "__eq__", "__ior__", "__iter__", "__len__"),
    *("__ne__", "__or__", "__repr__", "__reversed__", "__ror__", "copy", "get"),
    *("items", "keys", "pop", "popitem", "setdefault", "update", "values"),
)


def _settle_first(name: str) -> Callable[..., Any]:
    look = getattr(dict, name)

    @wraps(look)
    def settle_and_look(self: LentStates, *given: Any, **named: Any) -> Any:
        for one in (self, *given):
            if isinstance(one, LentStates):
                one.settle()
        return look(self, *given, **named)

    return settle_and_look


for _name in _LOOKS:
    setattr(LentStates, _name, _settle_first(_name))


class States(LentStates):
    """The states of one operator by key; a new key gets a fresh state.

    An operator without a key has the single state `()`, present from the start.

    >>> from anabranch.operators.custom import Scan
    >>> from anabranch.runtime.interpreter import kernel_of
    >>> op = Op("count", Scan(lambda n, item: (n + 1, n), 0), key=("symbol",))
    >>> states = States(op, kernel_of(op))
    >>> states["A"], sorted(states)
    ([0], ['A'])
    """

    def __init__(self, op: Op, kernel: Kernel, *, fresh: bool = True) -> None:
        """Open the initial states, unless states are about to be moved in."""
        super().__init__()
        self._kernel = kernel
        if fresh and not op.state_key:
            self[()] = kernel.open()

    def __missing__(self, key: Any) -> State:
        if self._find_lent(key):
            return self[key]
        key_bytes(key)  # refuses what cannot be a key on any engine
        state = self[key] = self._kernel.open()
        return state
