"""The stateless operators: their kinds and kernels, and the punctuation mark."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from numbers import Integral
from typing import Any, ClassVar

from anabranch.errors import OperatorError
from anabranch.graph.graph import Op
from anabranch.graph.kind import (
    ANY,
    AT_MOST_ONE,
    ONE,
    Kind,
    Push,
    Traits,
    UserCode,
    keep_nothing,
)
from anabranch.graph.site import site_of
from anabranch.operators.copied import copy_output
from anabranch.operators.kernel import Kernel, Outputs, State


@dataclass(frozen=True, eq=False)
class Map(Kind):
    """One output per item: `function(item)`."""

    function: Callable[[Any], Any]
    label: ClassVar[str] = "map"

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return (UserCode("function", self.function),)

    def traits(self, op: Op) -> Traits:
        return keep_nothing(op, ONE, punctuation="preserving")


@dataclass(frozen=True, eq=False)
class Filter(Kind):
    """The item itself if `predicate(item)` is true, else nothing."""

    predicate: Callable[[Any], bool]
    label: ClassVar[str] = "filter"

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return (UserCode("predicate", self.predicate),)

    def traits(self, op: Op) -> Traits:
        return keep_nothing(op, AT_MOST_ONE, forwards=None, punctuation="preserving")


@dataclass(frozen=True, eq=False)
class FlatMap(Kind):
    """Every item of `function(item)`, in order."""

    function: Callable[[Any], Any]
    label: ClassVar[str] = "flat_map"

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return (UserCode("function", self.function),)

    def traits(self, op: Op) -> Traits:
        return keep_nothing(op, ANY, punctuation="preserving")


@dataclass(frozen=True, eq=False)
class Punctuate(Kind):
    """The item, followed by a window punctuation if `when(item)` is true."""

    when: Callable[[Any], bool]
    label: ClassVar[str] = "punctuate"

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return (UserCode("when", self.when),)

    def traits(self, op: Op) -> Traits:
        return keep_nothing(op, Push(1, 2), forwards=None, punctuation="generating")


@dataclass(frozen=True, eq=False)
class Split(Kind):
    """The item on the output streams that `route(item)` names by index."""

    route: Callable[[Any], Any]
    branches: int
    label: ClassVar[str] = "split"

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return (UserCode("route", self.route),)

    @property
    def outputs(self) -> int:
        return self.branches

    def traits(self, op: Op) -> Traits:
        push = Push(0, self.branches)
        return keep_nothing(op, push, forwards=None, punctuation="preserving")


def describe_function(function: Any) -> str:
    """Return the name of a user's function in messages.

    >>> def hot(x): return x > 30
    >>> describe_function(hot).startswith("hot (")
    True
    """
    while hasattr(function, "func"):  # functools.partial
        function = function.func
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{name.rpartition('<locals>.')[2]} ({site_of(function)})"


class Punctuation(Enum):
    """Marks in a stream that are not items."""

    WINDOW = "window"


WINDOW = Punctuation.WINDOW


class MapKernel(Kernel):
    def __init__(self, kind: Map, *, copied: bool = False) -> None:
        self.function = kind.function
        self._copied = copied

    def process(self, state: State, item: Any, port: int) -> Outputs:
        output = self.function(item)
        return (copy_output(output) if self._copied else output,)


class FilterKernel(Kernel):
    def __init__(self, kind: Filter) -> None:
        self.predicate = kind.predicate

    def process(self, state: State, item: Any, port: int) -> Outputs:
        return (item,) if self.predicate(item) else ()


class FlatMapKernel(Kernel):
    def __init__(self, kind: FlatMap, *, copied: bool = False) -> None:
        self.function = kind.function
        self.copied = copied

    def process(self, state: State, item: Any, port: int) -> Outputs:
        return finite(self.function(item), self.function, copied=self.copied)


class PunctuateKernel(Kernel):
    def __init__(self, kind: Punctuate) -> None:
        self.when = kind.when

    def process(self, state: State, item: Any, port: int) -> Outputs:
        return (item, WINDOW) if self.when(item) else (item,)


class SplitKernel(Kernel):
    routed = True

    def __init__(self, kind: Split) -> None:
        self.kind = kind

    def process(self, state: State, item: Any, port: int) -> Outputs:
        return [(branch, item) for branch in routes(self.kind, item)]


class PassKernel(Kernel):
    """A union: items pass unchanged, but the punctuations of several streams mean
    nothing.
    """

    forwards_punctuation = False

    def process(self, state: State, item: Any, port: int) -> Outputs:
        return (item,)


def finite(outputs: Any, function: Any, *, copied: bool = False) -> list[Any]:
    """Return the outputs of a prolific function as a list, as they are when given.

    An item succeeds or fails as a whole: if the function fails half-way, none of its
    earlier outputs have been passed on.
    """
    if outputs is None:
        msg = (
            f"{describe_function(function)} must give an iterable of outputs; got None; "
            f"is a return or a yield missing?"
        )
        raise OperatorError(msg)
    return [*map(copy_output, outputs)] if copied else list(outputs)


def routes(kind: Split, item: Any) -> tuple[int, ...]:
    """Return the output streams that `route` names for an item, each once."""
    named = kind.route(item)
    if isinstance(named, Integral):
        chosen: tuple[Any, ...] = (named,)
    elif isinstance(named, Iterable) and not isinstance(named, str):
        chosen = tuple(dict.fromkeys(named))
    else:
        raise OperatorError(_describe_route(kind, named))
    for branch in chosen:
        if not isinstance(branch, Integral) or not 0 <= int(branch) < kind.branches:
            raise OperatorError(_describe_route(kind, branch))
    return chosen


def _describe_route(kind: Split, given: Any) -> str:
    return (
        f"route must give one or several indices from 0 to {kind.branches - 1}; got "
        f"{given!r}; see {describe_function(kind.route)}"
    )
