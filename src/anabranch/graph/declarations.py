"""The user's declarations about code that the analysis cannot read.

A declaration is stored on the function or class itself, so that it is sent with it; the
trusted packages are a set of names, since they concern code, not a program.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.machinery import PathFinder
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

    A name that cannot be imported here is a warning: it may be a slip.

    >>> import anabranch as ab
    >>> ab.trust("wave")
    >>> ab.graph.declarations.is_trusted("wave.reader")
    True
    """
    for package in packages:
        if not isinstance(package, str) or not all(
            part.isidentifier() for part in package.split(".")
        ):
            msg = f"trust takes names of packages, such as 'shapely'; got {package!r}"
            raise ArgumentError(msg)
        if not _is_found(package):
            msg = f"trust: no module {package!r} is found here{_suggest(package)}"
            warnings.warn(msg, stacklevel=2)
        _trusted.add(package)


def _is_found(module: str) -> bool:
    """Tell whether a module is loaded or could be; loads nothing.

    >>> _is_found("xml.etree"), _is_found("xml.etre")
    (True, False)
    """
    parts = module.split(".")
    places: Iterable[str] | None = None
    for n in range(1, len(parts) + 1):
        name = ".".join(parts[:n])
        if name in sys.modules:
            places = getattr(sys.modules[name], "__path__", ())
            continue
        inside = [*(places or ())]
        find = importlib.util.find_spec
        spec = find(name) if n == 1 else PathFinder.find_spec(name, inside)
        if spec is None:
            return False
        places = spec.submodule_search_locations
    return True


def _suggest(module: str) -> str:
    """Return the importable name that was probably meant, as part of a message.

    >>> _suggest("nunpy")
    "; did you mean 'numpy'?"
    """
    first = module.partition(".")[0]
    if _is_found(first):
        within = [name for name in sys.modules if name.startswith(f"{first}.")]
        return _say_nearest(module, within)
    installed = importlib.metadata.packages_distributions()
    for package, distributions in installed.items():
        names = [each.lower().replace("-", "_") for each in distributions]
        if first.lower() in names and not package.startswith("_"):
            return f"; did you mean {package!r}?"
    others = {name.partition(".")[0] for name in sys.modules}
    return _say_nearest(first, installed) or _say_nearest(
        first, others | sys.stdlib_module_names
    )


def _say_nearest(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, [*names], 1, 0.75)
    return f"; did you mean {near[0]!r}?" if near else ""


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
