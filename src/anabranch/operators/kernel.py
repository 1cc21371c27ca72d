"""How an operator is executed, one item at a time.

A kernel is the executable side of a kind. It holds no data between items: whatever an
operator remembers is in a *state* that the engine keeps (one per key, or one in all),
hands in, and may store away between two items.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, TypeAlias

State: TypeAlias = Any  # picklable; changed in place by the kernel
Outputs: TypeAlias = Sequence[Any]  # items; (output port, item) if the kernel is routed


class Kernel(ABC):
    """The base: without state, punctuations pass through.

    `stateful`: `open` gives a fresh state.
    `routed`: outputs are pairs of an output port and an item.
    `forwards_punctuation`: a punctuation goes on to the consumers.
    `handles_punctuation`: `punctuation(state)` is asked at each of them, by key order.
    `finishes`: `finish(state)` may have outputs.
    `forwards_clock`: an advance of the clock goes on where a punctuation would.
    `handles_clock`: `advance(state, sign, port)` is asked at each of them.
    `makes_clock`: there are advances among the outputs.
    """

    stateful: ClassVar[bool] = False
    routed: ClassVar[bool] = False
    forwards_punctuation: bool = True
    handles_punctuation: bool = False
    finishes: bool = False
    forwards_clock: bool = True
    handles_clock: bool = False
    makes_clock: bool = False

    def open(self) -> State:
        """Return the state before the first item."""
        return None

    @abstractmethod
    def process(self, state: State, item: Any, port: int) -> Outputs:
        """Return the outputs for one item that came in on `port`."""

    def punctuation(self, state: State) -> Outputs:
        """Return the outputs at a window punctuation."""
        return ()

    def finish(self, state: State) -> Outputs:
        """Return the outputs at the end of the stream."""
        return ()

    def advance(
        self, state: State, sign: Any, port: int
    ) -> Iterator[Callable[[], Outputs]]:
        """Yield the steps of an advance of the clock, each of which may fail by itself."""
        return iter(())

    def endings(
        self, key: Any, state: State
    ) -> Iterator[tuple[Any, Callable[[], Outputs]]]:
        """Yield the steps of the end, each of which may fail, with the key it is for."""
        yield key, partial(self.finish, state)
