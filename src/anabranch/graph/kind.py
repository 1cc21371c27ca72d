"""The base classes of all kinds of operators, sources and sinks.

A kind is frozen data that says *what the user wrote*. It has no running state: its
kernel, next to it in `anabranch.operators`, executes it, and its traits say what may be
assumed about it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from anabranch.graph.traits import ANY, ONE, Traits, keep_nothing, keep_one_state

if TYPE_CHECKING:
    from anabranch.graph.graph import Op


class UserCode(NamedTuple):
    """A user's function and its role in its operator."""

    role: str
    function: Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Kind:
    """The base of every kind of operator.

    `keyable` kinds partition their state by key on a keyed stream.
    """

    label: ClassVar[str] = "operator"
    keyable: ClassVar[bool] = False

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        """The user's functions, each with its role."""
        return ()

    @property
    def outputs(self) -> int:
        """The number of output streams of the operator."""
        return 1

    def traits(self, op: Op) -> Traits:
        """Return the traits of `op`, of this kind, if its code is pure."""
        text = f"nothing is known about operators of kind {self.label}"
        return keep_one_state(op, text, ANY)


@dataclass(frozen=True, eq=False)
class SourceKind(Kind):
    """The base of every source."""

    label: ClassVar[str] = "source"

    @property
    def live(self) -> bool:
        """Whether only `stop()` ends it; an endless generator cannot say so."""
        return False

    @property
    def in_parallel(self) -> bool:
        """Whether several workers can read it at once."""
        return True

    def traits(self, op: Op) -> Traits:
        return keep_nothing(op, ONE, in_parallel=self.in_parallel)


@dataclass(frozen=True, eq=False)
class SinkKind(Kind):
    """The base of every kind of sink."""

    label: ClassVar[str] = "sink"

    @property
    def outputs(self) -> int:
        return 0
