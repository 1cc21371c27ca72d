"""The user's declarations about code that the analysis cannot read.

A declaration is stored on the function or class itself, so that it is sent with it; the
trusted packages are a set of names, since they concern code, not a program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from anabranch.errors import ArgumentError

_ATTRIBUTE = "__anabranch__"
_trusted: set[str] = set()

Declarable = TypeVar("Declarable", bound=Callable[..., Any])


@dataclass(frozen=True)
class Declaration:
    """The declaration of a function or an `Operator`; None where nothing is
    declared.
    """

    state: Literal["stateless", "global"] | None = None
    push: tuple[int, int | None] | None = None
    forwards: frozenset[str] | None = None


def declare(
    *,
    state: Literal["stateless", "global"] | None = None,
    push: tuple[int, int | None] | None = None,
    forwards: Iterable[str] | None = None,
) -> Callable[[Declarable], Declarable]:
    """State what analysis cannot see of a function or an `Operator` class.

    `state="stateless"` says that its calls do not depend on one another, `push` how
    many outputs one item gives, `forwards` which attributes every output has unchanged.
    Declarations are trusted.

    >>> import anabranch as ab
    >>> @ab.declare(state="stateless", push=(0, 1), forwards=("symbol",))
    ... def look_up(trade):
    ...     ...
    >>> look_up.__anabranch__.push
    (0, 1)
    """
    if state not in (None, "stateless", "global"):
        msg = f'state must be "stateless" or "global"; got {state!r}'
        raise ArgumentError(msg)
    if push is not None and not _is_range(push):
        msg = (
            "push must be a pair (least, most) with 0 <= least <= most, and None as "
            f"most where there is no bound; got {push!r}"
        )
        raise ArgumentError(msg)
    if isinstance(forwards, str):
        msg = f"forwards must be a tuple of attribute names; write ({forwards!r},)"
        raise ArgumentError(msg)
    declaration = Declaration(
        state, push, None if forwards is None else frozenset(forwards)
    )

    def mark(target: Declarable) -> Declarable:
        setattr(target, _ATTRIBUTE, declaration)
        return target

    return mark


def declaration_of(target: Any) -> Declaration:
    """Return the declaration of a function or class; for a subclass, of its base.

    >>> declaration_of(len)
    Declaration(state=None, push=None, forwards=None)
    """
    target = getattr(target, "__func__", target)  # a method is declared on its function
    found = getattr(target, _ATTRIBUTE, None)
    return found if isinstance(found, Declaration) else Declaration()


def trust(*packages: str) -> None:
    """Treat calls into packages (or modules) as pure.

    >>> import anabranch as ab
    >>> ab.trust("geo_tables.lookup")
    >>> ab.graph.declarations.is_trusted("geo_tables.lookup.cities")
    True
    """
    for package in packages:
        if not isinstance(package, str) or not all(
            part.isidentifier() for part in package.split(".")
        ):
            msg = f"trust takes names of packages, such as 'shapely'; got {package!r}"
            raise ArgumentError(msg)
        _trusted.add(package)


def is_trusted(module: str) -> bool:
    """Tell whether a module lies in a trusted package.

    >>> is_trusted("some_package_that_nobody_trusts")
    False
    """
    parts = module.split(".")
    return any(".".join(parts[:n]) in _trusted for n in range(1, len(parts) + 1))


def _is_range(push: Any) -> bool:
    match push:
        case (int(least), None):
            return least >= 0
        case (int(least), int(most)):
            return 0 <= least <= most
    return False
