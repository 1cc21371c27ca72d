"""Cuts: a unit run by two Python workers of one task, one behind the other.

A threaded port of the paper is, on Spark, a cut between two chained `mapInArrow`: the
first worker runs the operators before it and hands each chunk on at once, so that the
two overlap. Behind the cut are an operator and all that it leads to; where several
streams lead there, what a chunk gave on them is put in order by position. Only the second one saves states: it gets the changes of the first with
the last row, and writes both in one transaction, as if there had been no cut.
"""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.engines.spark.layout import Layout, Unit
from anabranch.graph.graph import Edge


@dataclass(frozen=True)
class Halves:
    """The operators before and behind a cut, and the streams between them."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    between: tuple[Edge, ...]


def halves_of(layout: Layout, unit: Unit, operator: str) -> Halves:
    """Return the two halves of a unit that is cut before an operator."""
    graph = layout.graph
    behind = behind_cut(layout, unit, operator)
    first = tuple(name for name in unit.operators if name not in behind)
    second = tuple(name for name in unit.operators if name in behind)
    between = tuple(
        edge
        for name in first
        for edge in graph.out_edges(name)
        if edge.consumer.operator in behind
    )
    return Halves(first, second, between)


def why_not_cut(layout: Layout, operator: str) -> str | None:
    """Return why there can be no cut before an operator, or None."""
    unit = layout.unit_of.get(operator)
    if unit is None:
        return f"there is no operator {operator} that runs in a worker"
    if unit.in_driver:
        return f"{operator} runs in the driver"
    if unit.period > 1:
        return f"{operator} is in an element that takes {unit.period} items at a time"
    graph = layout.graph
    if not set(graph.producers(operator)).intersection(unit.operators):
        return f"{operator} begins its element: there is nothing before it"
    behind = behind_cut(layout, unit, operator)
    for edge in graph.edges:
        producer = edge.producer.operator
        if edge.consumer.operator in behind and producer not in {
            *behind,
            *unit.operators,
        }:
            return f"{operator} and what follows it also read {producer} elsewhere"
    return None


def behind_cut(layout: Layout, unit: Unit, operator: str) -> set[str]:
    """Return what would be behind a cut: an operator and all that it leads to within its unit."""
    behind = {operator}
    for name in unit.operators:
        if behind.intersection(layout.graph.producers(name)):
            behind.add(name)
    return behind
