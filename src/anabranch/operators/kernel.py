"""Kernels: how an operator is executed, one item at a time.

A kernel is the executable side of a kind. It holds no data between items: an operator's
memory is in a *state* that the engine keeps (one per key, or one for all), passes in,
and may store between two items.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeAlias

State: TypeAlias = Any  # picklable; changed in place by the kernel
Outputs: TypeAlias = Sequence[Any]  # items; (output port, item) if the kernel is routed


class Turn(NamedTuple):
    """A step of an advance of the clock, or of the end, that may fail by itself.

    It belongs to a `key`, and `order` is its sort key across all replicas: keys, and
    tuples of them. An advance that is passed on has none.
    """

    order: tuple[Any, ...] | None
    key: Any
    run: Callable[[], Outputs]


class Kernel(ABC):
    """The base class: stateless, and punctuations pass through.

    `stateful`: `open` returns a fresh state. `routed`: outputs are pairs of an output
    port and an item. `forwards_punctuation`: a punctuation goes on to the consumers.
    `handles_punctuation`: `punctuation(state)` is called at each of them, in key order.
    `finishes`: `finish(state)` may have outputs. `ends_by_key`: at
    the end each key has one turn, independent of the others. `forwards_clock`: an advance of the
    clock goes on where a punctuation would. `handles_clock`: `advance(state, sign,
    port)` is called at each of them. `makes_clock`: there are advances among the
    outputs. `decides_on`: the attribute by which `find_deciding` judges items; None: by
    themselves.
    """

    stateful: ClassVar[bool] = False
    routed: ClassVar[bool] = False
    forwards_punctuation: bool = True
    handles_punctuation: bool = False
    finishes: bool = False
    ends_by_key: bool = True
    forwards_clock: bool = True
    handles_clock: bool = False
    makes_clock: bool = False
    decides_on: str | None = None

    def open(self) -> State:
        """Return the state before the first item."""
        return None

    @abstractmethod
    def process(self, state: State, item: Any, port: int) -> Outputs:
        """Return the outputs for one item that arrived on `port`."""

    def punctuation(self, state: State) -> Outputs:
        """Return the outputs at a window punctuation."""
        return ()

    def finish(self, state: State) -> Outputs:
        """Return the outputs at the end of the stream."""
        return ()

    def find_shared(self, state: State) -> Any:
        """Return the part of a state that all replicas share; None if there is none.

        It only grows: of two replicas' values, the greater is the later.
        """
        return None

    def share(self, state: State, shared: Any) -> None:
        """Set the part of a state that all replicas share."""
        msg = f"replicas of {type(self).__name__} see nothing alike; got {shared!r}"
        raise TypeError(msg)

    def set_idle(self, state: State, ports: frozenset[int]) -> None:  # noqa: B027 - most meet nobody
        """Set the inputs that do not hold the clock back for now, because they are
        silent.
        """

    def find_deciding(self, values: Iterable[Any]) -> list[int]:
        """Return the items of a range that decide the initial state of the next range.

        These alone, in order, lead to the same state as the whole range. Called if
        `keeps_clock` holds, with the value named by `decides_on` of each item.
        """
        msg = f"what {type(self).__name__} keeps depends on all items"
        raise TypeError(msg)

    def advance(self, state: State, sign: Any, port: int) -> Iterator[Turn]:
        """Yield the turns that an advance of the clock causes, in order."""
        return iter(())

    def endings(self, key: Any, state: State) -> Iterator[Turn]:
        """Yield the turns that the end of the stream causes, in order."""
        yield Turn((key,), key, partial(self.finish, state))
