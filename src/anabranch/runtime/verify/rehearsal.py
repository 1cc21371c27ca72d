"""Repeats a few items in another order and compares the results.

A function without state gives the same result for the same item at any time. It leaves
the item unchanged, and its earlier outputs. Some of the items that passed a program go
through its operators again, one after the other: forwards, then backwards. Only items
that can be inspected are used, so that nothing is consumed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from logging import Logger
from typing import Any, NamedTuple, TypeAlias

from anabranch.graph.declarations import declaration_of, is_trusted
from anabranch.graph.graph import Edge, Graph
from anabranch.operators.kernel import Kernel
from anabranch.operators.stateless import Filter, FlatMap, FlatMapKernel, Map
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.verify.describe import (
    RAISED,
    OpaqueError,
    Outcome,
    describe_value,
    outcome_of,
    show,
    show_outcome,
)
from anabranch.runtime.verify.fingerprint import Reach
from anabranch.runtime.verify.given import refute_given

Entry: TypeAlias = Edge | str
_LOGGING = "logging"  # a repeated log entry would be seen twice


class Difference(NamedTuple):
    """Something that an operator should have left unchanged."""

    operator: str
    what: str
    before: str
    after: str


class Sample(NamedTuple):
    """An operator's input item and its outputs, for another process."""

    operator: str
    item: Any
    outcome: Outcome


class Rehearsal:
    """The operators of a process that can be repeated."""

    def __init__(self, graph: Graph, operators: Iterable[str]) -> None:
        self._graph = graph
        self._operators = frozenset(operators)
        self._kernels: dict[str, Kernel | None] = {}
        self.samples: dict[str, Sample] = {}  # by operator, not yet taken
        self._sampled: set[str] = set()

    def find(
        self, entry: Entry, operators: Collection[str], items: Sequence[Any]
    ) -> Difference | None:
        """Return the first difference on the path of some input items."""
        if isinstance(entry, Edge):
            first: tuple[str, ...] = (entry.consumer.operator,)
        else:
            first = self._graph.consumers(entry)
        waiting = [(name, items) for name in first]
        while waiting:
            name, given = waiting.pop()
            kernel = self._kernel(name) if name in operators else None
            if kernel is None:
                continue
            found, outputs = self._repeat(name, kernel, given)
            if found is not None:
                return found
            waiting += [(one, outputs) for one in self._graph.consumers(name)]
        return None

    def repeat(self, sample: Sample) -> Difference | None:
        """Return how another process's result for an item differs from this one's."""
        kernel = self._kernel(sample.operator)
        if kernel is None:
            return None
        try:
            here = _ask(kernel, sample.item)[0]
        except OpaqueError:
            return None
        if here == sample.outcome:
            return None
        what = f"what it gives for {show(sample.item)}"
        return Difference(
            sample.operator, what, show_outcome(sample.outcome), show_outcome(here)
        )

    def _kernel(self, name: str) -> Kernel | None:
        """Return the kernel of an operator, if it may be called more than once."""
        if name not in self._kernels:
            op = self._graph[name]
            plain = isinstance(op.kind, Map | Filter | FlatMap) and op.timing is None
            usable = plain and name in self._operators and _may_be_repeated(op.kind)
            self._kernels[name] = kernel_of(op) if usable else None
        return self._kernels[name]

    def _repeat(
        self, name: str, kernel: Kernel, items: Sequence[Any]
    ) -> tuple[Difference | None, list[Any]]:
        asked: list[tuple[Any, Outcome, Outcome, list[Any]]] = []
        for item in items:
            try:
                before = describe_value(item)
                outcome, outputs = _ask(kernel, item)
            except OpaqueError:
                continue
            if describe_value(item) != before:
                after = show(item)
                what = "an item that it was given"
                return Difference(name, what, show_outcome(before), after), []
            asked.append((item, before, outcome, outputs))
        for _, _, outcome, outputs in asked:
            if outcome[0] != RAISED and outcome_of(outputs) != outcome:
                raise refute_given(self._graph[name], outcome, outcome_of(outputs))
        for item, _, outcome, _ in reversed(asked):
            again = _ask(kernel, item)[0]
            if again != outcome:
                what = f"what it gives for {show(item)}"
                shown = (show_outcome(outcome), show_outcome(again))
                return Difference(name, what, *shown), []
        if asked and name not in self._sampled:
            self._sampled.add(name)
            self.samples[name] = Sample(name, asked[0][0], asked[0][2])
        return None, [one for *_, outputs in asked for one in outputs]


def _run(kernel: Kernel, item: Any) -> Iterable[Any]:
    """Return an operator's outputs for an item; those of a flat_map one by one."""
    if isinstance(kernel, FlatMapKernel) and not kernel.copied:
        outputs: Iterable[Any] = kernel.function(item)
        return outputs
    return kernel.process(None, item, 0)


def _ask(kernel: Kernel, item: Any) -> tuple[Outcome, list[Any]]:
    """Return an operator's outputs for an item, described as they come and as
    objects.
    """
    outputs: list[Any] = []
    described: list[Outcome] = []
    try:
        for each in _run(kernel, item):
            described.append(describe_value(each))
            outputs.append(each)
    except OpaqueError:
        raise
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything
        return (RAISED, type(error).__qualname__), []
    return ("gave", *described), outputs


def _may_be_repeated(kind: Any) -> bool:
    """Tell whether code may be repeated: none of it is declared, and no effect is
    visible.
    """
    reach = Reach([code.function for code in kind.user_code])
    if _LOGGING in reach.modules or any(map(is_trusted, reach.modules)):
        return False
    return not any(isinstance(x, Logger) or _is_believed(x) for x in reach.found)


def _is_believed(one: Any) -> bool:
    if not callable(one) or not hasattr(one, "__anabranch__"):
        return is_trusted(getattr(type(one), "__module__", None) or "")
    return declaration_of(one).state is not None


Rehearse: TypeAlias = Callable[
    [Sequence[Entry], Collection[str], Sequence[Any], "Sequence[int] | None", float],
    None,
]
