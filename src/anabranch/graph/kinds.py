"""What an operator does: the base of all kinds, and the stateless ones.

A kind is frozen data that says *what the user wrote*. It has no running state: how it
is executed is told by `anabranch.runtime.kernels`, and what may be assumed about it by
`anabranch.analysis.traits`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from anabranch.graph.site import site_of


class UserCode(NamedTuple):
    """A function of the user's and the part it plays in its operator."""

    role: str
    function: Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Kind:
    """The base of every kind of operator.

    `keyable` kinds keep their state apart per key when they stand on a keyed stream.
    """

    label: ClassVar[str] = "operator"
    keyable: ClassVar[bool] = False

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        """The user's functions, each with its role."""
        return ()

    @property
    def outputs(self) -> int:
        """How many output streams the operator has."""
        return 1


@dataclass(frozen=True, eq=False)
class Map(Kind):
    """One output for each item: `function(item)`."""

    function: Callable[[Any], Any]
    label: ClassVar[str] = "map"

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return (UserCode("function", self.function),)


@dataclass(frozen=True, eq=False)
class Filter(Kind):
    """The item itself where `predicate(item)` is true, else nothing."""

    predicate: Callable[[Any], bool]
    label: ClassVar[str] = "filter"

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return (UserCode("predicate", self.predicate),)


@dataclass(frozen=True, eq=False)
class FlatMap(Kind):
    """Every item of `function(item)`, in order."""

    function: Callable[[Any], Any]
    label: ClassVar[str] = "flat_map"

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return (UserCode("function", self.function),)


@dataclass(frozen=True, eq=False)
class Punctuate(Kind):
    """The item; then a window punctuation where `when(item)` is true."""

    when: Callable[[Any], bool]
    label: ClassVar[str] = "punctuate"

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return (UserCode("when", self.when),)


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


@dataclass(frozen=True, eq=False)
class Union(Kind):
    """The items of all inputs in the order in which they arrive."""

    label: ClassVar[str] = "union"


@dataclass(frozen=True, eq=False)
class Merge(Kind):
    """The items of all inputs by ascending `by`; the earlier input first on a tie."""

    by: str
    label: ClassVar[str] = "merge"


@dataclass(frozen=True, eq=False)
class Barrier(Kind):
    """One output for each full set: `into(*items)`, one item of each input."""

    into: Callable[..., Any] | None = None
    label: ClassVar[str] = "barrier"

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return () if self.into is None else (UserCode("into", self.into),)


def shown(function: Any) -> str:
    """Return how a user's function is named in messages.

    >>> def hot(x): return x > 30
    >>> shown(hot).startswith("hot (")
    True
    """
    while hasattr(function, "func"):  # functools.partial
        function = function.func
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{name.rpartition('<locals>.')[2]} ({site_of(function)})"
