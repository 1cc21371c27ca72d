"""Checks a whole program before anything runs: all faults at once.

If the type of a stream is unknown, nothing is assumed about it.
"""

from __future__ import annotations

from anabranch.errors import Fault, GraphError
from anabranch.graph.graph import Graph
from anabranch.language.checks.files import locations, outputs, paths, sources
from anabranch.language.checks.functions import functions, keys
from anabranch.language.checks.rates import balances, rates, rounds, strays
from anabranch.language.checks.structure import (
    Check,
    Streams,
    cycles,
    inputs,
    names,
    sinks,
)
from anabranch.language.checks.windows import clocks, punctuation, windows
from anabranch.operators.iterate import Iterate

_CHECKS: tuple[Check, ...] = (
    names,
    inputs,
    cycles,
    sources,
    functions,
    keys,
    windows,
    punctuation,
    clocks,
    rates,
    balances,
    rounds,
)


def validate(graph: Graph) -> None:
    """Raise a `GraphError` that lists everything that is wrong with a program.

    >>> import anabranch as ab
    >>> out = ab.from_iterable([1, 2]).window(count=0).aggregate(sum).to_list()
    >>> ab.run(out, on="sequential")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    anabranch.errors.GraphError: the program has 1 fault:
      ...: operator 'aggregate': count of window must be a whole number above 0; got 0...
    """
    faults = faults_of(graph)
    if faults:
        raise GraphError(faults)


def faults_of(graph: Graph) -> tuple[Fault, ...]:
    """Return everything that is wrong with a program, in line order."""
    return _faults(graph, (sinks, locations, paths, outputs, strays, *_CHECKS))


def _faults(graph: Graph, checks: tuple[Check, ...]) -> tuple[Fault, ...]:
    streams = Streams(graph)
    found = [fault for check in checks for fault in check(streams)]
    for op in graph:
        if isinstance(op.kind, Iterate):
            found += _faults(op.kind.body, _CHECKS)
    return tuple(sorted(found, key=lambda fault: (fault.file, fault.line)))
