"""Operators with state that the user writes: `scan` and `Operator` classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from anabranch.graph.kinds import Kind, UserCode


class Operator:
    """The base class of operators with state; its attributes are its state.

    On a keyed stream each key has an instance of its own, elsewhere there is one in all.

    >>> class Count(Operator):
    ...     def setup(self):
    ...         self.n = 0
    ...     def process(self, item):
    ...         self.n += 1
    ...         yield (self.n, item)
    >>> import anabranch as ab
    >>> out = ab.from_iterable("ab").apply(Count).to_list()
    >>> _ = ab.run(out, on="sequential")
    >>> out.items
    [(1, 'a'), (2, 'b')]
    """

    def setup(self) -> None:
        """Prepare the state; called once, before the first item."""

    def process(self, item: Any) -> Iterable[Any]:
        """Return the outputs for one item."""
        msg = f"{type(self).__name__} must define process(self, item)"
        raise TypeError(msg)

    def punctuation(self) -> Iterable[Any]:
        """Return the outputs at a window punctuation (which is passed on after)."""
        return ()

    def finish(self) -> Iterable[Any]:
        """Return the outputs at the end of the stream."""
        return ()


@dataclass(frozen=True, eq=False)
class Scan(Kind):
    """`step(state, item) -> (state, output)`: one output for each item."""

    step: Callable[[Any, Any], tuple[Any, Any]]
    initial: Any
    label: ClassVar[str] = "scan"
    keyable: ClassVar[bool] = True

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return (UserCode("step", self.step),)


@dataclass(frozen=True, eq=False)
class Apply(Kind):
    """An `Operator` class of the user's, with the arguments of its constructor."""

    operator: type[Operator]
    arguments: tuple[Any, ...] = ()
    keywords: tuple[tuple[str, Any], ...] = ()
    label: ClassVar[str] = "apply"
    keyable: ClassVar[bool] = True

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return (UserCode("operator", self.operator),)

    def instance(self) -> Operator:
        """Return a fresh instance, set up."""
        made = self.operator(*self.arguments, **dict(self.keywords))
        made.setup()
        return made

    def overrides(self, method: str) -> bool:
        """Tell whether the user's class defines `method` itself."""
        return getattr(self.operator, method, None) is not getattr(Operator, method)
