"""Kernels of the operators that remember nothing."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from anabranch.errors import OperatorError
from anabranch.graph.kinds import (
    Filter,
    FlatMap,
    Map,
    Punctuate,
    Split,
    shown,
)
from anabranch.runtime.kernels.kernel import Kernel, Outputs, State
from anabranch.runtime.punctuation import WINDOW


class MapKernel(Kernel):
    def __init__(self, kind: Map) -> None:
        self.function = kind.function

    def process(self, state: State, item: Any, port: int) -> Outputs:
        return (self.function(item),)


class FilterKernel(Kernel):
    def __init__(self, kind: Filter) -> None:
        self.predicate = kind.predicate

    def process(self, state: State, item: Any, port: int) -> Outputs:
        return (item,) if self.predicate(item) else ()


class FlatMapKernel(Kernel):
    def __init__(self, kind: FlatMap) -> None:
        self.function = kind.function

    def process(self, state: State, item: Any, port: int) -> Outputs:
        return finite(self.function(item), self.function)


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
    """A union: what comes goes, but the punctuations of several streams mean nothing."""

    forwards_punctuation = False

    def process(self, state: State, item: Any, port: int) -> Outputs:
        return (item,)


def finite(outputs: Any, function: Any) -> list[Any]:
    """Return the outputs of a prolific function as a list.

    An item counts wholly or not at all: if the function fails on the way, nothing of
    what it gave before has been passed on.
    """
    if outputs is None:
        msg = (
            f"{shown(function)} must give an iterable of outputs; got None; "
            f"is a return or a yield missing?"
        )
        raise OperatorError(msg)
    return list(outputs)


def routes(kind: Split, item: Any) -> tuple[int, ...]:
    """Return the output streams that `route` names for an item, each once."""
    named = kind.route(item)
    chosen = (named,) if isinstance(named, Integral) else tuple(dict.fromkeys(named))
    for branch in chosen:
        if not 0 <= branch < kind.branches:
            msg = (
                f"route must give indices from 0 to {kind.branches - 1}; got {branch}; "
                f"see {shown(kind.route)}"
            )
            raise OperatorError(msg)
    return chosen
