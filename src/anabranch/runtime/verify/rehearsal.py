"""Repeats a few items in another order and compares the results.

A function without state gives the same result for the same item at any time. It leaves
the item unchanged, and its earlier outputs. Some of the items that passed a program go
through its operators again, one after the other: forwards, then backwards. Only items
that can be inspected are used, so that nothing is consumed.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import fractions
import uuid
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from logging import Logger
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from anabranch.graph.declarations import declaration_of, is_trusted
from anabranch.graph.graph import Edge, Graph
from anabranch.operators.kernel import Kernel
from anabranch.operators.stateless import Filter, FlatMap, Map
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.verify.fingerprint import Reach, attributes_of, is_users

Entry: TypeAlias = Edge | str
Outcome: TypeAlias = tuple[Any, ...]  # the outputs for an item, as plain values

_EXACT: frozenset[type] = frozenset(
    [
        *(int, bool, str, bytes, type(None), dt.date, dt.datetime, dt.time),
        *(dt.timedelta, decimal.Decimal, fractions.Fraction, uuid.UUID),
    ]
)
_BY_TEXT: frozenset[type] = frozenset([float, complex, range, slice])
_SEQUENCES: tuple[Any, ...] = (list, tuple, deque)
_USED_UP = (
    dict,
    set,
    frozenset,
    Iterator,
    BaseException,
)  # or with more than one order
_MOST_PARTS = 300  # parts of an item; larger ones are skipped
_DEEPEST = 20
_LOGGING = "logging"  # a repeated log entry would be seen twice


class OpaqueError(Exception):
    """Raised for an object that cannot be inspected without consuming it."""


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


def describe_value(value: Any) -> Outcome:
    """Return an object as plain values, without running user code.

    >>> describe_value({"a": [1.0]}) == describe_value({"a": [1]})
    False
    """
    return _describe(value, [0], 0)


def _describe(value: Any, parts: list[int], depth: int) -> Outcome:
    kind = type(value)
    name = kind.__qualname__
    parts[0] += 1
    if parts[0] > _MOST_PARTS or depth > _DEEPEST:
        raise OpaqueError
    if kind in _EXACT:
        return (name, value)
    if kind in _BY_TEXT:
        return (name, repr(value))
    if isinstance(value, enum.Enum) and not kind.__module__.startswith("anabranch."):
        return (name, value.name)
    if isinstance(value, np.generic) or kind is np.ndarray:
        return _describe_array(value)
    if kind in (set, frozenset):
        found = [_describe(each, parts, depth + 1) for each in value]
        return (name, *sorted(found, key=repr))
    inside = _parts_of(kind, value)
    return (name, *(_describe(each, parts, depth + 1) for each in inside))


def _parts_of(kind: Any, value: Any) -> Iterable[Any]:
    """Return an object's parts, in an order that depends on it alone."""
    if kind is dict:
        return (each for pair in dict.items(value) for each in pair)
    if kind in _SEQUENCES:
        return list(kind.__iter__(value))
    if not is_users(kind) or issubclass(kind, _USED_UP):
        raise OpaqueError
    base = next((each for each in _SEQUENCES if issubclass(kind, each)), None)
    own = (each for pair in sorted(attributes_of(value).items()) for each in pair)
    return own if base is None else [*base.__iter__(value), *own]


def _describe_array(value: Any) -> Outcome:
    if value.dtype.hasobject:
        raise OpaqueError
    data = np.ascontiguousarray(value).tobytes()
    return (value.dtype.str, value.shape, zlib.crc32(data), len(data))


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
        what = f"what it gives for {_show(sample.item)}"
        return Difference(
            sample.operator, what, _show_outcome(sample.outcome), _show_outcome(here)
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
                after = _show(item)
                what = "an item that it was given"
                return Difference(name, what, _show_outcome(before), after), []
            asked.append((item, before, outcome, outputs))
        for item, _, outcome, outputs in asked:
            if outcome[0] != _RAISED and _outcome_of(outputs) != outcome:
                what = f"what it has given for {_show(item)}"
                now = _show_outcome(_outcome_of(outputs))
                return Difference(name, what, _show_outcome(outcome), now), []
        for item, _, outcome, _ in reversed(asked):
            again = _ask(kernel, item)[0]
            if again != outcome:
                what = f"what it gives for {_show(item)}"
                shown = (_show_outcome(outcome), _show_outcome(again))
                return Difference(name, what, *shown), []
        if asked and name not in self._sampled:
            self._sampled.add(name)
            self.samples[name] = Sample(name, asked[0][0], asked[0][2])
        return None, [one for *_, outputs in asked for one in outputs]


_RAISED = "raised"


def _ask(kernel: Kernel, item: Any) -> tuple[Outcome, list[Any]]:
    """Return an operator's outputs for an item, described and as objects."""
    try:
        outputs = list(kernel.process(None, item, 0))
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything
        return (_RAISED, type(error).__qualname__), []
    return _outcome_of(outputs), outputs


def _outcome_of(outputs: Sequence[Any]) -> Outcome:
    return ("gave", *map(describe_value, outputs))


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


def _show(value: Any) -> str:
    try:
        return _show_outcome(describe_value(value))
    except OpaqueError:
        return f"a {type(value).__name__}"


def _show_outcome(outcome: Outcome) -> str:
    """Return an outcome in words.

    >>> _show_outcome(("gave", ("list", ("int", 1), ("str", "a"))))
    "[1, 'a']"
    """
    name, *rest = outcome
    if name == "gave":
        return ", ".join(map(_show_outcome, rest)) or "nothing"
    if name == _RAISED:
        return f"{rest[0]} raised"
    if name in ("list", "tuple", "set", "dict", "frozenset", "deque"):
        text = f"[{', '.join(map(_show_outcome, rest))}]"
    elif len(rest) == 1 and not isinstance(rest[0], tuple):
        text = rest[0] if name in ("float", "complex") else repr(rest[0])
    else:
        text = f"a {name}"
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004


Rehearse: TypeAlias = Callable[
    [Sequence[Entry], Collection[str], Sequence[Any], "Sequence[int] | None", float],
    None,
]
